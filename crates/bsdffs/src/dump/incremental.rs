//! Restoring a whole file system: a dump of level 0, and incremental dumps on top of it.
//!
//! A dump has the content of every directory that changed, the changed files, and the map of the
//! inodes in use. The names of the target before ([`SymTable`]) with these directories replaced are
//! the names afterwards. Names with the same inode, type and directory stay. The others are changed
//! in an order without conflicts: files and directories that move get a temporary name in the root
//! first, then removed names are removed, and then everything gets its new name.
//!
//! # Invariants
//! 1. Only names that an earlier dump restored are removed or renamed. Other files in the target
//!    stay; a directory that has such a file is not removed, which is reported.
//! 2. A dump that does not fit the state of the target is refused before a change.

use std::collections::{BTreeMap, BTreeSet};

use ffs_ondisk::{Ino, journal};

use super::restore::Restore;
use super::source::StreamSource;
use super::symtable::SymTable;
use super::target::Target;
use super::tree::{Entries, Tree};
use crate::text::escape;

/// A restore of a whole file system.
pub struct Incremental {
    restore: Restore,
    /// Names before and after.
    old: Tree,
    new: Tree,
    problems: Vec<String>,
}

impl Incremental {
    /// Prepares to apply the dump to a target with the names `table`; `None` if nothing was
    /// restored there before.
    ///
    /// # Errors
    /// The dump does not fit, and why.
    pub fn new(restore: Restore, table: Option<SymTable>) -> Result<Incremental, String> {
        check_order(&restore, table.as_ref())?;
        let mut table = table.unwrap_or_else(SymTable::empty);
        drop_own_files(&mut table.dirs);
        let (old, _) = Tree::build(&table.dirs, |_| true);
        let mut dirs = table.dirs;
        // An inode in the dump is what the dump has, also if it was a directory before.
        dirs.retain(|ino, _| !restore.dumped.contains(*ino) && restore.used.contains(*ino));
        dirs.extend(restore.dirs.iter().map(|(ino, entries)| (*ino, entries.clone())));
        drop_own_files(&mut dirs);
        let is_old = |ino: u32| {
            let directory = dirs.contains_key(&ino);
            old.nodes_of(ino).any(|n| old.nodes[n as usize].directory == directory)
        };
        let keep =
            |ino| restore.used.contains(ino) && (restore.dumped.contains(ino) || is_old(ino));
        let (new, problems) = Tree::build(&dirs, keep);
        let problems = problems.iter().map(|(path, why)| format!("{}: {why}", escape(path)));
        let problems = problems.collect();
        Ok(Incremental { restore, old, new, problems })
    }

    /// Removes and renames. Calls `log` with each change; returns what failed.
    pub fn change_names(
        &mut self,
        target: &mut dyn Target,
        log: &mut dyn FnMut(&str),
    ) -> Vec<String> {
        let problems = std::mem::take(&mut self.problems);
        let mut change = Change {
            old: &self.old,
            new: &self.new,
            live: self.old.nodes.iter().map(|node| (node.parent, node.name.clone())).collect(),
            temporary: BTreeMap::new(),
            kept: BTreeSet::new(),
            target,
            log,
            problems,
        };
        change.find_kept();
        change.unprotect(&|ino| self.restore.dumped.contains(ino));
        change.files_away(&|ino| self.restore.dumped.contains(ino));
        change.directories_away();
        change.remove_directories();
        change.place_directories();
        change.place_files(&|ino| self.restore.dumped.contains(ino));
        change.problems
    }

    /// The files of the dump, under their new names, and the table for the next dump.
    #[must_use]
    pub fn into_source(self) -> (StreamSource, SymTable) {
        let header = self.restore.header();
        let table = SymTable::of_tree(&self.new, header.date, header.level);
        (self.restore.source_of(self.new), table)
    }
}

/// Refuses a dump that is not the next one.
fn check_order(restore: &Restore, table: Option<&SymTable>) -> Result<(), String> {
    let header = restore.header();
    let full = header.ddate == 0;
    match table {
        None if full => Ok(()),
        None => Err(format!(
            "this is a dump of level {}, and the target has no restoresymtable: restore the dump \
             of level 0 first",
            header.level
        )),
        Some(_) if full => Err("this is a full dump, and the target has a restoresymtable of an \
                                earlier restore: restore into an empty directory or file system"
            .to_owned()),
        Some(table) if header.date <= table.date => {
            Err("incremental dump too low: it is not later \
                                                         than the dump that was restored last"
                .to_owned())
        }
        Some(table) if header.ddate > table.date => {
            Err("incremental dump too high: a dump between \
                                                         the one restored last and this one is \
                                                         missing"
                .to_owned())
        }
        Some(_) => Ok(()),
    }
}

/// Leaves out what belongs to the target, not to the tree: the table of an earlier restore, which
/// the dumped file system may contain, too, and the journal, which dumps of BSD contain.
fn drop_own_files(dirs: &mut BTreeMap<u32, Entries>) {
    if let Some(root) = dirs.get_mut(&Ino::ROOT.0) {
        root.retain(|(_, name)| **name != *SymTable::NAME && **name != *journal::NAME);
    }
}

struct Change<'a> {
    old: &'a Tree,
    new: &'a Tree,
    /// For each old node, its directory and name in the target now.
    live: Vec<(u32, Box<[u8]>)>,
    /// Inodes with a temporary name.
    temporary: BTreeMap<u32, Vec<u8>>,
    /// Old nodes that keep their name.
    kept: BTreeSet<u32>,
    target: &'a mut dyn Target,
    log: &'a mut dyn FnMut(&str),
    problems: Vec<String>,
}

/// A name by the inode of its directory.
type Key<'t> = (u32, &'t [u8]);

impl Change<'_> {
    fn find_kept(&mut self) {
        let nodes = |tree: &Tree| 1..tree.nodes.len() as u32;
        let key = |tree: &'_ Tree, n: u32| {
            let node = &tree.nodes[n as usize];
            (tree.nodes[node.parent as usize].ino, n)
        };
        let mut wanted: BTreeMap<Key<'_>, (u32, bool)> = BTreeMap::new();
        for n in nodes(self.new) {
            let node = &self.new.nodes[n as usize];
            wanted.insert((key(self.new, n).0, &node.name), (node.ino, node.directory));
        }
        for n in nodes(self.old) {
            let node = &self.old.nodes[n as usize];
            let found = wanted.get(&(key(self.old, n).0, &node.name[..]));
            if found == Some(&(node.ino, node.directory)) {
                self.kept.insert(n);
            }
        }
        self.kept.insert(0);
    }

    /// The path of an old node in the target now.
    fn live_path(&self, node: u32) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = node;
        while at != 0 {
            let (parent, name) = &self.live[at as usize];
            names.push(&name[..]);
            at = *parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    fn note(&mut self, result: Result<(), String>, what: impl FnOnce() -> String) -> bool {
        match result {
            Ok(()) => {
                (self.log)(&what());
                true
            }
            Err(why) => {
                self.problems.push(why);
                false
            }
        }
    }

    /// Clears flags that forbid a change below, and the extended attributes of directories whose
    /// attributes are in the dump.
    fn unprotect(&mut self, dumped: &dyn Fn(u32) -> bool) {
        for n in 0..self.old.nodes.len() as u32 {
            let node = &self.old.nodes[n as usize];
            let in_dump = dumped(node.ino);
            if self.kept.contains(&n) && !in_dump {
                continue;
            }
            let path = self.live_path(n);
            if let Err(why) = self.target.unprotect(&path) {
                self.problems.push(why);
            }
            if in_dump
                && node.directory
                && self.new_directory(node.ino).is_some()
                && let Err(why) = self.target.clear_xattrs(&path)
            {
                self.problems.push(why);
            }
        }
    }

    /// Removes names of files. The last name of a file that stays gets a temporary name.
    fn files_away(&mut self, dumped: &dyn Fn(u32) -> bool) {
        for n in 1..self.old.nodes.len() as u32 {
            let node = &self.old.nodes[n as usize];
            if node.directory || self.kept.contains(&n) {
                continue;
            }
            let ino = node.ino;
            let stays = !dumped(ino)
                && self.new.nodes_of(ino).any(|new| !self.new.nodes[new as usize].directory)
                && !self.old.nodes_of(ino).any(|other| self.kept.contains(&other))
                && !self.temporary.contains_key(&ino);
            let path = self.live_path(n);
            if stays {
                self.away(n, ino, &path);
            } else {
                let removed = self.target.unlink(&path);
                self.note(removed, || format!("remove {}", escape(&path)));
            }
        }
    }

    /// Gives an old node a temporary name in the root.
    fn away(&mut self, node: u32, ino: u32, path: &[u8]) {
        let temporary = format!(".ffs-restore.{ino}").into_bytes();
        let renamed = self.target.rename(path, &temporary);
        let what = || format!("rename {} to {}", escape(path), escape(&temporary));
        if self.note(renamed, what) {
            self.live[node as usize] = (0, temporary.clone().into());
            self.temporary.insert(ino, temporary);
        }
    }

    /// The new node of a directory.
    fn new_directory(&self, ino: u32) -> Option<u32> {
        self.new.nodes_of(ino).find(|n| self.new.nodes[*n as usize].directory)
    }

    fn directories_away(&mut self) {
        for n in 1..self.old.nodes.len() as u32 {
            let node = &self.old.nodes[n as usize];
            if !node.directory || self.kept.contains(&n) || self.new_directory(node.ino).is_none() {
                continue;
            }
            let (ino, path) = (node.ino, self.live_path(n));
            self.away(n, ino, &path);
        }
    }

    fn remove_directories(&mut self) {
        for n in (1..self.old.nodes.len() as u32).rev() {
            let node = &self.old.nodes[n as usize];
            if !node.directory || self.kept.contains(&n) || self.new_directory(node.ino).is_some() {
                continue;
            }
            let path = self.live_path(n);
            let removed = self.target.rmdir(&path);
            self.note(removed, || format!("remove directory {}", escape(&path)));
        }
    }

    fn place_directories(&mut self) {
        for n in 1..self.new.nodes.len() as u32 {
            let node = &self.new.nodes[n as usize];
            if !node.directory {
                continue;
            }
            let path = self.new.path(n);
            if let Some(temporary) = self.temporary.remove(&node.ino) {
                let renamed = self.target.rename(&temporary, &path);
                self.note(renamed, || format!("rename directory to {}", escape(&path)));
            } else if !self.old.nodes_of(node.ino).any(|old| self.kept.contains(&old)) {
                let made = self.target.mkdir(&path);
                self.note(made, || format!("create directory {}", escape(&path)));
            }
        }
    }

    /// Gives files that stay their new names.
    fn place_files(&mut self, dumped: &dyn Fn(u32) -> bool) {
        let kept: BTreeSet<Key<'_>> = self.kept.iter().map(|n| self.key_of(self.old, *n)).collect();
        // Nodes, not paths: a stream can give many files long paths with few bytes.
        let mut present: BTreeMap<u32, u32> = BTreeMap::new();
        let mut wanted = Vec::new();
        for n in 1..self.new.nodes.len() as u32 {
            let node = &self.new.nodes[n as usize];
            if node.directory || dumped(node.ino) {
                continue;
            }
            if kept.contains(&self.key_of(self.new, n)) {
                present.entry(node.ino).or_insert(n);
            } else {
                wanted.push(n);
            }
        }
        for n in wanted {
            let (ino, path) = (self.new.nodes[n as usize].ino, self.new.path(n));
            let done = match (self.temporary.remove(&ino), present.get(&ino)) {
                (Some(temporary), _) => self.target.rename(&temporary, &path),
                (None, Some(other)) => self.target.link(&self.new.path(*other), &path),
                (None, None) => Err(format!("{}: no name of its file is left", escape(&path))),
            };
            if self.note(done, || format!("rename or link to {}", escape(&path))) {
                present.entry(ino).or_insert(n);
            }
        }
    }

    fn key_of<'t>(&self, tree: &'t Tree, n: u32) -> Key<'t> {
        let node = &tree.nodes[n as usize];
        (tree.nodes[node.parent as usize].ino, &node.name)
    }
}
