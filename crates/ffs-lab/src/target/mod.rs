//! What a workload runs on.
//!
//! A workload is written once, over [`Target`]: the library in process ([`core`]), any mounted
//! directory through system calls ([`dir`]). It works below a directory of its own that
//! [`Target::begin`] makes and [`Target::end`] removes.

pub mod core;
pub mod dir;
mod spec;

use std::time::Duration;

pub use spec::{Context, CoreSpec, TargetSpec};

use crate::error::{LabError, Result};

/// A directory of a target that is in use; valid until [`Target::end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirId(pub(crate) usize);

/// What `stat` tells that workloads use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Inode number.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
}

/// What a target did so that names have to be looked up anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forgotten {
    /// This, in words.
    Done(&'static str),
    /// Nothing, for this reason: what follows would not be cold.
    Impossible(String),
}

/// What a reader of results has to know about a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The file system, in its own words: `ffs`, `ext4`.
    pub fs: String,
    /// What is durable when an operation returns.
    pub durability: String,
}

/// A place where a workload can run.
///
/// Operations name the directory and a name in it; the name has no slash. What an operation costs is
/// the target's business alone: callers time the calls by [`Target::now`].
pub trait Target {
    /// As the user named it.
    fn label(&self) -> &str;

    /// What to know about it.
    fn facts(&self) -> Facts;

    /// The target's time: the wall's for real ones, virtual for simulated ones.
    fn now(&self) -> Duration;

    /// Processor time used so far by who calls, the target's code included.
    fn cpu(&self) -> Duration;

    /// Makes a new, empty directory to work in, with room for `files` files.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if there is no room or no right to write.
    fn begin(&mut self, files: u64) -> Result<DirId>;

    /// Removes what [`Target::begin`] made and all below it. Called on a target without, it does nothing.
    ///
    /// # Errors
    /// What could not be removed.
    fn end(&mut self) -> Result<()>;

    /// Makes a directory.
    ///
    /// # Errors
    /// The target's.
    fn mkdir(&mut self, at: DirId, name: &[u8]) -> Result<DirId>;

    /// Makes an empty file that must not exist, and closes it.
    ///
    /// # Errors
    /// The target's.
    fn create(&mut self, at: DirId, name: &[u8]) -> Result<()>;

    /// Attributes of a name; `None` if there is no such name.
    ///
    /// # Errors
    /// The target's.
    fn stat(&mut self, at: DirId, name: &[u8]) -> Result<Option<Stat>>;

    /// Renames within a directory.
    ///
    /// # Errors
    /// The target's.
    fn rename(&mut self, at: DirId, from: &[u8], to: &[u8]) -> Result<()>;

    /// Removes a file's name.
    ///
    /// # Errors
    /// The target's.
    fn unlink(&mut self, at: DirId, name: &[u8]) -> Result<()>;

    /// Shows every name but `.` and `..`, in the directory's order.
    ///
    /// # Errors
    /// The target's.
    fn list(&mut self, at: DirId, each: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// Writes back everything.
    ///
    /// # Errors
    /// The target's.
    fn sync(&mut self) -> Result<()>;

    /// Forgets names that were looked up, as after a remount, as far as that is possible.
    ///
    /// # Errors
    /// The target's, in writing back what must not be forgotten.
    fn forget(&mut self) -> Result<Forgotten>;

    /// Counters of work since [`Target::begin`], where there are any: name and value.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The error of an operation.
fn failed(label: &str, op: &str, name: &[u8], why: impl ToString, full: bool) -> LabError {
    let what =
        if name.is_empty() { op.to_owned() } else { format!("{op} '{}'", name.escape_ascii()) };
    LabError::Failed { target: label.to_owned(), what, why: why.to_string(), full }
}
