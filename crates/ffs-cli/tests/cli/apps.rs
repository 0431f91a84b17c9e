//! Applications after a loss of power, on ffs. Programs that break their own promises show that the
//! laboratory detects a broken promise.

use crate::common::{Dir, fails, is_root, ok, run, text};
use std::path::Path;
use std::process::Command;

fn possible() -> bool {
    let python = Command::new("python3").arg("--version").output();
    let possible = is_root() && Path::new("/dev/fuse").exists() && python.is_ok();
    if !possible {
        println!("skipped: needs root, /dev/fuse and python3");
    }
    possible
}

/// The rows of a run as JSON; it must exit with `code`.
fn rows(words: &[&str], code: i32) -> Vec<serde_json::Value> {
    let mut all = vec!["lab", "apps", "--json", "--steps", "8", "--states", "16"];
    all.extend(words);
    let output = run(&all);
    assert_eq!(output.status.code(), Some(code), "{all:?}: {}", text(&output));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count(row: &serde_json::Value, name: &str) -> u64 {
    row[name].as_u64().unwrap()
}

#[test]
fn programs_that_sync_find_what_they_acknowledged() {
    if !possible() {
        return;
    }
    let names = ["editor-backup", "editor-link", "dpkg", "sqlite-wal-full"];
    let mut words = names.to_vec();
    words.extend(["--side", "ffs", "--side", "ffs:stable"]);
    for row in rows(&words, 0) {
        if row["skipped"].is_null() {
            assert!(count(&row, "states") > 8, "{row}");
            assert_eq!(count(&row, "broken"), 0, "{row}");
            assert!(row["promise"] != "durable" || count(&row, "lost") == 0, "{row}");
        }
    }
}

/// git syncs its objects and not their directories. With `fsync=file` a reference names objects
/// that are missing after a crash, and the laboratory detects it.
#[test]
fn an_fsync_makes_older_names_durable_but_with_fsync_file() {
    if !possible() {
        return;
    }
    if Command::new("git").arg("--version").output().is_err() {
        return println!("skipped: needs git");
    }
    let all = rows(&["git-all", "--side", "ffs", "--side", "ffs:fsync=file"], 1);
    let [all_names, file] = &all[..] else { panic!("{all:?}") };
    assert_eq!(count(all_names, "broken"), 0, "{all_names}");
    assert!(count(file, "broken") > 0, "{file}");
}

/// Deliveries whose directory is not synced are lost. A replay of the recording shows it again.
#[test]
fn a_lost_step_is_seen_and_seen_again() {
    if !possible() {
        return;
    }
    let d = Dir::new();
    let keep = d.str("keep");
    let all = rows(&["editor-rename_nofsync", "--side", "ffs", "--keep", &keep], 0);
    let [row] = &all[..] else { panic!("{all:?}") };
    assert!(count(row, "lost") > 0 && count(row, "lost_most") > 0, "{row}");
    let state = row["first_lost"]["state"].as_str().unwrap();
    let recording = format!("{keep}/editor-rename_nofsync@ffs");
    let again = run(&["lab", "apps", "--replay", &recording, "--state", state]);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again));
    assert!(text(&again).contains("acknowledged steps missing"), "{}", text(&again));
    // The crash state is kept as an image.
    ok(&["fsck", "-p", &format!("{recording}/state")]);
    fails(&["lab", "apps", "--replay", &recording, "--state", "99999:p0"], 64, "no state");
}

#[test]
fn what_cannot_be_run_is_explained() {
    if !possible() {
        return;
    }
    assert!(ok(&["lab", "apps", "--list"]).contains("editor-rename"));
    fails(&["lab", "apps", "sqlit3"], 64, "no program 'sqlit3'");
    fails(&["lab", "apps", "maildir", "--side", "zfs"], 64, "expected ffs, ext4");
}
