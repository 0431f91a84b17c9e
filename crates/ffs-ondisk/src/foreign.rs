//! Relatives of the format: told apart so that they are refused politely or read safely
//! (`spec/on-disk-format.md` §20).
//!
//! # Invariants
//! 1. Nothing is called foreign on a single weak sign: a FreeBSD volume never is.
//! 2. NetBSD's two flags that collide with FreeBSD's are hidden by
//!    [`crate::Superblock::flags`] and survive every write.

use crate::sbfields::{MAGIC_OFFSET, SbFields};
use crate::wire::{Endian, get};

/// `fs_state` of other systems is this minus the time of the last write.
const FS_OKAY: u32 = 0x7c26_9d38;
/// Flag of NetBSD's journal (FreeBSD: NFSv4 ACLs).
pub const FS_DOWAPBL: u32 = 0x100;
/// Flag of NetBSD's quotas inside the file system (FreeBSD: check hashes).
pub const FS_DOQUOTA2: u32 = 0x200;
/// FreeBSD's flag for a gjournal provider, which uses the bytes WAPBL's version is in.
const FS_GJOURNAL: u32 = 0x40;

/// What NetBSD put into bytes 864 to 927 of a superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetBsd {
    /// The volume has a WAPBL journal: flag 0x100 means that.
    pub wapbl: bool,
    /// The volume keeps quotas inside: flag 0x200 means that.
    pub quota2: bool,
}

impl NetBsd {
    /// Reads the marks from a superblock with FreeBSD's field names.
    #[must_use]
    pub fn of(f: &SbFields, bytes: &[u8], endian: Endian) -> NetBsd {
        let byte = |off| get::<u8>(bytes, off, endian);
        let journal = byte(864) == 1 && (1..=2).contains(&byte(865));
        let wapbl = f.flags & FS_DOWAPBL != 0 && f.flags & FS_GJOURNAL == 0 && journal;
        // FreeBSD keeps these bytes zero, NetBSD has the magic number of its quotas there.
        let quota2 = f.flags & FS_DOQUOTA2 != 0 && get::<u32>(bytes, 904, endian) != 0;
        NetBsd { wapbl, quota2 }
    }

    /// The flag bits that do not mean what FreeBSD means by them.
    #[must_use]
    pub fn hidden_flags(self) -> u32 {
        (if self.wapbl { FS_DOWAPBL } else { 0 }) | (if self.quota2 { FS_DOQUOTA2 } else { 0 })
    }
}

/// The system whose UFS1 variant `f` is, if it is one that cannot be read here.
#[must_use]
pub fn ufs1_variant(f: &SbFields, bytes: &[u8], endian: Endian) -> Option<&'static str> {
    if f.old_postblformat == -1 {
        return Some("cylinder groups in the layout of 4.2BSD");
    }
    if f.qbmask == i64::from(f.bsize) - 1 && f.maxsymlinklen == 60 {
        // The test for 4.4BSD and everything that came from it.
        return None;
    }
    let okay = FS_OKAY.wrapping_sub(f.old_time as u32);
    let state = |off| get::<u32>(bytes, off, endian) == okay;
    (state(1336) || state(132)).then_some("the UFS of Solaris or SunOS")
}

/// What the magic number at the usual place of `bytes` belongs to, if to a known relative.
#[must_use]
pub fn magic_name(bytes: &[u8]) -> Option<&'static str> {
    [Endian::Little, Endian::Big].into_iter().find_map(|e| {
        match get::<u32>(bytes, MAGIC_OFFSET, e) {
            0x0009_5014 | 0x0061_2195 | 0x0019_5612 | 0x0523_1994 => Some("the HFS of HP-UX"),
            0x1901_2038 => Some("NetBSD's UFS2 with extended attributes"),
            _ => None,
        }
    })
}

/// The system whose label the first 8 KiB of a volume carry, if it is a relative.
#[must_use]
pub fn label_name(start: &[u8]) -> Option<&'static str> {
    let at = |off: usize| start.get(off..off + 4).unwrap_or(&[]);
    if at(7168) == b"LABL" {
        return Some("Apple's UFS, with directories of 1024-byte chunks");
    }
    let next: [&[u8]; 3] = [b"NeXT", b"dlV2", b"dlV3"];
    next.contains(&at(0)).then_some("a NeXTSTEP disk, with directories of 1024-byte chunks")
}

/// Signs of file systems of other families: bytes at offsets, all of which must be there.
type Signs = &'static [(u64, &'static [u8])];

const OTHERS: [(Signs, &str); 16] = [
    (&[(1080, b"\x53\xef"), (1101, b"\0\0\0")], "an ext2, ext3 or ext4 file system"),
    (&[(0, b"XFSB")], "an XFS file system"),
    (&[(65600, b"_BHRfS_M")], "a Btrfs file system"),
    (&[(1024, b"\x10\x20\xf5\xf2")], "an F2FS file system"),
    (&[(3, b"NTFS    ")], "an NTFS file system"),
    (&[(3, b"EXFAT   ")], "an exFAT file system"),
    (&[(54, b"FAT"), (510, b"\x55\xaa")], "a FAT file system"),
    (&[(82, b"FAT32"), (510, b"\x55\xaa")], "a FAT file system"),
    (&[(1024, b"H+\0\x04")], "an HFS+ file system"),
    (&[(1024, b"HX\0\x05")], "an HFS+ file system"),
    (&[(32, b"NXSB")], "an APFS container"),
    (&[(131_072, b"\x0c\xb1\xba\0\0\0\0\0")], "part of a ZFS pool"),
    (&[(0, b"hsqs")], "a squashfs file system"),
    (&[(32769, b"CD001")], "an ISO 9660 file system (a CD or DVD)"),
    (&[(0, b"LUKS\xba\xbe")], "an encrypted LUKS volume"),
    (&[(4086, b"SWAPSPACE2")], "Linux swap space"),
];

/// The file system of another family on a volume, if it has the signs of one; `read(offset, len)`
/// gives the bytes there, fewer at the end, `None` if it cannot.
pub fn other_system(mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>) -> Option<&'static str> {
    let mut holds = |sign: &(u64, &[u8])| read(sign.0, sign.1.len()).is_some_and(|b| b == sign.1);
    OTHERS.iter().find(|(signs, _)| signs.iter().all(&mut holds)).map(|(_, name)| *name)
}
