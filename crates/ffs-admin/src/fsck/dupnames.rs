//! Phase 2: duplicate names in a directory.
//!
//! **Invariants.**
//! 1. Hashes are compared first. Only a directory with equal hashes is read again.
//!
//! References: spec/fsck-and-crash.md §3.3 (DUPNAME, F14).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};

use ffs_ondisk::{Ino, dir};
use foldhash::fast::FixedState;

use super::checker::Checker;
use super::dirblk::Entry;
use super::dircheck::DirScan;
use super::report::Id;
use super::resolve::{Draft, Res};

/// Limit on the hashes of one directory that are held at a time.
const NAMES_AT_ONCE: usize = 4 << 20;

/// The hash that is compared.
pub(super) fn name_hash(name: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    hasher.write(name);
    hasher.finish()
}

impl Checker<'_> {
    /// Finds duplicate names.
    pub(super) fn check_duplicate_names(&mut self, scan: &mut DirScan) -> Res<()> {
        scan.names.truncate(NAMES_AT_ONCE);
        scan.names.sort_unstable();
        let twice: Vec<u64> =
            scan.names.windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect();
        if twice.is_empty() {
            return Ok(());
        }
        let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut again: Vec<(Entry, u32)> = Vec::new();
        for entry in self.entries(scan.ino, usize::MAX)? {
            if twice.binary_search(&name_hash(&entry.name)).is_err() {
                continue;
            }
            match seen.get(&entry.name) {
                Some(&first) => again.push((entry, first)),
                None => drop(seen.insert(entry.name, entry.ino)),
            }
        }
        for (entry, first) in again {
            self.check_second_entry(scan.ino, &entry, first)?;
        }
        Ok(())
    }

    /// Handles a duplicate name: removes the entry if it names the same inode, else renames it.
    fn check_second_entry(&mut self, dir: Ino, entry: &Entry, first: u32) -> Res<()> {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let same = entry.ino == first;
        let message = format!("the name {name:?} occurs twice");
        let after = if same { "removed".into() } else { format!("{name}.#{}", entry.ino) };
        let draft = Draft::benign(Id::DupName, message).ino(dir).place(format!("entry {name:?}"));
        let draft = draft.entry(&entry.name, Some(Ino(entry.ino)));
        let draft = draft.before(entry.ino).after(after);
        if self.resolver.is_preen() {
            self.report_only(draft);
            return Ok(());
        }
        if !self.should_fix(draft)? {
            return Ok(());
        }
        self.restart_after_phase();
        // Of two identical entries the first remains.
        let passed = Cell::new(!same);
        let removed = self.remove_entry(dir, |e| e == entry && passed.replace(true))?;
        if removed && !same {
            let mut entry = entry.clone();
            let suffix = format!(".#{}", entry.ino);
            entry.name.truncate(dir::MAXNAMLEN - suffix.len());
            entry.name.extend_from_slice(suffix.as_bytes());
            let _ = self.add_entry(dir, &entry)?;
        }
        Ok(())
    }
}
