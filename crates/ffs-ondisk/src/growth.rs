//! The mark of an unfinished growfs, and the undo log that it locates
//! (`docs/spec/on-disk-format.md` §3.5).
//!
//! While growfs changes what the volume in use depends on, the standard superblock has the magic
//! number of an unfinished newfs, so no system mounts the volume. A record after it, in the same
//! 512-byte sector, locates the undo log: the bytes that growfs replaces.
//!
//! # Invariants
//! 1. The magic number and the record are in one sector, so they appear and vanish together.
//! 2. A decoded record has passed its check hash and the limit [`GrowthRecord::LOG_MAX`].
//! 3. A decoded log has 1 to [`MOST_ENTRIES`] entries, which are inside the log.

use std::ops::Range;

use crate::hash::check_hash;
use crate::sbfields::{FS_BAD_MAGIC, MAGIC_OFFSET, SbFields};
use crate::wire::{Endian, get, put};

/// `"GROW"`, the magic number of the record.
const GROWTH_MAGIC: u32 = 0x4752_4f57;
/// The version of the record and of the undo log.
const VERSION: u32 = 1;
/// Byte offset of the check hash in the record.
const HASH_OFFSET: usize = 28;

/// The bytes of a superblock that are in one 512-byte sector with the mark.
pub const MARK_SECTOR: Range<usize> = 1024..1536;
const _: () = assert!(MAGIC_OFFSET >= MARK_SECTOR.start);
const _: () = assert!(SbFields::SIZE + Fields::SIZE <= MARK_SECTOR.end);

/// Most entries of an undo log: the superblock, two group blocks, two summary records.
pub const MOST_ENTRIES: usize = 5;
/// Bytes of the log before its entries: their number.
const LOG_HEADER: usize = 8;
/// Bytes of an entry before its content: byte offset on the device and length.
const ENTRY_HEADER: usize = 16;

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

/// Puts the mark into the bytes of a superblock, which must have space for it.
pub fn set_mark(superblock: &mut [u8], e: Endian, record: GrowthRecord) {
    put(superblock, MAGIC_OFFSET, e, FS_BAD_MAGIC);
    record.encode(superblock, e);
}

/// Bytes of an undo log with [`MOST_ENTRIES`] entries that have `content` bytes together.
#[must_use]
pub const fn log_bytes(content: usize) -> usize {
    LOG_HEADER + MOST_ENTRIES * ENTRY_HEADER + content
}

/// The bytes of an undo log; each entry is a byte offset and the content there.
#[must_use]
pub fn encode_log(entries: &[(u64, Vec<u8>)], e: Endian) -> Vec<u8> {
    let mut bytes = Vec::new();
    let number = |bytes: &mut Vec<u8>, value: u64| {
        let end = bytes.len();
        bytes.resize(end + 8, 0);
        put(bytes, end, e, value);
    };
    number(&mut bytes, entries.len() as u64);
    for (at, content) in entries {
        number(&mut bytes, *at);
        number(&mut bytes, content.len() as u64);
        bytes.extend_from_slice(content);
    }
    bytes
}

/// The entries of an undo log; `None` if it is malformed, or names a place outside of a device of
/// `device_bytes` bytes.
#[must_use]
pub fn decode_log(bytes: &[u8], e: Endian, device_bytes: u64) -> Option<Vec<(u64, Vec<u8>)>> {
    let count: u64 = get(bytes.get(..LOG_HEADER)?, 0, e);
    let count = usize::try_from(count).ok().filter(|n| (1..=MOST_ENTRIES).contains(n))?;
    let mut rest = bytes.get(LOG_HEADER..)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let (header, tail) = rest.split_at_checked(ENTRY_HEADER)?;
        let (at, len): (u64, u64) = (get(header, 0, e), get(header, 8, e));
        let (content, tail) = tail.split_at_checked(usize::try_from(len).ok()?)?;
        at.checked_add(len).filter(|&end| end <= device_bytes)?;
        entries.push((at, content.to_vec()));
        rest = tail;
    }
    Some(entries)
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
    fn a_log_is_read_back_and_a_malformed_one_is_not() {
        for e in [Endian::Little, Endian::Big] {
            let entries = vec![(4096, vec![1; 700]), (100, Vec::new())];
            let bytes = encode_log(&entries, e);
            assert!(bytes.len() <= log_bytes(700));
            assert_eq!(decode_log(&bytes, e, 8192).as_ref(), Some(&entries));
            assert_eq!(decode_log(&bytes, e, 4795), None, "beyond the device");
            for len in 0..bytes.len() {
                assert_eq!(decode_log(&bytes[..len], e, 8192), None, "{len} bytes");
            }
            for count in [0, 6, u64::MAX] {
                let mut bad = bytes.clone();
                put(&mut bad, 0, e, count);
                assert_eq!(decode_log(&bad, e, 8192), None, "{count} entries");
            }
            let mut bad = bytes;
            put(&mut bad, LOG_HEADER + 8, e, u64::MAX);
            assert_eq!(decode_log(&bad, e, u64::MAX), None, "a length beyond the log");
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
