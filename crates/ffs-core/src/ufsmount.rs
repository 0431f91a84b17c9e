//! The parts of a mounted volume that all operations share: cache, allocator, ordering mode and
//! switches (FreeBSD's `struct ufsmount`).
//!
//! The parts do not refer to each other. Code that needs a part takes it from [`UfsMount`].

mod ready;

use crate::alloc::Alloc;
use crate::buf::{BufCache, BufKey, BufKind, BufRef, DiskBlock};
use crate::counters::{Counters, add};
use crate::dirhash::Pool;
use crate::error::{Error, Result};
use crate::options::Atime;
use crate::ordering::{Event, FragRun, FreeWhen, Ordering};
use crate::quota::Quotas;
use crate::snapshot::{CopyOrder, Snapshots};
use crate::tunables::Tunables;
use ffs_ondisk::{Geometry, Ino, Timespec};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// A mounted volume, as inodes and directories see it.
pub(crate) struct UfsMount {
    /// Blocks in memory, and access to the device.
    pub(crate) cache: Arc<BufCache>,
    /// The allocator of inodes and blocks.
    pub(crate) alloc: Arc<Alloc>,
    /// The active snapshots.
    pub(crate) snapshots: Arc<Snapshots>,
    /// The ordering mode, which decides when metadata is written.
    pub(crate) ordering: Arc<dyn Ordering>,
    /// The switches.
    pub(crate) tunables: Arc<Tunables>,
    /// Indexes of large directories.
    pub(crate) dirhash: Arc<Pool>,
    /// When reading a file sets its access time.
    pub(crate) atime: Atime,
    /// Usage and limits of users and groups.
    pub(crate) quotas: Quotas,
    read_only: AtomicBool,
}

impl UfsMount {
    /// The volume of `alloc`, read-only at first. `secret` keys the hashes of names.
    pub(crate) fn new(alloc: Alloc, atime: Atime, order: CopyOrder, secret: u64) -> UfsMount {
        let (cache, tunables) = (Arc::clone(&alloc.cache), Arc::clone(&alloc.tunables));
        let alloc = Arc::new(alloc);
        let snapshots = Snapshots::new(Arc::clone(&cache), Arc::clone(&alloc), order);
        let snapshots = Arc::new(snapshots);
        let hook: Weak<Snapshots> = Arc::downgrade(&snapshots);
        cache.set_copy_on_write(hook);
        UfsMount {
            dirhash: Pool::new(Arc::clone(&tunables), Arc::clone(&cache.counters), secret),
            cache,
            ordering: Arc::clone(&alloc.ordering),
            tunables,
            alloc,
            snapshots,
            atime,
            quotas: Quotas::default(),
            read_only: AtomicBool::new(true),
        }
    }

    /// The constants of the volume.
    pub(crate) fn g(&self) -> &Geometry {
        &self.cache.g
    }

    /// The counters of the mount.
    pub(crate) fn counters(&self) -> &Counters {
        &self.cache.counters
    }

    /// Whether the volume must not be changed.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only.load(Relaxed)
    }

    /// Sets whether the volume must not be changed.
    pub(crate) fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Relaxed);
    }

    /// The present time.
    pub(crate) fn now(&self) -> Timespec {
        let t = self.cache.clock.now();
        Timespec { secs: t.secs, nsec: i32::try_from(t.nanos).unwrap_or(0) }
    }

    /// The buffer of the block that holds inode `ino`.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn inode_block(&self, ino: Ino) -> Result<BufRef> {
        let (at, len) = (self.g().ino_to_fsba(ino), self.g().bsize as usize);
        self.cache.bread(DiskBlock { key: BufKey::Meta(at), kind: BufKind::Inodes, addr: at, len })
    }

    /// Frees a run within one block, unless a snapshot takes it over.
    ///
    /// # Errors
    /// As [`Alloc::free_frags`]; that of a copy for a snapshot. The run stays allocated.
    pub(crate) fn free_frags(&self, run: FragRun) -> Result<()> {
        self.snapshots.free_frags(run)
    }

    /// Frees a run that no pointer on the device refers to. If that fails, the run stays allocated
    /// until fsck.
    pub(crate) fn free_quietly(&self, run: FragRun) {
        if self.free_frags(run).is_err() {
            add(&self.cache.counters.frees_failed, run.frags.into());
            self.cache.set_needs_check();
        }
    }

    /// Frees the old place of a block that moved, when the ordering mode allows it.
    pub(crate) fn free_replaced(&self, old: FragRun) {
        match self.ordering.notify(Event::BlockReplaced).free {
            FreeWhen::Now => self.free_quietly(old),
            FreeWhen::Later => {}
        }
    }

    /// Records that the volume is damaged, and returns the error `e`, which describes the damage.
    pub(crate) fn damaged(&self, e: impl Into<Error>) -> Error {
        self.cache.record_damage(e)
    }
}
