//! What a workload did, in program order, with positions in the event log of the device.
//!
//! **Purpose.** The oracle compares the tree that it finds after a crash with this history. The
//! recording writes the history; nothing else does.
//!
//! # Invariants
//! 1. Steps are in program order; `began` and `at` never decrease along the history, and
//!    `began <= at`.
//! 2. At a crash the device has seen the first events of its log ([`CrashPoint`]). A step with
//!    `at <= seen` returned before the crash. Another step with `began < issued` was in progress
//!    and may be done wholly, in part, or not at all. Any other step has not happened.
//! 3. The history includes what existed before the recording: those steps have `began = at = 0`,
//!    and an [`Action::Synced`] ends them.
//! 4. A call that failed has no step, unless it may have changed something ([`Action::Wrote`] with
//!    `whole = false`).
//!
//! Reference: `spec/fsck-and-crash.md` §11.4.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use ffs_ondisk::Ino;

/// Bytes of a sector. A device writes a sector completely or not at all.
pub(crate) const SECTOR: usize = 512;

/// An object that the workload created: one life of an inode. Objects are numbered in order of
/// creation; the root is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjId(pub u32);

/// The root directory.
pub(crate) const ROOT: ObjId = ObjId(0);

impl fmt::Display for ObjId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {}", self.0)
    }
}

/// The kind of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjKind {
    /// Regular file, empty.
    File,
    /// Directory, empty.
    Directory,
    /// Symbolic link with this target.
    Symlink(Vec<u8>),
    /// Named pipe: an inode without blocks.
    Fifo,
    /// A whiteout, which a rename left at the old name: character device 0:0.
    Whiteout,
    /// A snapshot: a regular file, whose content is the volume.
    Snapshot,
}

/// The attributes that a call sets together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attrs {
    /// Low 12 bits of the mode.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time in seconds if a call set it; `None` if writes or the clock moved it.
    pub mtime: Option<i64>,
}

/// Extended attributes: name space and name, value.
pub(crate) type Extended = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

/// The inode of an object. An inode number is reused, but never with the same generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life {
    /// Inode number.
    pub ino: Ino,
    /// `di_gen` of this life.
    pub generation: u32,
}

/// A name: directory and component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    /// The directory.
    pub dir: ObjId,
    /// One component, no slash.
    pub name: Vec<u8>,
}

/// A change or a durability guarantee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// An object was created. Its first name follows as the next step of the same call.
    Created {
        /// The object.
        obj: ObjId,
        /// Its kind.
        kind: ObjKind,
        /// Its first attributes.
        attrs: Attrs,
        /// Its inode.
        life: Life,
        /// The extended attributes it was created with; it is never visible without them.
        extended: Extended,
    },
    /// A name was added: create, mkdir, symlink, link.
    NameAdded {
        /// The name, new.
        name: Name,
        /// What it names.
        obj: ObjId,
    },
    /// A name was removed: unlink, rmdir.
    NameRemoved {
        /// The name.
        name: Name,
        /// What it named.
        obj: ObjId,
    },
    /// A name moved.
    Renamed {
        /// The old name.
        from: Name,
        /// The new one.
        to: Name,
        /// The object that moved.
        obj: ObjId,
        /// The object that the new name led to before.
        replaced: Option<ObjId>,
    },
    /// Two names were exchanged.
    Exchanged {
        /// A name; now it leads to `away`.
        one: Name,
        /// The other name; now it leads to `moved`.
        other: Name,
        /// The object that `one` led to before.
        moved: ObjId,
        /// The object that `other` led to before.
        away: ObjId,
    },
    /// Bytes were written: those of [`super::tag::fill`] with `version`. The size grew to
    /// `bytes.end` if it was less.
    Wrote {
        /// The file.
        obj: ObjId,
        /// Bytes of the file.
        bytes: Range<u64>,
        /// Counted from 1 over the whole workload.
        version: u32,
        /// False if the call failed: any part of the range may have been written, and any of the
        /// growth.
        whole: bool,
    },
    /// The content of a file as it was found on the device after a crash.
    ContentFound {
        /// The file.
        obj: ObjId,
        /// Its size, bytes.
        size: u64,
        /// The size that a check may leave; it is smaller if the file ends in a hole.
        least: u64,
        /// Sectors that are not zeros: index, bytes.
        sectors: Vec<(u64, [u8; SECTOR])>,
        /// The sectors of the last fragment from the end of the file on, as they are on the device.
        behind: Vec<(u64, [u8; SECTOR])>,
    },
    /// The size was set by truncate. Bytes beyond a smaller size are removed; bytes up to a larger
    /// size are zero.
    Resized {
        /// The file.
        obj: ObjId,
        /// New size, bytes.
        size: u64,
    },
    /// Bytes were zeroed where the file had any. The size grew to `bytes.end` if it was less.
    Zeroed {
        /// The file.
        obj: ObjId,
        /// Bytes of the file.
        bytes: Range<u64>,
    },
    /// Attributes were set.
    AttrsChanged {
        /// The object.
        obj: ObjId,
        /// All attributes as they are now.
        attrs: Attrs,
    },
    /// An extended attribute was set or removed.
    XattrChanged {
        /// The object.
        obj: ObjId,
        /// Its name space: 1 user, 2 system.
        namespace: u8,
        /// Its name.
        name: Vec<u8>,
        /// Its value; `None`: removed.
        value: Option<Vec<u8>>,
    },
    /// fsync or fdatasync of the object returned without error: all earlier steps of the object are
    /// durable.
    Fsynced {
        /// The object. For a directory its entries are durable.
        obj: ObjId,
        /// fdatasync: attributes that are not needed to read the data may be older.
        data_only: bool,
    },
    /// sync returned without error, or the volume was mounted: all earlier steps are durable.
    Synced,
}

impl Action {
    /// The objects of the action and the directories of its names.
    #[must_use]
    pub(crate) fn objects(&self) -> Vec<ObjId> {
        match self {
            Action::Created { obj, .. }
            | Action::Wrote { obj, .. }
            | Action::ContentFound { obj, .. }
            | Action::Resized { obj, .. }
            | Action::Zeroed { obj, .. }
            | Action::AttrsChanged { obj, .. }
            | Action::XattrChanged { obj, .. }
            | Action::Fsynced { obj, .. } => vec![*obj],
            Action::NameAdded { name, obj } | Action::NameRemoved { name, obj } => {
                vec![*obj, name.dir]
            }
            Action::Renamed { from, to, obj, replaced } => {
                let all = [*obj, from.dir, to.dir].into_iter();
                all.chain(*replaced).collect()
            }
            Action::Exchanged { one, other, moved, away } => {
                vec![*moved, *away, one.dir, other.dir]
            }
            Action::Synced => Vec::new(),
        }
    }
}

/// An [`Action`] with its position in the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Events in the log of the device when the call was issued.
    pub began: u64,
    /// Events in the log when the call returned.
    pub at: u64,
    /// The operation of the workload, counted from 0; `None` for what existed before.
    pub op: Option<u32>,
    /// What happened.
    pub what: Action,
}

/// The position of a crash in the event log of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CrashPoint {
    /// Events that had ended.
    pub seen: u64,
    /// Events that had begun: one more than `seen` if the last was a write that was torn.
    pub issued: u64,
}

impl From<u64> for CrashPoint {
    fn from(seen: u64) -> CrashPoint {
        CrashPoint { seen, issued: seen }
    }
}

/// The progress of a step at a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The call had returned.
    Returned,
    /// The call was in progress.
    Running,
    /// The call was not issued yet.
    NotStarted,
}

impl Step {
    /// The progress of this step at `crash`.
    #[must_use]
    pub(crate) fn progress(&self, crash: CrashPoint) -> Progress {
        if self.at <= crash.seen {
            Progress::Returned
        } else if self.began < crash.issued {
            Progress::Running
        } else {
            Progress::NotStarted
        }
    }
}

/// All steps of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct History {
    /// In program order.
    pub steps: Vec<Step>,
}

impl History {
    /// The steps that had returned or were in progress at the crash.
    pub(crate) fn until(&self, crash: CrashPoint) -> impl Iterator<Item = (&Step, Progress)> {
        let all = self.steps.iter().map(move |step| (step, step.progress(crash)));
        all.take_while(|(_, progress)| *progress != Progress::NotStarted)
    }
}

/// A rule that a crash state breaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    /// The rule: `F5`, `C2:LINK-LOW`, `X1`, `G17`.
    pub rule: String,
    /// The place and the details.
    pub what: String,
}

impl Violation {
    /// A violation of `rule`, described by `what`.
    #[must_use]
    pub(crate) fn new(rule: impl Into<String>, what: impl Into<String>) -> Violation {
        Violation { rule: rule.into(), what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// The set of allowed states, A1 to A16, that were seen (`spec/soft-updates.md` §1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Allowed(u32);

impl Allowed {
    /// The highest number.
    pub(crate) const LAST: u8 = 16;

    /// Adds a state: 1 for A1, up to 16.
    pub(crate) fn saw(&mut self, number: u8) {
        debug_assert!((1..=Self::LAST).contains(&number));
        self.0 |= 1 << (number % 32);
    }

    /// Whether the state was seen.
    #[must_use]
    pub(crate) fn has(self, number: u8) -> bool {
        self.0 & 1 << (number % 32) != 0
    }

    /// The numbers of the states in the set, ascending.
    pub(crate) fn iter(self) -> impl Iterator<Item = u8> {
        (1..=Self::LAST).filter(move |&number| self.has(number))
    }

    /// The union of both sets.
    #[must_use]
    pub(crate) fn or(self, other: Allowed) -> Allowed {
        Allowed(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_ahead_under_way_or_done() {
        let step = Step { began: 3, at: 5, op: Some(0), what: Action::Synced };
        let all: Vec<Progress> = (2..7).map(|crash: u64| step.progress(crash.into())).collect();
        use Progress::{NotStarted, Returned, Running};
        assert_eq!(all, [NotStarted, NotStarted, Running, Returned, Returned]);
        let torn = |seen| step.progress(CrashPoint { seen, issued: seen + 1 });
        assert_eq!((torn(2), torn(3), torn(4), torn(5)), (NotStarted, Running, Running, Returned));
        let idle = Step { began: 4, at: 4, ..step };
        assert_eq!((idle.progress(3.into()), idle.progress(4.into())), (NotStarted, Returned));
    }

    #[test]
    fn allowed_states_are_a_set() {
        let mut seen = Allowed::default();
        seen.saw(1);
        seen.saw(16);
        assert_eq!(seen.iter().collect::<Vec<u8>>(), [1, 16]);
        assert!(!seen.has(2) && seen.or(Allowed::default()).has(16));
    }
}
