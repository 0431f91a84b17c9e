//! Mounting by the command; skipped where FUSE is not allowed.

use crate::common::{Dir, assert_same, fails, fsck_clean, is_root, make_tree, ok, run, text};
use std::fs;
use std::path::Path;

fn fuse() -> bool {
    let possible = is_root() && Path::new("/dev/fuse").exists();
    if !possible {
        println!("skipped: mounting needs root and /dev/fuse");
    }
    possible
}

#[test]
fn mount_copy_unmount_check() {
    if !fuse() {
        return;
    }
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    let image = d.image("a.img", "64m", &[]);
    let dir = d.path("mnt");
    fs::create_dir(&dir).unwrap();
    let at = dir.to_str().unwrap();
    let mounted = run(&["mount", &image, at]);
    if !mounted.status.success() {
        return println!("skipped: cannot mount: {}", text(&mounted));
    }
    let copied = std::process::Command::new("cp").arg("-a").arg(&tree).arg(&dir).status().unwrap();
    let held = run(&["ls", &image]);
    let unmounted = run(&["umount", at]);
    assert!(copied.success());
    assert!(String::from_utf8_lossy(&held.stderr).contains("in use by"), "{}", text(&held));
    assert!(unmounted.status.success(), "{}", text(&unmounted));
    // The moment umount returns the image is complete and free.
    fsck_clean(Path::new(&image));
    let out = d.path("out");
    ok(&["cp", "-a", &format!("{image}:/tree"), out.to_str().unwrap()]);
    assert_same(&tree, &out, &[]);

    ok(&["mount", "-r", &image, at]);
    let refused = fs::write(dir.join("x"), b"x");
    let same = std::panic::catch_unwind(|| assert_same(&tree, &dir.join("tree"), &[]));
    ok(&["umount", at]);
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(30));
    assert!(same.is_ok(), "the mount differs from the tree");
}

#[test]
fn what_cannot_be_mounted_is_explained() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let dir = d.str("");
    assert!(ok(&["mount", "-o", "help"]).contains("dirpref="));
    fails(&["mount", "-o", "dirprf=old", &image, &dir], 1, "dirpref");
    fails(&["mount", &image], 1, "directory");
    fails(&["umount", &dir], 1, "nothing is mounted");
    let output = run(&["mount", &d.str("missing.img"), &dir]);
    assert_eq!(output.status.code(), Some(32), "{}", text(&output));
    let zeros = d.file("zeros.img", &vec![0; 1 << 20]);
    assert_eq!(run(&["mount", &zeros, &dir]).status.code(), Some(32));
    fails(&["mount", &image, &d.str("no-such-dir")], 32, "no-such-dir");
}
