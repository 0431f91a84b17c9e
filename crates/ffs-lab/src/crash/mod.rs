//! The crash laboratory. It runs a workload on a recording device, makes every state that a crash
//! may leave, and examines each state.
//!
//! | module | holds |
//! | --- | --- |
//! | [`op`], [`text`] | operations; workloads as text |
//! | [`geometry`] | the volumes on which workloads run |
//! | [`generate`] | the built-in workloads |
//! | [`record`], `exec` | runs a workload and records what reaches the device |
//! | [`history`] | the actions of a workload in program order |
//! | `writers` | several threads on one volume; the seed schedules them (feature `schedule`) |
//! | `offline` | interrupted commands without ordering |
//! | `snapshots` | what snapshots have to show |
//! | `background` | checks in the background under load |
//! | `chain` | several crashes without a check in between |
//! | [`states`] | the states that a crash may leave of the writes between two flushes |
//! | [`overlay`] | a device that shows one state after the other on a common base |
//! | [`contract`] | the rules of the crash contract and the checks, by their labels |
//! | [`examine`] | the checks of one state |
//! | [`raw`] | the independent checker: reads an image, checks the contract, keeps the tree |
//! | [`oracle`] | compares a recovered tree with the guarantees of the workload |
//! | [`run`], [`tally`] | all workloads on all cores; the findings added up |
//! | `explain` | the description of one state |
//! | `events` | the log events of soft updates, for that description |
//! | `mutants` | rules that can be switched off (feature `mutants`) |
//! | [`suj`] | volumes with a journal: the order of its writes, and recoveries by it |
//! | [`shrink`] | reduces a workload that shows a violation |
//! | [`image`], [`tag`] | read access to the bytes of an image; tagged contents |
//!
//! # Invariants
//! 1. The states examined and the findings follow from the [`run::Plan`]. They do not depend on the
//!    number of threads or on time.
//! 2. Every state has a name ([`id::StateId`]) by which it can be examined alone.
//!
//! References: `spec/fsck-and-crash.md` part II, `spec/soft-updates.md` §1; `docs/lab/crash.md`.

mod background;
pub(crate) mod block_hashes;
mod chain;
pub(crate) mod command;
pub mod contract;
pub(crate) mod events;
pub mod examine;
mod exec;
pub(crate) mod explain;
pub mod generate;
pub mod geometry;
pub(crate) mod history;
pub(crate) mod id;
pub(crate) mod image;
pub(crate) mod mounting;
#[cfg(feature = "mutants")]
pub mod mutants;
mod offline;
pub(crate) mod op;
pub mod oracle;
pub(crate) mod overlay;
pub(crate) mod raw;
pub(crate) mod record;
pub mod run;
pub mod shrink;
pub(crate) mod snapshots;
pub mod states;
pub mod suj;
pub(crate) mod tag;
pub mod tally;
pub mod text;
#[cfg(feature = "schedule")]
mod writers;

use ffs_core::OrderingPolicy;

use crate::error::{LabError, Result};

/// The ordering modes by name; the first is the default.
pub const ORDERINGS: &[(&str, OrderingPolicy)] = &[
    ("soft", OrderingPolicy::SoftUpdates),
    ("suj", OrderingPolicy::Journaled),
    ("sync", OrderingPolicy::Sync),
    ("none", OrderingPolicy::None),
];

/// The ordering mode called `name`.
///
/// # Errors
/// [`LabError::Plan`] with the name that was probably meant.
pub fn ordering(name: &str) -> Result<OrderingPolicy> {
    let known = ORDERINGS.iter().find(|(known, _)| *known == name);
    known.map(|(_, ordering)| *ordering).ok_or_else(|| {
        let names = || ORDERINGS.iter().map(|(name, _)| *name);
        let hint = match ffs_core::nearest(name, names()) {
            None => format!("; there are {}", names().collect::<Vec<&str>>().join(", ")),
            near => ffs_core::suggestion(near),
        };
        LabError::Plan(format!("unknown ordering '{name}'{hint}"))
    })
}

/// Whether every crash under this ordering mode leaves a state that the contract allows.
#[must_use]
pub fn keeps_contract(ordering: OrderingPolicy) -> bool {
    match ordering {
        OrderingPolicy::SoftUpdates | OrderingPolicy::Journaled => true,
        OrderingPolicy::Superblock
        | OrderingPolicy::Async
        | OrderingPolicy::Sync
        | OrderingPolicy::None => false,
    }
}

/// The flags of soft updates in the superblock of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Updates {
    /// None.
    None,
    /// That of soft updates.
    Soft,
    /// That of the journal, too.
    Journaled,
}

impl Updates {
    /// The flags of a volume under this ordering mode. `unflagged`: none in any case.
    #[must_use]
    pub fn of(ordering: OrderingPolicy, unflagged: bool) -> Updates {
        match ordering {
            OrderingPolicy::Journaled if !unflagged => Updates::Journaled,
            _ if keeps_contract(ordering) && !unflagged => Updates::Soft,
            _ => Updates::None,
        }
    }
}

/// The guarantees of an ordering mode for names and contents. `soft` are the mount options of soft
/// updates.
#[must_use]
pub fn promise(ordering: OrderingPolicy, soft: oracle::SoftUpdateOptions) -> oracle::Promise {
    match ordering {
        OrderingPolicy::SoftUpdates | OrderingPolicy::Journaled => {
            oracle::Promise::SoftUpdates(soft)
        }
        OrderingPolicy::Superblock | OrderingPolicy::Sync => oracle::Promise::SyncOrdered,
        OrderingPolicy::Async | OrderingPolicy::None => oracle::Promise::Async,
    }
}
