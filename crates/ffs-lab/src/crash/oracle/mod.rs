//! Whether a recovered tree keeps what the workload was promised.
//!
//! References: `spec/fsck-and-crash.md` §9, §11.4.

use super::history::{History, Violation};
use super::image::ImageBytes;
use super::raw::Found;

/// What a policy of ordering promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// G1 to G23.
    SoftUpdates {
        /// G18: a name that replaces another waits for the content of its file.
        replace_order: bool,
    },
    /// G24: names are durable when a call returns; new blocks may show foreign data.
    SyncOrdered,
    /// G25: what was synced, if nothing came after.
    Async,
}

/// Whether the image was repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// As the crash left it.
    Untouched,
    /// After `fsck -p`.
    Recovered,
}

/// What a tree may look like after a crash at one place of the log; made once for all states of that place.
#[derive(Debug)]
pub struct Expectation {}

impl Expectation {
    /// What `history` allows after a crash when the device had seen `cut` events.
    #[must_use]
    pub fn new(_history: &History, _cut: u64, _promise: Promise) -> Expectation {
        Expectation {}
    }

    /// Adds what is wrong with the tree that the raw checker found on `image` to `out`.
    pub fn judge(
        &self,
        _image: &dyn ImageBytes,
        _found: &Found,
        _condition: Condition,
        _out: &mut Vec<Violation>,
    ) {
    }
}
