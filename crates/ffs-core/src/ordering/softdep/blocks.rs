//! Blocks that are written as they are: groups, file data, and all others as far as it only
//! matters that they were written.
//!
//! # Invariants
//! 1. Reasons to write blocks are numbered, all in one row; whoever gives a block one has the buffer
//!    marked dirty afterwards. A block without a record has no reason left: all of it is durable.
//! 2. A group's image is held back while inode blocks that it counts were never written.

use super::Engine;
use super::graph::{Cond, Id, What};
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::{Ino, Lbn};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Who waits for a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiter {
    Node(Id),
    /// A new inode, for its group's map; the low half of its state when it was taken, as it may be taken
    /// again (but not four billion states later while the map is not written).
    NewInode(Ino, u32),
    /// A group, for the first image of an inode block.
    Group(BufKey),
}

/// What is known of a block.
#[derive(Debug, Default)]
pub(super) struct BlockRec {
    /// The last reason to write it.
    pub(super) seq: u64,
    /// The last one answered by an image that is durable.
    pub(super) durable: u64,
    pub(super) waiters: VecDeque<(u64, Waiter)>,
    /// Inode blocks that must be written before this group.
    pub(super) held_by: Vec<BufKey>,
}

impl BlockRec {
    pub(super) fn bytes(&self) -> usize {
        size_of::<BlockRec>()
            + self.waiters.capacity() * size_of::<(u64, Waiter)>()
            + self.held_by.capacity() * size_of::<BufKey>()
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
        let fresh = || BlockRec { seq: reasons, durable: reasons, ..BlockRec::default() };
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
        if rec.durable < seq {
            rec.waiters.push_back((seq, Waiter::Node(id)));
            self.note(id, Cond::Block(key), false);
        }
    }

    /// The block's image of reason `seq` is durable.
    pub(super) fn block_durable(&mut self, key: BufKey, seq: u64) {
        let Some(rec) = self.blocks.get_mut(&key) else { return };
        rec.durable = rec.durable.max(seq);
        let mut due = Vec::new();
        rec.waiters.retain(|&(at, w)| {
            if at <= seq {
                due.push(w);
            }
            at > seq
        });
        let finished = rec.durable == rec.seq && rec.waiters.is_empty() && rec.held_by.is_empty();
        if finished {
            self.blocks.remove(&key);
        }
        for w in due {
            match w {
                Waiter::Node(id) => {
                    self.need_shown(id, key);
                    self.meet(id, Cond::Block(key));
                }
                Waiter::NewInode(ino, since) => self.map_durable(ino, since),
                Waiter::Group(group) => {
                    if let Some(rec) = self.blocks.get_mut(&group) {
                        rec.held_by.retain(|k| *k != key);
                    }
                }
            }
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
        let waiting: Vec<Id> = (rec.waiters.iter())
            .filter_map(|(_, w)| match w {
                Waiter::Node(id) => Some(*id),
                Waiter::NewInode(..) | Waiter::Group(_) => None,
            })
            .filter(|id| self.awaits_removal(*id))
            .collect();
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

    /// The indirect blocks, by in-core name, for which the size of `ino` is held back.
    pub(super) fn maps_to_clear(&self, ino: Ino) -> SmallVec<[i64; 2]> {
        let holds = self.more_of(ino).map(|m| m.holds.as_slice()).unwrap_or_default();
        let keeps = holds.iter().filter_map(|on| self.nodes.get(*on));
        keeps
            .filter(|n| matches!(n.what, What::Keep { .. }))
            .flat_map(|n| n.needs.iter())
            .filter_map(|need| match need.cond() {
                Cond::Block(BufKey::File(_, block)) => Some(block),
                _ => None,
            })
            .collect()
    }

    /// The group waits for the first image of the inode block.
    pub(super) fn hold_group(&mut self, group: BufKey, fresh: BufKey) {
        let seq = self.touch(fresh);
        if let Some(rec) = self.blocks.get_mut(&fresh) {
            rec.waiters.push_back((seq, Waiter::Group(group)));
        }
        let reasons = self.reasons;
        self.block(group, reasons).held_by.push(fresh);
    }

    /// Whether the group must not be written yet.
    pub(super) fn is_held(&self, key: BufKey) -> bool {
        holds(Rule::FreshBeforeGroup)
            && self.blocks.get(&key).is_some_and(|rec| !rec.held_by.is_empty())
    }

    /// The buffer of a block of `ino` is gone: it will not be written. What waited for it to lose
    /// a name waits for the inode that does not have the block any more.
    pub(super) fn forget_block(&mut self, ino: Ino, key: BufKey) {
        let Some(rec) = self.blocks.remove(&key) else { return };
        for (_, w) in rec.waiters {
            if let Waiter::Node(id) = w
                && let Some(n) = self.nodes.get_mut(id)
                && let Some(i) = n.needs.iter().position(|need| need.cond() == Cond::Block(key))
            {
                n.needs.remove(i);
                if let What::Ext(x) = &mut n.what {
                    // Never written: it is shown nowhere.
                    x.new = [0; 2];
                }
                self.need_shorter(id, ino);
                if self.nodes.get(id).is_some_and(|n| n.needs.is_empty()) {
                    self.all_met(id);
                }
            }
        }
    }
}
