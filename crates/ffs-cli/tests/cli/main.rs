//! The command as its users run it: every test starts the program.

#![allow(clippy::unwrap_used, clippy::panic)]
mod acl;
mod apps;
mod build;
mod changes;
mod common;
mod conformance;
mod copy;
mod coreutils;
mod dump;
mod fixtures;
mod fsck;
mod growfs;
mod lab;
mod logging;
mod messages;
mod mount;
mod offline;
mod options;
mod overwrite;
mod partitions;
mod quota;
mod sizing;
mod stress;
mod study;
mod study_ends;
