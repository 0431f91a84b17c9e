//! The command as its users run it: every test starts the program.

#![allow(clippy::unwrap_used, clippy::panic)]
mod build;
mod common;
mod conformance;
mod copy;
mod fixtures;
mod fsck;
mod lab;
mod messages;
mod mount;
mod offline;
mod study;
mod study_ends;
