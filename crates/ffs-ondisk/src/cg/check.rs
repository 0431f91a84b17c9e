//! Validation of a group's block: its check hash, and the header against the geometry
//! (`spec/on-disk-format.md` §5, §18.2).
//!
//! # Invariants
//! 1. A block that passed [`validate`] can be used with the views without further checks.
//! 2. Maps and counts are not checked: all their values are possible, and fsck corrects them.

use super::{CG_MAGIC, CgFields, CgLayout};
use crate::error::{Corrupt, Error, Place, Structure};
use crate::geometry::{Format, Geometry};
use crate::hash::check_hash;
use crate::superblock::CkHash;
use crate::units::CgNo;
use crate::wire::{get, need, put};

/// Byte offset of the magic number in the oldest (4.2BSD) layout.
const OLD_MAGIC_OFFSET: usize = 980;
/// Byte offset of the check hash.
const CKHASH_OFFSET: usize = 132;

/// Recomputes the check hash of the group block `b` if the volume has one.
pub fn rehash(g: &Geometry, b: &mut [u8]) {
    if g.ckhash.contains(CkHash::CYLGRP) {
        let hash = check_hash(b.get(..g.cgsize as usize).unwrap_or(&[]), CKHASH_OFFSET);
        put(b, CKHASH_OFFSET, g.endian, hash);
    }
}

/// Whether the stored check hash is right; true if the volume has none.
#[must_use]
pub fn hash_ok(g: &Geometry, b: &[u8]) -> bool {
    if !g.ckhash.contains(CkHash::CYLGRP) {
        return true;
    }
    let hash = check_hash(b.get(..g.cgsize as usize).unwrap_or(&[]), CKHASH_OFFSET);
    hash == get::<u32>(b, CKHASH_OFFSET, g.endian)
}

/// Checks the block of group `c` after it was read from disk (`spec/on-disk-format.md` §18.2).
///
/// # Errors
/// The first invalid field; a wrong check hash is reported as field `ckhash`.
pub fn validate(g: &Geometry, c: CgNo, b: &[u8]) -> Result<(), Error> {
    validate_header(g, c, b)?;
    if !hash_ok(g, b) {
        let found = format!("{:#010x}", CgFields::decode(b, g.endian).ckhash);
        let place = Place::Group(c);
        let want = "the check hash of the block";
        return Err(Corrupt::new(Structure::CylinderGroup, place, "ckhash", found, want).into());
    }
    Ok(())
}

/// Checks all but the check hash of group `c`'s block: a torn write leaves these fields right.
///
/// # Errors
/// The first invalid field.
pub fn validate_header(g: &Geometry, c: CgNo, b: &[u8]) -> Result<(), Error> {
    need(b, g.cgsize as usize, Structure::CylinderGroup)?;
    let h = CgFields::decode(b, g.endian);
    let old_magic = get::<u32>(b, OLD_MAGIC_OFFSET, g.endian);
    if !g.old_groups && h.magic != CG_MAGIC && old_magic == CG_MAGIC {
        return Err(Error::Unsupported("cylinder groups in the 4.2BSD layout".into()));
    }
    let h = if g.old_groups { with_old_magic(g, h, old_magic) } else { h };
    if let Some((field, found, expected)) = header_problems(g, c, &h).into_iter().next() {
        let place = Place::Group(c);
        return Err(Corrupt::new(Structure::CylinderGroup, place, field, found, expected).into());
    }
    Ok(())
}

/// The header `h` of a group in 4.2BSD's layout: its magic number is elsewhere, and it has tables
/// instead of offsets.
fn with_old_magic(g: &Geometry, h: CgFields, magic: u32) -> CgFields {
    let lay = CgLayout::of(g);
    CgFields {
        magic,
        old_btotoff: lay.btotoff.cast_signed(),
        old_boff: lay.boff.cast_signed(),
        iusedoff: lay.iusedoff,
        freeoff: lay.freeoff,
        nextfreeoff: lay.nextfreeoff,
        ..h
    }
}

type Mismatch = Option<(&'static str, u64, u64)>;

/// Every header field that differs from the geometry: name, found, expected.
fn header_problems(g: &Geometry, c: CgNo, h: &CgFields) -> Vec<(&'static str, u64, u64)> {
    let lay = CgLayout::of(g);
    let ndblk = g.cg_frags(c);
    let eq = |name, found: u64, want: u64| -> Mismatch {
        (found != want).then_some((name, found, want))
    };
    let mut out = vec![
        eq("magic", h.magic.into(), CG_MAGIC.into()),
        eq("cgx", h.cgx.into(), c.0.into()),
        eq("ndblk", h.ndblk.into(), ndblk.into()),
        eq("iusedoff", h.iusedoff.into(), lay.iusedoff.into()),
        eq("freeoff", h.freeoff.into(), lay.freeoff.into()),
        eq("nextfreeoff", h.nextfreeoff.into(), lay.nextfreeoff.into()),
    ];
    if g.contigsumsize > 0 {
        out.push(eq("clustersumoff", h.clustersumoff.into(), lay.clustersumoff.into()));
        out.push(eq("clusteroff", h.clusteroff.into(), lay.clusteroff.into()));
        out.push(eq("nclusterblks", h.nclusterblks.into(), (ndblk / g.frag).into()));
    }
    if g.format == Format::Ufs1 {
        out.push(eq("old_niblk", u64::from(h.old_niblk as u16), g.ipg.into()));
        out.push(eq("old_btotoff", u64::from(h.old_btotoff as u32), lay.btotoff.into()));
        out.push(eq("old_boff", u64::from(h.old_boff as u32), lay.boff.into()));
    } else {
        let whole = h.initediblk <= g.ipg
            && (h.initediblk.is_multiple_of(g.inopb) || h.initediblk == g.ipg);
        out.push(eq("niblk", h.niblk.into(), g.ipg.into()));
        out.push((!whole).then_some(("initediblk", h.initediblk.into(), g.ipg.into())));
    }
    out.into_iter().flatten().collect()
}
