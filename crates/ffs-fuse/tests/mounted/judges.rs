//! Programs that others wrote as judges: `setcap` and `getcap`, `setfacl` and `getfacl`, Python.

use crate::Test;
use crate::harness::{Image, as_user};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

pub(crate) const TESTS: &[Test] = &[
    ("capabilities_by_setcap", capabilities_by_setcap),
    ("access_lists_by_setfacl", access_lists_by_setfacl),
    ("files_without_names_by_python", files_without_names_by_python),
];

const USER: u32 = 12_345;

/// Runs a program. Returns whether it succeeded, and its output on both channels. `None` if it is
/// not installed.
fn run(dir: &Path, words: &[&str]) -> Option<(bool, String)> {
    let output = Command::new(words[0]).args(&words[1..]).current_dir(dir).output();
    let output = match output {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: there is no {}", words[0]);
            return None;
        }
        output => output.unwrap(),
    };
    let words = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&words).into_owned()))
}

fn capabilities_by_setcap() {
    let image = Image::new();
    let m = image.mount("rw");
    let dir = m.path("");
    fs::write(m.path("program"), b"#!/bin/true\n").unwrap();
    fs::set_permissions(m.path("program"), fs::Permissions::from_mode(0o777)).unwrap();
    let Some(set) = run(&dir, &["setcap", "cap_net_raw+ep", "program"]) else { return m.end() };
    assert!(set.0, "{}", set.1);
    m.end();
    let m = image.mount("rw");
    let get = || run(&dir, &["getcap", "program"]).map_or(String::new(), |(_, words)| words);
    assert!(get().contains("cap_net_raw=ep"), "{}", get());
    assert!(as_user(USER, &dir, "getcap program").status.success());
    assert!(as_user(USER, &dir, "echo more >> program").status.success());
    assert_eq!(get(), "", "a write by another takes them");
    m.end();
}

fn access_lists_by_setfacl() {
    let plain = Image::new();
    let flagged = Image::new();
    let acls = TunefsOptions { acls: Some(true), ..TunefsOptions::default() };
    tunefs(&*flagged.device(true), &acls).unwrap();
    for (image, options, there) in [
        (&flagged, "rw", true),
        (&flagged, "noacls", false),
        (&flagged, "noacls,acls", true),
        (&plain, "rw", false),
        (&plain, "acls", true),
    ] {
        let m = image.mount(options);
        let dir = m.path("");
        fs::write(m.path("f"), b"secret").unwrap();
        fs::set_permissions(m.path("f"), fs::Permissions::from_mode(0o600)).unwrap();
        let who = format!("u:{USER}:r");
        let Some((set, words)) = run(&dir, &["setfacl", "-m", &who, "f"]) else { return m.end() };
        assert_eq!(set, there, "{options}: {words}");
        assert_eq!(as_user(USER, &dir, "cat f").status.success(), there, "{options}");
        let (_, shown) = run(&dir, &["getfacl", "-n", "f"]).unwrap();
        assert_eq!(shown.contains(&format!("user:{USER}:r--")), there, "{options}: {shown}");
        fs::remove_file(m.path("f")).unwrap();
        m.end();
    }
}

/// `os.link` follows the link of `/proc` only if it is given a directory.
const TMPFILE: &str = "
import os
fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o640)
os.write(fd, b'content')
os.fsync(fd)
assert os.fstat(fd).st_nlink == 0 and os.listdir('.') in ([], ['.snap'])
root = os.open('/', os.O_PATH)
os.link(f'/proc/self/fd/{fd}', 'named', src_dir_fd=root, follow_symlinks=True)
assert open('named', 'rb').read() == b'content' and os.fstat(fd).st_nlink == 1
";

fn files_without_names_by_python() {
    let image = Image::new();
    for options in ["softdep", "sync", "async"] {
        let m = image.mount(options);
        let Some(done) = run(&m.path(""), &["python3", "-c", TMPFILE]) else { return m.end() };
        assert!(done.0, "{options}: {}", done.1);
        fs::remove_file(m.path("named")).unwrap();
        m.end();
    }
}
