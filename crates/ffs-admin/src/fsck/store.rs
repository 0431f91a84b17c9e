//! The device behind a write-back buffer.
//!
//! **Purpose.** Repairs stay in memory until the check knows that they may be made, and then go to the device
//! in the order that keeps an interrupted check repeatable.
//!
//! **Invariants.**
//! 1. Reads see every repair made so far.
//! 2. Nothing reaches the device before [`Store::commit`], except through [`Store::spill`] in a full check whose
//!    buffer has grown to its limit.
//! 3. Order of a commit: new allocations in the maps, directories that are to be cleared without their names, names
//!    and pointers, inodes, maps, superblock, with a flush after each, so that an inode is cleared only once no
//!    durable name is left, and maps say "free" only once no durable pointer is.
//! 4. What cannot be read is zeros and is remembered as a bad range.
//!
//! References: spec/fsck-and-crash.md §5.

use std::collections::BTreeMap;
use std::sync::Arc;

use ffs_device::{BlockDevice, DeviceError};
use ffs_ondisk::dir::DirFormat;
use ffs_ondisk::{FragNo, Geometry};

use super::dirio::take_names_out;

use super::judge::{Res, Stop};
use super::report::exit;

/// The most bad ranges remembered.
const MAX_BAD: usize = 1000;

/// What a buffered fragment holds: decides when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Directory, indirect and data blocks.
    Data,
    /// Inodes.
    Inode,
    /// Cylinder groups and the summary area.
    Group,
}

/// A range that could not be read.
#[derive(Debug, Clone)]
pub(super) struct BadRange {
    /// First byte.
    pub(super) offset: u64,
    /// The device's reason.
    pub(super) reason: String,
}

/// The device and the repairs that are not on it yet.
pub(super) struct Store {
    dev: Arc<dyn BlockDevice>,
    fsize: u64,
    dirty: BTreeMap<u64, (Class, Box<[u8]>)>,
    /// Blocks of directories that are to be cleared: first fragment, bytes. Their names are taken out by the commit,
    /// so that they need no room until then.
    emptied: BTreeMap<u64, usize>,
    format: DirFormat,
    early: Vec<(u64, Vec<u8>)>,
    late: Vec<(u64, Vec<u8>)>,
    limit: u64,
    can_spill: bool,
    strict: bool,
    bad: Vec<BadRange>,
    written: bool,
    revision: u64,
}

impl Store {
    /// A buffer of at most `limit` bytes; a full one spills to the device or stops the check.
    pub(super) fn new(
        dev: Arc<dyn BlockDevice>,
        g: &Geometry,
        limit: u64,
        can_spill: bool,
        strict: bool,
    ) -> Store {
        Store {
            dev,
            fsize: g.fsize.into(),
            dirty: BTreeMap::new(),
            emptied: BTreeMap::new(),
            format: DirFormat::of(g),
            early: Vec::new(),
            late: Vec::new(),
            limit,
            can_spill,
            strict,
            bad: Vec::new(),
            written: false,
            revision: 0,
        }
    }

    /// Whether the device was written.
    pub(super) fn written(&self) -> bool {
        self.written
    }

    /// Whether repairs wait.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.emptied.is_empty() || !self.late.is_empty() || self.written
    }

    /// How often what is read has changed: two reads at one revision give the same bytes.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Bytes that repairs may take.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes `bad` for what could not be read, whatever was met since it was taken.
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
            self.salvage(offset, buf, error)?;
        }
        self.overlay(at, buf);
        Ok(())
    }

    /// Puts the repairs made so far into what was read from fragment `at` on.
    fn overlay(&self, at: FragNo, buf: &mut [u8]) {
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

    /// Fills `buf` as [`Store::read_into`] does, if all of it can be read.
    pub(super) fn read_whole(&self, at: FragNo, buf: &mut [u8]) -> bool {
        let read = self.dev.read_at(at.0.saturating_mul(self.fsize), buf).is_ok();
        if read {
            self.overlay(at, buf);
        }
        read
    }

    /// Reads `len` bytes from fragment `at` on as the device has them, without buffered repairs.
    pub(super) fn read_device(&mut self, at: FragNo, len: usize) -> Res<Vec<u8>> {
        let mut buf = vec![0; len];
        let offset = at.0.saturating_mul(self.fsize);
        if let Err(error) = self.dev.read_at(offset, &mut buf) {
            self.salvage(offset, &mut buf, error)?;
        }
        Ok(buf)
    }

    /// Reads what can be read, sector by sector, and zeros the rest.
    fn salvage(&mut self, offset: u64, buf: &mut [u8], error: DeviceError) -> Res<()> {
        if self.strict {
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

    /// Has the names in `len` bytes of a directory from fragment `at` on taken out by the next commit, before all
    /// else: the directory is to be cleared.
    pub(super) fn empty_out(&mut self, at: FragNo, len: usize) -> Res<()> {
        self.emptied.insert(at.0, len);
        self.keep_within_limit()
    }

    fn keep_within_limit(&mut self) -> Res<()> {
        let lists = self.emptied.len() * size_of::<(u64, usize)>();
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

    /// Forgets a buffered repair of `n` fragments that are free now.
    pub(super) fn forget(&mut self, at: FragNo, n: u64) {
        self.revision += 1;
        for frag in at.0..at.0 + n {
            self.dirty.remove(&frag);
        }
    }

    /// The blocks of `frag` fragments with buffered names, pointers or inodes.
    pub(super) fn dirty_blocks(&self, frag: u32) -> Vec<u64> {
        let dirty = self.dirty.iter().filter(|(_, (class, _))| *class != Class::Group);
        let places = dirty.map(|(at, _)| at).chain(self.emptied.keys());
        let mut blocks: Vec<u64> = places.map(|at| at / u64::from(frag)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }

    /// Has `bytes` written at byte `offset` before everything else of the next commit.
    pub(super) fn write_early(&mut self, offset: u64, bytes: Vec<u8>) {
        self.early.push((offset, bytes));
    }

    /// Has `bytes` written at byte `offset` after everything else of the next commit.
    pub(super) fn write_late(&mut self, offset: u64, bytes: Vec<u8>) {
        self.late.push((offset, bytes));
    }

    /// Makes room by writing names, pointers and inodes, in this order.
    fn spill(&mut self) -> Res<()> {
        if !self.can_spill {
            let limit = self.limit;
            let why = format!("the repairs need more than the {limit} bytes of memory allowed");
            return Err(Stop::Refused(exit::ERROR, why));
        }
        self.write_raw(true)?;
        self.write_emptied()?;
        self.write_class(Class::Data)?;
        self.write_class(Class::Inode)
    }

    /// Writes everything.
    pub(super) fn commit(&mut self) -> Res<()> {
        self.write_raw(true)?;
        self.write_emptied()?;
        for class in [Class::Data, Class::Inode, Class::Group] {
            self.write_class(class)?;
        }
        self.write_raw(false)
    }

    /// Takes the names out of directories that are to be cleared, on the device, and flushes.
    fn write_emptied(&mut self) -> Res<()> {
        let mut any = false;
        for (at, len) in std::mem::take(&mut self.emptied) {
            let whole = len.next_multiple_of(self.fsize as usize);
            let mut buf = self.read_device(FragNo(at), whole)?;
            if take_names_out(self.format, &mut buf[..len]) {
                any = true;
                self.written = true;
                self.dev.write_at(at * self.fsize, &buf)?;
            }
        }
        if any { Ok(self.dev.flush()?) } else { Ok(()) }
    }

    fn write_raw(&mut self, early: bool) -> Res<()> {
        let list = std::mem::take(if early { &mut self.early } else { &mut self.late });
        if list.is_empty() {
            return Ok(());
        }
        for (offset, bytes) in list {
            self.written = true;
            self.dev.write_at(offset, &bytes)?;
        }
        Ok(self.dev.flush()?)
    }

    /// Writes the fragments of one class, neighbours together, and flushes.
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
        self.written = true;
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
