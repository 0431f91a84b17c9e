//! Daily tasks of the user guide, with other programs as judges of the results: `tests/tasks.sh`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::text;

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ffs"))
}

fn script() -> Command {
    let mut command = Command::new("bash");
    command.arg(here().join("tasks.sh"));
    command
}

#[test]
fn every_task_has_the_result_that_other_programs_expect() {
    let output = script().arg(program()).output().unwrap();
    println!("{}", text(&output));
    assert!(output.status.success(), "a task failed, see above");
}

/// The anchors of a page's headings, as GitHub forms them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        words.chars().filter(|&c| c.is_alphanumeric() || c == '-').collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_task_names_a_section_of_the_guide() {
    let output = script().arg("--list").output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let list = String::from_utf8(output.stdout).unwrap();
    assert!(list.lines().count() >= 40, "{list}");
    let guide = here().join("../../../docs/guide");
    for line in list.lines() {
        let (page, anchor) = line.split_whitespace().nth(2).unwrap().split_once('#').unwrap();
        let text = fs::read_to_string(guide.join(page)).unwrap();
        assert!(anchors(&text).contains(anchor), "no section: {line}");
    }
}

#[test]
fn a_wrong_result_fails_the_script() {
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("ffs");
    // `ffs cat` writes a byte too many.
    let wrapper = "#!/bin/sh\n'FFS' \"$@\" || exit\n[ \"$1\" != cat ] || echo\n";
    fs::write(&broken, wrapper.replace("FFS", program().to_str().unwrap())).unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    for (ffs, code, line) in [(program(), 0, "1 ok, 0 skipped"), (&broken, 1, "FAILED ")] {
        let output = script().arg(ffs).arg("cp_like_cp").output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(text(&output).contains(line), "{}", text(&output));
    }
}
