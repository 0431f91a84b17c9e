//! What the small commands do inside an image.

use crate::common::{Dir, fails, fsck_clean, json_lines, ok, run, text};
use ffs_ondisk::Superblock;
use ffs_ondisk::superblock::SBLOCKSIZE;
use std::path::Path;

#[test]
fn directories_files_and_links_are_made_renamed_and_removed() {
    let d = Dir::new();
    for options in [vec![], vec!["-O", "1", "-b", "8192", "-f", "1024"], vec!["--endian", "big"]] {
        let image = d.image("a.img", "16m", &options);
        let at = |path: &str| format!("{image}:{path}");
        ok(&["mkdir", "-p", &at("/a/b/c")]);
        ok(&["mkdir", "-m", "1777", &at("/tmp")]);
        fails(&["mkdir", &at("/a")], 1, "exists");
        ok(&["mkdir", "-p", &at("/a")]);
        let hello = d.file("hello", b"hello\n");
        ok(&["cp", &hello, &at("/a/b")]);
        ok(&["ln", &at("/a/b/hello"), &at("/hard")]);
        ok(&["ln", "-s", "a/b/hello", &at("/soft")]);
        ok(&["ln", "-s", "/a/../a/b", &at("/dirlink")]);
        assert_eq!(
            ok(&["cat", &at("/soft"), &at("/hard"), &at("/dirlink/hello")]),
            "hello\n".repeat(3)
        );
        assert!(ok(&["ls", "-l", &at("/soft")]).contains("/soft -> a/b/hello"));
        assert!(ok(&["ls", "-ld", &at("/tmp")]).starts_with("drwxrwxrwt 2 0 0 "));
        fails(&["ln", &at("/a"), &at("/x")], 1, "");
        ok(&["mv", &at("/hard"), &at("/a")]);
        ok(&["mv", &at("/a"), &at("/tmp/moved")]);
        assert_eq!(ok(&["cat", &at("/tmp/moved/hard")]), "hello\n");
        fails(&["mv", &at("/tmp"), &at("/tmp/moved/inside")], 1, "/tmp");
        fails(&["rm", &at("/tmp/moved")], 1, "directory");
        fails(&["rm", "-d", &at("/tmp")], 1, "not empty");
        fails(&["rm", &at("/nothing")], 1, "/nothing");
        ok(&["rm", "-f", &at("/nothing"), &at("/soft"), &at("/dirlink")]);
        ok(&["rm", "-r", &at("/tmp")]);
        assert_eq!(ok(&["ls", "-A", &image]).trim(), ".snap");
        fsck_clean(Path::new(&image));
        std::fs::remove_file(&image).unwrap();
    }
}

#[test]
fn loops_of_links_end() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["ln", "-s", "b", &at("/a")]);
    ok(&["ln", "-s", "a", &at("/b")]);
    fails(&["cat", &at("/a")], 1, "too many levels");
    ok(&["ln", "-s", "../../..", &at("/up")]);
    assert!(ok(&["ls", "-A", &at("/up/")]).contains(".snap"), ".. of the root is the root");
}

#[test]
fn odd_names_of_images_and_files_work() {
    let d = Dir::new();
    for name in ["with space.img", "co:lon.img", "at@sign.img", "a:/b.img"] {
        if name.contains('/') {
            std::fs::create_dir(d.path("a:")).unwrap();
        }
        let image = d.image(name, "8m", &[]);
        let at = |path: &str| format!("{image}:{path}");
        ok(&["mkdir", &at("/dir with space")]);
        let source = d.file("so:urce", b"colon");
        ok(&["cp", &source, &at("/dir with space/x:/")[..at("/dir with space/x:").len()]]);
        assert_eq!(ok(&["cat", &at("/dir with space/x:")]), "colon", "{name}");
        assert!(ok(&["ls", &image]).contains("dir with space"), "{name}");
        let out = d.str("o:ut");
        ok(&["cp", &at("/dir with space/x:"), &out]);
        assert_eq!(std::fs::read(&out).unwrap(), b"colon");
        std::fs::remove_file(&out).unwrap();
    }
}

#[test]
fn the_second_writer_gets_the_process_of_the_first() {
    let d = Dir::new();
    let image = d.image("a.img", "64m", &[]);
    // A reader of standard input that never ends holds the image while it builds.
    let program = assert_cmd::cargo::cargo_bin!("ffs");
    let lock = std::fs::OpenOptions::new().read(true).write(true).open(&image).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for args in [
        vec!["mkdir", "IMAGE:/x"],
        vec!["ls", "IMAGE"],
        vec!["fsck", "-y", "IMAGE"],
        vec!["tunefs", "-m", "5", "IMAGE"],
        vec!["growfs", "-s", "128m", "IMAGE"],
        vec!["newfs", "IMAGE"],
        vec!["build", "--force", "IMAGE", "."],
    ] {
        let args: Vec<String> = args.iter().map(|arg| arg.replace("IMAGE", &image)).collect();
        let output = run(&args);
        let code = if args[0] == "fsck" { 8 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("in use by"), "{args:?}: {stderr}");
        let me = std::process::id().to_string();
        assert!(!cfg!(target_os = "linux") || stderr.contains(&me), "{args:?}: {stderr}");
    }
    drop(lock);
    let shared = std::fs::File::open(&image).unwrap();
    rustix::fs::flock(&shared, rustix::fs::FlockOperation::LockShared).unwrap();
    ok(&["ls", &image]);
    fails(&["mkdir", &format!("{image}:/x")], 1, "in use by");
    let _ = program;
}

#[test]
fn flags_are_shown_and_in_force() {
    let d = Dir::new();
    let Some(image) = d.fixture("nb-ufs2-16k2k-le") else { return };
    let listing = ok(&["ls", "-lRo", &image]);
    assert!(listing.contains("uchg") || listing.contains("schg"), "{listing}");
}

#[test]
fn dirty_images_are_read_but_not_written() {
    let d = Dir::new();
    let Some(image) = d.fixture("freebsd-ufs1-10m-b") else { return };
    ok(&["ls", "-lR", &image]);
    fails(&["mkdir", &format!("{image}:/x")], 1, "ffs fsck");
    assert_eq!(run(&["fsck", "-y", &image]).status.code(), Some(0));
    ok(&["mkdir", &format!("{image}:/x")]);
    fsck_clean(Path::new(&image));
}

/// As after a crash under soft updates: no check is needed, and what one would find is printed.
#[test]
fn a_dirty_image_with_soft_updates_is_changed_with_a_remark() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-U"]);
    let quiet = run(&["mkdir", &format!("{image}:/before")]);
    assert!(quiet.status.success() && quiet.stderr.is_empty(), "{}", text(&quiet));
    let mut bytes = std::fs::read(&image).unwrap();
    let home = 65536;
    let mut sb = Superblock::decode(&bytes[home..home + SBLOCKSIZE], home as u64).unwrap();
    sb.f.clean = 0;
    let sb = sb.encode();
    bytes[home..home + sb.len()].copy_from_slice(&sb);
    std::fs::write(&image, bytes).unwrap();
    let printed = run(&["mkdir", &format!("{image}:/after")]);
    let stderr = String::from_utf8_lossy(&printed.stderr);
    assert!(printed.status.success() && stderr.contains("without a check"), "{}", text(&printed));
    assert!(ok(&["ls", &image]).contains("after"));
    assert_eq!(run(&["fsck", "-p", &image]).status.code(), Some(0));
    let quiet = run(&["mkdir", &format!("{image}:/last")]);
    assert!(quiet.status.success() && quiet.stderr.is_empty(), "{}", text(&quiet));
    fsck_clean(Path::new(&image));
}

#[test]
fn settings_change_and_are_shown() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-L", "before"]);
    let changed = ok(&["tunefs", "-n", "enable", "-m", "5", "-o", "space", "-L", "after", &image]);
    assert!(changed.contains("soft updates changes from disabled to enabled"), "{changed}");
    let shown = ok(&["tunefs", "-p", &image]);
    assert!(shown.contains("5%") && shown.contains("after"), "{shown}");
    assert_eq!(ok(&["dumpfs", "-l", &image]), "/dev/ufs/after\n");
    assert!(ok(&["dumpfs", "-m", &image]).starts_with("newfs -O 2"));
    fails(&["tunefs", "-m", "100", &image], 10, "-m");
    fails(&["tunefs", "-n", "perhaps", &image], 10, "enable or disable");
    fails(&["tunefs", &image], 2, "-p");
    fsck_clean(Path::new(&image));
}

#[test]
fn a_journal_is_made_and_used() {
    let d = Dir::new();
    let image = d.image("a.img", "16m", &["-j"]);
    assert!(ok(&["ls", "-a", &format!("{image}:/")]).contains(".sujournal"));
    assert!(ok(&["dumpfs", &image]).contains("journaled-soft-updates"));
    fsck_clean(Path::new(&image));
    ok(&["tunefs", "-j", "disable", &image]);
    ok(&["tunefs", "-j", "enable", &image]);
    // As a crash leaves it: without records, and then after a check.
    for want in ["recovered by the journal: 0 records", "mounted or checked since"] {
        let mut bytes = std::fs::read(&image).unwrap();
        let mut sb = Superblock::decode(&bytes[65536..], 65536).unwrap();
        sb.f.clean = 0;
        let sb = sb.encode();
        bytes[65536..65536 + sb.len()].copy_from_slice(&sb);
        std::fs::write(&image, bytes).unwrap();
        let out = ok(&["fsck", "-p", &image]);
        assert!(out.contains(want), "{out}");
        fsck_clean(Path::new(&image));
    }
    // Also before a command changes the image.
    let mut bytes = std::fs::read(&image).unwrap();
    let mut sb = Superblock::decode(&bytes[65536..], 65536).unwrap();
    (sb.f.clean, sb.f.mtime) = (0, 0);
    let sb = sb.encode();
    bytes[65536..65536 + sb.len()].copy_from_slice(&sb);
    std::fs::write(&image, bytes).unwrap();
    ok(&["mkdir", &format!("{image}:/d")]);
    fsck_clean(Path::new(&image));
    fails(
        &["newfs", "-j", "-s", "3m", &d.str("b.img")],
        1,
        "too few for a file system with a journal",
    );
}

#[test]
fn newfs_makes_what_bsd_makes_and_asks_for_a_size() {
    let d = Dir::new();
    fails(&["newfs", &d.str("new.img")], 1, "-s");
    fails(&["newfs", "-b", "1000", "-s", "8m", &d.str("new.img")], 1, "-b");
    assert!(!d.path("new.img").exists(), "a refused newfs leaves no file");
    let Some(golden) = d.fixture("newfs10-ufs2-4k512-16m") else { return };
    let args = ["-R", "-O", "2", "-b", "4096", "-f", "512", "--generation", "freebsd10"];
    let image = d.image("a.img", "16m", &args);
    let (mut ours, golden) = (std::fs::read(&image).unwrap(), std::fs::read(golden).unwrap());
    assert_eq!(ours.len(), golden.len());
    let differ: Vec<usize> = (0..ours.len()).filter(|&at| ours[at] != golden[at]).collect();
    // The group of .snap is the one difference (see the fixtures' own page).
    assert!(
        differ.len() <= 1,
        "{} bytes differ: {:?}",
        differ.len(),
        &differ[..differ.len().min(9)]
    );
    for at in differ {
        assert_eq!((ours[at], golden[at]), (5, 37));
        ours[at] = 37;
    }
}

#[test]
fn fsck_repairs_with_bsds_exit_codes() {
    let d = Dir::new();
    let Some(image) = d.fixture("nb-ufs2-crash") else { return };
    let look = run(&["fsck", "-n", &image]);
    assert!(String::from_utf8_lossy(&look.stdout).contains("** Phase 1"), "{}", text(&look));
    let json = run(&["fsck", "-n", "--json", &image]);
    let json: serde_json::Value = json_lines(&String::from_utf8_lossy(&json.stdout));
    assert!(!json[0]["findings"].as_array().unwrap().is_empty());
    // The later of -n and -y wins.
    let before = std::fs::read(&image).unwrap();
    run(&["fsck", "-y", "-n", &image]);
    assert!(before == std::fs::read(&image).unwrap(), "-y -n writes nothing");
    let repaired = run(&["fsck", "-n", "-y", &image]);
    assert_eq!(repaired.status.code(), Some(0), "{}", text(&repaired));
    assert!(String::from_utf8_lossy(&repaired.stdout).contains("FILE SYSTEM WAS MODIFIED"));
    fsck_clean(Path::new(&image));
    let clean = run(&["fsck", "-p", &image]);
    assert!(String::from_utf8_lossy(&clean.stdout).contains("CLEAN"), "{}", text(&clean));
    assert_eq!(run(&["fsck", "-F", &image]).status.code(), Some(7));
    let answers = crate::common::ffs()
        .args(["fsck", "-f", &d.fixture("nb-ufs2-crash").unwrap()])
        .write_stdin("n\nq\n")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&answers.stderr).contains("REPAIR?"), "{}", text(&answers));
    assert_ne!(answers.status.code(), Some(0));
}

/// A name with a slash at its end is never a file's, and no file is lost to it.
#[test]
fn a_slash_at_the_end_is_for_a_directory() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let text = d.file("text", b"text");
    ok(&["cp", &text, &at("/kept")]);
    ok(&["touch", &at("/other")]);
    ok(&["mkdir", &at("/dir/")]);
    ok(&["ln", "-s", "none/", &at("/to-slash")]);
    let (kept, new) = (at("/kept/"), at("/new/"));
    for (args, words) in [
        (&["mv", &at("/other"), &kept][..], "not a directory"),
        (&["ln", "-f", &at("/other"), &kept], "no such directory"),
        (&["ln", "-s", "x", &kept], "no such directory"),
        (&["rm", &kept], "not a directory"),
        (&["rm", "-rf", &kept], "not a directory"),
        (&["cp", &text, &kept], "not a directory"),
        (&["truncate", "-s", "0", &kept], "not a directory"),
        (&["touch", &kept], "not a directory"),
        (&["edit", "-e", "true", &kept], "not a directory"),
        (&["mv", &at("/other"), &new], "no such directory; a slash at the end"),
        (&["ln", &at("/other"), &new], "no such directory; a slash at the end"),
        (&["ln", "-s", "x", &new], "no such directory; a slash at the end"),
        (&["truncate", "-s", "5", &new], "no such directory; a slash at the end"),
        (&["touch", &new], "no such directory; a slash at the end"),
        (&["edit", "-e", "false", &new], "no such directory; a slash at the end"),
        (&["cp", &text, &new], "is not a directory"),
        (&["touch", &at("/to-slash")], "is a directory"),
        (&["touch", &at("#2/new/")], "no such directory"),
    ] {
        fails(args, 1, words);
        assert_eq!(ok(&["ls", &image]), "dir\nkept\nother\nto-slash\n", "{args:?}");
        assert_eq!(ok(&["cat", &at("/kept")]), "text", "{args:?}");
    }
    ok(&["mv", &at("/dir/"), &at("/moved/")]);
    ok(&["mv", &at("/other"), &at("/moved/")]);
    assert_eq!(ok(&["ls", &at("/moved/")]), "other\n");
    fsck_clean(std::path::Path::new(&image));
}

#[test]
fn ls_shows_and_sorts_by_each_time_and_shows_allocated_space() {
    let d = Dir::new();
    let image = d.image("x.img", "8m", &["-O", "2", "-b", "32k", "-f", "4k"]);
    let at = |name: &str| format!("{image}:/{name}");
    for (name, modified, accessed) in [("a", "3", "1"), ("b", "1", "3"), ("c", "2", "2")] {
        ok(&["cp", &d.file(name, &[7; 5000]), &at(name)]);
        ok(&["touch", "-m", "-d", &format!("200{modified}-01-01T00:00:00Z"), &at(name)]);
        ok(&["touch", "-a", "-d", &format!("199{accessed}-01-01T00:00:00Z"), &at(name)]);
    }
    for name in ["c", "a", "b"] {
        ok(&["chmod", "600", &at(name)]);
    }
    let names = |options: &str| {
        let list = ok(&["ls", options, &image]);
        list.lines().map(|line| line.rsplit(' ').next().unwrap()).collect::<String>()
    };
    for (options, wanted) in [
        ("-t", "acb"),
        ("-tu", "bca"),
        ("-tc", "bac"),
        ("-tU", "cba"),
        ("-tUu", "bca"),
        ("-tr", "bca"),
    ] {
        assert_eq!(names(options), wanted, "{options}");
    }
    assert!(ok(&["ls", "-l", &at("a")]).contains(" 2003-01-01 "));
    assert!(ok(&["ls", "-lu", &at("a")]).contains(" 1991-01-01 "));
    // 5000 bytes take two fragments.
    for (options, wanted) in [("-s", "16 "), ("-sk", "8 "), ("-skh", "8.0K "), ("-shk", "8 ")] {
        let list = ok(&["ls", options, &at("a")]);
        assert!(list.starts_with(wanted), "{options}: {list}");
    }
}

#[test]
fn ls_of_several_arguments_shows_which_is_which() {
    let d = Dir::new();
    let (one, two) = (d.image("one.img", "8m", &[]), d.image("two.img", "8m", &[]));
    for image in [&one, &two] {
        ok(&["mkdir", &format!("{image}:/dir")]);
        for name in ["a", "dir/b"] {
            ok(&["cp", &d.file("x", b""), &format!("{image}:/{name}")]);
        }
    }
    let (dir, a) = (format!("{one}:/dir"), format!("{one}:/a"));
    assert_eq!(ok(&["ls", &dir, &a, &a, &dir]), "/dir:\nb\n\n/a\n/a\n\n/dir:\nb\n");
    let other = format!("{two}:/dir");
    assert_eq!(ok(&["ls", &dir, &other, &a]), format!("{dir}:\nb\n\n{other}:\nb\n\n{a}\n"));
}

#[test]
fn habits_of_other_systems_work() {
    let d = Dir::new();
    let image = d.image("x.img", "8m", &[]);
    let at = |name: &str| format!("{image}:/{name}");
    ok(&["mkdir", &at("dir")]);
    ok(&["ln", "-s", "dir", &at("to")]);
    // Without -h the link is made in the directory.
    ok(&["ln", "-s", "/1", &at("to")]);
    for (option, text) in [("-sfh", "/2"), ("-sfn", "/3")] {
        ok(&["ln", option, text, &at("to")]);
        assert!(ok(&["ls", "-ld", &at("to")]).ends_with(&format!("/to -> {text}\n")));
        ok(&["ln", "-sfT", "dir", &at("to")]);
    }
    fails(&["ln", "-sfT", "text", &at("dir")], 1, "directory");
    assert_eq!(ok(&["ls", &at("dir")]), "1\n");
    ok(&["cp", &d.file("a", b"new"), &at("a")]);
    ok(&["cp", &d.file("b", b"old"), &at("b")]);
    ok(&["mv", "-n", "-f", &at("a"), &at("b")]);
    assert_eq!(ok(&["cat", &at("b")]), "new");
    assert_eq!(ok(&["df", "-h", &image]), ok(&["df", &image]));
}
