//! Runs the examples.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// Runs an example, which `cargo test` has built, and returns what it prints.
fn run(name: &str, args: &[&OsStr]) -> String {
    let deps = std::env::current_exe().unwrap();
    let built: PathBuf = deps.parent().unwrap().parent().unwrap().join("examples").join(name);
    let output = Command::new(&built).args(args).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_examples_make_fill_list_and_empty_an_image() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).into_os_string();
    let (image, more, out) = (path("image"), path("more"), path("out"));
    std::fs::create_dir(&out).unwrap();
    std::fs::write(&more, "more\n").unwrap();
    run("make", &[&image]);
    assert_eq!(run("put", &[&more, &image, OsStr::new("usr/more")]), "5 bytes\n");
    let listed = run("ls", &[&image, OsStr::new("bin")]);
    assert_eq!(listed, "0755         21 hello\n");
    assert_eq!(run("cat", &[&image, OsStr::new("log")]), "first\nsecond\n");
    assert!(run("du", &[&image]).lines().any(|line| line.ends_with("usr")));
    assert!(run("extract", &[&image, &out]).contains("0 failed"));
    let hello = dir.path().join("out/usr/local/bin/hello");
    assert_eq!(std::fs::read_to_string(hello).unwrap(), "#!/bin/sh\necho hello\n");
    assert!(dir.path().join("out/usr/more").exists());
}
