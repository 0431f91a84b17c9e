//! The history of one directory entry: the objects that a name referred to over time.

use super::super::history::ObjId;
use super::leniency::Leniency;

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
    pub(super) ended: Vec<u64>,
    /// Objects known to have left, and the place of the first value after they did.
    pub(super) left: Vec<(ObjId, usize)>,
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
