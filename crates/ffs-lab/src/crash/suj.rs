//! Volumes with a soft-updates journal: the order of its writes, and recoveries by it.
//!
//! **Purpose.** A recovery by the journal repairs what the records name and nothing else, so it is
//! judged by the full check that follows. Besides, two rules of the order are compared with the
//! writes themselves: records before metadata (J1), and no reuse of a segment that is needed (J2).
//!
//! # Invariants
//! 1. J1 and J2 look at the device alone: at the writes, and at the journal as a recovery reads it.
//! 2. A recovery refuses only for the reasons in [`REFUSALS`] (J4).
//!
//! Reference: `spec/fsck-and-crash.md` §9, §15; `spec/soft-updates.md` §13.1.

use std::ops::Range;
use std::sync::Arc;

use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport, Id, JournalUse};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::journal::{self, SequenceError};
use ffs_ondisk::{Format, FragNo, Geometry, sbsearch};

use super::geometry::BaseVolume;
use super::history::{SECTOR, Violation};
use super::mounting::START;
use super::overlay::OverlayDevice;
use super::record::{Window, Write};

/// A sequence number from which on there are only end marks of a journal that was given up.
const NEVER: u64 = 1 << 62;
/// The time of a recovery between two crashes, seconds.
const RECOVERY: i64 = START + 500;

/// How a volume became consistent after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// The volume has no journal.
    #[default]
    NoJournal,
    /// It was clean.
    Clean,
    /// By the journal.
    Journal,
    /// By a full check, for this reason.
    Full(&'static str),
}

/// A reason to refuse the journal that the contract allows (J4).
struct Refusal {
    /// A part of the reason that the recovery gives.
    part: &'static str,
    /// The reason in the table.
    shown: &'static str,
    /// It is allowed only in a state that lacks a part of a write of the superblock.
    of_superblock: bool,
}

const fn refusal(part: &'static str, shown: &'static str) -> Refusal {
    Refusal { part, shown, of_superblock: false }
}

/// All of them.
const REFUSALS: &[Refusal] = &[
    refusal("`..` of directory", "a directory was being moved"),
    refusal("has two names", "a directory was being moved"),
    refusal("an exchange", "an exchange was under way"),
    refusal("segment 4611686018427387904", "the journal was given up"),
    refusal("in need of a full check", "a write had failed"),
    Refusal { of_superblock: true, ..refusal("superblock is damaged", TORN) },
    Refusal { of_superblock: true, ..refusal("was mounted or checked since", TORN) },
];

/// The reason if a write of the superblock was interrupted.
const TORN: &str = "the superblock was being written";

/// Byte offset of the superblock.
fn superblock(format: Format) -> u64 {
    match format {
        Format::Ufs1 => 8192,
        Format::Ufs2 => 65536,
    }
}

/// The volume in `image` after a recovery, by the journal or by a full check; `None` if neither
/// ends well.
pub(super) fn recovered(image: Vec<u8>) -> Option<Vec<u8>> {
    let device = Arc::new(MemDevice::from_bytes(&image));
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let report =
        Fsck::new(shared, FsckOptions { force: false, ..FsckOptions::preen() }.at(RECOVERY)).run();
    (report.exit_code == 0).then(|| device.to_vec())
}

/// How the check with this report made a volume consistent, and the violation of J4 if it should
/// have used the journal. `window`: the writes that the crash interrupted.
pub(crate) fn recovery(
    base: &BaseVolume,
    window: &Window,
    report: &FsckReport,
) -> (Recovery, Option<Violation>) {
    if base.journal.is_empty() {
        return (Recovery::NoJournal, None);
    }
    let why = match &report.journal {
        Some(JournalUse::Recovered(_)) => return (Recovery::Journal, None),
        Some(JournalUse::Unusable(why)) => why.as_str(),
        None if report.skipped => return (Recovery::Clean, None),
        None if report.ids().contains(&Id::SbTorn) => "its superblock is damaged",
        None => "it was not tried",
    };
    let at = superblock(base.geometry.format);
    let torn = window.writes.iter().any(|write| write.offset == at);
    let allowed = |refusal: &&Refusal| why.contains(refusal.part);
    match REFUSALS.iter().find(allowed).filter(|refusal| torn || !refusal.of_superblock) {
        Some(refusal) => (Recovery::Full(refusal.shown), None),
        None => {
            let what = format!("fsck -p does not use the journal: {why}");
            (Recovery::Full("J4"), Some(Violation::new("J4", what)))
        }
    }
}

/// Compares the writes of `window` with J1 and J2. `overlay` shows the volume before the window.
/// `alone`: one thread made the writes.
pub(crate) fn order(
    base: &BaseVolume,
    overlay: &OverlayDevice,
    window: &Window,
    alone: bool,
) -> Vec<Violation> {
    let in_journal = |write: &&Write| place(&base.journal, write.offset).is_some();
    let Some(first) = window.writes.iter().position(|write| in_journal(&write)) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let after = window.writes.iter().skip(first + 1);
    let metadata = after.clone().find(|write| is_metadata(&base.geometry, write.offset));
    if let Some(write) = metadata.filter(|_| alone) {
        let at = write.offset;
        let what = format!("byte {at} was written after records that were not durable");
        out.push(Violation::new("J1", what));
    }
    let needed = match overlay.with_base_bytes(|bytes| needed(base, bytes)) {
        Ok(needed) => needed,
        Err(why) => {
            let what = format!("the journal cannot be read: {why}");
            out.push(Violation::new("J2", what));
            return out;
        }
    };
    for write in window.writes.iter().filter(in_journal) {
        let Some(at) = place(&base.journal, write.offset) else { continue };
        let end = at + write.bytes.len();
        let overwritten = needed.iter().find(|segment| segment.start < end && at < segment.end);
        let same = || {
            overlay.with_base_bytes(|bytes| {
                let from = write.offset as usize;
                bytes.get(from..from + write.bytes.len()) == Some(&write.bytes[..])
            })
        };
        if let Some(segment) = overwritten.filter(|_| !same()) {
            let what = format!(
                "the segment at byte {} of the journal is needed, and was overwritten",
                segment.start
            );
            out.push(Violation::new("J2", what));
        }
    }
    out
}

/// Whether there are inodes or a group at byte `at`.
fn is_metadata(g: &Geometry, at: u64) -> bool {
    let at = FragNo(at / u64::from(g.fsize));
    let cg = g.dtog(at);
    at == g.cgtod(cg) || (g.cgimin(cg) <= at && at < g.cgdmin(cg))
}

/// The place in the journal's file of byte `at` of the device.
fn place(journal: &[Range<u64>], at: u64) -> Option<usize> {
    let mut before = 0;
    for extent in journal {
        if extent.contains(&at) {
            return Some((before + at - extent.start) as usize);
        }
        before += extent.end - extent.start;
    }
    None
}

/// The segments that a recovery of `image` needs, as byte ranges of the journal's file.
fn needed(base: &BaseVolume, image: &[u8]) -> Result<Vec<Range<usize>>, SequenceError> {
    let read = |at: u64, len: usize| {
        let at = at as usize;
        let bytes = image.get(at..(at + len).min(image.len())).unwrap_or_default();
        Ok::<_, std::convert::Infallible>(bytes.to_vec())
    };
    // Of a volume whose superblock is being written nothing is needed: it is checked in full.
    let Ok(found) = sbsearch::find(read, Some(image.len() as u64)) else { return Ok(Vec::new()) };
    let mut content = Vec::with_capacity(journal::MIN_BYTES as usize);
    for blocks in base.journal.iter() {
        let blocks = image.get(blocks.start as usize..blocks.end as usize);
        content.extend_from_slice(blocks.unwrap_or_default());
    }
    // A clean volume is not recovered.
    if found.sb.is_clean() {
        return Ok(Vec::new());
    }
    match journal::scan(base.geometry.endian, &content, SECTOR, found.sb.f.mtime) {
        Ok(segments) => {
            let place = |s: &journal::Segment| s.offset..s.offset + s.len;
            Ok(segments.iter().map(place).collect())
        }
        Err(SequenceError::Missing(seq)) if seq >= NEVER => Ok(Vec::new()),
        Err(why) => Err(why),
    }
}
