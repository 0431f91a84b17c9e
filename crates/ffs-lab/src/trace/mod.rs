//! Traces: the file system calls of a program, to be replayed on any target.
//!
//! | module | content |
//! | --- | --- |
//! | `path` | paths below the root of a trace |
//! | `text` | our own format: a JSON object for each line |
//! | `line` | the members of such an object |
//! | [`mod@strace`], [`fio`] | the output of strace; job files of fio |
//! | [`record`] | from the requests of a FUSE mount to calls on paths |
//! | [`resolve`] | from calls on paths to steps on directories and files that exist |
//! | [`replay`] | steps on a target |
//! | [`tree`] | the number and a checksum of everything in a tree |
//!
//! # Invariants
//! 1. A trace is hostile input. Every line, path, number and total is bounded, and an error names
//!    the line.
//! 2. A path has no `.` and no `..`: no call leaves the directory in which a trace is replayed.
//! 3. What a program needs and did not make is in the trace or follows from it, and is made before
//!    the measured calls begin.
//!
//! Reference: `docs/lab/traces.md`.

pub mod fio;
mod line;
pub mod path;
pub mod record;
pub mod replay;
pub mod resolve;
pub mod strace;
pub mod text;
pub mod tree;

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{LabError, Result};
use path::TracePath;
use tree::TreeSum;

/// The most calls and given files of a trace together.
pub const MOST_LINES: usize = 20_000_000;
/// The largest trace file, bytes.
const MOST_BYTES: u64 = 8 << 30;
/// The largest file of a trace, bytes.
pub const MOST_SIZE: u64 = 1 << 40;
/// The most bytes of one read or write.
pub const MOST_IO: u64 = 1 << 31;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// Created if it does not exist.
    Create,
    /// Must not exist before.
    CreateNew,
    /// Created if it does not exist, truncated if it does.
    Truncate,
}

/// The words of [`How`] in traces.
pub(crate) const HOW: [(&str, How); 5] = [
    ("read", How::Read),
    ("write", How::Write),
    ("create", How::Create),
    ("create-new", How::CreateNew),
    ("truncate", How::Truncate),
];

/// A file that is open: numbers of a trace's own.
pub type FileNumber = u64;

/// A call of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Attributes of a name, or that it does not exist.
    Stat(TracePath),
    /// Opens a file under a number.
    Open {
        /// The path.
        path: TracePath,
        /// The number until [`Op::Close`].
        file: FileNumber,
        /// How.
        how: How,
    },
    /// Closes a file.
    Close(FileNumber),
    /// Reads.
    Read {
        /// The file.
        file: FileNumber,
        /// The offset, bytes.
        offset: u64,
        /// The bytes requested.
        len: u64,
    },
    /// Writes.
    Write {
        /// The file.
        file: FileNumber,
        /// The offset, bytes.
        offset: u64,
        /// The bytes written.
        len: u64,
    },
    /// Makes a file durable.
    Fsync(FileNumber),
    /// Changes the size of an open file.
    Ftruncate {
        /// The file.
        file: FileNumber,
        /// The size afterwards, bytes.
        size: u64,
    },
    /// Changes the size of a file.
    Truncate {
        /// The path.
        path: TracePath,
        /// The size afterwards, bytes.
        size: u64,
    },
    /// Makes a directory.
    Mkdir(TracePath),
    /// Removes a directory.
    Rmdir(TracePath),
    /// Removes a name.
    Unlink(TracePath),
    /// Renames.
    Rename {
        /// The old path.
        path: TracePath,
        /// The new path.
        to: TracePath,
    },
    /// Gives a file another name.
    Link {
        /// A path of the file.
        path: TracePath,
        /// The new path.
        to: TracePath,
    },
    /// Makes a symbolic link.
    Symlink {
        /// The path of the link.
        path: TracePath,
        /// Its text.
        text: Vec<u8>,
    },
    /// Reads a symbolic link.
    Readlink(TracePath),
    /// Lists a directory.
    List(TracePath),
    /// Sets permission bits.
    Chmod {
        /// The path.
        path: TracePath,
        /// The bits.
        mode: u16,
    },
    /// Sets both times.
    Times {
        /// The path.
        path: TracePath,
        /// Seconds since 1970.
        seconds: u32,
    },
    /// Writes back everything.
    Sync,
    /// A call that no replay makes, by its name.
    Other(String),
}

/// A call with its time and process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The line of the file it is from, from 1; 0 if it is from none.
    pub line: usize,
    /// The time since the trace began, nanoseconds.
    pub at: u64,
    /// How long it took, nanoseconds; 0 if that is not known.
    pub took: u64,
    /// The process or thread.
    pub pid: u32,
    /// The call.
    pub op: Op,
    /// The name of the error if it failed: `ENOENT`.
    pub error: Option<String>,
}

/// Something that existed before the first call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Have {
    /// A directory.
    Dir(TracePath),
    /// A file with its size, bytes.
    File(TracePath, u64),
    /// A symbolic link with its text.
    Link(TracePath, Vec<u8>),
}

/// A trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// Where it is from: the command, or the file.
    pub source: String,
    /// The file, for messages; empty if it is from none.
    pub name: String,
    /// What existed before, each directory before its content.
    pub have: Vec<Have>,
    /// Whether `have` is complete. Otherwise what is missing follows from the calls.
    pub is_complete: bool,
    /// The calls in the order of their completion.
    pub calls: Vec<Call>,
    /// The tree after the last call.
    pub tree: Option<TreeSum>,
    /// Lines that were left out, by the reason.
    pub left_out: BTreeMap<String, u64>,
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Our own: [`text`].
    Own,
    /// `strace -f -ttt`.
    Strace,
    /// A job file of fio.
    Fio,
}

impl Format {
    /// The words for a command line.
    pub const WORDS: [(&'static str, Format); 3] =
        [("ffs", Format::Own), ("strace", Format::Strace), ("fio", Format::Fio)];

    /// The format of a file by its beginning.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Format {
        let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
        let comment = |line: &&[u8]| line.is_empty() || matches!(line[0], b';' | b'#');
        match lines.clone().find(|line| !comment(line)).and_then(|line| line.first()) {
            Some(b'{') => Format::Own,
            Some(b'[') if !lines.clone().any(|line| line.starts_with(b"[pid ")) => Format::Fio,
            _ => Format::Strace,
        }
    }
}

/// How a foreign trace is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format; `None`: by the beginning of the file.
    pub format: Option<Format>,
    /// strace: only calls below this directory count, and it becomes the root of the trace.
    pub below: Option<String>,
    /// strace: the directory in which the program was started.
    pub cwd: Option<String>,
    /// fio: the seed of random offsets.
    pub seed: u64,
}

/// Reads a trace.
///
/// # Errors
/// [`LabError::Unusable`] with the file and the line.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Trace> {
    let name = path.display().to_string();
    let refuse = |why: &dyn std::fmt::Display| LabError::unusable(&name, why);
    let size = std::fs::metadata(path).map_err(|error| refuse(&error))?.len();
    if size > MOST_BYTES {
        return Err(refuse(&format_args!("has {size} bytes; expected at most {MOST_BYTES}")));
    }
    let bytes = std::fs::read(path).map_err(|error| refuse(&error))?;
    let trace = parse(&bytes, options).map_err(|why| refuse(&why))?;
    let source = if trace.source.is_empty() { name.clone() } else { trace.source };
    Ok(Trace { source, name, ..trace })
}

/// Parses the content of a trace file.
///
/// # Errors
/// The line and the mistake.
pub fn parse(bytes: &[u8], options: &ReadOptions) -> std::result::Result<Trace, String> {
    match options.format.unwrap_or_else(|| Format::of(bytes)) {
        Format::Own => text::parse(bytes),
        Format::Strace => strace::parse(bytes, options),
        Format::Fio => fio::parse(bytes, options.seed),
    }
}

impl Trace {
    /// Counts a line that is left out.
    pub(crate) fn leave_out(&mut self, reason: impl Into<String>) {
        *self.left_out.entry(reason.into()).or_default() += 1;
    }
}
