//! The history of one directory entry: the objects that a name referred to over time.

use super::super::history::ObjId;
use super::leniency::Leniency;

/// One component of a directory, with the objects that it named over time.
///
/// Positions in `values`, `since` and `ended` correspond to each other.
#[derive(Debug)]
pub(super) struct Cell {
    /// The directory.
    pub(super) dir: ObjId,
    /// The component.
    pub(super) name: Vec<u8>,
    /// The objects that it named, in program order; `None`: no object.
    pub(super) values: Vec<Option<ObjId>>,
    /// The moment at which each value was assigned: a number counted over all cells.
    pub(super) since: Vec<u32>,
    /// The position of the durable value. A crash cannot bring back an earlier one.
    pub(super) floor: usize,
    /// The length of the device's log, in events, when the call of each value had returned.
    pub(super) ended: Vec<u64>,
    /// Objects that a durable rename moved away, with the position of the first value after it.
    pub(super) left: Vec<(ObjId, usize)>,
}

/// The relation between a value found after a crash and the history of its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// A crash may leave the value.
    Good,
    /// The cell had the value, but a later one is durable.
    Outdated,
    /// The cell never had the value.
    Never,
}

impl Cell {
    /// Compares a value found after a crash with the history.
    pub(super) fn fit(&self, value: Option<ObjId>) -> Fit {
        match self.values.iter().rposition(|&known| known == value) {
            Some(at) if Leniency::NewerName.grants(at >= self.floor_of(value)) => Fit::Good,
            Some(_) => Fit::Outdated,
            None => Fit::Never,
        }
    }

    /// The first position from which a crash may leave this value.
    fn floor_of(&self, value: Option<ObjId>) -> usize {
        let left = self.left.iter().filter(|(obj, _)| value == Some(*obj));
        left.map(|&(_, place)| place).fold(self.floor, usize::max)
    }

    /// The first and the last position of a value, among those that a crash may leave.
    pub(super) fn places(&self, value: Option<ObjId>) -> Option<(usize, usize)> {
        let floor = self.floor_of(value);
        let open = self.values.get(floor..)?;
        let first = open.iter().position(|&known| known == value)?;
        let last = open.iter().rposition(|&known| known == value)?;
        Some((floor + first, floor + last))
    }

    /// The durable value.
    pub(super) fn durable(&self) -> Option<ObjId> {
        self.values.get(self.floor).copied().flatten()
    }
}
