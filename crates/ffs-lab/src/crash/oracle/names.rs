//! The names that a crash may leave.
//!
//! A *cell* is a component of a directory. Over time it names several objects, or none. The *floor*
//! of a cell is the position of its durable value: a crash cannot bring back an earlier value.
//!
//! # Invariants
//! 1. The first value of a cell is "no object", before all operations of the workload.
//! 2. An object *must survive* from the first durability guarantee that covers one of its names
//!    until its last name is removed. After a crash at least one of its names must exist (X1).
//!
//! References: `spec/fsck-and-crash.md` §9 G1, G2, G14 to G16, G21, §11.4 X1, X2, X4;
//! `spec/soft-updates.md` §8.1.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{Name, ObjId, ROOT};
use super::cell::{Cell, Fit};
use super::renames::{Exchange, Publication, Removal, Rename};

/// The names of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    /// The cells that name it now.
    cells: Vec<usize>,
    /// The cells that a rename moved it out of, each with the position of the value after that.
    pub(super) left: Vec<(usize, usize)>,
    /// Whether a crash must leave it at least one name.
    must_survive: bool,
}

/// The names of all objects of a workload.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) cells: Vec<Cell>,
    pub(super) renames: Vec<Rename>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) published: Vec<Publication>,
    pub(super) removed: Vec<Removal>,
    /// The cells of each directory by component.
    dirs: BTreeMap<ObjId, BTreeMap<Vec<u8>, usize>>,
    objects: Vec<Named>,
    /// Values assigned so far, over all cells.
    assigned: u32,
    /// The length of the device's log, in events, when the current call had returned.
    pub(super) ended: u64,
}

impl Names {
    pub(super) fn object(&mut self, obj: ObjId) -> &mut Named {
        let at = obj.0 as usize;
        if self.objects.len() <= at {
            self.objects.resize(at + 1, Named::default());
        }
        &mut self.objects[at]
    }

    pub(super) fn cell(&mut self, name: &Name) -> usize {
        let cells = self.dirs.entry(name.dir).or_default();
        if let Some(&at) = cells.get(&name.name) {
            return at;
        }
        let at = self.cells.len();
        cells.insert(name.name.clone(), at);
        let cell = Cell {
            dir: name.dir,
            name: name.name.clone(),
            values: vec![None],
            since: vec![0],
            ended: vec![0],
            floor: 0,
            left: Vec::new(),
        };
        self.cells.push(cell);
        at
    }

    /// The cells of a directory.
    pub(super) fn of_dir(&self, dir: ObjId) -> impl Iterator<Item = usize> {
        self.dirs.get(&dir).into_iter().flat_map(|cells| cells.values().copied())
    }

    /// The cell of a component, if the workload used it.
    pub(super) fn find(&self, dir: ObjId, name: &[u8]) -> Option<usize> {
        self.dirs.get(&dir)?.get(name).copied()
    }

    /// Assigns a value to a cell. Returns the position of the value.
    pub(super) fn assign(&mut self, at: usize, value: Option<ObjId>) -> usize {
        let Some(cell) = self.cells.get_mut(at) else { return 0 };
        let old = cell.values.last().copied().flatten();
        cell.values.push(value);
        self.assigned += 1;
        cell.since.push(self.assigned);
        cell.ended.push(self.ended);
        let place = cell.values.len() - 1;
        if let Some(old) = old {
            let named = self.object(old);
            named.cells.retain(|&cell| cell != at);
            named.must_survive &= !named.cells.is_empty();
        }
        if let Some(new) = value {
            self.object(new).cells.push(at);
        }
        place
    }

    /// Records a new name. `changes` is the number of content changes of the object so far.
    pub(super) fn set(&mut self, name: &Name, obj: ObjId, changes: usize, is_new: bool) {
        let cell = self.cell(name);
        let place = self.assign(cell, Some(obj));
        self.published.push(Publication { cell, place, obj, changes, is_new });
    }

    /// Records the removal of a name.
    pub(super) fn clear(&mut self, name: &Name) {
        let cell = self.cell(name);
        let was_durable = self.cells.get(cell).is_some_and(|cell| cell.durable().is_some());
        let place = self.assign(cell, None);
        self.removed.push(Removal { cell, place, was_durable });
    }

    /// Makes the current value of a cell durable.
    fn settle(&mut self, at: usize) {
        if let Some(cell) = self.cells.get_mut(at) {
            cell.floor = cell.values.len() - 1;
        }
    }

    /// Makes the current value of a name durable.
    pub(super) fn settle_name(&mut self, name: &Name) {
        let at = self.cell(name);
        self.settle(at);
        if let Some(obj) = self.cells.get(at).and_then(Cell::durable) {
            self.settle_path(obj);
        }
    }

    /// Makes durable every value whose call had returned when the log had `events` events.
    pub(super) fn sync_before(&mut self, events: u64) {
        for at in 0..self.cells.len() {
            let Some(cell) = self.cells.get_mut(at) else { continue };
            let returned = cell.ended.iter().rposition(|&ended| ended <= events);
            cell.floor = cell.floor.max(returned.unwrap_or(0));
            if let Some(obj) = cell.durable() {
                let named = self.object(obj);
                named.must_survive = !named.cells.is_empty();
            }
        }
    }

    /// Makes every current value durable.
    pub(super) fn sync(&mut self) {
        (0..self.cells.len()).for_each(|at| self.settle(at));
        for named in &mut self.objects {
            named.must_survive = !named.cells.is_empty();
        }
    }

    /// Makes an object durable with all its names, and a directory with all its entries.
    ///
    /// A name that the object had before a rename cannot name it after a crash. The value before
    /// may come back there: a name may have moved to the object and on before either was written.
    pub(super) fn fsync(&mut self, obj: ObjId) {
        self.settle_path(obj);
        for (cell, place) in std::mem::take(&mut self.object(obj).left) {
            if let Some(cell) = self.cells.get_mut(cell) {
                cell.left.push((obj, place));
            }
        }
        let entries: Vec<usize> = self.of_dir(obj).collect();
        for at in entries {
            self.settle(at);
            if let Some(child) = self.cells.get(at).and_then(Cell::durable) {
                self.object(child).must_survive = true;
            }
        }
    }

    /// Makes durable the names of an object, and every name on the path from the root to them. A
    /// parent directory that was renamed since its last durable point keeps its current name.
    fn settle_path(&mut self, obj: ObjId) {
        let mut open = vec![obj];
        let mut visited = BTreeSet::from([obj]);
        while let Some(obj) = open.pop() {
            let named = self.object(obj);
            named.must_survive = !named.cells.is_empty();
            for at in named.cells.clone() {
                self.settle(at);
                let Some(dir) = self.cells.get(at).map(|cell| cell.dir) else { continue };
                if dir != ROOT && visited.insert(dir) {
                    open.push(dir);
                }
            }
        }
    }

    /// The objects that must have a name after a crash.
    pub(super) fn survivors(&self) -> impl Iterator<Item = ObjId> {
        let objects = (0..).map(ObjId).zip(&self.objects);
        objects.filter(|(_, named)| named.must_survive).map(|(obj, _)| obj)
    }

    /// Whether the object has a name that is not durable yet.
    pub(super) fn has_open_names(&self, obj: ObjId) -> bool {
        let cells = self.objects.get(obj.0 as usize).map_or(&[][..], |named| &named.cells);
        cells.iter().filter_map(|&at| self.cells.get(at)).any(|cell| cell.durable() != Some(obj))
    }

    /// Sets whether the object must have a name after a crash.
    pub(super) fn set_must_survive(&mut self, obj: ObjId, must_survive: bool) {
        self.object(obj).must_survive = must_survive;
    }

    /// Whether the object must have a name after a crash.
    pub(super) fn must_survive(&self, obj: ObjId) -> bool {
        self.objects.get(obj.0 as usize).is_some_and(|named| named.must_survive)
    }
}

impl Names {
    /// Records a rename. `changes` is the number of content changes of the object so far.
    pub(super) fn rename(&mut self, from: &Name, to: &Name, obj: ObjId, changes: usize) {
        let (from, to) = (self.cell(from), self.cell(to));
        let replaces = self.cells.get(to).is_some_and(|cell| cell.values.last() != Some(&None));
        let place = self.cells.get(from).map_or(0, |cell| cell.values.len() - 1);
        let promised = self.cells.get(from).is_some_and(|cell| cell.floor == place)
            || self.renames.iter().any(|r| r.obj == obj && r.to == (from, place) && r.promised);
        // The new name comes first: the object is never without a name.
        let entered = self.assign(to, Some(obj));
        let left = self.assign(from, None);
        self.object(obj).left.push((from, left));
        let (from, to) = ((from, left), (to, entered));
        self.renames.push(Rename { from, to, obj, replaces, promised });
        let new = Publication { cell: to.0, place: to.1, obj, changes, is_new: false };
        self.published.push(new);
    }

    /// Records an exchange: `moved` got the name `other`, `away` the name `one`. Each comes with
    /// the number of its content changes.
    pub(super) fn exchange(
        &mut self,
        (one, other): (&Name, &Name),
        (moved, away): ((ObjId, usize), (ObjId, usize)),
    ) {
        let (one, other) = (self.cell(one), self.cell(other));
        // Each object gets its new name before the assignment takes the old one away: the objects
        // that must survive are noted before and restored after.
        let before = [(one, moved.0), (other, away.0)];
        let new = [(one, away), (other, moved)];
        let survivors = before.map(|(_, obj)| self.must_survive(obj));
        let sides = new.map(|(cell, (obj, _))| (cell, self.assign(cell, Some(obj))));
        for ((_, obj), must_survive) in before.into_iter().zip(survivors) {
            self.set_must_survive(obj, must_survive);
        }
        for ((cell, place), (_, (obj, changes))) in sides.into_iter().zip(new) {
            self.published.push(Publication { cell, place, obj, changes, is_new: false });
        }
        for ((cell, obj), (_, place)) in before.into_iter().zip(sides) {
            self.object(obj).left.push((cell, place));
        }
        self.exchanges.push(Exchange { sides });
    }

    /// Whether the new name of a rename was removed or replaced later. It need not appear then, as
    /// long as the object keeps another name (X1). A new name that was itself renamed counts as
    /// given up if the next name was.
    pub(super) fn given_up(&self, rename: &Rename) -> bool {
        let mut last = rename;
        loop {
            let next = (last.to.0, last.to.1 + 1);
            match self.renames.iter().find(|r| r.obj == rename.obj && r.from == next) {
                Some(on) => last = on,
                None => {
                    return self.cells.get(next.0).is_some_and(|cell| next.1 < cell.values.len());
                }
            }
        }
    }

    /// Whether the object still has a name from before the old name of this rename. The names in
    /// between need not appear then.
    pub(super) fn never_left(&self, rename: &Rename, seen: &[Option<ObjId>]) -> bool {
        let mut first = rename;
        while let Some(before) =
            self.renames.iter().find(|r| r.obj == rename.obj && (r.to.0, r.to.1 + 1) == first.from)
        {
            first = before;
            let value = seen.get(first.from.0).copied().flatten();
            let cell = self.cells.get(first.from.0);
            let places =
                cell.filter(|_| value == Some(first.obj)).and_then(|cell| cell.places(value));
            if places.is_some_and(|(earliest, _)| earliest < first.from.1) {
                return true;
            }
        }
        false
    }

    /// The objects that replaced another one at cell `at` by a rename within the directory, and
    /// that still appear under their old name. A check keeps one of two names of a directory. It
    /// may keep the old one, as nothing on the device shows which name is newer.
    pub(super) fn takers<'a>(
        &'a self,
        at: usize,
        seen: &'a [Option<ObjId>],
    ) -> impl Iterator<Item = ObjId> + 'a {
        let here = move |r: &&Rename| {
            let (from, to) = (self.cells.get(r.from.0), self.cells.get(at));
            let (Some(from), Some(to)) = (from, to) else { return false };
            let stays =
                seen.get(r.from.0) == Some(&Some(r.obj)) && from.fit(Some(r.obj)) == Fit::Good;
            r.to.0 == at && r.replaces && to.floor < r.to.1 && from.dir == to.dir && stays
        };
        self.renames.iter().filter(here).map(|r| r.obj)
    }
}
