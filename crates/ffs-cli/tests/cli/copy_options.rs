//! Options of `ffs cp` that cp(1) does not have, odd input, and errors.

use crate::common::{Dir, fails, ffs, fsck_clean, is_root, ok, pattern, run, set_mtime, text};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

fn json_lines(printed: &str) -> Vec<serde_json::Value> {
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn json_has_a_line_for_each_file_and_one_for_the_total() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &["-U"]);
    let tree = d.path("tree");
    fs::create_dir_all(tree.join("dir")).unwrap();
    fs::write(tree.join("dir/file"), b"12345").unwrap();
    fs::hard_link(tree.join("dir/file"), tree.join("second")).unwrap();
    fs::write(tree.join(std::ffi::OsStr::from_bytes(b"z\xff\n")), b"odd").unwrap();
    let (from, to) = (tree.to_str().unwrap(), format!("{image}:/"));
    let lines = json_lines(&ok(&["cp", "-a", "--json", "--checksum", from, &to]));
    let row = |n: usize| {
        let (name, kind) = (lines[n]["target"]["name"].as_str().unwrap(), &lines[n]["type"]);
        (name.to_owned(), kind.as_str().unwrap().to_owned(), lines[n]["result"].clone())
    };
    let at = |name: &str| format!("{image}:/{name}");
    assert_eq!(row(0), (at("tree"), "directory".to_owned(), "copied".into()));
    assert_eq!(row(2), (at("tree/dir/file"), "file".to_owned(), "copied".into()));
    assert_eq!(row(3), (at("tree/second"), "link".to_owned(), "copied".into()));
    assert!(lines[4]["target"]["name_hex"].as_str().unwrap().ends_with("7aff0a"), "{}", lines[4]);
    let total = &lines[5];
    assert_eq!((&total["event"], &total["files"]), (&"total".into(), &2.into()));
    assert_eq!((&total["verified"], &total["bytes"]), (&2.into(), &8.into()));
    // The second time nothing is read.
    let lines = json_lines(&ok(&["cp", "-a", "--json", "--continue", from, &to]));
    assert_eq!((&lines[2]["result"], &lines[5]["unchanged"]), (&"unchanged".into(), &2.into()));
    assert_eq!(lines[5]["bytes"], 0);
    let lines = json_lines(&ok(&["cp", "-an", "--json", from, &to]));
    assert_eq!((&lines[2]["result"], &lines[5]["kept"]), (&"kept".into(), &3.into()));
    fails(&["cp", "--json", &at("tree/second"), "-"], 64, "--json");
    fsck_clean(Path::new(&image));
}

#[test]
fn hostile_names_are_escaped_in_messages_and_prompts() {
    let d = Dir::new();
    let image = d.image("a.img", "4m", &[]);
    let tree = d.path("tree");
    fs::create_dir(&tree).unwrap();
    let name = std::ffi::OsString::from_vec(b"\x1b[31mred\r\n\xfe'".to_vec());
    fs::write(tree.join(&name), b"x").unwrap();
    let from = format!("{}/.", tree.display());
    for options in ["-Rv", "-Riv"] {
        let output = ffs()
            .args(["cp", options, &from, &format!("{image}:/")])
            .write_stdin("y\n")
            .output()
            .unwrap();
        let printed = text(&output);
        assert!(output.status.success() && printed.contains("red\\x0d\\x0a\\xfe"), "{printed}");
        assert!(!printed.contains('\x1b') && !printed.contains('\r'), "{printed:?}");
    }
}

#[test]
fn a_dry_run_prints_and_changes_nothing() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    ok(&["cp", &d.file("old", b"old"), &at("/old")]);
    ok(&["mkdir", &at("/clash")]);
    let tree = d.path("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["old", "new"] {
        fs::write(tree.join(name), b"content").unwrap();
    }
    let before = fs::read(&image).unwrap();
    let from = format!("{}/.", tree.display());
    let output = run(&["cp", "-Rv", "--dry-run", &from, &at("/")]);
    let printed = text(&output);
    assert!(output.status.success() && printed.contains("would copy 2 files"), "{printed}");
    assert!(printed.contains("14 B"), "{printed}");
    assert!(printed.contains(&format!("-> '{}'", at("/new"))), "{printed}");
    let output = run(&["cp", "-Rvn", "--dry-run", &from, &at("/")]);
    assert!(text(&output).contains("1 file left alone"), "{}", text(&output));
    fs::write(tree.join("clash"), b"a file").unwrap();
    fails(&["cp", "-R", "--dry-run", &from, &at("/")], 1, "exists and is a directory");
    assert!(fs::read(&image).unwrap() == before, "the image changed");
    let out = d.path("out");
    ok(&["cp", "-R", "--dry-run", &at("/clash"), out.to_str().unwrap()]);
    assert!(!out.exists());
}

#[test]
fn links_to_directories_above_end() {
    let d = Dir::new();
    let tree = d.path("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/file"), b"x").unwrap();
    symlink("..", tree.join("a/b/up")).unwrap();
    symlink("nowhere", tree.join("a/dangle")).unwrap();
    let image = d.image("a.img", "8m", &[]);
    let (from, at) = (tree.to_str().unwrap(), |path: &str| format!("{image}:{path}"));
    let printed = fails(&["cp", "-RL", from, &at("/")], 1, "leads to a directory above it");
    assert!(printed.contains("a/dangle"), "{printed}");
    assert_eq!(ok(&["cat", &at("/tree/a/file")]), "x");
    ok(&["cp", "-R", from, &at("/links")]);
    let out = d.str("out");
    let printed = fails(&["cp", "-RL", &at("/links"), &out], 1, "leads to a directory above it");
    assert!(printed.contains("a/dangle"), "{printed}");
    assert_eq!(fs::read(Path::new(&out).join("a/file")).unwrap(), b"x");
    fsck_clean(Path::new(&image));
}

#[test]
fn targets_are_named_by_t_and_long_options_work() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let (one, two) = (d.file("one", b"1"), d.file("two", b"2"));
    ok(&["mkdir", &at("/dir")]);
    ok(&["cp", "-t", &at("/dir"), &one, &two]);
    ok(&["cp", "--target-directory", &at("/dir"), "--force", "--verbose", &one]);
    assert_eq!(ok(&["ls", &at("/dir")]), "one\ntwo\n");
    fails(&["cp", "-t", &at("/none"), &one], 1, "/none");
    fails(&["cp", "-t", &at("/dir/one"), &two], 1, "not a directory");
    fails(&["cp", &one], 64, "no target");
    fails(&["cp", "--reflink=always", &one, &at("/")], 64, "always");
    fails(&["cp", "--preserve=context", &one, &at("/")], 64, "context");
    fails(&["cp", "-i", "-", &at("/x")], 64, "standard input");
    fails(&["cp", "--dry-run", "-i", &one, &at("/")], 64, "cannot be used with");
    let flags = format!("{image}:/flags");
    ok(&["cp", &one, &flags]);
    ok(&["chflags", "nodump", &flags]);
    ok(&["cp", "--preserve=flags", &flags, &at("/copy")]);
    assert!(ok(&["stat", &at("/copy")]).contains("nodump"));
    ok(&["cp", "-p", "--no-preserve=flags", &flags, &at("/bare")]);
    assert!(!ok(&["stat", &at("/bare")]).contains("nodump"));
}

/// The set-id bits of a file are not given to another owner.
#[test]
fn set_id_bits_need_the_owner() {
    if !is_root() {
        return println!("skipped: needs root");
    }
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let file = d.file("suid", b"program");
    std::os::unix::fs::chown(&file, Some(5), Some(6)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).unwrap();
    for (list, mode) in [("mode", "-rwxr-xr-x"), ("mode,ownership", "-rwsr-sr-x")] {
        ok(&["cp", &format!("--preserve={list}"), &file, &at("/copy")]);
        let listed = ok(&["ls", "-l", &at("/copy")]);
        assert!(listed.starts_with(mode), "{list}: {listed}");
        ok(&["cp", "-p", &file, &at("/whole")]);
        let out = d.str("out");
        ok(&["cp", &format!("--preserve={list}"), &at("/whole"), &out]);
        let wanted = if list == "mode" { 0o755 } else { 0o6755 };
        assert_eq!(fs::metadata(&out).unwrap().mode() & 0o7777, wanted, "{list}");
        fs::remove_file(&out).unwrap();
    }
}

#[test]
fn a_source_that_changes_is_never_taken_for_complete() {
    let d = Dir::new();
    let image = d.image("a.img", "64m", &["-U"]);
    let (big, at) = (d.path("big"), format!("{image}:/big"));
    let content = pattern(24 << 20, 7);
    fs::write(&big, &content).unwrap();
    // Another program writes to it all the time.
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::os::unix::fs::FileExt;
            let file = fs::OpenOptions::new().write(true).open(&big).unwrap();
            let mut n = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_all_at(&n.to_le_bytes(), n * 4097 % (20 << 20)).unwrap();
                n += 1;
            }
        });
        // A copy of bytes that were there at some moment is a copy.
        for _ in 0..3 {
            let from = big.to_str().unwrap();
            ok(&["cp", "-a", "--continue", "--checksum", from, &at]);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    ok(&["cp", "-a", "--continue", big.to_str().unwrap(), &at]);
    ok(&["diff", &at, big.to_str().unwrap()]);
    // One that becomes shorter is an error, and no file is left.
    let shrink = fs::OpenOptions::new().write(true).open(&big).unwrap();
    shrink.set_len(10).unwrap();
    set_mtime(&big, 1_000_000_000, 0);
    ok(&["cp", "-a", "--continue", big.to_str().unwrap(), &at]);
    ok(&["diff", &at, big.to_str().unwrap()]);
    fsck_clean(Path::new(&image));
}

#[test]
fn errors_of_permission_name_the_file_and_others_are_copied() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    for name in ["a", "b", "c"] {
        ok(&["cp", &d.file(name, name.as_bytes()), &at("/")]);
    }
    if !is_root() {
        let out = d.path("out");
        fs::create_dir(&out).unwrap();
        fs::write(out.join("b"), b"old").unwrap();
        fs::set_permissions(out.join("b"), fs::Permissions::from_mode(0o400)).unwrap();
        fails(&["cp", &at("/a"), &at("/b"), &at("/c"), out.to_str().unwrap()], 1, "-f replaces it");
        assert_eq!(fs::read(out.join("c")).unwrap(), b"c");
    }
    // In an image a flag forbids the change, also for root.
    ok(&["chflags", "schg", &at("/b")]);
    let tree = d.path("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(tree.join(name), b"new").unwrap();
    }
    let from = format!("{}/.", tree.display());
    for options in [&["-R"][..], &["-a", "--continue"], &["-a", "--checksum"]] {
        let printed = fails(&[&["cp"], options, &[&from, &at("/")]].concat(), 1, "schg");
        assert!(printed.contains("b: "), "{printed}");
        assert_eq!(ok(&["cat", &at("/a"), &at("/b"), &at("/c")]), "newbnew");
    }
}

#[test]
fn a_prompt_without_an_answer_keeps_the_file() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let at = |path: &str| format!("{image}:{path}");
    let (one, two) = (d.file("one", b"1"), d.file("two", b"2"));
    ok(&["cp", &one, &two, &at("/")]);
    let new = d.file("new", b"new");
    let mut ask = Command::new(assert_cmd::cargo::cargo_bin!("ffs"));
    ask.args(["cp", "-iT", &new, &at("/one")]).stdin(Stdio::null());
    let output = ask.output().unwrap();
    let prompt = format!("overwrite '{}'? ", at("/one"));
    assert!(output.status.success() && text(&output).contains(&prompt), "{}", text(&output));
    assert_eq!(ok(&["cat", &at("/one")]), "1");
    let answered = ffs().args(["cp", "-iT", &new, &at("/one")]).write_stdin("maybe\n").output();
    assert!(answered.unwrap().status.success());
    assert_eq!(ok(&["cat", &at("/one")]), "1");
    let answered = ffs().args(["cp", "-iT", &new, &at("/one")]).write_stdin("YES\n").output();
    assert!(answered.unwrap().status.success());
    assert_eq!(ok(&["cat", &at("/one")]), "new");
}

/// As with cp(1) of GNU: the root, and `.`, are directories that have no other name.
#[test]
fn with_no_target_directory_a_directory_gets_what_is_in_the_source() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let (tree, at) = (d.str("tree"), |path: &str| format!("{image}:{path}"));
    fs::create_dir_all(d.path("tree/sub")).unwrap();
    let file = d.file("tree/file", b"content");
    ok(&["cp", "-a", "-T", &tree, &at("/")]);
    assert_eq!(ok(&["find", &image, "-mindepth", "1"]), "/.snap\n/file\n/sub\n");
    let words = "/: is a directory; without -T the copy goes into it";
    fails(&["cp", "-T", &file, &at("/")], 1, words);
    fs::create_dir(d.path("out")).unwrap();
    let here = |args: &[&str]| ffs().args(args).current_dir(d.path("out")).output().unwrap();
    let copied = here(&["cp", "-a", "-T", &at("/sub/.."), "."]);
    assert!(copied.status.success(), "{}", text(&copied));
    assert_eq!(fs::read(d.path("out/file")).unwrap(), b"content");
    let refused = here(&["cp", "-T", &at("/file"), "."]);
    assert!(text(&refused).contains(".: is a directory; without -T"), "{}", text(&refused));
    fails(&["cp", "-T", &file, &file, &at("/")], 64, "-T: the target is one name");
    fsck_clean(Path::new(&image));
}

#[test]
fn a_directory_of_another_file_system_is_copied_empty_with_x() {
    let d = Dir::new();
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else {
        return println!("skipped: there is no /dev/shm");
    };
    fs::create_dir_all(d.path("tree/own")).unwrap();
    if fs::metadata(other.path()).unwrap().dev() == fs::metadata(d.path("tree")).unwrap().dev() {
        return println!("skipped: /dev/shm is on the same file system as the test");
    }
    fs::write(other.path().join("file"), b"x").unwrap();
    fs::write(d.path("tree/own/file"), b"x").unwrap();
    symlink(other.path(), d.path("tree/mounted")).unwrap();
    let image = d.image("a.img", "8m", &[]);
    for (options, copied) in [("-rLx", false), ("-rL", true)] {
        ok(&["cp", options, "-T", &d.str("tree"), &format!("{image}:/{options}")]);
        let found = ok(&["find", &format!("{image}:/{options}")]);
        assert!(found.contains("own/file\n") && found.contains("mounted\n"), "{found}");
        assert_eq!(found.contains("mounted/file\n"), copied, "{options}: {found}");
        let mut cp = Command::new("cp");
        cp.args([options, "-T", &d.str("tree")]).arg(d.path(options));
        if cp.status().is_ok_and(|status| status.success()) {
            let theirs = d.path(options).join("mounted");
            assert_eq!((theirs.is_dir(), theirs.join("file").exists()), (true, copied));
        }
    }
    // The top may be there itself.
    ok(&["cp", "-rLx", "-T", other.path().to_str().unwrap(), &format!("{image}:/top")]);
    assert_eq!(ok(&["cat", &format!("{image}:/top/file")]), "x");
}
