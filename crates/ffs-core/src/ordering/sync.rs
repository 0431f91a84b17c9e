//! Ordered synchronous writes: FFS before soft updates, the paper's baseline.
//!
//! The table of `docs/spec/soft-updates.md` §11.2, by event instead of by operation. The test
//! `tests/sync_writes.rs` counts each operation's synchronous writes.
//!
//! Bitmaps, summaries and attributes are never waited for: after a crash fsck is needed.

use super::{BlockContent, Event, InodeChange, Ordering, Response};
use crate::buf::WriteHooks;

/// The mode that waits for its writes.
#[derive(Debug, Default)]
pub(crate) struct SyncOrdered;

impl WriteHooks for SyncOrdered {}

impl Ordering for SyncOrdered {
    fn name(&self) -> &'static str {
        "sync"
    }

    fn notify(&self, event: Event<'_>) -> Response {
        let waits = match event {
            // Undefined bytes must not become inodes. This block, and then the group that counts
            // it, are all that an inode allocation waits for.
            Event::InodeBlockInitialized { .. }
            | Event::EntryAdded { .. }
            | Event::EntryReplaced { .. }
            | Event::EntryRemoved { .. }
            | Event::BlockTruncated { .. } => true,
            Event::PointerSet { content, .. } => content_is_written_first(content),
            // The directory's size is written next, and must not cover a hole.
            Event::IndirectUpdated { content, .. } => content.is_directory(),
            Event::InodeUpdated { why, .. } => inode_is_written(why),
            _ => false,
        };
        if waits { Response::WAIT } else { Response::DELAY }
    }
}

/// Fsck would follow a directory or an indirect block with undefined content, and cannot recognise
/// undefined attributes.
fn content_is_written_first(content: BlockContent) -> bool {
    match content {
        BlockContent::DirectoryBody
        | BlockContent::DirectoryExtended
        | BlockContent::Indirect
        | BlockContent::ExtAttr => true,
        // The name entered next writes the same block.
        BlockContent::Data | BlockContent::DirectoryGrowth => false,
    }
}

fn inode_is_written(why: InodeChange) -> bool {
    match why {
        InodeChange::Init
        | InodeChange::InitDirectory
        | InodeChange::NlinkInc
        | InodeChange::DirectoryGrow
        | InodeChange::Truncate
        | InodeChange::TruncateExtend
        // The old blocks are freed next.
        | InodeChange::ExtAttr => true,
        InodeChange::NlinkDec
        | InodeChange::Attr
        | InodeChange::Grow
        | InodeChange::Free => false,
    }
}
