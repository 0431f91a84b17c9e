//! The operations of a crash workload.

use std::fmt;

/// A path below the root, the root itself if empty. Components have no slashes and no control
/// characters and are neither `.` nor `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<String>);

impl Path {
    /// Parses a path; `None` if a workload may not have it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Path> {
        let text = text.strip_prefix('/').unwrap_or(text);
        if text.is_empty() {
            return Some(Path(Vec::new()));
        }
        let fits = |part: &str| {
            let shown = part.chars().all(|c| !c.is_control() && !c.is_whitespace());
            (1..=255).contains(&part.len()) && part != "." && part != ".." && shown
        };
        let parts: Vec<String> = text.split('/').map(str::to_owned).collect();
        parts.iter().all(|part| fits(part)).then_some(Path(parts))
    }

    /// The components.
    #[must_use]
    pub fn components(&self) -> &[String] {
        &self.0
    }

    /// The directory and the last component; `None` for the root.
    #[must_use]
    pub fn split(&self) -> Option<(&[String], &str)> {
        self.0.split_last().map(|(last, rest)| (rest, last.as_str()))
    }

    /// The directory of the path; the root for the root.
    #[must_use]
    pub fn parent(&self) -> Path {
        Path(self.split().map(|(rest, _)| rest.to_vec()).unwrap_or_default())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.join("/"))
    }
}

/// What an operation does to the space of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Fills its holes; the file grows to the end of the range.
    Allocate,
    /// Frees its blocks; the size stays.
    Punch,
    /// Zeroes it; the file grows to the end of the range.
    Zero,
}

/// An access list of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// The list that grants access.
    Access,
    /// The list that new files of a directory inherit.
    Default,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Creates an empty file.
    Create(Path),
    /// Creates a named pipe.
    Mkfifo(Path),
    /// Creates a directory.
    Mkdir(Path),
    /// Creates a symbolic link.
    Symlink(Path, String),
    /// Adds a name of a file: old, new.
    Link(Path, Path),
    /// Removes a name.
    Unlink(Path),
    /// Removes an empty directory.
    Rmdir(Path),
    /// Renames: old, new (replaced if it exists).
    Rename(Path, Path),
    /// Renames and leaves a whiteout at the old name: old, new (replaced if it exists).
    Whiteout(Path, Path),
    /// Creates a file without a name, writes so many bytes, and gives it this name.
    Tmpfile(Path, u64),
    /// Exchanges two names.
    Exchange(Path, Path),
    /// Writes tagged bytes.
    Write {
        /// The file.
        at: Path,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// `O_SYNC`.
        sync: bool,
    },
    /// Appends tagged bytes.
    Append(Path, u64),
    /// Sets the size.
    Truncate(Path, u64),
    /// Changes the space of a range: offset, length.
    Space(Space, Path, u64, u64),
    /// Sets the permissions.
    Chmod(Path, u16),
    /// Sets owner and group.
    Chown(Path, u32, u32),
    /// Sets the modification time, seconds.
    Utimes(Path, i64),
    /// Sets an extended attribute to a value of so many bytes. A name that begins with `system:` is
    /// in the system name space.
    SetXattr(Path, String, u32),
    /// Sets an access list, which grants a user these permissions (0 to 7), everything to the
    /// owner, and nothing to others.
    SetAcl(Path, List, u32, u8),
    /// Removes an access list.
    RemoveAcl(Path, List),
    /// Appends until at most so many bytes are free for the current user.
    Fill(Path, u64),
    /// Makes the user of this number the current user. User 0 is the super-user, who may use the
    /// reserve.
    User(u32),
    /// Remounts the volume.
    Remount {
        /// Read-only, or writable.
        read_only: bool,
    },
    /// Removes an extended attribute.
    RemoveXattr(Path, String),
    /// Makes a file or directory durable.
    Fsync(Path),
    /// Makes the data of a file durable.
    Fdatasync(Path),
    /// Makes everything durable.
    Sync,
    /// Makes a later transfer of the device fail: the `nth` write or flush from now on.
    Fault {
        /// A flush; otherwise a write.
        flush: bool,
        /// Counted from 1.
        nth: u32,
        /// A part of the write reaches the device.
        torn: bool,
    },
    /// Lets virtual seconds pass; the syncer runs once in each.
    Wait(u32),
    /// Opens a file, which then survives the removal of its names.
    Open(Path),
    /// Closes all open files.
    Close,
    /// Makes a snapshot of the volume.
    Snapshot(Path),
    /// Reads a snapshot, and fails the workload if it does not show what it showed at first.
    Compare(Path),
}

impl Op {
    /// Whether the operation only makes something durable.
    #[must_use]
    pub fn is_persistence(&self) -> bool {
        matches!(self, Op::Fsync(_) | Op::Fdatasync(_) | Op::Sync)
    }

    /// The paths of the operation, in its order.
    #[must_use]
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Op::Create(p)
            | Op::Mkfifo(p)
            | Op::Mkdir(p)
            | Op::Symlink(p, _)
            | Op::Unlink(p)
            | Op::Rmdir(p)
            | Op::Write { at: p, .. }
            | Op::Append(p, _)
            | Op::Tmpfile(p, _)
            | Op::Truncate(p, _)
            | Op::Space(_, p, _, _)
            | Op::Chmod(p, _)
            | Op::Chown(p, _, _)
            | Op::Utimes(p, _)
            | Op::SetXattr(p, _, _)
            | Op::SetAcl(p, _, _, _)
            | Op::RemoveAcl(p, _)
            | Op::Fill(p, _)
            | Op::RemoveXattr(p, _)
            | Op::Fsync(p)
            | Op::Fdatasync(p)
            | Op::Snapshot(p)
            | Op::Compare(p)
            | Op::Open(p) => vec![p],
            Op::Link(a, b) | Op::Rename(a, b) | Op::Exchange(a, b) | Op::Whiteout(a, b) => {
                vec![a, b]
            }
            Op::Sync
            | Op::Wait(_)
            | Op::Close
            | Op::User(_)
            | Op::Remount { .. }
            | Op::Fault { .. } => Vec::new(),
        }
    }
}

/// A workload: the state of the volume before, and the operations that are recorded.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Workload {
    /// Whether the volume has the standard tree of the laboratory (`docs/lab/crash.md`).
    pub standard_tree: bool,
    /// Whether the device has no volatile cache: a write is durable when it ends.
    pub write_through: bool,
    /// Whether the file system has very little memory.
    pub tight_memory: bool,
    /// Whether a removal truncates the empty end of a directory (`dir_truncate=create+delete`).
    pub truncate_on_removal: bool,
    /// Whether names and attributes are durable when a call returns (`-o stable`).
    pub stable: bool,
    /// Whether an fsync makes only its own file durable (`-o fsync=file`).
    pub fsync_file: bool,
    /// Whether names do not wait for contents (`-o noreplace_order`).
    pub no_replace_order: bool,
    /// Whether the superblock lacks the flag of soft updates, with which the volume is mounted.
    pub unflagged: bool,
    /// Whether whole blocks are written past the cache (`-o write_in_place=always`).
    pub write_in_place: bool,
    /// Bytes of the journal that are used, at least a block; by default all.
    pub journal_bytes: Option<u64>,
    /// Operations before the recording; durable when it begins.
    pub setup: Vec<Op>,
    /// The recorded operations.
    pub ops: Vec<Op>,
}
