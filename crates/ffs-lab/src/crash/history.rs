//! What a workload did, in program order, against the log of the device.
//!
//! **Purpose.** The oracle judges the tree found after a crash by this: which names and contents may be
//! there, which must. The recording writes it; nothing else does.
//!
//! # Invariants
//! 1. Steps stand in program order; `began` and `at` never decrease along the history, and `began <= at`.
//! 2. A crash has seen the first events of the device's log ([`CrashPoint`]). A step with `at <= seen` returned
//!    before the crash; another with `began < issued` was under way and may be done wholly, not at all, or
//!    half; any other has not happened.
//! 3. What was there before the recording is told too: its steps have `began = at = 0`, and a
//!    [`Action::Synced`] ends them.
//! 4. A call that failed leaves no step, unless it may have changed something ([`Action::Wrote`] with
//!    `whole = false`).
//!
//! Reference: `spec/fsck-and-crash.md` §11.4.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use ffs_ondisk::Ino;

use super::tag::SECTOR;

/// An object the workload made: one life of an inode. Counted in the order of making; the root is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjId(pub u32);

/// The root directory.
pub const ROOT: ObjId = ObjId(0);

impl fmt::Display for ObjId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {}", self.0)
    }
}

/// What kind of object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjKind {
    /// Regular file, empty.
    File,
    /// Directory, empty.
    Directory,
    /// Symbolic link with this target.
    Symlink(Vec<u8>),
    /// Named pipe: an inode without blocks.
    Fifo,
    /// Left at the old name by a rename: a character device 0:0.
    Whiteout,
}

/// Attributes that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attrs {
    /// Low 12 bits of the mode.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time, seconds, if a call set it; `None` where only time moved it.
    pub mtime: Option<i64>,
}

/// Extended attributes: name space and name, value.
pub type Extended = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

/// Where an object lives: an inode number is used again, but never in the same generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    /// Inode number.
    pub ino: Ino,
    /// `di_gen` of this life.
    pub generation: u32,
}

/// A name: directory and component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The directory.
    pub dir: ObjId,
    /// One component, no slash.
    pub name: Vec<u8>,
}

/// One change or promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// An object came to be. Its first name follows as the next step of the same call.
    Created {
        /// The object.
        obj: ObjId,
        /// Its kind.
        kind: ObjKind,
        /// Its first attributes.
        attrs: Attrs,
        /// Where it lives.
        life: Life,
        /// Extended attributes it was made with: it is never seen without them.
        extended: Extended,
    },
    /// A name was entered: create, mkdir, symlink, link.
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
        /// What moved.
        obj: ObjId,
        /// What the new name named before, which lost this name.
        replaced: Option<ObjId>,
    },
    /// Two names changed places.
    Exchanged {
        /// A name, which now names `away`.
        one: Name,
        /// The other, which now names `moved`.
        other: Name,
        /// What `one` named before.
        moved: ObjId,
        /// What `other` named before.
        away: ObjId,
    },
    /// Bytes were written: those of [`super::tag::fill`] with `version`. The size grew to `bytes.end`
    /// if it was less.
    Wrote {
        /// The file.
        obj: ObjId,
        /// Bytes of the file.
        bytes: Range<u64>,
        /// Counted from 1 over the whole workload.
        version: u32,
        /// False if the call failed: any part of the range may have been written, and any of the growth.
        whole: bool,
    },
    /// What the file holds was found on the device, after a crash.
    ContentFound {
        /// The file.
        obj: ObjId,
        /// Its size, bytes.
        size: u64,
        /// The size that a check may leave: less, if the file ends in a hole.
        least: u64,
        /// Sectors that are not zeros: index, bytes.
        sectors: Vec<(u64, [u8; SECTOR])>,
        /// The sectors of its last fragment from its end on, as they are on the device.
        behind: Vec<(u64, [u8; SECTOR])>,
    },
    /// The size was set by truncate; bytes beyond a smaller size are gone, those up to a larger one zero.
    Resized {
        /// The file.
        obj: ObjId,
        /// New size, bytes.
        size: u64,
    },
    /// Bytes were made zeros, if the file had any; the size grew to `bytes.end` if it was less.
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
        /// All of them, as they are now.
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
    /// fsync or fdatasync of the object returned without error: all steps of the object before this one
    /// are durable.
    Fsynced {
        /// The object; a directory's fsync promises its entries.
        obj: ObjId,
        /// fdatasync: attributes that do not matter for reading the data may be missing.
        data_only: bool,
    },
    /// sync returned without error, or the file system was mounted: all steps before this one are durable.
    Synced,
}

impl Action {
    /// The objects it is about, and the directories of names.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjId> {
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

/// A [`Action`] and when it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Events the device's log held when the call was issued.
    pub began: u64,
    /// Events it held when the call returned.
    pub at: u64,
    /// Which operation of the workload, counted from 0; `None` for what was there before.
    pub op: Option<u32>,
    /// What happened.
    pub what: Action,
}

/// When the device stopped, in events of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CrashPoint {
    /// So many had ended.
    pub seen: u64,
    /// So many had begun: one more, if the last was a write that was torn.
    pub issued: u64,
}

impl From<u64> for CrashPoint {
    fn from(seen: u64) -> CrashPoint {
        CrashPoint { seen, issued: seen }
    }
}

/// How far a step had come when the device stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The call had returned.
    Returned,
    /// The call was under way.
    InProgress,
    /// Not begun.
    NotStarted,
}

impl Step {
    /// How far this step was.
    #[must_use]
    pub fn progress(&self, crash: CrashPoint) -> Progress {
        if self.at <= crash.seen {
            Progress::Returned
        } else if self.began < crash.issued {
            Progress::InProgress
        } else {
            Progress::NotStarted
        }
    }
}

/// Everything a workload did.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct History {
    /// In program order.
    pub steps: Vec<Step>,
}

impl History {
    /// The steps that had happened, or may have in part.
    pub fn until(&self, crash: CrashPoint) -> impl Iterator<Item = (&Step, Progress)> {
        let all = self.steps.iter().map(move |step| (step, step.progress(crash)));
        all.take_while(|(_, progress)| *progress != Progress::NotStarted)
    }
}

/// A rule that a crash state breaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Which: `F5`, `C2:LINK-LOW`, `X1`, `G17`.
    pub rule: String,
    /// Where and how.
    pub what: String,
}

impl Violation {
    /// `rule` is broken as `what` says.
    #[must_use]
    pub fn new(rule: impl Into<String>, what: impl Into<String>) -> Violation {
        Violation { rule: rule.into(), what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Which of the states A1 to A16 that a crash may leave were seen (`spec/soft-updates.md` §1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Allowed(u32);

impl Allowed {
    /// The highest number there is.
    pub const LAST: u8 = 16;

    /// A state was seen: 1 for A1, to 16.
    pub fn saw(&mut self, number: u8) {
        debug_assert!((1..=Self::LAST).contains(&number));
        self.0 |= 1 << (number % 32);
    }

    /// Whether it was seen.
    #[must_use]
    pub fn has(self, number: u8) -> bool {
        self.0 & 1 << (number % 32) != 0
    }

    /// Those seen, by number.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (1..=Self::LAST).filter(move |&number| self.has(number))
    }

    /// Those seen by either.
    #[must_use]
    pub fn or(self, other: Allowed) -> Allowed {
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
        use Progress::{InProgress, NotStarted, Returned};
        assert_eq!(all, [NotStarted, NotStarted, InProgress, Returned, Returned]);
        let torn = |seen| step.progress(CrashPoint { seen, issued: seen + 1 });
        assert_eq!(
            (torn(2), torn(3), torn(4), torn(5)),
            (NotStarted, InProgress, InProgress, Returned)
        );
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
