//! No ordering: everything is delayed (`mount -o async`).
//!
//! A crash may leave anything; after it only a full fsck makes the volume usable.

use super::{
    ClaimOf, DirPos, Disposition, FragRun, FreeNow, InodeChange, NameKind, NamedInode, Ordering,
    PtrSlot,
};
use crate::buf::{BufKey, BufKind, WriteHooks};
use ffs_ondisk::Ino;

/// The tenant without promises.
#[derive(Debug, Default)]
pub(crate) struct Unordered;

impl WriteHooks for Unordered {
    fn make_image(&self, _: BufKey, _: BufKind, _: &mut [u8]) -> bool {
        false
    }
    fn written(&self, _: BufKey, _: bool, _: bool) {}
    fn flushed(&self) {}
}

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
    fn claim_set(&self, _: PtrSlot, _: FragRun, _: Option<FragRun>, _: ClaimOf) -> Disposition {
        Disposition::Delay
    }
    fn indirect_changed(&self, _: Ino, _: ClaimOf) -> Disposition {
        Disposition::Delay
    }
    fn inode_changed(&self, _: Ino, _: InodeChange) -> Disposition {
        Disposition::Delay
    }
    fn name_added(&self, _: DirPos, _: NamedInode, _: NameKind) -> Disposition {
        Disposition::Delay
    }
    fn name_replaced(&self, _: DirPos, _: NamedInode, _: NamedInode, _: NameKind) -> Disposition {
        Disposition::Delay
    }
    fn name_removed(&self, _: DirPos, _: NamedInode) -> Disposition {
        Disposition::Delay
    }
    fn entry_moved(&self, _: DirPos, _: DirPos) {}
    fn blocks_released(&self, _: Ino) -> FreeNow {
        FreeNow::Yes
    }
    fn inode_released(&self, _: Ino) -> FreeNow {
        FreeNow::Yes
    }
    fn truncated_block(&self, _: Ino) -> Disposition {
        Disposition::Delay
    }
}
