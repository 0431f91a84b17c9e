//! The device behind a write-back buffer.
//!
//! **Purpose.** Repairs stay in memory until the check has decided to make them. The commit writes
//! them in an order that allows a new check after a crash at any point.
//!
//! **Invariants.**
//! 1. Reads return every repair made so far.
//! 2. Nothing reaches the device before [`BufferedDevice::commit`], except through
//!    [`BufferedDevice::spill`] in a full check whose buffer is full, on a volume without
//!    snapshots.
//! 3. A commit writes in this order, with a flush after each step: new allocations in the maps;
//!    copies for snapshots; pointers to them; directories to be cleared, without their names; names
//!    and pointers; inodes; pointers of snapshots to blocks that they take over; maps; the
//!    superblock. An inode is therefore cleared only when no durable name refers to it, and a map
//!    marks a fragment free only when no durable pointer refers to it. A block changes only when
//!    its copies for snapshots are durable, and a snapshot takes a block over only when no other
//!    durable pointer refers to it.
//! 4. A range that cannot be read yields zeros and is recorded as a bad range.
//! 5. A [`Reader`] is used only between two writes to the device: what it read before a write is
//!    read again.
//!
//! References: spec/fsck-and-crash.md §5.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use ffs_device::{BlockDevice, DeviceError};
use ffs_ondisk::dir::DirFormat;
use ffs_ondisk::{FragNo, Geometry};

use super::dirblk::clear_names;
use super::report::exit;
use super::resolve::{Res, Stop};

/// Limit on the bad ranges recorded.
const MAX_BAD: usize = 1000;

/// Content of a buffered fragment; it determines when the commit writes the fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Copies for snapshots, in blocks that were free.
    Copy,
    /// Indirect blocks of snapshots.
    CopyPointer,
    /// Directory, indirect and data blocks.
    Data,
    /// Inodes.
    Inode,
    /// Cylinder groups and the summary area.
    CylGroup,
}

/// What to do when the buffer is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnFull {
    /// Write repairs to the device early.
    Spill,
    /// Stop the check.
    Stop,
}

/// What to do with a range that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnReadError {
    /// Read zeros.
    Zeros,
    /// Stop the check.
    Stop,
}

/// A range that could not be read.
#[derive(Debug, Clone)]
pub(super) struct BadRange {
    /// First byte.
    pub(super) offset: u64,
    /// The device's error message.
    pub(super) reason: String,
}

/// Reads the device in another thread, ahead of the check and without its repairs.
pub(super) struct Reader {
    dev: Arc<dyn BlockDevice>,
    fsize: u64,
    writes: u64,
}

/// The result of a [`Reader`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Read {
    /// A part cannot be read, or nothing was read: the check reads it again and handles the error.
    #[default]
    Failed,
    /// It holds as long as the number of writes to the device is this.
    Done(u64),
}

impl Reader {
    /// Fills `buf` from fragment `at` on.
    pub(super) fn read(&self, at: FragNo, buf: &mut [u8]) -> Read {
        match self.dev.read_at(at.0.saturating_mul(self.fsize), buf) {
            Ok(()) => Read::Done(self.writes),
            Err(_) => Read::Failed,
        }
    }
}

/// The device and the repairs that are not yet written.
pub(super) struct BufferedDevice {
    dev: Arc<dyn BlockDevice>,
    fsize: u64,
    /// Changed fragments by number.
    dirty: BTreeMap<u64, (Class, Box<[u8]>)>,
    /// Blocks of directories to be cleared: first fragment, length in bytes. The commit reads them
    /// and clears their names, so that they need no memory until then.
    cleared_dirs: BTreeMap<u64, usize>,
    format: DirFormat,
    /// Pointers of snapshots to blocks that they take over: byte offset, bytes. Reads return them.
    taken_over: BTreeMap<u64, Vec<u8>>,
    /// Writes before everything else: byte offset, bytes.
    early: Vec<(u64, Vec<u8>)>,
    /// Writes after everything else.
    late: Vec<(u64, Vec<u8>)>,
    limit: u64,
    on_full: OnFull,
    on_read_error: OnReadError,
    bad: Vec<BadRange>,
    /// Number of writes to the device.
    writes: u64,
    /// Number of changes so far.
    revision: u64,
}

impl BufferedDevice {
    /// A buffer of at most `limit` bytes.
    pub(super) fn new(
        dev: Arc<dyn BlockDevice>,
        g: &Geometry,
        limit: u64,
        on_full: OnFull,
        on_read_error: OnReadError,
    ) -> BufferedDevice {
        BufferedDevice {
            dev,
            fsize: g.fsize.into(),
            dirty: BTreeMap::new(),
            cleared_dirs: BTreeMap::new(),
            format: DirFormat::of(g),
            taken_over: BTreeMap::new(),
            early: Vec::new(),
            late: Vec::new(),
            limit,
            on_full,
            on_read_error,
            bad: Vec::new(),
            writes: 0,
            revision: 0,
        }
    }

    /// Sector size of the device, bytes.
    pub(super) fn sector_size(&self) -> usize {
        self.dev.sector_size() as usize
    }

    /// Whether the device was written.
    pub(super) fn written(&self) -> bool {
        self.writes > 0
    }

    /// Whether there are repairs, on the device or not.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
            || !self.cleared_dirs.is_empty()
            || !self.late.is_empty()
            || !self.taken_over.is_empty()
            || self.written()
    }

    /// Number of changes so far: two reads at one revision return the same bytes.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Limit on the memory for repairs, bytes.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Restores the bad ranges of an earlier [`BufferedDevice::take_bad`], dropping later ones.
    pub(super) fn replace_bad(&mut self, bad: Vec<BadRange>) {
        self.bad = bad;
    }

    /// The ranges that could not be read since the last call.
    pub(super) fn take_bad(&mut self) -> Vec<BadRange> {
        std::mem::take(&mut self.bad)
    }

    /// Reads `len` bytes from fragment `at` on.
    pub(super) fn read(&mut self, at: FragNo, len: usize) -> Res<Vec<u8>> {
        let mut buf = vec![0; len];
        self.read_into(at, &mut buf)?;
        Ok(buf)
    }

    /// Fills `buf` from fragment `at` on.
    pub(super) fn read_into(&mut self, at: FragNo, buf: &mut [u8]) -> Res<()> {
        let offset = at.0.saturating_mul(self.fsize);
        if let Err(error) = self.dev.read_at(offset, buf) {
            self.read_by_sector(offset, buf, error)?;
        }
        self.overlay(at, buf);
        Ok(())
    }

    /// Copies the repairs made so far into `buf`, which was read from fragment `at` on.
    fn overlay(&self, at: FragNo, buf: &mut [u8]) {
        self.overlay_fragments(at, buf);
        let first = at.0.saturating_mul(self.fsize);
        for (offset, bytes) in self.taken_over.range(first..first + buf.len() as u64) {
            let from = (offset - first) as usize;
            if let Some(place) = buf.get_mut(from..from + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
    }

    /// As [`BufferedDevice::overlay`], without pointers to blocks that are taken over.
    fn overlay_fragments(&self, at: FragNo, buf: &mut [u8]) {
        if self.dirty.is_empty() {
            return;
        }
        let end = at.0 + (buf.len() as u64).div_ceil(self.fsize);
        for (frag, (_, bytes)) in self.dirty.range(at.0..end) {
            let from = ((frag - at.0) * self.fsize) as usize;
            let n = bytes.len().min(buf.len() - from);
            buf[from..from + n].copy_from_slice(&bytes[..n]);
        }
    }

    /// A reader for other threads.
    pub(super) fn reader(&self) -> Reader {
        Reader { dev: Arc::clone(&self.dev), fsize: self.fsize, writes: self.writes }
    }

    /// Completes `buf`, the result of a [`Reader`] for fragment `at` on, so that it equals a read
    /// of now.
    pub(super) fn complete(&mut self, at: FragNo, buf: &mut [u8], read: Read) -> Res<()> {
        if read != Read::Done(self.writes) {
            return self.read_into(at, buf);
        }
        self.overlay(at, buf);
        Ok(())
    }

    /// Whether `len` bytes from fragment `at` on, the result of a [`Reader`], equal a read of now.
    pub(super) fn is_final(&self, at: FragNo, len: usize, read: Read) -> bool {
        let frags = at.0..at.0.saturating_add((len as u64).div_ceil(self.fsize));
        let bytes = at.0.saturating_mul(self.fsize)..frags.end.saturating_mul(self.fsize);
        read == Read::Done(self.writes)
            && (self.dirty.is_empty() || self.dirty.range(frags).next().is_none())
            && (self.taken_over.is_empty() || self.taken_over.range(bytes).next().is_none())
    }

    /// Reads `len` bytes from fragment `at` on from the device, without buffered repairs.
    pub(super) fn read_device(&mut self, at: FragNo, len: usize) -> Res<Vec<u8>> {
        let mut buf = vec![0; len];
        let offset = at.0.saturating_mul(self.fsize);
        if let Err(error) = self.dev.read_at(offset, &mut buf) {
            self.read_by_sector(offset, &mut buf, error)?;
        }
        Ok(buf)
    }

    /// Reads sector by sector after `error` and zeros the sectors that fail.
    fn read_by_sector(&mut self, offset: u64, buf: &mut [u8], error: DeviceError) -> Res<()> {
        if self.on_read_error == OnReadError::Stop {
            return Err(Stop::Device(error));
        }
        let sector = self.dev.sector_size().max(512) as usize;
        let mut at = offset;
        for piece in buf.chunks_mut(sector) {
            if let Err(error) = self.dev.read_at(at, piece) {
                piece.fill(0);
                if self.bad.len() < MAX_BAD {
                    self.bad.push(BadRange { offset: at, reason: error.to_string() });
                }
            }
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Buffers `bytes`, a whole number of fragments, for fragment `at` on.
    pub(super) fn write(&mut self, at: FragNo, bytes: &[u8], class: Class) -> Res<()> {
        self.revision += 1;
        for (i, piece) in bytes.chunks(self.fsize as usize).enumerate() {
            let mut whole = vec![0; self.fsize as usize];
            whole[..piece.len()].copy_from_slice(piece);
            self.dirty.insert(at.0 + i as u64, (class, whole.into_boxed_slice()));
        }
        self.keep_within_limit()
    }

    /// Makes the next commit clear the names in `len` bytes of a directory from fragment `at` on,
    /// before all other repairs. The directory is to be cleared.
    pub(super) fn clear_names_first(&mut self, at: FragNo, len: usize) -> Res<()> {
        self.cleared_dirs.insert(at.0, len);
        self.keep_within_limit()
    }

    fn keep_within_limit(&mut self) -> Res<()> {
        let lists = self.cleared_dirs.len() * size_of::<(u64, usize)>();
        if self.dirty.len() as u64 * self.fsize + lists as u64 > self.limit {
            self.spill()?;
        }
        Ok(())
    }

    /// Changes `bytes.len()` bytes at byte `off` of fragment `at`.
    pub(super) fn patch(&mut self, at: FragNo, off: usize, bytes: &[u8], class: Class) -> Res<()> {
        let frag = at.plus(off as u64 / self.fsize);
        let within = off % self.fsize as usize;
        let len = (within + bytes.len()).next_multiple_of(self.fsize as usize);
        let mut buf = self.read(frag, len)?;
        buf[within..within + bytes.len()].copy_from_slice(bytes);
        self.write(frag, &buf, class)
    }

    /// Sets the pointer `bytes` of a snapshot to a copy, at byte `off` of fragment `at`.
    pub(super) fn point_to_copy(&mut self, at: FragNo, off: usize, bytes: &[u8]) -> Res<()> {
        let mut buf = self.read_device(at, self.fsize as usize)?;
        self.overlay_fragments(at, &mut buf);
        if let Some(place) = buf.get_mut(off..off + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.write(at, &buf, Class::CopyPointer)
    }

    /// Makes the next commit set the pointer `bytes` of a snapshot to a block that it takes over,
    /// at byte `off` of fragment `at`, after all other pointers.
    pub(super) fn take_over(&mut self, at: FragNo, off: usize, bytes: &[u8]) {
        self.revision += 1;
        let offset = at.0.saturating_mul(self.fsize) + off as u64;
        self.taken_over.insert(offset, bytes.to_vec());
    }

    /// Drops the buffered repairs of `n` fragments that are free now.
    pub(super) fn forget(&mut self, at: FragNo, n: u64) {
        self.revision += 1;
        for frag in at.0..at.0 + n {
            self.dirty.remove(&frag);
        }
    }

    /// The blocks of `frag` fragments that have buffered names, pointers or inodes.
    pub(super) fn dirty_blocks(&self, frag: u32) -> Vec<u64> {
        let in_place = [Class::Data, Class::Inode];
        let dirty = self.dirty.iter().filter(|(_, (class, _))| in_place.contains(class));
        let places = dirty.map(|(at, _)| at).chain(self.cleared_dirs.keys());
        let mut blocks: Vec<u64> = places.map(|at| at / u64::from(frag)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }

    /// Makes the next commit write `bytes` at byte `offset` before everything else.
    pub(super) fn write_early(&mut self, offset: u64, bytes: Vec<u8>) {
        self.early.push((offset, bytes));
    }

    /// Makes the next commit write `bytes` at byte `offset` after everything else.
    pub(super) fn write_late(&mut self, offset: u64, bytes: Vec<u8>) {
        self.late.push((offset, bytes));
    }

    /// Frees memory by writing names, pointers and inodes, in this order.
    fn spill(&mut self) -> Res<()> {
        if self.on_full == OnFull::Stop {
            let limit = self.limit;
            let why = format!("the repairs need more memory than the limit of {limit} bytes");
            return Err(Stop::Refused(exit::ERROR, why));
        }
        let early = std::mem::take(&mut self.early);
        self.write_all(early)?;
        self.write_cleared_dirs()?;
        self.write_class(Class::Data)?;
        self.write_class(Class::Inode)
    }

    /// Writes everything.
    pub(super) fn commit(&mut self) -> Res<()> {
        let early = std::mem::take(&mut self.early);
        self.write_all(early)?;
        self.write_class(Class::Copy)?;
        self.write_class(Class::CopyPointer)?;
        self.write_cleared_dirs()?;
        self.write_class(Class::Data)?;
        self.write_class(Class::Inode)?;
        self.write_taken_over()?;
        self.write_class(Class::CylGroup)?;
        let late = std::mem::take(&mut self.late);
        self.write_all(late)
    }

    /// Clears the names of directories to be cleared, on the device, and flushes.
    fn write_cleared_dirs(&mut self) -> Res<()> {
        let mut any = false;
        for (at, len) in std::mem::take(&mut self.cleared_dirs) {
            let whole = len.next_multiple_of(self.fsize as usize);
            let mut buf = self.read_device(FragNo(at), whole)?;
            if clear_names(self.format, &mut buf[..len]) {
                any = true;
                self.writes += 1;
                self.dev.write_at(at * self.fsize, &buf)?;
            }
        }
        if any { Ok(self.dev.flush()?) } else { Ok(()) }
    }

    /// Writes the pointers to blocks that snapshots take over, and flushes.
    fn write_taken_over(&mut self) -> Res<()> {
        let pointers = std::mem::take(&mut self.taken_over);
        let mut fragments: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for (offset, bytes) in &pointers {
            let frag = offset / self.fsize;
            let whole = match fragments.entry(frag) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    entry.insert(self.read_device(FragNo(frag), self.fsize as usize)?)
                }
            };
            let from = (offset % self.fsize) as usize;
            if let Some(place) = whole.get_mut(from..from + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        let writes = fragments.into_iter().map(|(frag, bytes)| (frag * self.fsize, bytes));
        self.write_all(writes.collect())
    }

    /// Writes a list of byte offsets and bytes, and flushes.
    fn write_all(&mut self, list: Vec<(u64, Vec<u8>)>) -> Res<()> {
        if list.is_empty() {
            return Ok(());
        }
        for (offset, bytes) in list {
            self.writes += 1;
            self.dev.write_at(offset, &bytes)?;
        }
        Ok(self.dev.flush()?)
    }

    /// Writes the fragments of one class, joining neighbours, and flushes.
    fn write_class(&mut self, class: Class) -> Res<()> {
        let mut run: (u64, Vec<u8>) = (0, Vec::new());
        let mut any = false;
        for (&frag, (_, bytes)) in self.dirty.iter().filter(|(_, (c, _))| *c == class) {
            any = true;
            let next = run.0 + run.1.len() as u64 / self.fsize;
            if frag != next || run.1.len() >= 1 << 20 {
                write_run(&*self.dev, self.fsize, &run)?;
                run = (frag, Vec::new());
            }
            run.1.extend_from_slice(bytes);
        }
        if !any {
            return Ok(());
        }
        self.writes += 1;
        write_run(&*self.dev, self.fsize, &run)?;
        self.dev.flush()?;
        self.dirty.retain(|_, (c, _)| *c != class);
        Ok(())
    }
}

fn write_run(dev: &dyn BlockDevice, fsize: u64, run: &(u64, Vec<u8>)) -> Res<()> {
    if run.1.is_empty() {
        return Ok(());
    }
    Ok(dev.write_at(run.0 * fsize, &run.1)?)
}
