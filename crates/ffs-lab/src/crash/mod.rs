//! The crash laboratory: a workload on a recording device, every state a power cut may leave, each
//! examined.
//!
//! | module | holds |
//! | --- | --- |
//! | [`op`], [`text`] | operations, and workloads as text |
//! | [`geometry`] | the volumes workloads run on |
//! | [`generate`] | the workloads of the laboratory |
//! | [`record`], `exec` | running a workload and keeping what reached the device |
//! | [`history`] | what a workload did, in program order: what the oracle judges a recovered tree by |
//! | `writers` | several threads on one volume, of which a seed decides which one runs (feature `schedule`) |
//! | `offline` | commands without ordering, cut off |
//! | `chain` | crash after crash without a check |
//! | [`states`] | what a power cut may leave of the writes between two flushes |
//! | [`overlay`] | a device on which one state after the other is laid over a common base |
//! | [`contract`] | the rules of the crash contract and the checks, by their labels |
//! | [`examine`] | the checks of one state |
//! | [`raw`] | the independent checker: the bytes of an image against the contract, and the tree they hold |
//! | [`oracle`] | whether a recovered tree keeps what the workload was promised |
//! | [`run`], [`tally`], `explain` | all workloads on all cores; what was found; one state at length |
//! | [`shrink`] | the shortest workload that still shows a violation |
//! | [`image`], [`tag`] | bytes that are read in place; contents that say whose they are |
//!
//! # Invariants
//! 1. What is examined and found follows from the [`run::Plan`], never from the number of threads or
//!    from time.
//! 2. Every state has a name ([`run::StateId`]) by which it can be examined alone.
//!
//! References: `spec/fsck-and-crash.md` part II, `spec/soft-updates.md` §1; `docs/lab/crash.md`.

mod chain;
pub mod contract;
pub mod examine;
mod exec;
mod explain;
pub mod generate;
pub mod geometry;
pub mod history;
pub mod image;
mod offline;
pub mod op;
pub mod oracle;
pub mod overlay;
pub mod raw;
pub mod record;
pub mod run;
pub mod shrink;
pub mod states;
pub mod tag;
pub mod tally;
pub mod text;
#[cfg(feature = "schedule")]
mod writers;

use ffs_core::OrderingPolicy;

use crate::error::{LabError, Result};

/// The tenants under their names, the one examined by default first.
pub const ORDERINGS: &[(&str, OrderingPolicy)] = &[
    ("soft", OrderingPolicy::SoftUpdates),
    ("sync", OrderingPolicy::Sync),
    ("none", OrderingPolicy::None),
];

/// The tenant of that name.
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

/// The rules of soft updates that can be broken, by name.
///
/// # Errors
/// [`LabError::Plan`] with the name that was probably meant.
#[cfg(feature = "mutants")]
pub fn rule(name: &str) -> Result<ffs_core::Rule> {
    let all = ffs_core::Rule::ALL;
    all.iter().find(|rule| rule.name() == name).copied().ok_or_else(|| {
        let near = ffs_core::nearest(name, all.iter().map(|rule| rule.name()));
        LabError::Plan(format!("unknown rule '{name}'{}", ffs_core::suggestion(near)))
    })
}

/// Whether the tenant promises that every crash leaves a state of the contract.
#[must_use]
pub fn keeps_contract(ordering: OrderingPolicy) -> bool {
    match ordering {
        OrderingPolicy::SoftUpdates => true,
        OrderingPolicy::Superblock
        | OrderingPolicy::Async
        | OrderingPolicy::Sync
        | OrderingPolicy::None => false,
    }
}

/// What an ordering promises about names and contents; `soft`: under soft updates.
#[must_use]
pub fn promise(ordering: OrderingPolicy, soft: oracle::SoftUpdateOptions) -> oracle::Promise {
    match ordering {
        OrderingPolicy::SoftUpdates => oracle::Promise::SoftUpdates(soft),
        OrderingPolicy::Superblock | OrderingPolicy::Sync => oracle::Promise::SyncOrdered,
        OrderingPolicy::Async | OrderingPolicy::None => oracle::Promise::Async,
    }
}
