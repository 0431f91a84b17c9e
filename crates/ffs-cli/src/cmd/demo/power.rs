//! The power fails in the middle of a copy.
//!
//! The tree is copied with soft updates onto a disk that forgets what was not flushed
//! ([`PowerSwitch`]). The clock runs with the copy, not with the computer: half a minute of disk
//! time goes by whether or not that takes half a minute, and everything follows from the seed.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use bsdffs::copy::{
    CopyError, CopyOptions, CopyReport, Entry, EntryKind, FileId, HostSource, HostSourceOptions,
    ImageRef, ImageSink, PartialFile, Sink, SinkError, SinkResult, SkippedPath, transfer,
};
use ffs_admin::counted;
use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport};
use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_core::{Cred, Env, Ffs, FileType, MountOptions, NodeKind, Vnode, WriteMode};
use ffs_device::power::PowerLoss;
use ffs_device::{BlockDevice, Clock, FileDevice, ManualClock, PowerSwitch, SplitMix64, Timestamp};

use crate::copying::CopyProgress;
use crate::fail::Failure;
use crate::namei::{Last, namei};
use crate::progress::Progress;

/// Seconds of disk time from the beginning of the copy to the power failure.
const SECONDS: u64 = 90;
/// The second in which a file is written and synced.
const SYNCED_AT: u64 = 75;
/// The power fails after half of the tree, or after so many files or bytes.
const MOST_FILES: u64 = 6000;
const MOST_BYTES: u64 = 128 << 20;
/// Of the disk.
const CACHE: usize = 8 << 20;
/// The power fails with so many writes of the syncer.
const WRITES: u64 = 5;
/// Name and content of the file that is synced.
const SYNCED: (&[u8], &[u8]) = (b"written-and-synced", b"fsync has returned\n");

/// The results of the run.
pub(super) struct Story {
    /// Names entered before the power failed.
    pub(super) copied: u64,
    /// The sectors of the disk's cache that were kept and lost.
    pub(super) cache: PowerLoss,
    /// Names there when the volume was mounted as it was.
    pub(super) unrepaired: u64,
    /// The report of `fsck -p`.
    pub(super) repaired: FsckReport,
    /// The files that are there afterwards.
    pub(super) kept: Kept,
}

/// The files of the copy that are there.
#[derive(Default)]
pub(super) struct Kept {
    /// Files with all of their content, and all other names.
    pub(super) whole: u64,
    /// Files that have a name and not yet all content.
    pub(super) begun: u64,
    /// Names that are not there.
    pub(super) missing: u64,
}

/// Copies `tree`, which has `files` files and `bytes` of data, into a new volume of `size` bytes at
/// `image`, fails the power, and examines the volume: unrepaired, repaired, and file by file.
pub(super) fn run(
    tree: &Tree<'_>,
    (files, bytes): (u64, u64),
    image: &Path,
    size: u64,
    seed: u64,
) -> Result<Story, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(image.display(), error);
    let clock = Arc::new(ManualClock::new(SystemTime::now().into()));
    let medium = FileDevice::create_sparse(image, size).map_err(|error| failed(&error))?;
    let medium: Arc<dyn BlockDevice> = Arc::new(medium.scratch());
    let options = NewfsOptions { soft_updates: true, ..NewfsOptions::default() };
    newfs(&*medium, &options, &*clock, &SplitMix64::new(seed), &mut |_, _| {})
        .map_err(|error| failed(&error))?;

    let disk = Arc::new(PowerSwitch::new(medium.clone(), CACHE, seed));
    let mount = |device: Arc<dyn BlockDevice>| {
        let env = Env::seeded(clock.clone() as Arc<dyn Clock>, seed);
        Ffs::mount(device, &MountOptions::default(), env).map_err(|error| failed(&error))
    };
    let ffs = mount(disk.clone())?;
    let max_files = (files / 2).clamp(1, MOST_FILES);
    let max_bytes = (bytes / 2).clamp(1, MOST_BYTES);
    let copied = copy_until_power_failure(tree, &ffs, &disk, &clock, (max_files, max_bytes))?;
    let cache = disk.lose_power().map_err(|error| failed(&error))?;
    // A power failure loses the memory of the mount.
    drop(ffs);

    let ffs = mount(medium.clone())?;
    let (cred, root) = (Cred::root(), ffs.root().map_err(|error| failed(&error))?);
    let unrepaired = names(&ffs, root.clone()).map_err(|error| failed(&error))?;
    let made = ffs.create(&cred, &root, b"written-unrepaired", NodeKind::Regular, 0o644);
    made.map_err(|error| failed(&error))?;
    drop(root);
    ffs.unmount().map_err(|error| failed(&error))?;

    let repaired = Fsck::new(medium.clone(), FsckOptions::preen().at(now(&clock))).run();
    if repaired.exit_code != 0 || !repaired.clean {
        return Err(failed(&format!("fsck -p: {}", first(&repaired))));
    }
    let full = Fsck::new(medium.clone(), FsckOptions::no()).run();
    if !full.is_silent() {
        return Err(failed(&format!("after fsck -p: {}", first(&full))));
    }
    let ffs = mount(medium)?;
    let kept = compare(tree, &ffs, copied)?;
    synced_is_there(&ffs).map_err(|error| failed(&error))?;
    ffs.unmount().map_err(|error| failed(&error))?;
    fs::remove_file(image).map_err(|error| failed(&error))?;
    Ok(Story { copied, cache, unrepaired, repaired, kept })
}

impl Story {
    /// The story as text, one fact a line.
    pub(super) fn lines(&self, seed: u64) -> Vec<String> {
        let Story { copied, unrepaired, kept, .. } = self;
        let names = counted(*copied, "name");
        let listed = counted(*unrepaired, "name");
        vec![
            format!(
                "half of the tree again, with soft updates: {names} in {SECONDS} s of disk time."
            ),
            self.power_fails(seed),
            format!(
                "Unrepaired it can be mounted at once: {listed} listed, a file made, unmounted."
            ),
            self.repairs(),
            format!(
                "Kept whole: {}. Begun: {}. Missing, too new to be on the disk: {}.",
                kept.whole, kept.begun, kept.missing
            ),
            format!(
                "No file has bytes that are not its own, and one synced {} s before is there.",
                SECONDS - SYNCED_AT
            ),
        ]
    }

    fn power_fails(&self, seed: u64) -> String {
        let PowerLoss { kept, lost } = self.cache;
        if kept + lost == 0 {
            return "Then the power fails, while the disk has nothing to write.".to_owned();
        }
        let all = counted(kept + lost, "sector");
        format!(
            "Then the power fails while the disk writes. Of {all} in its cache {lost} are \
             lost\n        (--seed {seed} draws which)."
        )
    }

    fn repairs(&self) -> String {
        let mut kinds: Vec<_> = self.repaired.counts.iter().collect();
        if kinds.is_empty() {
            return "fsck -p has nothing to repair, and a full check finds nothing.".to_owned();
        }
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let found: u64 = kinds.iter().map(|(_, count)| **count).sum();
        let most: Vec<String> =
            kinds.iter().take(3).map(|(id, count)| format!("{id} {count}")).collect();
        let more = if kinds.len() > most.len() { ", ..." } else { "" };
        let (found, most) = (counted(found, "repair"), most.join(", "));
        format!(
            "fsck -p: {found} that lose nothing ({most}{more});\n        then a full check finds \
             nothing."
        )
    }
}

/// A tree of the host, and the directories in it to skip.
pub(super) struct Tree<'a> {
    /// Its root.
    pub(super) path: &'a Path,
    /// Directories to leave out.
    pub(super) skip: &'a [FileId],
}

impl Tree<'_> {
    /// Copies the tree into `sink`, until that stops the copy.
    pub(super) fn copy_to(&self, sink: &mut dyn Sink) -> Result<CopyReport, Failure> {
        let options = HostSourceOptions {
            hard_links: true,
            data: true,
            follow: true,
            skip: self.skip.to_vec(),
            ..HostSourceOptions::default()
        };
        let mut progress = CopyProgress(Progress::bytes("copy", None));
        Ok(transfer(HostSource::new(self.path, b"", options), sink, &mut progress)?)
    }
}

/// A sink that advances the clock and stops when the power fails.
struct Timed<'a> {
    sink: ImageSink<'a>,
    ffs: &'a Ffs,
    disk: &'a PowerSwitch<Arc<dyn BlockDevice>>,
    clock: &'a ManualClock,
    began: Timestamp,
    /// Names and bytes after which the power fails.
    limit: (u64, u64),
    names: u64,
    bytes: u64,
    second: u64,
    off: bool,
}

/// Copies until the power fails; returns the number of created names.
fn copy_until_power_failure(
    tree: &Tree<'_>,
    ffs: &Ffs,
    disk: &PowerSwitch<Arc<dyn BlockDevice>>,
    clock: &ManualClock,
    limit: (u64, u64),
) -> Result<u64, Failure> {
    let (cred, began) = (Cred::root(), clock.now());
    let root = ffs.root().map_err(Failure::plain)?;
    let image = ImageRef { ffs, cred: &cred, name: "disk" };
    let sink = ImageSink::new(image, root, CopyOptions::archive());
    let (names, bytes, second, off) = (0, 0, 0, false);
    let mut timed = Timed { sink, ffs, disk, clock, began, limit, names, bytes, second, off };
    match tree.copy_to(&mut timed) {
        Err(failure) if !timed.off => Err(failure),
        _ => Ok(timed.names),
    }
}

impl Timed<'_> {
    /// Advances the clock in proportion to the copied files and bytes.
    fn step(&mut self) -> Result<(), SinkError> {
        let part = |done: u64, limit: u64| done.saturating_mul(SECONDS) / limit;
        let due = part(self.names, self.limit.0).max(part(self.bytes, self.limit.1));
        self.advance(due.min(SECONDS))
    }

    /// Advances the clock to the second `due`. The power fails in the last second.
    fn advance(&mut self, due: u64) -> Result<(), SinkError> {
        while self.second < due {
            self.second += 1;
            let secs = self.began.secs + self.second as i64;
            self.clock.set(Timestamp::new(secs, self.began.nanos));
            let last = self.second == SECONDS;
            if last {
                self.disk.lose_power_at(WRITES);
            }
            let ticked = self.ffs.tick();
            if last {
                self.off = true;
                let _ = self.disk.lose_power();
                return Err(end("the power is off"));
            }
            ticked.map_err(stop)?;
            if self.second == SYNCED_AT {
                self.write_synced().map_err(stop)?;
            }
        }
        Ok(())
    }

    fn write_synced(&self) -> ffs_core::Result<()> {
        let (cred, root) = (Cred::root(), self.ffs.root()?);
        let file = self.ffs.create(&cred, &root, SYNCED.0, NodeKind::Regular, 0o644)?;
        self.ffs.write(&cred, &file, 0, SYNCED.1, WriteMode::default())?;
        self.ffs.fsync(&file)
    }
}

fn stop(error: ffs_core::Error) -> SinkError {
    end(error)
}

/// Ends the copy.
pub(super) fn end(why: impl std::fmt::Display) -> SinkError {
    SinkError::Stop(CopyError::new(io::ErrorKind::Other, why))
}

impl Sink for Timed<'_> {
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
        if self.off { None } else { self.sink.abort() }
    }
    fn finish(&mut self, report: &mut CopyReport) -> Result<Vec<SkippedPath>, SinkError> {
        // The tree is smaller than it was before.
        self.advance(SECONDS)?;
        self.sink.finish(report)
    }
}

/// Compares what was copied, the first `copied` names of `tree`, with what is there.
pub(super) fn compare(tree: &Tree<'_>, ffs: &Ffs, copied: u64) -> Result<Kept, Failure> {
    let kept = Kept::default();
    let mut look = Look { ffs, cred: Cred::root(), left: copied, kept, open: None, wrong: None };
    let result = tree.copy_to(&mut look);
    if let Some(path) = look.wrong {
        let why = "what is there is not what was copied";
        return Err(Failure::new(crate::fail::show(&path), why));
    }
    match result {
        Err(failure) if look.left > 0 => Err(failure),
        _ => Ok(look.kept),
    }
}

/// A sink that compares a copy with the volume.
struct Look<'a> {
    ffs: &'a Ffs,
    cred: Cred,
    left: u64,
    kept: Kept,
    /// The file under comparison, whether all of it is there so far, and its path.
    open: Option<(Vnode, bool, Vec<u8>)>,
    wrong: Option<Vec<u8>>,
}

impl Look<'_> {
    fn mismatch<T>(&mut self, path: &[u8]) -> Result<T, SinkError> {
        self.wrong = Some(path.to_vec());
        Err(end("differs"))
    }
}

impl Sink for Look<'_> {
    fn entry(&mut self, entry: &Entry, _: &mut CopyReport) -> SinkResult {
        if self.left == 0 {
            return Err(end("all names are compared"));
        }
        self.left -= 1;
        let Ok(file) = namei(self.ffs, &self.cred, &entry.path, Last::Keep) else {
            self.kept.missing += 1;
            return Ok(());
        };
        let attr = self.ffs.getattr(&file);
        let (same, whole) = match &entry.kind {
            EntryKind::Directory => (attr.kind == FileType::Directory, true),
            EntryKind::File(size) => (attr.kind == FileType::Regular, attr.size == *size),
            EntryKind::Symlink(text) => {
                let found = self.ffs.readlink(&file);
                (found.is_ok_and(|found| found == *text), true)
            }
            _ => (true, true),
        };
        if !same {
            return self.mismatch(&entry.path);
        }
        match &entry.kind {
            EntryKind::File(_) => self.open = Some((file, whole, entry.path.clone())),
            _ => self.kept.whole += 1,
        }
        Ok(())
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        let Some((file, whole, path)) = &mut self.open else { return Ok(()) };
        let mut there = vec![0; bytes.len()];
        let read = self.ffs.read(file, offset, &mut there);
        let len = read.map_err(stop)?;
        // What is not there yet is missing at the end or reads as zeros.
        let mut pairs = there.iter().zip(bytes).take(len);
        let foreign = pairs.any(|(is, was)| is != was && *is != 0);
        *whole &= len == bytes.len() && there == bytes;
        let path = path.clone();
        if foreign { self.mismatch(&path) } else { Ok(()) }
    }

    fn end(&mut self, _: &mut CopyReport) -> SinkResult {
        match self.open.take() {
            Some((_, true, _)) => self.kept.whole += 1,
            Some((_, false, _)) => self.kept.begun += 1,
            None => {}
        }
        Ok(())
    }

    fn abort(&mut self) -> Option<PartialFile> {
        self.open = None;
        None
    }
}

fn synced_is_there(ffs: &Ffs) -> Result<(), String> {
    let look = || -> ffs_core::Result<bool> {
        let file = ffs.lookup(&Cred::root(), &ffs.root()?, SYNCED.0)?;
        let mut there = vec![0; SYNCED.1.len() + 1];
        let len = ffs.read(&file, 0, &mut there)?;
        Ok(there[..len] == *SYNCED.1)
    };
    match look() {
        Ok(true) => Ok(()),
        Ok(false) => Err("a file that was synced has lost its content".to_owned()),
        Err(error) => Err(format!("a file that was synced: {error}")),
    }
}

/// How many names there are below `dir`.
fn names(ffs: &Ffs, dir: Vnode) -> ffs_core::Result<u64> {
    let (mut count, mut todo) = (0, vec![dir]);
    while let Some(dir) = todo.pop() {
        let mut below = Vec::new();
        ffs.readdir(&dir, 0, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                below.push(entry.ino);
            }
            true
        })?;
        count += below.len() as u64;
        for ino in below {
            let file = ffs.vget(ino, None)?;
            if ffs.getattr(&file).kind == FileType::Directory {
                todo.push(file);
            }
        }
    }
    Ok(count)
}

fn first(report: &FsckReport) -> String {
    let found = report.findings.first().map(ToString::to_string);
    found.or_else(|| report.stopped.clone()).unwrap_or_else(|| "not clean".to_owned())
}

fn now(clock: &ManualClock) -> i64 {
    clock.now().secs
}
