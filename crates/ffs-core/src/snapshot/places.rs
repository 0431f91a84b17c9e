//! Blocks for copies.
//!
//! # Invariants
//! 1. Each block in [`State::spare`](super::State) is allocated in memory and, if copies have an
//!    order, marked used in its cylinder group on the device. The mark is set in the group's block
//!    on the device by itself, because the group's buffer may have changes that must not be written
//!    yet (soft updates).
//! 2. No snapshot reads such a block in place.
//!
//! Reference: `spec/snapshots.md` §3 (rule for the allocator), §12.

use super::{CopyOrder, Snapshots, State};
use crate::alloc::Reserve;
use crate::error::{Error, Result};
use crate::ordering::FragRun;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::{CgNo, FragNo, Ino, Lbn};
use std::collections::BTreeMap;

/// Blocks that are allocated ahead, so that not every copy writes a cylinder group.
const AHEAD: usize = 64;
/// Blocks that may be found unfit in one search.
const UNFIT: usize = 1024;

impl Snapshots {
    /// `n` blocks for copies.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; the device's.
    pub(super) fn take_places(&self, st: &mut State, n: usize) -> Result<Vec<FragNo>> {
        if st.spare.len() < n {
            self.find_places(st, n - st.spare.len())?;
        }
        let rest = st.spare.len().saturating_sub(n);
        let mut places = st.spare.split_off(rest);
        // The spare blocks are in descending order.
        places.reverse();
        Ok(places)
    }

    /// Frees the blocks that are kept for copies. Returns their number.
    pub(crate) fn release_places(&self) -> usize {
        let spare = std::mem::take(&mut self.lock().spare);
        self.free_places(&spare);
        spare.len()
    }

    pub(super) fn free_places(&self, places: &[FragNo]) {
        for &at in places {
            let run = FragRun { at, frags: self.g().frag };
            if self.alloc.free_frags(run).is_err() {
                self.cache.set_needs_check();
            }
        }
    }

    /// Adds at least `least` blocks to the spare ones.
    fn find_places(&self, st: &mut State, least: usize) -> Result<()> {
        let (mut found, mut unfit) = (Vec::new(), Vec::new());
        let result = self.search(st, least, &mut found, &mut unfit);
        self.free_places(&unfit);
        if let Err(e) = result.and_then(|()| self.mark_places(&found)) {
            self.free_places(&found);
            return Err(e);
        }
        found.reverse();
        found.append(&mut st.spare);
        st.spare = found;
        Ok(())
    }

    /// Marks blocks for copies used on the device.
    fn mark_places(&self, found: &[FragNo]) -> Result<()> {
        if holds(Rule::MarkBeforeCopy) { self.mark_used(found) } else { Ok(()) }
    }

    fn search(
        &self,
        st: &mut State,
        least: usize,
        found: &mut Vec<FragNo>,
        unfit: &mut Vec<FragNo>,
    ) -> Result<()> {
        let g = *self.g();
        let Some(ino) = st.list.last().map(|s| s.map.ino()) else { return Ok(()) };
        let mut pref = None;
        while found.len() < least + AHEAD && unfit.len() < UNFIT {
            let at = match self.alloc.alloc_frags(ino, pref, g.frag, Reserve::Allowed) {
                Ok(at) => at,
                Err(Error::NoSpace) if found.len() >= least => return Ok(()),
                Err(e) => return Err(e),
            };
            pref = Some(at.plus(g.frag.into()));
            match self.is_read_in_place(st, at) {
                Ok(true) if holds(Rule::CopyApart) => unfit.push(at),
                Ok(_) => found.push(at),
                Err(e) => {
                    unfit.push(at);
                    return Err(e);
                }
            }
        }
        if found.len() >= least { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// A block for a new snapshot `ino`, near `pref`, that no snapshot reads in place.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; the device's.
    pub(super) fn place_for(&self, ino: Ino, pref: Option<FragNo>) -> Result<FragNo> {
        let mut unfit = Vec::new();
        let found = loop {
            let at = match self.alloc.alloc_frags(ino, pref, self.g().frag, Reserve::Allowed) {
                Ok(at) => at,
                Err(e) => break Err(e),
            };
            match self.is_read_in_place(&mut self.lock(), at) {
                Ok(false) => break Ok(at),
                Ok(true) => unfit.push(at),
                Err(e) => {
                    unfit.push(at);
                    break Err(e);
                }
            }
            if unfit.len() >= UNFIT {
                break Err(Error::NoSpace);
            }
        };
        self.free_places(&unfit);
        found
    }

    /// Whether a snapshot reads the block at `at` in place.
    pub(super) fn is_read_in_place(&self, st: &mut State, at: FragNo) -> Result<bool> {
        let lbn = self.g().fragstoblks(at);
        for s in &mut st.list {
            if s.needs(self.dev(), lbn)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Those of the blocks `lbns` that no snapshot reads in place.
    pub(super) fn not_read_in_place(&self, lbns: impl Iterator<Item = Lbn>) -> Result<Vec<Lbn>> {
        let (mut st, mut found) = (self.lock(), Vec::new());
        for lbn in lbns {
            if !self.is_read_in_place(&mut st, self.g().blkstofrags(lbn))? {
                found.push(lbn);
            }
        }
        Ok(found)
    }

    /// Frees blocks of a snapshot that was not made, or that it does not need.
    pub(super) fn give_back(&self, blocks: &[FragNo]) {
        for &at in blocks {
            let run = FragRun { at, frags: self.g().frag };
            if self.free_frags(run).is_err() {
                self.cache.set_needs_check();
            }
        }
    }

    /// Marks blocks, which are allocated in memory, used on the device.
    pub(super) fn mark_used(&self, blocks: &[FragNo]) -> Result<()> {
        if self.order == CopyOrder::None {
            return Ok(());
        }
        let mut by_group: BTreeMap<CgNo, Vec<FragNo>> = BTreeMap::new();
        for &at in blocks {
            by_group.entry(self.g().dtog(at)).or_default().push(at);
        }
        for (c, blocks) in by_group {
            self.alloc.mark_used_on_device(c, &blocks)?;
        }
        self.flush()
    }
}
