//! The preferred location of a data or indirect block (`spec/allocation.md` §4.1, §4.2).
//!
//! A file is laid out in sections of `maxbpg` blocks. Within a section each block follows the one
//! before directly. A new section starts in the inode's own group while the file is small, and in a
//! group with more than average free space when it is large.

use super::{Alloc, PrefQuery};
use crate::tunables::AllocPolicy;
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::{CgNo, FragNo};

impl Alloc {
    /// The preferred location of the block; `None` if there is no preference.
    pub(crate) fn blkpref(&self, q: &PrefQuery) -> Option<FragNo> {
        let pref = match self.tunables.alloc() {
            AllocPolicy::Y2001 => self.blkpref_2001(q),
            AllocPolicy::Y2013 => self.blkpref_2013(q),
        };
        self.usable(pref)
    }

    fn blkpref_2001(&self, q: &PrefQuery) -> Option<FragNo> {
        if let Some(indirect) = q.after_indirect {
            return Some(self.behind(indirect));
        }
        match self.continued(q) {
            Some(prev) => Some(self.behind(prev)),
            None if self.within_first_indirect(q) => Some(self.front(self.own_group(q))),
            None => self.above_average(q).map(|c| self.front(c)),
        }
    }

    fn blkpref_2013(&self, q: &PrefQuery) -> Option<FragNo> {
        let g = self.g();
        let own = self.own_group(q);
        if let Some(level) = q.indirect {
            // The first indirect block is allocated among the data; later ones go to the metadata
            // zone.
            let inline = q.last_direct.filter(|_| level == 1 && self.within_first_indirect(q));
            return Some(inline.map_or_else(|| g.cgmeta(own), |d| self.behind(d)));
        }
        if q.lbn.0 == NDADDR as u64
            && let Some(i) = q.after_indirect
            && i >= g.cgdata(own)
            && i < g.cgbase(CgNo(own.0.saturating_add(1)))
        {
            return Some(self.behind(i));
        }
        match self.continued(q) {
            Some(prev) => Some(self.behind(prev)),
            None if q.is_dir => Some(g.cgmeta(own)),
            None if self.within_first_indirect(q) => Some(g.cgdata(own)),
            None => self.above_average(q).map(|c| g.cgdata(c)),
        }
    }

    /// The fragment after the previous block, unless a new section begins.
    fn continued(&self, q: &PrefQuery) -> Option<FragNo> {
        let section = self.params.maxbpg as usize;
        self.previous(q).filter(|_| q.indirect.is_none() && !q.index.is_multiple_of(section))
    }

    fn previous(&self, q: &PrefQuery) -> Option<FragNo> {
        q.prev.filter(|p| !p.is_hole())
    }

    fn own_group(&self, q: &PrefQuery) -> CgNo {
        self.clamp_group(self.g().ino_to_cg(q.ino))
    }

    fn within_first_indirect(&self, q: &PrefQuery) -> bool {
        q.lbn.0 < NDADDR as u64 + u64::from(self.g().nindir)
    }

    /// The start of a group: the search skips its metadata.
    fn front(&self, c: CgNo) -> FragNo {
        self.g().cgbase(c).plus(self.g().frag.into())
    }

    fn behind(&self, d: FragNo) -> FragNo {
        d.plus(self.g().frag.into())
    }

    /// The first group with at least the average number of free blocks, starting after the group of
    /// the previous block. If there is no previous block, the search starts as many groups after
    /// the inode's as the file has sections so far.
    fn above_average(&self, q: &PrefQuery) -> Option<CgNo> {
        let g = self.g();
        let ncg = u64::from(g.ncg);
        let start = match self.previous(q).filter(|_| q.index != 0) {
            Some(prev) => u64::from(g.dtog(prev).0) + 1,
            None => u64::from(self.own_group(q).0) + q.lbn.0 / u64::from(self.params.maxbpg),
        };
        let sum = self.sum.lock();
        let average = sum.totals.nbfree / i64::from(g.ncg);
        (0..ncg)
            .map(|i| CgNo(((start % ncg + i) % ncg) as u32))
            .find(|c| sum.group(*c).nbfree >= average)
    }
}
