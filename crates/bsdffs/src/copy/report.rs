//! What a copy did, and which attributes it could not preserve.

use std::collections::BTreeMap;

use ffs_admin::counted;

use super::entry::EntryKind;
use crate::text::{escape, human_size};

/// An attribute or a file that the target cannot represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Owner or group.
    Owner,
    /// A device file.
    Device,
    /// An extended attribute.
    Xattr,
    /// An extended attribute that is too large for the target.
    LargeXattr,
    /// An extended attribute of the host's name space `security`.
    SecurityXattr,
    /// An extended attribute of the host's name space `system`.
    SystemXattr,
    /// An access ACL.
    AccessAcl,
    /// A default ACL.
    DefaultAcl,
    /// An NFSv4 ACL.
    Nfs4Acl,
    /// An ACL on a volume that does not apply ACLs.
    UnusedAcl,
    /// File flags.
    Flags,
    /// A socket.
    Socket,
    /// A snapshot.
    Snapshot,
}

/// Counts of one copy.
#[derive(Debug, Default, Clone)]
pub struct CopyReport {
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
    /// Bytes of data, without holes.
    pub bytes: u64,
    /// Files that could not be copied.
    pub failed: u64,
    /// Files whose target had the whole content already.
    pub unchanged: u64,
    /// Existing targets that stay, as the options or the user ask.
    pub kept: u64,
    losses: BTreeMap<Loss, LossCount>,
}

/// Losses of one kind.
#[derive(Debug, Default, Clone)]
struct LossCount {
    count: u64,
    /// Losses that [`CopyReport::set_path_of_losses`] has assigned to a file.
    assigned: u64,
    /// Files concerned.
    files: u64,
    /// Paths of the first and the last of them.
    first: Vec<u8>,
    last: Vec<u8>,
}

/// For a loss: its name, what happened to it, and why.
fn description(loss: Loss) -> (&'static str, &'static str, &'static str) {
    let no_acl = "the target does not support access lists (ffs tunefs -a enable or \
                  ffs build --acls), or not this one: it is too long, has no space beside \
                  other attributes, or has an entry without a number";
    match loss {
        Loss::Owner => ("owner", "not kept", "only root may change owners; use sudo"),
        Loss::Device => ("device file", "left out", "only root may create them; use sudo"),
        Loss::Xattr => (
            "extended attribute",
            "not kept",
            "the target does not support them (as UFS1), or only for root",
        ),
        Loss::LargeXattr => (
            "extended attribute",
            "not kept",
            "it is too large for the target (UFS2 has two blocks for those of a file)",
        ),
        Loss::SecurityXattr => (
            "security attribute",
            "not kept",
            "the target does not support them (as UFS1), or only for root: set capabilities and \
             labels again",
        ),
        Loss::SystemXattr => ("system attribute", "not kept", "UFS does not support it"),
        Loss::AccessAcl => ("access list", "turned into a narrower mode", no_acl),
        Loss::DefaultAcl => ("default access list", "not kept", no_acl),
        Loss::Nfs4Acl => (
            "NFSv4 access list",
            "turned into a mode for the owner alone",
            "only a volume with nfsv4acls keeps them, and only from such a volume",
        ),
        Loss::UnusedAcl => (
            "access list",
            "left out",
            "access lists are disabled on the source volume (see ffs tunefs -p)",
        ),
        Loss::Flags => ("flag set", "not kept", "the target does not support file flags"),
        Loss::Socket => ("socket", "left out", "the target does not support them"),
        Loss::Snapshot => (
            "snapshot",
            "left out",
            "a snapshot has a whole volume; ffs snapshot list shows the names; each is an image",
        ),
    }
}

impl CopyReport {
    /// Counts a file of this kind.
    pub(crate) fn count(&mut self, kind: &EntryKind) {
        match kind {
            EntryKind::Directory => self.directories += 1,
            EntryKind::File(_) => self.files += 1,
            EntryKind::Symlink(_) => self.symlinks += 1,
            EntryKind::Link(_) => self.hard_links += 1,
            EntryKind::Fifo | EntryKind::Socket | EntryKind::Char(_) | EntryKind::Block(_) => {
                self.special += 1;
            }
        }
    }

    /// Counts an attribute that could not be preserved.
    pub fn record_loss(&mut self, loss: Loss) {
        self.losses.entry(loss).or_default().count += 1;
    }

    /// Assigns the losses recorded since the last call to the file `path`.
    pub(crate) fn set_path_of_losses(&mut self, path: &[u8]) {
        for loss in self.losses.values_mut().filter(|loss| loss.count > loss.assigned) {
            loss.assigned = loss.count;
            if loss.files > 0 && loss.last == path {
                continue;
            }
            loss.files += 1;
            loss.last = path.to_vec();
            if loss.files == 1 {
                loss.first = path.to_vec();
            }
        }
    }

    /// Number of names copied.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.files + self.directories + self.hard_links + self.symlinks + self.special
    }

    /// One sentence for each kind of attribute that could not be preserved.
    #[must_use]
    pub fn loss_messages(&self) -> Vec<String> {
        let message = |(loss, lost): (&Loss, &LossCount)| {
            let (what, result, why) = description(*loss);
            let first = match lost.first.as_slice() {
                b"" => "the top directory".to_owned(),
                path => escape(path),
            };
            let others = match lost.files {
                0 | 1 => String::new(),
                files => format!(" and {}", counted(files - 1, "other file")),
            };
            let what = counted(lost.count, what);
            format!("{what} {result} ({first}{others}): {why}")
        };
        self.losses.iter().map(message).collect()
    }

    /// The counts in one phrase: `2 files, 1 directory, 1.5 MiB of data`.
    #[must_use]
    pub fn summary(&self) -> String {
        let all = [
            (self.files, "file"),
            (self.directories, "directory"),
            (self.symlinks, "symbolic link"),
            (self.hard_links, "hard link"),
            (self.special, "special file"),
        ];
        let some = all.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = some.map(|(count, one)| counted(count, one)).collect();
        let mut text = match parts.is_empty() {
            true => "nothing".to_owned(),
            false => format!("{}, {} of data", parts.join(", "), human_size(self.bytes)),
        };
        for (count, what) in [(self.unchanged, "complete already"), (self.kept, "left alone")] {
            if count > 0 {
                text += &format!("; {} {what}", counted(count, "file"));
            }
        }
        text
    }

    /// Counts an open regular file as one that had the whole content.
    pub(super) fn count_unchanged(&mut self) {
        self.unchanged += 1;
    }
}
