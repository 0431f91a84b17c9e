//! What was copied and what was not.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Kind, Loss};
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
    lost: BTreeMap<Loss, u64>,
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
        *self.lost.entry(loss).or_default() += 1;
    }

    /// All names.
    pub(crate) fn entries(&self) -> u64 {
        self.files + self.directories + self.hard_links + self.symlinks + self.special
    }

    /// Says what could not be kept.
    pub(crate) fn say_losses(&self) {
        for (loss, count) in &self.lost {
            let (what, why) = match loss {
                Loss::Owner => ("owners not kept", "only root may give files away; use sudo"),
                Loss::Device => ("device files left out", "only root may make them; use sudo"),
                Loss::Xattr => (
                    "extended attributes not kept",
                    "the other side has no place for them, or only for root's",
                ),
                Loss::Flags => ("file flags not kept", "the other side has no place for them"),
                Loss::Socket => ("sockets left out", "the other side cannot make them"),
            };
            output::warn(format!("{count} {what}: {why}"));
        }
    }

    /// One line for people.
    pub(crate) fn sentence(&self) -> String {
        let mut parts = Vec::new();
        let mut part = |count: u64, one: &str, many: &str| {
            if count > 0 {
                parts.push(format!("{count} {}", if count == 1 { one } else { many }));
            }
        };
        part(self.files, "file", "files");
        part(self.directories, "directory", "directories");
        part(self.symlinks, "symbolic link", "symbolic links");
        part(self.hard_links, "hard link", "hard links");
        part(self.special, "special file", "special files");
        if parts.is_empty() {
            parts.push("nothing".to_owned());
        }
        format!("{}, {} of data", parts.join(", "), output::human(self.bytes))
    }
}
