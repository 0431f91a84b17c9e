//! Growing a fragment run: in place, or by a move (`spec/allocation.md` §4.4).

use super::blocks::Request;
use super::group::GroupEdit;
use super::params::Optim;
use super::{Alloc, LOG, Reserve};
use crate::counters::bump;
use crate::error::{Error, Result};
use crate::ordering::FragRun;
use ffs_ondisk::{CgNo, Corrupt, Csum, FragNo, Ino, Place, Structure};
use tracing::trace;

/// With a reserve of at most this percentage, space optimisation is never switched off.
const MINFREE_ALWAYS_SPACE: u32 = 5;

impl Alloc {
    /// Grows the run `old` to `new_frags`. If the address is the same, the run was extended in
    /// place. Otherwise it was moved, and the caller frees the old run after it has set the new
    /// pointer.
    ///
    /// # Errors
    /// As [`Alloc::alloc_frags`].
    pub(crate) fn realloc_frags(
        &self,
        ino: Ino,
        old: FragRun,
        new_frags: u32,
        pref: Option<FragNo>,
        reserve: Reserve,
    ) -> Result<FragNo> {
        let g = self.g();
        if old.frags >= new_frags || new_frags > g.frag {
            return Err(Error::Invalid("fragments to grow to"));
        }
        if let Some(why) = g.run_problem(old.at, old.frags) {
            return Err(bad_run(ino, old, why));
        }
        let more = new_frags - old.frags;
        if reserve == Reserve::Denied && self.freespace(self.params.minfree) < i64::from(more) {
            return Err(Error::NoSpace);
        }
        let c = g.dtog(old.at);
        if self.edit(c, |e| e.extend(old, new_frags))? {
            bump(&self.cache.counters.frag_extends);
            return Ok(old.at);
        }
        let moved = self.find_larger(c, self.usable(pref), new_frags)?;
        bump(&self.cache.counters.frag_moves);
        let (from, to) = (old.at.0, moved.map(|at| at.0));
        trace!(target: LOG, ino = ino.0, from, to, frags = new_frags, "move fragments");
        moved.ok_or(Error::NoSpace)
    }

    /// Searches for another location of a run: the start of a whole block or a fitting run,
    /// depending on the optimisation.
    fn find_larger(&self, c: CgNo, pref: Option<FragNo>, frags: u32) -> Result<Option<FragNo>> {
        let search = |ask| {
            let request = Request { ask, keep: frags };
            self.hash_search(c, |c, first| self.alloc_frags_in(c, pref.filter(|_| first), request))
        };
        let ask = match self.choose_optim() {
            Optim::Time => self.g().frag,
            Optim::Space => frags,
        };
        match search(ask)? {
            // Without whole blocks, time optimisation must still find a run that is long enough.
            None if ask != frags => search(frags),
            found => Ok(found),
        }
    }

    /// The optimisation for one move. Switches when fragmentation passes the thresholds.
    fn choose_optim(&self) -> Optim {
        let dsize = i128::from(self.g().dsize);
        let minfree = i128::from(self.params.minfree);
        let mut sum = self.sum.lock();
        let nffree = i128::from(sum.totals.nffree);
        let now = sum.optim;
        let next = match now {
            Optim::Space
                if self.params.minfree > MINFREE_ALWAYS_SPACE
                    && nffree <= dsize * minfree / 200 =>
            {
                Optim::Time
            }
            Optim::Time if nffree >= dsize * (minfree - 2) / 100 => Optim::Space,
            keep => keep,
        };
        if next != now {
            bump(&self.cache.counters.optim_switches);
            sum.optim = next;
        }
        // The move that detects the threshold still uses the old optimisation.
        now
    }
}

impl GroupEdit<'_> {
    /// Grows `old` in place if the fragments after it in its block are free.
    fn extend(&mut self, old: FragRun, new_frags: u32) -> Result<bool> {
        let first = self.g.dtogd(old.at);
        let cg = self.cg.view();
        if let Some(f) = (first..first + old.frags).find(|f| cg.frag_free(*f)) {
            let found = format!("fragment {f} of a file's last block marked free");
            return Err(self.corrupt("blksfree", found, "marked used"));
        }
        let more = new_frags - old.frags;
        let tail = first + old.frags;
        let block_end = first - first % self.g.frag + self.g.frag;
        let run = (tail..block_end).take_while(|f| cg.frag_free(*f)).count() as u32;
        if run < more {
            return Ok(false);
        }
        self.cg.add_frsum(run, -1);
        self.cg.add_frsum(run - more, 1);
        self.cg.set_run_free(tail, more, false);
        self.count(Csum { nffree: -i64::from(more), ..Csum::default() });
        self.took(tail, more);
        Ok(true)
    }
}

fn bad_run(ino: Ino, run: FragRun, why: &str) -> Error {
    let found = format!("{} ({} fragments, {why})", run.at, run.frags);
    let want = "a run in the data area";
    let c = Corrupt::new(Structure::Inode, Place::Inode(ino), "block pointer", found, want);
    Error::Format(c.into())
}
