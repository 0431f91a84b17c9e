//! Which superblock the check works with.
//!
//! **Invariants.**
//! 1. The constants of a located superblock passed [`ffs_ondisk::sbcheck`] and every group has room for its
//!    metadata, so that addresses computed from them lie on the device.
//! 2. What is located is what the next check will locate: written to its place it is found there, sound, and
//!    with nothing left to correct. Whatever cannot be brought that far is refused.
//!
//! References: spec/fsck-and-crash.md §2; spec/on-disk-format.md §2, §3, §13, §14.

use ffs_device::{BlockDevice, DeviceError};
use ffs_ondisk::sbsearch::{self, Found, SearchError, Source};
use ffs_ondisk::superblock::{CkHash, SBLOCKSIZE, SbFields, magic_of};
use ffs_ondisk::{CgNo, Error, Format, Geometry, Superblock, sbcheck};

use super::judge::{Res, Stop};
use super::report::exit;

/// Rounds of correcting and looking again. A correction takes what the backups agree on, and these stay as they
/// are: one round makes the layout right, one the constants.
const MAX_ROUNDS: u32 = 4;

/// Where the first backup lies for the usual block sizes, bytes.
const USUAL_BACKUPS: [u64; 7] = [16384, 32768, 65536, 73728, 81920, 98304, 131_072];

/// What to do when no copy of the superblock was found or is any good.
const OTHER_BACKUP: &str = "if you know where a backup superblock is, name it with -b SECTOR (newfs told \
                            where they are; newfs -N with the same size and options tells it again)";

/// A constant that the standard superblock has wrong.
#[derive(Debug, Clone)]
pub(super) struct Correction {
    /// Its name.
    pub(super) field: &'static str,
    /// What it says.
    pub(super) found: String,
    /// What it should.
    pub(super) right: String,
}

macro_rules! constants {
    ($($field:ident),*) => {
        /// Makes constants that no sum or check hash protects those of `from`; what was changed.
        fn take_constants(sb: &mut Superblock, from: &Superblock) -> Vec<Correction> {
            let mut out = Vec::new();
            $(if sb.f.$field != from.f.$field {
                let (found, right) = (sb.f.$field.to_string(), from.f.$field.to_string());
                out.push(Correction { field: stringify!($field), found, right });
                sb.f.$field = from.f.$field;
            })*
            out
        }
    };
}
constants!(
    old_cgoffset,
    old_cgmask,
    old_cpg,
    old_nrpos,
    old_inodefmt,
    cgsize,
    contigsumsize,
    maxsymlinklen,
    maxfilesize,
    qbmask,
    qfmask,
    size,
    dsize,
    csaddr,
    sblockloc
);

/// The superblock to work with.
pub(super) struct Located {
    /// It, with the constants made right.
    pub(super) found: Found,
    /// What was wrong with them.
    pub(super) corrections: Vec<Correction>,
}

impl Located {
    fn of(found: Found) -> Located {
        Located { found, corrections: Vec::new() }
    }
}

/// The device, as it would be with a superblock written to its place.
struct Disk<'a> {
    dev: &'a dyn BlockDevice,
    written: Option<(u64, Vec<u8>)>,
}

impl Disk<'_> {
    fn len(&self) -> u64 {
        self.dev.len_bytes()
    }

    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, DeviceError> {
        let mut buf = vec![0; len];
        self.dev.read_at(offset, &mut buf)?;
        let Some((at, bytes)) = &self.written else { return Ok(buf) };
        let (from, to) = (offset.max(*at), (offset + len as u64).min(at + bytes.len() as u64));
        if from < to {
            let n = (to - from) as usize;
            let (here, there) = ((from - offset) as usize, (from - at) as usize);
            buf[here..here + n].copy_from_slice(&bytes[there..there + n]);
        }
        Ok(buf)
    }
}

/// Finds the superblock, at 512-byte block `at` if one is named.
pub(super) fn locate(dev: &dyn BlockDevice, at: Option<u64>) -> Res<Located> {
    let mut disk = Disk { dev, written: None };
    let located = look(&disk, at)?;
    let located = if at.is_none() { settle(&mut disk, located)? } else { located };
    check_room(&located.found.geometry)?;
    Ok(located)
}

/// Looks again at the volume as it will be, until a look finds nothing to correct.
fn settle(disk: &mut Disk<'_>, mut located: Located) -> Res<Located> {
    let mut settled = located.found.source == Source::Primary && located.corrections.is_empty();
    for _ in 0..MAX_ROUNDS {
        if settled {
            return Ok(located);
        }
        let sb = &located.found.sb;
        disk.written = Some((sb.location, sb.encode()));
        let next = look(disk, None)?;
        let (source, place) = (next.found.source, next.found.sb.location);
        settled = next.corrections.is_empty() && source == Source::Primary && place == sb.location;
        (located.found.sb, located.found.geometry) = (next.found.sb, next.found.geometry);
        located.corrections.extend(next.corrections);
    }
    let at = located.found.sb.location;
    let why = format!("superblock: repaired at byte {at} it would not be the one that is found");
    Err(Stop::Refused(exit::SUPERBLOCK, why))
}

/// One look for the superblock.
fn look(disk: &Disk<'_>, at: Option<u64>) -> Res<Located> {
    let size = Some(disk.len());
    let read = |offset, len| disk.read(offset, len);
    let found = match at {
        None => sbsearch::find(read, size),
        Some(block) => sbsearch::at(read, block.saturating_mul(512), size),
    };
    if let Err(SearchError::Format(Error::Truncated { .. })) = &found
        && let Some(located) = other_size(disk)
    {
        return Ok(located);
    }
    let refused = match &found {
        Err(SearchError::Format(error)) => {
            matches!(error, Error::Unsupported(_) | Error::Corrupt(_) | Error::Truncated { .. })
        }
        _ => false,
    };
    let found = if refused && at.is_none() { other_backup(disk).map_or(found, Ok) } else { found };
    let found = found.map_err(|error| match error {
        SearchError::Format(error @ Error::NewfsUnfinished(_)) => {
            Stop::Refused(exit::UNFINISHED_NEWFS, error.to_string())
        }
        SearchError::Format(error @ (Error::NotUfs(_) | Error::Corrupt(_))) => {
            Stop::Refused(exit::SUPERBLOCK, format!("{error}; {OTHER_BACKUP}"))
        }
        other => Stop::Refused(exit::SUPERBLOCK, other.to_string()),
    })?;
    let mut located = outvote(disk, found);
    restore_layout(disk, &mut located);
    correct_file_size(disk, &mut located);
    Ok(located)
}

/// A sound backup at one of the usual places, for a standard superblock that alone says something impossible.
fn other_backup(disk: &Disk<'_>) -> Option<Found> {
    let sound = |at: u64| {
        let found = sbsearch::at(|o, n| disk.read(o, n), at, Some(disk.len())).ok()?;
        let home = found.sb.standard_location();
        let backup = found.source == Source::Backup(at) && found.sb.hash_ok();
        let magic = disk.read(home, SBLOCKSIZE).is_ok_and(|b| magic_of(&b).is_some());
        let own = found.geometry.frag_to_byte(found.geometry.cgsblock(CgNo(0))) == at;
        (backup && magic && own).then_some(found)
    };
    USUAL_BACKUPS.into_iter().find_map(sound)
}

/// A volume that claims to be larger than its device, but whose first backup knows better.
fn other_size(disk: &Disk<'_>) -> Option<Located> {
    let mut found = sbsearch::find(|o, n| disk.read(o, n), None).ok()?;
    let at = found.geometry.frag_to_byte(found.geometry.cgsblock(CgNo(0)));
    let copy = Superblock::decode(&disk.read(at, SBLOCKSIZE).ok()?, at).ok()?;
    if found.sb.old_layout || copy.differing_field(&found.sb).is_some() {
        return None;
    }
    let corrections = take_constants(&mut found.sb, &copy);
    let (geometry, _) = sbcheck::verdict_ignoring_hash(&found.sb, Some(disk.len())).ok()?;
    found.geometry = geometry;
    Some(Located { found, corrections })
}

/// The largest file size follows from the block size, on all volumes that have the 64-bit fields.
fn correct_file_size(disk: &Disk<'_>, located: &mut Located) {
    let sb = &mut located.found.sb;
    let g = located.found.geometry;
    let right = sbcheck::max_file_size(g.bsize.into(), g.nindir.into());
    let modern = !sb.old_layout && (sb.format == Format::Ufs2 || sb.f.old_inodefmt >= 2);
    if !modern || sb.f.maxfilesize == right {
        return;
    }
    let found = std::mem::replace(&mut sb.f.maxfilesize, right).to_string();
    let correction = Correction { field: "maxfilesize", found, right: right.to_string() };
    if let Ok((geometry, _)) = sbcheck::verdict_ignoring_hash(sb, Some(disk.len())) {
        located.found.geometry = geometry;
        located.corrections.push(correction);
    }
}

/// Where all of several backups agree against a standard superblock without a check hash, they are right.
fn outvote(disk: &Disk<'_>, mut found: Found) -> Located {
    let g = found.geometry;
    let hashed = found.sb.ckhashes().contains(CkHash::SUPERBLOCK);
    if hashed || found.source != Source::Primary || found.sb.old_layout {
        return Located::of(found);
    }
    let mut sb = found.sb.clone();
    let corrections = match agreed_backup(disk, &g, &sb) {
        Some(copy) => take_constants(&mut sb, &copy),
        None => Vec::new(),
    };
    if !corrections.is_empty() {
        match sbcheck::verdict(&sb, Some(disk.len())) {
            Ok((geometry, _)) => (found.sb, found.geometry) = (sb, geometry),
            Err(_) => return Located { found, corrections: Vec::new() },
        }
    }
    Located { found, corrections }
}

/// One of several backups, if all agree.
fn agreed_backup(disk: &Disk<'_>, g: &Geometry, sb: &Superblock) -> Option<Superblock> {
    let mut groups = vec![0, 1, g.ncg - 1];
    groups.retain(|&c| c < g.ncg);
    groups.dedup();
    let backup = |&c: &u32| {
        let at = g.frag_to_byte(g.cgsblock(CgNo(c)));
        let copy = Superblock::decode(&disk.read(at, SBLOCKSIZE).ok()?, at).ok()?;
        (copy.endian == sb.endian && copy.format == sb.format).then_some(copy)
    };
    let mut copies: Vec<Superblock> = groups.iter().map_while(backup).collect();
    let first = copies.first()?;
    let agree = |o: &Superblock| {
        o.old_layout == first.old_layout && take_constants(&mut o.clone(), first).is_empty()
    };
    let all = copies.len() == groups.len() && copies.len() > 1 && copies.iter().all(agree);
    all.then(|| copies.swap_remove(0))
}

/// `maxbsize` alone tells whether a UFS1 superblock has the 64-bit fields. One that by it has none, while all
/// backups do, has a wrong `maxbsize`.
fn restore_layout(disk: &Disk<'_>, located: &mut Located) {
    let Found { sb, geometry: g, source, .. } = &located.found;
    if *source != Source::Primary || !sb.old_layout {
        return;
    }
    let Some(copy) = agreed_backup(disk, g, sb).filter(|copy| !copy.old_layout) else { return };
    let mut bytes = sb.raw().to_vec();
    let Some(field) = SbFields::FIELDS.iter().find(|f| f.name == "maxbsize") else { return };
    let found = field.value(&bytes, 0, sb.endian).to_string();
    field.set(&mut bytes, 0, sb.endian, copy.f.maxbsize.into());
    let Ok(mut sb) = Superblock::decode(&bytes, sb.location) else { return };
    let right = copy.f.maxbsize.to_string();
    let mut corrections = vec![Correction { field: "maxbsize", found, right }];
    corrections.append(&mut take_constants(&mut sb, &copy));
    if let Ok((geometry, _)) = sbcheck::verdict(&sb, Some(disk.len())) {
        (located.found.sb, located.found.geometry) = (sb, geometry);
        located.corrections = corrections;
    }
}

/// Every group has room for its metadata.
fn check_room(g: &Geometry) -> Res<()> {
    let first = if g.cgoffset > 0 { 0 } else { g.ncg.saturating_sub(1) };
    for c in first..g.ncg {
        let c = CgNo(c);
        let end = g.cgbase(c).plus(g.cg_frags(c).into());
        if g.cgdmin(c) > end {
            let why = format!("superblock: no room for the metadata of group {c}");
            return Err(Stop::Refused(exit::SUPERBLOCK, why));
        }
    }
    Ok(())
}
