//! Allocating blocks and fragment runs (`spec/allocation.md` §4.3, §5.1, §5.2).
//!
//! # Invariants
//! 1. A run is within one block. Fewer than `frag` fragments come from a partly used block if one
//!    has a run long enough, otherwise from a whole block.
//! 2. Only root may use the reserve.

use super::group::GroupEdit;
use super::mapsearch;
use super::{Alloc, LOG, Reserve};
use crate::error::{Error, Result};
use crate::tunables::AllocPolicy;
use ffs_ondisk::{CgNo, Csum, FragNo, Ino};
use tracing::{debug, trace};

/// The size of the run to search for and the size to allocate, fragments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The size to search for: a whole block, or at least `keep`.
    pub(super) ask: u32,
    /// The size to allocate; the rest of a whole block stays free.
    pub(super) keep: u32,
}

impl Alloc {
    /// Allocates `frags` fragments within one block, or a whole block.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; the device's; a damaged group's error if no other group has space.
    pub(crate) fn alloc_frags(
        &self,
        ino: Ino,
        pref: Option<FragNo>,
        frags: u32,
        reserve: Reserve,
    ) -> Result<FragNo> {
        let g = self.g();
        if !(1..=g.frag).contains(&frags) {
            return Err(Error::Invalid("fragments to allocate"));
        }
        self.check_space(frags, reserve)?;
        let pref = self.usable(pref);
        let request = Request { ask: frags, keep: frags };
        let found = self.hash_search(self.start_group(ino, pref), |c, first| {
            self.alloc_frags_in(c, pref.filter(|_| first), request)
        })?;
        trace!(target: LOG, ino = ino.0, frags, fragment = found.map(|at| at.0), "allocate");
        found.ok_or(Error::NoSpace)
    }

    /// Fails unless `frags` more fragments may be allocated.
    pub(super) fn check_space(&self, frags: u32, reserve: Reserve) -> Result<()> {
        let g = self.g();
        let sum = self.sum.lock();
        let full = frags == g.frag && sum.totals.nbfree <= 0;
        let left = sum.freespace(g, self.params.minfree) - i64::from(frags);
        if full || (reserve == Reserve::Denied && left < 0) {
            debug!(target: LOG, frags, left, "no space");
            return Err(Error::NoSpace);
        }
        Ok(())
    }

    /// The preference, if it is a fragment of the volume.
    pub(super) fn usable(&self, pref: Option<FragNo>) -> Option<FragNo> {
        pref.filter(|p| !p.is_hole() && p.0 < self.g().size)
    }

    /// The group where the search for a block of `ino` starts.
    pub(super) fn start_group(&self, ino: Ino, pref: Option<FragNo>) -> CgNo {
        self.clamp_group(pref.map_or_else(|| self.g().ino_to_cg(ino), |p| self.g().dtog(p)))
    }

    /// The allocator of one group for [`Alloc::hash_search`].
    pub(super) fn alloc_frags_in(
        &self,
        c: CgNo,
        pref: Option<FragNo>,
        request: Request,
    ) -> Result<Option<FragNo>> {
        let cs = self.sum.lock().group(c);
        let whole = request.ask == self.g().frag;
        // A group without free space need not be read.
        if cs.nbfree <= 0 && (whole || cs.nffree < i64::from(request.ask)) {
            return Ok(None);
        }
        self.edit(c, |e| {
            let run = (request.ask..e.g.frag).find(|n| e.cg.view().frsum(*n) > 0);
            match run {
                Some(n) => e.take_run(pref, n, request.keep).map(Some),
                None if e.counts().nbfree > 0 => e.take_block(pref, request.keep).map(Some),
                None => Ok(None),
            }
        })
    }
}

impl GroupEdit<'_> {
    /// Allocates the first `keep` fragments of a free run of exactly `n`.
    fn take_run(&mut self, pref: Option<FragNo>, n: u32, keep: u32) -> Result<FragNo> {
        let from = pref.map_or_else(|| self.cg.view().frotor(), |p| self.g.dtogd(p));
        let first = self.search(from, n)?;
        self.cg.set_run_free(first, keep, false);
        self.cg.add_frsum(n, -1);
        self.cg.add_frsum(n - keep, 1);
        self.count(Csum { nffree: -i64::from(keep), ..Csum::default() });
        Ok(self.took(first, keep))
    }

    /// Allocates the first `keep` fragments of a free block: the preferred one, else the next.
    fn take_block(&mut self, pref: Option<FragNo>, keep: u32) -> Result<FragNo> {
        let frag = self.g.frag;
        let (from, exact) = self.block_start(pref);
        let from = from - from % frag;
        if exact && self.cg.view().block_free(from / frag) {
            return Ok(self.take_block_at(from, keep));
        }
        let no_place = from == 0 && self.policy == AllocPolicy::Y2001;
        let from = if no_place { self.cg.view().frotor() } else { from };
        let first = self.search(from, frag)?;
        let data_zone = self.g.dtogd(self.g.cgdata(self.c));
        if self.policy == AllocPolicy::Y2001 || first >= data_zone {
            self.cg.set_rotor(first);
        }
        Ok(self.take_block_at(first, keep))
    }

    /// The fragment of this group where the search for a block starts, and whether that block
    /// itself is a candidate.
    fn block_start(&self, pref: Option<FragNo>) -> (u32, bool) {
        let g = self.g;
        let rotor = self.cg.view().rotor();
        match (self.policy, pref) {
            (_, Some(p)) if g.dtog(p) == self.c => (g.dtogd(p), true),
            (AllocPolicy::Y2001, _) => (rotor, false),
            (AllocPolicy::Y2013, None) => {
                let next = rotor.saturating_add(g.frag);
                (if next < g.fpg { next } else { 0 }, true)
            }
            // The same zone of this group.
            (AllocPolicy::Y2013, Some(p)) if p < g.cgdata(g.dtog(p)) => {
                (g.dtogd(g.cgmeta(self.c)), true)
            }
            (AllocPolicy::Y2013, Some(_)) => (g.dtogd(g.cgdata(self.c)), true),
        }
    }

    /// Allocates the first `keep` fragments of the free block that starts at fragment `first`.
    pub(super) fn take_block_at(&mut self, first: u32, keep: u32) -> FragNo {
        let left = self.g.frag - keep;
        self.cg.set_run_free(first, keep, false);
        self.take_from_cluster(first / self.g.frag);
        // `add_frsum` ignores the run of length 0.
        self.cg.add_frsum(left, 1);
        self.count(Csum { nbfree: -1, nffree: left.into(), ..Csum::default() });
        self.took(first, keep)
    }

    /// A maximal free run of exactly `n` fragments, searched from the byte of fragment `from` on,
    /// modulo the map size. The caller has checked by the counts that there is one.
    fn search(&mut self, from: u32, n: u32) -> Result<u32> {
        let found = mapsearch::search(self.cg.view().blksfree(), self.g.frag, from, n);
        match found {
            Some(f) => {
                self.cg.set_frotor(f - f % 8);
                Ok(f)
            }
            None => {
                let found = format!("without a run of {n} fragments");
                Err(self.corrupt("blksfree", found, "the run that the counts promise"))
            }
        }
    }
}
