//! All inodedeps, by inode.
//!
//! # Invariants
//! 1. The inodedeps are in one arena. The index has a group of keys for neighbouring inodes, as the
//!    files of a directory mostly are: it is small, and most steps of operations look into it.
//! 2. An inodedep is idle only between its last change and the next [`InodeDeps::drop_idle`].

use super::super::arena::Arena;
use super::super::dep::DepId;
use super::super::heap::{table_bytes, take};
use super::super::invariant::broken;
use super::{Init, InodeDep, InodeExtra, ShownInode};
use crate::sparse_array::SparseArray;
use ffs_ondisk::Ino;
use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::num::NonZeroU32;

/// Inodes in a group of the index.
const GROUP: usize = 16;

/// The group of an inode, and the place in it.
fn group_of(ino: Ino) -> (u32, usize) {
    (ino.0 / GROUP as u32, ino.0 as usize % GROUP)
}

/// All inodedeps.
#[derive(Debug)]
pub(in super::super) struct InodeDeps {
    /// Slots of groups in `groups`.
    index: HashMap<u32, u32, FixedState>,
    /// Slots of inodedeps in `deps`, plus one: so that an empty place takes no more memory.
    groups: Arena<SparseArray<NonZeroU32, GROUP>>,
    deps: Arena<InodeDep>,
    /// Number of the last state of any inode.
    states: u64,
}

impl InodeDeps {
    pub(in super::super) fn new() -> InodeDeps {
        let (groups, deps) = (Arena::new(), Arena::new());
        InodeDeps { index: HashMap::default(), groups, deps, states: 0 }
    }

    pub(in super::super) fn len(&self) -> usize {
        self.deps.len()
    }

    fn slot(&self, ino: Ino) -> Option<u32> {
        let (group, at) = group_of(ino);
        let group = self.groups.at(*self.index.get(&group)?)?;
        group.get(at).map(|slot| slot.get() - 1)
    }

    pub(in super::super) fn get(&self, ino: Ino) -> Option<&InodeDep> {
        self.deps.at(self.slot(ino)?)
    }

    fn get_mut(&mut self, ino: Ino) -> Option<&mut InodeDep> {
        self.deps.at_mut(self.slot(ino)?)
    }

    /// The inodedep of `ino`, made if there is none.
    fn entry(&mut self, ino: Ino) -> &mut InodeDep {
        let InodeDeps { index, groups, deps, .. } = self;
        let (group, at) = group_of(ino);
        let group =
            *index.entry(group).or_insert_with(|| groups.insert(SparseArray::default()).slot());
        let group = groups.at_mut(group).unwrap_or_else(|| unreachable!("the index names groups"));
        let slot = group.get_or_insert_with(at, || {
            NonZeroU32::MIN.saturating_add(deps.insert(InodeDep::NEW).slot())
        });
        deps.at_mut(slot.get() - 1).unwrap_or_else(|| unreachable!("a group names inodedeps"))
    }

    fn remove(&mut self, ino: Ino) -> Option<InodeDep> {
        let (number, at) = group_of(ino);
        let of_group = *self.index.get(&number)?;
        let group = self.groups.at_mut(of_group)?;
        let slot = group.take(at)?;
        if group.is_empty() {
            self.groups.remove_at(of_group);
            take(&mut self.index, &number);
        }
        self.deps.remove_at(slot.get() - 1)
    }

    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (Ino, &InodeDep)> {
        self.index.iter().flat_map(move |(number, group)| {
            (0..GROUP).filter_map(move |at| {
                let slot = self.groups.at(*group)?.get(at)?;
                Some((Ino(number * GROUP as u32 + at as u32), self.deps.at(slot.get() - 1)?))
            })
        })
    }

    /// Removes the inodedep if it is idle.
    pub(in super::super) fn drop_idle(&mut self, ino: Ino) {
        // Several steps of one event call this; the first one may have removed it.
        let Some(dep) = self.get_mut(ino) else { return };
        if let Some(extra) = dep.extra.as_mut().filter(|_| dep.names.is_empty()) {
            extra.exchanged = false;
        }
        if dep.extra.as_ref().is_some_and(|extra| extra.is_empty()) {
            dep.extra = None;
        }
        if dep.is_idle() {
            self.remove(ino);
        }
    }

    /// A number that no state and no write has yet.
    pub(in super::super) fn next_number(&mut self) -> u64 {
        self.states += 1;
        self.states
    }

    /// `ino` was allocated; `bitmap_durable`: the device marks it used. Returns the number of the
    /// allocation.
    pub(in super::super) fn allocate(&mut self, ino: Ino, bitmap_durable: bool) -> u64 {
        let number = self.next_number();
        let dep = self.entry(ino);
        dep.init = Init::New { bitmap_durable, issued: false };
        (dep.allocated, dep.stored) = (number, number);
        number
    }

    /// The device marks the inode used; `allocation`: the low half of the number of its allocation.
    pub(in super::super) fn bitmap_durable(&mut self, ino: Ino, allocation: u32) {
        if let Some(dep) = self.get_mut(ino)
            && dep.allocated as u32 == allocation
            && let Init::New { bitmap_durable, .. } = &mut dep.init
        {
            *bitmap_durable = true;
        }
    }

    /// The inode is stored in a state that a dependency may wait for.
    pub(in super::super) fn note_state(&mut self, ino: Ino) {
        let number = self.next_number();
        self.entry(ino).stored = number;
    }

    /// `id` waits until the inode as it is stored now is durable. Returns whether it is not.
    pub(in super::super) fn wait(&mut self, id: DepId, ino: Ino) -> bool {
        // An inode without an inodedep is durable as it is stored.
        let Some(dep) = self.get_mut(ino) else { return false };
        let state = match dep.init {
            Init::New { .. } => dep.stored.max(dep.allocated + 1),
            Init::Done => dep.stored,
        };
        let waits = dep.durable < state;
        if waits {
            dep.waiters.wait(id, state);
        }
        waits
    }

    /// `id` ended: it waits no more.
    pub(in super::super) fn stop_waiting(&mut self, id: DepId, ino: Ino) {
        if let Some(dep) = self.get_mut(ino) {
            dep.waiters.stop(id);
        }
    }

    /// A write that shows the inode with `size`, in bytes, is issued. The size counts only while
    /// the size on the device is tracked.
    pub(in super::super) fn mark_issued(&mut self, ino: Ino, size: u64) -> Option<ShownInode> {
        let write = self.next_number();
        let dep = self.get_mut(ino)?;
        if let Init::New { issued, .. } = &mut dep.init {
            *issued = true;
        }
        if let Some(on_device) = dep.extra.as_mut().and_then(|extra| extra.device_size.as_mut()) {
            on_device.issue(write, size);
        }
        Some(ShownInode { ino, state: dep.stored, write })
    }

    /// A write that shows the inode is durable. Returns the dependencies that waited for it, and
    /// how many there were that waited for the inode.
    pub(in super::super) fn set_durable(
        &mut self,
        shown: ShownInode,
    ) -> (SmallVec<[DepId; 4]>, usize) {
        let ShownInode { ino, state, write } = shown;
        // The inodedep became idle, or the inode was freed, while the write was in flight.
        let Some(dep) = self.get_mut(ino) else { return Default::default() };
        if let Some(on_device) = dep.extra.as_mut().and_then(|extra| extra.device_size.as_mut()) {
            on_device.set_durable(write);
        }
        dep.durable = dep.durable.max(state);
        if state > dep.allocated {
            dep.init = Init::Done;
        }
        let waiting = dep.waiters.len();
        (dep.waiters.take_due(state), waiting)
    }

    /// An inode that no write contained is free again. Returns the dependencies that waited for it.
    /// The link delta and the names of its previous use stay.
    pub(in super::super) fn forget_new(&mut self, ino: Ino) -> SmallVec<[DepId; 4]> {
        let Some(mut dep) = self.remove(ino) else {
            broken("an inode without an inodedep is forgotten");
            return SmallVec::new();
        };
        let due = dep.waiters.take_due(u64::MAX);
        if dep.nlink_delta > 0 || !dep.names.is_empty() {
            let kept = self.entry(ino);
            (kept.nlink_delta, kept.names) = (dep.nlink_delta, dep.names);
        }
        due
    }

    pub(in super::super) fn is_hidden(&self, ino: Ino) -> bool {
        self.get(ino).is_some_and(InodeDep::is_hidden)
    }

    pub(in super::super) fn is_unwritten(&self, ino: Ino) -> bool {
        self.get(ino).is_some_and(InodeDep::is_unwritten)
    }

    /// Names that are not reachable, oldest first.
    pub(in super::super) fn names(&self, ino: Ino) -> &[DepId] {
        self.get(ino).map(InodeDep::names).unwrap_or_default()
    }

    pub(in super::super) fn newest_name(&self, ino: Ino) -> Option<DepId> {
        self.names(ino).last().copied()
    }

    pub(in super::super) fn push_name(&mut self, ino: Ino, id: DepId) {
        self.entry(ino).names.push(id);
    }

    /// `id` is reachable, or removed: it is not listed any more.
    pub(in super::super) fn unlist_name(&mut self, ino: Ino, id: DepId) {
        if let Some(dep) = self.get_mut(ino) {
            dep.names.retain(|name| *name != id);
            self.drop_idle(ino);
        }
    }

    /// The drops of the names that the file had before a rename.
    pub(in super::super) fn old_names(&self, ino: Ino) -> &[DepId] {
        self.get(ino).map(InodeDep::old_names).unwrap_or_default()
    }

    pub(in super::super) fn push_old_name(&mut self, ino: Ino, id: DepId) {
        self.entry(ino).old_names.push(id);
    }

    /// `by` drops the link from now on that `id` dropped.
    pub(in super::super) fn replace_old_name(&mut self, ino: Ino, id: DepId, by: DepId) {
        if let Some(dep) = self.get_mut(ino) {
            dep.old_names.iter_mut().filter(|name| **name == id).for_each(|name| *name = by);
        }
    }

    /// `id`, which drops a link of `ino`, ended.
    pub(in super::super) fn unlist_drop(&mut self, ino: Ino, id: DepId) {
        if let Some(dep) = self.get_mut(ino) {
            dep.old_names.retain(|drop| *drop != id);
            if let Some(extra) = &mut dep.extra {
                extra.link_drops.retain(|drop| *drop != id);
            }
            self.drop_idle(ino);
        }
    }

    /// Links that the stored count has more than the file.
    pub(in super::super) fn nlink_delta(&self, ino: Ino) -> u16 {
        self.get(ino).map_or(0, |dep| dep.nlink_delta)
    }

    /// All inodes whose stored count has more links than the file.
    pub(in super::super) fn nlink_deltas(&self) -> Vec<(Ino, u16)> {
        let all = self.iter().map(|(ino, dep)| (ino, dep.nlink_delta));
        all.filter(|(_, delta)| *delta > 0).collect()
    }

    pub(in super::super) fn raise_nlink_delta(&mut self, ino: Ino, by: u16) {
        let dep = self.entry(ino);
        dep.nlink_delta = dep.nlink_delta.saturating_add(by);
    }

    /// Returns the remaining delta.
    pub(in super::super) fn lower_nlink_delta(&mut self, ino: Ino, by: u16) -> u16 {
        // Without an inodedep the stored count is that of the file.
        let Some(dep) = self.get_mut(ino) else { return 0 };
        dep.nlink_delta = dep.nlink_delta.saturating_sub(by);
        let left = dep.nlink_delta;
        self.drop_idle(ino);
        left
    }

    pub(in super::super) fn extra(&self, ino: Ino) -> Option<&InodeExtra> {
        self.get(ino)?.extra.as_deref()
    }

    pub(in super::super) fn extra_mut(&mut self, ino: Ino) -> Option<&mut InodeExtra> {
        self.get_mut(ino)?.extra.as_deref_mut()
    }

    pub(in super::super) fn extra_or_default(&mut self, ino: Ino) -> &mut InodeExtra {
        self.entry(ino).extra.get_or_insert_default()
    }

    /// Checks the inodedeps; `requires` is whether a dependency requires an inode.
    ///
    /// # Errors
    /// The first invariant that does not hold, in words.
    pub(in super::super) fn audit(
        &self,
        requires: impl Fn(DepId, Ino) -> bool,
    ) -> Result<(), String> {
        let mut listed = 0;
        for (ino, dep) in self.iter() {
            listed += 1;
            for waiter in dep.waiters.iter() {
                if !requires(waiter.id, ino) || waiter.since <= dep.durable {
                    return Err(format!("{waiter:?} waits for {ino:?}: {dep:?}"));
                }
            }
            if dep.stored > self.states || dep.durable > self.states || dep.is_idle() {
                return Err(format!("{ino:?} of {} states: {dep:?}", self.states));
            }
        }
        if listed != self.deps.len() {
            return Err(format!("{listed} inodedeps, counted {}", self.deps.len()));
        }
        Ok(())
    }

    pub(in super::super) fn bytes(&self) -> usize {
        table_bytes::<(u32, u32)>(self.index.capacity())
            + self.groups.bytes()
            + self.deps.bytes()
            + self.deps.values().map(InodeDep::heap_bytes).sum::<usize>()
    }

    /// Whether `id` waits for the inode.
    pub(in super::super) fn is_waiting(&self, id: DepId, ino: Ino) -> bool {
        self.get(ino).is_some_and(|dep| dep.waiters.since(id).is_some())
    }
}
