//! The variants of UFS1: which system's rules hold for a volume (`spec/on-disk-format.md` §20.1).
//!
//! | variant | differs from 4.4BSD in |
//! | --- | --- |
//! | [`Variant::Bsd43`] | directory entries without types, 16-bit owners, links in blocks |
//! | [`Variant::Sun`] | the same entries; inodes with own owners, times and device numbers |
//! | [`Variant::SunMtb`] | as Solaris, with another magic number |
//!
//! # Invariants
//! 1. A volume with the inodes, the masks and the short links of 4.4BSD is never another variant.
//!    So no volume that FreeBSD, NetBSD or OpenBSD make by default is read-only because of this.
//! 2. ffs reads volumes of every variant and writes those of [`Variant::Bsd44`] only.

use crate::error::Error;
use crate::sbfields::{MTB_UFS_MAGIC, SbFields};
use crate::wire::{Endian, get};

/// `fs_state` of SunOS and Solaris is this value minus the time of the last write.
const FS_OKAY: u32 = 0x7c26_9d38;
/// Byte offsets of `fs_state`: Solaris on SPARC, Solaris on x86, SunOS 4.
const STATE_OFFSETS: [usize; 3] = [1336, 132, 0];
/// Byte offset of Solaris' `fs_version`.
const VERSION_OFFSET: usize = 1320;
/// Byte offset of Solaris' `fs_logbno`: the log's first block, 0 without a log.
const LOGBNO_OFFSET: usize = 1324;
/// `fs_old_inodefmt` of 4.4BSD.
const FS_44INODEFMT: i32 = 2;
/// `fs_old_postblformat` of 4.2BSD.
const FS_42POSTBLFMT: i32 = -1;
/// `fs_clean` of Solaris: no inconsistencies, some contents may be older.
const FSSTABLE: i8 = 2;
/// `fs_clean` of Solaris: mounted with a log.
const FSLOG: i8 = 0xfd_u8.cast_signed();
/// The values of `fs_clean` of a Solaris volume that is or was in use: being repaired, with a log,
/// suspended, bad.
const SUN_CLEAN: std::ops::RangeInclusive<i8> = -4..=-1;
/// `fs_rolled` of Solaris: the log has no changes that are not in place.
const FS_ALL_ROLLED: i32 = 1;
/// `fs_rolled` of Solaris: it has some.
const FS_NEED_ROLL: i32 = 2;

/// The systems whose rules a volume may follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Variant {
    /// 4.4BSD and its descendants; all volumes of UFS2.
    #[default]
    Bsd44,
    /// 4.2BSD, 4.3BSD, and volumes that later systems made in their format.
    Bsd43,
    /// SunOS and Solaris.
    Sun,
    /// Solaris' multi-terabyte UFS.
    SunMtb,
}

impl Variant {
    /// The variant by the superblock `bytes` of a UFS1 volume, whose fields are `f`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a version of Solaris' format that is not known.
    pub(crate) fn detect(f: &SbFields, bytes: &[u8], endian: Endian) -> Result<Variant, Error> {
        let version = get::<i32>(bytes, VERSION_OFFSET, endian);
        let unknown =
            || Error::Unsupported(format!("version {version} of the UFS of Solaris (fs_version)"));
        if f.magic == MTB_UFS_MAGIC {
            return if version == 1 { Ok(Variant::SunMtb) } else { Err(unknown()) };
        }
        let masks = f.qbmask == i64::from(f.bsize) - 1 && f.qfmask == i64::from(f.fsize) - 1;
        if (masks && f.maxsymlinklen == 60) || f.bsize <= 0 {
            return Ok(Variant::of_bsd(f));
        }
        if !has_state(f, bytes, endian) && !has_sun_marks(f, bytes, endian) {
            return Ok(Variant::of_bsd(f));
        }
        if matches!(version, 0 | 2) { Ok(Variant::Sun) } else { Err(unknown()) }
    }

    /// The variant of a UFS1 volume that is not of Solaris.
    pub(crate) fn of_bsd(f: &SbFields) -> Variant {
        let old = f.old_inodefmt < FS_44INODEFMT || f.maxsymlinklen <= 0 || has_old_groups(f);
        if old { Variant::Bsd43 } else { Variant::Bsd44 }
    }

    /// Whether this is a variant of SunOS or Solaris.
    #[must_use]
    pub fn is_sun(self) -> bool {
        matches!(self, Variant::Sun | Variant::SunMtb)
    }

    /// Whether ffs writes such volumes.
    #[must_use]
    pub fn is_writable(self) -> bool {
        self == Variant::Bsd44
    }

    /// The systems, as in "UFS1 of Solaris".
    #[must_use]
    pub fn system(self) -> &'static str {
        match self {
            Variant::Bsd44 => "4.4BSD",
            Variant::Bsd43 => "4.3BSD",
            Variant::Sun => "Solaris",
            Variant::SunMtb => "Solaris (multi-terabyte)",
        }
    }

    /// Why ffs does not write such a volume, which is "it", and what to do.
    #[must_use]
    pub fn read_only_reason(self) -> &'static str {
        match self {
            Variant::Bsd44 => "it is a 4.4BSD volume",
            Variant::Bsd43 => {
                "it is a 4.3BSD volume: ffs reads it but does not write it; open it read-only, or \
                 copy its files to a new volume"
            }
            Variant::Sun | Variant::SunMtb => {
                "it is a Solaris volume: ffs reads it but does not write it; open it read-only, or \
                 copy its files to a new volume"
            }
        }
    }
}

/// Whether the state is that of SunOS or Solaris after an orderly write of the superblock.
fn has_state(f: &SbFields, bytes: &[u8], endian: Endian) -> bool {
    let okay = FS_OKAY.wrapping_sub(f.old_time.cast_unsigned());
    STATE_OFFSETS.into_iter().any(|off| get::<u32>(bytes, off, endian) == okay)
}

/// Whether the masks are where 4.3BSD and Solaris have them, and a log or a value of `fs_clean`
/// exists that only Solaris has.
fn has_sun_marks(f: &SbFields, bytes: &[u8], endian: Endian) -> bool {
    let mask = |off| get::<i64>(bytes, off, endian);
    let masks = mask(1340) == i64::from(f.bsize) - 1 && mask(1348) == i64::from(f.fsize) - 1;
    let log = get::<i32>(bytes, LOGBNO_OFFSET, endian) > 0;
    masks && (log || SUN_CLEAN.contains(&f.clean))
}

/// Whether the groups have the layout of 4.2BSD (`spec/on-disk-format.md` §5.3).
pub(crate) fn has_old_groups(f: &SbFields) -> bool {
    f.old_postblformat == FS_42POSTBLFMT
}

/// Replaces the fields that 4.4BSD has where Solaris has others by values that mean the same, so
/// that the rest of the code needs no other layout. [`crate::Superblock::raw`] keeps the bytes.
pub(crate) fn adopt_sun_fields(f: &mut SbFields) {
    f.clean = match f.clean {
        1 | FSSTABLE => 1,
        FSLOG if f.unused_1 == FS_ALL_ROLLED => 1,
        _ => 0,
    };
    // Byte 211 is FSLARGEFILES or 0.
    f.old_flags = 0;
    f.flags = 0;
    f.contigsumsize = 0;
    f.maxsymlinklen = 0;
    f.old_inodefmt = 0;
    f.maxfilesize = 0;
    f.qbmask = i64::from(f.bsize) - 1;
    f.qfmask = i64::from(f.fsize) - 1;
    f.state = 0;
}

/// Whether the log of a Solaris volume may have changes that are not in place: then files may have
/// older contents, and directories may miss names.
pub(crate) fn has_unrolled_log(bytes: &[u8], endian: Endian) -> bool {
    if get::<i32>(bytes, LOGBNO_OFFSET, endian) == 0 {
        return false;
    }
    match get::<i32>(bytes, 4, endian) {
        FS_ALL_ROLLED => false,
        FS_NEED_ROLL => true,
        // Systems from before the field.
        _ => get::<i8>(bytes, 209, endian) == FSLOG,
    }
}
