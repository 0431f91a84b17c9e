//! The library as the target of test scripts.

use super::{START, soft_updates};
use ffs_core::{
    Cred, Env, Error, Fallocate, Ffs, NodeKind, RenameMode, Result, SetAttr, Vnode, WriteMode,
};
use ffs_device::BlockDevice;
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_ondisk::FileType;
use ffs_testkit::killtest::{COMMON, FileOps, SyncFlag};
use std::sync::Arc;

/// A mounted volume, and its clock.
pub(crate) struct Mounted {
    pub(crate) fs: Ffs,
    pub(crate) clock: Arc<ManualClock>,
}

impl Mounted {
    /// Mounts `device` with soft updates and creates the common directories.
    pub(crate) fn begin(device: Arc<dyn BlockDevice>, seed: u64) -> Mounted {
        let clock = Arc::new(ManualClock::new(Timestamp::new(START, 0)));
        let fs = Ffs::mount(device, &soft_updates(), Env::seeded(clock.clone(), seed)).unwrap();
        let place = Mounted { fs, clock };
        place.make_common();
        place
    }

    /// Creates the directories of the scripts and makes them durable.
    pub(crate) fn make_common(&self) {
        for directory in COMMON {
            self.mkdir(directory).unwrap();
            self.fsync(directory).unwrap();
        }
    }

    pub(crate) fn at(&self, path: &str) -> Result<Vnode> {
        super::at(&self.fs, path)
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(Vnode, &'p [u8])> {
        match path.rsplit_once('/') {
            Some((dir, name)) => Ok((self.at(dir)?, name.as_bytes())),
            None => Ok((self.fs.root()?, path.as_bytes())),
        }
    }

    /// Removes the files of earlier rounds.
    pub(crate) fn remove_old(&self) {
        let root = self.fs.root().unwrap();
        for name in self.entries(&root) {
            if name.starts_with(b"old") {
                let path = String::from_utf8(name).unwrap();
                self.remove_tree(&path).unwrap();
            }
        }
    }

    fn entries(&self, dir: &Vnode) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut each = |e: ffs_core::DirEntry<'_>| {
            all.push(e.name.to_vec());
            true
        };
        self.fs.readdir(dir, 0, &mut each).unwrap();
        all.retain(|name| name != b"." && name != b"..");
        all
    }

    fn remove_tree(&self, path: &str) -> Result<()> {
        let dir = self.at(path)?;
        for name in self.entries(&dir) {
            let below = format!("{path}/{}", String::from_utf8_lossy(&name));
            if self.fs.getattr(&self.at(&below)?).kind == FileType::Directory {
                self.remove_tree(&below)?;
            } else {
                self.unlink(&below)?;
            }
        }
        drop(dir);
        self.rmdir(path)
    }
}

impl FileOps for Mounted {
    type Error = Error;
    fn create(&self, path: &str) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.create(&Cred::root(), &dir, name, NodeKind::Regular, 0o644).map(drop)
    }
    fn write(&self, path: &str, offset: u64, bytes: &[u8], sync: SyncFlag) -> Result<()> {
        let mode = WriteMode { sync: sync == SyncFlag::OSync, ..WriteMode::default() };
        let n = self.fs.write(&Cred::root(), &self.at(path)?, offset, bytes, mode)?;
        if n == bytes.len() { Ok(()) } else { Err(Error::NoSpace) }
    }
    fn truncate(&self, path: &str, size: u64) -> Result<()> {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.fs.setattr(&Cred::root(), &self.at(path)?, &set).map(drop)
    }
    fn punch_hole(&self, path: &str, offset: u64, len: u64) -> Result<()> {
        let file = self.at(path)?;
        self.fs.fallocate(&Cred::root(), &file, offset, len, Fallocate::PunchHole)
    }
    fn link(&self, from: &str, to: &str) -> Result<()> {
        let (dir, name) = self.parent(to)?;
        self.fs.link(&Cred::root(), &self.at(from)?, &dir, name)
    }
    fn unlink(&self, path: &str) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.unlink(&Cred::root(), &dir, name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let ((a, from), (b, to)) = (self.parent(from)?, self.parent(to)?);
        self.fs.rename(&Cred::root(), (&a, from), (&b, to), RenameMode::Replace)
    }
    fn mkdir(&self, path: &str) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.mkdir(&Cred::root(), &dir, name, 0o755).map(drop)
    }
    fn rmdir(&self, path: &str) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.rmdir(&Cred::root(), &dir, name)
    }
    fn fsync(&self, path: &str) -> Result<()> {
        self.fs.fsync(&self.at(path)?)
    }
    fn sync(&self) -> Result<()> {
        self.fs.sync()
    }
}
