//! Every structure of a damaged volume, and raw bytes, through every parser.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ffs_fuzz::parsers::all(data));
