//! The writes of blocks: which changes each block has, which of them a write was issued for, which
//! are durable, and the dependencies that wait.
//!
//! # Invariants
//! 1. Changes of blocks have numbers from one sequence. The buffer is marked dirty after its
//!    change got a number.
//! 2. A block that is not in the table has no change that is not durable.
//! 3. A dependency waits for a change that is noted and not durable.

use super::blocktable::BlockTable;
use super::dep::DepId;
use super::smallset::SmallSet;
use crate::buf::BufKey;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::ops::RangeInclusive;

/// A dependency that waits for a block or an inode, as it was at a number: of a change of the
/// block, or of a stored state of the inode. Two waiters are equal if their dependencies are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) id: DepId,
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

/// The dependencies that wait for a block or an inode.
#[derive(Debug, Default)]
pub(super) struct Waiters(SmallSet<Waiter>);

impl Waiters {
    pub(super) const EMPTY: Waiters = Waiters(SmallSet::EMPTY);

    /// `id` waits for the state `since`, or for a later one that it already waits for.
    pub(super) fn wait(&mut self, id: DepId, since: u64) {
        if let Some(before) = self.0.replace(Waiter { id, since })
            && before.since > since
        {
            self.0.replace(before);
        }
    }

    /// Removes the dependencies that wait for `durable` or an earlier number, and returns them.
    pub(super) fn take_due(&mut self, durable: u64) -> SmallVec<[DepId; 4]> {
        let mut due = SmallVec::new();
        self.0.retain(|waiter| {
            let waits = waiter.since > durable;
            if !waits {
                due.push(waiter.id);
            }
            waits
        });
        due
    }

    /// The number that `id` waits for.
    pub(super) fn since(&self, id: DepId) -> Option<u64> {
        self.0.get(&Waiter { id, since: 0 }).map(|waiter| waiter.since)
    }

    pub(super) fn stop(&mut self, id: DepId) {
        self.0.remove(&Waiter { id, since: 0 });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// The writes of one block, by the numbers of its changes.
#[derive(Debug)]
pub(super) struct BlockWrites {
    /// The last change.
    changed: u64,
    /// The last change in a write that was issued.
    issued: u64,
    /// The last change that is durable.
    durable: u64,
    waiters: Waiters,
}

/// The writes of all blocks.
#[derive(Debug, Default)]
pub(super) struct Writes {
    blocks: BlockTable<BlockWrites>,
    /// Number of the last change of any block.
    changes: u64,
}

impl Writes {
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The block has a change that must be written. Returns its number.
    pub(super) fn note_change(&mut self, key: BufKey) -> u64 {
        let before = self.changes;
        self.changes += 1;
        let block = self.blocks.get_or_insert(key, || BlockWrites {
            changed: before,
            issued: before,
            durable: before,
            waiters: Waiters::EMPTY,
        });
        block.changed = before + 1;
        block.changed
    }

    /// The number of the block's last change; `None` if all are durable.
    pub(super) fn last_change(&self, key: BufKey) -> Option<u64> {
        self.blocks.get(key).map(|block| block.changed)
    }

    /// `id` waits until the block's `change` is durable. Returns whether it is not.
    pub(super) fn wait(&mut self, id: DepId, key: BufKey, change: u64) -> bool {
        match self.blocks.get_mut(key) {
            Some(block) if block.durable < change => {
                block.waiters.wait(id, change);
                true
            }
            _ => false,
        }
    }

    /// `id` ended: it waits no more.
    pub(super) fn stop_waiting(&mut self, id: DepId, key: BufKey) {
        if let Some(block) = self.blocks.get_mut(key) {
            block.waiters.stop(id);
        }
    }

    /// The change of the block that `id` waits for.
    pub(super) fn waits_since(&self, id: DepId, key: BufKey) -> Option<u64> {
        self.blocks.get(key)?.waiters.since(id)
    }

    /// The dependencies that wait for the block.
    pub(super) fn waiting(&self, key: BufKey) -> impl Iterator<Item = DepId> {
        let block = self.blocks.get(key);
        block.into_iter().flat_map(|block| block.waiters.iter().map(|waiter| waiter.id))
    }

    /// A write of the block is issued. Returns the last change that it contains, if it has any that
    /// is not durable.
    pub(super) fn issue(&mut self, key: BufKey) -> Option<u64> {
        let block = self.blocks.get_mut(key)?;
        block.issued = block.changed;
        Some(block.changed)
    }

    /// The last change in a write that was issued; 0 if none is known.
    pub(super) fn last_issued(&self, key: BufKey) -> u64 {
        self.blocks.get(key).map_or(0, |block| block.issued)
    }

    /// The block's changes up to `change` are durable. Returns the dependencies that waited for
    /// them, and how many there were that waited for the block.
    pub(super) fn set_durable(
        &mut self,
        key: BufKey,
        change: u64,
    ) -> (SmallVec<[DepId; 4]>, usize) {
        // All changes were durable already, or the block was discarded during the write.
        let Some(block) = self.blocks.get_mut(key) else { return Default::default() };
        block.durable = block.durable.max(change);
        let waiting = block.waiters.len();
        let due = block.waiters.take_due(change);
        if block.durable == block.changed && block.waiters.is_empty() {
            self.blocks.remove(key);
        }
        (due, waiting)
    }

    /// The block will not be written. Returns the dependencies that waited for it.
    pub(super) fn remove(&mut self, key: BufKey) -> Option<Waiters> {
        self.blocks.remove(key).map(|block| block.waiters)
    }

    /// The blocks of a range of keys.
    pub(super) fn keys(&self, range: RangeInclusive<BufKey>) -> impl Iterator<Item = BufKey> {
        self.blocks.range(range).map(|(key, _)| key)
    }

    /// Whether all changes of a range of keys are durable.
    pub(super) fn are_durable(&self, range: RangeInclusive<BufKey>) -> bool {
        self.blocks.range(range).all(|(_, block)| block.durable >= block.changed)
    }

    /// Checks the third invariant; `requires` is whether a dependency requires a block.
    pub(super) fn audit(&self, requires: impl Fn(DepId, BufKey) -> bool) -> Result<(), String> {
        for (key, block) in self.blocks.iter() {
            for waiter in block.waiters.iter() {
                let since = block.durable + 1..=block.changed;
                if !requires(waiter.id, key) || !since.contains(&waiter.since) {
                    return Err(format!("{waiter:?} waits for {key:?}, changes {since:?}"));
                }
            }
            if block.issued > block.changed || block.durable > block.changed {
                return Err(format!("{key:?}: {block:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.bytes()
            + self.blocks.iter().map(|(_, block)| block.waiters.bytes()).sum::<usize>()
    }
}

impl IntoIterator for Waiters {
    type Item = Waiter;
    type IntoIter = <SmallSet<Waiter> as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
