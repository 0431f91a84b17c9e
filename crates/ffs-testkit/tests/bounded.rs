//! `.ci/bounded` ends what hangs, and passes on how everything else ends.
#![allow(clippy::unwrap_used, reason = "tests stop at surprises")]

use ffs_testkit::repository;
use ffs_testkit::tools::have;
use std::process::{Command, Output};

/// `.ci/bounded LIMIT sh -c SCRIPT`, if its programs exist.
fn bounded(limit: &str, script: &str) -> Option<Output> {
    if !have(&["bash", "ps"]) {
        return None;
    }
    let mut command = Command::new(repository::root().join(".ci/bounded"));
    Some(command.args([limit, "sh", "-c", script]).output().unwrap())
}

#[test]
fn a_command_that_ends_has_its_output_and_exit_code() {
    let Some(out) = bounded("100", "echo done; exit 3") else { return };
    assert_eq!((out.status.code(), &out.stdout[..]), (Some(3), &b"done\n"[..]));
}

#[test]
fn a_command_that_hangs_is_named_and_ended_with_its_children() {
    // The pipe of the output ends with the last process that has it.
    let Some(out) = bounded("1", "sleep 98765 & sleep 98766; echo after") else { return };
    assert_eq!(out.status.code(), Some(1));
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("has not ended after 1 seconds"), "{text}");
    for process in ["sleep 98765\n", "sleep 98766\n"] {
        assert!(text.contains(process), "{text}");
    }
    assert!(!text.ends_with("after\n"), "{text}");
}
