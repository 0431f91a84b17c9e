//! Real programs after a loss of power: they run on a recorded disk, and check their own data in
//! the states that a crash may leave.
//!
//! | module | holds |
//! | --- | --- |
//! | [`driver`] | the programs: scripts of this crate (`crates/ffs-lab/apps`), run by python3 |
//! | [`side`] | the file systems under test: how they are made, mounted, repaired |
//! | [`record`] | runs a program on a disk that records its writes |
//! | [`draw`] | the choice of the states of a recording to examine |
//! | [`examine`] | mounts one state, unrepaired and repaired, and runs the program's check |
//! | [`keep`] | recordings as files, to examine a state again |
//! | [`run`] | every program on every file system, as a table |
//!
//! # Invariants
//! 1. Every file system runs on the same kind of recorded disk, and the same scripts check it.
//! 2. A crash at the end of a window may leave any of the window's states. So each of them must
//!    have every step that was acknowledged before the end of the window.
//! 3. The states that are examined follow from the recording and the seed.
//!
//! Reference: Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014;
//! `docs/lab/applications.md`.

pub mod draw;
pub mod driver;
mod examine;
mod keep;
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
