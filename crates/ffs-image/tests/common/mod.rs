//! What the tests of images share: programs of the host, and disks with random content.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use ffs_device::BlockDevice;
use ffs_device::lock::LockWait;
use ffs_image::{OpenOptions, Opened};
use ffs_testkit::rng::SplitMix64;
pub(crate) use ffs_testkit::tools::have;

/// Runs a program, which must succeed.
pub(crate) fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program).args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {stderr}");
    output
}

/// Runs a command of the shell, which must succeed.
pub(crate) fn shell(command: &str) {
    run("sh", &["-c", command]);
}

pub(crate) struct Dir(pub tempfile::TempDir);

impl Dir {
    pub(crate) fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn str(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().unwrap()
    }
}

/// Opens the whole disk. A program that another test is about to start has the descriptors of this
/// process, and so a lock that was released, until it runs.
pub(crate) fn disk(path: &str, write: bool) -> Opened {
    let how = OpenOptions { lock_wait: LockWait::UpTo(Duration::from_secs(30)), ..how(write) };
    ffs_image::open(path, &how).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn how(write: bool) -> OpenOptions {
    OpenOptions { write, whole_disk: true, ..OpenOptions::default() }
}

/// The message of a failed open.
pub(crate) fn refusal(path: &str, write: bool) -> String {
    match ffs_image::open(path, &how(write)) {
        Ok(_) => panic!("{path} was opened"),
        Err(error) => error.to_string(),
    }
}

/// A disk with areas of random bytes and areas of zeros.
pub(crate) fn content(len: usize, seed: u64) -> Vec<u8> {
    println!("seed {seed}");
    let mut rng = SplitMix64::new(seed);
    let mut bytes = vec![0; len];
    for _ in 0..24 {
        let at = rng.below(len as u64) as usize;
        let end = (at + rng.below(200_000) as usize).min(len);
        rng.fill_bytes(&mut bytes[at..end]);
    }
    bytes
}

/// Compares reads of random ranges, and then of everything, with the content.
pub(crate) fn compare(device: &dyn BlockDevice, content: &[u8], seed: u64) {
    let mut rng = SplitMix64::new(seed);
    for _ in 0..60 {
        let at = rng.below(content.len() as u64) as usize;
        let len = (rng.below(150_000) as usize).min(content.len() - at);
        let mut bytes = vec![1; len];
        device.read_at(at as u64, &mut bytes).unwrap();
        assert!(bytes == content[at..at + len], "{len} bytes at {at}");
    }
    let mut bytes = vec![1; content.len()];
    device.read_at(0, &mut bytes).unwrap();
    assert!(bytes == content, "the whole disk");
}

/// Writes, discards nothing, flushes now and then; keeps `model` equal.
pub(crate) fn write_randomly(device: &dyn BlockDevice, model: &mut [u8], seed: u64) {
    println!("seed {seed}");
    let mut rng = SplitMix64::new(seed);
    for step in 0..80 {
        let at = rng.below(model.len() as u64) as usize;
        let len = (1 + rng.below(90_000) as usize).min(model.len() - at);
        let bytes = rng.bytes(len);
        device.write_at(at as u64, &bytes).unwrap();
        model[at..at + len].copy_from_slice(&bytes);
        if step % 20 == 7 {
            device.flush().unwrap();
        }
        if step % 9 == 0 {
            let mut back = vec![0; len];
            device.read_at(at as u64, &mut back).unwrap();
            assert!(back == bytes, "{len} bytes at {at}");
        }
    }
    device.flush().unwrap();
}

pub(crate) fn read_file(path: impl AsRef<Path>) -> Vec<u8> {
    std::fs::read(path).unwrap()
}
