//! The interface of the ordering mode to the write path.

use super::{BufKey, BufKind};

/// When a changed buffer must reach the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disposition {
    /// At any later time (`bdwrite`).
    Delay,
    /// Durable before the operation continues (`bwrite`).
    WriteAndWait,
}

/// The answer of an ordering mode when a block is about to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Image {
    /// The write image has all changes.
    Whole,
    /// Some changes were rolled back in the write image: the buffer stays dirty.
    Undone,
    /// The block must not be written now: the buffer stays dirty.
    Held,
}

/// The part of an ordering mode in the write path. The default methods are those of a mode that
/// rolls nothing back.
pub(crate) trait WriteHooks: Send + Sync {
    /// Rolls back, in `copy`, each change that must not be on disk yet.
    ///
    /// `copy` is the write image of the block `key`. The buffer has been locked against changes
    /// since before the copy was made. File data is not copied: then `copy` is `None`, and the
    /// answer is not [`Image::Undone`]. Unless the answer is [`Image::Held`],
    /// [`WriteHooks::written`] follows.
    fn make_image(&self, _key: BufKey, _kind: BufKind, _copy: Option<&mut [u8]>) -> Image {
        Image::Whole
    }
    /// The write of the last write image of `key` ended. `ok` is whether it succeeded, `durable`
    /// whether it needs no flush any more. Returns whether the buffer must be written again all the
    /// same.
    fn written(&self, _key: BufKey, _ok: bool, _durable: bool) -> bool {
        false
    }
    /// A device flush begins. Returns a number that is passed to [`WriteHooks::flushed`].
    fn flushing(&self) -> u64 {
        0
    }
    /// The flush succeeded: all writes that ended before it began are durable.
    fn flushed(&self, _began: u64) {}
}
