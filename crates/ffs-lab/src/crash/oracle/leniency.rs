//! The exceptions of the oracle, each with the paragraph of the contract that allows it.
//!
//! The oracle expects the tree of the history. Each exception from that is a [`Leniency`]. The code
//! that makes an exception calls [`Leniency::grants`] with the condition, so that a search for the
//! name finds every place. `docs/lab/crash.md` has the same table.
//!
//! # Invariants
//! 1. The list has every exception; a test compares it with the documentation.

macro_rules! leniencies {
    ($($leniency:ident $name:literal: $accepts:literal, $allowed_by:literal;)*) => {
        /// An exception from the tree that the history describes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Leniency {
            $(#[doc = $accepts] $leniency,)*
        }

        /// Name, what is accepted, and where the contract allows it.
        #[cfg(test)]
        const ALL: &[(&str, &str, &str)] = &[$(($name, $accepts, $allowed_by)),*];
    };
}

leniencies! {
    InProgress "in-progress":
        "a call that had not returned took effect completely, in part, or not at all",
        "§9, first sentence; §11.4";
    NewerName "newer-name":
        "a name has the value of its last durable point, or any value given to it later",
        "§11.4, name; G21";
    SkippedName "skipped-name":
        "the new name of a rename is missing, because a later call removed it, or because the \
         object has an earlier or a later name",
        "§11.4, name (\"any value assigned later\"); X1 still requires a name";
    Unpromised "unpromised":
        "both names of a rename are missing, if the old name never was durable",
        "§11.4, X2 with \"value at the durable point\"; G5";
    NeverDurable "never-durable":
        "a name was made and removed, its directory is durable, and an older name from a rename \
         or a link is missing, if no guarantee covered the removed name",
        "§9, X8 (the device may never have had the name)";
    DroppedDirectory "dropped-directory":
        "a directory that was renamed within one directory has only its old name after a check: \
         the directory that it replaced is missing, or a name that was removed later",
        "A5, ENT-HARDDIR (both names in one directory: the first is kept)";
    OpenExchange "open-exchange":
        "before a repair: an exchange is half done, and its record `.ffs-exchange.*` is in the \
         root",
        "A5 (two names of one file); the check or the next mount ends it (G15, G16)";
    NoInode "no-inode":
        "a name that leads to no inode is not compared with the history",
        "F1, F2: the raw checker reports it";
    RolledBackSize "rolled-back-size":
        "a size between two that the file had, at the end of a fragment",
        "G8; §11.4, size (rolled-back sizes)";
    EndHole "end-hole":
        "a size below all sizes of the file, at the end of the last block with durable content, \
         if the \
         file needs indirect blocks",
        "A9, INO-ENDHOLE; G8 (\"the end of the last durable block\")";
    Unwritten "unwritten":
        "zeros in a sector that had no content at the durable point, or lost it later",
        "§11.4, sector; A10, A11, G8";
    EarlierTail "earlier-tail":
        "in a chain of crashes: bytes after the end that a file had after one crash, written \
         before \
         that crash; the device has them, and a rolled-back size may cover them",
        "G8 (\"data written since, last synced data, or zero\"); §11.4, size (rolled-back sizes)";
    PartialCall "partial-call":
        "any part of a write that failed or was in progress, and any part of its growth",
        "G23; §9, first sentence";
    ManyEras "many-eras":
        "in a file truncated to length 0 more than 62 times since its durable point: content of \
         any \
         later era",
        "none: a limit of the oracle; no workload reaches it";
    TimeMoved "time-moved":
        "a modification time that a later call or the clock may have changed",
        "A12, G20";
    DataOnly "data-only":
        "attributes from before an fdatasync",
        "`spec/soft-updates.md` §8.1, fdatasync";
    MetadataUnchanged "metadata-unchanged":
        "names from before an fdatasync that had no size, blocks or names of its file to write",
        "`docs/soft-updates.md`, `fsync=all`: an fdatasync that has metadata to write";
    SystemNames "system-names":
        "`.snap`, `.sujournal`; `lost+found`, into which a full check reconnects",
        "§4 (repairs); newfs";
    WeakOrdering "weak-ordering":
        "synchronous writes: foreign data in blocks without durable content, an incomplete target \
         of a \
         symbolic link that was not synced",
        "G24";
    NoOrdering "no-ordering":
        "no ordering: any state, once a call changed the volume after the last sync",
        "G25";
}

impl Leniency {
    /// Returns the condition of the exception; the call marks the place where it is made.
    pub(super) fn grants(self, holds: bool) -> bool {
        holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leniency_is_documented_with_its_paragraph() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab/crash.md");
        let docs = std::fs::read_to_string(docs).unwrap();
        for (name, accepts, allowed_by) in ALL {
            let line = format!("| {name} | {accepts} | {allowed_by} |");
            assert!(docs.contains(&line), "docs/lab/crash.md lacks this line:\n{line}");
        }
    }
}
