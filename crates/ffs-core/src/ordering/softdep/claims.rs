//! Pointers: which blocks an inode or an indirect block may be shown to own.
//!
//! A pointer has a chain: the value on the device (base), and the values it got since, oldest first.
//! An image shows the newest value that may be seen, else the base. A value that was in no image
//! leaves the chain when a newer one comes: so the base is always what the device may still show.
//!
//! # Invariants
//! 1. A run of fragments that some value before the newest names is not free: it is freed when a
//!    newer value is durable, or at once if it was in no image.
//! 2. The last value of a chain is the pointer in memory (or about to be, under the file's lock).
//! 3. A shown inode's size covers no block whose pointer is held back and that must not be a hole:
//!    no block at the end of a file, and none of a directory (`spec/soft-updates.md` §4.3).
//!
//! Reference: `spec/soft-updates.md` §4.3 to §4.5.

use super::Engine;
use super::arena::Arena;
use super::graph::{Cond, Id, Level, Node, State, What};
use super::holes::TAIL;
use super::inodes::More;
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{BlockContent, FragRun, PtrSlot, WorkItem};
use ffs_ondisk::bmap::{self, Named, Path, first_of_root, parse_name};
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::{Dinode, FragNo, Geometry, Ino, Lbn};
use smallvec::SmallVec;
use std::iter;

/// A value of a pointer.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) slot: PtrSlot,
    pub(super) run: FragRun,
    /// What may be freed when it is durable.
    pub(super) frees: Vec<FragRun>,
    /// Names written in the block of a directory that it claims: they are on the device when it is. In the
    /// order of their ids, each once.
    pub(super) names: Vec<Id>,
}

/// The values of a pointer.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// On the device.
    pub(super) base: Option<FragRun>,
    /// Since then, oldest first.
    pub(super) versions: SmallVec<[Id; 1]>,
}

impl Chain {
    /// The run at `at` has no more than `have` fragments from now on, whichever value names it: an image
    /// that shows an older one must not show what was cut off, which is freed.
    fn cut(&mut self, nodes: &mut Arena<Node>, at: FragNo, have: u32) {
        let cut = |run: &mut FragRun| {
            if run.at == at {
                run.frags = run.frags.min(have);
            }
        };
        self.base.iter_mut().for_each(cut);
        for id in &self.versions {
            if let Some(What::Claim(c)) = nodes.get_mut(*id).map(|n| &mut n.what) {
                cut(&mut c.run);
            }
        }
    }
}

/// Pointers in an inode, direct ones first, then the roots.
pub(super) type Slots = SmallVec<[(u8, Chain); 2]>;

impl Engine {
    /// See [`crate::ordering::Event::PointerSet`].
    pub(super) fn claim(
        &mut self,
        slot: PtrSlot,
        (new, old): (FragRun, Option<FragRun>),
        what: BlockContent,
        block: BufKey,
    ) {
        self.touch(block);
        if let PtrSlot::ExtAttr(ino, i) = slot {
            return self.claim_ext(ino, i, new, block);
        }
        let moved = old.filter(|old| old.at != new.at);
        let last = self.chain_entry(slot, old).versions.last().copied();
        let dropped = last.filter(|&id| self.state(id) == Some(State::Never));
        let mut frees: Vec<FragRun> = moved.into_iter().collect();
        // What was only grown in place since may be on the device as it was before.
        if dropped.is_some() && moved.is_some_and(|run| !self.may_show(slot, run.at, dropped)) {
            self.free_now(std::mem::take(&mut frees));
        }
        let claim = Claim { slot, run: new, frees, names: Vec::new() };
        let id = self.add(What::Claim(Box::new(claim)));
        if let Some(gone) = dropped {
            self.chain_entry(slot, old).versions.pop();
            self.pass(gone, Some(id));
            let gone = self.cancel(gone).map(|n| n.what);
            if let (Some(What::Claim(gone)), Some(c)) = (gone, self.claim_mut(id)) {
                c.frees.extend(gone.frees);
                c.names = gone.names;
            }
        }
        self.chain_entry(slot, old).versions.push(id);
        if let PtrSlot::Indirect { ino, .. } = slot
            && holds(Rule::SizeBeforeIndirect)
        {
            // A directory's size must not cover a hole: there the pointer comes before the size.
            match what {
                BlockContent::Data | BlockContent::ExtAttr | BlockContent::Indirect => {
                    self.more(ino).reach.get_or_insert_default();
                }
                BlockContent::DirectoryBody
                | BlockContent::DirectoryGrowth
                | BlockContent::DirectoryExtended => self.more(ino).reach = None,
            }
        }
        self.need_written(id, block, new);
    }

    /// The claim `id` needs its block's content on the device, and the map that has its run.
    pub(super) fn need_written(&mut self, id: Id, block: BufKey, run: FragRun) {
        if holds(Rule::ContentBeforeClaim) {
            self.need_block(id, block);
        }
        if holds(Rule::MapBeforeClaim) {
            let group = self.group_of(run.at);
            self.need_block(id, group);
        }
    }

    /// See [`crate::ordering::Event::PointerCancelled`].
    pub(super) fn unclaim(&mut self, slot: PtrSlot, new: FragRun) {
        let Some(id) = self.chain(slot).and_then(|c| c.versions.last().copied()) else { return };
        if self.run_of(id).is_none_or(|run| run.at != new.at) {
            return;
        }
        self.pass(id, None);
        if let Some(n) = self.cancel(id)
            && let What::Claim(c) = n.what
        {
            self.met_names.extend(c.names);
        }
        if let Some(c) = self.chain(slot) {
            c.versions.pop();
        }
        self.trim_chain(slot);
        self.drain();
    }

    /// Whether the device may show the pointer with value `at`, whatever `but` says.
    fn may_show(&mut self, slot: PtrSlot, at: FragNo, but: Option<Id>) -> bool {
        let Some(chain) = self.chain(slot) else { return false };
        let base = chain.base;
        let versions: SmallVec<[Id; 4]> = chain.versions.iter().copied().collect();
        let others = versions.into_iter().filter(|v| Some(*v) != but);
        base.into_iter().chain(others.filter_map(|v| self.run_of(v))).any(|run| run.at == at)
    }

    pub(super) fn claim_mut(&mut self, id: Id) -> Option<&mut Claim> {
        match &mut self.nodes.get_mut(id)?.what {
            What::Claim(c) => Some(c),
            _ => None,
        }
    }

    /// The chain of a pointer, made with `old` on the device if it has none.
    pub(super) fn chain_entry(&mut self, slot: PtrSlot, old: Option<FragRun>) -> &mut Chain {
        let fresh = || Chain { base: old, versions: SmallVec::new() };
        match place(slot) {
            Place::Inode(ino, i) => {
                let slots = &mut self.more(ino).slots;
                let at = slots.binary_search_by_key(&i, |s| s.0).unwrap_or_else(|at| {
                    slots.insert(at, (i, fresh()));
                    at
                });
                &mut slots[at].1
            }
            Place::Indirect(key, i) => {
                self.indirects.entry(key).or_default().entry(i).or_insert_with(fresh)
            }
        }
    }

    /// The newest value of a pointer that is not durable.
    pub(super) fn newest_claim(&self, slot: PtrSlot) -> Option<Id> {
        let chain = match place(slot) {
            Place::Inode(ino, i) => {
                let slots = &self.inodes.get(&ino)?.more.as_ref()?.slots;
                let at = slots.binary_search_by_key(&i, |s| s.0).ok()?;
                &slots.get(at)?.1
            }
            Place::Indirect(key, i) => self.indirects.get(&key)?.get(&i)?,
        };
        chain.versions.last().copied()
    }

    pub(super) fn chain(&mut self, slot: PtrSlot) -> Option<&mut Chain> {
        match place(slot) {
            Place::Inode(ino, i) => {
                let slots = &mut self.inodes.get_mut(&ino)?.more.as_mut()?.slots;
                let at = slots.binary_search_by_key(&i, |s| s.0).ok()?;
                slots.get_mut(at).map(|s| &mut s.1)
            }
            Place::Indirect(key, i) => self.indirects.get_mut(&key)?.get_mut(&i),
        }
    }

    /// Drops the chain if it says nothing more than the pointer.
    fn trim_chain(&mut self, slot: PtrSlot) {
        if self.chain(slot).is_none_or(|c| !c.versions.is_empty()) {
            return;
        }
        match place(slot) {
            Place::Inode(ino, i) => {
                if let Some(more) = self.inodes.get_mut(&ino).and_then(|r| r.more.as_mut()) {
                    more.slots.retain(|s| s.0 != i);
                }
                self.tidy(ino);
            }
            Place::Indirect(key, i) => {
                if let Some(all) = self.indirects.get_mut(&key) {
                    all.remove(&i);
                    if all.is_empty() {
                        self.indirects.remove(&key);
                    }
                }
                if let BufKey::File(ino, _) = key {
                    self.end_reach(ino);
                    self.tidy(ino);
                }
            }
        }
    }

    /// The claim is durable: older values are gone from the device.
    pub(super) fn claim_durable(&mut self, id: Id) {
        let Some(n) = self.nodes.get(id) else { return };
        let What::Claim(c) = &n.what else { return };
        let (slot, run) = (c.slot, c.run);
        let mut older = SmallVec::<[Id; 2]>::new();
        if let Some(chain) = self.chain(slot)
            && let Some(at) = chain.versions.iter().position(|v| *v == id)
        {
            older.extend(chain.versions.drain(..=at));
            chain.base = Some(run).filter(|run| run.at != FragNo::HOLE);
        }
        self.trim_chain(slot);
        let (mut frees, mut names) = (Vec::new(), Vec::new());
        for v in older {
            if let Some(n) = self.fulfil(v)
                && let What::Claim(c) = n.what
            {
                frees.extend(c.frees);
                names.extend(c.names);
            }
        }
        self.free_now(frees);
        for name in names {
            self.name_written(name);
        }
    }

    /// Asks for the runs to be marked free.
    pub(super) fn free_now(&mut self, runs: Vec<FragRun>) {
        if !runs.is_empty() {
            self.totals.frags += runs.iter().map(|r| u64::from(r.frags)).sum::<u64>();
            self.work.push_back(WorkItem::FreeBlks(runs));
        }
    }

    /// A pointer has another value than its chain: it was cleared, or its file cut short. What the
    /// chain kept from being freed goes to `frees`.
    fn drop_chain(&mut self, chain: Chain, frees: &mut Vec<FragRun>) {
        for v in chain.versions {
            if let Some(n) = self.fulfil(v)
                && let What::Claim(c) = n.what
            {
                frees.extend(c.frees);
                self.met_names.extend(c.names);
            }
        }
    }

    /// Brings the chains in line with `d`, which is stored now: pointers that were cleared, a last
    /// block cut short, a size below one that was held back.
    pub(super) fn reconcile(&mut self, ino: Ino, d: &Dinode) {
        let g = self.g;
        let Some(more) = self.inodes.get_mut(&ino).and_then(|r| r.more.as_mut()) else { return };
        // Images may show an older size, and the pointers up to it.
        let end = d.size.max(more.cut_tail(&self.nodes));
        let (mut frees, mut gone) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some((i, chain)) = more.slots.get_mut(at) {
            let pointer = pointer_of(d, usize::from(*i));
            let last = chain.versions.last().and_then(|id| self.nodes.get(*id));
            let within = g.lblktosize(first_of_slot(&g, (*i).into())) < end;
            let is_last = |n: &Node| matches!(&n.what, What::Claim(c) if c.run.at.0 == pointer);
            // A hole beyond the size is none.
            if last.is_some_and(is_last) && (pointer != 0 || within) {
                let have = g.blksize(d.size, Lbn(u64::from(*i))) / g.fsize;
                if usize::from(*i) < NDADDR && have > 0 {
                    chain.cut(&mut self.nodes, FragNo(pointer), have);
                }
                at += 1;
            } else {
                gone.push(more.slots.remove(at).1);
            }
        }
        let mut over: SmallVec<[Id; 2]> = SmallVec::new();
        // Without indirect blocks none of their pointers lies beyond the size.
        if d.ib == [0; NIADDR] {
            let of_maps = more.floors.iter().filter(|((block, _), _)| *block != TAIL);
            over.extend(of_maps.map(|(_, id)| *id));
        }
        for &id in more.ceilings.iter().rev() {
            match self.nodes.get(id).map(|n| &n.what) {
                Some(What::Ceiling { new, .. }) if *new > d.size => over.push(id),
                _ => break,
            }
        }
        for chain in gone {
            // The device may show what the hole hides.
            let hole = chain.versions.last().copied().filter(|id| self.is_hole(*id));
            hole.into_iter().for_each(|id| self.need_successor(id, ino));
            self.drop_chain(chain, &mut frees);
        }
        for id in over {
            self.need_successor(id, ino);
            self.bound_over(id);
        }
        if d.extsize == 0
            && let Some(id) = self.inodes.get_mut(&ino).and_then(|r| r.more.as_mut()?.ext.take())
        {
            self.ext_removed(ino, id);
        }
        self.free_after(ino, frees, &[]);
    }

    /// What waited for `id`, something of the inode that will never be on the device, waits for the inode without it.
    pub(super) fn need_successor(&mut self, id: Id, ino: Ino) {
        let waiting = self.nodes.get(id).map(|n| n.dependents.clone());
        for dep in waiting.into_iter().flatten() {
            self.need_inode(dep, ino, false);
        }
    }

    /// See [`crate::ordering::Event::IndirectTruncated`].
    pub(super) fn pointers_cleared(
        &mut self,
        ino: Ino,
        block: i64,
        entries: std::ops::Range<usize>,
        size: u64,
    ) {
        let key = BufKey::File(ino, block);
        self.touch(key);
        if holds(Rule::CutBeforeSize) {
            self.set_floor(ino, block, size, &entries);
        }
        let Some(all) = self.indirects.get_mut(&key) else { return };
        let within = entries.start as u32..entries.end as u32;
        let which: Vec<u32> = all.range(within).map(|(i, _)| *i).collect();
        let gone: Vec<Chain> = which.iter().filter_map(|i| all.remove(i)).collect();
        if all.is_empty() {
            self.indirects.remove(&key);
            self.end_reach(ino);
        }
        let mut frees = Vec::new();
        for chain in gone {
            self.drop_chain(chain, &mut frees);
        }
        self.free_after(ino, frees, &[block]);
    }

    /// An indirect block is gone, and its pointers with it.
    pub(super) fn forget_indirect(&mut self, ino: Ino, key: BufKey) {
        let Some(all) = self.indirects.remove(&key) else { return };
        self.end_reach(ino);
        let mut frees = Vec::new();
        for chain in all.into_values() {
            self.drop_chain(chain, &mut frees);
        }
        // The device may still show the way to this block.
        let above = self.indirects_above(key);
        self.free_after(ino, frees, &above);
    }

    /// The value of a chain that an image may show: its place in the chain, `None` for the base.
    /// `live` is the pointer in the block: the last value is not in it before its operation is sure.
    pub(super) fn shown(&self, chain: &Chain, live: u64) -> Option<usize> {
        self.shown_but(chain, live, |_| false)
    }

    /// As [`Engine::shown`], without values that wait (`kept`).
    pub(super) fn shown_but(
        &self,
        chain: &Chain,
        live: u64,
        kept: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let last = chain.versions.len().saturating_sub(1);
        (0..chain.versions.len()).rev().filter(|&k| !kept(k)).find(|&k| {
            let id = chain.versions.get(k).copied();
            let ready = id.and_then(|id| self.nodes.get(id)).is_some_and(Node::ready);
            let there = || id.and_then(|id| self.run_of(id)).is_some_and(|r| r.at.0 == live);
            ready && (k < last || there())
        })
    }

    pub(super) fn run_of(&self, id: Id) -> Option<FragRun> {
        match &self.nodes.get(id)?.what {
            What::Claim(c) => Some(c.run),
            _ => None,
        }
    }

    /// Takes back in an image of an inode what must not be seen. Tells what is in it, and whether
    /// anything was taken back.
    pub(super) fn compose(&self, d: &mut Dinode, more: &More, seen: &mut Vec<Id>) -> bool {
        let (live_size, live_blocks) = (d.size, self.blocks_of(d.size));
        let mut undone = false;
        let kept = self.tail_kept(d, more);
        let mut size = self.bounded_size(d.size, more, &mut undone);
        if let Some((_, old)) = kept.filter(|(_, old)| *old > size) {
            size = old;
        }
        d.size = size;
        let mut shown: SmallVec<[(usize, Id); 4]> = SmallVec::new();
        let mut hole_at = None;
        let which = self.shown_slots(d, more, kept);
        for ((i, chain), which) in more.slots.iter().zip(which) {
            let i = usize::from(*i);
            let id = which.and_then(|k| chain.versions.get(k)).copied();
            let run = id.map_or(chain.base, |id| self.run_of(id));
            if let Some(id) = id {
                shown.push((i, id));
            }
            if which.is_some_and(|k| k + 1 == chain.versions.len()) {
                set_pointer_of(d, i, run);
                continue;
            }
            undone = true;
            set_pointer_of(d, i, run);
            size = size.min(self.undo_limit(d, i, run));
            if i < NDADDR && run.is_none() {
                hole_at = Some(i);
            }
        }
        if let Some(i) = hole_at
            && self.blocks_of(size) == i as u64 + 1
        {
            size = self.end_of_direct(d, i);
        }
        d.size = size;
        if size < live_size {
            undone = true;
        }
        // No pointer is shown beyond the size.
        let blocks = self.blocks_of(size);
        let hidden = |i: usize| first_of_slot(&self.g, i).0;
        for i in 0..NDADDR + NIADDR {
            let past = hidden(i) >= blocks && pointer_of(d, i) != 0;
            if past && (blocks < live_blocks || more.slots.iter().any(|s| usize::from(s.0) == i)) {
                undone = true;
                set_pointer_of(d, i, None);
            }
        }
        let is_seen = |&&(i, id): &&(usize, Id)| hidden(i) < blocks || self.is_hole(id);
        seen.extend(shown.iter().filter(is_seen).map(|(_, id)| *id));
        let is_over = |id: &Id| self.bound_seen(*id, size, kept.is_some());
        seen.extend(more.bounds().copied().filter(is_over));
        undone | self.compose_ext(d, more, seen)
    }

    /// The largest size an image may show whose pointer `i` shows an older `run`.
    fn undo_limit(&self, d: &Dinode, i: usize, run: Option<FragRun>) -> u64 {
        let g = &self.g;
        let start = |i: usize| g.lblktosize(Lbn(i as u64));
        if i >= NDADDR {
            // A file's size is not taken back for its indirect blocks (A9); a directory has no hole.
            return if d.is_dir() { g.lblktosize(first_of_root(g, i - NDADDR)) } else { u64::MAX };
        }
        match run {
            Some(run) if run.frags < g.frag => start(i) + u64::from(run.frags * g.fsize),
            Some(_) => u64::MAX,
            None if d.is_dir() => start(i),
            None => u64::MAX,
        }
    }

    /// The end of the last block with a pointer before direct block `i`.
    fn end_of_direct(&self, d: &Dinode, i: usize) -> u64 {
        let before = d.db.iter().take(i).rposition(|&p| p != 0);
        before.map_or(0, |k| self.g.lblktosize(Lbn(k as u64 + 1)))
    }

    fn blocks_of(&self, size: u64) -> u64 {
        size.div_ceil(self.g.bsize.into())
    }

    /// Takes back in an image of an indirect block what must not be seen. Tells what is in it, and
    /// whether anything was taken back.
    pub(super) fn compose_indirect(
        &self,
        key: BufKey,
        bytes: &mut [u8],
        seen: &mut Vec<Id>,
    ) -> bool {
        let Some(all) = self.indirects.get(&key) else { return false };
        let mut undone = false;
        for (&i, chain) in all {
            let live = address(bmap::pointer(&self.g, bytes, i as usize));
            let which = self.shown(chain, live).filter(|_| self.reaches_to(key, i));
            let id = which.and_then(|k| chain.versions.get(k)).copied();
            seen.extend(id);
            let run = id.map_or(chain.base, |id| self.run_of(id));
            undone |= which.is_none_or(|k| k + 1 != chain.versions.len());
            bmap::set_pointer(&self.g, bytes, i as usize, pointer_to(run));
        }
        undone
    }

    /// Whether the size of the file on the device covers what pointer `i` of its indirect block names.
    pub(super) fn reaches_to(&self, key: BufKey, i: u32) -> bool {
        let BufKey::File(ino, name) = key else { return true };
        let more = self.inodes.get(&ino).and_then(|r| r.more.as_ref());
        let Some(reach) = more.and_then(|m| m.reach) else { return true };
        let Some(Named::Indirect { level, first }) = parse_name(&self.g, name) else {
            return true;
        };
        let skip = bmap::blocks_per_pointer(&self.g, level).saturating_mul(i.into());
        self.g.lblktosize(first.plus(skip)) < reach.durable
    }

    /// Whether the indirect block better waits: it shows what was cut off its file as gone already, but not
    /// yet the block that becomes the last one, so the file would end in a hole, and a check shorten it by
    /// that. Nothing that the claim needs needs this block, and no image leads to it without: of a block that no
    /// image shows this is no matter.
    pub(super) fn awaits_last(&self, key: BufKey) -> bool {
        self.awaited_last(key).is_some()
    }

    /// The claim that [`Engine::awaits_last`] is about.
    pub(super) fn awaited_last(&self, key: BufKey) -> Option<Id> {
        let BufKey::File(ino, block) = key else { return None };
        if !self.is_led_to(ino, block) {
            return None;
        }
        let held = |index: u32| {
            let claim = self.newest_claim(PtrSlot::Indirect { ino, block, index });
            let unready = |id| self.nodes.get(id).is_some_and(|n| !n.ready());
            claim.filter(|&id| unready(id) || !self.reaches_to(key, index))
        };
        self.more_of(ino)?.floors_of(block).find_map(|id| {
            let n = self.nodes.get(id)?;
            match &n.what {
                What::Floor(floor) if n.needs(Cond::Block(key)) => floor.last.and_then(held),
                _ => None,
            }
        })
    }

    /// Whether any image may show the way to an indirect block: not if the pointer to it, or one above, is new.
    fn is_led_to(&self, ino: Ino, block: i64) -> bool {
        let Some(Named::Indirect { first, .. }) = parse_name(&self.g, block) else { return true };
        let way = self.indirects_to(first);
        let above = way.iter().take_while(|(name, _)| *name != block);
        let above = above.map(|&(block, index)| PtrSlot::Indirect { ino, block, index });
        let root = PtrSlot::IndirectRoot(ino, way.len().saturating_sub(1));
        let mut claims = iter::once(root).chain(above).filter_map(|slot| self.newest_claim(slot));
        claims.all(|id| self.state(id) != Some(State::Never))
    }

    /// The indirect blocks on the way to a block, from the root down: in-core name, and index of the pointer.
    fn indirects_to(&self, lbn: Lbn) -> SmallVec<[(i64, u32); NIADDR]> {
        let mut way = SmallVec::new();
        let Some(Path::Indirect { levels, index }) = bmap::path(&self.g, lbn) else { return way };
        let mut first = first_of_root(&self.g, levels - 1);
        for (level, &index) in (1..=levels).rev().zip(&index) {
            way.push((bmap::indirect_name(first, level), index));
            let per = bmap::blocks_per_pointer(&self.g, level);
            first = first.plus(per.saturating_mul(index.into()));
        }
        way
    }

    /// The indirect blocks, by in-core name, on the way to a block of a file.
    pub(super) fn indirects_above(&self, key: BufKey) -> SmallVec<[i64; NIADDR]> {
        let BufKey::File(_, name) = key else { return SmallVec::new() };
        let (lbn, level) = match parse_name(&self.g, name) {
            Some(Named::Data(lbn)) => (lbn, 0),
            Some(Named::Indirect { level, first }) => (first, level),
            Some(Named::ExtAttr(_)) | None => return SmallVec::new(),
        };
        let way = self.indirects_to(lbn);
        let above = way.len().saturating_sub(level);
        way.iter().take(above).map(|(name, _)| *name).collect()
    }

    /// Newest values of the pointers on the way to block `lbn` of `ino` that are not durable; with
    /// `root` also the one in the inode.
    pub(super) fn claims_to(&self, ino: Ino, lbn: Lbn, root: bool) -> SmallVec<[Id; 4]> {
        if self.more_of(ino).is_none_or(|m| m.slots.is_empty()) && self.indirects.is_empty() {
            return SmallVec::new();
        }
        let mut slots: SmallVec<[PtrSlot; 4]> = SmallVec::new();
        let way = self.indirects_to(lbn);
        if root {
            slots.push(match (bmap::path(&self.g, lbn), way.len()) {
                (Some(Path::Direct(i)), _) => PtrSlot::Direct(ino, i),
                (_, levels @ 1..) => PtrSlot::IndirectRoot(ino, levels - 1),
                _ => return SmallVec::new(),
            });
        }
        let below = |&(block, index): &(i64, u32)| PtrSlot::Indirect { ino, block, index };
        slots.extend(way.iter().map(below));
        slots.into_iter().filter_map(|s| self.newest_claim(s)).collect()
    }

    /// `id` needs the pointers on the way to a block, as far as they are not durable.
    pub(super) fn need_claims(&mut self, id: Id, ino: Ino, lbn: Lbn, root: bool, anchor: bool) {
        for claim in self.claims_to(ino, lbn, root) {
            self.need_node(id, claim, Level::Durable, anchor);
        }
    }

    /// Frees `runs` when the inode as it is stored now is durable, and the indirect blocks `partial`
    /// with their pointers cleared.
    pub(super) fn free_after(&mut self, ino: Ino, runs: Vec<FragRun>, partial: &[i64]) {
        if runs.is_empty() {
            return;
        }
        if !holds(Rule::ClearBeforeFree) {
            return self.free_now(runs);
        }
        self.totals.frags += runs.iter().map(|r| u64::from(r.frags)).sum::<u64>();
        let id = self.add(What::Free { ino, runs: runs.into_boxed_slice() });
        self.more(ino).frees.replace(id);
        self.need_inode(id, ino, false);
        for &block in partial {
            // As it was when the pointers were cleared: there is no reason to write it once more.
            self.need_block(id, BufKey::File(ino, block));
        }
        let ext = self.more_of(ino).and_then(|m| m.ext);
        for on in ext.into_iter().chain(self.holes_to_show(ino)) {
            self.need_node(id, on, Level::Durable, false);
        }
        self.act_if_free(id);
    }
}

/// Where a pointer is.
enum Place {
    Inode(Ino, u8),
    Indirect(BufKey, u32),
}

fn place(slot: PtrSlot) -> Place {
    match slot {
        PtrSlot::Direct(ino, i) | PtrSlot::ExtAttr(ino, i) => Place::Inode(ino, i as u8),
        PtrSlot::IndirectRoot(ino, i) => Place::Inode(ino, (NDADDR + i) as u8),
        PtrSlot::Indirect { ino, block, index } => Place::Indirect(BufKey::File(ino, block), index),
    }
}

/// The first block that pointer `i` of an inode leads to.
pub(super) fn first_of_slot(g: &Geometry, i: usize) -> Lbn {
    if i < NDADDR { Lbn(i as u64) } else { first_of_root(g, i - NDADDR) }
}

/// Pointer `i` of an inode, the roots behind the direct ones; 0 for what cannot be one.
pub(super) fn pointer_of(d: &Dinode, i: usize) -> u64 {
    let p = d.db.get(i).or_else(|| d.ib.get(i.wrapping_sub(NDADDR)));
    p.map_or(0, |&p| address(p))
}

/// The address in a pointer; 0 for what cannot be one.
fn address(pointer: i64) -> u64 {
    u64::try_from(pointer).unwrap_or(0)
}

/// The pointer to a run; 0 for none.
pub(super) fn pointer_to(run: Option<FragRun>) -> i64 {
    run.map_or(0, |r| i64::try_from(r.at.0).unwrap_or(0))
}

fn set_pointer_of(d: &mut Dinode, i: usize, run: Option<FragRun>) {
    let to = pointer_to(run);
    let p = match d.db.get_mut(i) {
        Some(p) => Some(p),
        None => d.ib.get_mut(i.wrapping_sub(NDADDR)),
    };
    if let Some(p) = p {
        *p = to;
    }
}
