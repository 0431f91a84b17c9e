//! The file operations of a mounted volume, for the targets that have the library in process.
//!
//! **Invariants.**
//! 1. Between calls a directory or file in use is held as a vnode, and nothing else is.
//! 2. All content is one repeated byte, so that a simulated disk need not store it.

use ffs_core::{
    Cred, Error, Ffs, FileType, NodeKind, RenameMode, SetAttr, SetTime, Timespec, Vnode, WriteMode,
};

use super::slots::Slots;
use super::{DirId, FileId, Forgotten, Kind, Open, Stat, Usage, failed};
use crate::error::{LabError, Result};

/// The byte of all content.
pub(super) const CONTENT: u8 = b'F';
/// The longest write to the file system, bytes.
pub(super) const PIECE: usize = 1 << 20;
/// The option that limits the inodes in memory.
const VNODES: &str = "kern.maxvnodes";

/// A mounted volume, with the files and directories that a workload uses.
pub(crate) struct Volume {
    label: String,
    fs: Ffs,
    cred: Cred,
    dirs: Slots<Vnode>,
    files: Slots<(Vnode, WriteMode)>,
    content: Vec<u8>,
    sink: Vec<u8>,
}

impl Volume {
    /// A volume on `fs` for the target `label`, and its open root directory.
    ///
    /// # Errors
    /// The root cannot be read.
    pub(crate) fn new(label: &str, fs: Ffs) -> Result<(Volume, DirId)> {
        let root = fs.root().map_err(|error| LabError::unusable(label, error))?;
        let mut volume = Volume {
            label: label.to_owned(),
            fs,
            cred: Cred::root(),
            dirs: Slots::default(),
            files: Slots::default(),
            content: Vec::new(),
            sink: Vec::new(),
        };
        let root = DirId(volume.dirs.insert(root));
        Ok((volume, root))
    }

    /// The file system.
    #[must_use]
    pub(crate) fn fs(&self) -> &Ffs {
        &self.fs
    }

    /// Opens the root directory.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn root(&mut self) -> Result<DirId> {
        let root = self.fs.root().map_err(|error| LabError::unusable(&self.label, error))?;
        Ok(DirId(self.dirs.insert(root)))
    }

    /// A directory in use.
    ///
    /// # Errors
    /// None has this number.
    pub(crate) fn vnode(&self, at: DirId) -> Result<&Vnode> {
        self.dir(at)
    }

    /// The size of a directory, bytes; 0 if there is none.
    #[must_use]
    pub(crate) fn bytes_of(&self, at: DirId) -> u64 {
        self.dirs.get(at.0).map_or(0, |dir| self.fs.getattr(dir).size)
    }

    fn dir(&self, at: DirId) -> Result<&Vnode> {
        let dir = self.dirs.get(at.0);
        dir.ok_or_else(|| LabError::unusable(&self.label, "no such directory is in use"))
    }

    fn file(&self, file: FileId) -> Result<&(Vnode, WriteMode)> {
        let found = self.files.get(file.0);
        found.ok_or_else(|| LabError::unusable(&self.label, "no such file is in use"))
    }

    #[cold]
    fn failed(&self, op: &str, name: &[u8], error: &Error) -> LabError {
        let full = matches!(error, Error::NoSpace | Error::NoInodes);
        failed(&self.label, op, name, error, full)
    }

    fn found(&self, op: &str, at: DirId, name: &[u8]) -> Result<Vnode> {
        let found = self.fs.lookup(&self.cred, self.dir(at)?, name);
        found.map_err(|error| self.failed(op, name, &error))
    }
}

/// The calls of [`super::Target`] by the same names; their errors are the file system's.
#[allow(clippy::missing_errors_doc, missing_docs, reason = "as in the trait")]
impl Volume {
    pub(crate) fn mkdir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
        let made = self.fs.mkdir(&self.cred, self.dir(at)?, name, 0o755);
        let made = made.map_err(|error| self.failed("mkdir", name, &error))?;
        Ok(DirId(self.dirs.insert(made)))
    }

    pub(crate) fn open_dir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
        let dir = self.found("open directory", at, name)?;
        if self.fs.getattr(&dir).kind != FileType::Directory {
            return Err(self.failed("open directory", name, &Error::NotDirectory));
        }
        Ok(DirId(self.dirs.insert(dir)))
    }

    pub(crate) fn close_dir(&mut self, dir: DirId) -> Result<()> {
        let closed = self.dirs.remove(dir.0).map(drop);
        closed.ok_or_else(|| LabError::unusable(&self.label, "no such directory is in use"))
    }

    pub(crate) fn rmdir(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        let removed = self.fs.rmdir(&self.cred, self.dir(at)?, name);
        removed.map_err(|error| self.failed("rmdir", name, &error))
    }

    pub(crate) fn create(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        self.make("create", at, name).map(drop)
    }

    fn make(&self, op: &str, at: DirId, name: &[u8]) -> Result<Vnode> {
        let made = self.fs.create(&self.cred, self.dir(at)?, name, NodeKind::Regular, 0o644);
        made.map_err(|error| self.failed(op, name, &error))
    }

    pub(crate) fn stat(&mut self, at: DirId, name: &[u8]) -> Result<Option<Stat>> {
        match self.fs.lookup_attr(&self.cred, self.dir(at)?, name) {
            Ok(attr) => Ok(Some(Stat { ino: u64::from(attr.ino.0), size: attr.size })),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(self.failed("stat", name, &error)),
        }
    }

    pub(crate) fn rename(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()> {
        let places = ((self.dir(from.0)?, from.1), (self.dir(to.0)?, to.1));
        let renamed = self.fs.rename(&self.cred, places.0, places.1, RenameMode::Replace);
        renamed.map_err(|error| self.failed("rename", from.1, &error))
    }

    pub(crate) fn link(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()> {
        let file = self.found("link", from.0, from.1)?;
        let linked = self.fs.link(&self.cred, &file, self.dir(to.0)?, to.1);
        linked.map_err(|error| self.failed("link", to.1, &error))
    }

    pub(crate) fn unlink(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        let removed = self.fs.unlink(&self.cred, self.dir(at)?, name);
        removed.map_err(|error| self.failed("unlink", name, &error))
    }

    pub(crate) fn list_kinds(
        &mut self,
        at: DirId,
        each: &mut dyn FnMut(&[u8], Kind),
    ) -> Result<()> {
        let listed = self.fs.readdir(self.dir(at)?, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                each(entry.name, kind(entry.kind));
            }
            true
        });
        listed.map_err(|error| self.failed("list", b"", &error))
    }

    pub(crate) fn open(&mut self, at: DirId, name: &[u8], how: Open) -> Result<FileId> {
        let found = |volume: &Volume| volume.found("open", at, name);
        let file = match how {
            Open::Read | Open::Write | Open::Append => found(self)?,
            Open::CreateNew => self.make("open", at, name)?,
            Open::Create | Open::Truncate => {
                let dir = self.dir(at)?;
                match self.fs.create(&self.cred, dir, name, NodeKind::Regular, 0o644) {
                    Err(Error::Exists) => found(self)?,
                    made => made.map_err(|error| self.failed("open", name, &error))?,
                }
            }
        };
        if how == Open::Truncate && self.fs.getattr(&file).size > 0 {
            let empty = SetAttr { size: Some(0), ..SetAttr::default() };
            let set = self.fs.setattr(&self.cred, &file, &empty);
            set.map_err(|error| self.failed("truncate", name, &error))?;
        }
        let mode = WriteMode { append: how == Open::Append, ..WriteMode::default() };
        Ok(FileId(self.files.insert((file, mode))))
    }

    pub(crate) fn read(&mut self, file: FileId, offset: u64, len: usize) -> Result<usize> {
        let mut sink = std::mem::take(&mut self.sink);
        if sink.len() < len {
            sink.resize(len, 0);
        }
        let read = self.file(file).and_then(|(file, _)| {
            let read = self.fs.read(file, offset, &mut sink[..len]);
            read.map_err(|error| self.failed("read", b"", &error))
        });
        self.sink = sink;
        read
    }

    pub(crate) fn write(&mut self, file: FileId, offset: u64, len: usize) -> Result<()> {
        if self.content.len() < len.min(PIECE) {
            self.content.resize(len.min(PIECE), CONTENT);
        }
        let (file, mode) = self.file(file)?;
        let mut done = 0;
        while done < len {
            let piece = &self.content[..(len - done).min(PIECE)];
            let at = offset.saturating_add(done as u64);
            match self.fs.write(&self.cred, file, at, piece, *mode) {
                Ok(0) => return Err(self.failed("write", b"", &Error::NoSpace)),
                Ok(n) => done += n,
                Err(error) => return Err(self.failed("write", b"", &error)),
            }
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, file: FileId) -> Result<()> {
        let closed = self.files.remove(file.0).map(drop);
        closed.ok_or_else(|| LabError::unusable(&self.label, "no such file is in use"))
    }

    pub(crate) fn fsync(&mut self, file: FileId) -> Result<()> {
        let (file, _) = self.file(file)?;
        self.fs.fsync(file).map_err(|error| self.failed("fsync", b"", &error))
    }

    pub(crate) fn chmod(&mut self, at: DirId, name: &[u8], mode: u16) -> Result<()> {
        self.set("chmod", at, name, &SetAttr { perm: Some(mode), ..SetAttr::default() })
    }

    pub(crate) fn set_times(&mut self, at: DirId, name: &[u8], seconds: u32) -> Result<()> {
        let to = SetTime::To(Timespec { secs: i64::from(seconds), nsec: 0 });
        let set = SetAttr { atime: Some(to), mtime: Some(to), ..SetAttr::default() };
        self.set("set times of", at, name, &set)
    }

    pub(crate) fn truncate(&mut self, file: FileId, size: u64) -> Result<()> {
        let (file, _) = self.file(file)?;
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        let done = self.fs.setattr(&self.cred, file, &set);
        done.map(drop).map_err(|error| self.failed("truncate", b"", &error))
    }

    pub(crate) fn symlink(&mut self, at: DirId, name: &[u8], text: &[u8]) -> Result<()> {
        let made = self.fs.symlink(&self.cred, self.dir(at)?, name, text);
        made.map(drop).map_err(|error| self.failed("symlink", name, &error))
    }

    pub(crate) fn readlink(&mut self, at: DirId, name: &[u8]) -> Result<Vec<u8>> {
        let link = self.found("readlink", at, name)?;
        self.fs.readlink(&link).map_err(|error| self.failed("readlink", name, &error))
    }

    fn set(&self, op: &str, at: DirId, name: &[u8], set: &SetAttr) -> Result<()> {
        let file = self.found(op, at, name)?;
        let done = self.fs.setattr(&self.cred, &file, set);
        done.map(drop).map_err(|error| self.failed(op, name, &error))
    }

    pub(crate) fn sync(&mut self) -> Result<()> {
        self.fs.sync().map_err(|error| self.failed("sync", b"", &error))
    }

    pub(crate) fn forget(&mut self) -> Result<Forgotten> {
        self.fs.purge_names();
        // The kernel drops inodes with their names. A limit of zero for a moment does the same.
        let before = self.tune(VNODES, "1")?;
        self.tune(VNODES, &before)?;
        Ok(Forgotten::Done("names and unused inodes dropped; blocks stay"))
    }

    pub(crate) fn set_tunable(&mut self, name: &str, value: &str) -> Result<Option<String>> {
        self.tune(name, value).map(Some)
    }

    fn tune(&self, name: &str, value: &str) -> Result<String> {
        let set = self.fs.set_tunable(name, value);
        set.map(|before| before.value).map_err(|error| LabError::unusable(&self.label, error))
    }

    #[must_use]
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        let list = self.fs.counters().list();
        list.into_iter().map(|(name, value, _)| (name, value)).collect()
    }

    /// The transfers of the file system; without times.
    #[must_use]
    pub(crate) fn usage(&self) -> Usage {
        let c = self.fs.counters();
        Usage {
            reads: c.reads,
            writes: c.writes_sync + c.writes_async + c.writes_delayed,
            sectors: (c.bytes_read + c.bytes_written) / 512,
            ..Usage::default()
        }
    }
}

fn kind(kind: Option<FileType>) -> Kind {
    match kind {
        Some(FileType::Regular) => Kind::File,
        Some(FileType::Directory) => Kind::Directory,
        _ => Kind::Other,
    }
}

/// The calls of [`super::Target`] that a target with a `volume()` passes on to its [`Volume`] as
/// they are.
macro_rules! on_volume {
    () => {
        fn mkdir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
            self.volume()?.mkdir(at, name)
        }
        fn open_dir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
            self.volume()?.open_dir(at, name)
        }
        fn close_dir(&mut self, dir: DirId) -> Result<()> {
            self.volume()?.close_dir(dir)
        }
        fn rmdir(&mut self, at: DirId, name: &[u8]) -> Result<()> {
            self.volume()?.rmdir(at, name)
        }
        fn create(&mut self, at: DirId, name: &[u8]) -> Result<()> {
            self.volume()?.create(at, name)
        }
        fn stat(&mut self, at: DirId, name: &[u8]) -> Result<Option<Stat>> {
            self.volume()?.stat(at, name)
        }
        fn rename(&mut self, at: DirId, from: &[u8], to: &[u8]) -> Result<()> {
            self.volume()?.rename((at, from), (at, to))
        }
        fn rename_to(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()> {
            self.volume()?.rename(from, to)
        }
        fn link(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()> {
            self.volume()?.link(from, to)
        }
        fn unlink(&mut self, at: DirId, name: &[u8]) -> Result<()> {
            self.volume()?.unlink(at, name)
        }
        fn list(&mut self, at: DirId, each: &mut dyn FnMut(&[u8])) -> Result<()> {
            self.volume()?.list_kinds(at, &mut |name, _| each(name))
        }
        fn list_kinds(&mut self, at: DirId, each: &mut dyn FnMut(&[u8], Kind)) -> Result<()> {
            self.volume()?.list_kinds(at, each)
        }
        fn open(&mut self, at: DirId, name: &[u8], how: Open) -> Result<FileId> {
            self.volume()?.open(at, name, how)
        }
        fn read(&mut self, file: FileId, offset: u64, len: usize) -> Result<usize> {
            self.volume()?.read(file, offset, len)
        }
        fn write(&mut self, file: FileId, offset: u64, len: usize) -> Result<()> {
            self.volume()?.write(file, offset, len)
        }
        fn close(&mut self, file: FileId) -> Result<()> {
            self.volume()?.close(file)
        }
        fn fsync(&mut self, file: FileId) -> Result<()> {
            self.volume()?.fsync(file)
        }
        fn chmod(&mut self, at: DirId, name: &[u8], mode: u16) -> Result<()> {
            self.volume()?.chmod(at, name, mode)
        }
        fn set_times(&mut self, at: DirId, name: &[u8], seconds: u32) -> Result<()> {
            self.volume()?.set_times(at, name, seconds)
        }
        fn truncate(&mut self, file: FileId, size: u64) -> Result<()> {
            self.volume()?.truncate(file, size)
        }
        fn symlink(&mut self, at: DirId, name: &[u8], text: &[u8]) -> Result<()> {
            self.volume()?.symlink(at, name, text)
        }
        fn readlink(&mut self, at: DirId, name: &[u8]) -> Result<Vec<u8>> {
            self.volume()?.readlink(at, name)
        }
        fn set_tunable(&mut self, name: &str, value: &str) -> Result<Option<String>> {
            self.volume()?.set_tunable(name, value)
        }
        fn sync(&mut self) -> Result<()> {
            self.volume()?.sync()
        }
        fn forget(&mut self) -> Result<Forgotten> {
            self.volume()?.forget()
        }
    };
}
pub(super) use on_volume;
