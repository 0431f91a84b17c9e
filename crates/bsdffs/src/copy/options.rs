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

/// Attributes of the source that a copy gives to the target. The default is all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits. The set-id bits are kept only together with the owner.
    pub mode: bool,
    /// Owner and group.
    pub ownership: bool,
    /// Times of access and of modification, and in an image of creation.
    pub timestamps: bool,
    /// BSD file flags.
    pub flags: bool,
    /// ACLs. Without [`Attributes::mode`] a file whose source has none keeps its mode and its ACLs.
    pub acls: bool,
    /// Extended attributes.
    pub xattrs: bool,
}

impl Attributes {
    /// All of them.
    pub const ALL: Attributes = Attributes::each(true);
    /// None of them.
    pub const NONE: Attributes = Attributes::each(false);

    const fn each(on: bool) -> Attributes {
        Attributes { mode: on, ownership: on, timestamps: on, flags: on, acls: on, xattrs: on }
    }

    /// Whether a source has to read extended attributes: on the host ACLs and file flags are among
    /// them.
    #[must_use]
    pub fn need_xattrs(self) -> bool {
        self.xattrs || self.acls || self.flags || self.mode
    }
}

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes::ALL
    }
}

/// How a copy creates files. The default is that of `cp` without options.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOptions {
    /// Give each file the attributes of its source, as with `cp -p`.
    pub preserve: bool,
    /// With `preserve`, the attributes that are meant.
    pub attributes: Attributes,
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
    /// Go on with files that an earlier copy left unfinished: compare the content that a file has,
    /// and write from the first difference on. A copy that ends early leaves its last file.
    pub resume: bool,
    /// Give a file in an image its time of modification only after its content is durable, so that
    /// a file with the size and the time of its source is complete, also after a power failure.
    pub safe_times: bool,
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

    /// The attributes that files get from their sources.
    #[must_use]
    pub fn kept(&self) -> Attributes {
        if self.preserve { self.attributes } else { Attributes::NONE }
    }

    /// Whether to replace an existing file with `nlink` names. Overwriting it would change the
    /// content under its other names, which may be targets of other sources.
    pub(crate) fn replaces(&self, nlink: u64) -> bool {
        self.existing == Existing::Replace || self.hard_links && nlink > 1
    }
}
