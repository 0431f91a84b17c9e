//! Related and unrelated formats: detected, so that they are rejected with a clear message or read
//! safely (`spec/on-disk-format.md` §20).
//!
//! # Invariants
//! 1. A single weak sign is never sufficient: a FreeBSD volume is never reported as foreign.
//! 2. NetBSD's two flags that collide with FreeBSD's are masked by
//!    [`crate::Superblock::flags`] and preserved by every write.

use crate::other_content::{
    COMPRESS, DMG, DUMP, EWF, GELI, ISO, LUKS, LZ4, LZIP, LZMA, PARALLELS, QCOW2, QED, RAR,
    SEVEN_ZIP, SQUASHFS, TAR, VDI, VHD, VHDX, VMDK, ZFS, ZIP,
};
use crate::sbfields::{MAGIC_OFFSET, SbFields};
use crate::wire::{Endian, get};

/// Flag of NetBSD's journal (FreeBSD: NFSv4 ACLs).
pub const FS_DOWAPBL: u32 = 0x100;
/// Flag of NetBSD's quotas inside the file system (FreeBSD: check hashes).
pub const FS_DOQUOTA2: u32 = 0x200;
/// FreeBSD's flag for a gjournal provider, whose data overlaps the version of WAPBL.
const FS_GJOURNAL: u32 = 0x40;

/// NetBSD's data in bytes 864 to 927 of a superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetBsd {
    /// The volume has a WAPBL journal: flag 0x100 has that meaning.
    pub wapbl: bool,
    /// The volume has internal quotas: flag 0x200 has that meaning.
    pub quota2: bool,
}

impl NetBsd {
    /// Decodes NetBSD's data from a superblock.
    #[must_use]
    pub fn of(f: &SbFields, bytes: &[u8], endian: Endian) -> NetBsd {
        let byte = |off| get::<u8>(bytes, off, endian);
        let journal = byte(864) == 1 && (1..=2).contains(&byte(865));
        let wapbl = f.flags & FS_DOWAPBL != 0 && f.flags & FS_GJOURNAL == 0 && journal;
        // FreeBSD keeps these bytes zero; NetBSD has the magic number of its quotas there.
        let quota2 = f.flags & FS_DOQUOTA2 != 0 && get::<u32>(bytes, 904, endian) != 0;
        NetBsd { wapbl, quota2 }
    }

    /// The flag bits whose meaning differs from FreeBSD's.
    #[must_use]
    pub fn hidden_flags(self) -> u32 {
        (if self.wapbl { FS_DOWAPBL } else { 0 }) | (if self.quota2 { FS_DOQUOTA2 } else { 0 })
    }
}

/// The related format of the magic number in `bytes`, if it is a known one.
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

/// The related system whose label is in the first 8 KiB of a volume, if there is one.
#[must_use]
pub fn label_name(start: &[u8]) -> Option<&'static str> {
    let at = |off: usize| start.get(off..off + 4).unwrap_or(&[]);
    if at(7168) == b"LABL" {
        return Some("Apple's UFS, with directories of 1024-byte chunks");
    }
    let next: [&[u8]; 3] = [b"NeXT", b"dlV2", b"dlV3"];
    next.contains(&at(0)).then_some("a NeXTSTEP disk, with directories of 1024-byte chunks")
}

/// Signatures of other file systems: bytes at offsets, all of which must match.
type Signs = &'static [(u64, &'static [u8])];

const OTHERS: [(Signs, &str); 39] = [
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
    (&[(131_072, b"\x0c\xb1\xba\0\0\0\0\0")], ZFS),
    (&[(0, b"hsqs")], SQUASHFS),
    (&[(32769, b"CD001")], ISO),
    (&[(16384 + 24, b"version\0")], ZFS),
    (&[(0, b"LUKS\xba\xbe")], LUKS),
    (&[(4086, b"SWAPSPACE2")], "Linux swap space"),
    (&[(257, b"ustar")], TAR),
    (&[(24, b"\x6c\xea\0\0")], DUMP),
    (&[(24, b"\0\0\xea\x6c")], DUMP),
    (&[(24, b"\x19\x01\x54\x19")], DUMP),
    (&[(24, b"\x19\x54\x01\x19")], DUMP),
    (&[(0, b"PK\x03\x04")], ZIP),
    (&[(0, b"7z\xbc\xaf\x27\x1c")], SEVEN_ZIP),
    (&[(0, b"Rar!\x1a\x07")], RAR),
    (&[(0, b"\x04\x22\x4d\x18")], LZ4),
    (&[(0, b"\x5d\0\0"), (5, b"\xff\xff\xff\xff\xff\xff\xff\xff")], LZMA),
    (&[(0, b"LZIP\x01")], LZIP),
    (&[(0, b"\x1f\x9d\x90")], COMPRESS),
    (&[(0, b"QED\0")], QED),
    (&[(0, b"WithoutFreeSpace")], PARALLELS),
    (&[(0, b"WithouFreSpacExt")], PARALLELS),
    (&[(0, b"EVF\x09\x0d\x0a\xff\0")], EWF),
    (&[(0, b"EVF2\x0d\x0a\x81\0")], EWF),
    (&[(0, b"QFI\xfb")], QCOW2),
    (&[(0, b"KDMV")], VMDK),
    (&[(0, b"conectix")], VHD),
    (&[(0, b"vhdxfile")], VHDX),
    (&[(0, b"<<<"), (64, b"\x7f\x10\xda\xbe")], VDI),
];

/// GELI has its metadata in the last sector, and DMG its description.
const AT_END: [(&[u8], &str); 2] = [(b"GEOM::ELI", GELI), (b"koly\0\0\0\x04", DMG)];
const SECTOR: u64 = 512;

/// The other file system on a volume, if a signature matches. `read(offset, len)` returns the bytes
/// there, fewer at the end of the device, `None` on an error.
pub fn other_system(
    device_bytes: Option<u64>,
    mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>,
) -> Option<&'static str> {
    let mut holds = |sign: &(u64, &[u8])| read(sign.0, sign.1.len()).is_some_and(|b| b == sign.1);
    let found = OTHERS.iter().find(|(signs, _)| signs.iter().all(&mut holds));
    if let Some((_, name)) = found {
        return Some(name);
    }
    let last = device_bytes.and_then(|len| len.checked_sub(SECTOR))?;
    AT_END.iter().find(|(magic, _)| holds(&(last, magic))).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_content_is_named() {
        let found = |at: usize, sign: &[u8]| {
            let mut image = vec![0; 200_000];
            image[at..at + sign.len()].copy_from_slice(sign);
            other_system(Some(image.len() as u64), |at, len| {
                let at = usize::try_from(at).ok()?;
                image.get(at..at + len).map(<[u8]>::to_vec)
            })
        };
        assert_eq!(found(0, b""), None);
        assert_eq!(found(0, b"LUKS\xba\xbe"), Some(LUKS));
        assert_eq!(found(200_000 - 512, b"GEOM::ELI"), Some(GELI));
        assert_eq!(found(16408, b"version\0"), Some(ZFS));
        assert_eq!(found(257, b"ustar  "), Some(TAR));
        assert_eq!(found(24, &60012u32.to_be_bytes()), Some(DUMP));
        assert_eq!(found(24, &0x1954_0119u32.to_le_bytes()), Some(DUMP));
        assert_eq!(found(4086, b"SWAPSPACE2"), Some("Linux swap space"));
        assert_eq!(found(200_000 - 512, b"koly\0\0\0\x04"), Some(DMG));
        assert_eq!(found(0, b"PK\x03\x04"), Some(ZIP));
    }
}
