//! Recovery of a damaged volume by its damaged journal.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ffs_fuzz::targets::journal(data));
