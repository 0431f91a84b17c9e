//! Random operations through a mount, ending in an unmount that succeeds and a check that finds
//! nothing.
//!
//! `FFS_STRESS_SECONDS` is how long each kind runs (without it: so many operations of each
//! process), `FFS_STRESS_SEED` the seed (default 1). `FFS_FUSE_OPTIONS` has more options for every
//! mount, such as `writeback`, and `FFS_FUSE_TRANSPORT` the way of requests, `io_uring` or `dev`.

use crate::common::{Dir, fails, is_root, ok, run, text};
use ffs_testkit::envvar::number;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Operations of each process if no time is given.
const OPERATIONS: u64 = 2500;
const PROCESSES: &str = "4";
/// Most memory of a server, KiB: buffers, names and inodes of its default limits, and what soft
/// updates may keep.
const MEMORY: u64 = 512 << 10;

/// A mounted image and its server, which is killed if the test ends early.
struct Served {
    dir: Dir,
    image: String,
    options: &'static str,
    server: Child,
}

impl Served {
    /// `None`, with a line about the reason, if nothing can be mounted.
    fn new(size: &str, options: &'static str) -> Option<Served> {
        if !is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let dir = Dir::new();
        let image = dir.image("a.img", size, &["-U"]);
        fs::create_dir(dir.path("mnt")).unwrap();
        let server = Served::start(&dir, &image, options);
        Some(Served { dir, image, options, server })
    }

    fn start(dir: &Dir, image: &str, options: &str) -> Child {
        let mnt = dir.str("mnt");
        // A server that takes more than 4 GiB ends there, and not the machine.
        let mut command = Command::new("sh");
        let script = "ulimit -v 4194304; exec \"$@\"";
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_ffs"), "mount", "-f"]);
        command.args(["-o", &with_wishes(options), image, &mnt]);
        command.stdin(Stdio::null());
        let mut server = command.spawn().unwrap();
        let before = fs::metadata(dir.path("")).unwrap();
        let mounted = || {
            use std::os::unix::fs::MetadataExt;
            fs::metadata(&mnt).is_ok_and(|now| now.dev() != before.dev())
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !mounted() {
            assert!(server.try_wait().unwrap().is_none(), "the server ended");
            assert!(Instant::now() < deadline, "the mount does not come");
            std::thread::yield_now();
        }
        server
    }

    fn mnt(&self) -> String {
        self.dir.str("mnt")
    }

    /// The most memory that the server had so far, KiB.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Unmounts, which must succeed, and checks, which must find nothing.
    fn end(&mut self) {
        ok(&["umount", &self.mnt()]);
        assert!(self.server.wait().unwrap().success());
        let output = run(&["fsck", "-n", "-f", &self.image]);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_usual = |line: &str| line.starts_with("** ") || line.contains(" files, ");
        let odd = printed.lines().find(|line| !is_usual(line) && !line.trim().is_empty());
        assert!(output.status.success() && odd.is_none(), "{}", text(&output));
    }

    fn again(&mut self) {
        self.server = Served::start(&self.dir, &self.image, self.options);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.server.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.server.kill();
            let _ = self.server.wait();
            let _ = Command::new("umount").args(["-i", "-l", &self.mnt()]).status();
        }
    }
}

/// `options`, with those that the environment adds to every mount.
fn with_wishes(options: &str) -> String {
    let of = |name| std::env::var(name).unwrap_or_default();
    let way = match &*of("FFS_FUSE_TRANSPORT") {
        "" => "",
        "io_uring" => ",io_uring=on",
        "dev" => ",io_uring=off",
        other => panic!("FFS_FUSE_TRANSPORT: io_uring or dev, not '{other}'"),
    };
    format!("{},{options}{way}", of("FFS_FUSE_OPTIONS"))
}

/// Has `kind` run on a mount.
fn stress(kind: &str, size: &str) -> Option<Served> {
    stress_with(kind, size, "rw")
}

fn stress_with(kind: &str, size: &str, options: &'static str) -> Option<Served> {
    let mut served = Served::new(size, options)?;
    let mnt = PathBuf::from(served.mnt());
    let seed = number("FFS_STRESS_SEED").unwrap_or(1).to_string();
    let (limit, most) = match number("FFS_STRESS_SECONDS") {
        Some(seconds) => ("--seconds", seconds.to_string()),
        None => ("--operations", OPERATIONS.to_string()),
    };
    let mut words = vec!["lab", "stress", mnt.to_str().unwrap(), "--kind", kind, "-p", PROCESSES];
    words.extend(["--seed", &seed, limit, &most]);
    println!("{}", words.join(" "));
    let printed = ok(&words);
    let summary = printed.lines().last().unwrap_or_default();
    println!("{summary}; memory {} KiB", served.memory());
    assert!(summary.contains("nothing wrong"), "{printed}");
    let memory = served.memory();
    assert!(memory < MEMORY, "{memory} KiB of memory, {kind}, seed {seed}");
    served.end();
    Some(served)
}

#[test]
fn one_file_is_read_and_changed_in_every_way() {
    stress("fsx", "256m");
}

/// Needs of chains of pointers once doubled every ten rounds: 20 GB after 300 operations.
#[test]
fn a_sparse_file_is_written_and_truncated_in_bounded_memory() {
    stress("sparse", "512m");
}

#[test]
fn every_operation_on_names_leaves_a_sound_volume() {
    stress("tree", "512m");
}

/// A volume that is full most of the time.
#[test]
fn every_operation_on_names_leaves_a_sound_volume_that_was_full() {
    stress("tree", "8m");
}

/// The syncer writes all the time, beside the operations and their fsyncs: exchanges failed (EIO).
#[test]
fn every_operation_on_names_leaves_a_sound_volume_without_delays() {
    stress_with("tree", "12m", "metadelay=0,dirdelay=0,filedelay=0");
}

#[test]
fn one_file_on_a_volume_that_is_nearly_too_small() {
    stress("fsx", "4m");
}

#[test]
fn files_in_shared_directories_keep_what_their_owners_wrote() {
    if let Some(mut served) = stress("owned", "256m") {
        served.again();
        let mnt = served.mnt();
        let printed = ok(&["lab", "stress", &mnt, "--verify"]);
        assert!(printed.contains("names hold what was written"), "{printed}");
        fs::remove_file(Path::new(&mnt).join("owned.0.json")).unwrap();
        served.end();
    }
}

#[test]
fn what_is_not_a_stress_is_explained() {
    let d = Dir::new();
    fails(&["lab", "stress", &d.str(""), "--kind", "fsy"], 64, "fsx");
    fails(&["lab", "stress", &d.str(""), "--without", "exchang"], 64, "exchange");
}
