//! Blocks that are written as they are: groups, file data, and all others as far as it only
//! matters that they were written.
//!
//! # Invariants
//! 1. Reasons to write blocks are numbered, all in one row; whoever gives a block one has the buffer
//!    marked dirty afterwards. A block without a record has no reason left: all of it is durable.
//! 2. A group's image is held back while inode blocks that it counts were never written.

use super::Engine;
use super::graph::{Cond, Id, What};
use super::memory::heap;
use super::set::Set;
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::{Ino, Lbn};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};

/// A node that waits for a block, or for an inode, as it was at a time: the number of a reason to write the
/// block, or of a state of the inode. Two are the same if their nodes are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) id: Id,
    pub(super) since: u64,
}

impl Ord for Waiter {
    fn cmp(&self, other: &Waiter) -> Ordering {
        self.id.cmp(&other.id)
    }
}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Waiter) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Waiter) -> bool {
        self.id == other.id
    }
}

impl Eq for Waiter {}

impl Set<Waiter> {
    /// The node waits for nothing earlier than `since` from now on.
    pub(super) fn wait(&mut self, id: Id, since: u64) {
        if let Some(before) = self.replace(Waiter { id, since })
            && before.since > since
        {
            self.replace(before);
        }
    }

    /// Takes out the nodes that wait for nothing later than `upto`.
    pub(super) fn due(&mut self, upto: u64) -> SmallVec<[Id; 4]> {
        let mut due = SmallVec::new();
        self.retain(|w| {
            let yet = w.since > upto;
            if !yet {
                due.push(w.id);
            }
            yet
        });
        due
    }

    pub(super) fn has(&self, id: Id) -> bool {
        self.contains(&Waiter { id, since: 0 })
    }

    /// The node waits no more.
    pub(super) fn stop(&mut self, id: Id) {
        self.remove(&Waiter { id, since: 0 });
    }
}

/// A new inode that waits for its group's map to be written for reason `seq`.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewInode {
    pub(super) seq: u64,
    pub(super) ino: Ino,
    /// The low half of its state when it was taken, as it may be taken again (but not four billion states
    /// later while the map is not written).
    pub(super) taken: u32,
}

/// What is known of a block.
#[derive(Debug, Default)]
pub(super) struct BlockRec {
    /// The last reason to write it.
    pub(super) seq: u64,
    /// The last one answered by an image, durable or not.
    pub(super) issued: u64,
    /// The last one answered by an image that is durable.
    pub(super) durable: u64,
    pub(super) waiters: Set<Waiter>,
    /// Of a group; in the order of their reasons.
    pub(super) new_inodes: VecDeque<NewInode>,
    /// Groups that wait for the first image of this inode block, and for which reason to write it.
    pub(super) holding: SmallVec<[(u64, BufKey); 1]>,
    /// Inode blocks that must be written before this group.
    pub(super) held_by: Vec<BufKey>,
}

impl BlockRec {
    pub(super) fn bytes(&self) -> usize {
        size_of::<BlockRec>()
            + self.waiters.bytes()
            + self.new_inodes.capacity() * size_of::<NewInode>()
            + heap(&self.holding)
            + self.held_by.capacity() * size_of::<BufKey>()
    }

    fn is_finished(&self) -> bool {
        self.durable == self.seq
            && self.waiters.is_empty()
            && self.new_inodes.is_empty()
            && self.holding.is_empty()
            && self.held_by.is_empty()
    }
}

impl Engine {
    /// There is a new reason to write the block.
    pub(super) fn touch(&mut self, key: BufKey) -> u64 {
        self.touched(key).seq
    }

    /// As [`Engine::touch`]; answers the block's record.
    pub(super) fn touched(&mut self, key: BufKey) -> &mut BlockRec {
        let before = self.reasons;
        self.reasons += 1;
        let rec = self.block(key, before);
        rec.seq = before + 1;
        rec
    }

    /// The block's record; a new one begins with `reasons` answered.
    fn block(&mut self, key: BufKey, reasons: u64) -> &mut BlockRec {
        let (seq, issued, durable) = (reasons, reasons, reasons);
        let fresh = || BlockRec { seq, issued, durable, ..BlockRec::default() };
        self.blocks.entry(key).or_insert_with(fresh)
    }

    /// `id` needs all that there is to write of the block now.
    pub(super) fn need_block(&mut self, id: Id, key: BufKey) {
        let Some(rec) = self.blocks.get(&key) else { return };
        let seq = rec.seq;
        self.need_block_at(id, key, seq);
    }

    /// `id` needs the block as it was at reason `seq`.
    pub(super) fn need_block_at(&mut self, id: Id, key: BufKey, seq: u64) {
        let Some(rec) = self.blocks.get_mut(&key) else { return };
        if rec.durable < seq && self.nodes.contains_key(id) {
            rec.waiters.wait(id, seq);
            self.note(id, Cond::Block(key), false);
        }
    }

    /// The node is gone.
    pub(super) fn stop_waiting_for_block(&mut self, id: Id, key: BufKey) {
        if let Some(rec) = self.blocks.get_mut(&key) {
            rec.waiters.stop(id);
        }
    }

    /// The block's image of reason `seq` is durable.
    pub(super) fn block_durable(&mut self, key: BufKey, seq: u64) {
        let Some(rec) = self.blocks.get_mut(&key) else { return };
        rec.durable = rec.durable.max(seq);
        self.steps.set(self.steps.get() + rec.waiters.len() as u64);
        let due = rec.waiters.due(seq);
        let mapped = rec.new_inodes.partition_point(|new| new.seq <= seq);
        let mapped: SmallVec<[NewInode; 4]> = rec.new_inodes.drain(..mapped).collect();
        let mut groups: SmallVec<[BufKey; 1]> = SmallVec::new();
        rec.holding.retain(|(at, group)| {
            let yet = *at > seq;
            if !yet {
                groups.push(*group);
            }
            yet
        });
        if rec.is_finished() {
            self.blocks.remove(&key);
        }
        self.edges -= mapped.len() as u64;
        for new in mapped {
            self.map_durable(new.ino, new.taken);
        }
        for group in groups {
            if let Some(rec) = self.blocks.get_mut(&group) {
                rec.held_by.retain(|k| *k != key);
            }
        }
        for id in due {
            self.need_shown(id, key);
            self.meet(id, Cond::Block(key));
        }
    }

    /// What waits for a directory block to lose a name also waits for the directory to show that block:
    /// as long as it shows an older one, the name is there.
    fn need_shown(&mut self, id: Id, key: BufKey) {
        let BufKey::File(ino, lbn @ 0..) = key else { return };
        if self.awaits_removal(id) && holds(Rule::MovedBlock) {
            self.need_claims(id, ino, Lbn(lbn.unsigned_abs()), true, false);
        }
    }

    /// Whether the node, if it needs a directory block, needs it to lose a name.
    fn awaits_removal(&self, id: Id) -> bool {
        let what = self.nodes.get(id).map(|n| &n.what);
        matches!(what, Some(What::Unlink { .. } | What::Name(_)))
    }

    /// A directory was cut to `size` bytes, perhaps in the middle of a block: what was removed behind that is
    /// gone with the inode, and not with what is left of the block.
    pub(super) fn directory_cut(&mut self, dir: Ino, size: u64) {
        let lbn = i64::try_from(self.g.lblkno(size).0).unwrap_or(i64::MAX);
        let Some(rec) = self.blocks.get(&BufKey::File(dir, lbn)) else { return };
        let waiting = rec.waiters.iter().map(|w| w.id);
        let waiting: Vec<Id> = waiting.filter(|id| self.awaits_removal(*id)).collect();
        for id in waiting {
            self.need_shorter(id, dir);
        }
    }

    /// `id` needs the way gone to what was cut off: the inode as it is stored now, and every indirect block that
    /// lost pointers and for which the size is held back.
    pub(super) fn need_shorter(&mut self, id: Id, ino: Ino) {
        self.need_inode(id, ino, false);
        for block in self.maps_to_clear(ino) {
            self.need_block(id, BufKey::File(ino, block));
        }
    }

    /// The indirect blocks, by in-core name, for which the size of `ino` is held back; each once.
    pub(super) fn maps_to_clear(&self, ino: Ino) -> BTreeSet<i64> {
        let Some(more) = self.more_of(ino) else { return BTreeSet::new() };
        self.count_steps(more.floors.len());
        let floors = more.floors.values().filter_map(|on| self.nodes.get(*on));
        floors
            .flat_map(|n| n.needs.iter())
            .filter_map(|need| match need.cond() {
                Cond::Block(BufKey::File(_, block)) => Some(block),
                _ => None,
            })
            .collect()
    }

    /// The group waits for the first image of the inode block.
    pub(super) fn hold_group(&mut self, group: BufKey, fresh: BufKey) {
        let rec = self.touched(fresh);
        rec.holding.push((rec.seq, group));
        let reasons = self.reasons;
        self.block(group, reasons).held_by.push(fresh);
    }

    /// Whether the group must not be written yet.
    pub(super) fn is_held(&self, key: BufKey) -> bool {
        holds(Rule::FreshBeforeGroup)
            && self.blocks.get(&key).is_some_and(|rec| !rec.held_by.is_empty())
    }

    /// The buffer of a block of `ino` is gone: it will not be written. What waited for it waits for the
    /// inode that does not have the block any more, and for the indirect blocks on the way to it: one of them
    /// lost the pointer, if the inode did not.
    pub(super) fn forget_block(&mut self, ino: Ino, key: BufKey) {
        let Some(rec) = self.blocks.remove(&key) else { return };
        let above = self.indirects_above(key);
        for Waiter { id, .. } in rec.waiters {
            if let Some(What::Ext(x)) = self.nodes.get_mut(id).map(|n| &mut n.what) {
                // Never written: it is shown nowhere.
                x.new = [0; 2];
            }
            self.need_inode(id, ino, false);
            for &above in &above {
                self.need_block(id, BufKey::File(ino, above));
            }
            self.meet(id, Cond::Block(key));
        }
    }
}
