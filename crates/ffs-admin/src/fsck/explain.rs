//! Explanations of the findings (`fsck --explain`).
//!
//! **Purpose.** [`Id::explain`] describes what a repair of a finding does, what it may cost, and
//! what preen does with the finding. [`Id::meaning`] is what is wrong.
//!
//! **Invariants.**
//! 1. Every id has an explanation: a test checks it.
//!
//! References: spec/fsck-and-crash.md §3 (the repairs), §8 (preen).

use super::report::Id;

/// What preen (`-p`) does at a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preen {
    /// It makes the repair.
    Repairs,
    /// It makes the repair only on a volume without soft updates, and stops on one with them.
    WithoutSoftUpdates,
    /// It makes the repair only if it concerns a directory of a volume with soft updates.
    OfDirectories,
    /// It makes the repair if a backup superblock agrees.
    IfConfirmed,
    /// It stops, and has changed nothing.
    Stops,
    /// It reports the finding and goes on.
    Reports,
    /// It does not examine this: only an interactive check offers the change.
    Silent,
}

/// The explanation of a kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// What the repair does.
    pub repair: &'static str,
    /// What may be lost.
    pub loss: &'static str,
    /// What preen does.
    pub preen: Preen,
}

const NOTHING: &str = "Nothing.";
const CONTENT: &str = "The content of the file. Restore the file from a backup.";
const NAME: &str = "The name. A file that has no other name goes to lost+found.";
const BEYOND: &str = "Blocks that the size of the file does not include.";
const CLEARED: &str = "The inode is cleared.";
const REMOVED: &str = "The name is removed.";

impl Id {
    /// The repair of such a finding, and its price.
    #[must_use]
    pub fn explain(self) -> Explanation {
        let (repair, loss, preen) = superblock(self)
            .or_else(|| group(self))
            .or_else(|| inode(self))
            .or_else(|| directory(self))
            .or_else(|| entry(self))
            .or_else(|| reference(self))
            .unwrap_or(UNEXPLAINED);
        Explanation { repair, loss, preen }
    }
}

type Texts = (&'static str, &'static str, Preen);

/// For an id without an explanation; a test fails if there is one.
const UNEXPLAINED: Texts = ("See docs/guide/checking.md.", "Unknown.", Preen::Stops);

fn superblock(id: Id) -> Option<Texts> {
    let texts = match id {
        Id::SbTorn => (
            "The superblock is written again with the right check hash. Its counts are computed.",
            NOTHING,
            Preen::IfConfirmed,
        ),
        Id::SbAlternate => ("The last backup is written again.", NOTHING, Preen::Stops),
        Id::SbField => (
            "The field gets the value of the backups or the computed one; optimisation, minfree \
             and metaspace get a default.",
            "A setting of tunefs. Compare with: ffs tunefs -p IMAGE.",
            Preen::Stops,
        ),
        Id::SbRecovery => (
            "The record is written. With it fsck finds the backups if the superblock is lost. \
             Without it nothing is damaged.",
            NOTHING,
            Preen::Silent,
        ),
        Id::SbHashes => (
            "Check hashes are computed and kept from now on. Without them nothing is damaged.",
            NOTHING,
            Preen::Silent,
        ),
        Id::SbCkhash => (
            "The hashes are dropped: an older system changed the volume and did not maintain them.",
            "The protection by check hashes. An interactive check offers to add them.",
            Preen::Repairs,
        ),
        Id::SbSnapshot => ("The entry is removed from the list.", NOTHING, Preen::Repairs),
        Id::SujChain => (
            "The list is emptied, and the inodes on it are cleared.",
            "Files that were removed while programs used them.",
            Preen::Repairs,
        ),
        Id::SbBad => (
            "The superblock is written again from a backup. Its counts are computed.",
            "Settings that were changed with tunefs after the backup was written.",
            Preen::Stops,
        ),
        _ => return None,
    };
    Some(texts)
}

fn group(id: Id) -> Option<Texts> {
    let texts = match id {
        Id::IoRead => (
            "None. The check takes zeros for the unreadable part, and later findings may be a \
             consequence. Do not repair this disk: copy it, and check the copy.",
            "With a repair, everything that the unreadable part held or led to.",
            Preen::Stops,
        ),
        Id::CgMagic => (
            "The header is built anew, and the maps are computed from the inodes of the group.",
            "Inodes of the group, if the header was lost with them.",
            Preen::Stops,
        ),
        Id::CgHash => (
            "Every inode of the group is read, and the header gets the right hash.",
            NOTHING,
            Preen::Repairs,
        ),
        Id::QuotaUsage => (
            "The record gets the usage that the inodes have. ffs quotacheck adds records.",
            NOTHING,
            Preen::Repairs,
        ),
        Id::CgAllocFree => (
            "It is marked used.",
            "Nothing by the repair. On a volume with soft updates no crash leaves this: the disk \
             or another program is at fault, and other blocks may be damaged. Examine the disk.",
            Preen::WithoutSoftUpdates,
        ),
        Id::CgLeak => ("It is marked free.", NOTHING, Preen::Repairs),
        Id::CgLostDir => ("The directories are counted again.", NOTHING, Preen::Stops),
        Id::CgMaps => ("The maps are computed again.", NOTHING, Preen::Repairs),
        Id::CgSummary | Id::CsCg | Id::CsTotal => {
            ("The counts are computed again.", NOTHING, Preen::Repairs)
        }
        _ => return None,
    };
    Some(texts)
}

fn inode(id: Id) -> Option<Texts> {
    let texts = match id {
        Id::InoHash => ("The hash is computed again.", NOTHING, Preen::Repairs),
        Id::InoPastEnd => (
            "The pointers are dropped. If you refuse, the next question is whether to clear the \
             inode.",
            BEYOND,
            Preen::Stops,
        ),
        Id::InoSnapshot => (
            "The snapshot is removed. It cannot be repaired: a lost block would show the content \
             of other files. Copy what is intact out of it first: ffs cp -a IMAGE:/.snap/NAME:/ .",
            "The snapshot. Files and other snapshots stay.",
            Preen::Stops,
        ),
        Id::BlkBad => (
            "The pointer is dropped: the file has zeros there. With more than ten of them the \
             inode is cleared.",
            "The part of the file that the pointer led to. Restore the file from a backup.",
            Preen::Stops,
        ),
        Id::BlkDup => (
            "Each later owner gets a copy of its own. With -n the files are reported as to be \
             cleared; with -y they stay.",
            "The content of at least one of the files. Compare them with a backup.",
            Preen::Stops,
        ),
        Id::IndTrunc => ("The pointers are dropped.", BEYOND, Preen::OfDirectories),
        Id::DirHole => (
            "The directory is shortened to the part before the hole.",
            "Names behind the hole. Their files go to lost+found.",
            Preen::Stops,
        ),
        Id::InoBlocks => ("The blocks are counted again.", NOTHING, Preen::Repairs),
        Id::InoEndHole => (
            "The size is reduced to the end of the last block.",
            "Bytes that had not reached the disk before the crash.",
            Preen::Repairs,
        ),
        Id::Ext => (
            "Attributes before the damage stay; the others are dropped.",
            "Extended attributes and access lists of the file.",
            Preen::Stops,
        ),
        Id::InoBadDup => (CLEARED, CONTENT, Preen::Stops),
        Id::InoPartial | Id::InoSize | Id::InoSpecial | Id::InoType => (
            "The inode is cleared: what it holds is no inode that a system writes.",
            CONTENT,
            Preen::Stops,
        ),
        _ => return None,
    };
    Some(texts)
}

fn directory(id: Id) -> Option<Texts> {
    let texts = match id {
        Id::RootUnalloc | Id::RootType => (
            "If its content is a root directory, the type is restored. Else a new one is made.",
            "Names in the root directory, if a new one is made: its files go to lost+found.",
            Preen::Stops,
        ),
        Id::RootDup | Id::RootZero => (
            "A new root directory is made.",
            "Names in the root directory: its files go to lost+found.",
            Preen::Stops,
        ),
        Id::DirShort => (
            "The size is set to 512 bytes.",
            "Names in the directory. Their files go to lost+found.",
            Preen::Stops,
        ),
        Id::DirMult => {
            ("The size is rounded up to a multiple of 512.", NOTHING, Preen::WithoutSoftUpdates)
        }
        Id::DirCorrupt => (
            "The record is dropped, or the rest of the 512 bytes if its length is wrong.",
            "Up to 512 bytes of names. Their files go to lost+found.",
            Preen::Stops,
        ),
        Id::DotMissing | Id::DotDotMissing => {
            ("The entry is added. Names that no longer fit are moved.", NOTHING, Preen::Stops)
        }
        Id::DotExtra | Id::DotDotExtra => ("The entry is removed.", NOTHING, Preen::Stops),
        Id::DotDotWrong => (
            "`..` is set to the directory that has the name: a crash interrupted a rename.",
            NOTHING,
            Preen::Repairs,
        ),
        Id::DotBad | Id::DotType | Id::DotDotType => ("The entry is set.", NOTHING, Preen::Stops),
        _ => return None,
    };
    Some(texts)
}

fn entry(id: Id) -> Option<Texts> {
    let texts = match id {
        Id::EntWhiteout => ("The entry becomes a whiteout.", NOTHING, Preen::Stops),
        Id::EntDupBad => (
            "The name is removed, and the inode is cleared in phase 4. Answer BLK-DUP with yes to \
             keep both.",
            CONTENT,
            Preen::Stops,
        ),
        Id::EntZeroDir => (REMOVED, "An empty directory.", Preen::Repairs),
        Id::EntHardDir => (
            "One name is kept, the one in the directory that `..` names: a crash interrupted a \
             rename.",
            NOTHING,
            Preen::Repairs,
        ),
        Id::EntExchange => (
            "The exchange is completed, or its record removed, before phase 0.",
            NOTHING,
            Preen::Repairs,
        ),
        Id::EntType => ("The type is set to that of the inode.", NOTHING, Preen::Repairs),
        Id::DupName => (
            "The second entry is renamed to NAME.#INODE, or removed if it names the same inode.",
            NOTHING,
            Preen::Reports,
        ),
        Id::EntRange | Id::EntUnalloc => (REMOVED, NAME, Preen::Stops),
        _ => return None,
    };
    Some(texts)
}

fn reference(id: Id) -> Option<Texts> {
    let texts = match id {
        Id::DirUnref => (
            "The directory goes to lost+found with everything in it. On a volume with soft \
             updates preen clears it: it was never complete, or it was being removed.",
            "Its name.",
            Preen::Repairs,
        ),
        Id::DirLoop => ("One of them goes to lost+found.", "Its name.", Preen::Stops),
        Id::LfCreate => ("The directory lost+found is made.", NOTHING, Preen::Repairs),
        Id::LfType => (
            "Another lost+found is made. What had the name is reconnected under another.",
            NOTHING,
            Preen::Stops,
        ),
        Id::LfFull => (
            "None. Make space: remove files, or enlarge the volume with ffs growfs, and check \
             again.",
            "The inode, if you let a later question clear it.",
            Preen::Stops,
        ),
        Id::InoUnref0 => {
            (CLEARED, "A removed file that a program still used at the crash.", Preen::Repairs)
        }
        Id::InoUnref => (
            "The file goes to lost+found; an empty one is cleared. On a volume with soft updates \
             preen clears it, too, unless --keep-orphans is given.",
            "Its name. With preen and soft updates a file that was never complete or was removed.",
            Preen::Repairs,
        ),
        Id::LinkHigh => ("The count is lowered.", NOTHING, Preen::Repairs),
        Id::LinkLow => (
            "The count is raised.",
            "Nothing by the repair. No crash leaves this: examine the disk.",
            Preen::Stops,
        ),
        Id::DirClear => (
            "The directory is cleared.",
            "A directory that was being made or removed, or that is empty.",
            Preen::Repairs,
        ),
        _ => return None,
    };
    Some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_an_explanation() {
        for &id in Id::ALL {
            let Explanation { repair, loss, .. } = id.explain();
            assert_ne!(repair, UNEXPLAINED.0, "{id}");
            assert!(repair.ends_with('.') && repair.len() > 10, "{id}: {repair}");
            assert!(loss.ends_with('.'), "{id}: {loss}");
        }
    }

    /// The tables of the guide explain the same findings in their own words, and by groups.
    #[test]
    fn the_guide_has_each_finding_once_with_what_preen_does() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/checking.md");
        let page = std::fs::read_to_string(page).unwrap();
        let part = page.split_once("## What the findings mean").unwrap().1;
        let part = part.split_once("## Exit codes").unwrap().0;
        let rows: Vec<Vec<&str>> = part
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect())
            .collect();
        let names =
            |row: &[&str], id: &str| row[0].split(", ").any(|name| name.trim_matches('`') == id);
        let group = |row: &[&str], id: &str| {
            let mut groups =
                row[0].split(", ").filter_map(|name| name.trim_matches('`').strip_suffix('…'));
            groups.any(|start| id.starts_with(start))
        };
        for &id in Id::ALL {
            let text = id.as_str();
            let by_name: Vec<_> = rows.iter().filter(|row| names(row, text)).collect();
            let by_group: Vec<_> = rows.iter().filter(|row| group(row, text)).collect();
            let found = if by_name.is_empty() { by_group } else { by_name };
            let [row] = found[..] else { panic!("{id} has {} rows", found.len()) };
            let preen = match (*row.last().unwrap(), id) {
                ("yes", Id::SbTorn) => Preen::IfConfirmed,
                ("yes", _) => Preen::Repairs,
                ("no", _) => Preen::Stops,
                ("–", _) => Preen::Silent,
                ("reported only", _) => Preen::Reports,
                ("only without SU", _) => Preen::WithoutSoftUpdates,
                (only, Id::InoPastEnd) if only.contains("only `IND-TRUNC`") => Preen::Stops,
                (only, Id::IndTrunc) if only.contains("with SU") => Preen::OfDirectories,
                (other, _) => panic!("{id}: {other}"),
            };
            assert_eq!(id.explain().preen, preen, "{id}");
        }
    }
}
