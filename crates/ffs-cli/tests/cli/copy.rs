//! `cp -a` keeps everything, in every direction.

use crate::common::{
    Dir, assert_same, fails, ffs, fsck_clean, inside, is_root, json_lines, make_tree, ok, pattern,
    run, set_mtime, text,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

#[test]
fn there_and_back_again() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    for (name, options) in
        [("ufs2.img", vec![]), ("big.img", vec!["--endian", "big", "-b", "8192", "-f", "1024"])]
    {
        let image = d.image(name, "64m", &options);
        ok(&["cp", "-a", tree.to_str().unwrap(), &format!("{image}:/")]);
        fsck_clean(Path::new(&image));
        let out = d.path(&format!("{name}.out"));
        ok(&["cp", "-a", &format!("{image}:/tree"), out.to_str().unwrap()]);
        assert_same(&tree, &out, &[]);
        let holes = fs::metadata(out.join("sparse")).unwrap();
        assert!(holes.blocks() * 512 < 1 << 20, "holes were filled");
    }
    // From image to image, the other byte order and format of blocks.
    let (from, to) =
        (d.str("ufs2.img"), d.image("second.img", "64m", &["-b", "4096", "-f", "512"]));
    ok(&["cp", "-a", &format!("{from}:/tree"), &format!("{to}:/copy")]);
    fsck_clean(Path::new(&to));
    let out = d.path("again");
    ok(&["cp", "-a", &format!("{to}:/copy/."), {
        fs::create_dir(&out).unwrap();
        out.to_str().unwrap()
    }]);
    assert_same(&tree, &out, &[]);
}

/// UFS1 has 32 bits for seconds: 2040 once came back as 1903.
#[test]
fn times_that_ufs1_cannot_store_become_the_nearest() {
    let d = Dir::new();
    let image = d.image("a.img", "4m", &["-O", "1"]);
    for (name, secs) in [("late", 2_208_988_800), ("early", -3_000_000_000)] {
        let file = d.file(name, b"");
        set_mtime(Path::new(&file), secs, 0);
        ok(&["cp", "-a", &file, &format!("{image}:/")]);
    }
    let listed = ok(&["ls", "-l", &image]);
    assert!(listed.contains("2038-01-19 03:14 late"), "{listed}");
    assert!(listed.contains("1901-12-13 20:45 early"), "{listed}");
}

#[test]
fn ufs1_keeps_all_but_attributes_and_reports_it() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    let image = d.image("ufs1.img", "64m", &["-O", "1"]);
    let output = run(&["cp", "-a", tree.to_str().unwrap(), &format!("{image}:/")]);
    assert!(output.status.success(), "{}", text(&output));
    if !crate::common::xattrs(&tree.join("small")).is_empty() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("extended attributes not kept"), "{stderr}");
    }
    let out = d.path("out");
    ok(&["cp", "-a", &format!("{image}:/tree"), out.to_str().unwrap()]);
    for path in [&tree, &out] {
        for file in ["small", "dir"] {
            for key in ["user.note", "user.empty", "user.on-a-directory"] {
                let _ = rustix::fs::removexattr(path.join(file), key);
            }
        }
    }
    assert_same(&tree, &out, &[]);
    fsck_clean(Path::new(&image));
}

#[test]
fn within_one_image() {
    let d = Dir::new();
    let tree = d.path("tree");
    make_tree(&tree);
    let image = d.image("a.img", "64m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["cp", "-a", tree.to_str().unwrap(), &at("/one")]);
    ok(&["cp", "-a", &at("/one"), &at("/two")]);
    fails(&["cp", "-a", &at("/one"), &at("/one/dir")], 1, "into itself");
    fails(&["cp", "-a", &at("/"), &at("/one/dir")], 1, "into itself");
    fails(&["cp", &at("/one/small"), &at("/one/small")], 1, "same file");
    let out = d.path("out");
    ok(&["cp", "-a", &at("/two"), out.to_str().unwrap()]);
    assert_same(&tree, &out, &[]);
    fsck_clean(Path::new(&image));
}

#[test]
fn plain_copies_belong_to_root_and_replace_whole_files() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let (one, two) = (d.file("one", b"one"), d.file("two", b"two, longer"));
    ok(&["cp", &one, &two, &at("/")]);
    ok(&["cp", &two, &at("/one")]);
    assert_eq!(ok(&["cat", &at("/one")]), "two, longer");
    assert!(ok(&["ls", "-l", &at("/one")]).contains(" 1 0 0 "));
    ok(&["cp", "--owner", "12:34", &one, &at("/three")]);
    assert!(ok(&["ls", "-l", &at("/three")]).contains(" 1 12 34 "));
    let names = ok(&["ls", "-A", &image]);
    assert_eq!(names, ".snap\none\nthree\ntwo\n", "nothing temporary is left");
    fails(&["cp", &one, &two, &at("/one")], 1, "not a directory");
    fails(&["cp", d.0.path().to_str().unwrap(), &at("/")], 1, "-a or -R");
    fails(&["cp", &one, &two], 64, "IMAGE:/path");
    fails(&["cp", &at("/nothing"), &d.str("x")], 1, "/nothing");
    fails(&["cp", &one, &at("/no/such/dir/x")], 1, "/no/such/dir");
    fails(&["cp", &d.str("missing"), &at("/")], 1, "missing");
    let out = d.file("out", b"before");
    ok(&["cp", &at("/one"), &out]);
    assert_eq!(fs::read(&out).unwrap(), b"two, longer");
    fsck_clean(Path::new(&image));
}

#[test]
fn a_full_image_keeps_complete_files_and_names_the_next_step() {
    let d = Dir::new();
    let image = d.image("a.img", "4m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let small = d.file("small", b"small");
    ok(&["cp", &small, &at("/small")]);
    let large = d.file("large", &pattern(8 << 20, 9));
    let stderr = fails(&["cp", &large, &at("/large")], 1, "no space left");
    assert!(stderr.contains("ffs build --size"), "{stderr}");
    fails(&["cp", "--atomic", &large, &at("/small")], 1, "no space left");
    assert_eq!(ok(&["ls", "-A", &image]), ".snap\nsmall\n");
    assert_eq!(ok(&["cat", &at("/small")]), "small");
    // An overwritten file holds what fits, and the message states how much.
    let stderr = fails(&["cp", &large, &at("/small")], 1, "no space left");
    assert!(
        stderr.contains("the file now has the first ") && stderr.contains("--atomic"),
        "{stderr}"
    );
    assert_eq!(ok(&["ls", "-A", &image]), ".snap\nsmall\n");
    let left = d.str("left");
    ok(&["cp", &at("/small"), &left]);
    let left = fs::read(left).unwrap();
    assert!(!left.is_empty() && fs::read(&large).unwrap().starts_with(&left), "{}", left.len());
    fsck_clean(Path::new(&image));
}

#[test]
fn no_inodes_left_is_reported_too() {
    let d = Dir::new();
    let image = d.image("a.img", "4m", &["-i", "1048576"]);
    let many = d.path("many");
    fs::create_dir(&many).unwrap();
    for n in 0..2000 {
        fs::write(many.join(format!("{n}")), b"").unwrap();
    }
    let output = run(&["cp", "-a", many.to_str().unwrap(), &format!("{image}:/")]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return println!("newfs gave it {} inodes", ok(&["df", &image]));
    }
    assert!(stderr.contains("no inodes left"), "{stderr}");
    fsck_clean(Path::new(&image));
}

#[test]
fn flags_travel_through_the_host() {
    let d = Dir::new();
    let Some(image) = d.fixture("nb-ufs2-16k2k-le") else { return };
    let rows = ffs_testkit::fixtures::expected("nb-ufs2-16k2k-le").unwrap();
    let flagged: Vec<_> = rows
        .iter()
        .filter(|row| row.flags != 0 && row.kind == ffs_testkit::fixtures::ExpectedKind::File)
        .collect();
    assert!(!flagged.is_empty());
    let out = d.path("out");
    let copied = ok(&["cp", "-a", &format!("{image}:/"), out.to_str().unwrap()]);
    if crate::common::xattrs(&out.join("..")).is_empty()
        && rustix::fs::setxattr(&out, "user.t", b"", rustix::fs::XattrFlags::empty()).is_err()
    {
        return println!("skipped: the host has no attributes {copied}");
    }
    let second = d.image("second.img", "64m", &[]);
    for row in flagged {
        let name = Path::new(std::str::from_utf8(&row.path).unwrap()).file_name().unwrap();
        let host = out.join(std::str::from_utf8(&row.path[1..]).unwrap());
        ok(&["cp", "-a", host.to_str().unwrap(), &format!("{second}:/")]);
        let inner = [b"/", name.as_encoded_bytes()].concat();
        let shown = ffs().args(["stat", "--json"]).arg(inside(&second, &inner)).output().unwrap();
        let shown: serde_json::Value = json_lines(&String::from_utf8_lossy(&shown.stdout));
        assert_eq!(shown[0]["flags_hex"], format!("{:x}", row.flags), "{name:?}");
    }
    fsck_clean(Path::new(&second));
}

/// What `setcap` gave to a program, and what overlayfs notes, go in and out under the same names.
#[test]
fn security_and_trusted_attributes_travel() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let d = Dir::new();
    fs::write(d.path("program"), "content").unwrap();
    let names = ["security.x", "trusted.overlay.opaque", "user.security.x"];
    for name in names {
        if setxattr(d.path("program"), name, name.as_bytes(), XattrFlags::empty()).is_err() {
            return println!("skipped: not root, or the host has no such attributes");
        }
    }
    let image = d.image("a.img", "8m", &[]);
    ok(&["cp", "-a", &d.str("program"), &format!("{image}:/")]);
    ok(&["cp", "-a", &format!("{image}:/program"), &d.str("back")]);
    for name in names {
        let mut value = [0; 64];
        let n = getxattr(d.path("back"), name, &mut value[..]).unwrap();
        assert_eq!(&value[..n], name.as_bytes());
    }
    fsck_clean(Path::new(&image));
}

#[test]
fn a_link_in_the_way_is_not_followed() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let tree = d.path("tree");
    fs::create_dir_all(tree.join("dir")).unwrap();
    fs::write(tree.join("dir/file"), b"from the image").unwrap();
    ok(&["cp", "-a", tree.to_str().unwrap(), &format!("{image}:/")]);
    let (out, victim) = (d.path("out"), d.path("victim"));
    fs::create_dir_all(out.join("tree")).unwrap();
    fs::create_dir(&victim).unwrap();
    std::os::unix::fs::symlink(&victim, out.join("tree/dir")).unwrap();
    let output = run(&["cp", "-a", &format!("{image}:/tree"), out.to_str().unwrap()]);
    assert!(!output.status.success(), "{}", text(&output));
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0, "wrote outside the target");
}

#[test]
fn deep_paths_longer_than_the_host_takes() {
    let d = Dir::new();
    let image = d.image("a.img", "32m", &[]);
    let name = "d".repeat(200);
    let mut path = String::new();
    for _ in 0..40 {
        path.push('/');
        path.push_str(&name);
    }
    ok(&["mkdir", "-p", &format!("{image}:{path}")]);
    let leaf = d.file("leaf", b"leaf");
    ok(&["cp", &leaf, &format!("{image}:{path}/leaf")]);
    let out = d.path("out");
    ok(&["cp", "-a", &format!("{image}:/{name}"), out.to_str().unwrap()]);
    let second = d.image("b.img", "32m", &[]);
    ok(&["cp", "-a", out.to_str().unwrap(), &format!("{second}:/{name}")]);
    assert_eq!(ok(&["cat", &format!("{second}:{path}/leaf")]), "leaf");
    let _ = Command::new("rm").arg("-rf").arg(&out).status();
}

#[test]
fn unreadable_files_are_named_and_the_others_copied() {
    if is_root() {
        return println!("skipped: root may read everything");
    }
    use std::os::unix::fs::PermissionsExt;
    let d = Dir::new();
    let tree = d.path("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(tree.join(name), name).unwrap();
    }
    fs::set_permissions(tree.join("b"), fs::Permissions::from_mode(0o000)).unwrap();
    let image = d.image("a.img", "8m", &[]);
    fails(&["cp", "-a", tree.to_str().unwrap(), &format!("{image}:/")], 1, "tree/b");
    assert_eq!(ok(&["ls", &format!("{image}:/tree")]), "a\nc\n");
    fails(&["build", &d.str("b.img"), tree.to_str().unwrap()], 1, "no image was made");
    assert!(!d.path("b.img").exists());
}

#[test]
fn an_interrupted_copy_leaves_a_clean_image() {
    let d = Dir::new();
    let image = d.image("a.img", "1g", &[]);
    let big = d.path("big");
    fs::write(&big, vec![b'x'; 256 << 20]).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ffs"));
    let mut copy = command.arg("cp").arg(&big).arg(format!("{image}:/")).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let kill = format!("kill -INT {}", copy.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let code = copy.wait().unwrap().code();
    fsck_clean(Path::new(&image));
    let there = ok(&["ls", &image]);
    // A fast machine is ready before the signal comes.
    let expected = if code == Some(0) { "big\n" } else { "" };
    assert!(matches!(code, Some(0 | 130)), "{code:?}");
    assert_eq!(there, expected);
}

#[test]
fn a_dash_is_standard_input_and_standard_output() {
    let d = Dir::new();
    let image = d.image("disk.img", "16m", &[]);
    let content = pattern(300_000, 8);
    let put = |args: &[&str]| ffs().args(args).write_stdin(content.clone()).output().unwrap();
    let to = format!("{image}:/new");
    let output = put(&["cp", "-", &to]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(run(&["cp", &to, "-"]).stdout == content);
    // With -R, too: a pipe is not copied as a pipe.
    assert!(put(&["cp", "-a", "-", &to]).status.success());
    assert!(run(&["cat", &to]).stdout == content);
    // A directory needs a name for the file.
    let output = put(&["cp", "-", &format!("{image}:/")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("standard input: has no name"), "{}", text(&output));
    assert_eq!(ok(&["ls", &image]), "new\n");
}

#[test]
fn a_tree_is_copied_without_the_journal_of_its_volume() {
    let d = Dir::new();
    let (from, to) = (d.image("a.img", "64m", &["-j"]), d.image("b.img", "64m", &["-j"]));
    ok(&["cp", &d.file("f", b"content"), &format!("{from}:/f")]);
    let journal = |image: &str| ok(&["stat", &format!("{image}:/.sujournal")]);
    let before = journal(&to);
    ok(&["cp", "-a", &format!("{from}:/."), &format!("{to}:/")]);
    assert_eq!(journal(&to), before);
    fsck_clean(Path::new(&to));
    ok(&["diff", &from, &to]);
    let without = run(&["diff", &from, &d.image("none.img", "64m", &[])]);
    assert!(!text(&without).contains(".sujournal"), "{}", text(&without));
    let archive = d.str("a.tar");
    ok(&["tar", "c", "-f", &archive, &format!("{from}:/")]);
    let listed = Command::new("tar").args(["tf", &archive]).output().unwrap();
    assert!(listed.status.success() && !text(&listed).contains(".sujournal"), "{}", text(&listed));
    // A file of this name that is no journal is like any other, and the journal has a name.
    ok(&["cp", "-a", &format!("{from}:/.sujournal"), &d.str("alone")]);
    let plain = d.image("c.img", "64m", &[]);
    ok(&["cp", &d.str("alone"), &format!("{plain}:/.sujournal")]);
    ok(&["cp", "-a", &format!("{plain}:/."), &d.str("out")]);
    assert!(d.path("out/.sujournal").exists());
}
