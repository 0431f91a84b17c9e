//! Applications as oracles: real programs run on a recorded disk, the power is cut, and the program
//! itself is asked whether what it acknowledged is there and whether it can use its data.
//!
//! | module | holds |
//! | --- | --- |
//! | [`driver`] | the programs: scripts of this crate (`crates/ffs-lab/apps`), run by python3 |
//! | [`side`] | the file systems under test: how they are made, mounted, repaired |
//! | [`record`] | a program at work on a disk that remembers |
//! | [`draw`] | which states of a recording are examined |
//! | [`examine`] | one state: mounted as it is, mounted repaired, and the program's answer |
//! | [`keep`] | recordings as files, to examine a state again |
//! | [`run`] | every program on every file system, as a table |
//!
//! # Invariants
//! 1. Every file system runs on the same recorded disk and is judged by the same scripts.
//! 2. A step has to be there in every state of a window that ended after the step was acknowledged:
//!    a power cut at the end of the window may leave any of its states.
//! 3. The states that are drawn follow from the recording and the seed alone.
//!
//! Reference: Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014;
//! `docs/lab/applications.md`.

pub mod draw;
pub mod driver;
pub mod examine;
pub mod keep;
pub mod record;
pub mod run;
pub mod side;

use crate::error::LabError;

/// A failure of `what`, with the reason.
fn failed(target: &str, what: &str, why: impl std::fmt::Display) -> LabError {
    LabError::Failed {
        target: target.to_owned(),
        what: what.to_owned(),
        why: why.to_string(),
        full: false,
    }
}
