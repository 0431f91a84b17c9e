//! The record header, `struct s_spcl` (`spec/on-disk-format.md` §24.2).
//!
//! # Invariants
//! 1. [`Header::decode`] accepts only a record with a known magic number, type and the right
//!    checksum. Its fields are unchecked otherwise.
//! 2. [`Header::encode`] sets every byte of the record.

use ffs_core::Timespec;
use ffs_ondisk::wire::{get, put};
use ffs_ondisk::{Endian, layout};

use super::TP_BSIZE;

/// Entries of `c_addr`.
pub(super) const TP_NINDIR: usize = 512;
/// Sum of the 256 words of a header.
const CHECKSUM: i32 = 84446;
/// Magic number of headers with the old, 32-bit times (4.2BSD to FreeBSD 4, NetBSD, Linux).
pub(super) const NFS_MAGIC: i32 = 60012;
/// Magic number of the format before 4.2BSD.
const OFS_MAGIC: i32 = 60011;
/// Magic number of headers with 64-bit times (FreeBSD 5 and later).
pub(super) const FS_UFS2_MAGIC: i32 = 0x1954_0119;
/// `c_flags`: the header has the fields after `c_label`.
const DR_NEWHEADER: i32 = 1;
/// `c_flags`: inodes and directory entries have the format of 4.4BSD.
const DR_NEWINODEFMT: i32 = 2;
/// `c_flags` of Linux: the records are compressed.
pub(super) const DR_COMPRESSED: i32 = 0x80;
/// `c_flags` of Linux: the inode is without its data.
pub(super) const DR_METAONLY: i32 = 0x100;
/// `c_flags` of Linux: the record has the extended attributes of the inode before it.
pub(super) const DR_EXTATTRIBUTES: i32 = 0x8000;

/// A record of the stream.
pub(super) type Record = [u8; TP_BSIZE];

/// Byte offsets of the text fields and of the map.
const ADDR: usize = 164;
const LABEL: usize = 676;
const FILESYS: usize = 696;
const DEV: usize = 760;
const HOST: usize = 824;

layout! {
    /// The numbers of a header.
    pub struct Spcl[1024] {
        0 => c_type: i32, "Record type.";
        4 => old_date: i32, "Date of the dump, seconds.";
        8 => old_ddate: i32, "Date of the dump before, seconds.";
        12 => volume: i32, "Volume number, from 1.";
        16 => old_tapea: i32, "Number of this record.";
        20 => inumber: u32, "Inode.";
        24 => magic: i32, "Magic number.";
        28 => checksum: i32, "Makes the sum of all words 84446.";
        32 => mode: u16, "Type and permissions.";
        36 => old_ids: [u16; 2], "Owner and group before 4.4BSD.";
        40 => size: u64, "Bytes.";
        48 => old_atime: i32, "Access time, seconds.";
        52 => atimensec: i32, "Nanoseconds.";
        56 => old_mtime: i32, "Modification time, seconds.";
        60 => mtimensec: i32, "Nanoseconds.";
        72 => rdev: u32, "Device number.";
        76 => birthtimensec: i32, "Nanoseconds.";
        80 => birthtime: i64, "Creation time, seconds.";
        88 => atime: i64, "Access time, seconds.";
        96 => mtime: i64, "Modification time, seconds.";
        104 => extsize: u32, "Bytes of extended attributes.";
        132 => file_flags: u32, "File flags.";
        144 => uid: u32, "Owner.";
        148 => gid: u32, "Group.";
        160 => count: i32, "Entries of c_addr, or records of a map.";
        692 => level: i32, "Level.";
        888 => flags: i32, "Format flags.";
        892 => old_firstrec: i32, "First record of the volume.";
        896 => date: i64, "Date of the dump, seconds.";
        904 => ddate: i64, "Date of the dump before, seconds.";
        912 => tapea: i64, "Number of this record.";
        920 => firstrec: i64, "First record of the volume.";
    }
}

/// The type of a record (`TS_TAPE` and so on).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// `TS_TAPE`: the first record of a volume.
    Tape,
    /// `TS_INODE`: a file.
    Inode,
    /// `TS_BITS`: the map of the inodes in this dump.
    Bits,
    /// `TS_ADDR`: more data of a file.
    Addr,
    /// `TS_END`: the end of the dump.
    End,
    /// `TS_CLRI`: the map of the inodes in use when the dump was made.
    Clri,
}

impl RecordKind {
    fn of_raw(raw: i32) -> Option<RecordKind> {
        Some(match raw {
            1 => RecordKind::Tape,
            2 => RecordKind::Inode,
            3 => RecordKind::Bits,
            4 => RecordKind::Addr,
            5 => RecordKind::End,
            6 => RecordKind::Clri,
            _ => return None,
        })
    }

    fn raw(self) -> i32 {
        match self {
            RecordKind::Tape => 1,
            RecordKind::Inode => 2,
            RecordKind::Bits => 3,
            RecordKind::Addr => 4,
            RecordKind::End => 5,
            RecordKind::Clri => 6,
        }
    }
}

/// A header in native form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of the record.
    pub kind: RecordKind,
    /// Whether the stream has the magic number of FreeBSD 5 and later.
    pub ufs2: bool,
    /// Volume number, from 1.
    pub volume: i32,
    /// Inode.
    pub inumber: u32,
    /// Type and permissions of the inode.
    pub mode: u16,
    /// Bytes.
    pub size: u64,
    /// Access time.
    pub atime: Timespec,
    /// Modification time.
    pub mtime: Timespec,
    /// Creation time; zero if the stream has none.
    pub birthtime: Timespec,
    /// Device number, in FreeBSD's encoding.
    pub rdev: u32,
    /// Bytes of extended attributes.
    pub extsize: u32,
    /// File flags.
    pub file_flags: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Entries of `addr`, or records of a map.
    pub count: i32,
    /// For each record of the file, whether it follows (1) or is a hole (0).
    pub addr: [u8; TP_NINDIR],
    /// Label of the dump.
    pub label: Vec<u8>,
    /// Level of the dump.
    pub level: i32,
    /// Where the file system was mounted.
    pub filesys: Vec<u8>,
    /// The device.
    pub dev: Vec<u8>,
    /// The host.
    pub host: Vec<u8>,
    /// Format flags.
    pub flags: i32,
    /// Date of the dump, seconds.
    pub date: i64,
    /// Date of the dump that this one is relative to, seconds; 0 for a full dump.
    pub ddate: i64,
    /// Number of this record in the stream.
    pub tapea: i64,
}

/// Why a record is not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotAHeader {
    Magic,
    /// The format before 4.2BSD.
    Old,
    Checksum,
    Type(i32),
}

impl std::fmt::Display for NotAHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotAHeader::Magic => f.write_str("it has no header of a dump"),
            NotAHeader::Old => f.write_str(
                "the dump has the format before 4.2BSD (magic number 60011), which cannot be read",
            ),
            NotAHeader::Checksum => f.write_str("the checksum of the header is wrong"),
            NotAHeader::Type(raw) => write!(f, "the header has the unknown type {raw}"),
        }
    }
}

impl Header {
    /// A header without a file, as the base of those that a dump writes.
    #[must_use]
    pub fn new(level: u8, date: i64, ddate: i64) -> Header {
        Header {
            kind: RecordKind::Tape,
            ufs2: true,
            volume: 1,
            inumber: 0,
            mode: 0,
            size: 0,
            atime: Timespec::default(),
            mtime: Timespec::default(),
            birthtime: Timespec::default(),
            rdev: 0,
            extsize: 0,
            file_flags: 0,
            uid: 0,
            gid: 0,
            count: 0,
            addr: [0; TP_NINDIR],
            label: Vec::new(),
            level: level.into(),
            filesys: Vec::new(),
            dev: Vec::new(),
            host: Vec::new(),
            flags: DR_NEWHEADER | DR_NEWINODEFMT,
            date,
            ddate,
            tapea: 0,
        }
    }

    /// The byte order of a stream that begins with `record`.
    pub(super) fn endian_of(record: &Record) -> Result<Endian, NotAHeader> {
        for endian in [Endian::Little, Endian::Big] {
            match get::<i32>(record, 24, endian) {
                NFS_MAGIC | FS_UFS2_MAGIC => return Ok(endian),
                OFS_MAGIC => return Err(NotAHeader::Old),
                _ => {}
            }
        }
        Err(NotAHeader::Magic)
    }

    /// Decodes a header.
    pub(super) fn decode(record: &Record, endian: Endian) -> Result<Header, NotAHeader> {
        let raw = Spcl::decode(record, endian);
        match raw.magic {
            NFS_MAGIC | FS_UFS2_MAGIC => {}
            OFS_MAGIC => return Err(NotAHeader::Old),
            _ => return Err(NotAHeader::Magic),
        }
        if sum(record, endian) != CHECKSUM {
            return Err(NotAHeader::Checksum);
        }
        let kind = RecordKind::of_raw(raw.c_type).ok_or(NotAHeader::Type(raw.c_type))?;
        let ufs2 = raw.magic == FS_UFS2_MAGIC;
        let time = |new: i64, old: i32, nsec| {
            let secs = if ufs2 { new } else { old.into() };
            Timespec { secs, nsec }
        };
        let wide = |new: i64, old: i32| if ufs2 { new } else { old.into() };
        let birthtime = Timespec { secs: raw.birthtime, nsec: raw.birthtimensec };
        let mut addr = [0; TP_NINDIR];
        addr.copy_from_slice(&record[ADDR..ADDR + TP_NINDIR]);
        Ok(Header {
            kind,
            ufs2,
            volume: raw.volume,
            inumber: raw.inumber,
            mode: raw.mode,
            size: raw.size,
            atime: time(raw.atime, raw.old_atime, raw.atimensec),
            mtime: time(raw.mtime, raw.old_mtime, raw.mtimensec),
            birthtime: if ufs2 { birthtime } else { Timespec::default() },
            rdev: raw.rdev,
            extsize: if ufs2 { raw.extsize } else { 0 },
            file_flags: raw.file_flags,
            uid: raw.uid,
            gid: raw.gid,
            count: raw.count,
            addr,
            label: text(record, LABEL, 16),
            level: raw.level,
            filesys: text(record, FILESYS, 64),
            dev: text(record, DEV, 64),
            host: text(record, HOST, 64),
            flags: raw.flags,
            date: wide(raw.date, raw.old_date),
            ddate: wide(raw.ddate, raw.old_ddate),
            tapea: wide(raw.tapea, raw.old_tapea),
        })
    }

    /// The owner and group before 4.4BSD, of 16 bits.
    pub(super) fn old_ids(record: &Record, endian: Endian) -> (u32, u32) {
        let [uid, gid] = get::<[u16; 2]>(record, 36, endian);
        (uid.into(), gid.into())
    }

    /// Whether inodes and directory entries have the format before 4.4BSD; of a `TS_TAPE` record.
    pub(super) fn old_inodes(&self) -> bool {
        !self.ufs2 && self.flags & DR_NEWINODEFMT == 0
    }

    /// Encodes the header with its checksum.
    pub(super) fn encode(&self, endian: Endian) -> Record {
        let old = |wide: i64| wide.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let raw = Spcl {
            c_type: self.kind.raw(),
            old_date: old(self.date),
            old_ddate: old(self.ddate),
            volume: self.volume,
            old_tapea: old(self.tapea),
            inumber: self.inumber,
            magic: if self.ufs2 { FS_UFS2_MAGIC } else { NFS_MAGIC },
            checksum: 0,
            mode: self.mode,
            old_ids: [0; 2],
            size: self.size,
            old_atime: old(self.atime.secs),
            atimensec: self.atime.nsec,
            old_mtime: old(self.mtime.secs),
            mtimensec: self.mtime.nsec,
            rdev: self.rdev,
            birthtimensec: self.birthtime.nsec,
            birthtime: self.birthtime.secs,
            atime: self.atime.secs,
            mtime: self.mtime.secs,
            extsize: self.extsize,
            file_flags: self.file_flags,
            uid: self.uid,
            gid: self.gid,
            count: self.count,
            level: self.level,
            flags: self.flags,
            old_firstrec: 0,
            date: self.date,
            ddate: self.ddate,
            tapea: self.tapea,
            firstrec: 0,
        };
        let mut record = [0; TP_BSIZE];
        raw.encode(&mut record, endian);
        record[ADDR..ADDR + TP_NINDIR].copy_from_slice(&self.addr);
        for (at, size, text) in [
            (LABEL, 16, &self.label),
            (FILESYS, 64, &self.filesys),
            (DEV, 64, &self.dev),
            (HOST, 64, &self.host),
        ] {
            // The last byte stays NUL.
            let len = text.len().min(size - 1);
            record[at..at + len].copy_from_slice(&text[..len]);
        }
        let rest = CHECKSUM.wrapping_sub(sum(&record, endian));
        put(&mut record, 28, endian, rest);
        record
    }
}

fn sum(record: &Record, endian: Endian) -> i32 {
    (0..TP_BSIZE).step_by(4).fold(0, |sum, at| sum.wrapping_add(get(record, at, endian)))
}

/// The text in a field of `size` bytes, up to its first NUL.
fn text(record: &Record, at: usize, size: usize) -> Vec<u8> {
    record[at..at + size].split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests;
