//! What was copied and what was not.

use std::collections::BTreeMap;

use ffs_admin::counted;
use serde::Serialize;

use super::{Kind, Loss};
use crate::fail::show;
use crate::output;

/// Counts of one copy.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Tally {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Pipes, sockets, devices.
    pub special: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// Files that could not be copied.
    pub failed: u64,
    #[serde(skip)]
    lost: BTreeMap<Loss, Lost>,
}

/// What of one kind could not be kept.
#[derive(Debug, Default, Clone)]
struct Lost {
    /// How much.
    count: u64,
    /// How much of it was said to be of some file.
    named: u64,
    /// Of how many files.
    files: u64,
    /// The first of them, and the last.
    first: Vec<u8>,
    last: Vec<u8>,
}

/// What is lost, what became of it, and why.
fn words(loss: Loss) -> (&'static str, &'static str, &'static str) {
    let no_lists = "the other side takes none (ffs tunefs -a enable or ffs build --acls), \
                    or not this one: it is too long, or names somebody without a number";
    match loss {
        Loss::Owner => ("owner", "not kept", "only root may give files away; use sudo"),
        Loss::Device => ("device file", "left out", "only root may make them; use sudo"),
        Loss::Xattr => (
            "extended attribute",
            "not kept",
            "the other side has no place for them (as UFS1), or only for root's",
        ),
        Loss::Security => (
            "security attribute",
            "not kept",
            "the other side has no place for them (as UFS1), or only for root's: capabilities and \
             labels have to be given anew",
        ),
        Loss::System => ("system attribute", "not kept", "UFS has no place for it"),
        Loss::AccessList => ("access list", "turned into a narrower mode", no_lists),
        Loss::DefaultList => ("default access list", "not kept", no_lists),
        Loss::Nfs4List => (
            "NFSv4 access list",
            "turned into a mode for the owner alone",
            "only a volume with nfsv4acls keeps them, and only from such a volume",
        ),
        Loss::IdleList => (
            "access list",
            "left out",
            "the volume it was on has access lists switched off (ffs tunefs -p shows that)",
        ),
        Loss::Flags => ("flag set", "not kept", "the other side has no place for them"),
        Loss::Socket => ("socket", "left out", "the other side cannot make them"),
    }
}

impl Tally {
    /// Counts a file of this kind.
    pub(crate) fn count(&mut self, kind: &Kind) {
        match kind {
            Kind::Directory => self.directories += 1,
            Kind::File(_) => self.files += 1,
            Kind::Symlink(_) => self.symlinks += 1,
            Kind::Link(_) => self.hard_links += 1,
            Kind::Fifo | Kind::Socket | Kind::Char(_) | Kind::Block(_) => self.special += 1,
        }
    }

    /// Counts something that could not be kept.
    pub(crate) fn lose(&mut self, loss: Loss) {
        self.lost.entry(loss).or_default().count += 1;
    }

    /// What was lost since the last call was of the file `path`.
    pub(crate) fn name_losses(&mut self, path: &[u8]) {
        for lost in self.lost.values_mut().filter(|lost| lost.count > lost.named) {
            lost.named = lost.count;
            if lost.files > 0 && lost.last == path {
                continue;
            }
            lost.files += 1;
            lost.last = path.to_vec();
            if lost.files == 1 {
                lost.first = path.to_vec();
            }
        }
    }

    /// All names.
    pub(crate) fn entries(&self) -> u64 {
        self.files + self.directories + self.hard_links + self.symlinks + self.special
    }

    /// Says what could not be kept.
    pub(crate) fn say_losses(&self) {
        for (loss, lost) in &self.lost {
            let (what, done, why) = words(*loss);
            let first = match lost.first.as_slice() {
                b"" => "the top directory".to_owned(),
                path => show(path),
            };
            let others = match lost.files {
                0 | 1 => String::new(),
                files => format!(" and {}", counted(files - 1, "other file")),
            };
            let what = counted(lost.count, what);
            output::warn(format!("{what} {done} ({first}{others}): {why}"));
        }
    }

    /// One line for people.
    pub(crate) fn sentence(&self) -> String {
        let all = [
            (self.files, "file"),
            (self.directories, "directory"),
            (self.symlinks, "symbolic link"),
            (self.hard_links, "hard link"),
            (self.special, "special file"),
        ];
        let some = all.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = some.map(|(count, one)| counted(count, one)).collect();
        if parts.is_empty() {
            return "nothing".to_owned();
        }
        format!("{}, {} of data", parts.join(", "), output::human(self.bytes))
    }
}
