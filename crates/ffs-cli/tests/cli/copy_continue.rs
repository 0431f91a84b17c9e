//! `ffs cp --continue` after a kill, after an interrupt, and after a full volume.

use crate::common::{Dir, fails, ffs, fsck_clean, make_tree, ok, pattern, run, text};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Kills at different moments of one copy.
const KILLS: u32 = 10;

/// A tree with a bit of everything and a large file.
fn tree(d: &Dir) -> String {
    let tree = d.path("tree");
    make_tree(&tree);
    fs::write(tree.join("middle"), pattern(40 << 20, 11)).unwrap();
    tree.into_os_string().into_string().unwrap()
}

/// Starts `ffs ARGS...`, and ends it with `signal` after `delay`, unless it ended before.
fn interrupted(args: &[&str], delay: Duration, signal: Signal) -> bool {
    let mut ffs = Command::new(assert_cmd::cargo::cargo_bin!("ffs"));
    let mut child = ffs.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + delay;
    while Instant::now() < end {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), signal).ok();
    !child.wait().unwrap().success()
}

/// The time that `ffs ARGS...` takes.
fn duration(args: &[&str]) -> Duration {
    let start = Instant::now();
    ok(args);
    start.elapsed()
}

/// Copies `from` into a fresh image many times, kills the copy each time at another moment, goes on
/// with `--continue`, which is killed once, too, and compares.
fn killed_into(newfs: &[&str], check: Option<&str>, options: &[&str]) {
    let d = Dir::new();
    let from = tree(&d);
    let empty = d.image("empty.img", "128m", newfs);
    let image = d.str("a.img");
    let to = format!("{image}:/tree");
    let first = [&["cp"], options, &["-T", &from, &to]].concat();
    let again = [&["cp"], options, &["--continue", "-T", &from, &to]].concat();
    fs::copy(&empty, &image).unwrap();
    let whole = duration(&first);
    let mut hits = 0;
    for n in 0..KILLS {
        fs::copy(&empty, &image).unwrap();
        let delay = whole * n / KILLS;
        // Every second time the first copy has --continue, too.
        let copy = if n % 2 == 0 { &first } else { &again };
        hits += u32::from(interrupted(copy, delay, Signal::KILL));
        let checked = |image: &str| {
            if let Some(check) = check {
                let checked = run(&["fsck", check, image]);
                assert!(checked.status.success(), "{n}: {}", text(&checked));
            }
        };
        checked(&image);
        interrupted(&again, whole * (n % 3) / 4, Signal::KILL);
        checked(&image);
        let output = run(&again);
        assert!(output.status.success(), "{n}: {}", text(&output));
        let differ = run(&["diff", &to, &from]);
        assert!(differ.status.success(), "{n} {options:?}: {}", text(&differ));
        // After a kill the map of free space may be too small.
        ok(&["fsck", "-p", &image]);
        fsck_clean(Path::new(&image));
    }
    println!("{hits} of {KILLS} copies were killed");
}

#[test]
fn a_killed_copy_into_an_image_goes_on() {
    killed_into(&["-U"], None, &["-a"]);
}

#[test]
fn a_killed_copy_into_an_image_without_soft_updates_goes_on_after_a_check() {
    killed_into(&[], Some("-y"), &["-a"]);
}

#[test]
fn a_killed_copy_out_of_an_image_goes_on() {
    let d = Dir::new();
    let from = tree(&d);
    let image = d.image("a.img", "128m", &[]);
    ok(&["cp", "-a", "-T", &from, &format!("{image}:/tree")]);
    let (source, out) = (format!("{image}:/tree"), d.str("out"));
    let whole = duration(&["cp", "-a", "-T", &source, &out]);
    let mut hits = 0;
    for n in 0..KILLS {
        fs::remove_dir_all(&out).unwrap();
        hits += u32::from(interrupted(
            &["cp", "-a", "-T", &source, &out],
            whole * n / KILLS,
            Signal::KILL,
        ));
        let again = ["cp", "-a", "--continue", "-T", &source, &out];
        interrupted(&again, whole * (n % 3) / 4, Signal::KILL);
        let output = run(&again);
        assert!(output.status.success(), "{n}: {}", text(&output));
        // Nothing unfinished is left: such a file would be only in one tree.
        let differ = run(&["diff", &source, &out]);
        assert!(differ.status.success(), "{n}: {}", text(&differ));
    }
    println!("{hits} of {KILLS} copies were killed");
}

/// SIGINT and a large file: what was copied is not copied again.
#[test]
fn an_interrupted_large_file_goes_on_where_it_was() {
    let d = Dir::new();
    let content = pattern(200 << 20, 3);
    let big = d.file("big", &content);
    let image = d.image("a.img", "512m", &["-U"]);
    let to = format!("{image}:/big");
    let args = ["cp", "-a", "--continue", &big, &to];
    let whole = duration(&args);
    ok(&["rm", &to]);
    let signalled = [2, 3, 4, 6, 10].into_iter().any(|part| {
        let _ = run(&["rm", "-f", &to]);
        interrupted(&args, whole / part, Signal::INT) && run(&["cat", &to]).status.success()
    });
    if !signalled {
        return println!("the machine was faster than the signal");
    }
    fsck_clean(Path::new(&image));
    let part = run(&["cat", &to]).stdout;
    assert!(!part.is_empty() && content.starts_with(&part), "{} bytes", part.len());
    let mode = ok(&["ls", "-l", &to]);
    assert!(mode.starts_with("----------"), "{mode}");
    ok(&args);
    ok(&["diff", &to, &big]);
    // Without --continue an unfinished file is removed.
    ok(&["rm", &to]);
    if interrupted(&["cp", "-a", &big, &to], whole / 2, Signal::INT) {
        fails(&["cat", &to], 1, "/big");
    }
}

#[test]
fn a_copy_goes_on_after_the_volume_was_full() {
    let d = Dir::new();
    let from = tree(&d);
    for options in [&["-U"][..], &[]] {
        let image = d.image("a.img", "64m", options);
        let to = format!("{image}:/tree");
        ok(&["cp", &d.file("filler", &pattern(30 << 20, 5)), &format!("{image}:/filler")]);
        let args = ["cp", "-a", "--continue", "-T", &from, &to];
        let printed = fails(&args, 1, "no space left");
        assert!(printed.contains("then run the same command again to go on"), "{printed}");
        // Without -T the next copy would go into the directory that this one makes.
        let other = format!("{image}:/other");
        let printed = fails(&["cp", "-a", "--continue", &from, &other], 1, "no space left");
        assert!(printed.contains("then run the same command again with -T to go on"), "{printed}");
        ok(&["rm", "-rf", &other]);
        fsck_clean(Path::new(&image));
        // The same once more changes nothing.
        fails(&args, 1, "no space left");
        ok(&["rm", &format!("{image}:/filler")]);
        ok(&args);
        ok(&["diff", &to, &from]);
        fsck_clean(Path::new(&image));
    }
}

/// Existing files of every kind of wrong content get that of the source, and no other file changes.
#[test]
fn wrong_parts_are_rewritten_and_complete_files_are_not_read() {
    let d = Dir::new();
    let content = pattern(3 << 20, 1);
    let source = d.path("source");
    fs::create_dir(&source).unwrap();
    let wrong: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("prefix", content[..1_234_567].to_vec()),
        ("first", [&[!content[0]], &content[1..]].concat()),
        ("last", [&content[..content.len() - 1], &[!content[content.len() - 1]]].concat()),
        ("longer", [&content[..], b"more"].concat()),
        ("zeros", vec![0; content.len()]),
        ("same", content.clone()),
    ];
    for (name, _) in &wrong {
        fs::write(source.join(name), &content).unwrap();
    }
    let from = source.to_str().unwrap();
    let reference = d.image("reference.img", "64m", &["-U"]);
    ok(&["cp", "-a", "-T", from, &format!("{reference}:/source")]);
    let inside = format!("{reference}:/source");
    for into in [true, false] {
        let (image, out) = (d.image("a.img", "64m", &["-U"]), d.path("out"));
        let old = d.path("old");
        for dir in [&old, &out] {
            fs::create_dir_all(dir).unwrap();
            for (name, bytes) in &wrong {
                fs::write(dir.join(name), bytes).unwrap();
            }
        }
        let to = if into { format!("{image}:/old") } else { d.str("out") };
        ok(&["cp", "-a", old.to_str().unwrap(), &format!("{image}:/")]);
        let source = if into { from } else { &*inside };
        let printed = ok(&["cp", "-a", "--json", "--continue", "-T", source, &to]);
        let unchanged = printed.lines().filter(|line| line.contains("\"unchanged\"")).count();
        assert_eq!(unchanged, 2, "{printed}");
        ok(&["diff", if into { &to } else { &inside }, if into { from } else { &to }]);
        fs::remove_dir_all(&out).unwrap();
        fsck_clean(Path::new(&image));
    }
    // The rule: size and time. Only --checksum reads a file that has both.
    let image = d.image("a.img", "64m", &["-U"]);
    let (file, to) = (d.file("f", b"right"), format!("{image}:/f"));
    let bad = d.file("bad", b"wrong");
    for path in [&file, &bad] {
        crate::common::set_mtime(Path::new(path), 1_000_000_000, 5);
    }
    ok(&["cp", "-a", &bad, &to]);
    ok(&["cp", "-a", "--continue", &file, &to]);
    assert_eq!(ok(&["cat", &to]), "wrong");
    ok(&["cp", "-a", "--continue", "--checksum", &file, &to]);
    assert_eq!(ok(&["cat", &to]), "right");
    // Without soft updates size and time are not enough.
    let image = d.image("b.img", "64m", &[]);
    let to = format!("{image}:/f");
    ok(&["cp", "-a", &bad, &to]);
    ok(&["cp", "-a", "--continue", &file, &to]);
    assert_eq!(ok(&["cat", &to]), "right");
}

/// Without `-a`: times differ, all files are compared, and a new file gets its mode.
#[test]
fn without_times_files_are_compared() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &["-U"]);
    let (file, to) = (d.file("file", b"content"), format!("{image}:/file"));
    ok(&["cp", &file, &to]);
    let put = ffs().args(["truncate", "-s", "3", &to]).output().unwrap();
    assert!(put.status.success());
    ok(&["cp", "--continue", &file, &to]);
    assert_eq!(ok(&["cat", &to]), "content");
    // A file with the mode 0 was left unfinished.
    ok(&["chmod", "0", &to]);
    ok(&["cp", "--continue", &file, &to]);
    assert!(ok(&["ls", "-l", &to]).starts_with("-rw-r--r--"));
    ok(&["cp", "--continue", &to, &d.str("out")]);
    assert_eq!(fs::read(d.path("out")).unwrap(), b"content");
}
