//! The mark of an unfinished growfs (`docs/spec/on-disk-format.md` §3.5).
//!
//! While growfs changes what the volume in use depends on, the standard superblock has the magic
//! number of an unfinished newfs, so no system mounts the volume. A record after it, in the same
//! 512-byte sector, locates the undo log: the bytes that growfs replaces.
//!
//! # Invariants
//! 1. The magic number and the record are in one sector, so they appear and vanish together.
//! 2. A decoded record has passed its check hash and the bounds of [`GrowthRecord::LOG_MAX`].

use crate::hash::check_hash;
use crate::sbfields::{MAGIC_OFFSET, SbFields};
use crate::wire::{Endian, get, put};

/// `"GROW"`, the magic number of the record.
const GROWTH_MAGIC: u32 = 0x4752_4f57;
/// The version of the record and of the undo log.
const VERSION: u32 = 1;
/// Byte offset of the check hash in the record.
const HASH_OFFSET: usize = 28;

// The sector of the magic number ends at byte 1536.
const _: () = assert!(MAGIC_OFFSET >= 1024 && SbFields::SIZE + Fields::SIZE <= 1536);

crate::layout! {
    /// The record as it is on disk.
    pub struct Fields[32] {
        0 => magic: u32, "`GROWTH_MAGIC`.";
        4 => version: u32, "1.";
        8 => log_at: u64, "Byte offset of the undo log.";
        16 => log_len: u64, "Bytes of the undo log.";
        24 => log_hash: u32, "Check hash of the undo log.";
        28 => hash: u32, "Check hash of the record.";
    }
}

/// The location of the undo log of an unfinished growfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthRecord {
    /// Byte offset of the undo log on the device.
    pub log_at: u64,
    /// Length of the undo log, bytes.
    pub log_len: u32,
    /// Check hash of the undo log.
    pub log_hash: u32,
}

impl GrowthRecord {
    /// Byte offset of the record in the superblock.
    pub const OFFSET: usize = SbFields::SIZE;
    /// Bytes of the record.
    pub const SIZE: usize = Fields::SIZE;
    /// The longest undo log that is accepted, bytes.
    pub const LOG_MAX: u32 = 1 << 20;

    /// The record in the bytes of a superblock; `None` if there is no valid one.
    #[must_use]
    pub fn decode(superblock: &[u8], e: Endian) -> Option<GrowthRecord> {
        let bytes = superblock.get(Self::OFFSET..Self::OFFSET + Self::SIZE)?;
        let f = Fields::decode(bytes, e);
        let log_len = u32::try_from(f.log_len).ok().filter(|&len| len <= Self::LOG_MAX)?;
        let known = f.magic == GROWTH_MAGIC && f.version == VERSION;
        let valid = known && get::<u32>(bytes, HASH_OFFSET, e) == check_hash(bytes, HASH_OFFSET);
        valid.then_some(GrowthRecord { log_at: f.log_at, log_len, log_hash: f.log_hash })
    }

    /// Puts the record into the bytes of a superblock, which must have space for it.
    pub fn encode(&self, superblock: &mut [u8], e: Endian) {
        let GrowthRecord { log_at, log_len, log_hash } = *self;
        let Some(bytes) = superblock.get_mut(Self::OFFSET..Self::OFFSET + Self::SIZE) else {
            debug_assert!(false, "a superblock of {} bytes", superblock.len());
            return;
        };
        let (magic, version, log_len) = (GROWTH_MAGIC, VERSION, log_len.into());
        Fields { magic, version, log_at, log_len, log_hash, hash: 0 }.encode(bytes, e);
        let hash = check_hash(bytes, HASH_OFFSET);
        put(bytes, HASH_OFFSET, e, hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_again_and_a_damaged_one_is_not() {
        for e in [Endian::Little, Endian::Big] {
            let record = GrowthRecord { log_at: 1 << 40, log_len: 4096, log_hash: 7 };
            let mut sb = vec![0; 2048];
            assert_eq!(GrowthRecord::decode(&sb, e), None);
            record.encode(&mut sb, e);
            assert_eq!(GrowthRecord::decode(&sb, e), Some(record));
            for bit in 0..GrowthRecord::SIZE * 8 {
                let mut damaged = sb.clone();
                damaged[GrowthRecord::OFFSET + bit / 8] ^= 1 << (bit % 8);
                assert_eq!(GrowthRecord::decode(&damaged, e), None, "bit {bit}");
            }
            assert_eq!(GrowthRecord::decode(&sb[..1400], e), None, "a short superblock");
        }
    }

    #[test]
    fn a_long_log_is_refused() {
        let e = Endian::Little;
        let mut sb = vec![0; 2048];
        let log_len = GrowthRecord::LOG_MAX + 1;
        GrowthRecord { log_at: 0, log_len, log_hash: 0 }.encode(&mut sb, e);
        assert_eq!(GrowthRecord::decode(&sb, e), None);
    }
}
