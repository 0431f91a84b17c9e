//! Link counts, and which inodes have no name.
//!
//! The count of an inode is the one before its first record, less the names it had then as far as
//! records name them, plus the names that are on the device at the places of its records. An inode
//! without links is freed, and a directory without a name, too. A directory that is freed takes
//! away the links that its entries were.
//!
//! **Invariants.**
//! 1. Nothing is changed here.
//! 2. Every inode is decided to be freed at most once, so the work ends.
//! 3. No count rises: soft updates raise it on the device before they add a name.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use ffs_ondisk::dir::{self, Record};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{FileType, Ino, journal};

use super::lookup::{DOTDOT_OFFSET, is_dot};
use super::table::EntryPlace;
use super::{Recovery, Step, unusable};

/// What was found out about the names of one inode.
#[derive(Debug)]
struct Links {
    /// It is a directory.
    is_dir: bool,
    /// Mode 0 on the device.
    is_free: bool,
    /// The link count on the device.
    stored: i64,
    /// Links that no place of the records accounts for.
    elsewhere: i64,
    /// Records give places of its name.
    has_places: bool,
    /// Places at which a name was found.
    found: BTreeSet<EntryPlace>,
    /// It lost a name that no record names: its directory is freed.
    lost_name: bool,
    /// A directory that had a name before its first record, which no record removes: the records
    /// may end between the new and the old name of a rename.
    keeps_name: bool,
}

impl Links {
    fn count(&self) -> i64 {
        self.elsewhere + self.found.len() as i64
    }

    /// Places of names, without those of `.` and of the `..` of others.
    fn names(&self) -> impl Iterator<Item = &EntryPlace> {
        self.found.iter().filter(|place| !self.is_dir || !is_dot(**place))
    }

    fn has_name(&self) -> bool {
        match (self.is_dir, self.has_places) {
            (true, true) => self.names().next().is_some() || (self.keeps_name && !self.lost_name),
            // The records of a new directory may end before that of its name.
            (true, false) => !self.lost_name && self.count() > 0,
            (false, _) => self.count() > 0,
        }
    }
}

/// What happens to the inodes.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Inodes that are freed: whether they are directories, and whether they are free on the device
    /// already.
    pub(super) freed: BTreeMap<u32, (bool, bool)>,
    /// New link counts.
    pub(super) counts: BTreeMap<u32, u16>,
    /// Directories that must not name a freed inode.
    pub(super) directories: BTreeSet<u32>,
}

/// The decision in progress.
#[derive(Default)]
struct Decision {
    links: BTreeMap<u32, Links>,
    /// Inodes to be decided, again if they lost a link.
    queue: Vec<u32>,
    verdict: Verdict,
}

impl Recovery<'_> {
    /// Decides on every inode that the records name, and on `unlinked`, which have no link.
    pub(super) fn resolve_links(&mut self, unlinked: &[Ino]) -> Step<Verdict> {
        let mut decision = Decision::default();
        for ino in self.tables.links.keys().copied().collect::<Vec<_>>() {
            self.ck.check_interrupt()?;
            if let Some(links) = self.find_links(ino)? {
                decision.links.insert(ino, links);
                decision.queue.push(ino);
            }
            let places = self.tables.links.get(&ino).map(|recs| &recs.places);
            // A record of an inode without a name gives no directory.
            let nowhere = journal::NOWHERE.1.unsigned_abs();
            let named = places.into_iter().flatten().filter(|place| place.1 != nowhere);
            let parents: BTreeSet<u32> = named.map(|place| place.0).collect();
            for &parent in &parents {
                self.check_directory(ino, parent)?;
            }
            decision.verdict.directories.extend(parents);
        }
        for &ino in unlinked {
            self.free_inode(&mut decision, ino.0)?;
        }
        while let Some(ino) = decision.queue.pop() {
            let named = decision.links.get(&ino).is_none_or(Links::has_name);
            if !named {
                self.free_inode(&mut decision, ino)?;
            }
        }
        self.conclude(decision)
    }

    /// Checks that `parent`, in which records place a name of `ino`, can have been a directory. If
    /// it has become another file since, it has records, too.
    fn check_directory(&mut self, ino: u32, parent: u32) -> Step<()> {
        let node = self.inode(Ino(parent))?;
        if node.is_dir() || node.d.mode == 0 || self.tables.links.contains_key(&parent) {
            return Ok(());
        }
        unusable(format!("inode {parent}, with a name of inode {ino}, is not a directory"))
    }

    /// The links of `ino` on the device; `None` if records only move its names.
    fn find_links(&mut self, ino: u32) -> Step<Option<Links>> {
        let Some(recs) = self.tables.links.get(&ino) else { return Ok(None) };
        let Some(start) = recs.start else { return Ok(None) };
        let (mode, places) = (recs.mode, recs.places.clone());
        let keeps_name = start > 0 && recs.initial.iter().all(|&place| is_dot(place));
        let elsewhere = i64::from(start) - recs.initial.len() as i64;
        if elsewhere < 0 {
            return unusable(format!("inode {ino}: more names removed than its {start} links"));
        }
        let mut links = self.stored_links(ino)?;
        links.elsewhere = elsewhere;
        links.keeps_name = keeps_name;
        let recorded = FileType::of_mode(mode);
        if links.is_free {
            links.is_dir = recorded == Some(FileType::Directory);
        }
        links.has_places = places.iter().any(|&place| !links.is_dir || !is_dot(place));
        let actual = self.inode(Ino(ino))?.d.file_type();
        for place in places {
            let Some(entry) = self.entry_at(place)? else { continue };
            if entry.ino != ino {
                continue;
            }
            let typed = actual.map(FileType::dirent);
            if !self.ck.g.old_ids && typed.is_some_and(|dtype| dtype != entry.dtype) {
                let (dir, off) = place;
                return unusable(format!(
                    "directory {dir}, offset {off}: type {} of inode {ino} is wrong",
                    entry.dtype
                ));
            }
            links.found.insert(place);
        }
        Ok(Some(links))
    }

    /// The links of `ino` by its stored count.
    fn stored_links(&mut self, ino: u32) -> Step<Links> {
        let node = self.inode(Ino(ino))?;
        Ok(Links {
            is_dir: node.is_dir(),
            is_free: node.d.mode == 0,
            stored: node.d.nlink.into(),
            elsewhere: node.d.nlink.into(),
            has_places: false,
            found: BTreeSet::new(),
            lost_name: false,
            keeps_name: false,
        })
    }

    /// Decides that `ino` is freed, and takes away the links that its entries are.
    fn free_inode(&mut self, decision: &mut Decision, ino: u32) -> Step<()> {
        if decision.verdict.freed.contains_key(&ino) {
            return Ok(());
        }
        if ino <= Ino::ROOT.0 || Ino(ino) == self.journal {
            return unusable(format!("inode {ino}, which the volume needs, would be freed"));
        }
        self.ck.check_interrupt()?;
        let node = self.inode(Ino(ino))?;
        let free = node.d.mode == 0;
        let recorded = decision.links.get(&ino).is_some_and(|links| links.is_dir);
        let is_dir = if free { recorded } else { node.is_dir() };
        decision.verdict.freed.insert(ino, (is_dir, free));
        if free || !is_dir {
            return Ok(());
        }
        for (place, child) in self.entries_of(ino)? {
            if place.1 == 0 {
                continue;
            }
            if child < Ino::ROOT.0 || child >= self.ck.g.inodes() {
                return unusable(format!("directory {ino} names inode {child}, out of range"));
            }
            if place.1 == DOTDOT_OFFSET {
                decision.verdict.directories.insert(child);
            }
            let links = match decision.links.entry(child) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(self.stored_links(child)?),
            };
            if !links.found.remove(&place) {
                links.elsewhere -= 1;
                links.lost_name |= place.1 != DOTDOT_OFFSET;
                links.has_places &= !links.lost_name;
            }
            decision.queue.push(child);
        }
        Ok(())
    }

    /// Places and inode numbers of the entries of directory `ino`.
    pub(super) fn entries_of(&mut self, ino: u32) -> Step<Vec<(EntryPlace, u32)>> {
        let fmt = self.ck.dir_format();
        let mut node = self.inode(Ino(ino))?;
        let blocks = self.ck.dir_blocks(&mut node)?;
        let mut out = Vec::new();
        for block in blocks {
            let bytes = self.ck.read_dir_block(&block)?;
            if (out.len() * size_of::<(EntryPlace, u32)>()) as u64 > self.ck.disk.limit() {
                return unusable(format!("directory {ino} needs too much memory"));
            }
            let whole = bytes.get(..block.len).unwrap_or(&[]);
            for (offset, dirblk) in (block.offset..).step_by(DIRBLKSIZ).zip(whole.chunks(DIRBLKSIZ))
            {
                for rec in dir::records(fmt, dirblk) {
                    let Ok(rec) = rec else {
                        return unusable(format!("directory {ino} is damaged at offset {offset}"));
                    };
                    if Record::live(&rec) && rec.ino != Ino::WHITEOUT.0 {
                        out.push(((ino, offset + rec.off as u64), rec.ino));
                    }
                }
            }
        }
        Ok(out)
    }

    /// Checks the decision against the stored counts.
    fn conclude(&mut self, decision: Decision) -> Step<Verdict> {
        let Decision { links, mut verdict, .. } = decision;
        for (&ino, links) in &links {
            if verdict.freed.contains_key(&ino) {
                if links.names().next().is_some() {
                    return unusable(format!("inode {ino} has a name, but no link"));
                }
                continue;
            }
            let (count, stored) = (links.count(), links.stored);
            let least = if links.is_dir { 2 } else { 1 };
            if links.is_free {
                return unusable(format!("inode {ino} is free, but has {count} links"));
            }
            if count > stored || count < least {
                return unusable(format!("inode {ino} has {stored} links, by the records {count}"));
            }
            if links.is_dir {
                self.check_parent(ino, links)?;
            }
            self.examined.insert(ino);
            if let Ok(count) = u16::try_from(count)
                && i64::from(count) != stored
            {
                verdict.counts.insert(ino, count);
            }
        }
        Ok(verdict)
    }

    /// Checks that a directory has one name, in the directory that its `..` names.
    fn check_parent(&mut self, ino: u32, links: &Links) -> Step<()> {
        let mut names = links.names();
        let (Some(&(parent, _)), more) = (names.next(), names.next()) else { return Ok(()) };
        if more.is_some() {
            return unusable(format!("directory {ino} has two names"));
        }
        match self.entry_at((ino, DOTDOT_OFFSET))? {
            Some(dotdot) if dotdot.ino == parent => Ok(()),
            _ => unusable(format!("`..` of directory {ino} does not name directory {parent}")),
        }
    }
}
