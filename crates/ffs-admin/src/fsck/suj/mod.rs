//! Recovery by the soft-updates journal: FreeBSD's `fsck_ffs/suj.c`.
//!
//! **Purpose.** [`recover`] repairs a volume that was mounted with a journal when the system
//! stopped. It reads the records of the operations that may be incomplete, compares each with the
//! device, and repairs what they name. It reads no other inode, so its time depends on the journal
//! and not on the volume.
//!
//! | module | contents |
//! | --- | --- |
//! | `file` | the journal's file: finding it, reading it |
//! | `table` | the records by inode and by block |
//! | `lookup` | inodes, entries and block pointers by the names that records give them |
//! | `truncate` | interrupted truncations; block counts and sizes |
//! | `links` | link counts; which inodes have no name |
//! | `release` | inodes without a name, and their blocks |
//! | `blocks` | which fragments are free |
//! | `groups` | maps and counts |
//! | `verify` | contradictions between the result and what was read |
//!
//! **Invariants.**
//! 1. Nothing is written before the recovery is complete and verified. A [`Refusal`] leaves the
//!    device unchanged, and the caller checks everything.
//! 2. The commit first gives the superblock a new `fs_mtime`, which makes the journal unusable. A
//!    commit that a crash interrupts is therefore followed by a full check, for which the order of
//!    [`BufferedDevice::commit`] leaves only states of the contract.
//! 3. No inode that the recovery has read uses a fragment that it frees, and no directory that it
//!    has read contains a name of an inode that it frees.
//! 4. A record frees a fragment only if no block pointer that any record names leads to it.
//! 5. Each directory is released once, and each indirect block is read once in a walk, so that no
//!    cycle of pointers or names makes the recovery endless.
//!
//! **Limit.** Invariant 3 covers inodes and directories that the records name, and not the others:
//! only a full check compares all of them. Records that were forged for a mount, with its time, can
//! free blocks of files that no record names, and a file whose name is in a directory that no
//! record names. A later full check repairs the maps; the content of files that no record names is
//! never changed. FreeBSD's recovery has the same limit.
//!
//! References: `spec/fsck-and-crash.md` §15, `spec/soft-updates.md` §13, `spec/on-disk-format.md`
//! §14.
//!
//! [`BufferedDevice::commit`]: super::buffered::BufferedDevice::commit

mod blocks;
mod file;
mod groups;
mod links;
mod lookup;
mod release;
mod table;
mod truncate;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ffs_device::BlockDevice;
use ffs_ondisk::sbsearch::{Found, Source};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{Ino, snapshot};

use super::LOG;
use super::alloc::Completion;
use super::checker::Checker;
use super::options::{Erase, FsckOptions};
use super::report::JournalReport;
use super::resolve::{Mode, Res, Stop};
use blocks::FragMask;
use groups::Group;
use table::Tables;

/// Why the journal was not used, or why the whole check ends.
#[derive(Debug)]
enum Refusal {
    /// The journal cannot be used: everything has to be checked.
    Unusable(String),
    /// The check ends.
    Stop(Stop),
}

/// A step of the recovery.
type Step<T> = Result<T, Refusal>;

impl From<Stop> for Refusal {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Device(error) => Refusal::Unusable(error.to_string()),
            Stop::Refused(_, why) => Refusal::Unusable(why),
            Stop::Fatal => Refusal::Unusable("it does not agree with the volume".into()),
            Stop::Interrupted => Refusal::Stop(Stop::Interrupted),
        }
    }
}

/// A refusal for the reason `why`.
fn unusable<T>(why: impl Into<String>) -> Step<T> {
    Err(Refusal::Unusable(why.into()))
}

/// The result of an attempt to recover by the journal.
pub(super) enum Outcome<'a> {
    /// The volume has no journal that a recovery could be expected to use.
    NoJournal,
    /// The journal cannot be used, for this reason.
    Unusable(String),
    /// The volume is consistent and marked clean.
    Recovered(Box<Checker<'a>>, JournalReport),
}

/// Recovers the volume `found` on `dev` by its journal, if preen may do that.
///
/// # Errors
/// The device's while it is written, or the interruption.
pub(super) fn recover<'a>(
    dev: &Arc<dyn BlockDevice>,
    found: &Found,
    options: &FsckOptions,
) -> Res<Outcome<'a>> {
    // Only the full check does these.
    let full = options.keep_orphans
        || options.zero_unused
        || options.shrink_initialised
        || options.erase != Erase::default();
    let wanted = matches!(options.mode, Mode::Preen) && !options.force && !full;
    if !wanted || !found.sb.flags().contains(FsFlags::SUJ) {
        return Ok(Outcome::NoJournal);
    }
    if let Some(why) = volume_problem(found) {
        return Ok(Outcome::Unusable(why.into()));
    }
    let own = FsckOptions {
        mode: Mode::Preen,
        stop_on_read_error: true,
        max_memory: options.max_memory,
        now: options.now,
        interrupt: options.interrupt.clone(),
        ..FsckOptions::default()
    };
    let original = found.sb.clone();
    let mut recovery = Recovery::new(Checker::new(dev, found.clone(), own, None)?);
    match recovery.plan() {
        Ok(()) => {}
        Err(Refusal::Unusable(why)) => {
            tracing::info!(target: LOG, %why, "the journal cannot be used");
            return Ok(Outcome::Unusable(why));
        }
        Err(Refusal::Stop(stop)) => return Err(stop),
    }
    let Recovery { mut ck, report, .. } = recovery;
    // A crash during the commit must not leave a journal that seems usable.
    let mut unusable = original.clone();
    unusable.f.mtime = ck.next_mtime();
    ck.disk.write_early(unusable.location, unusable.encode());
    ck.sb.f.sujfree = 0;
    ck.commit(Completion::Complete, &original)?;
    tracing::info!(target: LOG, ?report, "recovered by the journal");
    Ok(Outcome::Recovered(Box::new(ck), report))
}

/// Why no journal can be used on the volume.
fn volume_problem(found: &Found) -> Option<&'static str> {
    let (sb, flags) = (&found.sb, found.sb.flags());
    if found.source != Source::Primary {
        Some("the superblock is damaged")
    } else if flags.contains(FsFlags::NEEDSFSCK) {
        Some("the volume is marked as in need of a full check")
    } else if !flags.contains(FsFlags::DOSOFTDEP) {
        Some("the volume was used without soft updates")
    } else if flags.contains(FsFlags::GJOURNAL) || sb.netbsd.wapbl || sb.old_layout {
        Some("the volume was used by a system without this journal")
    } else if !snapshot::active(sb).is_empty() {
        Some("the volume has snapshots, which only a full check preserves")
    } else {
        None
    }
}

/// A recovery in progress. Repairs are in the buffer of `ck`.
struct Recovery<'a> {
    ck: Checker<'a>,
    /// The inode of the journal.
    journal: Ino,
    /// The records.
    tables: Tables,
    /// Blocks of groups that were read or changed.
    groups: BTreeMap<u32, Group>,
    /// By block: the fragments that are free unless a block pointer leads to them.
    released: BTreeMap<u64, FragMask>,
    /// Inodes that are freed, and whether they are directories.
    freed: BTreeMap<u32, bool>,
    /// Inodes that remain, and which the recovery has relied on.
    examined: BTreeSet<u32>,
    /// Directories in which no name of a freed inode may be.
    to_scan: BTreeSet<u32>,
    /// The content of the indirect block that was read last.
    indirect: Option<(u64, Vec<u8>)>,
    report: JournalReport,
}

impl<'a> Recovery<'a> {
    fn new(ck: Checker<'a>) -> Recovery<'a> {
        Recovery {
            ck,
            journal: Ino::ROOT,
            tables: Tables::default(),
            groups: BTreeMap::new(),
            released: BTreeMap::new(),
            freed: BTreeMap::new(),
            to_scan: BTreeSet::new(),
            examined: BTreeSet::new(),
            indirect: None,
            report: JournalReport::default(),
        }
    }

    /// Finds all repairs.
    fn plan(&mut self) -> Step<()> {
        self.read_journal()?;
        let unlinked = self.unlinked_inodes()?;
        self.finish_truncations()?;
        let verdict = self.resolve_links(&unlinked)?;
        self.release_inodes(&verdict)?;
        self.correct_links(&verdict)?;
        self.correct_sizes()?;
        self.resolve_blocks()?;
        self.verify()?;
        self.update_groups()?;
        self.update_totals()
    }
}
