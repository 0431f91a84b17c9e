//! Phase 3: connectivity.
//!
//! **Purpose.** Every directory is to be reachable from the root. Those that are not are reconnected, or, where
//! soft updates guarantee that they were never complete or already removed, left for phase 4 to clear.
//!
//! **Invariants.**
//! 1. A directory that is to be cleared gives back every name in it, so that what is reachable only through it
//!    is cleared in the same run.
//! 2. It also loses them on the device before what they name is cleared: a repair that is cut off in between
//!    leaves no name of a free inode, which the next one could not explain.
//! 3. The top of an unreachable tree is dealt with, not each directory in it.
//!
//! References: spec/fsck-and-crash.md §3.4; soft-updates.md D13.

use std::collections::{BTreeMap, BTreeSet};

use ffs_ondisk::Ino;

use super::Checker;
use super::judge::{Draft, Res};
use super::report::{Id, Phase};
use super::tables::State;

/// What an unreachable directory hangs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Root,
    /// A directory without a name.
    Top(Ino),
    /// A circle, named by its lowest member.
    Circle(Ino),
}

impl Checker<'_> {
    /// Deals with unreachable directories.
    pub(super) fn phase3(&mut self) -> Res<()> {
        let anchors = self.anchors();
        self.enter(Phase::Connectivity, anchors.len() as u64)?;
        let mut trees: BTreeMap<Ino, Vec<Ino>> = BTreeMap::new();
        let mut circles: BTreeSet<Ino> = BTreeSet::new();
        for (ino, anchor) in anchors {
            match anchor {
                Anchor::Top(top) => trees.entry(top).or_default().push(ino),
                Anchor::Circle(lowest) => drop(circles.insert(lowest)),
                Anchor::Root => {}
            }
        }
        for (top, tree) in trees {
            self.check_interrupt()?;
            self.unreferenced(top, &tree)?;
            self.advance(tree.len() as u64);
        }
        for lowest in circles {
            self.check_interrupt()?;
            self.break_circle(lowest)?;
            self.advance(1);
        }
        self.mark_reached();
        self.leave()
    }

    fn unreached(&self) -> Vec<Ino> {
        let used = |ino: &Ino| self.inodes.get(*ino).state == State::Used;
        self.dirs.all().iter().map(|d| d.ino).filter(used).collect()
    }

    /// What each unreached directory hangs on.
    fn anchors(&self) -> Vec<(Ino, Anchor)> {
        let list = self.unreached();
        let mut known: Vec<Option<Anchor>> = vec![None; list.len()];
        for start in 0..list.len() {
            let mut path: Vec<usize> = Vec::new();
            let mut on_path = BTreeSet::new();
            let mut ino = list[start];
            let anchor = loop {
                let Ok(i) = list.binary_search(&ino) else { break Anchor::Root };
                if let Some(anchor) = known[i] {
                    break anchor;
                }
                if !on_path.insert(i) {
                    let from = path.iter().position(|&p| p == i).unwrap_or(0);
                    let lowest = path[from..].iter().map(|&p| list[p]).min();
                    break Anchor::Circle(lowest.unwrap_or(ino));
                }
                path.push(i);
                match self.dirs.get(ino).map_or(Ino(0), |d| d.parent) {
                    Ino(0) => break Anchor::Top(ino),
                    parent => ino = parent,
                }
            };
            path.into_iter().for_each(|i| known[i] = Some(anchor));
        }
        list.into_iter().zip(known).map(|(i, a)| (i, a.unwrap_or(Anchor::Root))).collect()
    }

    /// A directory without a name, and the tree below it.
    fn unreferenced(&mut self, top: Ino, tree: &[Ino]) -> Res<()> {
        let clear = self.judge.preen() && self.softdep && !self.keeps_orphan_dir(top)?;
        let what = if clear {
            "unreferenced directory: clear"
        } else {
            "unreferenced directory: reconnect"
        };
        if !self.ask(Draft::benign(Id::DirUnref, what).ino(top))? {
            // Where it hangs nowhere, no directory need count it.
            self.uncount_dotdot(top);
            return Ok(());
        }
        if clear {
            for &ino in tree {
                self.inodes.update(ino, |r| r.state = State::Doomed);
                self.give_back(ino)?;
                self.empty_out(ino)?;
            }
        } else if !self.reconnect(top)? {
            self.judge.repair_failed();
        }
        Ok(())
    }

    fn keeps_orphan_dir(&mut self, dir: Ino) -> Res<bool> {
        Ok(self.keep_orphans && !self.entries(dir, 1)?.is_empty())
    }

    /// Directories that contain each other: one of them is reconnected.
    fn break_circle(&mut self, ino: Ino) -> Res<()> {
        let draft = Draft::fatal(Id::DirLoop, "directories that contain each other: reconnect one");
        if !self.ask(draft.ino(ino))? {
            return Ok(());
        }
        let Some(dir) = self.dirs.get(ino) else { return Ok(()) };
        if self.remove_entry(dir.parent, |e| e.ino == ino.0)? {
            self.inodes.count(ino, 1);
        }
        self.dirs.update(ino, |d| d.parent = Ino(0));
        if !self.reconnect(ino)? {
            self.judge.repair_failed();
        }
        self.again();
        Ok(())
    }

    /// Uncounts every name in directory `ino`.
    pub(super) fn give_back(&mut self, ino: Ino) -> Res<()> {
        self.uncount_dotdot(ino);
        for entry in self.entries(ino, usize::MAX)? {
            let child = Ino(entry.ino);
            if child.0 >= 2 && child.0 < self.g.inodes() {
                self.inodes.count(child, 1);
            }
        }
        Ok(())
    }
}
