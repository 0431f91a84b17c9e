//! Pointers in an inode that are cleared, and that images show until the file has another end.
//!
//! A file never ends in a hole (a check would cut it off). An image that showed a pointer cleared, and none of the
//! blocks behind it, would end before the hole: perhaps shorter than the file ever was. So such a pointer gets a
//! claim of a hole. It is shown in an image that shows a block behind it; where the file was cut short, in one that
//! shows its new last block.
//!
//! # Invariants
//! 1. A claim of a hole is the last value of a chain whose pointer is cleared in memory. It needs nothing: what else
//!    the image shows decides ([`Engine::shown_slots`]).
//! 2. What such a pointer named is freed after the claim is durable ([`Engine::holes_to_show`]).
//! 3. While claims of holes lie beyond the size, a floor of [`TAIL`] keeps the size that covers them: an image shows
//!    the old end, or the new last block and the new end.
//!
//! Reference: `spec/soft-updates.md` §4.3, §6.11; `spec/fsck-and-crash.md` G8.

use super::Engine;
use super::arena::Arena;
use super::claims::{Claim, first_of_slot, pointer_of};
use super::graph::{Floor, Id, Level, Node, State, What};
use super::inodes::More;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{FragRun, PtrSlot};
use ffs_ondisk::geometry::{NDADDR, NIADDR};
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
        self.floors_of(TAIL).filter_map(|id| match &nodes.get(id)?.what {
            What::Floor(floor) => Some(&**floor),
            _ => None,
        })
    }
}

impl Engine {
    /// See [`crate::ordering::Event::HolePunched`].
    pub(super) fn hole_made(&mut self, ino: Ino, index: usize, old: FragRun) {
        let slots = self.more_of(ino).map(|m| m.slots.as_slice()).unwrap_or_default();
        let held_back = slots.iter().any(|(i, _)| usize::from(*i) > index);
        if held_back && holds(Rule::BlockBeforeHole) {
            self.claim_hole(ino, index, old);
        }
    }

    /// See [`crate::ordering::Event::InodeTruncated`].
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
        let Some(on) = self.newest_claim(PtrSlot::Direct(ino, last)) else { return };
        // Names that wait for content that is cut off: they come with the new end.
        let names = self.inodes.get(&ino).map(|rec| rec.names.clone()).unwrap_or_default();
        for &name in names.iter() {
            self.need_node(name, on, Level::Durable, false);
        }
        let mut shown = before;
        for &(index, old) in cleared {
            if self.claim_hole(ino, index, old) {
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
        let ids: SmallVec<[Id; 2]> = more.floors_of(TAIL).collect();
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

    /// Pointer `index`, which names `old`, is cleared, and images may show what they may show of it before. Tells
    /// whether they may show anything: a block that the device never saw is a hole there.
    fn claim_hole(&mut self, ino: Ino, index: usize, old: FragRun) -> bool {
        let slot = match index.checked_sub(NDADDR) {
            None => PtrSlot::Direct(ino, index),
            Some(root) => PtrSlot::IndirectRoot(ino, root),
        };
        let chain = self.chain_entry(slot, Some(old));
        let in_hole = chain.base.is_none() && chain.versions.len() == 1;
        let last = chain.versions.last().copied();
        let unseen = last.filter(|&id| self.state(id) == Some(State::Never));
        if in_hole && unseen.is_some() {
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
        self.chain_entry(slot, None).versions.push(id);
        true
    }

    /// Which value of each chain an image of `d` shows, in the order of the slots; `kept`: see
    /// [`Engine::tail_kept`].
    pub(super) fn shown_slots(
        &self,
        d: &Dinode,
        more: &More,
        kept: Option<(usize, u64)>,
    ) -> SmallVec<[Option<usize>; 2]> {
        let mut behind = NDADDR + NIADDR;
        let mut is_shown = false;
        let mut all: SmallVec<[Option<usize>; 2]> = SmallVec::new();
        for (i, chain) in more.slots.iter().rev() {
            let i = usize::from(*i);
            // Pointers without a chain are as they are stored.
            is_shown |= (i + 1..behind).any(|k| pointer_of(d, k) != 0);
            behind = i;
            let start = self.g.lblktosize(first_of_slot(&self.g, i));
            let hole_waits = match kept {
                Some((last, _)) if i > last => true,
                _ => !is_shown && start < d.size,
            };
            let waits =
                |k| hole_waits && chain.versions.get(k).is_some_and(|id: &Id| self.is_hole(*id));
            let which = self.shown_but(chain, pointer_of(d, i), waits);
            let run = which.and_then(|k| chain.versions.get(k)).map(|id| self.run_of(*id));
            let run = run.unwrap_or(chain.base);
            is_shown |= run.is_some_and(|run| run.at != FragNo::HOLE);
            all.push(which);
        }
        all.reverse();
        all
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
