//! A damaged archive, extracted into an empty volume, or a specification of mtree.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ffs_fuzz::archives::extract(data));
