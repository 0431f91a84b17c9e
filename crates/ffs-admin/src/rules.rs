//! The ordering rules of growfs and tunefs by name. A build with the cargo feature `mutants` can
//! switch one rule off.
//!
//! Each rule is a flush of the device between two steps. The crash laboratory must find a volume
//! that the absence of the flush leaves.
//!
//! Reference: `spec/on-disk-format.md` §14, §17.4.

use ffs_device::{BlockDevice, DeviceError};

macro_rules! rules {
    ($($(#[doc = $doc:literal])* $rule:ident = $name:literal,)*) => {
        /// A rule of growfs or tunefs.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Rule {
            $($(#[doc = $doc])* $rule,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Rule] = &[$(Rule::$rule,)*];

            /// The name that commands use.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Rule::$rule => $name,)* }
            }

            /// The rule in one sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Rule::$rule => concat!($($doc),*).trim_ascii(),)* }
            }
        }
    };
}

rules! {
    /// The undo log of growfs is durable before the mark of an unfinished growth.
    LogBeforeMark = "log-before-mark",
    /// The mark of an unfinished growth is durable before the old volume changes.
    MarkBeforeChange = "mark-before-change",
    /// The changes of the old volume are durable before the mark is removed.
    ChangeBeforeUnmark = "change-before-unmark",
    /// The volume is marked unclean before a journal is made in it.
    UncleanBeforeJournal = "unclean-before-journal",
    /// The maps count the blocks of a new journal before its inode has them.
    MapsBeforeJournal = "maps-before-journal",
    /// The inode of a new journal is durable before its name.
    JournalBeforeName = "journal-before-name",
    /// A new journal is complete before the superblock has its flag.
    JournalBeforeFlag = "journal-before-flag",
}

#[cfg(feature = "mutants")]
static BROKEN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(usize::MAX);

/// Switches `rule` off in the whole process, or all on.
#[cfg(feature = "mutants")]
pub fn break_rule(rule: Option<Rule>) {
    BROKEN.store(rule.map_or(usize::MAX, |r| r as usize), std::sync::atomic::Ordering::Relaxed);
}

/// Whether `rule` is in force.
#[inline]
fn holds(rule: Rule) -> bool {
    #[cfg(feature = "mutants")]
    {
        BROKEN.load(std::sync::atomic::Ordering::Relaxed) != rule as usize
    }
    #[cfg(not(feature = "mutants"))]
    {
        let _ = rule;
        true
    }
}

/// The flush that `rule` demands.
///
/// # Errors
/// The device's.
pub(crate) fn flush_for(rule: Rule, dev: &dyn BlockDevice) -> Result<(), DeviceError> {
    if holds(rule) { dev.flush() } else { Ok(()) }
}
