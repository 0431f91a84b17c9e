//! Tables of inodes, directories and groups.
//!
//! [`InoStat`] and [`InoInfo`] correspond to `struct inostat` and `struct inoinfo` of FreeBSD's
//! fsck_ffs.
//!
//! **Invariants.**
//! 1. An inode takes 8 bytes, up to the last one in use of each group; a directory takes 32 bytes.
//! 2. `unaccounted` is the stored link count less the names found so far, adjusted by repairs.
//!
//! References: spec/fsck-and-crash.md §2.

use ffs_ondisk::{CgNo, Geometry, Ino};

/// Limit on link counts; a higher value is a negative number of an older system.
pub(super) const NLINK_MAX: u16 = 65500;

/// State of an inode (FreeBSD's `USTATE`, `FSTATE`, `DFOUND`, `FCLEAR`, `DZLINK`, `DCLEAR`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// Unallocated.
    #[default]
    Unallocated,
    /// Allocated; if a directory, not yet reached from the root.
    Used,
    /// A directory reached from the root.
    Found,
    /// Bad or duplicate blocks; a candidate for clearing.
    DupBad,
    /// A directory of size 0.
    ZeroDir,
    /// An unreferenced directory that will be cleared.
    Clear,
}

/// State of one inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct InoStat {
    /// Its state.
    pub(super) state: State,
    /// `mode >> 12`.
    pub(super) dtype: u8,
    /// Link count on disk.
    pub(super) nlink: u16,
    /// Link count less the names found.
    pub(super) unaccounted: i32,
}

impl InoStat {
    pub(super) fn is_dir(&self) -> bool {
        self.dtype == 4
    }

    /// Whether the stored link count is 0.
    pub(super) fn has_no_links(&self) -> bool {
        self.nlink == 0 || self.nlink > NLINK_MAX
    }

    /// Sets the stored link count; the number of names found stays the same.
    pub(super) fn set_nlink(&mut self, nlink: u16) {
        let risen = i32::from(nlink) - i32::from(self.nlink);
        self.unaccounted = self.unaccounted.saturating_add(risen);
        self.nlink = nlink;
    }

    /// Whether the inode remains and has exactly as many names as its link count.
    pub(super) fn is_consistent(&self) -> bool {
        let kept = match self.state {
            State::Found => true,
            State::Used => !self.is_dir(),
            _ => false,
        };
        kept && self.unaccounted == 0 && (1..=NLINK_MAX).contains(&self.nlink)
    }

    /// Whether any name was found.
    pub(super) fn has_name(&self) -> bool {
        self.unaccounted < i32::from(self.nlink)
    }
}

/// States of all inodes.
#[derive(Debug, Default)]
pub(super) struct InoStats {
    ipg: u32,
    groups: Vec<Vec<InoStat>>,
}

impl InoStats {
    pub(super) fn new(g: &Geometry) -> InoStats {
        InoStats { ipg: g.ipg, groups: vec![Vec::new(); g.ncg as usize] }
    }

    fn split(&self, ino: Ino) -> (usize, usize) {
        ((ino.0 / self.ipg) as usize, (ino.0 % self.ipg) as usize)
    }

    pub(super) fn get(&self, ino: Ino) -> InoStat {
        let (cg, index) = self.split(ino);
        self.groups.get(cg).and_then(|g| g.get(index)).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, ino: Ino, rec: InoStat) {
        let (cg, index) = self.split(ino);
        let Some(group) = self.groups.get_mut(cg) else { return };
        if group.len() <= index {
            group.resize(index + 1, InoStat::default());
        }
        group[index] = rec;
    }

    /// Makes entries for the first `inodes` inodes of group `c`; [`InoStats::trim`] drops unused
    /// ones.
    pub(super) fn reserve_group(&mut self, c: CgNo, inodes: u32) {
        if let Some(group) = self.groups.get_mut(c.0 as usize) {
            group.resize(inodes as usize, InoStat::default());
        }
    }

    /// The entry of `ino`, if there is one.
    pub(super) fn get_mut(&mut self, ino: Ino) -> Option<&mut InoStat> {
        let (cg, index) = self.split(ino);
        self.groups.get_mut(cg)?.get_mut(index)
    }

    /// Changes the entry of `ino` in place.
    pub(super) fn update(&mut self, ino: Ino, change: impl FnOnce(&mut InoStat)) {
        let mut rec = self.get(ino);
        change(&mut rec);
        self.set(ino, rec);
    }

    /// Counts one more name (`-1`) or one less (`+1`) of `ino`.
    pub(super) fn count(&mut self, ino: Ino, delta: i32) {
        if let Some(rec) = self.get_mut(ino).filter(|r| r.state != State::Unallocated) {
            rec.unaccounted = rec.unaccounted.saturating_add(delta);
        }
    }

    /// Entries of group `c`.
    pub(super) fn in_group(&self, c: CgNo) -> &[InoStat] {
        self.groups.get(c.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// Drops the unused entries at the end of group `c`.
    pub(super) fn trim(&mut self, c: CgNo) {
        if let Some(group) = self.groups.get_mut(c.0 as usize) {
            while group.last().is_some_and(|r| r.state == State::Unallocated) {
                group.pop();
            }
            group.shrink_to_fit();
        }
    }
}

/// A directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InoInfo {
    /// Its inode.
    pub(super) ino: Ino,
    /// Address of its first block, by which phase 2 orders the reads.
    pub(super) first: u64,
    /// Size, bytes.
    pub(super) size: u32,
    /// The directory that contains its name; 0 = not found yet.
    pub(super) parent: Ino,
    /// Inode number in `..`; 0 = missing or invalid.
    pub(super) dotdot: Ino,
    /// It has a `..`.
    pub(super) has_dotdot: bool,
    /// Its `..` is counted as a link. The inode that `..` names may have become a directory later.
    pub(super) dotdot_counted: bool,
}

impl InoInfo {
    /// A directory of `size` bytes whose first block is at `first`.
    pub(super) fn new(ino: Ino, first: u64, size: u64) -> InoInfo {
        let (parent, dotdot) = (Ino(0), Ino(0));
        let mut dir = InoInfo {
            ino,
            first,
            size: 0,
            parent,
            dotdot,
            has_dotdot: false,
            dotdot_counted: false,
        };
        dir.place(first, size);
        dir
    }

    /// Sets the address of the first block and the size.
    pub(super) fn place(&mut self, first: u64, size: u64) {
        self.first = first;
        self.size = u32::try_from(size).unwrap_or(u32::MAX);
    }
}

/// Inodes that share an entry of the index of directories.
const STRIDE: u32 = 256;

/// All directories with content, sorted by inode number.
#[derive(Debug, Default)]
pub(super) struct InoInfos {
    list: Vec<InoInfo>,
    /// Number of directories with inodes below each multiple of [`STRIDE`], up to the last
    /// directory.
    below: Vec<u32>,
}

impl InoInfos {
    pub(super) fn get(&self, ino: Ino) -> Option<InoInfo> {
        self.find(ino).ok().map(|i| self.list[i])
    }

    /// Index of `ino` in the list, or the index at which it would be inserted.
    fn find(&self, ino: Ino) -> Result<usize, usize> {
        let stride = (ino.0 / STRIDE) as usize;
        let end = self.list.len();
        let from = self.below.get(stride).map_or(end, |&n| n as usize);
        let to = self.below.get(stride + 1).map_or(end, |&n| n as usize);
        let within = &self.list[from..to];
        let place = within.binary_search_by_key(&ino, |d| d.ino);
        place.map(|i| from + i).map_err(|i| from + i)
    }

    /// The index of `ino` in [`InoInfos::all`].
    pub(super) fn position(&self, ino: Ino) -> Option<usize> {
        self.find(ino).ok()
    }

    pub(super) fn insert(&mut self, dir: InoInfo) {
        match self.find(dir.ino) {
            Ok(i) => self.list[i] = dir,
            Err(i) => {
                self.list.insert(i, dir);
                let stride = (dir.ino.0 / STRIDE) as usize;
                if self.below.len() <= stride {
                    self.below.resize(stride + 1, i as u32);
                }
                self.below[stride + 1..].iter_mut().for_each(|n| *n += 1);
            }
        }
    }

    pub(super) fn remove(&mut self, ino: Ino) {
        if let Ok(i) = self.find(ino) {
            self.list.remove(i);
            let stride = (ino.0 / STRIDE) as usize;
            self.below[stride + 1..].iter_mut().for_each(|n| *n -= 1);
        }
    }

    pub(super) fn update(&mut self, ino: Ino, change: impl FnOnce(&mut InoInfo)) {
        if let Ok(i) = self.find(ino) {
            change(&mut self.list[i]);
        }
    }

    /// Records that directory `here` contains the name of directory `child`; `false` if a name was
    /// found before, or if `child` is the root.
    pub(super) fn find_parent(&mut self, child: Ino, here: Ino) -> bool {
        let Ok(i) = self.find(child) else { return false };
        let dir = &mut self.list[i];
        let first = child != Ino::ROOT && dir.parent.0 == 0;
        if first {
            dir.parent = here;
        }
        first
    }

    /// All directories, sorted by inode number.
    pub(super) fn all(&self) -> &[InoInfo] {
        &self.list
    }

    /// Indexes of [`InoInfos::all`] sorted by first block, so that phase 2 reads the disk in one
    /// direction.
    pub(super) fn reading_order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.list.len() as u32).collect();
        order.sort_unstable_by_key(|&i| (self.list[i as usize].first, i));
        order
    }
}

/// State of a cylinder group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CgState {
    /// The header is valid, so the maps can be read.
    pub(super) header_ok: bool,
    /// The check hash is right, so the inode map can be trusted.
    pub(super) map_trusted: bool,
    /// In an earlier round the map could not be trusted.
    pub(super) map_doubted: bool,
    /// Inodes to scan.
    pub(super) scan: u32,
}
