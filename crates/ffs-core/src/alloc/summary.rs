//! What is known of all groups without reading them: their counts, totals, and hints.
//!
//! # Invariants
//! 1. `totals` is the sum of `cs`.
//! 2. `cs[c]` equals the counts in group `c`'s block whenever that block's lock is free and the
//!    block was checked in ([`super::group`]); until then it is what the summary area said.
//! 3. `maxcluster` is never below the group's largest free cluster (capped at `contigsumsize`).
//!
//! # Locking
//! One mutex, held for moments: never across I/O, never while a buffer's lock is waited for. It
//! may be taken while a group's buffer is locked.

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
    /// Per group, directories made one after another without files in between; up to 255.
    pub(super) contigdirs: Vec<u8>,
    /// The optimisation in force.
    pub(super) optim: Optim,
    groups: Vec<GroupState>,
    /// Groups whose block is damaged, and how.
    bad: BTreeMap<CgNo, ffs_ondisk::Error>,
}

/// What is remembered of one group.
#[derive(Debug)]
struct GroupState {
    /// Upper bound of the largest free cluster, blocks.
    maxcluster: u32,
    /// The buffer that was checked in: another one holds bytes fresh from disk.
    checked: Weak<Buf>,
    /// Initialised inodes, of a group that was checked in.
    initediblk: Option<u32>,
}

impl Summary {
    /// From the records of the summary area. Missing ones and impossible counts become 0.
    pub(super) fn new(g: &Geometry, mut cs: Vec<Csum>, optim: Optim) -> Summary {
        let ncg = g.ncg as usize;
        cs.resize(ncg, Csum::default());
        let mut totals = Csum::default();
        for one in &mut cs {
            *one = possible(g, one);
            totals.add(one);
        }
        let fresh =
            || GroupState { maxcluster: g.contigsumsize, checked: Weak::new(), initediblk: None };
        Summary {
            cs,
            totals,
            contigdirs: vec![0; ncg],
            optim,
            groups: std::iter::repeat_with(fresh).take(ncg).collect(),
            bad: BTreeMap::new(),
        }
    }

    /// Counts of group `c`; zeros if there is none.
    pub(super) fn group(&self, c: CgNo) -> Csum {
        self.cs.get(c.0 as usize).copied().unwrap_or_default()
    }

    /// Adds `delta` to group `c` and the totals.
    pub(super) fn change(&mut self, c: CgNo, delta: &Csum) {
        if let Some(cs) = self.cs.get_mut(c.0 as usize) {
            cs.add(delta);
            self.totals.add(delta);
        }
    }

    /// Takes the counts of a group whose block was just checked in.
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

    /// Whether the content of `buf`, group `c`'s, was checked in.
    pub(super) fn is_checked(&self, c: CgNo, buf: &BufRef) -> bool {
        // While a weak reference lives its address belongs to no other buffer.
        self.groups
            .get(c.0 as usize)
            .is_some_and(|s| std::ptr::eq(s.checked.as_ptr(), Arc::as_ptr(buf)))
    }

    /// Remembers that group `c` must not be used.
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
    }

    /// Upper bound of the largest free cluster of group `c`, blocks.
    pub(super) fn maxcluster(&self, c: CgNo) -> u32 {
        self.groups.get(c.0 as usize).map_or(0, |s| s.maxcluster)
    }

    /// Notes the largest free cluster of group `c`.
    pub(super) fn set_maxcluster(&mut self, c: CgNo, blocks: u32) {
        if let Some(s) = self.groups.get_mut(c.0 as usize) {
            s.maxcluster = blocks;
        }
    }

    /// Counts a new inode wanted in group `c`: directories in a row up, files down.
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

/// `cs` with every count brought into what a group can have.
fn possible(g: &Geometry, cs: &Csum) -> Csum {
    let (ipg, fpg) = (i64::from(g.ipg), i64::from(g.fpg));
    Csum {
        ndir: cs.ndir.clamp(0, ipg),
        nbfree: cs.nbfree.clamp(0, fpg / i64::from(g.frag)),
        nifree: cs.nifree.clamp(0, ipg),
        nffree: cs.nffree.clamp(0, fpg),
    }
}
