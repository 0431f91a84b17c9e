//! Finding the superblock.
//!
//! **Invariants.**
//! 1. The constants of the located superblock passed [`ffs_ondisk::sbcheck`] and every group has
//!    space for its metadata, so that addresses computed from them are on the device.
//! 2. The next check locates the same superblock: after it has been written to its standard
//!    location, it is found there and is valid without corrections. A superblock for which this
//!    does not hold is refused.
//!
//! References: spec/fsck-and-crash.md §2; spec/on-disk-format.md §2, §3, §13, §14.

use ffs_device::{BlockDevice, DeviceError};
use ffs_ondisk::sbsearch::{self, Found, SearchError, Source};
use ffs_ondisk::superblock::{CkHash, SBLOCKSIZE, SbFields, magic_of};
use ffs_ondisk::{CgNo, Error, Format, Geometry, Superblock, sbcheck};

use super::report::exit;
use super::resolve::{Res, Stop};

/// Limit on the rounds of correction. A correction takes values on which the backups agree, and the
/// backups do not change: one round corrects the layout, another the constants.
const MAX_ROUNDS: u32 = 4;

/// Location of the first backup for the usual block sizes, bytes.
const USUAL_BACKUPS: [u64; 7] = [16384, 32768, 65536, 73728, 81920, 98304, 131_072];

/// Advice if no valid copy of the superblock was found.
const OTHER_BACKUP: &str = "if you know where a backup superblock is, name it with -b SECTOR \
    (newfs printed the locations; newfs -N with the same size and options prints them again)";

/// A constant that the standard superblock has wrong.
#[derive(Debug, Clone)]
pub(super) struct Correction {
    /// Its name.
    pub(super) field: &'static str,
    /// Its value.
    pub(super) found: String,
    /// The correct value.
    pub(super) right: String,
}

macro_rules! constants {
    ($($field:ident),*) => {
        /// Copies from `from` the constants that no sum or check hash protects; returns the
        /// changes.
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
    old_postblformat,
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

/// The superblock of the check.
pub(super) struct Located {
    /// The superblock with corrected constants.
    pub(super) found: Found,
    /// The corrections.
    pub(super) corrections: Vec<Correction>,
}

impl Located {
    fn of(found: Found) -> Located {
        Located { found, corrections: Vec::new() }
    }
}

/// The device as it would be with a superblock written to its location.
struct PatchedDevice<'a> {
    dev: &'a dyn BlockDevice,
    written: Option<(u64, Vec<u8>)>,
}

impl PatchedDevice<'_> {
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

/// Finds the superblock, at 512-byte sector `at` if given.
pub(super) fn locate(dev: &dyn BlockDevice, at: Option<u64>) -> Res<Located> {
    let mut disk = PatchedDevice { dev, written: None };
    let located = search_once(&disk, at)?;
    let located = if at.is_none() { converge(&mut disk, located)? } else { located };
    refuse_variant(&located)?;
    check_metadata_fits(&located.found.geometry)?;
    Ok(located)
}

/// Refuses a variant of UFS1 whose rules this check does not have (`spec/on-disk-format.md` §20.1).
fn refuse_variant(located: &Located) -> Res<()> {
    let variant = located.found.geometry.variant;
    if variant.is_writable() {
        return Ok(());
    }
    let system = variant.system();
    let why = format!(
        "this is a {system} volume: ffs reads it but cannot check it; use the fsck of that system, \
         or copy its files to a new volume"
    );
    Err(Stop::Refused(exit::SUPERBLOCK, why))
}

/// Repeats the search on the corrected volume until it yields no correction.
fn converge(disk: &mut PatchedDevice<'_>, mut located: Located) -> Res<Located> {
    let mut converged = located.found.source == Source::Primary && located.corrections.is_empty();
    for _ in 0..MAX_ROUNDS {
        if converged {
            return Ok(located);
        }
        let sb = &located.found.sb;
        disk.written = Some((sb.location, sb.encode()));
        let next = search_once(disk, None)?;
        let (source, place) = (next.found.source, next.found.sb.location);
        converged =
            next.corrections.is_empty() && source == Source::Primary && place == sb.location;
        (located.found.sb, located.found.geometry) = (next.found.sb, next.found.geometry);
        located.corrections.extend(next.corrections);
    }
    let at = located.found.sb.location;
    let why = format!("superblock: repaired at byte {at} it would not be the one that is found");
    Err(Stop::Refused(exit::SUPERBLOCK, why))
}

/// Searches for the superblock once.
fn search_once(disk: &PatchedDevice<'_>, at: Option<u64>) -> Res<Located> {
    let size = Some(disk.len());
    let read = |offset, len| disk.read(offset, len);
    let found = match at {
        None => sbsearch::find(read, size),
        Some(block) => sbsearch::at(read, block.saturating_mul(512), size),
    };
    if let Err(SearchError::Format(Error::Truncated { .. })) = &found
        && let Some(located) = shrink_to_backup(disk)
    {
        return Ok(located);
    }
    let refused = match &found {
        Err(SearchError::Format(error)) => {
            matches!(error, Error::Unsupported(_) | Error::Corrupt(_) | Error::Truncated { .. })
        }
        _ => false,
    };
    let found =
        if refused && at.is_none() { find_usual_backup(disk).map_or(found, Ok) } else { found };
    let found = found.map_err(|error| match error {
        SearchError::Format(error @ (Error::NewfsUnfinished(_) | Error::GrowfsUnfinished(_))) => {
            Stop::Refused(exit::UNFINISHED_NEWFS, error.to_string())
        }
        SearchError::Format(error @ (Error::NotUfs(_) | Error::Corrupt(_))) => {
            Stop::Refused(exit::SUPERBLOCK, format!("{error}; {OTHER_BACKUP}"))
        }
        other => Stop::Refused(exit::SUPERBLOCK, other.to_string()),
    })?;
    let mut located = correct_by_backups(disk, found);
    restore_layout(disk, &mut located);
    correct_file_size(disk, &mut located);
    Ok(located)
}

/// A valid backup at one of the usual locations, for use instead of a standard superblock that is
/// impossible.
fn find_usual_backup(disk: &PatchedDevice<'_>) -> Option<Found> {
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

/// Corrects a volume that is larger than its device according to the standard superblock, if the
/// first backup has a smaller size.
fn shrink_to_backup(disk: &PatchedDevice<'_>) -> Option<Located> {
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

/// Corrects the largest file size, which follows from the block size on all volumes that have the
/// 64-bit fields.
fn correct_file_size(disk: &PatchedDevice<'_>, located: &mut Located) {
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

/// Corrects a standard superblock without a check hash if all of several backups agree against it.
fn correct_by_backups(disk: &PatchedDevice<'_>, mut found: Found) -> Located {
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

/// One of several backups, if all of them agree.
fn agreed_backup(disk: &PatchedDevice<'_>, g: &Geometry, sb: &Superblock) -> Option<Superblock> {
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

/// `maxbsize` determines whether a UFS1 superblock has the 64-bit fields. If it has none according
/// to `maxbsize`, but all backups do, `maxbsize` is wrong.
fn restore_layout(disk: &PatchedDevice<'_>, located: &mut Located) {
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

/// Checks that every group has space for its metadata.
fn check_metadata_fits(g: &Geometry) -> Res<()> {
    let first = if g.cgoffset > 0 { 0 } else { g.ncg.saturating_sub(1) };
    for c in first..g.ncg {
        let c = CgNo(c);
        let end = g.cgbase(c).plus(g.cg_frags(c).into());
        if g.cgdmin(c) > end {
            let why = format!("superblock: no space for the metadata of group {c}");
            return Err(Stop::Refused(exit::SUPERBLOCK, why));
        }
    }
    Ok(())
}
