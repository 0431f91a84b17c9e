//! The directory layer: one directory on the simulated machine, with the index as a switch.
//!
//! | | linear, dirhash | the others |
//! | --- | --- | --- |
//! | blocks | the library's directory | a regular file, through the library's buffer cache |
//! | inodes | the library's | the library's, made without a name (`Ffs::create_nameless`) |
//! | block size, memory, delays of writing, syncer, price of a call | the same | the same |
//! | processor | the library's counters | the library's counters and [`SearchWork`] |
//!
//! # Invariants
//! 1. An operation that fails leaves no inode behind.

use std::collections::BTreeMap;

use ffs_core::{Cred, Ffs, Ino, NodeKind, Vnode};

use super::error::{IndexError, Result as IndexResult};
use super::store::FileStore;
use super::{Index, IndexKind};
use crate::error::{LabError, Result};
use crate::machine::{Call, MachineCounters, SearchWork};
use crate::systems::sim::SimTarget;
use crate::systems::sim_spec::SimSpec;
use crate::systems::{Demand, DirId, Target};

/// Bytes of a block: those of ext2, whose index it was made for.
pub(crate) const BLOCK: u32 = 4096;
/// Files up to which a volume of 2 GB suffices.
const SMALL_VOLUME: u64 = 400_000;

/// A directory with an index of the laboratory, on a mounted volume.
pub(super) struct IndexedDirectory {
    fs: Ffs,
    cred: Cred,
    /// The directory near which inodes are allocated, and which has the file with the blocks.
    dir: Vnode,
    index: Box<dyn Index>,
    /// The work that the processor was charged for.
    charged: SearchWork,
}

/// The name of the file with the blocks.
const FILE: &[u8] = b"index";

pub(super) fn failed(error: impl ToString) -> IndexError {
    IndexError::Store(error.to_string())
}

impl IndexedDirectory {
    /// Opens the directory whose blocks are in a file of `dir`; makes the file if there is none.
    pub(super) fn open(fs: &Ffs, dir: &Vnode, kind: IndexKind) -> IndexResult<IndexedDirectory> {
        let (fs, dir, cred) = (fs.clone(), dir.clone(), Cred::root());
        let file = match fs.lookup(&cred, &dir, FILE) {
            Err(ffs_core::Error::NotFound) => {
                fs.create(&cred, &dir, FILE, NodeKind::Regular, 0o644)
            }
            found => found,
        };
        let store = FileStore::open(&fs, file.map_err(failed)?, BLOCK as usize)?;
        let index = kind.open(Box::new(store))?;
        Ok(IndexedDirectory { fs, cred, dir, index, charged: SearchWork::default() })
    }

    /// Makes an empty file.
    pub(super) fn create(&mut self, name: &[u8]) -> IndexResult<()> {
        let made = self.fs.create_nameless(&self.cred, &self.dir, 0o644).map_err(failed)?;
        self.index.insert(name, made.ino().0).inspect_err(|_| {
            // The first error counts.
            drop(self.fs.remove_nameless(&made));
        })
    }

    /// Reads the attributes of a file. Returns whether it exists.
    pub(super) fn stat(&mut self, name: &[u8]) -> IndexResult<bool> {
        let Some(ino) = self.index.lookup(name)? else { return Ok(false) };
        let file = self.fs.vget(Ino(ino), None).map_err(failed)?;
        let _attributes = self.fs.getattr(&file);
        Ok(true)
    }

    /// Removes a file.
    pub(super) fn unlink(&mut self, name: &[u8]) -> IndexResult<()> {
        let ino = self.index.remove(name)?;
        let ino = ino.ok_or_else(|| failed("no such name"))?;
        let file = self.fs.vget(Ino(ino), None).map_err(failed)?;
        self.fs.remove_nameless(&file).map_err(failed)
    }

    /// The work since the last call.
    fn work(&mut self) -> SearchWork {
        let work = self.index.work();
        let since = work.since(&self.charged);
        self.charged = work;
        since
    }
}

/// Directories of one kind on a machine of their own.
pub(super) struct Layer {
    kind: IndexKind,
    target: SimTarget,
    top: DirId,
    dirs: Vec<DirId>,
    indexed: BTreeMap<DirId, IndexedDirectory>,
}

/// The mount options and the machine of a kind.
pub(super) fn spec(kind: IndexKind, files: u64) -> Result<SimSpec> {
    let size = if files <= SMALL_VOLUME { 2048 } else { 16384 };
    // Delays of files and directories are equal. Only dirhash has memory for hashes.
    let hash = if kind == IndexKind::Dirhash { "256m" } else { "0" };
    let words = format!(
        "async,noatime,size={size},used=0,turnover=0,filedelay=29,dirdelay=29,metadelay=29,\
         dirhash_maxmem={hash}"
    );
    let mut spec = SimSpec::parse(&words).map_err(LabError::Plan)?;
    let volume = &mut spec.preset.volume;
    (volume.block, volume.fragment, volume.bytes_per_inode) = (BLOCK, BLOCK / 8, 4096);
    Ok(spec)
}

impl Layer {
    /// `count` empty directories for `files` files in all.
    pub(super) fn new(kind: IndexKind, seed: u64, (count, files): (u32, u64)) -> Result<Layer> {
        let spec = spec(kind, files)?;
        let mut target = SimTarget::new(kind.name(), spec, seed);
        if !kind.is_own() {
            target.set_foreign();
        }
        let top = target.begin(Demand::files(files + u64::from(count) * 2))?;
        let (dirs, indexed) = (Vec::new(), BTreeMap::new());
        let mut layer = Layer { kind, target, top, dirs, indexed };
        for n in 0..count {
            let dir = layer.target.mkdir(layer.top, &directory(n))?;
            layer.add(dir)?;
        }
        Ok(layer)
    }

    fn add(&mut self, dir: DirId) -> Result<()> {
        self.dirs.push(dir);
        if !self.kind.is_own() {
            let kind = self.kind;
            let opened = self.target.call(Call::Open, None, |v, _| {
                Ok(IndexedDirectory::open(v.fs(), v.vnode(dir)?, kind)?)
            })?;
            self.indexed.insert(dir, opened);
        }
        Ok(())
    }

    /// The directories.
    pub(super) fn dirs(&self) -> Vec<DirId> {
        self.dirs.clone()
    }

    /// Unmounts the volume and mounts it again: nothing is in memory afterwards.
    pub(super) fn remount(&mut self) -> Result<()> {
        self.indexed.clear();
        let count = self.dirs.len() as u32;
        self.dirs.clear();
        self.top = self.target.remount()?;
        for n in 0..count {
            let dir = self.target.open_dir(self.top, &directory(n))?;
            self.add(dir)?;
        }
        Ok(())
    }

    /// Performs a call on an indexed directory and charges the work of its index.
    fn on_index<T>(
        &mut self,
        call: Call,
        dir: DirId,
        work: impl FnOnce(&mut IndexedDirectory) -> IndexResult<T>,
    ) -> Result<T> {
        let indexed = self.indexed.get_mut(&dir);
        let indexed = indexed.ok_or_else(|| LabError::unusable("index", "is not open"))?;
        self.target.call(call, None, |_, machine| {
            if call == Call::Create {
                machine.call(Call::Close);
            }
            let result = work(indexed);
            let bytes = indexed.index.bytes();
            machine.search(&indexed.work(), bytes);
            Ok(result?)
        })
    }

    /// Makes an empty file.
    pub(super) fn create(&mut self, dir: DirId, name: &[u8]) -> Result<()> {
        if self.kind.is_own() {
            return self.target.create(dir, name);
        }
        self.on_index(Call::Create, dir, |indexed| indexed.create(name))
    }

    /// Reads the attributes of a file. Returns whether it exists.
    pub(super) fn stat(&mut self, dir: DirId, name: &[u8]) -> Result<bool> {
        if self.kind.is_own() {
            return Ok(self.target.stat(dir, name)?.is_some());
        }
        self.on_index(Call::Stat, dir, |indexed| indexed.stat(name))
    }

    /// Removes a file.
    pub(super) fn unlink(&mut self, dir: DirId, name: &[u8]) -> Result<()> {
        if self.kind.is_own() {
            return self.target.unlink(dir, name);
        }
        self.on_index(Call::Remove, dir, |indexed| indexed.unlink(name))
    }

    /// The names of a directory, in the order of a listing.
    pub(super) fn list(&mut self, dir: DirId) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        if self.kind.is_own() {
            self.target.list(dir, &mut |name| names.push(name.to_vec()))?;
            return Ok(names);
        }
        self.on_index(Call::List, dir, |indexed| {
            indexed.index.list(&mut |name, _| names.push(name.to_vec()))
        })?;
        let count = names.len() as u64;
        self.target.call(Call::Entries(count), None, |_, _| Ok(()))?;
        Ok(names)
    }

    /// Writes everything back.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.target.sync()
    }

    /// Drops the names in memory.
    pub(super) fn forget(&mut self) -> Result<()> {
        self.target.forget().map(drop)
    }

    /// Nanoseconds since the machine started.
    pub(super) fn now(&self) -> u64 {
        crate::systems::nanos(self.target.now())
    }

    /// The totals of the machine.
    pub(super) fn done(&self) -> MachineCounters {
        self.target.done()
    }

    /// Bytes of the directories, and of their indexes in memory.
    pub(super) fn sizes(&mut self) -> Result<(u64, u64)> {
        if !self.kind.is_own() {
            let bytes = self.indexed.values().map(|indexed| indexed.index.bytes()).sum();
            let memory = self.indexed.values().map(|indexed| indexed.index.memory()).sum();
            return Ok((bytes, memory));
        }
        let dirs = self.dirs.clone();
        self.target.call(Call::Close, None, |v, _| {
            let bytes = dirs.iter().map(|dir| v.bytes_of(*dir)).sum();
            let gauges = v.fs().gauges();
            let memory = gauges.iter().find(|gauge| gauge.name == "vfs.ufs.dirhash_mem");
            Ok((bytes, memory.map_or(0, |gauge| gauge.value)))
        })
    }

    /// The free inodes of the volume.
    #[cfg(test)]
    pub(super) fn free_inodes(&mut self) -> Result<u64> {
        self.target.call(Call::Close, None, |v, _| Ok(v.fs().statfs().inodes_free))
    }

    /// Checks the directories of the laboratory.
    #[cfg(test)]
    pub(super) fn check(&mut self) -> Result<()> {
        for indexed in self.indexed.values_mut() {
            indexed.index.check()?;
        }
        Ok(())
    }
}

fn directory(n: u32) -> Vec<u8> {
    format!("dir{n}").into_bytes()
}
