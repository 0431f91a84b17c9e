//! Options of the commands on files in an image, as their help texts say, and what a failed or
//! killed command leaves.

use crate::common::{Dir, fails, fsck_clean, is_root, json_lines, ok, run, text};
use ffs_ondisk::Superblock;
use ffs_ondisk::superblock::{FsFlags, SBLOCKSIZE};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The words of each line.
fn words(printed: &str) -> Vec<Vec<&str>> {
    printed.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn listings_are_ordered_and_marked_by_options() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &["-n"]);
    let at = |path: &str| format!("{image}:{path}");
    for (name, bytes, time) in [("small", 10, 3_000_000), ("large", 5000, 1_000_000)] {
        let file = d.file(name, &vec![b'x'; bytes]);
        crate::common::set_mtime(Path::new(&file), time, 123_456_789);
        ok(&["cp", "-p", &file, &at("/")]);
    }
    ok(&["mkdir", &at("/dir")]);
    ok(&["ln", "-s", "small", &at("/link")]);
    ok(&["cp", &d.file("x", b""), &at("/.hidden")]);
    let ls = |options: &str| ok(&["ls", options, &image]);
    assert_eq!(ok(&["ls", &image]), "dir\nlarge\nlink\nsmall\n");
    assert_eq!(ls("-A"), ".hidden\ndir\nlarge\nlink\nsmall\n");
    assert_eq!(ls("-a"), ".\n..\n.hidden\ndir\nlarge\nlink\nsmall\n");
    assert_eq!(ls("-F"), "dir/\nlarge\nlink@\nsmall\n");
    assert_eq!(ls("-r"), "small\nlink\nlarge\ndir\n");
    let place = |printed: &str, name: &str| printed.lines().position(|l| l == name).unwrap();
    let by_time = ls("-t");
    assert!(place(&by_time, "link") < place(&by_time, "small"), "{by_time}");
    assert!(place(&by_time, "small") < place(&by_time, "large"), "{by_time}");
    assert!(ls("-S").starts_with("large\n"));
    let inodes = ls("-i");
    let row = words(&inodes).into_iter().find(|row| row[1] == "small").unwrap();
    let stat = ok(&["stat", "--json", &at("/small")]);
    let stat: serde_json::Value = json_lines(&stat);
    assert_eq!(row[0], stat[0]["inode"].to_string());
    let long = ls("-lhT");
    let large = long.lines().find(|line| line.ends_with(" large")).unwrap();
    assert!(large.contains("4.9K") && large.contains("1970-01-12 13:46:40.123456789"), "{large}");
}

#[test]
fn trees_are_as_deep_as_requested() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &["-n"]);
    ok(&["mkdir", "-p", &format!("{image}:/one/two")]);
    ok(&["cp", &d.file("leaf", b"12345"), &format!("{image}:/one/")]);
    let names = |options: &[&str]| {
        let drawn = ok(&[&["tree"], options, &[&image]].concat());
        ["one/", "two/", "leaf", "[5]"].map(|name| drawn.contains(name))
    };
    assert_eq!(names(&[]), [true, true, true, false]);
    assert_eq!(names(&["-L", "1"]), [true, false, false, false]);
    assert_eq!(names(&["-d"]), [true, true, false, false]);
    assert_eq!(names(&["-s"]), [true, true, true, true]);
}

#[test]
fn names_are_replaced_or_left_as_the_options_say() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["mkdir", &at("/dir")]);
    for name in ["one", "two"] {
        ok(&["cp", &d.file(name, name.as_bytes()), &at("/")]);
    }
    ok(&["mv", "-n", &at("/one"), &at("/two")]);
    assert_eq!(ok(&["cat", &at("/one"), &at("/two")]), "onetwo", "mv -n");
    fails(&["mv", "-T", &at("/one"), &at("/dir")], 1, "is a directory");
    fails(&["ln", &at("/one"), &at("/two")], 1, "exists");
    ok(&["ln", "-f", &at("/one"), &at("/two")]);
    assert_eq!(ok(&["cat", &at("/two")]), "one", "ln -f");
    ok(&["ln", "-s", "one", &at("/link")]);
    assert!(ok(&["stat", &at("/link")]).contains("symlink"));
    assert!(ok(&["stat", "-L", &at("/link")]).contains("file, 3 bytes"));
    let removed = run(&["rm", "-v", &at("/two")]);
    assert_eq!(String::from_utf8_lossy(&removed.stdout), "/two\n");
    assert_eq!(ok(&["mv", "-v", &at("/one"), &at("/dir")]), "/one -> /dir/one\n");
    assert_eq!(ok(&["ln", "-v", &at("/dir/one"), &at("/one")]), "/one -> /dir/one\n");
    assert_eq!(ok(&["mkdir", "-pv", &at("/dir/a/b")]), "/dir/a\n/dir/a/b\n");
    ok(&["chown", "5:77", &at("/dir")]);
    ok(&["mkdir", &at("/dir/below")]);
    let below = ok(&["ls", "-ld", &at("/dir/below")]);
    assert_eq!(words(&below)[0][2..4], ["0", "77"], "root, and the directory's group");
    fsck_clean(Path::new(&image));
}

#[test]
fn a_file_that_is_given_away_loses_its_capabilities() {
    let d = Dir::new();
    let file = d.file("program", b"content");
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let (name, none) = ("security.capability", rustix::fs::XattrFlags::empty());
    if !is_root() || rustix::fs::setxattr(&file, name, &capability, none).is_err() {
        return println!("skipped: needs the right to set capabilities");
    }
    let image = d.image("a.img", "8m", &[]);
    let program = format!("{image}:/program");
    ok(&["cp", "-a", &file, &program]);
    assert!(ok(&["stat", &program]).contains(name));
    ok(&["chown", "7", &program]);
    assert!(!ok(&["stat", &program]).contains(name));
}

#[test]
fn a_new_image_takes_no_space_and_a_whole_disk_is_overwritten_when_named() {
    let d = Dir::new();
    let image = d.image("a.img", "1g", &[]);
    let taken = fs::metadata(&image).unwrap().blocks() * 512;
    assert!(taken < 4 << 20, "{taken} bytes of an empty image");
    let Some(disk) = d.fixture("part-gpt-ufs2") else { return };
    let before = fs::read(&disk).unwrap();
    fails(&["newfs", &disk], 1, "partition table");
    assert!(fs::read(&disk).unwrap() == before);
    ok(&["newfs", "--yes", "-L", "whole", &format!("{disk}@0")]);
    assert_eq!(ok(&["dumpfs", "-l", &format!("{disk}@0")]), "/dev/ufs/whole\n");
}

/// The mark of `mount -o softdep` is shown after a crash, and a check removes it.
#[test]
fn the_mark_of_a_temporary_mount_is_shown_until_checked() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let mut bytes = fs::read(&image).unwrap();
    let home = 65536;
    let mut sb = Superblock::decode(&bytes[home..home + SBLOCKSIZE], home as u64).unwrap();
    sb.set_flags(sb.flags() | FsFlags::DOSOFTDEP | FsFlags::SOFTDEP_TEMPORARY);
    sb.f.clean = 0;
    let sb = sb.encode();
    bytes[home..home + sb.len()].copy_from_slice(&sb);
    fs::write(&image, bytes).unwrap();
    assert!(ok(&["dumpfs", "-s", &image]).contains("soft-updates-until-checked"));
    ok(&["fsck", "-p", &image]);
    assert!(!ok(&["dumpfs", "-s", &image]).contains("soft-updates"));
}

#[test]
fn a_build_that_fails_leaves_the_image_that_was_there() {
    let d = Dir::new();
    let (image, tree) = (d.image("a.img", "8m", &[]), d.path("tree"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("large"), vec![7; 3 << 20]).unwrap();
    let tree = tree.to_str().unwrap();
    let before = fs::read(&image).unwrap();
    let text = d.file("text", &b"this is no archive".repeat(100));
    for args in [
        &["build", "--force", "--size", "2m", &image, tree][..],
        &["build", "--force", &image, &text],
        &["build", "--force", &image, &d.str("missing")],
    ] {
        assert_eq!(run(args).status.code(), Some(1), "{args:?}");
        assert!(fs::read(&image).unwrap() == before, "{args:?}");
    }
    let left = fs::read_dir(d.0.path()).unwrap().count();
    assert_eq!(left, 3, "something temporary is left");
}

/// `cp --atomic` is interrupted or killed while it copies: the old file is there, whole, and
/// nothing else after a check.
#[test]
fn an_atomic_copy_that_ends_early_leaves_the_old_file() {
    let all = [(&["-U"][..], "-p"), (&[], "-y")];
    for ((options, check), signal) in
        all.into_iter().flat_map(|how| [Signal::INT, Signal::KILL].map(|signal| (how, signal)))
    {
        let what = format!("{options:?} {signal:?}");
        let d = Dir::new();
        let image = d.image("a.img", "256m", options);
        let target = format!("{image}:/f");
        ok(&["cp", &d.file("old", b"the old content"), &target]);
        let mut copy = Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
            .args(["cp", "--atomic", "/dev/stdin", &target])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // More than is kept in memory. It is reading when this returns, and it waits for more.
        copy.stdin.as_mut().unwrap().write_all(&vec![b'n'; 100 << 20]).unwrap();
        kill_process(Pid::from_child(&copy), signal).unwrap();
        // It looks for the signal between pieces; the pipe has no end that would complete the file.
        let mut stdin = copy.stdin.take().unwrap();
        while stdin.write_all(&[b'n'; 4096]).is_ok() {}
        let code = copy.wait().unwrap().code();
        assert_eq!(code, (signal == Signal::INT).then_some(130), "{what}");
        let checked = run(&["fsck", check, &image]);
        assert_eq!(checked.status.code(), Some(0), "{what}: {}", text(&checked));
        assert!(ok(&["cat", &target]) == "the old content", "{what}");
        if signal == Signal::INT || options == ["-U"] {
            assert_eq!(ok(&["ls", "-A", &image]), ".snap\nf\n", "{what}");
        }
        fsck_clean(Path::new(&image));
    }
}

#[test]
fn a_new_file_that_cannot_have_its_size_is_not_left() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["mkdir", &at("/dir")]);
    ok(&["ln", "-s", "dir/behind", &at("/link")]);
    ok(&["cp", &d.file("old", b"old"), &at("/old")]);
    for path in ["/new", "/link", "/dir/new", "/old"] {
        fails(&["truncate", "-s", "9000p", &at(path)], 1, "file too large");
        let printed = run(&["truncate", "--json", "-s", "9000p", &at(path)]).stdout;
        assert!(printed.is_empty(), "{path}");
    }
    // The last block of the file is allocated, for which there must be space.
    for (size, count) in [(1 << 20, 10), (4096, 300)] {
        let fill = d.file("fill", &vec![1; size]);
        let full = (0..count).any(|n| {
            let target = at(&format!("/dir/{size}-{n}"));
            !run(&["cp", &fill, &target]).status.success()
        });
        assert!(full);
    }
    fails(&["truncate", "-s", "1g", &at("/new")], 1, "");
    let names =
        ok(&["find", &image, "-name", "new", "-o", "-name", "behind", "-o", "-name", "old"]);
    assert_eq!(names, "/old\n");
    assert_eq!(ok(&["cat", &at("/old")]), "old");
    ok(&["truncate", "-s", "0", &at("/link")]);
    assert_eq!(ok(&["find", &image, "-name", "behind"]), "/dir/behind\n");
    fsck_clean(Path::new(&image));
}

#[test]
fn df_and_du_take_the_options_of_other_systems() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let kib = ok(&["df", "-ik", &image]);
    let size = words(&kib)[1][3].parse::<u64>().unwrap();
    assert!((7000..8192).contains(&size), "{kib}");
    assert_eq!(ok(&["df", "-kh", &image]), ok(&["df", &image]));
    let at = format!("{image}:/");
    ok(&["mkdir", "-p", &format!("{at}a/b")]);
    assert_eq!(ok(&["du", "-x", "--max-depth", "1", &at]), ok(&["du", "-d1", &at]));
}
