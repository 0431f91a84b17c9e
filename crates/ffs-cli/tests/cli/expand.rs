//! `--write`: compressed images are expanded beside them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Dir, fails, fsck_clean, is_root, ok, pattern, run, text};

/// Compresses `image` with a program, which keeps it elsewhere. `None` if it is not installed.
fn packed(d: &Dir, program: &str, ending: &str) -> Option<String> {
    let packed = d.str(&format!("disk.img.{ending}"));
    let out = fs::File::create(&packed).unwrap();
    let done = Command::new(program).args(["-c", &d.str("whole")]).stdout(out).status();
    if !done.is_ok_and(|status| status.success()) {
        println!("skipped: no {program}");
        return None;
    }
    Some(packed)
}

fn whole(d: &Dir) {
    fs::create_dir(d.path("tree")).unwrap();
    d.file("tree/data", &pattern(300_000, 1));
    ok(&["build", "--free", "64m", &d.str("whole"), &d.str("tree")]);
}

#[test]
fn a_compressed_image_is_expanded_once_and_then_changed() {
    let d = Dir::new();
    whole(&d);
    let original = fs::read(d.path("whole")).unwrap();
    for (program, ending) in [("gzip", "gz"), ("xz", "xz"), ("zstd", "zst"), ("bzip2", "bz2")] {
        let Some(image) = packed(&d, program, ending) else { continue };
        let raw = d.str("disk.img");
        let before = fs::read(&image).unwrap();
        fails(&["mkdir", &format!("{image}:/new")], 1, "--write");
        assert!(!Path::new(&raw).exists());
        ok(&["--write", "mkdir", &format!("{image}:/new")]);
        assert!(fs::read(&image).unwrap() == before, "the compressed image stays");
        fsck_clean(Path::new(&raw));
        assert!(run(&["cat", &format!("{raw}:/data")]).stdout == pattern(300_000, 1));
        assert!(ok(&["ls", &format!("{raw}:/")]).contains("new"));
        let found = fs::metadata(&raw).unwrap();
        assert_eq!(found.len(), original.len() as u64);
        assert!(found.blocks() * 512 < found.len() / 4, "{} blocks: no holes", found.blocks());
        // The raw image is not made again, nor replaced.
        let changed = fs::read(&raw).unwrap();
        fails(&["mkdir", "--write", &format!("{image}:/other")], 1, "disk.img");
        assert!(fs::read(&raw).unwrap() == changed);
        fs::remove_file(&raw).unwrap();
        // A command that fails later leaves the image as it was expanded.
        fails(&["--write", "rmdir", &format!("{image}:/none")], 64, "");
        fails(&["--write", "rm", &format!("{image}:/none")], 1, "none");
        fs::remove_file(&raw).unwrap();
        fs::remove_file(&image).unwrap();
        let left: Vec<_> = fs::read_dir(d.0.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}

#[test]
fn what_cannot_be_expanded_leaves_no_file() {
    let d = Dir::new();
    whole(&d);
    let Some(image) = packed(&d, "xz", "xz") else { return };
    let bytes = fs::read(&image).unwrap();
    fs::write(d.path("odd"), &bytes).unwrap();
    fails(&["--write", "mkdir", &format!("{}:/new", d.str("odd"))], 1, ".xz");
    // Damage behind the first blocks, where the superblock is.
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0x55);
    fs::write(&image, &damaged).unwrap();
    fails(&["--write", "mkdir", &format!("{image}:/new")], 1, "damaged");
    fs::write(&image, &bytes).unwrap();
    let names = || {
        let names = fs::read_dir(d.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["disk.img.xz", "odd", "tree", "whole"]);
    // A partition keeps its number.
    let disk = d.str("gpt.img");
    ok(&["disk", "create", &disk, "--swap", "1m", "--ufs", &format!("root={}", d.str("tree"))]);
    assert!(Command::new("xz").arg(&disk).status().unwrap().success());
    ok(&["--write", "mkdir", &format!("{disk}.xz@2:/new")]);
    assert!(ok(&["ls", &format!("{disk}@2:/")]).contains("new"));
    fsck_clean(Path::new(&format!("{disk}@2")));
}

/// SIGINT while the image is expanded: nothing is left of the new one.
#[test]
fn an_interrupted_expansion_leaves_no_file() {
    use rustix::process::{Pid, Signal, kill_process};
    let d = Dir::new();
    fs::create_dir(d.path("tree")).unwrap();
    d.file("tree/data", &pattern(24_000_000, 1));
    ok(&["build", "--free", "256m", &d.str("whole"), &d.str("tree")]);
    let Some(image) = packed(&d, "gzip", "gz") else { return };
    let before = fs::read(&image).unwrap();
    let names = || -> Vec<_> {
        let all = fs::read_dir(d.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = all.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    let kept = names();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
        .args(["--write", "mkdir", &format!("{image}:/new")])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while names().len() == kept.len() {
        assert_eq!(child.try_wait().unwrap(), None, "it has ended before it was interrupted");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_eq!(names(), kept);
    assert!(fs::read(&image).unwrap() == before);
    // The same command works afterwards.
    ok(&["--write", "mkdir", &format!("{image}:/new")]);
    fsck_clean(&d.path("disk.img"));
}

/// A compressed image and a directory to mount it on, if this process may mount.
fn to_mount(d: &Dir) -> Option<(String, String)> {
    if !is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: mounting needs root and /dev/fuse");
        return None;
    }
    whole(d);
    let image = packed(d, "xz", "xz")?;
    let dir = d.str("mnt");
    fs::create_dir(&dir).unwrap();
    Some((image, dir))
}

#[test]
fn a_compressed_image_is_expanded_and_mounted() {
    let d = Dir::new();
    let Some((image, dir)) = to_mount(&d) else { return };
    assert!(!run(&["mount", &image, &dir]).status.success());
    ok(&["mount", "--write", &image, &dir]);
    let made = fs::write(Path::new(&dir).join("new"), "x");
    ok(&["umount", &dir]);
    made.unwrap();
    assert_eq!(ok(&["cat", &format!("{}:/new", d.str("disk.img"))]), "x");
    fsck_clean(&d.path("disk.img"));
}

/// The server unmounts at the first signal, and the expansion has left no handler that ends it.
#[test]
fn a_second_signal_does_not_end_the_server_of_an_expanded_image() {
    use rustix::process::{Pid, Signal, kill_process};
    let d = Dir::new();
    let Some((image, dir)) = to_mount(&d) else { return };
    let mut server = Command::new(assert_cmd::cargo::cargo_bin!("ffs"))
        .args(["mount", "-f", "--write", &image, &dir])
        .spawn()
        .unwrap();
    let mounted = format!(" {} ", fs::canonicalize(&dir).unwrap().display());
    let begun = std::time::Instant::now();
    while !fs::read_to_string("/proc/self/mounts").unwrap().contains(&mounted) {
        assert_eq!(server.try_wait().unwrap(), None, "it did not mount");
        assert!(begun.elapsed().as_secs() < 60, "it does not mount");
        std::thread::yield_now();
    }
    fs::write(Path::new(&dir).join("new"), "x").unwrap();
    for signal in [Signal::TERM, Signal::INT] {
        kill_process(Pid::from_child(&server), signal).unwrap();
    }
    let ended = loop {
        match server.try_wait().unwrap() {
            None if begun.elapsed().as_secs() < 60 => std::thread::yield_now(),
            ended => break ended,
        }
    };
    if !ended.is_some_and(|status| status.success()) {
        // A server that ended while it used its own mount waits until that is aborted.
        let _ = Command::new("umount").args(["-f", "-l", &dir]).status();
        panic!("the second signal ended the server: {ended:?}");
    }
    assert_eq!(ok(&["cat", &format!("{}:/new", d.str("disk.img"))]), "x");
    fsck_clean(&d.path("disk.img"));
}
