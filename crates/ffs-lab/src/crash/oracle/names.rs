//! Which names may be there.
//!
//! A *cell* is a directory and a component: over time it names one object after the other, or none. What is
//! known to be durable is its *floor*: no earlier value may come back.
//!
//! # Invariants
//! 1. A cell's first value is "nothing", before everything the workload did.
//! 2. An object is *anchored* from a promise that covers one of its names on, until it has no name left:
//!    then its name must be found (X1).
//!
//! References: `spec/fsck-and-crash.md` §9 G1, G2, G14 to G16, G21, §11.4 X1, X2, X4;
//! `spec/soft-updates.md` §8.1.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{Name, ObjId, ROOT};
use super::cell::{Cell, Fit};
use super::renames::{Exchange, Publication, Rename};

/// An object's names, now and forever.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    /// Cells that name it.
    cells: Vec<usize>,
    /// Cells it left by being renamed, and the place of the "nothing" there.
    pub(super) left: Vec<(usize, usize)>,
    anchored: bool,
}

/// All names of a workload.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) cells: Vec<Cell>,
    pub(super) renames: Vec<Rename>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) published: Vec<Publication>,
    /// Names removed: the cell, and the place of the "nothing" there.
    pub(super) removed: Vec<(usize, usize)>,
    /// Cells of each directory by component.
    dirs: BTreeMap<ObjId, BTreeMap<Vec<u8>, usize>>,
    objects: Vec<Named>,
    /// Values given so far.
    assigned: u32,
    /// Events of the device's log when the present call had returned.
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

    /// Cells of a directory.
    pub(super) fn of_dir(&self, dir: ObjId) -> impl Iterator<Item = usize> {
        self.dirs.get(&dir).into_iter().flat_map(|cells| cells.values().copied())
    }

    /// The cell of a component, if the workload ever used it.
    pub(super) fn find(&self, dir: ObjId, name: &[u8]) -> Option<usize> {
        self.dirs.get(&dir)?.get(name).copied()
    }

    /// A cell gets a value; its place.
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
            named.anchored &= !named.cells.is_empty();
        }
        if let Some(new) = value {
            self.object(new).cells.push(at);
        }
        place
    }

    /// A name was entered. `changes`: how many content changes the object has seen; `is_new`: the same call made it.
    pub(super) fn set(&mut self, name: &Name, obj: ObjId, changes: usize, is_new: bool) {
        let cell = self.cell(name);
        let place = self.assign(cell, Some(obj));
        self.published.push(Publication { cell, place, obj, changes, is_new });
    }

    /// A name was removed.
    pub(super) fn clear(&mut self, name: &Name) {
        let cell = self.cell(name);
        let place = self.assign(cell, None);
        self.removed.push((cell, place));
    }

    /// The present value of a cell is durable.
    fn settle(&mut self, at: usize) {
        if let Some(cell) = self.cells.get_mut(at) {
            cell.floor = cell.values.len() - 1;
        }
    }

    /// The present value of a name is durable.
    pub(super) fn settle_name(&mut self, name: &Name) {
        let at = self.cell(name);
        self.settle(at);
        if let Some(obj) = self.cells.get(at).and_then(Cell::durable) {
            self.anchor(obj);
        }
    }

    /// Every value that a call gave which had returned after so many events is durable.
    pub(super) fn sync_before(&mut self, events: u64) {
        for at in 0..self.cells.len() {
            let Some(cell) = self.cells.get_mut(at) else { continue };
            let returned = cell.ended.iter().rposition(|&ended| ended <= events);
            cell.floor = cell.floor.max(returned.unwrap_or(0));
            if let Some(obj) = cell.durable() {
                let named = self.object(obj);
                named.anchored = !named.cells.is_empty();
            }
        }
    }

    /// Everything is durable.
    pub(super) fn sync(&mut self) {
        (0..self.cells.len()).for_each(|at| self.settle(at));
        for named in &mut self.objects {
            named.anchored = !named.cells.is_empty();
        }
    }

    /// The object is durable, with all its names; a directory with all its entries. Names it had before it
    /// was renamed are not its any more: one that it took from another object and left again before either
    /// was written may be the other's again.
    pub(super) fn fsync(&mut self, obj: ObjId) {
        self.anchor(obj);
        for (cell, place) in std::mem::take(&mut self.object(obj).left) {
            if let Some(cell) = self.cells.get_mut(cell) {
                cell.left.push((obj, place));
            }
        }
        let entries: Vec<usize> = self.of_dir(obj).collect();
        for at in entries {
            self.settle(at);
            if let Some(child) = self.cells.get(at).and_then(Cell::durable) {
                self.object(child).anchored = true;
            }
        }
    }

    /// The object's names are durable, and every name on the way from the root to them: of a directory above
    /// that was renamed since it was durable, the name it has now.
    fn anchor(&mut self, obj: ObjId) {
        let mut open = vec![obj];
        let mut visited = BTreeSet::from([obj]);
        while let Some(obj) = open.pop() {
            let named = self.object(obj);
            named.anchored = !named.cells.is_empty();
            for at in named.cells.clone() {
                self.settle(at);
                let Some(dir) = self.cells.get(at).map(|cell| cell.dir) else { continue };
                if dir != ROOT && visited.insert(dir) {
                    open.push(dir);
                }
            }
        }
    }

    /// Objects that must be found.
    pub(super) fn anchored(&self) -> impl Iterator<Item = ObjId> {
        let objects = (0..).map(ObjId).zip(&self.objects);
        objects.filter(|(_, named)| named.anchored).map(|(obj, _)| obj)
    }

    /// Whether the object has a name that is not known to be durable.
    pub(super) fn has_open_names(&self, obj: ObjId) -> bool {
        let cells = self.objects.get(obj.0 as usize).map_or(&[][..], |named| &named.cells);
        cells.iter().filter_map(|&at| self.cells.get(at)).any(|cell| cell.durable() != Some(obj))
    }

    /// Says whether the object must be found.
    pub(super) fn set_anchored(&mut self, obj: ObjId, anchored: bool) {
        self.object(obj).anchored = anchored;
    }

    /// Whether the object must be found.
    pub(super) fn is_anchored(&self, obj: ObjId) -> bool {
        self.objects.get(obj.0 as usize).is_some_and(|named| named.anchored)
    }
}

impl Names {
    /// A name moved. `changes`: how many content changes the object has seen.
    pub(super) fn rename(&mut self, from: &Name, to: &Name, obj: ObjId, changes: usize) {
        let (from, to) = (self.cell(from), self.cell(to));
        let replaces = self.cells.get(to).is_some_and(|cell| cell.values.last() != Some(&None));
        let place = self.cells.get(from).map_or(0, |cell| cell.values.len() - 1);
        let promised = self.cells.get(from).is_some_and(|cell| cell.floor == place)
            || self.renames.iter().any(|r| r.obj == obj && r.to == (from, place) && r.promised);
        // The new name first: the object is never without one.
        let entered = self.assign(to, Some(obj));
        let left = self.assign(from, None);
        self.object(obj).left.push((from, left));
        let (from, to) = ((from, left), (to, entered));
        self.renames.push(Rename { from, to, obj, replaces, promised });
        let new = Publication { cell: to.0, place: to.1, obj, changes, is_new: false };
        self.published.push(new);
    }

    /// Two names changed places: `moved` got the name `other`, `away` the name `one`; each with its number of
    /// content changes.
    pub(super) fn exchange(
        &mut self,
        (one, other): (&Name, &Name),
        (moved, away): ((ObjId, usize), (ObjId, usize)),
    ) {
        let (one, other) = (self.cell(one), self.cell(other));
        // Each object gets its new name before it loses the old one, which the assignment takes away.
        let before = [(one, moved.0), (other, away.0)];
        let new = [(one, away), (other, moved)];
        let anchored = before.map(|(_, obj)| self.is_anchored(obj));
        let sides = new.map(|(cell, (obj, _))| (cell, self.assign(cell, Some(obj))));
        for ((_, obj), anchored) in before.into_iter().zip(anchored) {
            self.set_anchored(obj, anchored);
        }
        for ((cell, place), (_, (obj, changes))) in sides.into_iter().zip(new) {
            self.published.push(Publication { cell, place, obj, changes, is_new: false });
        }
        for ((cell, obj), (_, place)) in before.into_iter().zip(sides) {
            self.object(obj).left.push((cell, place));
        }
        self.exchanges.push(Exchange { sides });
    }

    /// Whether the new name was removed or given to another file since: then it may have been spared, as long
    /// as the object keeps another (X1). A new name that was itself moved was given up if the next one was.
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

    /// Whether the object is seen where it was before it came to the old name: names in between are spared.
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

    /// A name in cell `at` that was taken from another object by one of the same directory, which is still seen
    /// at its old name: who. Of two names of a directory a check keeps one, and may keep the old one: nothing on
    /// the device tells which is newer.
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
