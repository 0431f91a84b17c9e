//! Renames and exchanges: which combinations of old and new names a crash may leave.
//!
//! Every acquittal in this file is listed in [`super::leniency`].
//!
//! References: `spec/fsck-and-crash.md` §9 G15, G16, G19, §11.4 X2.

use super::super::history::ObjId;
use super::cell::Cell;
use super::leniency::Leniency;

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
    pub(super) sides: [(usize, usize); 2],
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
