//! How a volume is mounted: every switch has its BSD name, a type, bounds and one place here.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Which tenant orders metadata writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OrderingPolicy {
    /// Ordered synchronous writes.
    #[default]
    Sync,
    /// None: fast, and only a full fsck helps after a crash.
    None,
}

/// Where new directories go (`spec/allocation.md` §3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DirPref {
    /// Spread over the groups, as 4.2BSD did.
    Old,
    /// Near the parent, as FreeBSD 4.4 and 4.5 did (what the paper measured).
    New,
    /// Near the parent, as FreeBSD 10 does.
    #[default]
    New10,
    /// By depth, as FreeBSD does today.
    Depth,
}

/// Which generation of block preferences is used (`spec/allocation.md` §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AllocPolicy {
    /// FreeBSD of 2001, the paper's.
    Y2001,
    /// FreeBSD since 2013.
    #[default]
    Y2013,
}

/// What to do with access times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Atime {
    /// Never.
    Never,
    /// When older than the modification time, or than a day.
    #[default]
    Relative,
    /// Always.
    Always,
}

/// Options of [`crate::Ffs::mount`].
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Never write.
    pub read_only: bool,
    /// Mount read-write although the volume is dirty or needs a check.
    pub force: bool,
    /// Ordering tenant.
    pub ordering: OrderingPolicy,
    /// Directory placement.
    pub dirpref: DirPref,
    /// Block placement.
    pub alloc: AllocPolicy,
    /// Move blocks of sequentially written files together (`vfs.ffs.doreallocblks`).
    pub doreallocblks: bool,
    /// Access times.
    pub atime: Atime,
    /// Bytes of buffers.
    pub cache_bytes: usize,
    /// Most inodes kept in memory that nobody uses (`kern.maxvnodes`).
    pub maxvnodes: usize,
    /// New files get their directory's group, as on BSD, instead of their maker's.
    pub bsdgroups: bool,
    /// Access lists are in force even if the volume does not say so.
    pub acls: bool,
    /// Recorded in the superblock as the last mount point.
    pub mounted_on: String,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            read_only: false,
            force: false,
            ordering: OrderingPolicy::default(),
            dirpref: DirPref::default(),
            alloc: AllocPolicy::default(),
            doreallocblks: true,
            atime: Atime::default(),
            cache_bytes: 64 << 20,
            maxvnodes: 65536,
            bsdgroups: false,
            acls: false,
            mounted_on: String::new(),
        }
    }
}

/// The switches that may change while mounted.
#[derive(Debug)]
pub(crate) struct Switches {
    dirpref: AtomicU8,
    alloc: AtomicU8,
    doreallocblks: AtomicBool,
}

impl Switches {
    pub(crate) fn new(o: &MountOptions) -> Switches {
        let s = Switches {
            dirpref: AtomicU8::new(0),
            alloc: AtomicU8::new(0),
            doreallocblks: AtomicBool::new(o.doreallocblks),
        };
        s.set_dirpref(o.dirpref);
        s.alloc.store(u8::from(o.alloc == AllocPolicy::Y2013), Ordering::Relaxed);
        s
    }

    pub(crate) fn dirpref(&self) -> DirPref {
        match self.dirpref.load(Ordering::Relaxed) {
            0 => DirPref::Old,
            1 => DirPref::New,
            2 => DirPref::New10,
            _ => DirPref::Depth,
        }
    }

    pub(crate) fn set_dirpref(&self, p: DirPref) {
        let v = match p {
            DirPref::Old => 0,
            DirPref::New => 1,
            DirPref::New10 => 2,
            DirPref::Depth => 3,
        };
        self.dirpref.store(v, Ordering::Relaxed);
    }

    pub(crate) fn alloc(&self) -> AllocPolicy {
        if self.alloc.load(Ordering::Relaxed) == 0 {
            AllocPolicy::Y2001
        } else {
            AllocPolicy::Y2013
        }
    }

    pub(crate) fn doreallocblks(&self) -> bool {
        self.doreallocblks.load(Ordering::Relaxed)
    }
}
