//! What a writer does next.

use super::content::written;
use super::model::{At, Model, directory_of};
use crate::rng::SplitMix64;
use std::fmt;

/// Most bytes of one writer's files.
const MOST_BYTES: usize = 1 << 20;
/// Names in a directory, directories of its own.
const NAMES: u64 = 14;
const DIRECTORIES: usize = 6;

/// An operation on a place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words are those of the calls")]
pub enum Op {
    Create { at: At },
    Write { at: At, offset: usize, len: usize, tag: u64, sync: bool },
    Truncate { at: At, size: usize },
    Link { from: At, to: At },
    Unlink { at: At },
    Rename { from: At, to: At },
    Mkdir { at: At },
    Rmdir { at: At },
    Fsync { at: At },
    FsyncDir { directory: String },
    Sync,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Where operations are done. Paths are relative to the root of the volume.
pub trait Place {
    /// Why one failed.
    type Error: fmt::Display;

    /// Makes an empty file.
    fn create(&self, path: &str) -> Result<(), Self::Error>;
    /// Writes, with `sync` as with `O_SYNC`.
    fn write(&self, path: &str, offset: u64, bytes: &[u8], sync: bool) -> Result<(), Self::Error>;
    /// Sets the size.
    fn truncate(&self, path: &str, size: u64) -> Result<(), Self::Error>;
    /// Makes a hard link.
    fn link(&self, from: &str, to: &str) -> Result<(), Self::Error>;
    /// Removes a file's name.
    fn unlink(&self, path: &str) -> Result<(), Self::Error>;
    /// Renames.
    fn rename(&self, from: &str, to: &str) -> Result<(), Self::Error>;
    /// Makes a directory.
    fn mkdir(&self, path: &str) -> Result<(), Self::Error>;
    /// Removes one.
    fn rmdir(&self, path: &str) -> Result<(), Self::Error>;
    /// Makes a file or directory durable.
    fn fsync(&self, path: &str) -> Result<(), Self::Error>;
    /// Makes everything durable.
    fn sync(&self) -> Result<(), Self::Error>;
}

/// A writer's operations, one after the other.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it has done.
    pub model: Model,
    rng: SplitMix64,
    writer: u8,
    /// Whether it calls `sync`.
    sync: bool,
    directories: u32,
    renames: u32,
    bytes: usize,
}

impl Script {
    /// The script of `writer`; `sync`: with calls of `sync` in it.
    #[must_use]
    pub fn new(seed: u64, writer: u8, sync: bool) -> Script {
        let rng = SplitMix64::new(seed ^ u64::from(writer).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let model = Model::default();
        Script { model, rng, writer, sync, directories: 0, renames: 0, bytes: 0 }
    }

    /// Does the next operation in `place`.
    ///
    /// # Errors
    /// The place's, with the operation: none is expected.
    pub fn step<P: Place>(&mut self, place: &P) -> Result<(), (Op, P::Error)> {
        let op = self.next_op();
        self.perform(place, &op).map_err(|e| (op.clone(), e))?;
        self.model.apply(&op, true);
        Ok(())
    }

    /// Does `op` in `place`.
    ///
    /// # Errors
    /// The place's.
    pub fn perform<P: Place>(&self, place: &P, op: &Op) -> Result<(), P::Error> {
        let path = |at: &At| self.model.path(at);
        match op {
            Op::Create { at } => place.create(&path(at)),
            Op::Write { at, offset, len, tag, sync } => {
                place.write(&path(at), *offset as u64, &written(*tag, *len), *sync)
            }
            Op::Truncate { at, size } => place.truncate(&path(at), *size as u64),
            Op::Link { from, to } => place.link(&path(from), &path(to)),
            Op::Unlink { at } => place.unlink(&path(at)),
            Op::Rename { from, to } => place.rename(&path(from), &path(to)),
            Op::Mkdir { at } => place.mkdir(&path(at)),
            Op::Rmdir { at } => place.rmdir(&path(at)),
            Op::Fsync { at } => place.fsync(&path(at)),
            Op::FsyncDir { directory } => place.fsync(&self.model.path_of(directory)),
            Op::Sync => place.sync(),
        }
    }

    /// The next operation: it can be done, and must be applied to the model next.
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
            38..=42 => self.truncate(),
            43..=48 => {
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
            _ => (self.sync && self.rng.one_in(3)).then_some(Op::Sync),
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

    fn any_file(&mut self) -> Option<(At, usize)> {
        let all = self.model.named_files();
        self.rng.pick(&all).cloned()
    }

    /// A name of the writer's, in a directory; long ones let directories grow.
    fn name(&mut self) -> At {
        let (directory, n) = (self.any_directory(), self.rng.below(NAMES));
        let long = if n % 4 == 3 { 150 } else { 0 };
        (directory, format!("w{}-f{n}{}", self.writer, "x".repeat(long)))
    }

    fn free_name(&mut self) -> Option<At> {
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
        let offset =
            if self.rng.one_in(3) { self.rng.below(size as u64 + 1) as usize } else { size };
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

    fn rename(&mut self) -> Option<Op> {
        let ((from, file), to) = (self.any_file()?, self.name());
        // Two names of one file: nothing would happen.
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
