//! Renames and exchanges: the combinations of old and new names that a crash may leave.
//!
//! Every exception in this file is listed in [`super::leniency`].
//!
//! References: `spec/fsck-and-crash.md` §9 G15, G16, G19, §11.4 X2.

use super::super::history::ObjId;
use super::cell::Cell;
use super::leniency::Leniency;

/// A rename: the positions of its values in two cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rename {
    /// The cell of the old name, and the position of its value "no object".
    pub(super) from: (usize, usize),
    /// The cell of the new name, and the position of the object.
    pub(super) to: (usize, usize),
    /// The object that moved.
    pub(super) obj: ObjId,
    /// Whether the new name referred to another object before.
    pub(super) replaces: bool,
    /// Whether the old name was durable, or came from a rename of a durable name. Otherwise no
    /// guarantee covers the object's name, and X2 does not apply.
    pub(super) promised: bool,
}

/// A name that was given to an object. If the name survives, the content is that of this moment, or
/// newer (G18).
#[derive(Clone, Copy, Debug)]
pub(super) struct Publication {
    /// The cell of the name.
    pub(super) cell: usize,
    /// The position of the object among the values of the cell.
    pub(super) place: usize,
    /// The object.
    pub(super) obj: ObjId,
    /// The number of content changes of the object at that moment.
    pub(super) changes: usize,
    /// Whether the call that gave the name also created the object: not so for a rename, an
    /// exchange or a link.
    pub(super) is_new: bool,
}

/// A name that was removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removal {
    /// The cell of the name.
    pub(super) cell: usize,
    /// The position of its value "no object".
    pub(super) place: usize,
    /// Whether a guarantee covered the name, or an older one in the cell, when it was removed.
    pub(super) was_durable: bool,
}

impl Removal {
    /// Whether the removal certainly took effect.
    pub(super) fn is_seen(&self, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let Some(cell) = cells.get(self.cell) else { return false };
        // A name that is there again may never have been on the device before its removal, unless
        // it was durable.
        let value = seen.get(self.cell).copied().flatten();
        let is_removed = value.is_none() || cell.floor + 1 == self.place;
        let is_later = cell.places(value).is_some_and(|(first, _)| first >= self.place);
        // Only a durable point after the removal shows that the name is not missing from before.
        let was_absent = !self.was_durable && cell.floor >= self.place;
        is_removed && is_later && !Leniency::NeverDurable.grants(was_absent)
    }
}

/// An exchange of two names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// The cells, and the positions of the values that they got.
    pub(super) sides: [(usize, usize); 2],
}

impl Exchange {
    /// Whether one name certainly has the value that the exchange gave it, and the other certainly
    /// an older one.
    pub(super) fn is_half(&self, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let places = |at: usize| cells.get(at)?.places(seen.get(at).copied().flatten());
        let given =
            |(at, place): (usize, usize)| places(at).is_some_and(|(first, _)| first == place);
        let older = |(at, place): (usize, usize)| places(at).is_some_and(|(_, last)| last < place);
        let [one, other] = self.sides;
        given(one) && older(other) || given(other) && older(one)
    }

    /// The two cells.
    pub(super) fn cells(&self) -> [usize; 2] {
        self.sides.map(|(cell, _)| cell)
    }
}

impl Rename {
    /// Whether this rename or a later call certainly removed the old name, while the new name is
    /// certainly missing, and with it every name that the object got later.
    pub(super) fn lost(&self, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let places = |at: usize| cells.get(at)?.places(seen.get(at).copied().flatten());
        let (Some(from), Some(to)) = (places(self.from.0), places(self.to.0)) else { return false };
        let lost = from.0 >= self.from.1 && to.1 < self.to.1;
        lost && !moved_on(self.obj, self.to, cells, seen)
    }
}

/// Whether the object has a name that it got after the name `to`. The name `to` need not appear
/// then.
fn moved_on(obj: ObjId, to: (usize, usize), cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
    let entered = cells.get(to.0).and_then(|cell| cell.since.get(to.1));
    cells.iter().zip(seen).any(|(cell, &value)| {
        let last = cell.places(value).and_then(|(_, last)| cell.since.get(last));
        value == Some(obj) && last > entered
    })
}

impl Publication {
    /// Whether a rename, an exchange or a link gave the name before the moment `since`, and the
    /// name certainly has an older value.
    pub(super) fn is_owed(&self, since: u32, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let Some(cell) = cells.get(self.cell).filter(|_| !self.is_new) else { return false };
        let given = cell.since.get(self.place).is_some_and(|&at| at < since);
        let places = cell.places(seen.get(self.cell).copied().flatten());
        let older = places.is_some_and(|(_, last)| last < self.place);
        let to = (self.cell, self.place);
        given && older && !Leniency::SkippedName.grants(moved_on(self.obj, to, cells, seen))
    }

    /// Whether the name certainly has the value that it got then, or the same value from a later
    /// call.
    pub(super) fn is_seen(&self, cells: &[Cell], seen: &[Option<ObjId>]) -> bool {
        let value = seen.get(self.cell).copied().flatten();
        let places = cells.get(self.cell).and_then(|cell| cell.places(value));
        value == Some(self.obj) && places.is_some_and(|(first, _)| first >= self.place)
    }
}
