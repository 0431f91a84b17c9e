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
use ffs_ondisk::{FragNo, Geometry};

use super::judge::{Res, Stop};
use super::report::exit;

/// The most bad ranges remembered.
const MAX_BAD: usize = 1000;

/// What a buffered fragment holds: decides when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Directory blocks out of which names were taken, because their directories are cleared: written although
    /// nobody will read them.
    Emptied,
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
    early: Vec<(u64, Vec<u8>)>,
    late: Vec<(u64, Vec<u8>)>,
    limit: u64,
    can_spill: bool,
    strict: bool,
    bad: Vec<BadRange>,
    written: bool,
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
            early: Vec::new(),
            late: Vec::new(),
            limit,
            can_spill,
            strict,
            bad: Vec::new(),
            written: false,
        }
    }

    /// Whether the device was written.
    pub(super) fn written(&self) -> bool {
        self.written
    }

    /// Whether repairs wait.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.late.is_empty() || self.written
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
        if self.dirty.is_empty() {
            return Ok(());
        }
        let end = at.0 + (buf.len() as u64).div_ceil(self.fsize);
        for (frag, (_, bytes)) in self.dirty.range(at.0..end) {
            let from = ((frag - at.0) * self.fsize) as usize;
            let n = bytes.len().min(buf.len() - from);
            buf[from..from + n].copy_from_slice(&bytes[..n]);
        }
        Ok(())
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
        for (i, piece) in bytes.chunks(self.fsize as usize).enumerate() {
            let mut whole = vec![0; self.fsize as usize];
            whole[..piece.len()].copy_from_slice(piece);
            self.dirty.insert(at.0 + i as u64, (class, whole.into_boxed_slice()));
        }
        if self.dirty.len() as u64 * self.fsize > self.limit {
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
        for frag in at.0..at.0 + n {
            if self.dirty.get(&frag).is_some_and(|(class, _)| *class != Class::Emptied) {
                self.dirty.remove(&frag);
            }
        }
    }

    /// The blocks of `frag` fragments with buffered names, pointers or inodes.
    pub(super) fn dirty_blocks(&self, frag: u32) -> Vec<u64> {
        let dirty = self.dirty.iter().filter(|(_, (class, _))| *class != Class::Group);
        let mut blocks: Vec<u64> = dirty.map(|(at, _)| at / u64::from(frag)).collect();
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
        [Class::Emptied, Class::Data, Class::Inode]
            .into_iter()
            .try_for_each(|class| self.write_class(class))
    }

    /// Writes everything.
    pub(super) fn commit(&mut self) -> Res<()> {
        self.write_raw(true)?;
        for class in [Class::Emptied, Class::Data, Class::Inode, Class::Group] {
            self.write_class(class)?;
        }
        self.write_raw(false)
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
