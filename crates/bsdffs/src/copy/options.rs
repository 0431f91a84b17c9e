//! Options of a copy.

/// What a copy does with a target that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// It overwrites the content; inode, names, mode and owner stay, as with `cp`.
    #[default]
    Overwrite,
    /// It creates a complete new file and renames that to the target.
    Replace,
    /// It leaves the target unchanged.
    Keep,
}

/// How a copy creates files. The default is that of `cp` without options.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOptions {
    /// Give each file the attributes of its source, as with `cp -p`.
    pub preserve: bool,
    /// Recreate hard links within the tree, as with `cp -a`.
    pub hard_links: bool,
    /// What to do with targets that exist.
    pub existing: Existing,
    /// Replace an existing file of the host that cannot be opened for writing.
    pub force: bool,
    /// Owner and group of new files in an image, and with `preserve` of all files there.
    pub owner: Option<(u32, u32)>,
    /// Permission bits to remove from the mode of new files; unused with `preserve`.
    pub umask: u16,
    /// Refuse to overwrite a file that this copy created: for copies with several sources.
    pub protect_created: bool,
    /// Set the flags of files in an image after all files are there, so that a file which comes
    /// later can replace one with `schg`.
    pub late_flags: bool,
}

impl CopyOptions {
    /// Preserves everything; a file that comes later replaces an earlier file of the same name.
    #[must_use]
    pub fn archive() -> CopyOptions {
        CopyOptions {
            preserve: true,
            hard_links: true,
            existing: Existing::Replace,
            ..CopyOptions::default()
        }
    }

    /// Whether to replace an existing file with `nlink` names. Overwriting it would change the
    /// content under its other names, which may be targets of other sources.
    pub(crate) fn replaces(&self, nlink: u64) -> bool {
        self.existing == Existing::Replace || self.hard_links && nlink > 1
    }
}
