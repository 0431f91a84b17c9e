//! What a volume may have that no part of ffs keeps right when it changes the volume.
//!
//! Mounts and tools that change allocation refuse such a volume with the same reason.
//!
//! | found | not kept | `spec/on-disk-format.md` |
//! | --- | --- | --- |
//! | [`NotKept::Variant`] | the structures of 4.3BSD or Solaris | §20.1 |
//! | [`NotKept::OldLayout`] | fields of a superblock from before FreeBSD 5 | §18.1 |
//! | [`NotKept::Gjournal`] | a journal whose replay would overwrite later writes | §16 |
//! | [`NotKept::NetBsd`] | the journal and the quotas of NetBSD | §20 |
//!
//! # Invariants
//! 1. A volume that FreeBSD 5 or later made without gjournal has none of these.

use std::fmt;

use crate::geometry::Geometry;
use crate::superblock::{FsFlags, Superblock};
use crate::variant::Variant;

/// Something that ffs does not keep right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// Directories, owners or more are those of another system.
    Variant(Variant),
    /// The superblock has the layout of an old UFS1.
    OldLayout,
    /// The volume is on a gjournal provider.
    Gjournal,
    /// The volume has NetBSD's journal (WAPBL) or quotas (quota2).
    NetBsd,
}

impl NotKept {
    /// What the volume with the superblock `sb` has.
    #[must_use]
    pub fn of(sb: &Superblock, g: &Geometry) -> Option<NotKept> {
        if !g.variant.is_writable() {
            Some(NotKept::Variant(g.variant))
        } else if sb.old_layout {
            Some(NotKept::OldLayout)
        } else if sb.flags().contains(FsFlags::GJOURNAL) {
            Some(NotKept::Gjournal)
        } else if sb.netbsd.wapbl || sb.netbsd.quota2 {
            Some(NotKept::NetBsd)
        } else {
            None
        }
    }

    /// A sentence about the volume, which is "it".
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            NotKept::Variant(variant) => variant.read_only_reason(),
            NotKept::OldLayout => "its superblock is from before FreeBSD 5",
            NotKept::Gjournal => "it is on a gjournal provider (see tunefs -J)",
            NotKept::NetBsd => "it has NetBSD's journal or quotas, which are not kept up here",
        }
    }
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}
