//! Phase 2: names that occur twice in a directory.
//!
//! **Invariants.**
//! 1. Hashes are compared first, so that a directory without such names, as nearly all are, is not read again.
//!
//! References: spec/fsck-and-crash.md §3.3 (DUPNAME, F14).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};

use ffs_ondisk::{Ino, dir};
use foldhash::fast::FixedState;

use super::Checker;
use super::chunk::Scan;
use super::dirio::Entry;
use super::judge::{Draft, Res};
use super::report::Id;

/// Names of one directory whose hashes are held at a time.
const NAMES_AT_ONCE: usize = 4 << 20;

/// The hash by which names are compared.
pub(super) fn name_hash(name: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    hasher.write(name);
    hasher.finish()
}

impl Checker<'_> {
    /// Finds names that occur twice.
    pub(super) fn check_duplicate_names(&mut self, scan: &mut Scan) -> Res<()> {
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
            self.second_entry(scan.ino, &entry, first)?;
        }
        Ok(())
    }

    /// A name that occurs again: gone if it names the same inode, else renamed.
    fn second_entry(&mut self, dir: Ino, entry: &Entry, first: u32) -> Res<()> {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let same = entry.ino == first;
        let message = format!("the name {name:?} occurs twice");
        let after = if same { "removed".into() } else { format!("{name}.#{}", entry.ino) };
        let draft = Draft::benign(Id::DupName, message).ino(dir).place(format!("entry {name:?}"));
        let draft = draft.entry(&entry.name, Some(Ino(entry.ino)));
        let draft = draft.before(entry.ino).after(after);
        if self.judge.preen() {
            self.mention(draft);
            return Ok(());
        }
        if !self.ask(draft)? {
            return Ok(());
        }
        self.restart();
        // Of two entries that are alike in everything the first stays.
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
