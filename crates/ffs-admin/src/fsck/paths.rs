//! Names for the inodes in the findings.
//!
//! **Purpose.** A person wants a path, not a number. Once the phases are done, the names of the inodes that were
//! found fault with are looked up as the tree is now.
//!
//! **Invariants.**
//! 1. Directories are climbed by the table of phase 2; names of files cost one more reading of the directories,
//!    which very large volumes are spared.

use std::collections::{BTreeMap, BTreeSet};

use ffs_ondisk::Ino;

use super::Checker;
use super::judge::Res;

/// Volumes with more directories than this get paths of directories only.
const FULL_SCAN: usize = 1 << 16;
/// Deeper paths are cut.
const DEEPEST: usize = 1024;

type Names = BTreeMap<Ino, (Ino, Vec<u8>)>;

impl Checker<'_> {
    /// Fills in the paths of findings, as far as their inodes have one.
    pub(super) fn name_findings(&mut self) -> Res<()> {
        let wanted: BTreeSet<Ino> =
            self.judge.findings.iter().filter_map(|f| f.ino).map(Ino).collect();
        let files: BTreeSet<Ino> =
            wanted.iter().copied().filter(|&i| self.dirs.get(i).is_none()).collect();
        let mut names = Names::new();
        if !files.is_empty() && self.dirs.all().len() <= FULL_SCAN {
            let all: Vec<Ino> = self.dirs.all().iter().map(|d| d.ino).collect();
            for dir in all {
                self.collect_names(dir, &files, &mut names)?;
            }
        }
        let mut climb: BTreeSet<Ino> = names.values().map(|(dir, _)| *dir).collect();
        climb.extend(wanted);
        self.climb(&climb, &mut names)?;
        let paths: Vec<Option<String>> =
            self.judge.findings.iter().map(|f| path_of(Ino(f.ino?), &names)).collect();
        for (finding, path) in self.judge.findings.iter_mut().zip(paths) {
            finding.path = path;
        }
        Ok(())
    }

    /// Names of the directories in `start` and of all above them.
    fn climb(&mut self, start: &BTreeSet<Ino>, names: &mut Names) -> Res<()> {
        let mut above: BTreeMap<Ino, BTreeSet<Ino>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for &ino in start {
            let mut at = ino;
            while at != Ino::ROOT && seen.insert(at) {
                let Some(dir) = self.dirs.get(at).filter(|d| d.parent.0 != 0) else { break };
                above.entry(dir.parent).or_default().insert(at);
                at = dir.parent;
            }
        }
        for (parent, children) in above {
            self.collect_names(parent, &children, names)?;
        }
        Ok(())
    }

    fn collect_names(&mut self, dir: Ino, wanted: &BTreeSet<Ino>, names: &mut Names) -> Res<()> {
        for entry in self.entries(dir, usize::MAX)? {
            let child = Ino(entry.ino);
            if wanted.contains(&child) {
                names.entry(child).or_insert((dir, entry.name));
            }
        }
        Ok(())
    }
}

/// The path of `ino`; `None` if it does not hang on the root.
fn path_of(ino: Ino, names: &Names) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut at = ino;
    while at != Ino::ROOT {
        let (dir, name) = names.get(&at)?;
        parts.push(String::from_utf8_lossy(name).into_owned());
        if parts.len() > DEEPEST {
            return None;
        }
        at = *dir;
    }
    parts.reverse();
    Some(format!("/{}", parts.join("/")))
}
