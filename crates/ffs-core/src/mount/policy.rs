//! Which volumes may be written, and which only read.
//!
//! | found | read-write? | source |
//! | --- | --- | --- |
//! | clean | yes | |
//! | `FS_NEEDSFSCK` | only if forced | `spec/soft-updates.md` §9.3 |
//! | dirty, with soft updates | yes: only space may be marked used that is not | `spec/soft-updates.md` §1.2, §9.3 |
//! | dirty otherwise | only if forced | `spec/soft-updates.md` §9.3 |
//! | soft-updates journal, dirty or with unlinked inodes listed | no: run `ffs fsck` | `spec/soft-updates.md` §13 |
//! | soft-updates journal, clean | yes: a new `fs_mtime` makes the journal stale | `spec/soft-updates.md` §13 |
//! | gjournal | no: its journal would be replayed over our writes | `spec/on-disk-format.md` §16 |
//! | snapshots | no, for now: their blocks would have to be copied first | `spec/snapshots.md` §5 |
//! | NetBSD's WAPBL or in-file-system quotas | no: we would not keep them up | `spec/on-disk-format.md` §20 |
//! | old UFS1 layout, or 4.2BSD directories | no | `spec/on-disk-format.md` §18.1 |
//! | summary area that disagrees with the groups | only if forced | `spec/known-failures.md` §2.1 |
//! | superblock from a backup or with a bad check hash | only if forced | `spec/known-failures.md` §1.8 |

use ffs_ondisk::sbsearch::{Found, Source};
use ffs_ondisk::superblock::FsFlags;

/// What a volume allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Reading and writing.
    Writable,
    /// Reading and writing; a check would find something all the same.
    Unchecked(&'static str),
    /// Reading; writing only if the user insists.
    Doubtful(&'static str),
    /// Reading only.
    ReadOnly(&'static str),
}

/// Judges the volume of `found`.
pub(super) fn judge(found: &Found) -> Verdict {
    let (sb, f) = (&found.sb, &found.sb.f);
    let flags = sb.flags();
    let dirty = f.clean != 1 || flags.contains(FsFlags::NEEDSFSCK);
    if sb.old_layout || found.geometry.maxsymlinklen == 0 || found.geometry.old_ids {
        return Verdict::ReadOnly("its superblock is from before FreeBSD 5");
    }
    if flags.contains(FsFlags::GJOURNAL) {
        return Verdict::ReadOnly("it is on a gjournal provider (see tunefs -J)");
    }
    if sb.netbsd.wapbl || sb.netbsd.quota2 {
        return Verdict::ReadOnly("it has NetBSD's journal or quotas, which are not kept up here");
    }
    if f.snapinum.iter().any(|&i| i != 0) {
        return Verdict::ReadOnly("it has snapshots");
    }
    if flags.contains(FsFlags::SUJ) && (dirty || f.sujfree != 0) {
        return Verdict::ReadOnly("its soft-updates journal is not settled: run ffs fsck");
    }
    if found.source != Source::Primary {
        return Verdict::Doubtful("its superblock is damaged: run ffs fsck");
    }
    if flags.contains(FsFlags::NEEDSFSCK) {
        return Verdict::Doubtful("it needs a check: run ffs fsck");
    }
    if dirty && flags.contains(FsFlags::DOSOFTDEP) {
        return Verdict::Unchecked("it was not unmounted cleanly: ffs fsck would find lost space");
    }
    if dirty {
        return Verdict::Doubtful("it was not unmounted cleanly: run ffs fsck");
    }
    Verdict::Writable
}

/// Whether a crash may have torn the groups: soft updates kept the volume when it was cut off, and nobody
/// has checked it since. The same crash may have torn the superblock, which then is in doubt.
pub(super) fn may_be_torn(found: &Found) -> bool {
    let own = matches!(found.source, Source::Primary | Source::PrimaryBadHash);
    let kept =
        found.flags.contains(FsFlags::DOSOFTDEP) && !found.flags.contains(FsFlags::NEEDSFSCK);
    own && !found.clean && kept
}
