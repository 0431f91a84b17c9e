//! The operations of a writer.

use super::content::written;
use super::model::{Model, Progress, directory_of};
use super::op::{EntryPath, Op};
use crate::rng::SplitMix64;
use std::fmt;

/// Most bytes of one writer's files.
const MOST_BYTES: usize = 1 << 20;
/// Most bytes of a hole before a write behind the end of a file.
const MOST_HOLE: u64 = 40_000;
/// File names of a writer in one directory, and directories of a writer.
const NAMES: u64 = 14;
const DIRECTORIES: usize = 6;

/// Whether a script calls `sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncCalls {
    /// It does.
    Include,
    /// It does not.
    Omit,
}

/// How a write is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFlag {
    /// Without `O_SYNC`.
    None,
    /// With `O_SYNC`.
    OSync,
}

/// A file system on which scripts run. Paths are relative to the root of the volume.
pub trait FileOps {
    /// Error of an operation.
    type Error: fmt::Display;

    /// Makes an empty file.
    fn create(&self, path: &str) -> Result<(), Self::Error>;
    /// Writes at an offset.
    fn write(
        &self,
        path: &str,
        offset: u64,
        bytes: &[u8],
        sync: SyncFlag,
    ) -> Result<(), Self::Error>;
    /// Sets the size.
    fn truncate(&self, path: &str, size: u64) -> Result<(), Self::Error>;
    /// Frees the blocks of a range inside the size, which then reads as zeros.
    fn punch_hole(&self, path: &str, offset: u64, len: u64) -> Result<(), Self::Error>;
    /// Makes a hard link.
    fn link(&self, from: &str, to: &str) -> Result<(), Self::Error>;
    /// Removes a file's name.
    fn unlink(&self, path: &str) -> Result<(), Self::Error>;
    /// Renames.
    fn rename(&self, from: &str, to: &str) -> Result<(), Self::Error>;
    /// Makes a directory.
    fn mkdir(&self, path: &str) -> Result<(), Self::Error>;
    /// Removes an empty directory.
    fn rmdir(&self, path: &str) -> Result<(), Self::Error>;
    /// Makes a file or directory durable.
    fn fsync(&self, path: &str) -> Result<(), Self::Error>;
    /// Makes everything durable.
    fn sync(&self) -> Result<(), Self::Error>;
}

/// The sequence of operations of one writer.
#[derive(Clone, Debug)]
pub struct Script {
    /// The state after the operations so far.
    pub(super) model: Model,
    rng: SplitMix64,
    writer: u8,
    sync: SyncCalls,
    directories: u32,
    renames: u32,
    bytes: usize,
}

impl Script {
    /// The script of `writer`.
    #[must_use]
    pub fn new(seed: u64, writer: u8, sync: SyncCalls) -> Script {
        let rng = SplitMix64::new(seed ^ u64::from(writer).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let model = Model::default();
        Script { model, rng, writer, sync, directories: 0, renames: 0, bytes: 0 }
    }

    /// Performs the next operation on `fs`.
    ///
    /// # Errors
    /// The file system's, with the operation: none is expected.
    pub fn step<P: FileOps>(&mut self, fs: &P) -> Result<(), (Op, P::Error)> {
        let op = self.next_op();
        self.perform(fs, &op).map_err(|e| (op.clone(), e))?;
        self.complete(&op);
        Ok(())
    }

    /// Performs `op` on `fs`.
    ///
    /// # Errors
    /// The file system's.
    pub fn perform<P: FileOps>(&self, fs: &P, op: &Op) -> Result<(), P::Error> {
        let path = |at: &EntryPath| self.model.path(at);
        match op {
            Op::Create { at } => fs.create(&path(at)),
            Op::Write { at, offset, len, tag, sync } => {
                let flag = if *sync { SyncFlag::OSync } else { SyncFlag::None };
                fs.write(&path(at), *offset as u64, &written(*tag, *len), flag)
            }
            Op::Truncate { at, size } => fs.truncate(&path(at), *size as u64),
            Op::PunchHole { at, offset, len } => {
                fs.punch_hole(&path(at), *offset as u64, *len as u64)
            }
            Op::Link { from, to } => fs.link(&path(from), &path(to)),
            Op::Unlink { at } => fs.unlink(&path(at)),
            Op::Rename { from, to } => fs.rename(&path(from), &path(to)),
            Op::Mkdir { at } => fs.mkdir(&path(at)),
            Op::Rmdir { at } => fs.rmdir(&path(at)),
            Op::Fsync { at } => fs.fsync(&path(at)),
            Op::FsyncDir { directory } => fs.fsync(&self.model.path_of(directory)),
            Op::Sync => fs.sync(),
        }
    }

    /// Records that `op`, the result of [`Script::next_op`], has returned.
    pub fn complete(&mut self, op: &Op) {
        self.model.apply(op, Progress::Returned);
    }

    /// The next operation. It is possible in the current state, and the caller must
    /// pass it to [`Script::complete`] next.
    pub fn next_op(&mut self) -> Op {
        loop {
            let kind = self.rng.below(100);
            if let Some(op) = self.draw(kind) {
                return op;
            }
        }
    }

    fn draw(&mut self, kind: u64) -> Option<Op> {
        match kind {
            0..=17 => self.free_name().map(|at| Op::Create { at }),
            18..=37 => self.write(),
            38..=41 => self.truncate(),
            42..=43 => self.punch_hole(),
            44..=48 => {
                let (from, file) = self.any_file()?;
                let to = self.free_name()?;
                (self.model.links(file) < 5).then_some(Op::Link { from, to })
            }
            49..=58 => self.any_file().map(|(at, _)| Op::Unlink { at }),
            59..=70 => self.rename(),
            71..=75 => self.mkdir(),
            76..=78 => self.rename_directory(),
            79..=82 => {
                let name = self.own_directory()?;
                let at = self.model.place_of(&name)?.clone();
                self.model.is_empty(&name).then_some(Op::Rmdir { at })
            }
            83..=93 => self.any_file().map(|(at, _)| Op::Fsync { at }),
            94..=98 => Some(Op::FsyncDir { directory: self.any_directory() }),
            _ => (self.sync == SyncCalls::Include && self.rng.one_in(3)).then_some(Op::Sync),
        }
    }

    fn own_directory(&mut self) -> Option<String> {
        let own = self.model.own_directories();
        self.rng.pick(&own).cloned()
    }

    fn any_directory(&mut self) -> String {
        let own = self.own_directory();
        let common = ["top", "a", "b"].get(self.rng.below(3) as usize).copied().unwrap_or("top");
        own.filter(|_| self.rng.one_in(2)).unwrap_or_else(|| common.to_owned())
    }

    fn any_file(&mut self) -> Option<(EntryPath, usize)> {
        let all = self.model.named_files();
        self.rng.pick(&all).cloned()
    }

    /// A file name of the writer in some directory; long names make directories grow.
    fn name(&mut self) -> EntryPath {
        let (directory, n) = (self.any_directory(), self.rng.below(NAMES));
        let long = if n % 4 == 3 { 150 } else { 0 };
        (directory, format!("w{}-f{n}{}", self.writer, "x".repeat(long)))
    }

    fn free_name(&mut self) -> Option<EntryPath> {
        let at = self.name();
        self.model.file_at(&at).is_none().then_some(at)
    }

    fn write(&mut self) -> Option<Op> {
        let (at, file) = self.any_file()?;
        let size = self.model.size(file);
        let len = match self.rng.below(10) {
            0 => self.rng.between(20_000, 90_000),
            1..=4 => self.rng.between(1, 700),
            _ => self.rng.between(700, 9000),
        } as usize;
        let offset = match self.rng.below(6) {
            0 | 1 => self.rng.below(size as u64 + 1) as usize,
            2 => size + self.rng.below(MOST_HOLE) as usize,
            _ => size,
        };
        self.bytes = self.model.named_files().iter().map(|(_, f)| self.model.size(*f)).sum();
        if self.bytes + len > MOST_BYTES || offset + len > 200_000 {
            return None;
        }
        let (tag, sync) = (self.rng.next_u64(), self.rng.one_in(20));
        Some(Op::Write { at, offset, len, tag, sync })
    }

    fn truncate(&mut self) -> Option<Op> {
        let (at, file) = self.any_file()?;
        let size = self.model.size(file) as u64;
        let size = match self.rng.below(4) {
            0 => 0,
            1 => self.rng.between(size, size + 3000),
            _ => self.rng.below(size + 1),
        };
        Some(Op::Truncate { at, size: size as usize })
    }

    fn punch_hole(&mut self) -> Option<Op> {
        let (at, file) = self.any_file()?;
        let size = self.model.size(file) as u64;
        let offset = self.rng.below(size);
        let len = self.rng.between(1, size.saturating_sub(offset).max(1));
        (size > 0).then_some(Op::PunchHole { at, offset: offset as usize, len: len as usize })
    }

    fn rename(&mut self) -> Option<Op> {
        let ((from, file), to) = (self.any_file()?, self.name());
        // A rename between two names of one file has no effect.
        (self.model.file_at(&to) != Some(file)).then_some(Op::Rename { from, to })
    }

    fn mkdir(&mut self) -> Option<Op> {
        if self.model.own_directories().len() >= DIRECTORIES {
            return None;
        }
        self.directories += 1;
        let name = format!("w{}-d{}", self.writer, self.directories);
        Some(Op::Mkdir { at: (self.any_directory(), name) })
    }

    fn rename_directory(&mut self) -> Option<Op> {
        let (name, parent) = (self.own_directory()?, self.any_directory());
        if self.model.within(&parent, &name) {
            return None;
        }
        self.renames += 1;
        let from = self.model.place_of(&name)?.clone();
        let to = (parent, format!("{}.{}", directory_of(&from.1), self.renames));
        Some(Op::Rename { from, to })
    }
}
