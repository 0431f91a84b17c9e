//! Pointers in an inode that are cleared, and that images show until the file has another end.
//!
//! A file never ends in a hole (a check would cut it off). While the block that becomes a file's last one is not
//! on the device, an image that showed the pointers behind it cleared would end before it: perhaps shorter than
//! the file ever was. So such a pointer gets a claim of a hole, which needs the claim of that block.
//!
//! # Invariants
//! 1. A claim of a hole is the last value of a chain whose pointer is cleared in memory.
//! 2. What such a pointer named is freed after the claim is durable ([`Engine::holes_to_show`]).
//! 3. While claims of holes lie beyond the size, a floor of [`TAIL`] keeps the size that covers them. It needs no
//!    node: an image shows the old end, or the new last block and the new end.
//!
//! Reference: `spec/soft-updates.md` §4.3, §6.11; `spec/fsck-and-crash.md` G8.

use super::Engine;
use super::arena::Arena;
use super::claims::{Claim, pointer_of};
use super::graph::{Floor, Id, Level, Node, State, What};
use super::inodes::More;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{FragRun, PtrSlot};
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::{Dinode, FragNo, Ino, Lbn};
use smallvec::SmallVec;

/// Stands for the end of a file where a floor names an indirect block: those have negative names.
pub(super) const TAIL: i64 = 0;

impl More {
    /// The size that images show until the file's new last block may be shown; 0 if there is none.
    pub(super) fn cut_tail(&self, nodes: &Arena<Node>) -> u64 {
        let sizes = self.tails(nodes).filter(|floor| floor.last.is_some()).map(|floor| floor.size);
        sizes.max().unwrap_or(0)
    }

    /// Floors of the file's end, oldest first.
    fn tails<'a>(&self, nodes: &'a Arena<Node>) -> impl Iterator<Item = &'a Floor> {
        let ids = self.floors.range((TAIL, 0)..=(TAIL, u64::MAX));
        ids.filter_map(|(_, id)| match &nodes.get(*id)?.what {
            What::Floor(floor) => Some(&**floor),
            _ => None,
        })
    }
}

impl Engine {
    /// See [`crate::ordering::Ordering::hole_made`].
    pub(super) fn hole_made(&mut self, ino: Ino, index: usize, old: FragRun) {
        let slots = self.more_of(ino).map(|m| m.slots.as_slice()).unwrap_or_default();
        let later =
            slots.iter().filter(|(i, _)| usize::from(*i) > index && usize::from(*i) < NDADDR);
        let later = later.filter_map(|(_, c)| c.versions.last().copied());
        let later: SmallVec<[Id; 4]> = later.filter(|id| !self.is_hole(*id)).collect();
        if !later.is_empty() && holds(Rule::BlockBeforeHole) {
            self.claim_hole(ino, index, old, &later);
        }
    }

    /// See [`crate::ordering::Ordering::tail_cut`].
    pub(super) fn tail_cut(
        &mut self,
        ino: Ino,
        last: Option<usize>,
        size: u64,
        cleared: &[(usize, FragRun)],
    ) {
        let before = self.more_of(ino).map_or(0, |more| more.cut_tail(&self.nodes));
        let mut in_hole = |last| {
            let slot = PtrSlot::Direct(ino, last);
            self.chain(slot).is_some_and(|c| c.base.is_none() && !c.versions.is_empty())
        };
        let Some(last) = last.filter(|&last| in_hole(last) && holds(Rule::BlockBeforeHole)) else {
            return self.end_tails(ino);
        };
        let mut shown = before;
        for &(index, old) in cleared {
            if self.claim_hole(ino, index, old, &[]) {
                let end = self.g.lblktosize(Lbn(index as u64 + 1));
                shown = shown.max(if index < NDADDR { end.min(size) } else { size });
            }
        }
        if shown > 0 {
            self.keep_tail(ino, shown, last);
        }
    }

    /// Images show no size below `size` before they show direct block `last`.
    fn keep_tail(&mut self, ino: Ino, size: u64, last: usize) {
        let newest = self.newest_floor(ino, TAIL);
        let id = match newest.filter(|id| self.state(*id) == Some(State::Never)) {
            Some(id) => id,
            None => self.add_floor(ino, TAIL),
        };
        if let Some(What::Floor(floor)) = self.nodes.get_mut(id).map(|n| &mut n.what) {
            floor.size = floor.size.max(size);
            floor.last = u32::try_from(last).ok();
        }
    }

    /// The file's end is one that images may show at once.
    fn end_tails(&mut self, ino: Ino) {
        let Some(more) = self.inodes.get(&ino).and_then(|rec| rec.more.as_ref()) else { return };
        let ids: SmallVec<[Id; 2]> =
            more.floors.range((TAIL, 0)..=(TAIL, u64::MAX)).map(|(_, id)| *id).collect();
        for id in ids {
            if let Some(What::Floor(floor)) = self.nodes.get_mut(id).map(|n| &mut n.what) {
                floor.last = None;
            }
        }
    }

    /// What an image of the inode shows of its old end: the last direct block of the new one, and the size; nothing if
    /// it may show the new one. It does so in one image with the new last block, which may be a fragment.
    pub(super) fn tail_kept(&self, d: &Dinode, more: &More) -> Option<(usize, u64)> {
        let last = more.tails(&self.nodes).last()?.last? as usize;
        let (_, chain) = more.slots.iter().find(|(i, _)| usize::from(*i) == last)?;
        let in_hole = self.shown(chain, pointer_of(d, last)).is_none() && chain.base.is_none();
        in_hole.then(|| (last, more.cut_tail(&self.nodes)))
    }

    /// Pointer `index`, which names `old`, is cleared; images show what they may show of it before until the claims
    /// `on` are durable. Tells whether they may show anything: a block that the device never saw is a hole there.
    fn claim_hole(&mut self, ino: Ino, index: usize, old: FragRun, on: &[Id]) -> bool {
        let slot = match index.checked_sub(NDADDR) {
            None => PtrSlot::Direct(ino, index),
            Some(root) => PtrSlot::IndirectRoot(ino, root),
        };
        let chain = self.chain_entry(slot, Some(old));
        let in_hole = chain.base.is_none() && chain.versions.len() == 1;
        let last = chain.versions.last().copied();
        let unseen = last.filter(|&id| self.state(id) == Some(State::Never));
        if let Some(gone) = unseen.filter(|_| in_hole) {
            // What waits for it waits for the file's end instead.
            if let Some(&on) = on.last() {
                self.pass(gone, Some(on));
            }
            return false;
        }
        let run = FragRun { at: FragNo::HOLE, frags: 0 };
        let claim = Claim { slot, run, frees: Vec::new(), names: Vec::new() };
        let id = self.add(What::Claim(Box::new(claim)));
        if let Some(gone) = unseen {
            self.chain_entry(slot, None).versions.pop();
            self.pass(gone, Some(id));
            if let Some(What::Claim(gone)) = self.cancel(gone).map(|n| n.what)
                && let Some(c) = self.claim_mut(id)
            {
                (c.frees, c.names) = (gone.frees, gone.names);
            }
        }
        for &on in on {
            self.need_node(id, on, Level::Durable, false);
        }
        self.chain_entry(slot, None).versions.push(id);
        true
    }

    /// The holes of a file that images do not show yet.
    pub(super) fn holes_to_show(&self, ino: Ino) -> SmallVec<[Id; 2]> {
        let slots = self.more_of(ino).map(|m| m.slots.as_slice()).unwrap_or_default();
        let last = slots.iter().filter_map(|(_, c)| c.versions.last().copied());
        last.filter(|id| self.is_hole(*id)).collect()
    }

    pub(super) fn is_hole(&self, id: Id) -> bool {
        self.run_of(id).is_some_and(|run| run.at == FragNo::HOLE)
    }
}
