//! The counts, totals and search hints of all groups, available without reading the groups.
//!
//! # Invariants
//! 1. `totals` is the sum of `cs`.
//! 2. `cs[c]` equals the counts in the block of group `c` whenever that block is unlocked and was
//!    checked ([`super::group`]). Before the check it is the record in the summary area.
//! 3. `maxcluster` is never below the group's largest free cluster (capped at `contigsumsize`).
//!
//! # Locking
//! One mutex, held briefly: never during I/O, never while waiting for the lock of a buffer. It may
//! be taken while the buffer of a group is locked.

use super::params::Optim;
use crate::buf::{Buf, BufRef};
use ffs_ondisk::{CgNo, Csum, Geometry};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Counts and hints of all groups.
#[derive(Debug)]
pub(super) struct Summary {
    /// Counts, one per group.
    pub(super) cs: Vec<Csum>,
    /// Their sum.
    pub(super) totals: Csum,
    /// Per group, the number of directories created in a row without files between them; at most
    /// 255.
    pub(super) contigdirs: Vec<u8>,
    /// The optimisation in force.
    pub(super) optim: Optim,
    groups: Vec<GroupState>,
    /// The damaged groups and their errors.
    bad: BTreeMap<CgNo, ffs_ondisk::Error>,
}

/// The state of one group.
#[derive(Debug)]
struct GroupState {
    /// Upper bound of the largest free cluster, blocks.
    maxcluster: u32,
    /// The buffer that was checked. A different buffer has bytes that were read from disk since.
    checked: Weak<Buf>,
    /// The number of initialised inodes, if the group was checked.
    initediblk: Option<u32>,
    /// The number of changes since the mount.
    changes: u64,
}

impl Summary {
    /// A summary with the records of the summary area. Missing records and impossible counts become
    /// 0.
    pub(super) fn new(g: &Geometry, mut cs: Vec<Csum>, optim: Optim) -> Summary {
        let ncg = g.ncg as usize;
        cs.resize(ncg, Csum::default());
        let mut totals = Csum::default();
        for one in &mut cs {
            *one = possible(g, one);
            totals.add(one);
        }
        let fresh = || GroupState {
            maxcluster: g.contigsumsize,
            checked: Weak::new(),
            initediblk: None,
            changes: 0,
        };
        Summary {
            cs,
            totals,
            contigdirs: vec![0; ncg],
            optim,
            groups: std::iter::repeat_with(fresh).take(ncg).collect(),
            bad: BTreeMap::new(),
        }
    }

    /// The counts of group `c`; zeros if there is no such group.
    pub(super) fn group(&self, c: CgNo) -> Csum {
        self.cs.get(c.0 as usize).copied().unwrap_or_default()
    }

    /// Adds `delta` to group `c` and the totals.
    pub(super) fn change(&mut self, c: CgNo, delta: &Csum) {
        if let Some(cs) = self.cs.get_mut(c.0 as usize) {
            cs.add(delta);
            self.totals.add(delta);
        }
        self.note_change(c);
    }

    fn note_change(&mut self, c: CgNo) {
        if let Some(s) = self.groups.get_mut(c.0 as usize) {
            s.changes += 1;
        }
    }

    /// The number of changes of group `c` since the mount.
    pub(super) fn changes(&self, c: CgNo) -> u64 {
        self.groups.get(c.0 as usize).map_or(0, |s| s.changes)
    }

    /// Stores the counts of a group whose block was just checked.
    pub(super) fn adopt(&mut self, c: CgNo, buf: &BufRef, found: &Csum, initediblk: u32) {
        let old = self.group(c);
        let delta = Csum {
            ndir: found.ndir - old.ndir,
            nbfree: found.nbfree - old.nbfree,
            nifree: found.nifree - old.nifree,
            nffree: found.nffree - old.nffree,
        };
        self.change(c, &delta);
        if let Some(s) = self.groups.get_mut(c.0 as usize) {
            s.checked = Arc::downgrade(buf);
            s.initediblk = Some(initediblk);
        }
    }

    /// Whether the content of `buf`, the block of group `c`, was checked.
    pub(super) fn is_checked(&self, c: CgNo, buf: &BufRef) -> bool {
        // While a weak reference exists no other buffer has its address.
        self.groups
            .get(c.0 as usize)
            .is_some_and(|s| std::ptr::eq(s.checked.as_ptr(), Arc::as_ptr(buf)))
    }

    /// Records that group `c` is damaged and must not be used.
    pub(super) fn condemn(&mut self, c: CgNo, why: ffs_ondisk::Error) {
        self.bad.insert(c, why);
    }

    /// Why group `c` must not be used, if so.
    pub(super) fn damage(&self, c: CgNo) -> Option<&ffs_ondisk::Error> {
        self.bad.get(&c)
    }

    /// Initialised inodes of group `c`, once it was checked in.
    pub(super) fn initediblk(&self, c: CgNo) -> Option<u32> {
        self.groups.get(c.0 as usize)?.initediblk
    }

    /// Notes that group `c` now has `n` initialised inodes.
    pub(super) fn set_initediblk(&mut self, c: CgNo, n: u32) {
        if let Some(s) = self.groups.get_mut(c.0 as usize) {
            s.initediblk = Some(n);
        }
        self.note_change(c);
    }

    /// Upper bound of the largest free cluster of group `c`, blocks.
    pub(super) fn maxcluster(&self, c: CgNo) -> u32 {
        self.groups.get(c.0 as usize).map_or(0, |s| s.maxcluster)
    }

    /// Records the largest free cluster of group `c`.
    pub(super) fn set_maxcluster(&mut self, c: CgNo, blocks: u32) {
        if let Some(s) = self.groups.get_mut(c.0 as usize) {
            s.maxcluster = blocks;
        }
    }

    /// Counts a new inode in group `c`: a directory increments the directories in a row, a file
    /// decrements them.
    pub(super) fn count_contigdirs(&mut self, c: CgNo, is_dir: bool) {
        if let Some(n) = self.contigdirs.get_mut(c.0 as usize) {
            *n = if is_dir { n.saturating_add(1) } else { n.saturating_sub(1) };
        }
    }

    /// Free fragments beyond a reserve of `percent` of the data area; negative inside it.
    pub(super) fn freespace(&self, g: &Geometry, percent: u32) -> i64 {
        let reserve = u128::from(g.dsize) * u128::from(percent) / 100;
        let reserve = i64::try_from(reserve).unwrap_or(i64::MAX);
        self.totals.nbfree * i64::from(g.frag) + self.totals.nffree - reserve
    }
}

/// The counts `cs`, limited to the values that are possible for a group.
fn possible(g: &Geometry, cs: &Csum) -> Csum {
    let (ipg, fpg) = (i64::from(g.ipg), i64::from(g.fpg));
    Csum {
        ndir: cs.ndir.clamp(0, ipg),
        nbfree: cs.nbfree.clamp(0, fpg / i64::from(g.frag)),
        nifree: cs.nifree.clamp(0, ipg),
        nffree: cs.nffree.clamp(0, fpg),
    }
}
