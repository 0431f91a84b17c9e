//! The options of `ffs cp`.

use bsdffs::copy::{Attributes, CopyOptions, Existing, Sparse};
use clap::ValueEnum;

use crate::bsd;
use crate::parse::pattern::Pattern;
use crate::umask::umask;

/// How files are copied.
#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Keep everything: -R, -P and --preserve=all
    #[arg(short, long)]
    archive: bool,
    /// Copy directories and all files below them
    #[arg(short = 'R', long, visible_short_alias = 'r')]
    recursive: bool,
    /// Keep these attributes; without LIST all but links
    #[arg(short, long, value_name = "LIST", num_args = 0..=1, require_equals = true)]
    #[arg(value_delimiter = ',', default_missing_value = "attributes")]
    preserve: Vec<Keep>,
    /// Do not keep these attributes
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    no_preserve: Vec<Keep>,
    /// Copy symbolic links as links, and keep hard links: -P and --preserve=links
    #[arg(short = 'd')]
    no_dereference_links: bool,
    /// Follow all symbolic links of the source
    #[arg(short = 'L', long, overrides_with_all = ["no_dereference", "command_line"])]
    dereference: bool,
    /// Follow no symbolic link of the source [default with -R and -a]
    #[arg(short = 'P', long, overrides_with_all = ["dereference", "command_line"])]
    no_dereference: bool,
    /// Follow symbolic links that are arguments, and no others
    #[arg(short = 'H', long = "dereference-command-line", id = "command_line")]
    #[arg(overrides_with_all = ["dereference", "no_dereference"])]
    command_line: bool,
    /// Replace existing files by complete new ones instead of writing over them
    #[arg(long)]
    pub(super) atomic: bool,
    /// Leave existing files alone
    #[arg(short, long, overrides_with_all = ["force", "interactive"])]
    no_clobber: bool,
    /// Replace an existing file of the host that cannot be opened for writing
    #[arg(short, long, overrides_with = "no_clobber")]
    force: bool,
    /// Prompt before an existing file is overwritten; only y and yes overwrite it
    #[arg(short, long, overrides_with = "no_clobber")]
    pub(super) interactive: bool,
    /// Leave existing files alone: those that are not older than the source, or all
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true)]
    #[arg(value_enum, default_missing_value = "older", overrides_with_all = ["update", "newer"])]
    update: Option<Update>,
    /// The same as --update=older
    #[arg(short = 'u', id = "newer", overrides_with_all = ["update", "newer"])]
    newer: bool,
    /// Copy only the directory itself where another file system of the host is mounted
    #[arg(short = 'x', long)]
    pub(super) one_file_system: bool,
    /// Go on with an interrupted copy: skip complete files, complete the others
    #[arg(long = "continue", id = "continue")]
    pub(super) resume: bool,
    /// Read each copied file again and compare it with what was read from its source
    #[arg(long)]
    pub(super) checksum: bool,
    /// Leave out files that match PATTERN, and everything below them. As in rsync, `/` in front
    /// means the top of a source, `/` at the end directories only, `**` anything, also `/`
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse)]
    pub(super) exclude: Vec<Pattern>,
    /// Which holes the copies have
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    sparse: SparseWhen,
    /// Accepted: images share no blocks, so auto and never both copy the data
    #[arg(long, value_name = "WHEN", value_enum)]
    reflink: Option<Reflink>,
    /// The target is the new name, even if it is a directory
    #[arg(short = 'T', long)]
    pub(super) no_target_directory: bool,
    /// Change nothing: print with -v or --json what would be copied
    #[arg(long, conflicts_with_all = ["interactive", "checksum"])]
    pub(super) dry_run: bool,
    /// Print the name of each file, and the number of copied files and bytes
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Print JSON: an object for each file, and one for the total
    #[arg(long)]
    pub(super) json: bool,
    /// Owner of everything copied into an image
    #[arg(long, value_name = "UID:GID", value_parser = bsd::owner)]
    owner: Option<(u32, u32)>,
}

/// An attribute of `--preserve`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Keep {
    /// Permission bits and access lists
    Mode,
    /// User and group
    Ownership,
    /// Times of access and of modification
    Timestamps,
    /// Hard links between files of one copy
    Links,
    /// Extended attributes
    Xattr,
    /// BSD file flags
    Flags,
    /// Access lists
    Acl,
    /// Everything
    All,
    #[value(hide = true)]
    Attributes,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Update {
    /// Those that are not older than the source
    Older,
    /// All existing files are overwritten
    All,
    /// All existing files are left alone
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SparseWhen {
    /// Those of the source
    Auto,
    /// Aligned runs of 4096 zeros become holes, too
    Always,
    /// None
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Reflink {
    /// Copy the data
    Auto,
    /// Copy the data
    #[value(alias = "no")]
    Never,
}

/// Which existing files stay.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stay {
    None,
    NotOlder,
    All,
}

impl Flags {
    /// How to write an option whose value is the first of `paths`, after a space: only `=` gives
    /// --update and --preserve a value.
    pub(super) fn detached_value(&self, first: &str) -> Option<String> {
        let is_list = || first.split(',').all(|word| Keep::from_str(word, false).is_ok());
        let bare_keep = self.preserve == [Keep::Attributes];
        if self.update == Some(Update::Older) && Update::from_str(first, false).is_ok() {
            return Some(format!("--update={first}"));
        }
        (bare_keep && is_list()).then(|| format!("--preserve={first}"))
    }

    /// The same with `-a`.
    pub(crate) fn archive(self) -> Flags {
        Flags { archive: true, ..self }
    }

    pub(super) fn recursive(&self) -> bool {
        self.archive || self.recursive
    }

    /// Whether symbolic links among the arguments are followed.
    pub(super) fn follows_top(&self) -> bool {
        if self.dereference || self.command_line {
            return true;
        }
        !(self.no_dereference || self.no_dereference_links || self.recursive())
    }

    /// Whether symbolic links below the arguments are followed.
    pub(super) fn follows_all(&self) -> bool {
        self.dereference && self.recursive()
    }

    pub(super) fn stay(&self) -> Stay {
        match self.update {
            _ if self.no_clobber => Stay::All,
            Some(Update::None) => Stay::All,
            Some(Update::Older) => Stay::NotOlder,
            None if self.newer => Stay::NotOlder,
            None | Some(Update::All) => Stay::None,
        }
    }

    pub(super) fn sparse(&self) -> Sparse {
        match self.sparse {
            SparseWhen::Auto => Sparse::Auto,
            SparseWhen::Always => Sparse::Always,
            SparseWhen::Never => Sparse::Never,
        }
    }

    /// New files get the mode 0666 or 0777 without the umask, and not that of the source.
    pub(super) fn default_modes(&self) -> bool {
        self.no_preserve.iter().any(|keep| matches!(keep, Keep::Mode | Keep::All))
    }

    /// The attributes to keep, and whether hard links are kept.
    fn kept(&self) -> (Attributes, bool) {
        let (mut kept, mut links) = (Attributes::NONE, self.no_dereference_links);
        let all = self.archive.then_some(Keep::All);
        for keep in all.iter().chain(&self.preserve) {
            set(*keep, true, &mut kept, &mut links);
        }
        for keep in &self.no_preserve {
            set(*keep, false, &mut kept, &mut links);
        }
        (kept, links)
    }

    pub(super) fn options(&self, sources: usize) -> CopyOptions {
        let existing = match (self.no_clobber, self.atomic) {
            (true, _) => Existing::Keep,
            (_, true) => Existing::Replace,
            _ => Existing::Overwrite,
        };
        let (attributes, hard_links) = self.kept();
        CopyOptions {
            preserve: attributes != Attributes::NONE,
            attributes,
            hard_links,
            existing,
            force: self.force,
            owner: self.owner,
            umask: umask(),
            protect_created: sources > 1,
            resume: self.resume,
            ..CopyOptions::default()
        }
    }
}

fn set(keep: Keep, on: bool, kept: &mut Attributes, links: &mut bool) {
    match keep {
        Keep::Mode => (kept.mode, kept.acls) = (on, on),
        Keep::Ownership => kept.ownership = on,
        Keep::Timestamps => kept.timestamps = on,
        Keep::Links => *links = on,
        Keep::Xattr => kept.xattrs = on,
        Keep::Flags => kept.flags = on,
        Keep::Acl => kept.acls = on,
        Keep::Attributes => *kept = if on { Attributes::ALL } else { Attributes::NONE },
        Keep::All => {
            *kept = if on { Attributes::ALL } else { Attributes::NONE };
            *links = on;
        }
    }
}
