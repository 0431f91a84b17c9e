//! Ordered synchronous writes: what FFS did before soft updates, the paper's baseline.
//!
//! The table of `spec/soft-updates.md` §11.2, by event instead of by operation: a count of each
//! operation's synchronous writes is a test (`tests/sync_writes.rs`).
//!
//! Bitmaps, summaries and attributes are never waited for: after a crash fsck is needed.

use super::{
    Addition, ClaimOf, DirPos, Disposition, FragRun, Gone, InodeAnswer, InodeChange, NameKind,
    NamedInode, Ordering, PtrSlot, Removal,
};
use crate::buf::{BufKey, WriteHooks};
use ffs_ondisk::{Dinode, Ino};

/// The tenant that waits.
#[derive(Debug, Default)]
pub(crate) struct SyncOrdered;

impl WriteHooks for SyncOrdered {}

impl Ordering for SyncOrdered {
    fn name(&self) -> &'static str {
        "sync"
    }
    /// Undefined bytes must not become inodes, nor inodes be taken for undefined bytes: this block, and
    /// then the group that counts it, are all that an inode allocation waits for.
    fn inode_block_initialised(&self, _: FragRun) -> Disposition {
        Disposition::WriteAndWait
    }
    fn claim_set(
        &self,
        _: PtrSlot,
        _: FragRun,
        _: Option<FragRun>,
        what: ClaimOf,
        _: BufKey,
    ) -> Disposition {
        match what {
            // A directory or an indirect block that holds garbage would be followed, attributes that
            // are garbage could not be told from others.
            ClaimOf::DirectoryBody
            | ClaimOf::DirectoryExtended
            | ClaimOf::Indirect
            | ClaimOf::Attributes => Disposition::WriteAndWait,
            // The name entered next writes the same block.
            ClaimOf::Data | ClaimOf::DirectoryGrowth => Disposition::Delay,
        }
    }
    fn indirect_changed(&self, _: Ino, what: ClaimOf) -> Disposition {
        match what {
            // The directory's size is written next, and must not cover a hole.
            ClaimOf::DirectoryBody | ClaimOf::DirectoryGrowth | ClaimOf::DirectoryExtended => {
                Disposition::WriteAndWait
            }
            ClaimOf::Data | ClaimOf::Attributes | ClaimOf::Indirect => Disposition::Delay,
        }
    }
    fn inode_changed(&self, _: Ino, why: InodeChange, _: &Dinode) -> InodeAnswer {
        let then = match why {
            InodeChange::Init
            | InodeChange::InitDirectory
            | InodeChange::NlinkInc
            | InodeChange::DirectoryGrow
            | InodeChange::Truncate
            | InodeChange::TruncateExtend
            // The old blocks are freed next.
            | InodeChange::ExtAttr => Disposition::WriteAndWait,
            InodeChange::NlinkDec
            | InodeChange::Attr
            | InodeChange::Grow
            | InodeChange::Free => Disposition::Delay,
        };
        InodeAnswer { then, more_links: 0 }
    }
    fn name_added(&self, _: DirPos, _: NamedInode, _: NameKind, _: &[u8]) -> Addition {
        Addition { then: Disposition::WriteAndWait, reserved: 0 }
    }
    fn name_replaced(
        &self,
        _: DirPos,
        _: NamedInode,
        _: NamedInode,
        _: NameKind,
        _: Gone,
    ) -> Disposition {
        Disposition::WriteAndWait
    }
    fn name_removed(&self, _: DirPos, _: NamedInode, _: &[u8], _: Gone) -> Removal {
        Removal { then: Disposition::WriteAndWait, reserved: 0, reserve: false }
    }
    fn truncated_block(&self, _: Ino, _: BufKey) -> Disposition {
        Disposition::WriteAndWait
    }
}
