//! A damaged dump, listed and restored into an empty volume.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ffs_fuzz::dumps::restore(data));
