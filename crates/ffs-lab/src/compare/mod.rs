//! Comparisons: the same work on several targets in one run.
//!
//! [`dirs`] compares the operations on one directory, phase by phase; [`workload`] compares any
//! workload. In both the targets take turns, and each round starts with the next target, so that a
//! disturbance of the computer affects all of them. [`results`] reads the results of several
//! comparisons again, for tables and a page.

mod dirs;
pub mod results;
mod workload;

pub use dirs::{DirComparison, DirRequest, DirRow, Growth, MOST_FILES, SkippedPhase};
pub use workload::{WorkloadComparison, WorkloadRequest, WorkloadRow};

use crate::error::{LabError, Result};
use crate::systems::{Context, Target, TargetSpec};

/// Refuses an empty list of targets, and a target that is listed twice.
fn check_targets(targets: &[TargetSpec]) -> Result<()> {
    if targets.is_empty() {
        return Err(LabError::Plan("nothing to do: a target is needed".to_owned()));
    }
    for (at, target) in targets.iter().enumerate() {
        if targets[..at].iter().any(|other| other.label == target.label) {
            return Err(LabError::Plan(format!("target '{}' is given twice", target.label)));
        }
    }
    Ok(())
}

fn open_all(targets: &[TargetSpec], context: &Context) -> Result<Vec<Box<dyn Target>>> {
    targets.iter().map(|spec| spec.open(context)).collect()
}
