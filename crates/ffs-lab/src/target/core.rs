//! The library in process: a new volume in memory, or in an image file made for the run.
//!
//! **Invariants.**
//! 1. Each [`Target::begin`] makes a new volume: nothing of an earlier round is in it.
//! 2. What the user did not set follows the number of files: a volume that holds them, memory for their
//!    inodes and names, as the kernel's caches would take too.
//! 3. An image file is made here or refused; it is removed by [`Target::end`].

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_core::{Cred, Env, Error, Ffs, NodeKind, OrderingPolicy, RenameMode, Vnode};
use ffs_device::{BlockDevice, FileDevice, MemDevice, SplitMix64, SystemClock};

use super::{Context, CoreSpec, DirId, Facts, Forgotten, Stat, Target, failed};
use crate::error::{LabError, Result};

/// Bytes of a volume without any files.
const LEAST_BYTES: u64 = 64 << 20;
/// Data bytes per inode asked of newfs: the volume must not be larger than need be.
const DENSITY: u32 = 8192;
/// Memory for blocks a file takes: its inode, its entries under two names, its share of the maps, and
/// the same again so that nothing is written for want of room.
const CACHE_PER_FILE: u64 = 1024;

/// The switch that leaves room for inodes in memory.
const VNODES: &str = "kern.maxvnodes";

/// The library as a target.
pub struct CoreTarget {
    label: String,
    spec: CoreSpec,
    context: Context,
    volume: Option<Volume>,
}

struct Volume {
    fs: Ffs,
    cred: Cred,
    dirs: Vec<Vnode>,
    /// Removed in the end.
    image: Option<PathBuf>,
}

impl CoreTarget {
    /// A target that makes its volumes as `spec` says.
    #[must_use]
    pub fn new(label: &str, spec: CoreSpec, context: Context) -> CoreTarget {
        CoreTarget { label: label.to_owned(), spec, context, volume: None }
    }

    fn unusable(&self, why: impl std::fmt::Display) -> LabError {
        LabError::unusable(&self.label, why)
    }

    fn volume(&self) -> Result<&Volume> {
        self.volume.as_ref().ok_or_else(|| self.unusable("has no volume yet"))
    }

    fn dir(&self, at: DirId) -> Result<(&Volume, &Vnode)> {
        let volume = self.volume()?;
        let dir = volume.dirs.get(at.0);
        Ok((volume, dir.ok_or_else(|| self.unusable("no such directory is in use"))?))
    }

    #[cold]
    fn failed(&self, op: &str, name: &[u8], error: &Error) -> LabError {
        let full = matches!(error, Error::NoSpace | Error::NoInodes);
        failed(&self.label, op, name, error, full)
    }

    /// A device with a new file system for `files` files.
    fn device(&self, files: u64) -> Result<(Arc<dyn BlockDevice>, Option<PathBuf>)> {
        // A tenth more: the inodes of directories, and of groups not taken whole.
        let wanted = files.saturating_mul(u64::from(DENSITY)).saturating_mul(11) / 10;
        let bytes = self.spec.size.unwrap_or(LEAST_BYTES.saturating_add(wanted));
        let Some(path) = self.spec.image.clone() else {
            let device = MemDevice::new(bytes);
            self.newfs(&device)?;
            return Ok((Arc::new(device), None));
        };
        let refuse =
            |why: &dyn std::fmt::Display| self.unusable(format!("{}: {why}", path.display()));
        // Only a file that was not there is ever written or removed.
        let file =
            OpenOptions::new().write(true).create_new(true).open(&path).map_err(|error| {
                let taken = error.kind() == std::io::ErrorKind::AlreadyExists;
                let hint = if taken { "; name a file that does not exist" } else { "" };
                refuse(&format_args!("{error}{hint}"))
            })?;
        let made = file
            .set_len(bytes)
            .map_err(|error| refuse(&error))
            .and_then(|()| FileDevice::open(&path, true).map_err(|error| refuse(&error)))
            .and_then(|device| self.newfs(&device).map(|()| device));
        let device = made.inspect_err(|_| drop(std::fs::remove_file(&path)))?;
        Ok((Arc::new(device), Some(path)))
    }

    fn newfs(&self, device: &dyn BlockDevice) -> Result<()> {
        let options = NewfsOptions {
            format: Some(self.spec.format),
            endian: self.spec.endian,
            bsize: self.spec.bsize,
            fsize: self.spec.fsize,
            density: Some(DENSITY),
            ..NewfsOptions::default()
        };
        let rng = SplitMix64::new(self.context.seed);
        newfs(device, &options, &SystemClock, &rng, &mut |_, _| {})
            .map_err(|error| self.unusable(error))?;
        Ok(())
    }

    fn mount(&self, device: Arc<dyn BlockDevice>, files: u64) -> Result<Ffs> {
        let mut options = self.spec.options.clone();
        let t = &mut options.tunables;
        if !self.spec.is_set("cache") {
            t.cache = t.cache.saturating_add(files.saturating_mul(CACHE_PER_FILE));
        }
        if !self.spec.is_set("maxvnodes") {
            t.maxvnodes = t.maxvnodes.max(files.saturating_add(1024));
        }
        let env = Env::seeded(Arc::new(SystemClock), self.context.seed);
        let fs = Ffs::mount(device, &options, env).map_err(|error| self.unusable(error))?;
        if let Some(why) = fs.read_only_reason() {
            return Err(self.unusable(why));
        }
        Ok(fs)
    }
}

impl Target for CoreTarget {
    fn label(&self) -> &str {
        &self.label
    }

    fn facts(&self) -> Facts {
        let durability = match self.spec.options.ordering {
            OrderingPolicy::Sync => "every operation, on return",
            OrderingPolicy::SoftUpdates => "in order, within 30 s",
            OrderingPolicy::Superblock => "as the superblock has it",
            OrderingPolicy::Async | OrderingPolicy::None => "nothing before sync",
        };
        Facts { fs: "ffs".to_owned(), durability: durability.to_owned() }
    }

    fn now(&self) -> Duration {
        self.context.timer.now()
    }

    fn cpu(&self) -> Duration {
        self.context.timer.cpu()
    }

    fn begin(&mut self, files: u64) -> Result<DirId> {
        self.end()?;
        let (device, image) = self.device(files)?;
        let made = self.mount(device, files).and_then(|fs| {
            let root = fs.root().map_err(|error| self.unusable(error))?;
            Ok(Volume { cred: Cred::root(), dirs: vec![root], fs, image: image.clone() })
        });
        self.volume = Some(made.inspect_err(|_| {
            // The error on its way matters more than a file left behind.
            let _ = image.map(std::fs::remove_file);
        })?);
        self.mkdir(DirId(0), b"lab")
    }

    fn end(&mut self) -> Result<()> {
        let Some(volume) = self.volume.take() else { return Ok(()) };
        drop(volume.dirs);
        let Some(image) = volume.image else { return Ok(()) };
        drop(volume.fs);
        std::fs::remove_file(&image)
            .map_err(|error| self.unusable(format!("{}: {error}", image.display())))
    }

    fn mkdir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
        let (volume, dir) = self.dir(at)?;
        let made = volume.fs.mkdir(&volume.cred, dir, name, 0o755);
        let made = made.map_err(|error| self.failed("mkdir", name, &error))?;
        let dirs = self.volume.as_mut().map(|volume| &mut volume.dirs);
        let dirs = dirs.ok_or_else(|| LabError::unusable("core", "has no volume yet"))?;
        dirs.push(made);
        Ok(DirId(dirs.len() - 1))
    }

    fn create(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        let (volume, dir) = self.dir(at)?;
        match volume.fs.create(&volume.cred, dir, name, NodeKind::Regular, 0o644) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed("create", name, &error)),
        }
    }

    fn stat(&mut self, at: DirId, name: &[u8]) -> Result<Option<Stat>> {
        let (volume, dir) = self.dir(at)?;
        match volume.fs.lookup(&volume.cred, dir, name) {
            Ok(file) => {
                let attr = volume.fs.getattr(&file);
                Ok(Some(Stat { ino: u64::from(attr.ino.0), size: attr.size }))
            }
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(self.failed("stat", name, &error)),
        }
    }

    fn rename(&mut self, at: DirId, from: &[u8], to: &[u8]) -> Result<()> {
        let (volume, dir) = self.dir(at)?;
        let renamed = volume.fs.rename(&volume.cred, (dir, from), (dir, to), RenameMode::Replace);
        renamed.map_err(|error| self.failed("rename", from, &error))
    }

    fn unlink(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        let (volume, dir) = self.dir(at)?;
        let removed = volume.fs.unlink(&volume.cred, dir, name);
        removed.map_err(|error| self.failed("unlink", name, &error))
    }

    fn list(&mut self, at: DirId, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let (volume, dir) = self.dir(at)?;
        let listed = volume.fs.readdir(dir, 0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                each(entry.name);
            }
            true
        });
        listed.map_err(|error| self.failed("list", b"", &error))
    }

    fn sync(&mut self) -> Result<()> {
        let volume = self.volume()?;
        volume.fs.sync().map_err(|error| self.failed("sync", b"", &error))
    }

    fn forget(&mut self) -> Result<Forgotten> {
        let fs = &self.volume()?.fs;
        fs.purge_names();
        // The kernel drops inodes with their names; so do we, for a moment without room for them.
        let set = |value: &str| fs.set_tunable(VNODES, value).map_err(|error| self.unusable(error));
        let before = set("1")?;
        set(&before.value)?;
        Ok(Forgotten::Done("names and unused inodes dropped; blocks stay"))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let values = self.volume.as_ref().map(|volume| volume.fs.counters());
        let list = values.map(|values| values.list()).unwrap_or_default();
        list.into_iter().map(|(name, value, _)| (name, value)).collect()
    }
}

impl Drop for CoreTarget {
    fn drop(&mut self) {
        // Whoever wanted to know has called end.
        let _ = self.end();
    }
}
