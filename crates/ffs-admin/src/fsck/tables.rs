//! What the phases know about inodes, directories and groups.
//!
//! **Invariants.**
//! 1. Eight bytes an inode, up to the last one in use of each group; 32 bytes a directory; one bit a fragment.
//! 2. `remaining` is the stored link count less the names found so far (plus what repairs have changed).
//!
//! References: spec/fsck-and-crash.md §2.

use ffs_ondisk::{CgNo, Geometry, Ino};

/// Stored link counts above this are negative numbers of older systems.
pub(super) const NLINK_MAX: u16 = 65500;

/// What is known of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// Unallocated.
    #[default]
    Free,
    /// Allocated; a directory has not been reached from the root yet.
    Used,
    /// A directory reached from the root.
    Found,
    /// To be cleared: bad or contested blocks.
    Candidate,
    /// A directory without content.
    ZeroDir,
    /// An unreferenced directory whose clearing has been decided.
    Doomed,
}

/// One inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Rec {
    /// What is known.
    pub(super) state: State,
    /// `mode >> 12`.
    pub(super) dtype: u8,
    /// Link count on disk.
    pub(super) nlink: u16,
    /// Link count less the names found.
    pub(super) remaining: i32,
}

impl Rec {
    pub(super) fn is_dir(&self) -> bool {
        self.dtype == 4
    }

    /// Whether the stored count says that nothing names it.
    pub(super) fn unlinked(&self) -> bool {
        self.nlink == 0 || self.nlink > NLINK_MAX
    }

    /// The stored count is `nlink` now, which may be no higher than before if that was its limit; the names
    /// found so far are as many as they were.
    pub(super) fn restate_links(&mut self, nlink: u16) {
        let risen = i32::from(nlink) - i32::from(self.nlink);
        self.remaining = self.remaining.saturating_add(risen);
        self.nlink = nlink;
    }

    /// Whether it stays, with exactly as many names as its link count says.
    pub(super) fn is_settled(&self) -> bool {
        let kept = match self.state {
            State::Found => true,
            State::Used => !self.is_dir(),
            _ => false,
        };
        kept && self.remaining == 0 && (1..=NLINK_MAX).contains(&self.nlink)
    }

    /// Whether any name was found.
    pub(super) fn named(&self) -> bool {
        self.remaining < i32::from(self.nlink)
    }
}

/// All inodes.
#[derive(Debug, Default)]
pub(super) struct Inodes {
    ipg: u32,
    groups: Vec<Vec<Rec>>,
}

impl Inodes {
    pub(super) fn new(g: &Geometry) -> Inodes {
        Inodes { ipg: g.ipg, groups: vec![Vec::new(); g.ncg as usize] }
    }

    fn split(&self, ino: Ino) -> (usize, usize) {
        ((ino.0 / self.ipg) as usize, (ino.0 % self.ipg) as usize)
    }

    pub(super) fn get(&self, ino: Ino) -> Rec {
        let (cg, index) = self.split(ino);
        self.groups.get(cg).and_then(|g| g.get(index)).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, ino: Ino, rec: Rec) {
        let (cg, index) = self.split(ino);
        let Some(group) = self.groups.get_mut(cg) else { return };
        if group.len() <= index {
            group.resize(index + 1, Rec::default());
        }
        group[index] = rec;
    }

    /// Group `c` will have records of its first `inodes` inodes; [`Inodes::trim`] takes back what it has not.
    pub(super) fn expect(&mut self, c: CgNo, inodes: u32) {
        if let Some(group) = self.groups.get_mut(c.0 as usize) {
            group.resize(inodes as usize, Rec::default());
        }
    }

    /// The record of `ino`, if there is one.
    pub(super) fn get_mut(&mut self, ino: Ino) -> Option<&mut Rec> {
        let (cg, index) = self.split(ino);
        self.groups.get_mut(cg)?.get_mut(index)
    }

    /// Changes the record of `ino` in place.
    pub(super) fn update(&mut self, ino: Ino, change: impl FnOnce(&mut Rec)) {
        let mut rec = self.get(ino);
        change(&mut rec);
        self.set(ino, rec);
    }

    /// One name more (`-1`) or less (`+1`) of `ino` is on disk.
    pub(super) fn count(&mut self, ino: Ino, delta: i32) {
        if let Some(rec) = self.get_mut(ino).filter(|r| r.state != State::Free) {
            rec.remaining = rec.remaining.saturating_add(delta);
        }
    }

    /// Inodes of group `c` that have a record.
    pub(super) fn in_group(&self, c: CgNo) -> &[Rec] {
        self.groups.get(c.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// Gives back memory that group `c` does not need.
    pub(super) fn trim(&mut self, c: CgNo) {
        if let Some(group) = self.groups.get_mut(c.0 as usize) {
            while group.last().is_some_and(|r| r.state == State::Free) {
                group.pop();
            }
            group.shrink_to_fit();
        }
    }
}

/// One directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dir {
    /// Its inode.
    pub(super) ino: Ino,
    /// Address of its first block: the order of reading.
    pub(super) first: u64,
    /// Bytes.
    pub(super) size: u32,
    /// The directory where its name was found; 0 = none yet.
    pub(super) parent: Ino,
    /// What `..` says; 0 = missing or nonsense.
    pub(super) dotdot: Ino,
    /// It has a `..` at all.
    pub(super) has_dotdot: bool,
    /// Its `..` is in the counts. What it names may have become a directory since then.
    pub(super) counted: bool,
}

impl Dir {
    /// A directory nothing is known of but where it begins, and its size in bytes.
    pub(super) fn new(ino: Ino, first: u64, size: u64) -> Dir {
        let (parent, dotdot) = (Ino(0), Ino(0));
        let mut dir =
            Dir { ino, first, size: 0, parent, dotdot, has_dotdot: false, counted: false };
        dir.place(first, size);
        dir
    }

    /// It begins there and has that size now.
    pub(super) fn place(&mut self, first: u64, size: u64) {
        self.first = first;
        self.size = u32::try_from(size).unwrap_or(u32::MAX);
    }
}

/// Inodes with a common entry in the index of directories.
const STRIDE: u32 = 256;

/// All directories with content, by inode number.
#[derive(Debug, Default)]
pub(super) struct Dirs {
    list: Vec<Dir>,
    /// How many directories have inodes below each multiple of [`STRIDE`], up to the last directory's.
    below: Vec<u32>,
}

impl Dirs {
    pub(super) fn get(&self, ino: Ino) -> Option<Dir> {
        self.find(ino).ok().map(|i| self.list[i])
    }

    /// Where `ino` is in the list, or belongs.
    fn find(&self, ino: Ino) -> Result<usize, usize> {
        let stride = (ino.0 / STRIDE) as usize;
        let end = self.list.len();
        let from = self.below.get(stride).map_or(end, |&n| n as usize);
        let to = self.below.get(stride + 1).map_or(end, |&n| n as usize);
        let within = &self.list[from..to];
        let place = within.binary_search_by_key(&ino, |d| d.ino);
        place.map(|i| from + i).map_err(|i| from + i)
    }

    /// The index of `ino` in [`Dirs::all`].
    pub(super) fn position(&self, ino: Ino) -> Option<usize> {
        self.find(ino).ok()
    }

    pub(super) fn insert(&mut self, dir: Dir) {
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

    pub(super) fn update(&mut self, ino: Ino, change: impl FnOnce(&mut Dir)) {
        if let Ok(i) = self.find(ino) {
            change(&mut self.list[i]);
        }
    }

    /// Notes that the name of directory `child` is in `here`; `false` if a name was found before, or it is the root,
    /// which needs none.
    pub(super) fn find_parent(&mut self, child: Ino, here: Ino) -> bool {
        let Ok(i) = self.find(child) else { return false };
        let dir = &mut self.list[i];
        let first = child != Ino::ROOT && dir.parent.0 == 0;
        if first {
            dir.parent = here;
        }
        first
    }

    /// In the order of their inode numbers.
    pub(super) fn all(&self) -> &[Dir] {
        &self.list
    }

    /// Indexes of [`Dirs::all`] in the order of the first blocks, so that the disk is read in one direction.
    pub(super) fn reading_order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.list.len() as u32).collect();
        order.sort_unstable_by_key(|&i| (self.list[i as usize].first, i));
        order
    }
}

/// What is known of a cylinder group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Group {
    /// The header is right: its maps can be read.
    pub(super) sound: bool,
    /// The check hash is right too: its inode map can be trusted.
    pub(super) trusted: bool,
    /// Once it could not be trusted.
    pub(super) doubted: bool,
    /// Inodes to look at.
    pub(super) scan: u32,
}
