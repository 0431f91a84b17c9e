//! Repairs a damaged volume; a second look must find nothing, and it must be good to work on.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ffs_fuzz::targets::fsck_twice(data));
