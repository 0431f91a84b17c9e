//! Cylinder-group blocks of the larger volume: the new ones, and the old ones that change.
//!
//! **Invariants.**
//! 1. All counts are computed from the maps.
//! 2. Of the old groups only two may change: the last one, if it becomes longer, and the one with
//!    the old summary area, if that moves.

use std::collections::BTreeSet;
use std::ops::Range;

use ffs_ondisk::cg::{self, CgMut};
use ffs_ondisk::{CgNo, Csum, Geometry};

use super::plan::GrowthPlan;
use crate::newfs::group;
use crate::{AdminError, Volume};

/// A group's block, and its counts.
pub(super) type GroupBlock = (Vec<u8>, Csum);

/// An old group that changes: its new block, and its counts before and after.
pub(super) struct Changed {
    pub(super) c: CgNo,
    pub(super) block: Vec<u8>,
    pub(super) before: Csum,
    pub(super) after: Csum,
}

/// The blocks of all groups that growfs writes.
pub(super) struct GrownGroups {
    /// The old groups that change.
    pub(super) changed: Vec<Changed>,
    /// The new group with the summary area, if it moves there.
    with_csum: Option<(CgNo, GroupBlock)>,
    /// A new group that is neither the last nor has the summary area; they differ only in number.
    middle: GroupBlock,
    last: GroupBlock,
    first_new: u32,
    ncg: u32,
}

impl GrownGroups {
    /// Builds the blocks.
    ///
    /// # Errors
    /// The device's, or the problem of an old group that would change.
    pub(super) fn new(
        old: &Volume<'_>,
        plan: &GrowthPlan,
        now: i64,
    ) -> Result<GrownGroups, AdminError> {
        let g = &plan.geo;
        let (first_new, ncg) = (old.geo.ncg, g.ncg);
        let mut which = BTreeSet::new();
        let last_old = CgNo(first_new - 1);
        if g.cg_frags(last_old) != old.geo.cg_frags(last_old) {
            which.insert(last_old);
        }
        let mut with_csum = None;
        if plan.moves_csum(old) {
            which.insert(old.geo.dtog(old.geo.csaddr));
            let c = g.dtog(g.csaddr);
            with_csum = Some((c, new_group(g, c, plan.csum_frags(), now)));
        }
        let changed =
            which.into_iter().map(|c| change(old, plan, c, now)).collect::<Result<_, _>>();
        Ok(GrownGroups {
            changed: changed?,
            with_csum,
            // Without new groups these two are not used.
            middle: new_group(g, CgNo(first_new.min(ncg - 1)), 0..0, now),
            last: new_group(g, CgNo(ncg - 1), 0..0, now),
            first_new,
            ncg,
        })
    }

    /// The block of the new group `c`, with any number.
    pub(super) fn of(&self, c: CgNo) -> &GroupBlock {
        match &self.with_csum {
            Some((own, block)) if *own == c => block,
            _ if c.0 + 1 == self.ncg => &self.last,
            _ => &self.middle,
        }
    }

    /// The numbers of the new groups.
    pub(super) fn new_groups(&self) -> impl ExactSizeIterator<Item = CgNo> + use<> {
        (self.first_new..self.ncg).map(CgNo)
    }

    /// The counts of the old group `c`, if they change.
    pub(super) fn csum_of(&self, c: CgNo) -> Option<Csum> {
        self.changed.iter().find(|changed| changed.c == c).map(|changed| changed.after)
    }

    /// The totals of the larger volume; `old` are those of the old one.
    pub(super) fn totals(&self, old: Csum) -> Csum {
        let mut total = old;
        for Changed { before, after, .. } in &self.changed {
            total.add(&difference(after, before));
        }
        for c in self.new_groups() {
            total.add(&self.of(c).1);
        }
        total
    }
}

fn difference(a: &Csum, b: &Csum) -> Csum {
    Csum {
        ndir: a.ndir - b.ndir,
        nbfree: a.nbfree - b.nbfree,
        nifree: a.nifree - b.nifree,
        nffree: a.nffree - b.nffree,
    }
}

/// The block of a group in which only metadata and the fragments `csum` of it are in use.
fn new_group(g: &Geometry, c: CgNo, csum: Range<u32>, now: i64) -> GroupBlock {
    let mut block = group::fresh(g, c, now);
    let mut map = CgMut::new(g, &mut block);
    for f in csum {
        map.set_frag_free(f, false);
    }
    let counts = group::recount(g, &mut block, 0);
    (block, counts)
}

/// The block of the old group `c` in the larger volume.
fn change(old: &Volume<'_>, plan: &GrowthPlan, c: CgNo, now: i64) -> Result<Changed, AdminError> {
    let g = &plan.geo;
    let mut block = old.read_cg(c)?;
    cg::validate(&old.geo, c, &block)?;
    let before = cg::Cg::new(&old.geo, &block).cs();
    lengthen(&old.geo, g, c, &mut block);
    if plan.moves_csum(old) && old.geo.dtog(old.geo.csaddr) == c {
        let first = old.geo.dtogd(old.geo.csaddr);
        let mut map = CgMut::new(g, &mut block);
        for f in first..first + old.geo.numfrags_up(old.geo.cssize.into()) {
            map.set_frag_free(f, true);
        }
    }
    let after = group::recount(g, &mut block, before.ndir);
    CgMut::new(g, &mut block).seal(now);
    Ok(Changed { c, block, before, after })
}

/// Adds the fragments that group `c` gets to its block, as free ones.
fn lengthen(old: &Geometry, new: &Geometry, c: CgNo, block: &mut [u8]) {
    let (from, to) = (old.cg_frags(c), new.cg_frags(c));
    let mut map = CgMut::new(new, block);
    let mut header = map.view().header();
    header.ndblk = to;
    if new.contigsumsize > 0 {
        header.nclusterblks = to / new.frag;
    }
    map.set_header(&header);
    for f in from..to {
        map.set_frag_free(f, true);
    }
}
