//! The names of workloads and states, by which a user repeats them.

use std::fmt;
use std::str::FromStr;

use super::generate::Source;
use super::geometry::{self, Shape};
use super::states::Choice;
use crate::error::{LabError, Result};

/// A workload on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadId {
    /// The volume.
    pub shape: &'static Shape,
    /// The workload.
    pub source: Source,
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.shape.name, self.source)
    }
}

/// A state by its name: `ufs2-2m/2.1043:3:s1f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateId {
    /// The workload.
    pub work: WorkloadId,
    /// The window, counted from 0.
    pub window: u32,
    /// The state.
    pub choice: Choice,
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.work, self.window, self.choice)
    }
}

impl FromStr for StateId {
    type Err = LabError;

    fn from_str(text: &str) -> Result<StateId> {
        let wrong = || {
            let like = "a state is named GEOMETRY/WORKLOAD:WINDOW:STATE, like ufs2-2m/2.17:3:p1";
            LabError::Plan(format!("'{text}' names no state; {like}"))
        };
        let (shape, rest) = text.split_once('/').ok_or_else(wrong)?;
        let mut parts = rest.split(':');
        let mut part = || parts.next().ok_or_else(wrong);
        let (source, window, choice) = (part()?, part()?, part()?);
        let shape = geometry::find(shape)?;
        let work = WorkloadId { shape, source: source.parse().map_err(|()| wrong())? };
        let window = window.parse().map_err(|_| wrong())?;
        Ok(StateId { work, window, choice: choice.parse().map_err(|()| wrong())? })
    }
}
