//! Where the header of a qcow2 image has its tables.
//!
//! **Reference.** QEMU, "Qcow2 Image File Format".

use crate::bytes::{be32, be64};

/// The bits of an entry that are an offset.
pub(super) const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Bytes of a table that are read at a time.
pub(super) const PIECE: u64 = 64 << 10;

/// The fields of a header that lead to its tables. Whether these are in the file is not checked.
pub(super) struct Tables {
    /// A cluster has `1 << bits` bytes: 9 to 21.
    pub(super) bits: u32,
    /// A reference count has `1 << order` bits: 0 to 6.
    pub(super) order: u32,
    /// The first byte of the table of reference counts.
    pub(super) counts: u64,
    /// Its bytes.
    pub(super) counts_len: u64,
    /// The first byte of the L1 table.
    pub(super) l1: u64,
    /// Its bytes.
    pub(super) l1_len: u64,
    /// Whether the counts may be too low, because a program was killed.
    pub(super) is_dirty: bool,
}

impl Tables {
    /// The tables of the header that begins with `head`; `None` if no driver reads its sizes.
    pub(super) fn of(head: &[u8]) -> Option<Tables> {
        const DIRTY: u64 = 1;
        let (bits, is_version_3) = (be32(head, 20), be32(head, 4) >= 3);
        let order = if is_version_3 { be32(head, 96) } else { 4 };
        if !(9..=21).contains(&bits) || order > 6 {
            return None;
        }
        Some(Tables {
            bits,
            order,
            counts: be64(head, 48),
            counts_len: u64::from(be32(head, 56)) << bits,
            l1: be64(head, 40),
            l1_len: u64::from(be32(head, 36)) * 8,
            is_dirty: is_version_3 && be64(head, 72) & DIRTY != 0,
        })
    }
}
