//! Damaged disk images, compressed files, and NBD peers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ffs_fuzz::containers::run(data));
