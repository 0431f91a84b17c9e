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
use super::leniency::Leniency;
use super::renames::{Exchange, Publication, Rename};

/// Values of a directory's component over time.
#[derive(Debug)]
pub(super) struct Cell {
    /// The directory.
    pub(super) dir: ObjId,
    /// The component.
    pub(super) name: Vec<u8>,
    /// What it named, in program order.
    pub(super) values: Vec<Option<ObjId>>,
    /// When it got these values, counted over all cells.
    pub(super) since: Vec<u32>,
    /// The first of the values that may still be there.
    pub(super) floor: usize,
    /// Events of the device's log when the calls that gave the values had returned.
    ended: Vec<u64>,
    /// Objects known to have left, and the place of the first value after they did.
    left: Vec<(ObjId, usize)>,
}

/// How a value seen in a cell relates to its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It may be there.
    Good,
    /// It was there, but a later value is known to be durable.
    Outdated,
    /// It was never there.
    Never,
}

impl Cell {
    /// Whether the cell may have this value.
    pub(super) fn fit(&self, value: Option<ObjId>) -> Fit {
        match self.values.iter().rposition(|&known| known == value) {
            Some(at) if Leniency::NewerName.grants(at >= self.floor_of(value)) => Fit::Good,
            Some(_) => Fit::Outdated,
            None => Fit::Never,
        }
    }

    /// The first place at which this value may still be there.
    fn floor_of(&self, value: Option<ObjId>) -> usize {
        let left = self.left.iter().filter(|(obj, _)| value == Some(*obj));
        left.map(|&(_, place)| place).fold(self.floor, usize::max)
    }

    /// The first and the last place at which a value that may be there stands.
    pub(super) fn places(&self, value: Option<ObjId>) -> Option<(usize, usize)> {
        let floor = self.floor_of(value);
        let open = self.values.get(floor..)?;
        let first = open.iter().position(|&known| known == value)?;
        let last = open.iter().rposition(|&known| known == value)?;
        Some((floor + first, floor + last))
    }

    /// The value that is known to be durable.
    pub(super) fn durable(&self) -> Option<ObjId> {
        self.values.get(self.floor).copied().flatten()
    }
}

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
