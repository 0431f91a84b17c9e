//! Making the corrections, in the order that leaves a consistent volume after a crash.
//!
//! | stage | corrections | then |
//! | --- | --- | --- |
//! | 1 | names: second names of directories, `..` | sync |
//! | 2 | directories without names, level by level | sync after each level |
//! | 3 | sizes, block counts, link counts | |
//! | 4 | inodes and fragments that nothing has, by address; counts of groups | |
//!
//! Stage 2: while a directory exists on the device, even without a name, the check counts its
//! names. So what it names must not lose links or be freed before the directory is free.

use std::sync::atomic::Ordering;

use ffs_admin::fsck::Correction;
use ffs_core::{Adjusted, BackgroundCheck, Result, Rule, SecondName, holds};

use super::{CORRECTING, Changed, CheckOptions};

/// Corrections between two reports of the progress.
const REPORTED: u64 = 256;

/// What was made of the corrections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Applied {
    pub(super) made: u64,
    pub(super) refused: u64,
    pub(super) interrupted: bool,
}

/// Stage, level, address.
type Rank = (u8, u32, u64);

fn rank(correction: &Correction) -> Rank {
    match correction {
        Correction::Unlink { .. } => (1, 0, 0),
        Correction::SetDotDot { .. } => (1, 1, 0),
        Correction::FreeDirectory { depth, dir, .. } => (2, *depth, dir.ino.0.into()),
        Correction::SetSize { file, .. } => (3, 0, file.ino.0.into()),
        Correction::AdjBlkCnt { file } => (3, 1, file.ino.0.into()),
        Correction::AdjRefCnt { file, .. } => (3, 2, file.ino.0.into()),
        Correction::FreeFiles { first, .. } | Correction::FreeDirs { first, .. } => {
            (4, 0, first.0.into())
        }
        Correction::FreeBlks { first, .. } => (4, 1, first.0),
        Correction::AdjNDir { group, .. } => (4, 2, group.0.into()),
        Correction::WriteGroup { group } => (4, 3, group.0.into()),
    }
}

/// Whether the device must have everything of `before` before `after` begins.
fn needs_sync(before: Rank, after: Rank) -> bool {
    let names = before.0 < after.0 && before.0 == 1;
    let directories = before.0 == 2 && (after.0 > 2 || before.1 < after.1);
    names || directories && holds(Rule::DirectoryBeforeNamed)
}

/// Makes the corrections.
///
/// # Errors
/// The device's; that of a damaged volume.
pub(super) fn apply(
    check: &BackgroundCheck,
    mut corrections: Vec<Correction>,
    options: &mut CheckOptions<'_>,
) -> Result<Applied> {
    corrections.sort_by_key(rank);
    let (mut done, mut last) = (Applied::default(), None);
    let total = corrections.len() as u64;
    for (n, correction) in (0..).zip(&corrections) {
        if n % REPORTED == 0 {
            check.note_progress(CORRECTING, n, total);
        }
        if options.interrupt.load(Ordering::Relaxed) {
            done.interrupted = true;
            break;
        }
        let rank = rank(correction);
        if last.is_some_and(|last| needs_sync(last, rank)) {
            check.fs().sync()?;
        }
        last = Some(rank);
        match make(check, correction)? {
            Adjusted::Done => {
                done.made += 1;
                notify(correction, options.changed);
            }
            Adjusted::Unneeded => {}
            Adjusted::Refused(why) => {
                done.refused += 1;
                tracing::info!(target: "ffs::fsck", ?correction, why, "refused");
            }
        }
    }
    Ok(done)
}

fn make(check: &BackgroundCheck, correction: &Correction) -> Result<Adjusted> {
    match correction {
        Correction::Unlink { dir, name, target, kept_in } => check.unlink(&SecondName {
            dir: *dir,
            name,
            target: target.ino,
            generation: target.generation,
            kept_in: *kept_in,
        }),
        Correction::SetDotDot { dir, from, to } => {
            check.setdotdot(dir.ino, dir.generation, *from, *to)
        }
        Correction::FreeDirectory { dir, links, .. } => {
            check.adjrefcnt(dir.ino, dir.generation, *links)
        }
        Correction::AdjRefCnt { file, less } => check.adjrefcnt(file.ino, file.generation, *less),
        Correction::AdjBlkCnt { file } => check.adjblkcnt(file.ino, file.generation),
        Correction::SetSize { file, size } => check.setsize(file.ino, file.generation, *size),
        Correction::FreeFiles { first, count } => check.freefiles(*first, *count),
        Correction::FreeDirs { first, count } => check.freedirs(*first, *count),
        Correction::FreeBlks { first, count } => check.freeblks(*first, *count),
        Correction::AdjNDir { group, delta } => check.adjndir(*group, *delta),
        Correction::WriteGroup { group } => check.write_group(*group),
    }
}

/// Passes on what a correction changed.
fn notify(correction: &Correction, changed: &mut (dyn FnMut(Changed<'_>) + Send)) {
    match correction {
        Correction::Unlink { dir, name, target, .. } => {
            changed(Changed::Name(*dir, name));
            changed(Changed::Attributes(*dir));
            changed(Changed::Attributes(target.ino));
        }
        Correction::SetDotDot { dir: file, .. }
        | Correction::AdjRefCnt { file, .. }
        | Correction::AdjBlkCnt { file } => changed(Changed::Attributes(file.ino)),
        Correction::SetSize { file, .. } => changed(Changed::Content(file.ino)),
        // No program could reach these.
        Correction::FreeDirectory { .. }
        | Correction::FreeFiles { .. }
        | Correction::FreeDirs { .. }
        | Correction::FreeBlks { .. }
        | Correction::AdjNDir { .. }
        | Correction::WriteGroup { .. } => {}
    }
}
