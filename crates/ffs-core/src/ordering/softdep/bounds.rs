//! Bounds on the size of a file that an image may show: ceilings for directories that grow, floors for
//! files that lose pointers in indirect blocks, or get a new end in a hole.
//!
//! # Invariants
//! 1. A file has no more floors for an indirect block than images of that block are under way, and one.

use super::Engine;
use super::blocks::Waiter;
use super::graph::{Floor, Id, What};
use super::holes::TAIL;
use super::inodes::More;
use crate::buf::BufKey;
use ffs_ondisk::Ino;

impl Engine {
    /// Images show no size below `size` until the indirect block is written without the pointers `entries`. A
    /// bound that waits for the same image is raised: there are no more of them than images.
    pub(super) fn set_floor(
        &mut self,
        ino: Ino,
        block: i64,
        size: u64,
        entries: &std::ops::Range<usize>,
    ) {
        let key = BufKey::File(ino, block);
        let last = entries.start.checked_sub(1).and_then(|i| u32::try_from(i).ok());
        let issued = self.blocks.get(&key).map_or(0, |rec| rec.issued);
        let id = match self.newest_floor(ino, block).filter(|&id| self.awaits(id, key) > issued) {
            Some(id) => id,
            None => self.add_floor(ino, block),
        };
        let to_end = entries.end >= self.g.nindir as usize;
        if let Some(What::Floor(floor)) = self.nodes.get_mut(id).map(|n| &mut n.what) {
            floor.size = floor.size.max(size);
            // A hole leaves pointers behind it.
            floor.last = if to_end { last } else { last.max(floor.last) };
        }
        self.need_block(id, key);
    }

    pub(super) fn add_floor(&mut self, ino: Ino, block: i64) -> Id {
        self.states += 1;
        let number = self.states;
        let floor = Floor { ino, block, number, size: 0, last: None };
        let id = self.add(What::Floor(Box::new(floor)));
        self.more(ino).floors.insert((block, number), id);
        id
    }

    pub(super) fn newest_floor(&self, ino: Ino, block: i64) -> Option<Id> {
        self.more_of(ino)?.floors_of(block).next_back()
    }

    /// The reason to write the block that the node waits for; 0 if it does not wait.
    fn awaits(&self, id: Id, key: BufKey) -> u64 {
        let rec = self.blocks.get(&key);
        rec.and_then(|rec| rec.waiters.get(&Waiter { id, since: 0 })).map_or(0, |w| w.since)
    }

    /// The size within its bounds.
    pub(super) fn bounded_size(&self, size: u64, more: &More, undone: &mut bool) -> u64 {
        let (mut least, mut most) = (size, size);
        self.count_steps(more.ceilings.len() + more.floors.len());
        for id in more.bounds() {
            let Some(n) = self.nodes.get(*id).filter(|n| !n.ready()) else { continue };
            *undone = true;
            match &n.what {
                What::Ceiling { limit, .. } => least = least.min(*limit),
                What::Floor(floor) => most = most.max(floor.size),
                _ => {}
            }
        }
        if most > size { most } else { least }
    }

    /// Whether an image with this size has no more use for the bound. `tail_kept`: it shows the old end of a
    /// file that was cut short.
    pub(super) fn bound_seen(&self, id: Id, size: u64, tail_kept: bool) -> bool {
        self.nodes.get(id).is_some_and(|n| match &n.what {
            What::Ceiling { new, .. } => n.ready() && size >= *new,
            What::Floor(floor) => n.ready() && !(tail_kept && floor.block == TAIL),
            _ => false,
        })
    }

    /// A bound on a size is not needed any more: its image was seen, or the size will not be is_durable_target.
    pub(super) fn bound_over(&mut self, id: Id) {
        let Some(n) = self.fulfil(id) else { return };
        match n.what {
            What::Ceiling { ino, .. } => {
                let Some(more) = self.inodes.get_mut(&ino).and_then(|r| r.more.as_mut()) else {
                    return;
                };
                // Mostly the first, or the last.
                if more.ceilings.front() == Some(&id) {
                    more.ceilings.pop_front();
                } else if more.ceilings.back() == Some(&id) {
                    more.ceilings.pop_back();
                } else {
                    more.ceilings.retain(|c| *c != id);
                }
            }
            What::Floor(floor) => {
                let more = self.inodes.get_mut(&floor.ino).and_then(|r| r.more.as_mut());
                more.map(|m| m.floors.remove(&(floor.block, floor.number)));
            }
            _ => {}
        }
    }
}
