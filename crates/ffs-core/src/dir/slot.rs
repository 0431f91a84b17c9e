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

/// A name, prepared for the comparison with many records.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) name: &'a [u8],
    /// The last four bytes of the name, little-endian. A shorter name is at the end of them.
    tail: u32,
    /// The bits of `tail` that belong to the name.
    mask: u32,
}

/// Consecutive records that a search does not examine further.
pub(super) struct PassedOver {
    /// Offset of the record behind them, bytes.
    pub(super) end: usize,
    pub(super) records: u64,
}

impl<'a> Sought<'a> {
    pub(super) fn new(name: &'a [u8]) -> Sought<'a> {
        let (mut tail, mut mask) = ([0; 4], [0; 4]);
        let last = tail.iter_mut().zip(&mut mask).rev().zip(name.iter().rev());
        last.for_each(|((t, m), byte)| (*t, *m) = (*byte, 0xff));
        Sought { name, tail: u32::from_le_bytes(tail), mask: u32::from_le_bytes(mask) }
    }

    /// Passes over the records from `off` on that are live, sound and without slack, and certainly
    /// have another name: nothing else about them matters to a search.
    ///
    /// Names of a large directory often have the same length. While they have, the place of the
    /// next record does not depend on a byte of this one, and the processor need not wait for it.
    #[inline]
    pub(super) fn pass_over(&self, fmt: DirFormat, chunk: &[u8], off: usize) -> PassedOver {
        let (mut end, mut records) = (off, 0);
        while let Some(packed) =
            dir::packed(fmt, chunk, end).filter(|p| self.differs(*p, chunk, end))
        {
            loop {
                end += packed.reclen();
                records += 1;
                if !(packed.is_also_at(chunk, end) && self.differs(packed, chunk, end)) {
                    break;
                }
            }
        }
        PassedOver { end, records }
    }

    /// Whether the name of the record at `off`, which has these lengths, certainly differs.
    #[inline]
    fn differs(&self, packed: Packed, chunk: &[u8], off: usize) -> bool {
        // The header is longer than the tail, so these bytes are in the record.
        let tail = off + HEADER + packed.namlen() - size_of::<u32>();
        packed.namlen() != self.name.len()
            || chunk
                .get(tail..)
                .and_then(<[u8]>::first_chunk)
                .is_some_and(|bytes| (u32::from_le_bytes(*bytes) ^ self.tail) & self.mask != 0)
    }
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
