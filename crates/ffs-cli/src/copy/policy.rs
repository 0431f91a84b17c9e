//! What a copy keeps, and what it does about files that have the name already.

use crate::output::human;

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Its content is written over: inode, names, mode and owner stay, as with cp(1).
    Overwrite,
    /// A complete new file takes its name.
    Replace,
    /// It is left alone.
    Keep,
}

/// How a sink makes files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Files get the attributes of their sources, as with `cp -p`.
    pub preserve: bool,
    /// Names of one file stay names of one file, as with `cp -a`.
    pub links: bool,
    /// What becomes of a file that has the name already.
    pub existing: Existing,
    /// One that cannot be written is replaced.
    pub force: bool,
    /// Owner of new files in an image, and with `preserve` of all.
    pub owner: Option<(u32, u32)>,
    /// Permission bits that new files do not get, without `preserve`.
    pub umask: u16,
    /// What this copy made is not written over by it: it has several sources.
    pub guard: bool,
}

impl Policy {
    /// Everything is kept, and what comes later under a name replaces what came first.
    pub(crate) fn exact() -> Policy {
        Policy {
            preserve: true,
            links: true,
            existing: Existing::Replace,
            force: false,
            owner: None,
            umask: 0,
            guard: false,
        }
    }

    /// Whether a file with `nlink` names is replaced. To write over it would change what its other
    /// names show, which another source may be copied to.
    pub(crate) fn replaces(&self, nlink: u64) -> bool {
        self.existing == Existing::Replace || self.links && nlink > 1
    }
}

/// Why a file is not written over.
pub(crate) const SAME_FILE: &str = "the source and the target are the same file";
/// Why a file is not written over.
pub(crate) const JUST_MADE: &str = "was made by this very copy; not written over";
/// Why a symbolic link is not followed.
pub(crate) const LINK_JUST_MADE: &str =
    "is a symbolic link that this very copy made; not written through it";
/// Why a symbolic link is not followed.
pub(crate) const DANGLING: &str =
    "is a symbolic link to nothing; remove it first, or replace it with --atomic";

/// What is left of a file that was to be written over, when `written` of `size` bytes are.
pub(crate) fn left_over(written: u64, size: u64) -> String {
    // The size of what comes from a pipe is not known.
    let of = if size < written { String::new() } else { format!(" of {}", human(size)) };
    let written = human(written);
    format!(
        "the file has the first {written}{of} now, and its old content is lost \
         (--atomic keeps that until the new is complete)"
    )
}
