//! UFS1 inodes: those of 4.4BSD, 4.3BSD and Solaris (`spec/on-disk-format.md` §7.1, §20.2).
//!
//! # Invariants
//! 1. A field that a variant lacks is zero in the [`Dinode`].
//! 2. Solaris' inodes are decoded only; no volume with them is written.

use super::{Dinode, FileFlags, FileType, Timespec};
use crate::bmap;
use crate::geometry::{Geometry, NDADDR};
use crate::layout;
use crate::rdev::DeviceNumber;
use crate::wire::{Endian, get, put};

layout! {
    /// UFS1 inode on disk.
    pub struct Dinode1[128] {
        0 => mode: u16, "Type and permissions.";
        2 => nlink: u16, "Links.";
        4 => freelink: u32, "SU+J: next unlinked inode; directories: depth; 4.2BSD: 16-bit ids.";
        8 => size: u64, "Bytes.";
        16 => atime: i32, "Access time, seconds.";
        20 => atimensec: i32, "Nanoseconds.";
        24 => mtime: i32, "Modification time, seconds.";
        28 => mtimensec: i32, "Nanoseconds.";
        32 => ctime: i32, "Change time, seconds.";
        36 => ctimensec: i32, "Nanoseconds.";
        40 => db: [i32; 12], "Direct pointers.";
        88 => ib: [i32; 3], "Indirect pointers.";
        100 => flags: u32, "File flags.";
        104 => blocks: u32, "512-byte units held.";
        108 => gen_: u32, "Generation.";
        112 => uid: u32, "Owner.";
        116 => gid: u32, "Group.";
        120 => modrev: u64, "Change counter.";
    }
}

layout! {
    /// Inode of SunOS and Solaris on disk.
    pub struct SunDinode[128] {
        0 => mode: u16, "Type and permissions.";
        2 => nlink: u16, "Links.";
        4 => suid: u16, "Owner; 65535 = see uid.";
        6 => sgid: u16, "Group; 65535 = see gid.";
        8 => size: u64, "Bytes.";
        16 => atime: i32, "Access time, seconds.";
        20 => atime_usec: i32, "Microseconds.";
        24 => mtime: i32, "Modification time, seconds.";
        28 => mtime_usec: i32, "Microseconds.";
        32 => ctime: i32, "Change time, seconds.";
        36 => ctime_usec: i32, "Microseconds.";
        40 => db: [i32; 12], "Direct pointers.";
        88 => ib: [i32; 3], "Indirect pointers.";
        100 => cflags: u32, "IXATTR 1, IFALLOCATE 2, ICOMPRESS 4.";
        104 => blocks: u32, "512-byte units held.";
        108 => gen_: u32, "Generation.";
        112 => shadow: u32, "Inode of the access list; 0 = none.";
        116 => uid: u32, "Owner, 32 bits.";
        120 => gid: u32, "Group, 32 bits.";
        124 => oeftflag: u32, "Directory of the extended attributes; 0 = none.";
    }
}

/// The short owner that refers to the long one, `UID_LONG`.
const UID_LONG: u16 = 65535;

impl Dinode {
    pub(super) fn from_ufs1(g: &Geometry, b: &[u8]) -> Dinode {
        if g.variant.is_sun() {
            return Self::from_sun(g, b);
        }
        let d = Dinode1::decode(b, g.endian);
        let ts = |secs: i32, nsec| Timespec { secs: secs.into(), nsec };
        let mut out = Dinode {
            mode: d.mode,
            nlink: d.nlink,
            uid: d.uid,
            gid: d.gid,
            size: d.size,
            blocks: d.blocks.into(),
            atime: ts(d.atime, d.atimensec),
            mtime: ts(d.mtime, d.mtimensec),
            ctime: ts(d.ctime, d.ctimensec),
            generation: d.gen_,
            flags: FileFlags::from_bits_retain(d.flags),
            db: d.db.map(i64::from),
            ib: d.ib.map(i64::from),
            modrev: d.modrev,
            freelink: d.freelink,
            ..Dinode::default()
        };
        out.take_short(g, b.get(40..100).unwrap_or(&[]));
        if g.old_ids {
            // These bytes had 16-bit ids before they had the depth.
            out.freelink = 0;
            out.uid = get::<u16>(b, 4, g.endian).into();
            out.gid = get::<u16>(b, 6, g.endian).into();
        }
        if out.file_type().is_some_and(FileType::is_device)
            && let Some(first) = out.db.first_mut()
        {
            // A device number is unsigned.
            *first &= 0xffff_ffff;
        }
        out
    }

    fn from_sun(g: &Geometry, b: &[u8]) -> Dinode {
        let d = SunDinode::decode(b, g.endian);
        let long = |short: u16, long: u32| if short == UID_LONG { long } else { short.into() };
        let ts = |secs: i32, usec: i32| Timespec {
            secs: secs.into(),
            nsec: if (0..1_000_000).contains(&usec) { usec * 1000 } else { 0 },
        };
        let mut out = Dinode {
            mode: d.mode,
            nlink: d.nlink,
            uid: long(d.suid, d.uid),
            gid: long(d.sgid, d.gid),
            size: d.size,
            blocks: d.blocks.into(),
            atime: ts(d.atime, d.atime_usec),
            mtime: ts(d.mtime, d.mtime_usec),
            ctime: ts(d.ctime, d.ctime_usec),
            generation: d.gen_,
            ..Dinode::default()
        };
        if out.file_type().is_some_and(FileType::is_device) {
            let [big, little, ..] = d.db;
            let number = if g.endian == Endian::Big { big } else { little };
            out.db = [0; NDADDR];
            if let Some(first) = out.db.first_mut() {
                *first = sun_device(number.cast_unsigned());
            }
        } else {
            out.db = d.db.map(|p| bmap::sun_pointer(g, p));
            out.ib = d.ib.map(|p| bmap::sun_pointer(g, p));
        }
        out
    }

    pub(super) fn to_ufs1(&self, g: &Geometry, b: &mut [u8]) {
        let d = Dinode1 {
            mode: self.mode,
            nlink: self.nlink,
            freelink: self.freelink,
            size: self.size,
            atime: self.atime.secs_in_ufs1(),
            atimensec: self.atime.nsec,
            mtime: self.mtime.secs_in_ufs1(),
            mtimensec: self.mtime.nsec,
            ctime: self.ctime.secs_in_ufs1(),
            ctimensec: self.ctime.nsec,
            db: self.db.map(|p| p as i32),
            ib: self.ib.map(|p| p as i32),
            flags: self.flags.bits(),
            blocks: self.blocks as u32,
            gen_: self.generation,
            uid: if g.old_ids { get(b, 112, g.endian) } else { self.uid },
            gid: if g.old_ids { get(b, 116, g.endian) } else { self.gid },
            modrev: self.modrev,
        };
        d.encode(b, g.endian);
        if g.old_ids {
            put(b, 4, g.endian, self.uid as u16);
            put(b, 6, g.endian, self.gid as u16);
        }
        self.put_short(g, b, 40);
    }
}

/// Solaris' device number in FreeBSD's encoding. Numbers of 16 bits have 8 for the driver; longer
/// ones have 14, and 18 for the device.
fn sun_device(number: u32) -> i64 {
    let short = matches!(number >> 16, 0 | 0xffff);
    let (major, minor) = match short {
        true => ((number >> 8) & 0xff, number & 0xff),
        false => (number >> 18, number & 0x3_ffff),
    };
    let encoded = DeviceNumber { major, minor }.to_disk(crate::Format::Ufs2);
    encoded.unwrap_or_default().cast_signed()
}
