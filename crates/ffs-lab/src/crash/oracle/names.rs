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

use std::collections::BTreeMap;

use super::super::history::{Name, ObjId, ROOT};

/// Values of a directory's component over time.
#[derive(Debug)]
pub(super) struct Cell {
    /// The directory.
    pub(super) dir: ObjId,
    /// The component.
    pub(super) name: Vec<u8>,
    /// What it named, in program order.
    values: Vec<Option<ObjId>>,
    /// When it got these values, counted over all cells.
    since: Vec<u32>,
    /// The first of the values that may still be there.
    floor: usize,
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
            Some(at) if at >= self.floor_of(value) => Fit::Good,
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
    fn places(&self, value: Option<ObjId>) -> Option<(usize, usize)> {
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

/// A rename: where its values stand in the two cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rename {
    /// Cell of the old name, and the place of its "nothing".
    pub(super) from: (usize, usize),
    /// Cell of the new name, and the place of the object.
    pub(super) to: (usize, usize),
    /// What moved.
    pub(super) obj: ObjId,
    /// Whether the new name named something else before.
    pub(super) replaces: bool,
    /// How many content changes the object had seen.
    pub(super) changes: usize,
    /// Whether the old name was known to be durable, or is that of a rename of such a one. Of a name that
    /// nobody was promised it does not matter in which directories it was never seen.
    pub(super) promised: bool,
}

/// An object's names, now and forever.
#[derive(Clone, Debug, Default)]
struct Named {
    /// Cells that name it.
    cells: Vec<usize>,
    /// Cells it left by being renamed, and the place of the "nothing" there.
    left: Vec<(usize, usize)>,
    anchored: bool,
}

/// All names of a workload.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) cells: Vec<Cell>,
    pub(super) renames: Vec<Rename>,
    /// Cells of each directory by component.
    dirs: BTreeMap<ObjId, BTreeMap<Vec<u8>, usize>>,
    objects: Vec<Named>,
    /// Values given so far.
    assigned: u32,
}

impl Names {
    fn object(&mut self, obj: ObjId) -> &mut Named {
        let at = obj.0 as usize;
        if self.objects.len() <= at {
            self.objects.resize(at + 1, Named::default());
        }
        &mut self.objects[at]
    }

    fn cell(&mut self, name: &Name) -> usize {
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
    fn assign(&mut self, at: usize, value: Option<ObjId>) -> usize {
        let Some(cell) = self.cells.get_mut(at) else { return 0 };
        let old = cell.values.last().copied().flatten();
        cell.values.push(value);
        self.assigned += 1;
        cell.since.push(self.assigned);
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

    /// A name was entered.
    pub(super) fn set(&mut self, name: &Name, obj: ObjId) {
        let cell = self.cell(name);
        self.assign(cell, Some(obj));
    }

    /// A name was removed.
    pub(super) fn clear(&mut self, name: &Name) {
        let cell = self.cell(name);
        self.assign(cell, None);
    }

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
        self.renames.push(Rename { from, to, obj, replaces, changes, promised });
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

    /// The object's names are durable, and those of the directories above that are not yet.
    fn anchor(&mut self, obj: ObjId) {
        let mut open = vec![obj];
        while let Some(obj) = open.pop() {
            let named = self.object(obj);
            named.anchored = !named.cells.is_empty();
            for at in named.cells.clone() {
                self.settle(at);
                let Some(dir) = self.cells.get(at).map(|cell| cell.dir) else { continue };
                if dir != ROOT && !self.object(dir).anchored {
                    open.push(dir);
                }
            }
        }
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

    /// Objects that must be found.
    pub(super) fn anchored(&self) -> impl Iterator<Item = ObjId> {
        let objects = (0..).map(ObjId).zip(&self.objects);
        objects.filter(|(_, named)| named.anchored).map(|(obj, _)| obj)
    }

    /// Whether the object must be found.
    pub(super) fn is_anchored(&self, obj: ObjId) -> bool {
        self.objects.get(obj.0 as usize).is_some_and(|named| named.anchored)
    }
}

impl Rename {
    /// Whether the old name is surely gone by this rename or later, and the new one surely not yet entered,
    /// nor any name that the object got after it.
    pub(super) fn lost(&self, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let places = |at: usize| cells.get(at)?.places(seen.get(at).copied().flatten());
        let (Some(from), Some(to)) = (places(self.from.0), places(self.to.0)) else { return false };
        let lost = from.0 >= self.from.1 && to.1 < self.to.1;
        lost && !self.moved_on(cells, seen)
    }

    /// Whether the object has a name that it got after this rename: the name in between may have been spared.
    fn moved_on(&self, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let entered = cells.get(self.to.0).and_then(|cell| cell.since.get(self.to.1));
        cells.iter().zip(seen).any(|(cell, &value)| {
            let last = cell.places(value).and_then(|(_, last)| cell.since.get(last));
            value == Some(self.obj) && last > entered
        })
    }

    /// Whether the new name surely has the value of this rename or a later one.
    pub(super) fn done(&self, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let (cell, place) = self.to;
        let value = seen.get(cell).copied().flatten();
        value == Some(self.obj)
            && cells
                .get(cell)
                .and_then(|c| c.places(value))
                .is_some_and(|(first, _)| first >= place)
    }
}
