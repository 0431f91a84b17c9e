//! Runs a program on a disk that records its writes.
//!
//! # Invariants
//! 1. The recording begins with a cleanly unmounted volume on which the program's setup is done. It
//!    ends before the volume is unmounted after the run.
//! 2. The disk has a volatile cache: a write is durable after the next flush.

use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ffs_device::record::{Event, Recorder};
use ffs_device::{BlockDevice, MemDevice};

use super::driver::Driver;
use super::failed;
use super::side::{Host, Side};
use crate::error::Result;

/// A device that is served as a file until this value is dropped.
pub struct Served {
    /// The file.
    pub path: PathBuf,
    /// Ends the service when it is dropped.
    pub service: Box<dyn Any>,
}

/// Serves a device as a file in an empty directory.
pub type Serve<'a> = &'a dyn Fn(Arc<dyn BlockDevice>, &Path) -> Result<Served>;

/// The events of a disk during the run of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The content of the disk before the run.
    pub base: Arc<Vec<u8>>,
    /// The events; a mark is an acknowledged step.
    pub events: Vec<Event>,
}

impl Recording {
    /// The number of steps that were acknowledged within the first `events` events.
    #[must_use]
    pub fn acked(&self, events: u64) -> usize {
        let acked = |event: &&Event| matches!(event, Event::Mark { seq, .. } if *seq < events);
        self.events.iter().filter(acked).count()
    }
}

/// A run of a program on a file system.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The scripts.
    pub driver: &'a Driver,
    /// The commands of the host.
    pub host: &'a Host,
    /// Serves a device as a file.
    pub serve: Serve<'a>,
    /// The file system.
    pub side: &'a Side,
    /// The name of the program.
    pub program: &'a str,
    /// The seed of its content.
    pub seed: u64,
    /// The number of steps.
    pub steps: u32,
    /// Bytes of the volume.
    pub size: u64,
    /// An empty directory for files and mounts.
    pub work: &'a Path,
}

/// Runs a program on a recorded disk.
///
/// # Errors
/// [`LabError`](crate::LabError) if the file system cannot be made or mounted, or if the program
/// failed.
pub fn record(run: &Run<'_>) -> Result<Recording> {
    let Run { driver, host, side, program, seed, work, .. } = *run;
    let io = |error: std::io::Error| failed(program, "record", error);
    let (image, mnt, disk) = (work.join("base"), work.join("mnt"), work.join("disk"));
    for dir in [&mnt, &disk] {
        fs::create_dir_all(dir).map_err(io)?;
    }
    host.make(side, &image, side.size(run.size))?;
    let mounted = host.mount(side, &image, &mnt)?;
    driver.setup(program, &mnt, seed)?;
    mounted.end()?;
    let base = Arc::new(fs::read(&image).map_err(io)?);
    fs::remove_file(&image).map_err(io)?;

    let recorder = Arc::new(Recorder::new(MemDevice::from_bytes(&base)));
    let served = (run.serve)(Arc::clone(&recorder) as Arc<dyn BlockDevice>, &disk)?;
    let mounted = host.mount(side, &served.path, &mnt)?;
    let mark = |step| recorder.mark(format!("step {step}"));
    let worked = driver.work((program, seed), &mnt, run.steps, mark);
    let events = recorder.take_events();
    let ended = mounted.end();
    drop(served);
    worked?;
    ended?;
    Ok(Recording { base, events })
}
