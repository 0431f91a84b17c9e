//! SIGINT and SIGTERM while a command waits, and what a command that was killed leaves.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Dir, ffs, fsck_clean, json_lines, ok, pattern};

/// How long a command may take to start, or to end after a signal.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts `ffs ARGS...` with a standard input that nothing comes from.
fn started(args: &[&str]) -> Child {
    let mut command = Command::new(ffs().get_program());
    command.args(args).env_remove("SOURCE_DATE_EPOCH").env("LC_ALL", "C");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits until `done` is true.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        sleep(Duration::from_millis(5));
    }
}

/// Waits until the process has a handler of SIGINT.
fn wait_for_handler(child: &Child) {
    let path = format!("/proc/{}/status", child.id());
    wait_for("a handler of SIGINT", || {
        let status = fs::read_to_string(&path).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 2 != 0)
    });
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The exit code of the process, which ends soon; `None` for a signal.
fn code(mut child: Child, what: &str) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{what}: runs after the signal");
        }
        sleep(Duration::from_millis(5));
    }
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
}

#[test]
fn a_command_that_waits_for_a_pipe_ends_with_a_signal() {
    let d = Dir::new();
    let image = d.image("x.img", "8m", &[]);
    let (root, name) = (format!("{image}:/"), format!("{image}:/name"));
    let (pipe, new, tree) = (d.str("pipe"), d.str("new.img"), d.str("tree"));
    fifo(&d.path("pipe"));
    fs::create_dir(&tree).unwrap();
    ok(&["touch", &format!("{image}:/file")]);
    let out = format!("copy-out /file {pipe}");
    for (number, args) in [
        &["cp", "-", &name][..],
        &["cp", &pipe, &root],
        &["tar", "xf", &pipe, &root],
        &["tar", "x", &root],
        &["restore", "-t", "-f", &pipe],
        &["build", "--mtree", &pipe, &new, &tree],
        &["build", "--size", "8m", &new, &pipe],
        &["disk", "create", &new, "--swap", "1m", "--pmbr", &pipe],
        &["shell", "-w", &image, "-f", &pipe],
        &["tar", "cf", &pipe, &root],
        &["dump", "-0", "-f", &pipe, &image],
        &["shell", &image, "-c", &out],
    ]
    .into_iter()
    .enumerate()
    {
        let child = started(args);
        wait_for_handler(&child);
        sleep(Duration::from_millis(300));
        send(&child, if number % 2 == 0 { Signal::INT } else { Signal::TERM });
        assert_eq!(code(child, &format!("{args:?}")), Some(130), "{args:?}");
        assert!(!Path::new(&new).exists(), "{args:?}");
        let info: serde_json::Value = json_lines(&ok(&["info", "--json", &image]));
        assert_eq!(info[0]["content"]["clean"], true, "{args:?}: {info}");
        fsck_clean(Path::new(&image));
    }
    let left = fs::read_dir(d.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["pipe", "tree", "x.img"]);
}

#[test]
fn a_command_that_only_prints_ends_by_the_signal() {
    let d = Dir::new();
    let image = d.image("x.img", "16m", &[]);
    let big = format!("{image}:/big");
    ok(&["cp", &d.file("big", &pattern(8 << 20, 1)), &big]);
    for args in [&["cat", &big][..], &["cp", &big, "-"]] {
        // Nothing reads its output, which does not fit into the pipe.
        let child = started(args);
        send(&child, Signal::TERM);
        assert_eq!(code(child, &format!("{args:?}")), None, "{args:?}");
    }
}

/// `timeout -s INT` sends its signal to the process, and then to the group of the process.
#[test]
fn a_signal_that_comes_twice_at_once_counts_once() {
    let reported = || {
        let child = started(&["lab", "crash", "--length", "2", "--check-every", "1"]);
        wait_for_handler(&child);
        for _ in 0..4 {
            send(&child, Signal::INT);
            sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        String::from_utf8(output.stdout).unwrap().contains("states")
    };
    // A busy machine may deliver them too far apart, but not each time.
    assert!((0..10).any(|_| reported()), "no report");
}

#[test]
fn the_second_signal_ends_a_command_that_is_held_up() {
    // A server that accepts and is silent.
    let d = Dir::new();
    let silent = std::os::unix::net::UnixListener::bind(d.path("socket")).unwrap();
    let file = format!("nbd+unix:///?socket={}:/file", d.str("socket"));
    let mut child = started(&["chmod", "644", &file]);
    let _connection = silent.accept().unwrap();
    wait_for_handler(&child);
    send(&child, Signal::INT);
    sleep(Duration::from_millis(300));
    if child.try_wait().unwrap().is_none() {
        send(&child, Signal::INT);
    }
    assert_eq!(code(child, "chmod"), Some(130));
}

#[test]
fn a_pipe_is_read_to_its_end() {
    let d = Dir::new();
    let image = d.image("x.img", "8m", &[]);
    let (pipe, bytes) = (d.path("pipe"), pattern(1_000_000, 1));
    fifo(&pipe);
    let child = started(&["cp", &d.str("pipe"), &format!("{image}:/")]);
    // The open waits for the reader.
    fs::write(&pipe, &bytes).unwrap();
    assert_eq!(code(child, "cp"), Some(0));
    let copy = ffs().args(["cat", &format!("{image}:/pipe")]).output().unwrap();
    assert!(copy.stdout == bytes);
    // In the other direction, too.
    let child = started(&["tar", "cf", &d.str("pipe"), &format!("{image}:/pipe")]);
    let archive = fs::read(&pipe).unwrap();
    assert_eq!(code(child, "tar"), Some(0));
    assert!(archive.windows(bytes.len()).any(|part| part == bytes));
    // A writer that ends before the reader begins.
    let script = format!("printf abc | (sleep 0.3; {} cp - {image}:/stdin)", "\"$FFS\"");
    let done = Command::new("sh").args(["-c", &script]).env("FFS", ffs().get_program()).status();
    assert!(done.unwrap().success());
    assert_eq!(ok(&["cat", &format!("{image}:/stdin")]), "abc");
}

/// An image of UFS1 with a file of this size that was removed while it was open, and its number.
fn with_removed_file(d: &Dir, size: usize) -> (String, u64) {
    let image = d.image("removed.img", "200m", &["-O", "1"]);
    let big = d.file("big", &pattern(size, 3));
    ok(&["cp", &big, &format!("{image}:/big")]);
    let line = ok(&["debug", "inode", "--json", &format!("{image}:/big")]);
    let inode: serde_json::Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    let at = inode["byte"].as_u64().unwrap();
    let file = fs::File::options().write(true).open(&image).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0, 0], at + 2).unwrap();
    (image, inode["inode"].as_u64().unwrap())
}

#[test]
fn an_interrupted_recovery_leaves_no_part_of_a_file() {
    let d = Dir::new();
    let (image, number) = with_removed_file(&d, 150 << 20);
    let (found, name) = (d.str("found"), d.path(&format!("found/inode-{number}")));
    let hidden = || {
        let entries = fs::read_dir(&found).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".ffs-undelete.")).collect::<Vec<_>>()
    };
    for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
        let child = started(&["undelete", "-d", &found, &image]);
        wait_for("the temporary file", || !hidden().is_empty());
        send(&child, signal);
        let wanted = (signal != Signal::KILL).then_some(130);
        assert_eq!(code(child, "undelete"), wanted, "{signal:?}");
        assert!(!name.exists(), "{signal:?}");
        if signal == Signal::KILL {
            // The guide names it.
            assert_eq!(hidden().len(), 1);
            fs::remove_file(Path::new(&found).join(&hidden()[0])).unwrap();
        }
        assert!(hidden().is_empty(), "{signal:?}: {:?}", hidden());
    }
    ok(&["undelete", "-d", &found, &image]);
    assert_eq!(fs::metadata(&name).unwrap().len(), 150 << 20);
    assert!(hidden().is_empty());
}

#[test]
fn a_pipe_in_place_of_an_image_is_refused_at_once() {
    let d = Dir::new();
    fifo(&d.path("pipe"));
    let pipe = d.str("pipe");
    let mut header = vec![0; 1024];
    header[..4].copy_from_slice(b"QFI\xfb");
    header[7] = 2;
    header[8..16].copy_from_slice(&512_u64.to_be_bytes());
    header[16..20].copy_from_slice(&4_u32.to_be_bytes());
    header[512..516].copy_from_slice(b"pipe");
    let qcow2 = d.file("over.qcow2", &header);
    let text = "# Disk DescriptorFile\nversion=1\nCID=1\nparentCID=2\n\
                parentFileNameHint=\"pipe\"\ncreateType=\"monolithicFlat\"\n";
    let vmdk = d.file("over.vmdk", text.as_bytes());
    for (image, words) in [
        (&pipe, "not a regular file or a block device"),
        (&qcow2, "its backing file"),
        (&vmdk, "it names pipe"),
    ] {
        for args in [&["info", image][..], &["ls", &format!("{image}:/new")]] {
            let mut child = started(args);
            let mut stderr = child.stderr.take().unwrap();
            assert_eq!(code(child, &format!("{args:?}")), Some(1), "{args:?}");
            let mut shown = String::new();
            std::io::Read::read_to_string(&mut stderr, &mut shown).unwrap();
            assert!(shown.contains(words), "{args:?}: {shown}");
        }
    }
}
