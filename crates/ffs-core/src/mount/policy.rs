//! Which volumes may be mounted read-write, and which only read-only.
//!
//! | found | read-write? | source |
//! | --- | --- | --- |
//! | clean | yes | |
//! | `FS_NEEDSFSCK` | only if forced | `spec/soft-updates.md` §9.3 |
//! | dirty, with soft updates | yes: at most lost space | `spec/soft-updates.md` §1.2, §9.3 |
//! | dirty otherwise | only if forced | `spec/soft-updates.md` §9.3 |
//! | journal (SUJ), dirty or unlinked inodes | no: run `ffs fsck` | `spec/soft-updates.md` §13 |
//! | journal (SUJ), clean | yes: kept, or made stale by `fs_mtime` | `spec/soft-updates.md` §13.1 |
//! | gjournal | no: its replay would overwrite later writes | `spec/on-disk-format.md` §16 |
//! | snapshots | yes, unless one is damaged | `spec/snapshots.md` §8 |
//! | NetBSD's WAPBL or quota2 | no: ffs does not update them | `spec/on-disk-format.md` §20 |
//! | old UFS1 layout | no | `spec/on-disk-format.md` §18.1 |
//! | UFS1 of 4.3BSD or Solaris | no | `spec/on-disk-format.md` §20.1 |
//! | summary area that disagrees with the groups | only if forced | `spec/known-failures.md` §2.1 |
//! | superblock from a backup, or bad check hash | only if forced | `spec/known-failures.md` §1.8 |

use ffs_ondisk::sbsearch::{Found, Source};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::upkeep::NotKept;

/// How a volume may be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Read-write.
    Writable,
    /// Read-write. A check may find lost space.
    Unchecked(&'static str),
    /// Read-only; read-write only if the user forces it.
    Doubtful(&'static str),
    /// Read-only.
    ReadOnly(&'static str),
}

impl Verdict {
    /// Why a check may find lost space on a volume that is mounted read-write nevertheless.
    pub(super) fn unchecked(self) -> Option<&'static str> {
        match self {
            Verdict::Unchecked(why) => Some(why),
            Verdict::Writable | Verdict::Doubtful(_) | Verdict::ReadOnly(_) => None,
        }
    }
}

/// Decides how the volume with the superblock `found` may be mounted.
pub(super) fn judge(found: &Found) -> Verdict {
    let (sb, f) = (&found.sb, &found.sb.f);
    let flags = sb.flags();
    let dirty = f.clean != 1 || flags.contains(FsFlags::NEEDSFSCK);
    if let Some(not_kept) = NotKept::of(sb, &found.geometry) {
        return Verdict::ReadOnly(not_kept.reason());
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

/// Whether a crash may have torn writes of groups: the volume was mounted with soft updates when
/// the crash happened, and was not checked since. The same crash may have torn the superblock, so a
/// bad check hash does not exclude it.
pub(super) fn may_be_torn(found: &Found) -> bool {
    let own = matches!(found.source, Source::Primary | Source::PrimaryBadHash);
    let kept =
        found.flags.contains(FsFlags::DOSOFTDEP) && !found.flags.contains(FsFlags::NEEDSFSCK);
    own && !found.clean && kept
}
