//! Mounts a damaged volume by force, works on it, unmounts.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ffs_fuzz::targets::mount_work(data));
