//! Where the oracle acquits: every leniency by name, with the paragraph of the contract that allows it.
//!
//! The oracle starts from "what the history says must be there". Each exception to that is a [`Leniency`], and
//! the code that makes the exception calls [`Leniency::grants`] with the condition, so that a search for the
//! name finds every place. `docs/lab/crash.md` has the same table.
//!
//! # Invariants
//! 1. The list has every leniency; a test compares it with the documentation.

macro_rules! leniencies {
    ($($leniency:ident $name:literal: $accepts:literal, $allowed_by:literal;)*) => {
        /// An exception that the contract makes from what the history says.
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
    UnderWay "under-way":
        "a call that had not returned happened wholly, in part, or not at all",
        "§9, first sentence; §11.4";
    NewerName "newer-name":
        "a name has the value of its last durable point, or any value given to it later",
        "§11.4, name; G21";
    SkippedName "skipped-name":
        "a name that a rename gave is missing, because a later call took it away, or because the object \
         is seen under an earlier name or a later one",
        "§11.4, name (\"any value assigned later\"); X1 still asks for a name";
    Unpromised "unpromised":
        "the old name of a rename is gone and the new one missing, if the old name never was durable",
        "§11.4, X2 with \"value at the durable point\"; G5";
    DroppedDirectory "dropped-directory":
        "a directory that was renamed in its own directory has only its old name after a check: what it replaced is \
         gone, or what was removed later",
        "A5, ENT-HARDDIR (both names in one directory: the first is kept)";
    OpenExchange "open-exchange":
        "without repair: an exchange is half done, and its record `.ffs-exchange.*` is in the root",
        "A5 (two names of one file); the check or the next mount ends it (G15, G16)";
    NoInode "no-inode":
        "what a name should mean is not asked if the name leads to no inode",
        "F1, F2: the raw checker reports it";
    UndoneSize "undone-size":
        "a size between two that the file had, at the end of a fragment",
        "G8; §11.4, size (undo sizes)";
    EndHole "end-hole":
        "a size below all that the file had, at the end of the last block with durable content, of a file \
         that needs indirect blocks",
        "A9, INO-ENDHOLE; G8 (\"the end of the last durable block\")";
    Unwritten "unwritten":
        "zeros in a sector that had no content at the durable point, or lost it later",
        "§11.4, sector; A10, A11, G8";
    EarlierTail "earlier-tail":
        "in a chain of crashes, behind the end that a file had after one of them, what the file had written there \
         before it: the device has it, and an undone size may cover it",
        "G8 (\"data written since, last synced data, or zero\"); §11.4, size (undo sizes)";
    PartialCall "partial-call":
        "any part of a write that failed or was under way, and any of its growth",
        "G23; §9, first sentence";
    ManyEras "many-eras":
        "in a file truncated to nothing more than 62 times since its durable point, content of any later \
         time",
        "none: a limit of the oracle's memory; no workload reaches it";
    TimeMoved "time-moved":
        "a modification time that a later call or the clock may have moved",
        "A12, G20";
    DataOnly "data-only":
        "attributes from before an fdatasync",
        "`spec/soft-updates.md` §8.1, fdatasync";
    MetadataUnchanged "metadata-unchanged":
        "older names from before an fdatasync that had neither size, blocks nor names of its file to \
         write",
        "`docs/soft-updates.md`, `fsync=all`: an fdatasync that has metadata to write";
    SystemNames "system-names":
        "`.snap`; `lost+found`, where a full check reconnects",
        "§4 (repairs); newfs";
    WeakOrdering "weak-ordering":
        "ordered synchronous writes: foreign data in blocks without durable content, an incomplete target \
         of a link that was not synced",
        "G24";
    NoOrdering "no-ordering":
        "no ordering: anything, once something changed after the last sync",
        "G25";
}

impl Leniency {
    /// Whether the exception is made: if its condition `holds`.
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
