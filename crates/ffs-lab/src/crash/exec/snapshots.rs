//! Snapshots of a workload: made, and read through the mount.

use std::collections::BTreeMap;
use std::sync::Arc;

use ffs_core::{Cred, Error, NodeKind, Vnode};
use ffs_ondisk::snapshot::image_bytes;
use ffs_ondisk::{Corrupt, Place, Structure};

use super::super::block_hashes::BlockHashes;
use super::super::history::{Action, Life, Name, ObjId, ObjKind};
use super::super::op::Path;
use super::{ActionResult, Executor};

/// The permissions of a new snapshot.
const MODE: u16 = 0o400;

/// A snapshot that was just made.
pub(in crate::crash) struct Made {
    pub(in crate::crash) obj: ObjId,
    pub(in crate::crash) life: Life,
    /// What it shows, read through the mount.
    pub(in crate::crash) image: Vec<u8>,
}

/// The snapshots of an executor.
#[derive(Default)]
pub(super) struct Known {
    hashes: BTreeMap<ObjId, Arc<BlockHashes>>,
    made: Option<Made>,
}

impl Executor {
    /// The snapshot that the last call made.
    pub(in crate::crash) fn take_made(&mut self) -> Option<Made> {
        self.snapshots.made.take()
    }

    /// Adds a snapshot from before.
    pub(in crate::crash) fn add_snapshot(&mut self, obj: ObjId, hashes: &Arc<BlockHashes>) {
        self.snapshots.hashes.insert(obj, Arc::clone(hashes));
    }

    /// Whether the workload has the snapshot `obj`, and no name leads to it any more.
    pub(in crate::crash) fn is_removed_snapshot(&self, obj: ObjId) -> bool {
        self.snapshots.hashes.contains_key(&obj) && !self.tree.names.values().any(|o| *o == obj)
    }

    /// Makes the file and the snapshot in it by two calls, as `mksnap_ffs` does on a mount. If the
    /// second fails, the file is removed.
    pub(super) fn snapshot(&mut self, path: &Path) -> ActionResult {
        let (dir, last) = self.dir(path)?;
        let file = self.fs.create(&self.cred, &dir, last, NodeKind::Regular, MODE)?;
        let mut done = self.record_creation(path, ObjKind::Snapshot, &file)?;
        let (obj, name) = (self.obj(path)?, self.name(path)?);
        match self.fs.snapshot_into(&self.cred, &file) {
            Ok(_) => {
                let attr = self.fs.getattr(&file);
                let life = Life { ino: attr.ino, generation: attr.generation };
                let image = self.image(&file)?;
                let hashes = Arc::new(BlockHashes::of(&image, self.fs.geometry().bsize));
                self.snapshots.hashes.insert(obj, hashes);
                self.snapshots.made = Some(Made { obj, life, image });
                done.push(Action::Fsynced { obj, data_only: false });
            }
            Err(error @ Error::Format(_)) => return Err(error),
            Err(_) => {
                drop(file);
                // If that fails, too, an empty file remains.
                if self.fs.unlink(&self.cred, &dir, last).is_ok() {
                    self.tree.names.remove(&name);
                    done.push(Action::NameRemoved { name, obj });
                }
            }
        }
        Ok(done)
    }

    /// Removes snapshots until everything can be made durable: a full volume has no space for
    /// copies.
    pub(in crate::crash) fn make_space(&mut self) -> ActionResult {
        let mut done = Vec::new();
        if self.snapshots.hashes.is_empty() {
            return Ok(done);
        }
        let is_snapshot = |obj: &ObjId| self.snapshots.hashes.contains_key(obj);
        let names = self.tree.names.iter().filter(|(_, obj)| is_snapshot(obj));
        let mut names: Vec<(Name, ObjId)> = names.map(|(n, o)| (n.clone(), *o)).collect();
        while let (true, Some((name, obj))) =
            (matches!(self.fs.sync(), Err(Error::NoSpace)), names.pop())
        {
            let Some(path) = self.tree.path_of(name.dir) else { continue };
            let dir = self.lookup(&path)?;
            self.fs.unlink(&Cred::root(), &dir, &name.name)?;
            self.tree.names.remove(&name);
            done.push(Action::NameRemoved { name, obj });
        }
        Ok(done)
    }

    fn image(&self, file: &Vnode) -> Result<Vec<u8>, Error> {
        let len = usize::try_from(image_bytes(self.fs.geometry())).unwrap_or(0);
        let mut bytes = vec![0; len];
        let read = self.fs.read(file, 0, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads a snapshot, and compares it with what it showed first.
    pub(super) fn compare(&mut self, path: &Path) -> ActionResult {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        let Some(hashes) = self.snapshots.hashes.get(&obj) else { return Ok(Vec::new()) };
        let found = BlockHashes::of(&self.image(&file)?, self.fs.geometry().bsize);
        match hashes.first_difference(&found) {
            None => Ok(Vec::new()),
            Some(block) => {
                let place = Place::Inode(self.fs.getattr(&file).ino);
                let want = "what the snapshot showed when it was made";
                let found = format!("another content of block {block}");
                let wrong = Corrupt::new(Structure::Snapshot, place, "content", found, want);
                Err(Error::Format(wrong.into()))
            }
        }
    }
}
