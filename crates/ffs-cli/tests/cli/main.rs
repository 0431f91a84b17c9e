//! The command as its users run it: every test starts the program.

#![allow(clippy::unwrap_used, clippy::panic)]
mod apps;
mod build;
mod common;
mod conformance;
mod copy;
mod fixtures;
mod lab;
mod messages;
mod mount;
mod offline;
mod stress;
mod study;
mod study_ends;
