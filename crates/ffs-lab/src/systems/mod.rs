//! What a workload runs on.
//!
//! A workload is written once, over [`Target`]: the library in process ([`core`]), any mounted
//! directory through system calls ([`dir`]). It works below a directory of its own that
//! [`Target::begin`] makes and [`Target::end`] removes.

pub mod core;
mod core_spec;
pub mod dir;
#[cfg(test)]
pub(crate) mod model;
mod mounted;
pub mod sim;
mod slots;
mod spec;
mod usage;
mod volume;

use std::time::Duration;

pub use core_spec::{Context, CoreSpec};
pub use spec::TargetSpec;
pub use usage::Usage;
pub use volume::Volume;

use crate::error::{LabError, Result};

/// A directory of a target that is in use; valid until [`Target::close_dir`] or [`Target::end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirId(pub(crate) usize);

/// An open file of a target; valid until [`Target::close`] or [`Target::end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub(crate) usize);

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// One that exists, to read.
    Read,
    /// One that exists, to read and write.
    Write,
    /// One that exists, to write at its end only.
    Append,
    /// To write; made if it does not exist.
    Create,
    /// To write; must not exist.
    CreateNew,
    /// To write; made if it does not exist, emptied if it does.
    Truncate,
}

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Something else, or the target does not tell.
    Other,
}

/// The files and bytes that a workload needs at its largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demand {
    /// Files and directories.
    pub files: u64,
    /// Bytes of content.
    pub bytes: u64,
}

impl Demand {
    /// The demand of files without content.
    #[must_use]
    pub fn files(files: u64) -> Demand {
        Demand { files, bytes: 0 }
    }
}

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
    /// Whether [`Target::compute`] takes time: only where time is virtual.
    pub computes: bool,
}

/// A place where a workload can run.
///
/// Operations name the directory and a name in it; the name has no slash. What an operation costs
/// is the target's business alone: callers time the calls by [`Target::now`].
pub trait Target {
    /// As the user named it.
    fn label(&self) -> &str;

    /// What to know about it.
    fn facts(&self) -> Facts;

    /// The target's time: the wall's for real ones, virtual for simulated ones.
    fn now(&self) -> Duration;

    /// Processor time used so far by who calls, the target's code included.
    fn cpu(&self) -> Duration;

    /// Makes a new, empty directory to work in, on a fresh volume where the target makes volumes.
    /// What an earlier call made is removed first; time goes on.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if there is no space or no right to write.
    fn begin(&mut self, demand: Demand) -> Result<DirId>;

    /// Removes what [`Target::begin`] made and all below it. Called on a target without, it does
    /// nothing.
    ///
    /// # Errors
    /// What could not be removed.
    fn end(&mut self) -> Result<()>;

    /// Makes a directory, and uses it.
    ///
    /// # Errors
    /// The target's.
    fn mkdir(&mut self, at: DirId, name: &[u8]) -> Result<DirId>;

    /// Uses a directory that exists.
    ///
    /// # Errors
    /// The target's.
    fn open_dir(&mut self, at: DirId, name: &[u8]) -> Result<DirId>;

    /// Ends the use of a directory.
    ///
    /// # Errors
    /// The target's.
    fn close_dir(&mut self, dir: DirId) -> Result<()>;

    /// Removes an empty directory, which must not be in use.
    ///
    /// # Errors
    /// The target's.
    fn rmdir(&mut self, at: DirId, name: &[u8]) -> Result<()>;

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

    /// Renames from one directory to another.
    ///
    /// # Errors
    /// The target's.
    fn rename_to(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()>;

    /// Gives a file another name.
    ///
    /// # Errors
    /// The target's.
    fn link(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()>;

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

    /// Shows every name but `.` and `..` with what it is, in the directory's order.
    ///
    /// # Errors
    /// The target's.
    fn list_kinds(&mut self, at: DirId, each: &mut dyn FnMut(&[u8], Kind)) -> Result<()>;

    /// Opens a file.
    ///
    /// # Errors
    /// The target's.
    fn open(&mut self, at: DirId, name: &[u8], how: Open) -> Result<FileId>;

    /// Reads up to `len` bytes, which go nowhere; says how many there were.
    ///
    /// # Errors
    /// The target's.
    fn read(&mut self, file: FileId, offset: u64, len: usize) -> Result<usize>;

    /// Writes `len` bytes of the target's own, all of them the same.
    ///
    /// # Errors
    /// The target's; fewer bytes written is one, too.
    fn write(&mut self, file: FileId, offset: u64, len: usize) -> Result<()>;

    /// Ends the use of a file.
    ///
    /// # Errors
    /// The target's.
    fn close(&mut self, file: FileId) -> Result<()>;

    /// Makes a file durable.
    ///
    /// # Errors
    /// The target's.
    fn fsync(&mut self, file: FileId) -> Result<()>;

    /// Sets permission bits.
    ///
    /// # Errors
    /// The target's.
    fn chmod(&mut self, at: DirId, name: &[u8], mode: u16) -> Result<()>;

    /// Sets both times, seconds since 1970.
    ///
    /// # Errors
    /// The target's.
    fn set_times(&mut self, at: DirId, name: &[u8], seconds: u32) -> Result<()>;

    /// Works without calls, for as long as the modelled processor of 1.6 GHz would take. Takes no
    /// time where time is real: see [`Facts::computes`].
    fn compute(&mut self, work: Duration) {
        let _ = work;
    }

    /// What was used since the target was opened.
    fn usage(&self) -> Usage {
        Usage { cpu_ns: nanos(self.cpu()), ..Usage::default() }
    }

    /// Changes a switch under its BSD or mount name until [`Target::end`]; the value before, or
    /// `None` if the target has no switches.
    ///
    /// # Errors
    /// A name or a value that it does not know.
    fn set_tunable(&mut self, name: &str, value: &str) -> Result<Option<String>> {
        let _ = (name, value);
        Ok(None)
    }

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

/// Nanoseconds of a time; 584 years at most.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The error of an operation.
fn failed(label: &str, op: &str, name: &[u8], why: impl ToString, full: bool) -> LabError {
    let what =
        if name.is_empty() { op.to_owned() } else { format!("{op} '{}'", name.escape_ascii()) };
    LabError::Failed { target: label.to_owned(), what, why: why.to_string(), full }
}
