//! Whether a recovered tree keeps what the workload was promised.
//!
//! **Purpose.** From the history of a workload and the place of the crash: which names, contents and
//! attributes may be there, which must. [`Expectation::new`] does the work that all states of one place
//! share; [`Expectation::judge`] looks at one tree.
//!
//! | rule | is broken when |
//! | --- | --- |
//! | X1 | an object that had a durable name, and always one after that, has none |
//! | X2 | the old name of a rename is gone, and the new one not there |
//! | X3 | a name leads to an object that never had it |
//! | X4 | a durable name is missing, or an older value of it is back |
//! | X5 | a name is there that nobody gave |
//! | X7 | after a repair one name of an exchange has its new file, the other its old one |
//! | X8 | a removed name is gone, but a name that a rename or a link gave before is not there |
//! | X6, LINK | after a repair fragments are lost, or link counts wrong |
//! | F6 | a file shows what is not its own |
//! | F10 | a name leads to an inode of another life |
//! | G1 | durable content is not there |
//! | G5, G7, G20 | type, target, or attributes are none the object had |
//! | G8, G9, G11 | a size, content, or mixture of contents is none the file may have |
//! | G18 | a name that a rename or a link gave shows an incomplete file |
//!
//! | module | holds |
//! | --- | --- |
//! | `model` | the history, read up to the crash |
//! | `names` | names: cells, floors, anchors |
//! | `renames` | renames and exchanges, names that publish a content |
//! | `offline` | what a command without ordering must leave alone |
//! | `leniency` | every exception, with the paragraph that allows it |
//! | `content` | contents of files |
//! | `traits` | attributes, extended attributes, targets of links |
//! | `judge` | the walk over a tree |
//!
//! # Invariants
//! 1. Steps that were under way at the crash may have happened or not; steps that ended count as promises
//!    only if the policy says so.
//! 2. A name that leads to no inode is told by the raw checker (F1, F2), and not told again.
//! 3. Where the history leaves several readings of what is found, the one that acquits counts.
//!
//! References: `spec/fsck-and-crash.md` §9, §11.4.

mod cell;
mod content;
mod judge;
mod leniency;
mod model;
mod names;
mod offline;
mod renames;
#[cfg(test)]
mod tests;
mod traits;

pub use ffs_core::FsyncScope;

use super::history::{Allowed, CrashPoint, History, Violation};
use super::image::ImageBytes;
use super::raw::Found;
use leniency::Leniency;
use model::Model;

/// What a policy of ordering promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// G1 to G23.
    SoftUpdates(SoftUpdateOptions),
    /// G24: names are durable when a call returns; new blocks may show foreign data.
    SyncOrdered,
    /// G25: what was synced, if nothing came after.
    Async,
}

/// The mount options that decide what soft updates promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftUpdateOptions {
    /// `-o fsync=`.
    pub fsync: FsyncScope,
    /// G18: a name that a rename or a link gives waits for the content of its file.
    pub replace_order: bool,
}

impl Default for SoftUpdateOptions {
    fn default() -> SoftUpdateOptions {
        SoftUpdateOptions { fsync: FsyncScope::All, replace_order: true }
    }
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
pub struct Expectation {
    model: Model,
    promise: Promise,
    /// Something may be expected at all.
    binding: bool,
}

impl Expectation {
    /// What `history` allows after a crash at `cut`.
    #[must_use]
    pub fn new(history: &History, crash: impl Into<CrashPoint>, promise: Promise) -> Expectation {
        let model = Model::new(history, crash.into(), promise);
        let binding = !Leniency::NoOrdering.grants(promise == Promise::Async && !model.quiet);
        Expectation { model, promise, binding }
    }

    /// Adds what is wrong with the tree that the raw checker found on `image` to `out`; which of A11 and A12, which
    /// only the history tells, it shows.
    pub fn judge(
        &self,
        image: &dyn ImageBytes,
        found: &Found,
        condition: Condition,
        out: &mut Vec<Violation>,
    ) -> Allowed {
        if condition == Condition::Recovered {
            if found.seen.has(1) {
                out.push(Violation::new("X6", "after the repair fragments are nobody's"));
            }
            if found.seen.has(4) {
                out.push(Violation::new("LINK", "after the repair a link count is too high"));
            }
        }
        if !self.binding {
            return Allowed::default();
        }
        self.walk(image, &found.tree, condition, out)
    }
}
