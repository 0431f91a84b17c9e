//! Phase 3: connectivity.
//!
//! **Purpose.** Finds directories that the root does not reach. It reconnects them, or leaves them
//! to phase 4 for clearing where soft updates guarantee that they were never complete or had been
//! removed.
//!
//! **Invariants.**
//! 1. Every name in a directory to be cleared is uncounted, so that an inode reachable only through
//!    it is cleared in the same run.
//! 2. On the device, those names are cleared before the inodes they name. Otherwise a crash in
//!    between would leave a name of a free inode, which the next preen could not repair.
//! 3. Only the top of an unreachable tree is reconnected, not every directory in it.
//!
//! References: spec/fsck-and-crash.md §3.4; soft-updates.md D13.

use std::collections::{BTreeMap, BTreeSet};

use ffs_ondisk::Ino;

use super::checker::Checker;
use super::inoinfo::State;
use super::report::{Id, Phase};
use super::resolve::{Draft, Res};

/// The end of a chain of parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TreeTop {
    Root,
    /// A directory without a name.
    Orphan(Ino),
    /// A loop, identified by its lowest member.
    Loop(Ino),
}

impl Checker<'_> {
    /// Reconnects or clears unreachable directories.
    pub(super) fn phase3(&mut self) -> Res<()> {
        let tree_tops = self.tree_tops();
        self.begin_phase(Phase::Connectivity, tree_tops.len() as u64)?;
        let mut trees: BTreeMap<Ino, Vec<Ino>> = BTreeMap::new();
        let mut loops: BTreeSet<Ino> = BTreeSet::new();
        for (ino, top_of) in tree_tops {
            match top_of {
                TreeTop::Orphan(top) => trees.entry(top).or_default().push(ino),
                TreeTop::Loop(lowest) => drop(loops.insert(lowest)),
                TreeTop::Root => {}
            }
        }
        for (top, tree) in trees {
            self.check_interrupt()?;
            self.handle_orphan(top, &tree)?;
            self.advance(tree.len() as u64);
        }
        for lowest in loops {
            self.check_interrupt()?;
            self.break_loop(lowest)?;
            self.advance(1);
        }
        self.propagate();
        self.end_phase()
    }

    fn unreferenced_dirs(&self) -> Vec<Ino> {
        let used = |ino: &Ino| self.inodes.get(*ino).state == State::Used;
        self.dirs.all().iter().map(|d| d.ino).filter(used).collect()
    }

    /// The end of the chain of parents of each unreferenced directory.
    fn tree_tops(&self) -> Vec<(Ino, TreeTop)> {
        let list = self.unreferenced_dirs();
        let mut known: Vec<Option<TreeTop>> = vec![None; list.len()];
        for start in 0..list.len() {
            let mut path: Vec<usize> = Vec::new();
            let mut on_path = BTreeSet::new();
            let mut ino = list[start];
            let top_of = loop {
                let Ok(i) = list.binary_search(&ino) else { break TreeTop::Root };
                if let Some(top_of) = known[i] {
                    break top_of;
                }
                if !on_path.insert(i) {
                    let from = path.iter().position(|&p| p == i).unwrap_or(0);
                    let lowest = path[from..].iter().map(|&p| list[p]).min();
                    break TreeTop::Loop(lowest.unwrap_or(ino));
                }
                path.push(i);
                match self.dirs.get(ino).map_or(Ino(0), |d| d.parent) {
                    Ino(0) => break TreeTop::Orphan(ino),
                    parent => ino = parent,
                }
            };
            path.into_iter().for_each(|i| known[i] = Some(top_of));
        }
        list.into_iter().zip(known).map(|(i, a)| (i, a.unwrap_or(TreeTop::Root))).collect()
    }

    /// Handles a directory without a name, and the tree below it.
    fn handle_orphan(&mut self, top: Ino, tree: &[Ino]) -> Res<()> {
        let clear = self.resolver.is_preen() && self.softdep && !self.keeps_orphan_dir(top)?;
        let what = if clear {
            "unreferenced directory: clear"
        } else {
            "unreferenced directory: reconnect"
        };
        if !self.should_fix(Draft::benign(Id::DirUnref, what).ino(top))? {
            // A directory without a parent must not count as a link of its `..`.
            self.uncount_dotdot(top);
            return Ok(());
        }
        if clear {
            for &ino in tree {
                self.inodes.update(ino, |r| r.state = State::Clear);
                self.uncount_names(ino)?;
                self.remove_all_names(ino)?;
            }
        } else if !self.reconnect(top)? {
            self.resolver.repair_failed();
        }
        Ok(())
    }

    fn keeps_orphan_dir(&mut self, dir: Ino) -> Res<bool> {
        Ok(self.keep_orphans && !self.entries(dir, 1)?.is_empty())
    }

    /// Breaks a loop of directories by reconnecting one of them.
    fn break_loop(&mut self, ino: Ino) -> Res<()> {
        let draft = Draft::fatal(Id::DirLoop, "directories that contain each other: reconnect one");
        if !self.should_fix(draft.ino(ino))? {
            return Ok(());
        }
        let Some(dir) = self.dirs.get(ino) else { return Ok(()) };
        if self.remove_entry(dir.parent, |e| e.ino == ino.0)? {
            self.inodes.count(ino, 1);
        }
        self.dirs.update(ino, |d| d.parent = Ino(0));
        if !self.reconnect(ino)? {
            self.resolver.repair_failed();
        }
        self.rerun_after_phase4();
        Ok(())
    }

    /// Uncounts every name in directory `ino`.
    pub(super) fn uncount_names(&mut self, ino: Ino) -> Res<()> {
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
