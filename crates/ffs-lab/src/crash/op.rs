//! The operations a crash workload is made of.

use std::fmt;

/// A path below the root: components without slashes, `.`, `..` or control characters; empty: the root
/// itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<String>);

impl Path {
    /// The path that `text` spells; `None` if it is no path a workload may have.
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

    /// The directory it is in; the root's is the root.
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

/// What becomes of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Its holes are filled; the file grows to its end.
    Allocate,
    /// Its blocks are freed; the size stays.
    Punch,
    /// It is zeroed; the file grows to its end.
    Zero,
}

/// Which of a file's access lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// What it grants.
    Access,
    /// What new files of a directory get.
    Default,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new empty file.
    Create(Path),
    /// A new named pipe.
    Mkfifo(Path),
    /// A new directory.
    Mkdir(Path),
    /// A new symbolic link.
    Symlink(Path, String),
    /// Another name of a file: old, new.
    Link(Path, Path),
    /// A name removed.
    Unlink(Path),
    /// An empty directory removed.
    Rmdir(Path),
    /// A name moved: old, new (replaced if it exists).
    Rename(Path, Path),
    /// A name moved, a whiteout left in its place: old, new (replaced if it exists).
    Whiteout(Path, Path),
    /// A file made without a name, written so many bytes, and given this name.
    Tmpfile(Path, u64),
    /// Two names swapped.
    Exchange(Path, Path),
    /// Tagged bytes written: offset, length; durable on return if so asked.
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
    /// Tagged bytes written at the end.
    Append(Path, u64),
    /// The size set.
    Truncate(Path, u64),
    /// The space of a range: offset, length.
    Space(Space, Path, u64, u64),
    /// Permissions set.
    Chmod(Path, u16),
    /// Owner and group set.
    Chown(Path, u32, u32),
    /// Modification time set, seconds.
    Utimes(Path, i64),
    /// An extended attribute set to that many bytes. `system:` before its name: of the system's name space.
    SetXattr(Path, String, u32),
    /// An access list set, which gives a user these permissions (0 to 7), the owner all, and nobody else any.
    SetAcl(Path, List, u32, u8),
    /// An access list removed.
    RemoveAcl(Path, List),
    /// Bytes appended until no more than so many are left to whoever does it.
    Fill(Path, u64),
    /// What follows is done by the user of this number; 0: the super-user, who may use the reserve.
    User(u32),
    /// The volume is made read-only, or writable again.
    Remount {
        /// Which.
        read_only: bool,
    },
    /// An extended attribute removed.
    RemoveXattr(Path, String),
    /// A file or directory made durable.
    Fsync(Path),
    /// A file's data made durable.
    Fdatasync(Path),
    /// Everything made durable.
    Sync,
    /// One of the device's next transfers fails: the `nth` write or flush from now on.
    Fault {
        /// A flush; otherwise a write.
        flush: bool,
        /// Counted from 1.
        nth: u32,
        /// A part of the write arrives.
        torn: bool,
    },
    /// Seconds go by; the syncer runs once in each.
    Wait(u32),
    /// A file taken into use: it outlives its names.
    Open(Path),
    /// Everything in use given up.
    Close,
}

impl Op {
    /// Whether the operation promises durability and changes nothing.
    #[must_use]
    pub fn is_persistence(&self) -> bool {
        matches!(self, Op::Fsync(_) | Op::Fdatasync(_) | Op::Sync)
    }

    /// The paths it is about, in its order.
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

/// A workload: what is there before, and what is done while the device is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Workload {
    /// Whether the laboratory's standard tree is there before (`docs/lab/crash.md`).
    pub standard_tree: bool,
    /// Whether a write is durable when the device has done it, instead of after the next flush.
    pub write_through: bool,
    /// Whether the file system gets hardly any memory.
    pub tight_memory: bool,
    /// Whether a removal, too, cuts off a directory's empty end.
    pub cut_on_removal: bool,
    /// Whether names and attributes are durable when a call returns (`-o stable`).
    pub stable: bool,
    /// Whether an fsync makes nothing durable but its file (`-o fsync=file`).
    pub fsync_file: bool,
    /// Whether names do not wait for contents (`-o noreplace_order`).
    pub no_replace_order: bool,
    /// Whether the superblock does not ask for the soft updates that the volume is mounted with.
    pub unflagged: bool,
    /// Done before the recording; durable when it begins.
    pub setup: Vec<Op>,
    /// Recorded.
    pub ops: Vec<Op>,
}
