//! The outcome of writing buffers.

use super::{BufKey, BufRef};
use crate::error::{Error, Result};

/// The outcome of writing one buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteOutcome {
    /// The buffer was clean: nothing was written.
    Clean,
    /// The write image had all changes.
    Complete,
    /// Some changes were rolled back in the write image.
    RolledBack,
    /// The ordering mode postponed the write.
    Held,
}

/// The outcome of writing a set of buffers.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Buffers written, with or without all their changes.
    pub(crate) count: usize,
    /// The buffers that still have changes which they had before.
    pub(crate) incomplete: Vec<BufRef>,
    /// The buffers whose write failed.
    pub(crate) failed: Vec<BufKey>,
    /// The first failure.
    pub(crate) error: Option<Error>,
}

impl Written {
    /// Adds the outcome of one write of `bufs`.
    pub(super) fn add<'a>(
        &mut self,
        bufs: impl ExactSizeIterator<Item = &'a BufRef>,
        outcome: Result<WriteOutcome>,
    ) {
        match outcome {
            Ok(WriteOutcome::Clean) => {}
            Ok(WriteOutcome::Complete) => self.count += bufs.len(),
            Ok(WriteOutcome::RolledBack) => {
                self.count += bufs.len();
                self.incomplete.extend(bufs.cloned());
            }
            Ok(WriteOutcome::Held) => self.incomplete.extend(bufs.cloned()),
            Err(e) => {
                self.failed.extend(bufs.map(|b| b.key));
                self.error.get_or_insert(e);
            }
        }
    }

    /// Whether every write succeeded.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn result(self) -> Result<()> {
        self.error.map_or(Ok(()), Err)
    }
}
