//! No ordering: everything is delayed (`mount -o async`).
//!
//! A crash may leave anything; after it only a full fsck makes the volume usable.

use super::{
    ClaimOf, DirPos, Disposition, FragRun, FreeNow, Gone, InodeAnswer, InodeChange, NameKind,
    NamedInode, Ordering, PtrSlot, Removal,
};
use crate::buf::{BufKey, WriteHooks};
use ffs_ondisk::{Dinode, Ino};

/// The tenant without promises.
#[derive(Debug, Default)]
pub(crate) struct Unordered;

impl WriteHooks for Unordered {}

impl Ordering for Unordered {
    fn name(&self) -> &'static str {
        "none"
    }
    fn inode_allocated(&self, _: Ino) -> Disposition {
        Disposition::Delay
    }
    fn inode_block_initialised(&self, _: FragRun) -> Disposition {
        Disposition::Delay
    }
    fn block_allocated(&self, _: FragRun) -> Disposition {
        Disposition::Delay
    }
    fn claim_set(
        &self,
        _: PtrSlot,
        _: FragRun,
        _: Option<FragRun>,
        _: ClaimOf,
        _: BufKey,
    ) -> Disposition {
        Disposition::Delay
    }
    fn indirect_changed(&self, _: Ino, _: ClaimOf) -> Disposition {
        Disposition::Delay
    }
    fn inode_changed(&self, _: Ino, _: InodeChange, _: &Dinode) -> InodeAnswer {
        InodeAnswer { then: Disposition::Delay, more_links: 0 }
    }
    fn name_added(&self, _: DirPos, _: NamedInode, _: NameKind, _: &[u8]) -> Disposition {
        Disposition::Delay
    }
    fn name_replaced(
        &self,
        _: DirPos,
        _: NamedInode,
        _: NamedInode,
        _: NameKind,
        _: Gone,
    ) -> Disposition {
        Disposition::Delay
    }
    fn name_removed(&self, _: DirPos, _: NamedInode, _: &[u8], _: Gone) -> Removal {
        Removal { then: Disposition::Delay, reserve: false }
    }
    fn entry_moved(&self, _: DirPos, _: DirPos) {}
    fn blocks_released(&self, _: Ino) -> FreeNow {
        FreeNow::Yes
    }
    fn inode_released(&self, _: Ino, _: bool) -> FreeNow {
        FreeNow::Yes
    }
    fn truncated_block(&self, _: Ino, _: BufKey) -> Disposition {
        Disposition::Delay
    }
}
