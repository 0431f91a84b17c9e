//! The command as its users run it: every test starts the program.

mod build;
mod common;
mod conformance;
mod copy;
mod fixtures;
mod mount;
mod offline;
