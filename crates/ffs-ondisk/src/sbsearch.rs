//! Finding the superblock of a volume (`spec/on-disk-format.md` §2, §13;
//! `spec/known-failures.md` §1.8, §2.1).
//!
//! [`find`] reads the standard locations. If the superblock there is damaged, it reads the backups:
//! at the locations that the damaged one still has, those of the recovery record, and those that
//! newfs uses for every block size. All I/O is done by a closure `read(offset, len)`, which returns
//! fewer bytes at the end of the device.
//!
//! # Invariants
//! 1. A returned superblock has passed [`crate::sbcheck`], except perhaps for its check hash.
//!    [`Found::source`] and [`Found::warnings`] describe what was wrong.
//! 2. Unless the source is [`Source::Primary`], the returned superblock is marked dirty and in need
//!    of a check, and its totals may be outdated.
//! 3. At most [`MAX_BACKUPS`] and a few fixed locations are read, 8 KiB each.
//! 4. A read error at one location does not prevent the use of a valid superblock at another.
//! 5. The location of [`Found::sb`] is one of [`SBLOCKSEARCH`]: written there it will be found
//!    again.

use crate::error::Error;
use crate::foreign;
use crate::geometry::{Format, Geometry};
use crate::sbcheck::{self, Problem};
pub use crate::superblock::SBLOCKSEARCH;
use crate::superblock::{FS_UFS2_MAGIC, FsFlags, SBLOCKSIZE, SbFields, Superblock, magic_of};
use crate::units::CgNo;
use crate::wire::Endian;
use std::fmt;

/// Most backups that are read.
pub const MAX_BACKUPS: u32 = 128;
/// The offsets of the first backup for each block size, in either format, bytes.
const USUAL_BACKUPS: [u64; 7] = [16384, 32768, 65536, 73728, 81920, 98304, 131_072];
/// Byte offset of the recovery record (`spec/on-disk-format.md` §2.3).
pub const RECOVERY_OFFSET: u64 = 65516;

crate::layout! {
    /// The record of UFS2 newfs at the end of the boot area, which locates the backups
    /// (`spec/on-disk-format.md` §2.3).
    pub struct FsRecovery[20] {
        0 => magic: u32, "FS_UFS2_MAGIC.";
        4 => fsbtodb: i32, "log2 of fsize / 512.";
        8 => sblkno: i32, "Fragment of the backup superblock in a group.";
        12 => fpg: i32, "Fragments per group.";
        16 => ncg: u32, "Number of cylinder groups.";
    }
}

impl FsRecovery {
    /// The record for `sb`.
    #[must_use]
    pub fn of(sb: &Superblock) -> FsRecovery {
        let SbFields { fsbtodb, sblkno, fpg, ncg, .. } = sb.f;
        FsRecovery { magic: FS_UFS2_MAGIC, fsbtodb, sblkno, fpg, ncg }
    }
}

/// The copy that a superblock was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The standard one, valid.
    Primary,
    /// The standard one; its check hash is wrong, its fields are valid (a torn write).
    PrimaryBadHash,
    /// The backup at this byte offset.
    Backup(u64),
}

/// A warning about a superblock that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A field of the accepted superblock is unusual; a safe value is used instead.
    Odd(Problem),
    /// The superblock at a byte offset was not used because of a field.
    Damaged(u64, Problem),
    /// The superblock at a byte offset has a wrong check hash.
    BadHash(u64),
    /// No backup was found to compare with a superblock that has a wrong check hash.
    Unconfirmed,
    /// Summary totals come from a backup and are outdated.
    OldTotals,
    /// The log of a Solaris volume may have changes that are not in place.
    UnrolledLog,
}

/// The text of [`Warning::UnrolledLog`].
pub const UNROLLED_LOG: &str = "the log of this Solaris volume has changes that are not in place: \
    files may be older than on Solaris; mount it there once to bring it up to date";

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Odd(p) => write!(f, "superblock: {p}"),
            Warning::Damaged(at, p) => write!(f, "superblock at byte {at} not used: {p}"),
            Warning::BadHash(at) => write!(f, "superblock at byte {at}: its check hash is wrong"),
            Warning::Unconfirmed => f.write_str("superblock: no backup found to compare it with"),
            Warning::UnrolledLog => f.write_str(UNROLLED_LOG),
            Warning::OldTotals => f.write_str("superblock: the totals are those of a backup"),
        }
    }
}

/// A valid superblock.
#[derive(Clone, Debug)]
pub struct Found {
    /// The superblock; `location` is that of the standard one, even if it was read from a backup.
    pub sb: Superblock,
    /// Its geometry.
    pub geometry: Geometry,
    /// The copy it was read from.
    pub source: Source,
    /// The problems that were found.
    pub warnings: Vec<Warning>,
    /// The flags as read from the volume. In `sb` a superblock that is not the standard one, valid,
    /// is marked as in need of a check.
    pub flags: FsFlags,
    /// Whether the superblock was marked as cleanly unmounted.
    pub clean: bool,
}

impl Found {
    /// `sb` as read; marked and relocated unless it is the standard one, valid.
    fn new(sb: Superblock, geometry: Geometry, source: Source, warnings: Vec<Warning>) -> Found {
        let (flags, clean) = (sb.flags(), sb.f.clean == 1);
        let log = sb.has_unrolled_log().then_some(Warning::UnrolledLog);
        let warnings = warnings.into_iter().chain(log).collect();
        let sb = if source == Source::Primary { sb } else { distrust(sb) };
        Found { sb, geometry, source, warnings, flags, clean }
    }
}

/// Why no superblock was found.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError<E> {
    /// The superblock that was found cannot be used.
    #[error(transparent)]
    Format(#[from] Error),
    /// No superblock was found, and a read had failed.
    #[error("reading a superblock at byte {offset} failed: {error}")]
    Read {
        /// The offset of that read, bytes.
        offset: u64,
        /// The first error.
        error: E,
    },
}

/// Finds the superblock of a volume.
///
/// `device_bytes` is the length of the device; `None` accepts a shorter one.
///
/// # Errors
/// The problem of the standard superblock if there is one; the related format that was found; the
/// first read error; or that there is no superblock.
pub fn find<E>(
    read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
    device_bytes: Option<u64>,
) -> Result<Found, SearchError<E>> {
    let mut s = Search { read, device_bytes, failed: None };
    let found = s.find()?;
    s.refuse_foreign_label()?;
    Ok(found)
}

/// The superblock at byte `at`, standard or backup, that a user has chosen.
///
/// # Errors
/// Its first fatal problem; a wrong check hash is only a warning.
pub fn at<E>(
    read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
    at: u64,
    device_bytes: Option<u64>,
) -> Result<Found, SearchError<E>> {
    let mut s = Search { read, device_bytes, failed: None };
    let Some(bytes) = s.load(at) else {
        return Err(s.nothing(format!("the device ends before byte {at}")));
    };
    let sb = Superblock::decode(&bytes, at)?;
    s.refuse_foreign_label()?;
    let (geometry, odd) = sbcheck::verdict_ignoring_hash(&sb, device_bytes)
        .map_err(|p| refusal(&sb, &p, device_bytes))?;
    let mut warnings: Vec<_> = odd.into_iter().map(Warning::Odd).collect();
    if !sb.hash_ok() {
        warnings.push(Warning::BadHash(at));
    }
    let home = is_standard_copy(&sb);
    let source = match (home, sb.hash_ok()) {
        (true, true) => Source::Primary,
        (true, false) => Source::PrimaryBadHash,
        (false, _) => Source::Backup(at),
    };
    Ok(Found::new(sb, geometry, source, warnings))
}

/// Whether a volume seems to start here: for finding partitions.
///
/// Reads at most four times 8 KiB and checks only the magic number and the sizes.
pub fn probe<E>(mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>) -> bool {
    SBLOCKSEARCH.into_iter().any(|at| {
        let Ok(bytes) = read(at, SBLOCKSIZE) else { return false };
        match Superblock::decode(&bytes, at) {
            Ok(sb) => is_standard_copy(&sb) && sbcheck::sizes_ok(&sb),
            Err(e) => is_final(&e),
        }
    })
}

/// Whether a superblock with the error `e` shows that a volume is here which cannot be used.
fn is_final(e: &Error) -> bool {
    matches!(e, Error::NewfsUnfinished(_) | Error::GrowfsUnfinished(_) | Error::Unsupported(_))
}

/// Whether `sb` was read from the standard location of its volume.
fn is_standard_copy(sb: &Superblock) -> bool {
    let own = sb.format == Format::Ufs1 || u64::try_from(sb.f.sblockloc) == Ok(sb.location);
    own && sb.standard_location() == sb.location
}

/// Whether a UFS1 superblock at byte `at` can only be a backup: the first one of a volume with 64
/// KiB blocks is at 65536 (`spec/on-disk-format.md` §2.1).
fn only_a_backup(bytes: &[u8], at: u64) -> bool {
    at > 8192 && matches!(magic_of(bytes), Some((_, Some(Format::Ufs1))))
}

/// The error for a superblock with the problem `p`.
fn refusal(sb: &Superblock, p: &Problem, device_bytes: Option<u64>) -> Error {
    match device_bytes {
        Some(have) if p.field == sbcheck::DEVICE_SIZE => {
            let g = sbcheck::geometry_unchecked(sb);
            Error::Truncated { need: g.size.saturating_mul(g.fsize.into()), have }
        }
        _ => sb.corrupt(p.field, p.found.clone(), p.expected.clone()),
    }
}

/// Marks a superblock as in need of a check, and sets its location to the standard one.
fn distrust(mut sb: Superblock) -> Superblock {
    sb.location = sb.standard_location();
    sb.f.clean = 0;
    sb.set_flags(sb.flags() | FsFlags::NEEDSFSCK);
    sb
}

/// The layout of the backups, by a source that may be wrong.
struct Hint {
    endian: Endian,
    fsize: u64,
    fpg: u64,
    sblkno: u64,
    ncg: u32,
    /// UFS1 rotation: step and mask.
    turn: (u64, u32),
}

impl Hint {
    /// From a superblock of which only these fields need to be valid.
    fn of(sb: &Superblock) -> Option<Hint> {
        let f = &sb.f;
        let turn = match sb.format {
            Format::Ufs1 => (u64::try_from(f.old_cgoffset).ok()?, !f.old_cgmask as u32),
            Format::Ufs2 => (0, 0),
        };
        Hint::new(sb.endian, f.fsize, f.fpg, f.sblkno, f.ncg, turn)
    }

    fn of_record(endian: Endian, r: &FsRecovery) -> Option<Hint> {
        let fsize = u32::try_from(r.fsbtodb).ok().filter(|&s| s <= 7).map(|s| 512i32 << s)?;
        Hint::new(endian, fsize, r.fpg, r.sblkno, r.ncg, (0, 0))
            .filter(|_| r.magic == FS_UFS2_MAGIC)
    }

    fn new(
        endian: Endian,
        fsize: i32,
        fpg: i32,
        sblkno: i32,
        ncg: u32,
        turn: (u64, u32),
    ) -> Option<Hint> {
        let sane = (512..=65536).contains(&fsize) && fsize.count_ones() == 1;
        let sane = sane && fpg > 0 && (1..fpg).contains(&sblkno) && ncg > 0;
        let wide = |v: i32| u64::try_from(v).ok();
        let (fsize, fpg, sblkno) = (wide(fsize)?, wide(fpg)?, wide(sblkno)?);
        sane.then_some(Hint { endian, fsize, fpg, sblkno, ncg, turn })
    }

    /// Byte offset of the backup in group `c`.
    fn place(&self, c: u32) -> Option<u64> {
        let (step, mask) = self.turn;
        let turn = step.checked_mul(u64::from(c & mask))?;
        let frag = self.fpg.checked_mul(c.into())?.checked_add(turn)?.checked_add(self.sblkno)?;
        frag.checked_mul(self.fsize)
    }
}

struct Search<R, E> {
    read: R,
    device_bytes: Option<u64>,
    failed: Option<(u64, E)>,
}

impl<E, R: FnMut(u64, usize) -> Result<Vec<u8>, E>> Search<R, E> {
    /// The standard superblock, or a backup if there is no valid one.
    fn find(&mut self) -> Result<Found, SearchError<E>> {
        let mut torn: Option<Superblock> = None;
        let mut bad: Vec<(Superblock, Problem)> = Vec::new();
        for at in SBLOCKSEARCH {
            let Some(bytes) = self.load(at).filter(|b| !only_a_backup(b, at)) else { continue };
            let sb = match Superblock::decode(&bytes, at) {
                Ok(sb) if is_standard_copy(&sb) => sb,
                Err(e) if is_final(&e) => return Err(e.into()),
                _ => continue,
            };
            match sbcheck::verdict(&sb, self.device_bytes) {
                Ok((geometry, odd)) => {
                    let warnings = odd.into_iter().map(Warning::Odd).collect();
                    return Ok(Found::new(sb, geometry, Source::Primary, warnings));
                }
                Err(p) if p.field == "ckhash" => torn = torn.or(Some(sb)),
                Err(p) => bad.push((sb, p)),
            }
        }
        match torn {
            Some(sb) => self.settle_torn(sb),
            None => self.use_backup(&bad),
        }
    }

    /// The bytes of a superblock at `at`; `None` if the device ends before or cannot be read there.
    fn load(&mut self, at: u64) -> Option<Vec<u8>> {
        self.bytes(at, SBLOCKSIZE).filter(|b| b.len() >= SbFields::SIZE)
    }

    fn bytes(&mut self, at: u64, len: usize) -> Option<Vec<u8>> {
        let available = self.device_bytes.map_or(u64::MAX, |d| d.saturating_sub(at));
        let len = len.min(usize::try_from(available).unwrap_or(usize::MAX));
        if len == 0 {
            return None;
        }
        match (self.read)(at, len) {
            Ok(b) => Some(b),
            Err(e) => {
                self.failed.get_or_insert((at, e));
                None
            }
        }
    }

    /// Fails for volumes of related systems that only the label distinguishes.
    fn refuse_foreign_label(&mut self) -> Result<(), Error> {
        let start = self.bytes(0, SBLOCKSIZE).unwrap_or_default();
        match foreign::label_name(&start) {
            Some(what) => Err(Error::Unsupported(format!("this is {what}"))),
            None => Ok(()),
        }
    }

    /// Handles a valid superblock with a wrong check hash: a torn write, unless a backup
    /// contradicts it.
    fn settle_torn(&mut self, sb: Superblock) -> Result<Found, SearchError<E>> {
        let (geometry, odd) = sbcheck::verdict_ignoring_hash(&sb, self.device_bytes)
            .map_err(|p| refusal(&sb, &p, self.device_bytes))?;
        let mut warnings: Vec<_> = odd.into_iter().map(Warning::Odd).collect();
        warnings.push(Warning::BadHash(sb.location));
        let backup = Hint::of(&sb).and_then(|h| self.backup_by(&h));
        let backup = backup.or_else(|| self.backup_by_record());
        match backup {
            Some(b) if b.differing_field(&sb).is_some() => {
                return Ok(self.adopt(b, Some(&sb), warnings));
            }
            Some(_) => {}
            None => warnings.push(Warning::Unconfirmed),
        }
        Ok(Found::new(sb, geometry, Source::PrimaryBadHash, warnings))
    }

    /// Uses a backup, because no standard location has a valid superblock; `bad` were found there.
    fn use_backup(&mut self, bad: &[(Superblock, Problem)]) -> Result<Found, SearchError<E>> {
        if let Some((sb, p)) = bad.iter().find(|(_, p)| p.field == sbcheck::DEVICE_SIZE) {
            // Every copy has the same problem.
            return Err(refusal(sb, p, self.device_bytes).into());
        }
        let hints: Vec<_> = bad.iter().filter_map(|(sb, _)| Hint::of(sb)).collect();
        let backup = hints.iter().find_map(|h| self.backup_by(h));
        let backup = backup.or_else(|| self.backup_by_record());
        let backup = backup.or_else(|| self.backup_at_usual_place());
        let Some(backup) = backup else {
            return Err(match bad.first() {
                Some((sb, p)) => refusal(sb, p, self.device_bytes).into(),
                None => self.nothing("no superblock at any of the usual places".into()),
            });
        };
        let damaged = |(sb, p): &(Superblock, Problem)| Warning::Damaged(sb.location, p.clone());
        let warnings = bad.iter().map(damaged).collect();
        let primary = bad.iter().find(|(sb, _)| sb.location == backup.standard_location());
        Ok(self.adopt(backup, primary.map(|(sb, _)| sb), warnings))
    }

    /// Uses `backup` as the superblock, with the valid parts of `primary`.
    fn adopt(
        &mut self,
        backup: Superblock,
        primary: Option<&Superblock>,
        warnings: Vec<Warning>,
    ) -> Found {
        let (geometry, source) =
            (sbcheck::geometry_unchecked(&backup), Source::Backup(backup.location));
        let mut found = Found::new(backup, geometry, source, warnings);
        match primary.filter(|p| p.third_sector_agrees(&found.sb)) {
            Some(primary) => {
                found.sb.take_third_sector(primary);
                found.sb.set_flags(found.sb.flags() | FsFlags::NEEDSFSCK);
                found.geometry = sbcheck::geometry_unchecked(&found.sb);
            }
            None => found.warnings.push(Warning::OldTotals),
        }
        found
    }

    fn backup_by_record(&mut self) -> Option<Superblock> {
        // A whole 4 KiB sector, which ends at the end of the boot area.
        let sector = self.bytes(RECOVERY_OFFSET + 20 - 4096, 4096)?;
        let record = sector.get(4096 - 20..)?;
        [Endian::Little, Endian::Big].into_iter().find_map(|e| {
            let hint = Hint::of_record(e, &FsRecovery::decode(record, e))?;
            self.backup_by(&hint)
        })
    }

    fn backup_by(&mut self, h: &Hint) -> Option<Superblock> {
        (0..h.ncg.min(MAX_BACKUPS)).find_map(|c| {
            let at = h.place(c)?;
            let sb = self.backup_at(at)?;
            (sb.endian == h.endian).then_some(sb)
        })
    }

    fn backup_at_usual_place(&mut self) -> Option<Superblock> {
        USUAL_BACKUPS.into_iter().find_map(|at| self.backup_at(at))
    }

    /// The superblock at `at` if it is a valid backup of some group.
    fn backup_at(&mut self, at: u64) -> Option<Superblock> {
        let sb = Superblock::decode(&self.load(at)?, at).ok()?;
        let (g, _) = sbcheck::verdict(&sb, self.device_bytes).ok()?;
        let c = g.dtog(crate::units::FragNo(at / u64::from(g.fsize)));
        let own = c.0 < g.ncg && g.frag_to_byte(g.cgsblock(CgNo(c.0))) == at;
        own.then_some(sb)
    }

    /// The error if there is no superblock.
    fn nothing(&mut self, why: String) -> SearchError<E> {
        if self.device_bytes == Some(0) {
            return Error::NotUfs("the image is empty".into()).into();
        }
        let start = self.bytes(0, SBLOCKSIZE).unwrap_or_default();
        let magic = SBLOCKSEARCH
            .into_iter()
            .find_map(|at| self.load(at).as_deref().and_then(foreign::magic_name));
        if let Some(what) = magic.or_else(|| foreign::label_name(&start)) {
            return Error::Unsupported(format!("this is {what}")).into();
        }
        let failed = self.failed.take();
        let end = self.device_bytes;
        if let Some(other) = foreign::other_system(end, |at, len| self.bytes(at, len)) {
            return Error::Foreign(other).into();
        }
        if let Some((offset, error)) = failed {
            return SearchError::Read { offset, error };
        }
        let blank = SBLOCKSEARCH.into_iter().filter_map(|at| self.bytes(at, SBLOCKSIZE));
        if !start.is_empty() && blank.flatten().all(|byte| byte == 0) {
            let short = end.filter(|&end| end < SBLOCKSEARCH[0] + SBLOCKSIZE as u64);
            return Error::NotUfs(match short {
                Some(end) => format!("no superblock in its {end} bytes; it may be truncated"),
                None => "no superblock, only zeros where it would be (newfs makes one)".into(),
            })
            .into();
        }
        Error::NotUfs(why).into()
    }
}
