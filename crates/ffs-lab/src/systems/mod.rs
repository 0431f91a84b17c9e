//! The file systems on which a workload runs.
//!
//! A workload uses the trait [`Target`]. There are three kinds of targets: the library in process
//! ([`core`]), the library on the simulated computer ([`sim`]), and any mounted directory through
//! system calls ([`dir`]). A workload works below its own directory, which [`Target::begin`] makes
//! and [`Target::end`] removes.

mod core;
mod core_spec;
mod dir;
mod host;
#[cfg(test)]
pub(crate) mod model;
mod mounted;
pub(crate) mod sim;
mod sim_journal;
pub(crate) mod sim_spec;
mod slots;
mod spec;
mod usage;
mod volume;

use std::time::Duration;

pub use core_spec::{Context, CoreSpec};
pub use spec::TargetSpec;
pub(crate) use spec::own_words;
pub use usage::Usage;

use crate::error::{LabError, Result};

/// A target that several threads use at once.
pub(crate) enum Shared {
    /// The library in process.
    Library(Box<core::CoreTarget>),
    /// A directory.
    System(Box<dir::DirTarget>),
}

impl Shared {
    /// Removes what was made.
    pub(crate) fn end(self) -> Result<()> {
        match self {
            Shared::Library(mut target) => target.end(),
            Shared::System(mut target) => target.end(),
        }
    }
}

/// A directory of a target that is in use; valid until [`Target::close_dir`] or [`Target::end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirId(pub(crate) usize);

/// An open file of a target; valid until [`Target::close`] or [`Target::end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub(crate) usize);

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// An existing file, for writing at its end.
    Append,
    /// For reading and writing; created if it does not exist.
    Create,
    /// For reading and writing; must not exist before.
    CreateNew,
    /// For reading and writing; created if it does not exist, truncated if it does.
    Truncate,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Another kind, or an unknown one.
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

/// The attributes that workloads use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Inode number.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
}

/// The result of dropping cached names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forgotten {
    /// Names were dropped, as described.
    Done(&'static str),
    /// Names were not dropped, for this reason: the next phase would not be cold.
    Impossible(String),
}

/// Facts about a target that a reader of results needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The name of the file system: `ffs`, `ext4`.
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
    /// The text by which the user named the target.
    fn label(&self) -> &str;

    /// Facts for the reader of results.
    fn facts(&self) -> Facts;

    /// The target's time: real time, or virtual time of a simulated target.
    fn now(&self) -> Duration;

    /// Processor time that the caller has used so far, including the target's code.
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
    /// [`LabError::Failed`] for a name that could not be removed.
    fn end(&mut self) -> Result<()>;

    /// Makes and opens a directory.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn mkdir(&mut self, at: DirId, name: &[u8]) -> Result<DirId>;

    /// Opens an existing directory.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn open_dir(&mut self, at: DirId, name: &[u8]) -> Result<DirId>;

    /// Closes a directory.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn close_dir(&mut self, dir: DirId) -> Result<()>;

    /// Removes an empty directory, which must not be in use.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn rmdir(&mut self, at: DirId, name: &[u8]) -> Result<()>;

    /// Makes an empty file that must not exist, and closes it.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn create(&mut self, at: DirId, name: &[u8]) -> Result<()>;

    /// Attributes of a name; `None` if there is no such name.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn stat(&mut self, at: DirId, name: &[u8]) -> Result<Option<Stat>>;

    /// Renames within a directory.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn rename(&mut self, at: DirId, from: &[u8], to: &[u8]) -> Result<()>;

    /// Renames from one directory to another.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn rename_to(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()>;

    /// Adds a name to a file.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn link(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()>;

    /// Removes a file's name.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn unlink(&mut self, at: DirId, name: &[u8]) -> Result<()>;

    /// Calls `each` with every name but `.` and `..`, in the directory's order.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn list(&mut self, at: DirId, each: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// Calls `each` with every name but `.` and `..` and its kind, in the directory's order.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn list_kinds(&mut self, at: DirId, each: &mut dyn FnMut(&[u8], Kind)) -> Result<()>;

    /// Opens a file.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn open(&mut self, at: DirId, name: &[u8], how: Open) -> Result<FileId>;

    /// Reads up to `len` bytes and discards them. Returns their number.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn read(&mut self, file: FileId, offset: u64, len: usize) -> Result<usize>;

    /// Writes `len` equal bytes.
    ///
    /// # Errors
    /// The target's; a short write is an error, too.
    fn write(&mut self, file: FileId, offset: u64, len: usize) -> Result<()>;

    /// Closes a file.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn close(&mut self, file: FileId) -> Result<()>;

    /// Makes a file durable.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn fsync(&mut self, file: FileId) -> Result<()>;

    /// Sets permission bits.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn chmod(&mut self, at: DirId, name: &[u8], mode: u16) -> Result<()>;

    /// Sets both times, seconds since 1970.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn set_times(&mut self, at: DirId, name: &[u8], seconds: u32) -> Result<()>;

    /// Sets the size of an open file.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn truncate(&mut self, file: FileId, size: u64) -> Result<()>;

    /// Makes a symbolic link with this text.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn symlink(&mut self, at: DirId, name: &[u8], text: &[u8]) -> Result<()>;

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn readlink(&mut self, at: DirId, name: &[u8]) -> Result<Vec<u8>>;

    /// Works without calls, for as long as the modelled processor of 1.6 GHz would take. Takes no
    /// time where time is real: see [`Facts::computes`].
    fn compute(&mut self, work: Duration) {
        let _ = work;
    }

    /// The resources used since the target was opened.
    fn usage(&self) -> Usage {
        Usage { cpu_ns: nanos(self.cpu()), ..Usage::default() }
    }

    /// Changes an option under its BSD or mount name until [`Target::end`]; the value before, or
    /// `None` if the target has no options.
    ///
    /// # Errors
    /// An unknown name or an invalid value.
    fn set_tunable(&mut self, name: &str, value: &str) -> Result<Option<String>> {
        let _ = (name, value);
        Ok(None)
    }

    /// Writes back everything.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the reason of the target.
    fn sync(&mut self) -> Result<()>;

    /// Drops cached names, as a remount does, as far as possible.
    ///
    /// # Errors
    /// The target's, if writing back dirty data fails.
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
