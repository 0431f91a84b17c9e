//! The oracle: compares a tree after a crash with the guarantees that the workload had.
//!
//! The history of a workload and the crash point determine which names, contents and attributes may
//! exist, and which must. [`Expectation::new`] does the work that all states of one crash point
//! share. [`Expectation::judge`] compares one tree.
//!
//! | rule | is broken when |
//! | --- | --- |
//! | X1 | an object that had a durable name, and always a name since, has none |
//! | X2 | both the old and the new name of a rename are missing |
//! | X3 | a name leads to an object that never had it |
//! | X4 | a durable name is missing, or refers to an older object again |
//! | X5 | a name exists that the workload never created |
//! | X7 | after a repair one name of an exchange has its new file, the other its old one |
//! | X8 | a removal took effect, but an earlier rename or link did not |
//! | X6, LINK | after a repair fragments are lost, or link counts are wrong |
//! | F6 | a file shows content that is not its own |
//! | F10 | a name leads to an inode of another generation |
//! | G1 | durable content is missing |
//! | G5, G7, G20 | the object never had this type, target, or set of attributes |
//! | G8, G9, G11 | the file may not have this size, content, or mixture of contents |
//! | G18 | a name that a rename or a link gave shows an incomplete file |
//! | S1, S2, S3, S4, S5 | a snapshot changed, or is not listed as it should (`snapshots.rs`) |
//!
//! | module | holds |
//! | --- | --- |
//! | `model` | the history, read up to the crash |
//! | `cell` | the values of one name over time |
//! | `names` | all names: which are durable, which objects must survive |
//! | `renames` | renames and exchanges; names that publish a content |
//! | `offline` | the objects that a command without ordering must not damage |
//! | `leniency` | every exception, with the paragraph that allows it |
//! | `content` | contents of files |
//! | `traits` | attributes, extended attributes, targets of links |
//! | `judge` | the walk over a tree |
//!
//! # Invariants
//! 1. A step that was in progress at the crash may have happened or not. A step that had returned
//!    is guaranteed only as far as the ordering mode promises.
//! 2. The raw checker reports a name that leads to no inode (F1, F2). The oracle does not report
//!    it.
//! 3. Where several interpretations of a tree are possible, one without a violation is enough.
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

/// The guarantees of an ordering mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// G1 to G23.
    SoftUpdates(SoftUpdateOptions),
    /// G24: names are durable when a call returns; new blocks may show foreign data.
    SyncOrdered,
    /// G25: the state of the last sync, if no call followed.
    Async,
}

/// The mount options that decide what soft updates promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftUpdateOptions {
    /// `-o fsync=`.
    pub fsync: FsyncScope,
    /// G18: a name from a rename or a link becomes durable after the content of its file.
    pub replace_order: bool,
}

impl Default for SoftUpdateOptions {
    fn default() -> SoftUpdateOptions {
        SoftUpdateOptions { fsync: FsyncScope::All, replace_order: true }
    }
}

/// Whether the image was repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// As the crash left it.
    Untouched,
    /// After `fsck -p`.
    Recovered,
}

/// The trees that a crash at one point of the log may leave. Shared by all states of that point.
#[derive(Debug)]
pub(crate) struct Expectation {
    model: Model,
    promise: Promise,
    /// Whether any guarantee applies.
    binding: bool,
}

impl Expectation {
    /// The trees that `history` allows after a crash at `crash`.
    #[must_use]
    pub(crate) fn new(
        history: &History,
        crash: impl Into<CrashPoint>,
        promise: Promise,
    ) -> Expectation {
        let model = Model::new(history, crash.into(), promise);
        let binding = !Leniency::NoOrdering.grants(promise == Promise::Async && !model.quiet);
        Expectation { model, promise, binding }
    }

    /// Adds to `out` the violations of the tree that the raw checker found on `image`. Returns
    /// which of A11 and A12 the tree shows; only the history decides about these.
    pub(crate) fn judge(
        &self,
        image: &dyn ImageBytes,
        found: &Found,
        condition: Condition,
        out: &mut Vec<Violation>,
    ) -> Allowed {
        if condition == Condition::Recovered {
            if found.seen.has(1) {
                out.push(Violation::new(
                    "X6",
                    "after the repair fragments are marked in use without an owner",
                ));
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
