//! The interfaces of the ordering mode and of snapshots to the write path.

use super::{BufKey, BufKind};
use crate::error::Result;
use std::ops::Range;

/// When a changed buffer must reach the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disposition {
    /// At any later time (`bdwrite`).
    Delay,
    /// Durable before the operation continues (`bwrite`).
    WriteAndWait,
}

/// The answer of the ordering mode when the write of a block is about to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteStart {
    /// The write image has all changes.
    Whole,
    /// Some changes were rolled back in the write image: the buffer stays dirty.
    RolledBack,
    /// The block must not be written now: the buffer stays dirty.
    Held,
}

/// The result of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteResult {
    /// The device reported an error.
    Failed,
    /// The write is durable after the next flush.
    Unflushed,
    /// The write is durable.
    Durable,
}

/// What has to happen before blocks on the device are overwritten: snapshots keep their content.
pub(crate) trait CopyOnWrite: Send + Sync {
    /// The runs of fragments will be overwritten when the call returns. The caller may hold the
    /// locks of their buffers, but no lock of a cylinder group.
    ///
    /// # Errors
    /// The content could not be copied: the runs must not be overwritten.
    fn before_write(&self, runs: &mut dyn Iterator<Item = Range<u64>>) -> Result<()>;
}

/// The part of an ordering mode in the write path. The default methods are those of a mode that
/// rolls nothing back.
pub(crate) trait WriteHooks: Send + Sync {
    /// Rolls back, in `copy`, each change that must not be on disk yet.
    ///
    /// `copy` is the write image of the block `key`. The buffer has been locked against changes
    /// since before the copy was made. File data is not copied: then `copy` is `None`, and the
    /// result is not [`WriteStart::RolledBack`]. Unless the result is [`WriteStart::Held`],
    /// [`WriteHooks::write_completed`] follows.
    fn start_write(&self, _key: BufKey, _kind: BufKind, _copy: Option<&mut [u8]>) -> WriteStart {
        WriteStart::Whole
    }
    /// Whether changes have records in a journal ([`WriteHooks::commit_records`]).
    fn has_records(&self) -> bool {
        false
    }
    /// Makes the records of all changes so far durable. Called after write images of metadata were
    /// made, and before they are written.
    ///
    /// # Errors
    /// The device's: no image may be written.
    fn commit_records(&self) -> Result<()> {
        Ok(())
    }
    /// Whether the records of all changes so far must be durable before file data is written to
    /// these fragments.
    fn data_needs_records(&self, _run: Range<u64>) -> bool {
        false
    }
    /// The write that was started last for `key` completed. Returns whether the buffer must be
    /// written again, because it changed since or the write failed.
    fn write_completed(&self, _key: BufKey, _result: WriteResult) -> bool {
        false
    }
    /// A device flush begins. Returns a number that is passed to [`WriteHooks::flush_completed`].
    fn flush_started(&self) -> u64 {
        0
    }
    /// The flush succeeded: all writes that completed before it started are durable.
    fn flush_completed(&self, _started: u64) {}
}
