//! Quota files: the header, the records, and their places (`spec/on-disk-format.md` §15).
//!
//! A quota file is an array of records with the user or group id as index. Its numbers are
//! big-endian on every volume. Files from before FreeBSD 8 have no header and 32-bit records in the
//! byte order of the machine; [`RecordFormat::Old`] is such a file.
//!
//! # Invariants
//! 1. [`offset`] exists only for an id that is counted, so no file grows past the record of
//!    [`MAX_ID`].
//! 2. [`examine`] accepts a file only if its records have the layout of [`Dqblk`] or [`Dqblk32`].

use crate::error::{Corrupt, Error, Place, Structure};
use crate::layout;
use crate::units::Ino;
use crate::wire::Endian;
use std::fmt;

/// The first bytes of a file with 64-bit records.
pub const MAGIC: [u8; 8] = *b"QUOTA64\0";
/// The only version of the 64-bit format.
pub const VERSION: u32 = 0x2008_1104;
/// The byte order of every field.
pub const ENDIAN: Endian = Endian::Big;
/// The largest id that is counted: FreeBSD reads ids as signed and ignores files with a negative
/// one, so that a quota file cannot grow to hundreds of gigabytes.
pub const MAX_ID: u32 = i32::MAX as u32;
/// The permissions of a new quota file. Root owns it, its group is [`crate::GID_OPERATOR`].
pub const MODE: u16 = 0o640;
/// Seconds above a soft limit before it is enforced, unless record 0 has other ones
/// (`MAX_DQ_TIME`, `MAX_IQ_TIME`).
pub const DEFAULT_GRACE: i64 = 7 * 24 * 60 * 60;
/// The unit of block counts and limits, bytes.
pub const UNIT: u64 = 512;

layout! {
    /// The header of a quota file (`struct dqhdr64`).
    pub struct QuotaHeader[64] {
        0 => magic: [u8; 8], "Magic number.";
        8 => version: u32, "Version.";
        12 => hdrlen: u32, "Bytes of the header.";
        16 => reclen: u32, "Bytes of a record.";
    }
}

layout! {
    /// Limits and usage of one id (`struct dqblk64`). Blocks are of 512 bytes.
    pub struct Dqblk[64] {
        0 => bhardlimit: u64, "Blocks that usage must stay below; 0: no limit.";
        8 => bsoftlimit: u64, "Blocks from which on the grace period runs; 0: no limit.";
        16 => curblocks: u64, "Blocks in use.";
        24 => ihardlimit: u64, "Inodes that usage must stay below; 0: no limit.";
        32 => isoftlimit: u64, "Inodes from which on the grace period runs; 0: no limit.";
        40 => curinodes: u64, "Inodes in use.";
        48 => btime: i64, "End of the grace period for blocks; in record 0, its length.";
        56 => itime: i64, "End of the grace period for inodes; in record 0, its length.";
    }
}

layout! {
    /// A record of the 32-bit format, with the same fields.
    pub struct Dqblk32[32] {
        0 => bhardlimit: u32, "As in `Dqblk`.";
        4 => bsoftlimit: u32, "As in `Dqblk`.";
        8 => curblocks: u32, "As in `Dqblk`.";
        12 => ihardlimit: u32, "As in `Dqblk`.";
        16 => isoftlimit: u32, "As in `Dqblk`.";
        20 => curinodes: u32, "As in `Dqblk`.";
        24 => btime: i32, "As in `Dqblk`.";
        28 => itime: i32, "As in `Dqblk`.";
    }
}

impl From<Dqblk32> for Dqblk {
    fn from(old: Dqblk32) -> Dqblk {
        Dqblk {
            bhardlimit: old.bhardlimit.into(),
            bsoftlimit: old.bsoftlimit.into(),
            curblocks: old.curblocks.into(),
            ihardlimit: old.ihardlimit.into(),
            isoftlimit: old.isoftlimit.into(),
            curinodes: old.curinodes.into(),
            btime: old.btime.into(),
            itime: old.itime.into(),
        }
    }
}

impl Dqblk {
    /// The bytes of the record.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Dqblk::SIZE] {
        let mut bytes = [0; Dqblk::SIZE];
        self.encode(&mut bytes, ENDIAN);
        bytes
    }

    /// Whether the record sets a limit.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        [self.bhardlimit, self.bsoftlimit, self.ihardlimit, self.isoftlimit].iter().any(|&l| l != 0)
    }
}

impl QuotaHeader {
    /// The header of a new file, as bytes.
    #[must_use]
    pub fn new_bytes() -> [u8; QuotaHeader::SIZE] {
        let header = QuotaHeader {
            magic: MAGIC,
            version: VERSION,
            hdrlen: QuotaHeader::SIZE as u32,
            reclen: Dqblk::SIZE as u32,
        };
        let mut bytes = [0; QuotaHeader::SIZE];
        header.encode(&mut bytes, ENDIAN);
        bytes
    }
}

/// Whose usage a quota file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaType {
    /// Users (`USRQUOTA`).
    User,
    /// Groups (`GRPQUOTA`).
    Group,
}

impl QuotaType {
    /// Both types, in FreeBSD's order.
    pub const ALL: [QuotaType; 2] = [QuotaType::User, QuotaType::Group];

    /// The index in arrays of both types.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            QuotaType::User => 0,
            QuotaType::Group => 1,
        }
    }

    /// The name of the quota file in the root directory.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            QuotaType::User => "quota.user",
            QuotaType::Group => "quota.group",
        }
    }
}

impl fmt::Display for QuotaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QuotaType::User => "user",
            QuotaType::Group => "group",
        })
    }
}

/// The ids whose usage a file of this owner and group is a part of, by [`QuotaType::index`]. None,
/// if one of them is above [`MAX_ID`].
#[must_use]
pub fn counted_ids(uid: u32, gid: u32) -> [Option<u32>; 2] {
    if uid > MAX_ID || gid > MAX_ID { [None; 2] } else { [Some(uid), Some(gid)] }
}

/// The byte at which the record of `id` begins, unless the id is not counted.
#[must_use]
pub fn offset(id: u32) -> Option<u64> {
    let at = |id: u32| QuotaHeader::SIZE as u64 + Dqblk::SIZE as u64 * u64::from(id);
    (id <= MAX_ID).then(|| at(id))
}

/// The id whose record begins at byte `at`.
#[must_use]
pub fn id_at(at: u64) -> Option<u32> {
    let after = at.checked_sub(QuotaHeader::SIZE as u64)?;
    let id = u32::try_from(after / Dqblk::SIZE as u64).ok().filter(|&id| id <= MAX_ID)?;
    after.is_multiple_of(Dqblk::SIZE as u64).then_some(id)
}

/// Whether a file of `size` bytes, all of them in `start`, is the beginning of the header of
/// 64-bit records, and nothing more.
#[must_use]
pub fn is_truncated_header(size: u64, start: &[u8]) -> bool {
    size < QuotaHeader::SIZE as u64
        && size == start.len() as u64
        && QuotaHeader::new_bytes().starts_with(start)
}

/// The layout of a quota file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// A header, then 64-bit records.
    Records64,
    /// 32-bit records without a header.
    Old,
}

/// The layout of quota file `ino` of `size` bytes that begins with the bytes `start`.
///
/// # Errors
/// The file has the magic number of the 64-bit format, but a header that differs; or it is not an
/// array of 32-bit records either.
pub fn examine(ino: Ino, size: u64, start: &[u8]) -> Result<RecordFormat, Error> {
    let header = QuotaHeader::decode(start, ENDIAN);
    let bad = |field, found: String, expected: String| {
        Error::from(Corrupt::new(Structure::QuotaFile, Place::Inode(ino), field, found, expected))
    };
    if header.magic != MAGIC {
        let records = size > 0 && size.is_multiple_of(Dqblk32::SIZE as u64);
        let found = format!("{size}, without the header of 64-bit records");
        let expected = format!("at least {} with it", QuotaHeader::SIZE);
        return if records { Ok(RecordFormat::Old) } else { Err(bad("size", found, expected)) };
    }
    let fields = [
        ("version", header.version, VERSION),
        ("header length", header.hdrlen, QuotaHeader::SIZE as u32),
        ("record length", header.reclen, Dqblk::SIZE as u32),
    ];
    for (field, found, expected) in fields {
        if found != expected {
            return Err(bad(field, format!("{found:#x}"), format!("{expected:#x}")));
        }
    }
    Ok(RecordFormat::Records64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: [u8; 20] =
        [0x51, 0x55, 0x4f, 0x54, 0x41, 0x36, 0x34, 0, 0x20, 8, 0x11, 4, 0, 0, 0, 64, 0, 0, 0, 64];

    #[test]
    fn the_header_has_the_bytes_of_freebsd() {
        let bytes = QuotaHeader::new_bytes();
        assert_eq!(bytes[..20], HEADER);
        assert!(bytes[20..].iter().all(|b| *b == 0));
        assert_eq!(examine(Ino(9), 64, &bytes).unwrap(), RecordFormat::Records64);
    }

    #[test]
    fn a_record_is_big_endian_at_its_id() {
        let dq = Dqblk { bhardlimit: 1, itime: -2, curinodes: 0x0102, ..Dqblk::default() };
        let bytes = dq.to_bytes();
        assert_eq!((bytes[7], bytes[46], bytes[47], bytes[56], bytes[63]), (1, 1, 2, 255, 254));
        assert_eq!((offset(0), offset(1001)), (Some(64), Some(64 + 64 * 1001)));
        assert_eq!(offset(MAX_ID + 1), None);
        assert_eq!((id_at(64 + 64 * 7), id_at(65), id_at(0)), (Some(7), None, None));
        assert_eq!(id_at(offset(MAX_ID).unwrap() + 64), None);
    }

    #[test]
    fn a_wrong_header_is_an_error_that_names_the_field() {
        for (at, field) in [(8, "version"), (15, "header length"), (19, "record length")] {
            let mut bytes = QuotaHeader::new_bytes();
            bytes[at] ^= 1;
            let text = examine(Ino(9), 64, &bytes).unwrap_err().to_string();
            assert!(text.starts_with(&format!("quota file 9: {field} is ")), "{text}");
        }
        let text = examine(Ino(9), 0, &[]).unwrap_err().to_string();
        assert_eq!(
            text,
            "quota file 9: size is 0, without the header of 64-bit records, expected at least 64 \
             with it"
        );
        assert_eq!(examine(Ino(9), 320, &[0; 64]).unwrap(), RecordFormat::Old);
        assert!(examine(Ino(9), 100, b"not a quota file").is_err());
    }

    #[test]
    fn the_beginning_of_a_header_is_a_truncated_one() {
        let bytes = QuotaHeader::new_bytes();
        for n in [0, 1, 19, 63] {
            assert!(is_truncated_header(n as u64, &bytes[..n]), "{n}");
        }
        assert!(!is_truncated_header(64, &bytes));
        assert!(!is_truncated_header(128, &bytes[..9]));
        assert!(!is_truncated_header(1, b"X"));
    }

    #[test]
    fn files_with_a_negative_id_are_not_counted() {
        assert_eq!(counted_ids(0, MAX_ID), [Some(0), Some(MAX_ID)]);
        assert_eq!(counted_ids(MAX_ID + 1, 0), [None; 2]);
        assert_eq!(counted_ids(0, u32::MAX), [None; 2]);
    }

    proptest! {
        #[test]
        fn records_survive_encoding(bytes in prop::collection::vec(any::<u8>(), 64)) {
            let dq = Dqblk::decode(&bytes, ENDIAN);
            prop_assert_eq!(dq.to_bytes().to_vec(), bytes);
        }

        #[test]
        fn old_records_keep_their_numbers(
            bytes in prop::collection::vec(any::<u8>(), 32),
            little in any::<bool>(),
        ) {
            let endian = if little { Endian::Little } else { Endian::Big };
            let old = Dqblk32::decode(&bytes, endian);
            let new = Dqblk::from(old.clone());
            prop_assert_eq!(u64::from(old.curblocks), new.curblocks);
            prop_assert_eq!(i64::from(old.itime), new.itime);
            prop_assert_eq!(u64::from(old.ihardlimit), new.ihardlimit);
        }

        #[test]
        fn no_bytes_make_examine_panic(
            size in any::<u64>(),
            bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            drop(examine(Ino(3), size, &bytes));
        }

        #[test]
        fn offsets_and_ids_are_inverse(id in any::<u32>()) {
            prop_assert_eq!(offset(id).and_then(id_at), (id <= MAX_ID).then_some(id));
        }
    }
}
