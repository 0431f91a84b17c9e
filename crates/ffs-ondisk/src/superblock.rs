//! The superblock: its fields, decoding including old volumes, encoding (`spec/on-disk-format.md`
//! §3, §9).
//!
//! # Invariants
//! 1. A [`Superblock`] keeps the bytes it was decoded from. Encoding changes the known fields in
//!    them, so fields of other systems and future versions are preserved (`spec/known-failures.md`
//!    §2.16).
//! 2. `time`, `size`, `dsize`, `csaddr` and the totals are valid for all volumes. They come from
//!    the 64-bit fields or, on volumes from before FreeBSD 5, from the old 32-bit ones
//!    (`spec/on-disk-format.md` §3.4); encoding stores them in the same fields.
//! 3. Decoding accepts all bytes with a magic number; [`crate::sbcheck`] validates them.

use crate::csum::{Csum, clamp32};
use crate::error::{Corrupt, Error, Place, Structure};
use crate::foreign::NetBsd;
use crate::geometry::Format;
use crate::growth::GrowthRecord;
use crate::hash::check_hash;
use crate::sbfields::FS_FLAGS_UPDATED;
pub use crate::sbfields::*;
use crate::units::FragNo;
use crate::variant::{self, Variant};
use crate::wire::{Endian, get, need};

/// Locations of the standard superblock, bytes, in search order (`SBLOCKSEARCH`).
pub const SBLOCKSEARCH: [u64; 4] = [65536, 8192, 0, 262_144];
/// Byte offset of the check hash.
const CKHASH_OFFSET: usize = 1304;
/// Byte offset of the flags.
const FLAGS_OFFSET: usize = 1312;

/// A superblock as read, with the old and new fields reconciled.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/small.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let made = superblock(ffs_ondisk::Format::Ufs2, 8192, 8, 4, 100);
/// use ffs_ondisk::{Superblock, sbcheck, sbsearch};
///
/// # let mut disk = vec![0u8; made.f.size as usize * 1024];
/// # let bytes = made.encode();
/// # disk[65536..65536 + bytes.len()].copy_from_slice(&bytes);
/// // `disk` is a volume in memory.
/// let sb = Superblock::decode(&disk[65536..73728], 65536)?;
/// assert_eq!(sb.encode(), disk[65536..73728]);
/// let geometry = sbcheck::geometry(&sb, Some(disk.len() as u64))?;
///
/// // Or, without knowing where it is and whether it is intact:
/// let read = |at: u64, len| Ok::<_, std::io::Error>(disk[at as usize..][..len].to_vec());
/// let found = sbsearch::find(read, Some(disk.len() as u64))?;
/// assert_eq!(found.geometry, geometry);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// All fields as read (old volumes: the 64-bit fields are filled from the 32-bit ones).
    pub f: SbFields,
    /// The format.
    pub format: Format,
    /// Byte order of the volume.
    pub endian: Endian,
    /// Byte offset that this copy was read from or will be written to.
    pub location: u64,
    /// A UFS1 superblock from before the 64-bit fields existed (`spec/on-disk-format.md` §3.4).
    pub old_layout: bool,
    /// A superblock of SunOS or Solaris, whose own fields `f` has in terms of 4.4BSD.
    sun: Option<Variant>,
    /// NetBSD's data in bytes that FreeBSD uses otherwise (`spec/on-disk-format.md` §20).
    pub netbsd: NetBsd,
    /// The bytes it was decoded from, at least `SbFields::SIZE`, at most [`SBLOCKSIZE`].
    raw: Vec<u8>,
}

impl Superblock {
    /// Decodes the superblock at the start of `bytes`, read from byte `location`.
    ///
    /// Checks the magic number only.
    ///
    /// # Errors
    /// [`Error::NotUfs`] without a magic number, [`Error::NewfsUnfinished`],
    /// [`Error::GrowfsUnfinished`], or [`Error::Unsupported`] for a relative of the format.
    pub fn decode(bytes: &[u8], location: u64) -> Result<Superblock, Error> {
        need(bytes, SbFields::SIZE, Structure::Superblock)?;
        let (endian, format) = magic_of(bytes)
            .ok_or_else(|| Error::NotUfs(format!("no superblock magic at byte {location}")))?;
        let Some(format) = format else {
            return Err(match GrowthRecord::decode(bytes, endian) {
                Some(_) => Error::GrowfsUnfinished(location),
                None => Error::NewfsUnfinished(location),
            });
        };
        let mut f = SbFields::decode(bytes, endian);
        let sun = match format {
            Format::Ufs1 => Some(Variant::detect(&f, bytes, endian)?).filter(|v| v.is_sun()),
            Format::Ufs2 => None,
        };
        if sun.is_some() {
            variant::adopt_sun_fields(&mut f);
        }
        let old_layout = format == Format::Ufs1 && (f.maxbsize != f.bsize || sun.is_some());
        // Superblocks of the old layout have other data where NetBSD's are.
        let netbsd = if old_layout { NetBsd::default() } else { NetBsd::of(&f, bytes, endian) };
        if old_layout {
            adopt_old_fields(&mut f, location);
        }
        if f.old_flags & FS_FLAGS_UPDATED == 0 {
            f.flags = u32::from(f.old_flags);
        }
        let raw = bytes.get(..bytes.len().min(SBLOCKSIZE)).unwrap_or(bytes).to_vec();
        Ok(Superblock { f, format, endian, location, old_layout, sun, netbsd, raw })
    }

    /// A new superblock (newfs): `f`, and zeros elsewhere.
    #[must_use]
    pub fn from_fields(f: SbFields, format: Format, endian: Endian, location: u64) -> Superblock {
        let netbsd = NetBsd::default();
        let raw = vec![0; SBLOCKSIZE];
        Superblock { f, format, endian, location, old_layout: false, sun: None, netbsd, raw }
    }

    /// The `sbsize` bytes of this copy, with the check hash if the volume has one.
    ///
    /// The caller first sets `f.time` and, for backups, [`Self::location`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let len = usize::try_from(self.f.sbsize).unwrap_or(0).clamp(SbFields::SIZE, SBLOCKSIZE);
        let mut out = self.raw.clone();
        out.resize(len, 0);
        if self.sun.is_some() {
            // Such a volume is never written; its fields have other places.
            return out;
        }
        let orig = SbFields::decode(&self.raw, self.endian);
        let mut f = self.f.clone();
        self.set_old_copies(&mut f, &orig);
        if self.old_layout {
            // Bytes 856 to 1315 have other data on such volumes.
            let keep = out.get(856..1316).map(<[u8]>::to_vec).unwrap_or_default();
            f.encode(&mut out, self.endian);
            if let Some(dst) = out.get_mut(856..1316) {
                dst.copy_from_slice(&keep);
            }
            return out;
        }
        let hashed = self.ckhashes().contains(CkHash::SUPERBLOCK);
        if f.sblockactualloc != 0 || hashed {
            f.sblockactualloc = i64::try_from(self.location).unwrap_or(0);
        }
        f.encode(&mut out, self.endian);
        if hashed {
            let hash = check_hash(&out, CKHASH_OFFSET);
            crate::wire::put(&mut out, CKHASH_OFFSET, self.endian, hash);
        }
        out
    }

    /// Updates the fields of old kernels (`spec/on-disk-format.md` §3.4). `orig` are the fields
    /// before.
    fn set_old_copies(&self, f: &mut SbFields, orig: &SbFields) {
        // Some systems do not update them; a copy without changes must stay as it is.
        let changed = (f.time, f.cstotal) != (orig.time, orig.cstotal);
        if self.format == Format::Ufs1 && (changed || self.old_layout) {
            f.old_time = clamp32(f.time);
            for (old, new) in f.old_cstotal.iter_mut().zip(f.cstotal) {
                *old = clamp32(new);
            }
        }
        if f.old_flags & FS_FLAGS_UPDATED == 0 {
            f.flags = orig.flags;
        }
    }

    /// Whether the stored check hash is right; true if the volume has none.
    #[must_use]
    pub fn hash_ok(&self) -> bool {
        if !self.ckhashes().contains(CkHash::SUPERBLOCK) {
            return true;
        }
        let len = usize::try_from(self.f.sbsize).unwrap_or(0);
        self.raw.get(..len).is_some_and(|b| check_hash(b, CKHASH_OFFSET) == self.f.ckhash)
    }

    /// Whether the volume was cleanly unmounted. NetBSD's 2, 4, ... are not clean
    /// (`spec/on-disk-format.md` §3.3).
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.f.clean == 1
    }

    /// Whether a NetBSD journal may still have changes: such a volume can only be read, with a
    /// warning.
    #[must_use]
    pub fn has_dirty_wapbl(&self) -> bool {
        self.netbsd.wapbl && !self.is_clean()
    }

    /// Byte offset of the standard superblock of this volume: always one of [`SBLOCKSEARCH`], since
    /// no system searches elsewhere.
    #[must_use]
    pub fn standard_location(&self) -> u64 {
        let stored = u64::try_from(self.f.sblockloc).ok().filter(|at| SBLOCKSEARCH.contains(at));
        match self.format {
            Format::Ufs2 => stored.unwrap_or(65536),
            Format::Ufs1 if matches!(self.location, 0 | 8192) => self.location,
            Format::Ufs1 => stored.filter(|&at| at <= 8192).unwrap_or(8192),
        }
    }

    /// The first of the 21 fields that fsck compares in which this copy differs from `other`.
    #[must_use]
    pub fn differing_field(&self, other: &Superblock) -> Option<&'static str> {
        let fields = |sb: &Superblock| {
            let f = &sb.f;
            [
                ("sblkno", f.sblkno.into()),
                ("cblkno", f.cblkno.into()),
                ("iblkno", f.iblkno.into()),
                ("dblkno", f.dblkno.into()),
                ("ncg", i64::from(f.ncg)),
                ("bsize", f.bsize.into()),
                ("fsize", f.fsize.into()),
                ("frag", f.frag.into()),
                ("bmask", f.bmask.into()),
                ("fmask", f.fmask.into()),
                ("bshift", f.bshift.into()),
                ("fshift", f.fshift.into()),
                ("fragshift", f.fragshift.into()),
                ("fsbtodb", f.fsbtodb.into()),
                ("sbsize", f.sbsize.into()),
                ("nindir", f.nindir.into()),
                ("inopb", f.inopb.into()),
                ("cssize", f.cssize.into()),
                ("ipg", f.ipg.into()),
                ("fpg", f.fpg.into()),
                ("magic", f.magic.into()),
            ]
        };
        let pairs = fields(self).into_iter().zip(fields(other));
        pairs.into_iter().find(|(a, b)| a != b).map(|((name, _), _)| name)
    }

    /// Whether the constant fields from byte 1024 on are equal in both: then that sector of `self`
    /// is intact even if others are not.
    pub(crate) fn third_sector_agrees(&self, other: &Superblock) -> bool {
        let fixed = |sb: &Superblock| {
            let f = &sb.f;
            let wide = [f.size, f.dsize, f.csaddr, f.sblockloc, f.qbmask, f.qfmask];
            (wide, f.maxfilesize, f.maxsymlinklen, f.magic)
        };
        let modern = !self.old_layout && !other.old_layout;
        modern && self.endian == other.endian && fixed(self) == fixed(other)
    }

    /// Copies the variable fields from byte 1024 on from `from`.
    pub(crate) fn take_third_sector(&mut self, from: &Superblock) {
        let (f, o) = (&mut self.f, &from.f);
        f.cstotal = o.cstotal;
        f.time = o.time;
        f.pendingblocks = o.pendingblocks;
        f.pendinginodes = o.pendinginodes;
        f.snapinum = o.snapinum;
        f.avgfilesize = o.avgfilesize;
        f.avgfpdir = o.avgfpdir;
        f.mtime = o.mtime;
        f.sujfree = o.sujfree;
        f.metackhash = o.metackhash;
        if f.old_flags & FS_FLAGS_UPDATED != 0 {
            // The first sector of `from`, which has the location of its flags, is not reliable.
            f.flags = get(&from.raw, FLAGS_OFFSET, from.endian);
        }
    }

    /// The bytes it was decoded from.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The flags, without those with another meaning in NetBSD.
    #[must_use]
    pub fn flags(&self) -> FsFlags {
        FsFlags::from_bits_retain(self.f.flags & !self.netbsd.hidden_flags())
    }

    /// Sets the flags, in the old byte if the volume stores them there and they fit.
    ///
    /// NetBSD's flags are preserved.
    pub fn set_flags(&mut self, flags: FsFlags) {
        let hidden = self.netbsd.hidden_flags();
        self.f.flags = (flags.bits() & !hidden) | (self.f.flags & hidden);
        if self.f.old_flags & FS_FLAGS_UPDATED != 0 {
            return;
        }
        let mask = u32::from(!FS_FLAGS_UPDATED);
        match u8::try_from(flags.bits() & mask) {
            Ok(old) if self.old_layout || flags.bits() & !mask == 0 => self.f.old_flags = old,
            // FreeBSD does so with every volume that it mounts.
            _ => self.f.old_flags |= FS_FLAGS_UPDATED,
        }
    }

    /// The structures with check hashes; none unless `FS_METACKHASH` is set
    /// (`spec/on-disk-format.md` §3.1).
    #[must_use]
    pub fn ckhashes(&self) -> CkHash {
        if self.format == Format::Ufs1 || !self.flags().contains(FsFlags::METACKHASH) {
            return CkHash::empty();
        }
        CkHash::from_bits_truncate(self.f.metackhash)
    }

    /// The totals over all groups.
    #[must_use]
    pub fn cstotal(&self) -> Csum {
        let [ndir, nbfree, nifree, nffree, _] = self.f.cstotal;
        Csum { ndir, nbfree, nifree, nffree }
    }

    /// Sets the totals over all groups.
    pub fn set_cstotal(&mut self, c: Csum) {
        let [.., clusters] = self.f.cstotal;
        self.f.cstotal = [c.ndir, c.nbfree, c.nifree, c.nffree, clusters];
    }

    /// First fragment of the summary area.
    #[must_use]
    pub fn csaddr(&self) -> FragNo {
        FragNo(u64::try_from(self.f.csaddr).unwrap_or(0))
    }

    /// The variant of UFS1; [`Variant::Bsd44`] for UFS2.
    #[must_use]
    pub fn variant(&self) -> Variant {
        match (self.format, self.sun) {
            (Format::Ufs2, _) => Variant::Bsd44,
            (Format::Ufs1, Some(sun)) => sun,
            (Format::Ufs1, None) => Variant::of_bsd(&self.f),
        }
    }

    /// Whether the log of a Solaris volume may have changes that are not in place.
    #[must_use]
    pub fn has_unrolled_log(&self) -> bool {
        self.sun.is_some() && variant::has_unrolled_log(&self.raw, self.endian)
    }

    /// The volume label, without padding. On volumes of other systems the mount point is there.
    #[must_use]
    pub fn volname(&self) -> &[u8] {
        if !self.variant().is_writable() {
            return &[];
        }
        until_nul(self.raw.get(680..712).unwrap_or(&[]))
    }

    /// Sets the volume label, truncated to 31 bytes.
    pub fn set_volname(&mut self, name: &[u8]) {
        put_text(&mut self.raw, 680, 32, name);
    }

    /// The last mount point.
    #[must_use]
    pub fn fsmnt(&self) -> &[u8] {
        until_nul(self.raw.get(212..680).unwrap_or(&[]))
    }

    /// Sets the last mount point, truncated to 467 bytes.
    pub fn set_fsmnt(&mut self, path: &[u8]) {
        put_text(&mut self.raw, 212, 468, path);
    }

    /// An error about one field of this superblock.
    #[must_use]
    pub fn corrupt(
        &self,
        field: &'static str,
        found: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) -> Error {
        Corrupt::new(Structure::Superblock, Place::Byte(self.location), field, found, expected)
            .into()
    }
}

/// Byte order and format by the magic number; `Some((_, None))` for an unfinished newfs.
#[must_use]
pub fn magic_of(bytes: &[u8]) -> Option<(Endian, Option<Format>)> {
    [Endian::Little, Endian::Big].into_iter().find_map(|e| {
        match get::<u32>(bytes, MAGIC_OFFSET, e) {
            FS_UFS1_MAGIC | MTB_UFS_MAGIC => Some((e, Some(Format::Ufs1))),
            FS_UFS2_MAGIC => Some((e, Some(Format::Ufs2))),
            FS_BAD_MAGIC => Some((e, None)),
            _ => None,
        }
    })
}

/// Fills the 64-bit fields of an old UFS1 superblock from the 32-bit ones
/// (`spec/on-disk-format.md` §3.4).
fn adopt_old_fields(f: &mut SbFields, location: u64) {
    f.maxbsize = f.bsize;
    f.time = f.old_time.into();
    f.size = f.old_size.into();
    f.dsize = f.old_dsize.into();
    f.csaddr = f.old_csaddr.into();
    let [a, b, c, d] = f.old_cstotal.map(i64::from);
    f.cstotal = [a, b, c, d, 0];
    f.unrefs = 0;
    f.providersize = 0;
    f.metaspace = 0;
    f.sblockactualloc = 0;
    f.sblockloc = location.min(8192) as i64;
    f.pendingblocks = 0;
    f.pendinginodes = 0;
    f.snapinum = [0; 20];
    f.mtime = 0;
    f.sujfree = 0;
    f.ckhash = 0;
    f.metackhash = 0;
}

fn until_nul(b: &[u8]) -> &[u8] {
    b.split(|&c| c == 0).next().unwrap_or(&[])
}

fn put_text(raw: &mut [u8], off: usize, field_len: usize, text: &[u8]) {
    if let Some(dst) = raw.get_mut(off..off + field_len) {
        dst.fill(0);
        for (d, s) in dst.iter_mut().take(field_len - 1).zip(text) {
            *d = *s;
        }
    }
}
