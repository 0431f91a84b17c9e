//! The library in process: a new volume in memory, or in an image file made for the run.
//!
//! **Invariants.**
//! 1. Each [`Target::begin`] makes a new volume. Nothing of an earlier round remains.
//! 2. Options that the user did not set follow the number of files: the size of the volume, and the
//!    memory for inodes and names, as in the kernel's caches.
//! 3. An image file must not exist before. [`Target::end`] removes it.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::{Env, Ffs, OrderingPolicy};
use ffs_device::{BlockDevice, FileDevice, MemDevice, SplitMix64, SystemClock};

use super::volume::{Volume, on_volume};
use super::{
    Context, CoreSpec, Demand, DirId, Facts, FileId, Forgotten, Kind, Open, Stat, Target, Usage,
    nanos,
};
use crate::error::{LabError, Result};

/// The smallest volume, bytes.
const LEAST_BYTES: u64 = 64 << 20;
/// Data bytes per inode for newfs; few, so that the volume stays small.
const DENSITY: u32 = 8192;
/// Memory for blocks per file, bytes: its inode, its entries under two names, its share of the
/// maps, and the same again, so that lack of memory causes no write.
const CACHE_PER_FILE: u64 = 1024;

/// The library as a target.
pub(crate) struct CoreTarget {
    label: String,
    spec: CoreSpec,
    context: Context,
    volume: Option<Made>,
}

struct Made {
    volume: Volume,
    /// The image file to remove at the end.
    image: Option<PathBuf>,
}

impl CoreTarget {
    /// A target whose volumes follow `spec`.
    #[must_use]
    pub(crate) fn new(label: &str, spec: CoreSpec, context: Context) -> CoreTarget {
        CoreTarget { label: label.to_owned(), spec, context, volume: None }
    }

    /// The file system between [`Target::begin`] and [`Target::end`].
    #[must_use]
    pub(crate) fn fs(&self) -> Option<&Ffs> {
        self.volume.as_ref().map(|made| made.volume.fs())
    }

    fn unusable(&self, why: impl std::fmt::Display) -> LabError {
        LabError::unusable(&self.label, why)
    }

    fn volume(&mut self) -> Result<&mut Volume> {
        let label = &self.label;
        let made = self.volume.as_mut().map(|made| &mut made.volume);
        made.ok_or_else(|| LabError::unusable(label, "has no volume yet"))
    }

    /// A device with a new file system.
    fn device(&self, demand: Demand) -> Result<(Arc<dyn BlockDevice>, Option<PathBuf>)> {
        // Up to one fragment more per file, and the reserve; inodes and maps come on top.
        let content = demand.bytes.saturating_add(demand.files.saturating_mul(4096));
        let content = content.saturating_add(content / 4);
        // A tenth more for the inodes of directories and of partly used groups.
        let inodes = demand.files.saturating_mul(u64::from(DENSITY)).saturating_mul(11) / 10;
        let wanted = if demand.bytes == 0 { inodes } else { inodes.max(content) };
        let bytes = self.spec.size.unwrap_or(LEAST_BYTES.saturating_add(wanted));
        let Some(path) = self.spec.image.clone() else {
            let device = MemDevice::new(bytes);
            self.newfs(&device)?;
            return Ok((Arc::new(device), None));
        };
        let refuse =
            |why: &dyn std::fmt::Display| self.unusable(format!("{}: {why}", path.display()));
        // Only a new file is ever written or removed.
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
        if self.spec.options.ordering == OrderingPolicy::Journaled {
            let journal = TunefsOptions { journal: Some(true), ..TunefsOptions::default() };
            tunefs(device, &journal).map_err(|error| self.unusable(error))?;
        }
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
            _ if self.spec.options.stable => "names and attributes, on return",
            OrderingPolicy::Sync => "every operation, on return",
            OrderingPolicy::SoftUpdates | OrderingPolicy::Journaled => "in order, within 30 s",
            OrderingPolicy::Superblock => "as the superblock has it",
            OrderingPolicy::Async | OrderingPolicy::None => "nothing before sync",
        };
        Facts { fs: "ffs".to_owned(), durability: durability.to_owned(), computes: false }
    }

    fn now(&self) -> Duration {
        self.context.timer.now()
    }

    fn cpu(&self) -> Duration {
        self.context.timer.cpu()
    }

    fn begin(&mut self, demand: Demand) -> Result<DirId> {
        self.end()?;
        let (device, image) = self.device(demand)?;
        let made = self.mount(device, demand.files).and_then(|fs| Volume::new(&self.label, fs));
        let (volume, root) = made.inspect_err(|_| {
            // The first error matters more than a remaining file.
            let _ = image.as_ref().map(std::fs::remove_file);
        })?;
        self.volume = Some(Made { volume, image });
        self.mkdir(root, b"lab")
    }

    fn end(&mut self) -> Result<()> {
        let Some(Made { volume, image }) = self.volume.take() else { return Ok(()) };
        drop(volume);
        let Some(image) = image else { return Ok(()) };
        std::fs::remove_file(&image)
            .map_err(|error| self.unusable(format!("{}: {error}", image.display())))
    }

    fn usage(&self) -> Usage {
        let usage = self.volume.as_ref().map(|made| made.volume.usage()).unwrap_or_default();
        Usage { cpu_ns: nanos(self.cpu()), ..usage }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.volume.as_ref().map(|made| made.volume.counters()).unwrap_or_default()
    }

    on_volume!();
}

impl Drop for CoreTarget {
    fn drop(&mut self) {
        // `end` reports errors; a drop cannot.
        let _ = self.end();
    }
}
