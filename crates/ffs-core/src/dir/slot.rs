//! Where the record of a name is, or where a new one goes.

use super::Entry;
use super::chunks::chunk_of;
use ffs_ondisk::dir::{self, DirFormat, HEADER, Header, Packed};

/// Where a new name can go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(super) kind: SlotKind,
    /// End of the last chunk with a live record, the new one included, bytes: the directory may be
    /// truncated there. `None` if the index has it when the name is entered.
    pub(super) end_useful: Option<u32>,
}

impl Slot {
    /// Whether entering a name here does not move the record of `e`.
    pub(crate) fn keeps_in_place(&self, e: &Entry) -> bool {
        match self.kind {
            SlotKind::Compact(region) => chunk_of(region.at) != chunk_of(e.off.0),
            SlotKind::Whiteout(_)
            | SlotKind::Reserved(_)
            | SlotKind::Slack(_)
            | SlotKind::Append(_) => true,
        }
    }
}

/// The kinds of slots, best first. Offsets are those of records, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlotKind {
    /// A whiteout of the same name.
    Whiteout(u32),
    /// A reserved record of the same name.
    Reserved(u32),
    /// One record with enough slack.
    Slack(Region),
    /// Several records of one chunk with enough slack together.
    Compact(Region),
    /// A new chunk at the end.
    Append(u32),
}

/// Consecutive records of one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Region {
    /// Offset of the first record.
    pub(super) at: u32,
    /// Bytes up to the end of the last record.
    pub(super) len: u32,
}

/// The result of [`super::find_slot`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotSearch {
    /// The name exists.
    Exists(Entry),
    /// The name does not exist, and its record would go there.
    Free(Slot),
}

/// A record with the name that was searched.
pub(super) struct Hit {
    pub(super) off: u32,
    pub(super) header: Header,
}

/// The length of the record at `off` if it is live, sound and without slack, and certainly has
/// another name: nothing else about it matters to a search.
#[inline]
pub(super) fn passed_over(fmt: DirFormat, chunk: &[u8], off: usize, name: &[u8]) -> Option<usize> {
    let Packed { reclen, namlen } = dir::packed(fmt, chunk, off)?;
    let is_other = namlen != name.len() || chunk.get(off + HEADER + namlen - 1) != name.last();
    is_other.then_some(reclen)
}

/// Whether the record at `off` is live and has this name.
///
/// The last byte is compared first: names of a large directory often differ only there, and a call
/// of `memcmp` for every record would cost more than the rest of the walk.
#[inline]
pub(super) fn is_named(header: &Header, chunk: &[u8], off: usize, name: &[u8]) -> bool {
    let end = off + HEADER + header.namlen;
    header.live()
        && header.namlen == name.len()
        && chunk.get(end - 1) == name.last()
        && chunk.get(off + HEADER..end) == Some(name)
}
