//! Renames and exchanges: which combinations of old and new names a crash may leave.
//!
//! Every acquittal in this file is listed in [`super::leniency`].
//!
//! References: `spec/fsck-and-crash.md` §9 G15, G16, G19, §11.4 X2.

use super::super::history::{Name, ObjId};
use super::leniency::Leniency;
use super::names::{Cell, Fit, Names};

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
    /// Whether the old name was known to be durable, or is that of a rename of such a one. Of a name that
    /// nobody was promised it does not matter in which directories it was never seen.
    pub(super) promised: bool,
}

/// A name given to an object: what it shows is the content of that moment, or newer (G18).
#[derive(Clone, Copy, Debug)]
pub(super) struct Publication {
    /// Cell of the name.
    pub(super) cell: usize,
    /// Place of the object among its values.
    pub(super) place: usize,
    /// What was named.
    pub(super) obj: ObjId,
    /// How many content changes the object had seen.
    pub(super) changes: usize,
    /// Whether the call that gave the name had made the object: no rename, exchange or link.
    pub(super) is_new: bool,
}

/// Two names that changed places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// Cells, and the places of the values they got.
    sides: [(usize, usize); 2],
}

impl Exchange {
    /// Whether one name surely shows what the exchange gave it, and the other surely something older.
    pub(super) fn is_half(&self, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let places = |at: usize| cells.get(at)?.places(seen.get(at).copied().flatten());
        let given =
            |(at, place): (usize, usize)| places(at).is_some_and(|(first, _)| first == place);
        let older = |(at, place): (usize, usize)| places(at).is_some_and(|(_, last)| last < place);
        let [one, other] = self.sides;
        given(one) && older(other) || given(other) && older(one)
    }

    /// Its two cells.
    pub(super) fn cells(&self) -> [usize; 2] {
        self.sides.map(|(cell, _)| cell)
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

impl Rename {
    /// Whether the old name is surely gone by this rename or later, and the new one surely not yet entered,
    /// nor any name that the object got after it.
    pub(super) fn lost(&self, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let places = |at: usize| cells.get(at)?.places(seen.get(at).copied().flatten());
        let (Some(from), Some(to)) = (places(self.from.0), places(self.to.0)) else { return false };
        let lost = from.0 >= self.from.1 && to.1 < self.to.1;
        lost && !moved_on(self.obj, self.to, cells, seen)
    }
}

/// Whether the object has a name that it got after the one `to`: that may have been spared.
fn moved_on(obj: ObjId, to: (usize, usize), cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
    let entered = cells.get(to.0).and_then(|cell| cell.since.get(to.1));
    cells.iter().zip(seen).any(|(cell, &value)| {
        let last = cell.places(value).and_then(|(_, last)| cell.since.get(last));
        value == Some(obj) && last > entered
    })
}

impl Publication {
    /// Whether a rename, an exchange or a link gave the name before the moment `since`, and the name surely
    /// has an older value.
    pub(super) fn is_owed(&self, since: u32, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let Some(cell) = cells.get(self.cell).filter(|_| !self.is_new) else { return false };
        let given = cell.since.get(self.place).is_some_and(|&at| at < since);
        let places = cell.places(seen.get(self.cell).copied().flatten());
        let older = places.is_some_and(|(_, last)| last < self.place);
        let to = (self.cell, self.place);
        given && older && !Leniency::SkippedName.grants(moved_on(self.obj, to, cells, seen))
    }

    /// Whether the name surely has the value that it got then, or the same of a later call.
    pub(super) fn is_seen(&self, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let value = seen.get(self.cell).copied().flatten();
        let places = cells.get(self.cell).and_then(|cell| cell.places(value));
        value == Some(self.obj) && places.is_some_and(|(first, _)| first >= self.place)
    }
}
