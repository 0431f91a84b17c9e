//! The superblock: its fields, how old volumes are read, how copies are written (§3, §9).
//!
//! # Invariants
//! 1. A [`Superblock`] keeps the bytes it was read from; encoding patches the known fields into
//!    them, so fields of other systems and of the future survive (known-failures §2.16).
//! 2. `time`, `size`, `dsize`, `csaddr` and the totals are the right ones for the volume, whether
//!    they came from the 64-bit fields or, on volumes from before FreeBSD 5, from the old 32-bit
//!    ones (§3.4); encoding puts them back where they came from.
//! 3. Decoding accepts anything with a magic number; whether it makes sense is
//!    [`crate::sbcheck`]'s business.

use crate::csum::{Csum, clamp32};
use crate::error::{Corrupt, Error, Place, Structure};
use crate::foreign::{self, NetBsd};
use crate::geometry::Format;
use crate::hash::check_hash;
use crate::layout;
use crate::units::FragNo;
use crate::wire::{Endian, get, need};
use bitflags::bitflags;

/// Bytes reserved for a superblock, `SBLOCKSIZE`.
pub const SBLOCKSIZE: usize = 8192;
/// Magic number of UFS1.
pub const FS_UFS1_MAGIC: u32 = 0x0001_1954;
/// Magic number of UFS2.
pub const FS_UFS2_MAGIC: u32 = 0x1954_0119;
/// Magic number while newfs is at work.
pub const FS_BAD_MAGIC: u32 = 0x1996_0408;
/// Byte offset of the magic number in the superblock.
pub const MAGIC_OFFSET: usize = 1372;
/// Most snapshots a volume can have, `FSMAXSNAP`.
pub const FSMAXSNAP: usize = 20;
/// Byte 211: the real flags are in `flags`, not here.
const FS_FLAGS_UPDATED: u8 = 0x80;

layout! {
    /// The superblock's fields as they lie on disk (§3); see [`Superblock`] for the ones to use.
    pub struct SbFields[1376] {
        0 => firstfield: i32, "Historic in-core link; 0.";
        4 => unused_1: i32, "Historic in-core link; 0.";
        8 => sblkno: i32, "Fragment of the backup superblock in a group.";
        12 => cblkno: i32, "Fragment of the cylinder-group block in a group.";
        16 => iblkno: i32, "Fragment of the first inode block in a group.";
        20 => dblkno: i32, "Fragment of the first data block after the metadata of a group.";
        24 => old_cgoffset: i32, "UFS1: rotation step of the metadata, fragments.";
        28 => old_cgmask: i32, "UFS1: rotation mask.";
        32 => old_time: i32, "UFS1: last write, seconds.";
        36 => old_size: i32, "UFS1: total fragments.";
        40 => old_dsize: i32, "UFS1: data fragments.";
        44 => ncg: u32, "Number of cylinder groups.";
        48 => bsize: i32, "Block size, bytes.";
        52 => fsize: i32, "Fragment size, bytes.";
        56 => frag: i32, "Fragments per block.";
        60 => minfree: i32, "Percent of the data fragments kept for root.";
        64 => old_rotdelay: i32, "UFS1: rotational delay; 0.";
        68 => old_rps: i32, "UFS1: revolutions per second.";
        72 => bmask: i32, "`!(bsize - 1)`.";
        76 => fmask: i32, "`!(fsize - 1)`.";
        80 => bshift: i32, "log2 of bsize.";
        84 => fshift: i32, "log2 of fsize.";
        88 => maxcontig: i32, "Most blocks in one contiguous transfer.";
        92 => maxbpg: i32, "Most blocks one file takes from a group before moving on.";
        96 => fragshift: i32, "log2 of frag.";
        100 => fsbtodb: i32, "log2 of fsize / 512.";
        104 => sbsize: i32, "Bytes of a superblock that are written.";
        108 => spare1: [i32; 2], "Old csmask, csshift.";
        116 => nindir: i32, "Pointers per indirect block.";
        120 => inopb: u32, "Inodes per block.";
        124 => old_nspf: i32, "UFS1: sectors per fragment.";
        128 => optim: i32, "0 optimise for time, 1 for space.";
        132 => old_npsect: i32, "UFS1: sectors per track incl. spares.";
        136 => old_interleave: i32, "UFS1: 1.";
        140 => old_trackskew: i32, "UFS1: 0.";
        144 => id: [i32; 2], "Creation time and a random number: the file system's id.";
        152 => old_csaddr: i32, "UFS1: fragment of the summary area.";
        156 => cssize: i32, "Bytes of the summary area.";
        160 => cgsize: i32, "Bytes of a cylinder-group block.";
        164 => spare2: i32, "Old ntrak.";
        168 => old_nsect: i32, "UFS1: sectors per track.";
        172 => old_spc: i32, "UFS1: sectors per cylinder.";
        176 => old_ncyl: i32, "UFS1: cylinders.";
        180 => old_cpg: i32, "UFS1: cylinders per group.";
        184 => ipg: u32, "Inodes per group.";
        188 => fpg: i32, "Fragments per group.";
        192 => old_cstotal: [i32; 4], "UFS1: totals ndir, nbfree, nifree, nffree.";
        208 => fmod: i8, "Modified flag; 0 on disk.";
        209 => clean: i8, "1 = cleanly unmounted.";
        210 => ronly: i8, "Mounted read-only; 0 on disk.";
        211 => old_flags: u8, "Flags of old volumes, or 0x80.";
        724 => cgrotor: i32, "Last group searched; 0.";
        856 => old_cpc: i32, "UFS1: cylinders per cycle of rotational positions.";
        860 => maxbsize: i32, "Largest extent, bytes; differs from bsize on old UFS1 volumes.";
        864 => unrefs: i64, "gjournal: unreferenced inodes.";
        872 => providersize: i64, "Fragments of the device when made or grown.";
        880 => metaspace: i64, "Fragments at the head of each group's data kept for metadata.";
        992 => sblockactualloc: i64, "Byte offset of this copy.";
        1000 => sblockloc: i64, "Byte offset of the standard superblock.";
        1008 => cstotal: [i64; 5], "Totals ndir, nbfree, nifree, nffree, numclusters.";
        1072 => time: i64, "Last write, seconds.";
        1080 => size: i64, "Total fragments.";
        1088 => dsize: i64, "Data fragments.";
        1096 => csaddr: i64, "Fragment of the summary area.";
        1104 => pendingblocks: i64, "Deleted but not yet freed, 512-byte units.";
        1112 => pendinginodes: u32, "Deleted but not yet freed inodes.";
        1116 => snapinum: [u32; 20], "Inodes of active snapshots, oldest first.";
        1196 => avgfilesize: u32, "Expected average file size, bytes.";
        1200 => avgfpdir: u32, "Expected files per directory.";
        1204 => save_cgsize: i32, "0.";
        1208 => mtime: i64, "Last mount or full check; validates the journal.";
        1216 => sujfree: i32, "SU+J: head of the list of unlinked open inodes.";
        1304 => ckhash: u32, "Check hash of the superblock.";
        1308 => metackhash: u32, "Which check hashes are kept.";
        1312 => flags: u32, "FS_ flags.";
        1316 => contigsumsize: i32, "Entries of the cluster summary; 0 = no cluster maps.";
        1320 => maxsymlinklen: i32, "Room for link text in the inode.";
        1324 => old_inodefmt: i32, "UFS1: 2 = 4.4BSD inodes.";
        1328 => maxfilesize: u64, "Largest file, bytes.";
        1336 => qbmask: i64, "bsize - 1.";
        1344 => qfmask: i64, "fsize - 1.";
        1352 => state: i32, "0.";
        1356 => old_postblformat: i32, "UFS1: format of the rotational tables.";
        1360 => old_nrpos: i32, "UFS1: rotational positions.";
        1364 => spare5: [i32; 2], "Old rotational table offsets.";
        1372 => magic: u32, "FS_UFS1_MAGIC or FS_UFS2_MAGIC.";
    }
}

bitflags! {
    /// `fs_flags` (§3.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct FsFlags: u32 {
        /// Was dirty when mounted: unmounting leaves it dirty.
        const UNCLEAN = 0x1;
        /// Use soft updates.
        const DOSOFTDEP = 0x2;
        /// Needs a foreground fsck.
        const NEEDSFSCK = 0x4;
        /// Soft-updates journal.
        const SUJ = 0x8;
        /// POSIX.1e access-control lists.
        const ACLS = 0x10;
        /// MAC labels per file.
        const MULTILABEL = 0x20;
        /// On a gjournal provider.
        const GJOURNAL = 0x40;
        /// NFSv4 ACLs (NetBSD: WAPBL).
        const NFS4ACLS = 0x100;
        /// Check hashes are kept (NetBSD: quota2).
        const METACKHASH = 0x200;
        /// Discard freed blocks.
        const TRIM = 0x400;
        const _ = !0;
    }
}

bitflags! {
    /// `fs_metackhash` (§3.2): which structures carry a check hash.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct CkHash: u32 {
        /// Superblock.
        const SUPERBLOCK = 0x1;
        /// Cylinder groups.
        const CYLGRP = 0x2;
        /// UFS2 inodes.
        const INODE = 0x4;
    }
}

/// A superblock as read, with the old and new fields reconciled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Every field, as found (old volumes: 64-bit fields already filled from the 32-bit ones).
    pub f: SbFields,
    /// Which format.
    pub format: Format,
    /// Byte order of the volume.
    pub endian: Endian,
    /// Byte offset this copy was read from or is meant for.
    pub location: u64,
    /// A UFS1 superblock from before the 64-bit fields existed (§3.4).
    pub old_layout: bool,
    /// What NetBSD left in bytes FreeBSD uses otherwise (§20).
    pub netbsd: NetBsd,
    /// The bytes it was read from, at least `SbFields::SIZE`, at most [`SBLOCKSIZE`].
    raw: Vec<u8>,
}

impl Superblock {
    /// Decodes the superblock at the start of `bytes`, read from byte `location`.
    ///
    /// Checks the magic number only.
    ///
    /// # Errors
    /// [`Error::NotUfs`] without a magic number, [`Error::NewfsUnfinished`], or
    /// [`Error::Unsupported`] for a relative of the format.
    pub fn decode(bytes: &[u8], location: u64) -> Result<Superblock, Error> {
        need(bytes, SbFields::SIZE, Structure::Superblock)?;
        let (endian, format) = magic_of(bytes)
            .ok_or_else(|| Error::NotUfs(format!("no superblock magic at byte {location}")))?;
        let Some(format) = format else {
            return Err(Error::NewfsUnfinished(location));
        };
        let mut f = SbFields::decode(bytes, endian);
        if format == Format::Ufs1
            && let Some(what) = foreign::ufs1_variant(&f, bytes, endian)
        {
            return Err(Error::Unsupported(what.into()));
        }
        let netbsd = NetBsd::of(&f, bytes, endian);
        let old_layout = format == Format::Ufs1 && f.maxbsize != f.bsize;
        if old_layout {
            adopt_old_fields(&mut f, location);
        }
        if f.old_flags & FS_FLAGS_UPDATED == 0 {
            f.flags = u32::from(f.old_flags);
        }
        let raw = bytes.get(..bytes.len().min(SBLOCKSIZE)).unwrap_or(bytes).to_vec();
        Ok(Superblock { f, format, endian, location, old_layout, netbsd, raw })
    }

    /// A superblock made from scratch (newfs): `f` over zeros.
    #[must_use]
    pub fn from_fields(f: SbFields, format: Format, endian: Endian, location: u64) -> Superblock {
        let netbsd = NetBsd::default();
        let raw = vec![0; SBLOCKSIZE];
        Superblock { f, format, endian, location, old_layout: false, netbsd, raw }
    }

    /// The `sbsize` bytes to write for this copy, check hash included if the volume keeps one.
    ///
    /// The caller sets `f.time` and, for copies elsewhere, [`Self::location`] first.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let len = usize::try_from(self.f.sbsize).unwrap_or(0).clamp(SbFields::SIZE, SBLOCKSIZE);
        let mut out = self.raw.clone();
        out.resize(len, 0);
        let mut f = self.f.clone();
        if self.format == Format::Ufs1 {
            f.old_time = clamp32(f.time);
            for (old, new) in f.old_cstotal.iter_mut().zip(f.cstotal) {
                *old = clamp32(new);
            }
        }
        if self.old_layout {
            self.encode_old_layout(&f, &mut out);
            return out;
        }
        let hashed = self.ckhashes().contains(CkHash::SUPERBLOCK);
        if f.sblockactualloc != 0 || hashed {
            f.sblockactualloc = i64::try_from(self.location).unwrap_or(0);
        }
        f.encode(&mut out, self.endian);
        if hashed {
            let hash = check_hash(&out, 1304);
            crate::wire::put(&mut out, 1304, self.endian, hash);
        }
        out
    }

    /// Old layout: bytes 860… hold other data, so only the 32-bit fields may be written.
    fn encode_old_layout(&self, f: &SbFields, out: &mut [u8]) {
        let keep = out.get(856..1316).map(<[u8]>::to_vec).unwrap_or_default();
        let orig = SbFields::decode(&self.raw, self.endian);
        let g = SbFields { flags: orig.flags, maxfilesize: orig.maxfilesize, ..f.clone() };
        g.encode(out, self.endian);
        if let Some(dst) = out.get_mut(856..1316) {
            dst.copy_from_slice(&keep);
        }
    }

    /// Whether the stored check hash is right; `true` where the volume keeps none.
    #[must_use]
    pub fn hash_ok(&self) -> bool {
        if !self.ckhashes().contains(CkHash::SUPERBLOCK) {
            return true;
        }
        let len = usize::try_from(self.f.sbsize).unwrap_or(0);
        self.raw.get(..len).is_some_and(|b| check_hash(b, 1304) == self.f.ckhash)
    }

    /// Whether the volume was cleanly unmounted. NetBSD's 2, 4, ... are not clean (§3.3).
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.f.clean == 1
    }

    /// Whether a NetBSD journal may still hold changes: only to be read, and with doubt.
    #[must_use]
    pub fn has_dirty_wapbl(&self) -> bool {
        self.netbsd.wapbl && !self.is_clean()
    }

    /// Byte offset of the standard superblock of this volume.
    #[must_use]
    pub fn standard_location(&self) -> u64 {
        match (self.format, u64::try_from(self.f.sblockloc)) {
            (Format::Ufs2, Ok(at)) => at,
            (Format::Ufs1, Ok(at)) if at <= 8192 && self.location > 8192 => at,
            (Format::Ufs1, _) if self.location <= 8192 => self.location,
            _ => 8192,
        }
    }

    /// The first field in which two copies of one volume's superblock may not differ but do
    /// (the 21 fields fsck compares).
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

    /// Whether the fields from byte 1024 on that never change are the same in both: then that
    /// sector of `self` is intact even if others are not.
    pub(crate) fn third_sector_agrees(&self, other: &Superblock) -> bool {
        let fixed = |sb: &Superblock| {
            let f = &sb.f;
            let wide = [f.size, f.dsize, f.csaddr, f.sblockloc, f.qbmask, f.qfmask];
            (wide, f.maxfilesize, f.maxsymlinklen, f.magic)
        };
        let modern = !self.old_layout && !other.old_layout;
        modern && self.endian == other.endian && fixed(self) == fixed(other)
    }

    /// Takes the fields from byte 1024 on that do change from `from`.
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
        f.flags = o.flags;
    }

    /// The bytes it was read from.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The flags, without those that NetBSD means otherwise.
    #[must_use]
    pub fn flags(&self) -> FsFlags {
        FsFlags::from_bits_retain(self.f.flags & !self.netbsd.hidden_flags())
    }

    /// Sets the flags (in the old byte too where the volume keeps them there).
    ///
    /// NetBSD's own stay as they are.
    pub fn set_flags(&mut self, flags: FsFlags) {
        let hidden = self.netbsd.hidden_flags();
        self.f.flags = (flags.bits() & !hidden) | (self.f.flags & hidden);
        if self.f.old_flags & FS_FLAGS_UPDATED == 0 {
            self.f.old_flags = u8::try_from(flags.bits() & 0x7f).unwrap_or(0);
        }
    }

    /// Which check hashes the volume keeps; none unless `FS_METACKHASH` vouches for them (§3.1).
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

    /// The volume label, without padding.
    #[must_use]
    pub fn volname(&self) -> &[u8] {
        until_nul(self.raw.get(680..712).unwrap_or(&[]))
    }

    /// Sets the volume label, cut to 31 bytes.
    pub fn set_volname(&mut self, name: &[u8]) {
        put_text(&mut self.raw, 680, 32, name);
    }

    /// Where the volume was last mounted.
    #[must_use]
    pub fn fsmnt(&self) -> &[u8] {
        until_nul(self.raw.get(212..680).unwrap_or(&[]))
    }

    /// Sets the last mount point, cut to 467 bytes.
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

/// Byte order and format told by the magic number; `Some((_, None))` for an unfinished newfs.
#[must_use]
pub fn magic_of(bytes: &[u8]) -> Option<(Endian, Option<Format>)> {
    [Endian::Little, Endian::Big].into_iter().find_map(|e| {
        match get::<u32>(bytes, MAGIC_OFFSET, e) {
            FS_UFS1_MAGIC => Some((e, Some(Format::Ufs1))),
            FS_UFS2_MAGIC => Some((e, Some(Format::Ufs2))),
            FS_BAD_MAGIC => Some((e, None)),
            _ => None,
        }
    })
}

/// Fills the 64-bit fields of an old UFS1 superblock from the 32-bit ones (§3.4).
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

fn put_text(raw: &mut [u8], off: usize, room: usize, text: &[u8]) {
    if let Some(dst) = raw.get_mut(off..off + room) {
        dst.fill(0);
        for (d, s) in dst.iter_mut().take(room - 1).zip(text) {
            *d = *s;
        }
    }
}
