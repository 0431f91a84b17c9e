//! A snapshot is made in the middle of a copy, and read back after the end of it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bsdffs::copy::{
    CopyOptions, CopyReport, Entry, ImageRef, ImageSink, PartialFile, Sink, SinkError, SinkResult,
    SkippedPath,
};
use bsdffs::snapshot::SnapshotDevice;
use ffs_admin::counted;
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_core::{Cred, Env, Ffs, MountOptions, SnapshotStats};
use ffs_device::{BlockDevice, FileDevice, SplitMix64, SystemClock};

use super::power::{Kept, Tree, compare, end};
use crate::fail::Failure;

/// The copy ends after so many names or bytes.
const MOST_NAMES: u64 = 6000;
const MOST_BYTES: u64 = 128 << 20;
/// Directory and name of the snapshot.
const PLACE: (&[u8], &[u8]) = (b".snap", b"demo");

/// The results of the run.
pub(super) struct Story {
    /// Names entered when the snapshot was made, and in the end.
    names: (u64, u64),
    made: SnapshotStats,
    kept: Kept,
}

/// Copies `tree`, which has `names` names and `bytes` of data, into a new volume of `size` bytes at
/// `image`, makes a snapshot half-way, and reads it back.
pub(super) fn run(
    tree: &Tree<'_>,
    (names, bytes): (u64, u64),
    image: &Path,
    size: u64,
    seed: u64,
) -> Result<Story, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(image.display(), error);
    let medium = FileDevice::create_sparse(image, size).map_err(|error| failed(&error))?;
    let medium: Arc<dyn BlockDevice> = Arc::new(medium.scratch());
    let options = NewfsOptions { soft_updates: true, ..NewfsOptions::default() };
    newfs(&*medium, &options, &SystemClock, &SplitMix64::new(seed), &mut |_, _| {})
        .map_err(|error| failed(&error))?;
    let ffs = Ffs::mount(medium.clone(), &MountOptions::default(), Env::system())
        .map_err(|error| failed(&error))?;
    let limit = (names.clamp(2, MOST_NAMES), bytes.clamp(2, MOST_BYTES));
    let (names, made) = copy(tree, &ffs, limit)?;

    let cred = Cred::root();
    let file = ffs
        .lookup(&cred, &ffs.root().map_err(|error| failed(&error))?, PLACE.0)
        .and_then(|dir| ffs.lookup(&cred, &dir, PLACE.1))
        .map_err(|error| failed(&error))?;
    let shown = SnapshotDevice::open(&*medium, &ffs, &file, "the snapshot");
    let shown: Arc<dyn BlockDevice> = Arc::new(shown.map_err(|error| failed(&error))?);
    let report = Fsck::new(shown.clone(), FsckOptions::no()).run();
    if !report.is_silent() {
        return Err(failed(&"fsck finds something wrong with the snapshot"));
    }
    let read_only = MountOptions { read_only: true, ..MountOptions::default() };
    let view = Ffs::mount(shown, &read_only, Env::system()).map_err(|error| failed(&error))?;
    let kept = compare(tree, &view, names.0)?;
    drop((view, file));
    ffs.unmount().map_err(|error| failed(&error))?;
    fs::remove_file(image).map_err(|error| failed(&error))?;
    Ok(Story { names, made, kept })
}

impl Story {
    /// The story as text, one fact a line.
    pub(super) fn lines(&self) -> Vec<String> {
        let Story { names: (then, all), made, kept } = self;
        let wait = made.suspended.as_secs_f64() * 1000.0;
        vec![
            format!("made of a volume in the middle of a copy, after {}.", counted(*then, "name")),
            format!(
                "Operations waited {wait:.1} ms; {} of {} cylinder groups were copied meanwhile.",
                made.groups_again, made.groups
            ),
            format!(
                "The copy went on to {}. The snapshot still shows the first {then},",
                counted(*all, "name")
            ),
            format!(
                "and fsck finds nothing wrong with it. Whole: {}. Begun: {}. Missing: {}.",
                kept.whole, kept.begun, kept.missing
            ),
        ]
    }

    /// Names in the snapshot.
    pub(super) fn names(&self) -> u64 {
        self.names.0
    }
}

/// Copies up to `limit` names and bytes. Returns the names entered when the snapshot was made and
/// in the end, and the figures of the snapshot.
fn copy(
    tree: &Tree<'_>,
    ffs: &Ffs,
    limit: (u64, u64),
) -> Result<((u64, u64), SnapshotStats), Failure> {
    let cred = Cred::root();
    let root = ffs.root().map_err(Failure::plain)?;
    let image = ImageRef { ffs, cred: &cred, name: "volume" };
    let sink = ImageSink::new(image, root, CopyOptions::archive());
    let mut half = HalfWay { sink, ffs, limit, names: 0, bytes: 0, made: None, done: false };
    let result = tree.copy_to(&mut half);
    if let (Err(failure), false) = (result, half.done) {
        return Err(failure);
    }
    half.make_snapshot().map_err(Failure::plain)?;
    let Some((then, made)) = half.made else {
        return Err(Failure::plain("no snapshot was made"));
    };
    Ok(((then, half.names), made))
}

/// A sink that makes a snapshot half-way.
struct HalfWay<'a> {
    sink: ImageSink<'a>,
    ffs: &'a Ffs,
    /// Names and bytes after which the copy ends.
    limit: (u64, u64),
    names: u64,
    bytes: u64,
    made: Option<(u64, SnapshotStats)>,
    done: bool,
}

impl HalfWay<'_> {
    fn step(&mut self) -> Result<(), SinkError> {
        let (names, bytes) = self.limit;
        if self.names >= names / 2 || self.bytes >= bytes / 2 {
            self.make_snapshot().map_err(end)?;
        }
        self.done = self.names >= names || self.bytes >= bytes;
        if self.done { Err(end("enough is copied")) } else { Ok(()) }
    }

    /// Makes the snapshot, once.
    fn make_snapshot(&mut self) -> ffs_core::Result<()> {
        if self.made.is_none() {
            let (cred, root) = (Cred::root(), self.ffs.root()?);
            let dir = self.ffs.lookup(&cred, &root, PLACE.0)?;
            let (_, stats) = self.ffs.snapshot(&cred, &dir, PLACE.1)?;
            self.made = Some((self.names, stats));
        }
        Ok(())
    }
}

impl Sink for HalfWay<'_> {
    fn entry(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        self.step()?;
        self.names += 1;
        self.sink.entry(entry, report)
    }
    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        self.bytes += bytes.len() as u64;
        self.sink.data(offset, bytes)?;
        self.step()
    }
    fn end(&mut self, report: &mut CopyReport) -> SinkResult {
        self.sink.end(report)
    }
    fn abort(&mut self) -> Option<PartialFile> {
        self.sink.abort()
    }
    fn finish(&mut self, report: &mut CopyReport) -> Result<Vec<SkippedPath>, SinkError> {
        self.sink.finish(report)
    }
}
