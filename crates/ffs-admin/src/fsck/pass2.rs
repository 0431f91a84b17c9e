//! Phase 2: pathnames.
//!
//! **Purpose.** Reads every directory, checks every entry, counts the names of every inode and
//! finds the parent of every directory.
//!
//! **Invariants.**
//! 1. Directories are read in the order of their first blocks, reachable or not.
//! 2. After phase 2, `unaccounted` of an inode is its stored link count less its names, including
//!    `.` and `..`.
//!
//! References: spec/fsck-and-crash.md §3.3.

use std::cell::RefCell;

use ffs_ondisk::Ino;
use ffs_ondisk::dir::{self, DT_WHT, Record};
use ffs_ondisk::geometry::DIRBLKSIZ;

use super::buffered::Class;
use super::checker::Checker;
use super::corrections::Correction;
use super::dirblk::{Entry, leading_dots, new_dirblk, remove_record, second_record, zero_unused};
use super::dircheck::DirScan;
use super::directory::DataBlock;
use super::dupnames::name_hash;
use super::inoinfo::{InoInfo, InoStat, State};
use super::readahead::{DirRuns, DirsRead};
use super::report::{Id, Phase, exit};
use super::resolve::{Draft, Res, Stop};

/// The smallest directory: `.` and `..`.
const MINDIRSIZE: u64 = 24;

/// What to do with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryAction {
    Keep,
    Remove,
    Retype(u8),
    Whiteout,
}

impl Checker<'_> {
    /// Scans all directories.
    pub(super) fn phase2(&mut self) -> Res<()> {
        let chunks = self.dirs.all().iter().map(|d| u64::from(d.size) / DIRBLKSIZ as u64).sum();
        self.begin_phase(Phase::Names, chunks)?;
        self.check_root()?;
        let order = self.dirs.reading_order();
        let dirs = self.dirs.all();
        let runs = DirRuns::new(&self.g, order.iter().filter_map(|&at| dirs.get(at as usize)));
        let reader = self.disk.reader();
        let work = |piece: usize, read: &mut DirsRead| runs.read(piece, &reader, read);
        let (mut scan, mut order) = (DirScan::default(), order.as_slice());
        self.threads.in_order(runs.pieces(), work, |piece, read| -> Res<()> {
            self.check_interrupt()?;
            scan.batch.swap(read);
            for (i, &run) in runs.of(piece).iter().enumerate() {
                scan.batch.go_to(i, run);
                let (covered, others) = order.split_at(order.len().min(run.dirs as usize));
                order = others;
                self.scan_directories(&mut scan, covered)?;
            }
            scan.batch.swap(read);
            Ok(())
        })?;
        self.check_dotdots()?;
        self.propagate();
        self.end_phase()
    }

    /// Scans the directories at these places of the list.
    fn scan_directories(&mut self, scan: &mut DirScan, places: &[u32]) -> Res<()> {
        for &at in places {
            // From here on this phase neither creates nor removes a directory, so the places stay
            // valid.
            let Some(&dir) = self.dirs.all().get(at as usize) else { break };
            self.scan_directory(scan, &dir)?;
        }
        Ok(())
    }

    /// Checks that the root is a directory with content.
    fn check_root(&mut self) -> Res<()> {
        let rec = self.inodes.get(Ino::ROOT);
        let (id, message) = match rec.state {
            State::Unallocated => {
                (Id::RootUnalloc, "root inode unallocated: make a new root directory")
            }
            State::DupBad => (Id::RootDup, "bad or duplicate blocks: make a new root directory"),
            State::ZeroDir => (Id::RootZero, "root directory of size 0: make a new one"),
            _ if !rec.is_dir() => (Id::RootType, "root is not a directory: make a new one"),
            _ => return Ok(()),
        };
        if !self.should_fix(Draft::fatal(id, message).ino(Ino::ROOT))? {
            return Err(Stop::Refused(exit::ERROR, "there is no usable root directory".into()));
        }
        self.dirs.remove(Ino::ROOT);
        self.clear_inode(Ino::ROOT)?;
        let made = self.make_directory(Ino::ROOT, Ino::ROOT, 0o755)?;
        if !made {
            self.resolver.repair_failed();
            return Err(Stop::Refused(exit::ERROR, "no space for a root directory".into()));
        }
        self.restart_after_phase();
        Ok(())
    }

    /// Writes a new, empty directory to the free inode `ino`; `false` if there is no space.
    pub(super) fn make_directory(&mut self, ino: Ino, parent: Ino, mode: u16) -> Res<bool> {
        let Some(at) = self.alloc_frags(1)? else { return Ok(false) };
        let mut bytes = new_dirblk(self.dir_format(), ino, parent);
        bytes.resize(self.g.fsize as usize, 0);
        for dirblk in bytes.chunks_exact_mut(DIRBLKSIZ).skip(1) {
            dir::clear_chunk(self.dir_format(), dirblk);
        }
        self.disk.write(at, &bytes, Class::Data)?;
        let mut node = self.read_inode(ino)?;
        let (generation, now) = (node.d.generation, self.timespec());
        node.d = ffs_ondisk::Dinode {
            mode: 0o040_000 | (mode & 0o7777),
            nlink: 2,
            size: DIRBLKSIZ as u64,
            blocks: self.g.frags_to_sectors(1),
            generation: generation.wrapping_add(1).max(1),
            atime: now,
            mtime: now,
            ctime: now,
            birthtime: now,
            ..ffs_ondisk::Dinode::default()
        };
        node.d.db[0] = at.pointer();
        self.write_inode(&mut node)?;
        // Both names of it, `.` and the one in the parent, are counted from the start.
        let rec = InoStat { state: State::Found, dtype: 4, nlink: 2, unaccounted: 0 };
        self.inodes.set(ino, rec);
        let mut dir = InoInfo::new(ino, at.0, DIRBLKSIZ as u64);
        (dir.parent, dir.dotdot, dir.has_dotdot) = (parent, parent, true);
        self.dirs.insert(dir);
        Ok(true)
    }

    fn scan_directory(&mut self, scan: &mut DirScan, dir: &InoInfo) -> Res<()> {
        if !self.check_dir_size(dir)? {
            return Ok(());
        }
        let ino = dir.ino;
        scan.ino = ino;
        scan.names.clear();
        let blocks = self.blocks_of_directory(dir)?;
        for block in &blocks {
            self.scan_block(scan, block)?;
            self.advance((block.len / DIRBLKSIZ) as u64);
        }
        for entry in std::mem::take(&mut scan.spilled) {
            let _ = self.add_entry(ino, &entry)?;
        }
        self.check_duplicate_names(scan)
    }

    /// Whether the directory can be read with its size.
    fn check_dir_size(&mut self, dir: &InoInfo) -> Res<bool> {
        let (ino, size) = (dir.ino, u64::from(dir.size));
        let (draft, sane) = if size < MINDIRSIZE {
            (Draft::fatal(Id::DirShort, "directory too short"), false)
        } else if !size.is_multiple_of(DIRBLKSIZ as u64) {
            let message = "directory size is not a multiple of 512";
            (Draft::fatal_if(self.softdep, Id::DirMult, message), true)
        } else {
            return Ok(true);
        };
        let right = size.next_multiple_of(DIRBLKSIZ as u64);
        if !self.should_fix(draft.ino(ino).before(size).after(right))? {
            return Ok(sane);
        }
        let mut node = self.read_inode(ino)?;
        node.d.size = right;
        self.write_inode(&mut node)?;
        Ok(true)
    }

    fn scan_block(&mut self, scan: &mut DirScan, block: &DataBlock) -> Res<()> {
        let mut buf = std::mem::take(&mut scan.buf);
        self.fill_dir_block(&scan.batch, block, &mut buf)?;
        let mut changed = false;
        let fmt = self.dir_format();
        for (i, dirblk) in buf.chunks_exact_mut(DIRBLKSIZ).enumerate() {
            let offset = block.offset + (i * DIRBLKSIZ) as u64;
            changed |= self.check_chain(scan, dirblk, offset)?;
            if offset == 0 {
                changed |= self.check_dots(scan, dirblk)?;
            }
            changed |= self.check_entries(scan, dirblk, offset)?;
            if self.zero_unused && self.resolver.can_write() {
                changed |= zero_unused(fmt, dirblk);
            }
        }
        if changed && self.resolver.can_write() {
            self.disk.patch(block.at, 0, &buf, Class::Data)?;
        }
        scan.buf = buf;
        Ok(())
    }

    fn check_entries(&mut self, scan: &mut DirScan, dirblk: &mut [u8], offset: u64) -> Res<bool> {
        let fmt = self.dir_format();
        let dots = if offset == 0 { leading_dots(fmt, dirblk) } else { 0 };
        let (mut at, mut prev, mut changed, mut index) = (0, None, false, 0);
        while at < dirblk.len() {
            // A chain of records that was not repaired ends here.
            let rec = if scan.all_valid {
                dir::read_again(fmt, dirblk, at)
            } else {
                dir::read(fmt, dirblk, at)
            };
            let Ok(rec) = rec else { break };
            let len = rec.reclen;
            let verdict = if !rec.live() || (index >= dots && self.count_entry_fast(scan, &rec)) {
                EntryAction::Keep
            } else if index < dots {
                self.count_dot(scan, &rec);
                EntryAction::Keep
            } else {
                self.check_entry(scan, &Entry::of(&rec), offset + at as u64)?
            };
            changed |= verdict != EntryAction::Keep;
            match verdict {
                EntryAction::Remove => {
                    remove_record(fmt, dirblk, prev, at);
                    prev = prev.or(Some(at));
                }
                EntryAction::Retype(t) => dir::set_type(fmt, dirblk, at, t),
                EntryAction::Whiteout => {
                    dir::set_ino(fmt, dirblk, at, Ino::WHITEOUT.0);
                    dir::set_type(fmt, dirblk, at, DT_WHT);
                }
                EntryAction::Keep => {}
            }
            if verdict != EntryAction::Remove {
                prev = Some(at);
            }
            index += 1;
            at += len;
        }
        Ok(changed)
    }

    fn count_dot(&mut self, scan: &DirScan, dot: &Record<'_>) {
        if dot.name == b"." {
            self.inodes.count(scan.ino, -1);
        }
    }

    /// Counts a live entry that has no problem; `false`, with nothing counted, if the entry must be
    /// checked in full.
    fn count_entry_fast(&mut self, scan: &mut DirScan, entry: &Record<'_>) -> bool {
        let child = Ino(entry.ino);
        let old = self.g.maxsymlinklen == 0;
        let Some(rec) = self.inodes.get_mut(child) else { return false };
        let in_use = child.0 >= 2 && matches!(rec.state, State::Used | State::Found);
        let dot = matches!(entry.name, b"." | b"..");
        if !in_use || dot || (entry.dtype != rec.dtype && !old) {
            return false;
        }
        if rec.is_dir() && !self.dirs.find_parent(child, scan.ino) {
            return false;
        }
        rec.unaccounted = rec.unaccounted.saturating_sub(1);
        scan.names.push(name_hash(entry.name));
        true
    }

    fn check_entry(&mut self, scan: &mut DirScan, entry: &Entry, offset: u64) -> Res<EntryAction> {
        let fmt = self.dir_format();
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let place = format!("entry {name:?} at offset {offset}");
        let draft = |id, message: &str| {
            let draft = Draft::fatal(id, message).ino(scan.ino).place(place.clone());
            draft.entry(&entry.name, Some(Ino(entry.ino))).before(entry.ino)
        };
        let refuse = |ck: &mut Self, draft| -> Res<EntryAction> {
            Ok(if ck.should_fix(draft)? { EntryAction::Remove } else { EntryAction::Keep })
        };
        match entry.name.as_slice() {
            b"." => return refuse(self, draft(Id::DotExtra, "another `.`: remove")),
            b".." => return refuse(self, draft(Id::DotDotExtra, "another `..`: remove")),
            _ => {}
        }
        let (number, kind) = (entry.ino == Ino::WHITEOUT.0, entry.dtype == DT_WHT);
        if !fmt.old && (number || kind) {
            if number && kind {
                return Ok(EntryAction::Keep);
            }
            let fix =
                self.should_fix(draft(Id::EntWhiteout, "incomplete whiteout: complete it"))?;
            return Ok(if fix { EntryAction::Whiteout } else { EntryAction::Keep });
        }
        if entry.ino < 2 || entry.ino >= self.g.inodes() {
            return refuse(self, draft(Id::EntRange, "inode number out of range: remove"));
        }
        let child = Ino(entry.ino);
        let rec = self.inodes.get(child);
        match rec.state {
            State::Unallocated => {
                return refuse(self, draft(Id::EntUnalloc, "unallocated inode: remove"));
            }
            State::DupBad => {
                // An entry that remains counts as a name: phase 4 asks about the inode.
                let verdict =
                    refuse(self, draft(Id::EntDupBad, "bad or duplicate blocks: remove"))?;
                if verdict == EntryAction::Remove {
                    return Ok(verdict);
                }
            }
            State::ZeroDir => {
                let d = Draft::benign(Id::EntZeroDir, "directory of size 0: remove");
                let d = d.ino(scan.ino).place(place).entry(&entry.name, Some(child));
                return refuse(self, d.before(entry.ino));
            }
            _ => {}
        }
        if rec.is_dir() && self.is_second_name(scan.ino, child, &entry.name, &place)? {
            return Ok(EntryAction::Remove);
        }
        scan.names.push(name_hash(&entry.name));
        self.inodes.count(child, -1);
        if entry.dtype != rec.dtype && !fmt.old {
            let d = Draft::benign(Id::EntType, "wrong type in the entry").ino(scan.ino);
            let d = d.entry(&entry.name, Some(child));
            if self.should_fix(d.place(place).before(entry.dtype).after(rec.dtype))? {
                return Ok(EntryAction::Retype(rec.dtype));
            }
        }
        Ok(EntryAction::Keep)
    }

    /// Whether to remove this name of directory `child` because `child` has another name.
    fn is_second_name(&mut self, here: Ino, child: Ino, name: &[u8], place: &str) -> Res<bool> {
        let Some(dir) = self.dirs.get(child) else { return Ok(false) };
        let first = if child == Ino::ROOT { Ino::ROOT } else { dir.parent };
        if first.0 == 0 {
            self.dirs.update(child, |d| d.parent = here);
            return Ok(false);
        }
        let draft = Draft::benign(Id::EntHardDir, "second name of a directory: remove one");
        let draft = draft.ino(here).place(place).entry(name, Some(child)).before(child);
        let dotdot = if dir.has_dotdot { dir.dotdot } else { self.peek_dotdot(child)? };
        let keep_this = first != here && dotdot == here && child != Ino::ROOT && child != here;
        if !self.should_fix(draft)? {
            return Ok(false);
        }
        if !keep_this {
            self.correct_second_name(child, (here, name.to_vec()), first)?;
            return Ok(true);
        }
        let removed = RefCell::new(Vec::new());
        let is_it = |e: &Entry| {
            let found = e.ino == child.0;
            if found {
                removed.replace(e.name.clone());
            }
            found
        };
        if self.remove_entry(first, is_it)? {
            self.inodes.count(child, 1);
            self.correct_second_name(child, (first, removed.into_inner()), here)?;
        }
        self.dirs.update(child, |d| d.parent = here);
        Ok(false)
    }

    /// The inode number in `..` of a directory that may not have been scanned yet; 0 if there is
    /// none.
    fn peek_dotdot(&mut self, dir: Ino) -> Res<Ino> {
        let fmt = self.dir_format();
        let mut found = Ino(0);
        self.for_each_dirblk(dir, |dirblk| {
            if let Some((off, name)) = second_record(fmt, dirblk)
                && name == b".."
            {
                found = Ino(ffs_ondisk::wire::get(dirblk, off, fmt.endian));
            }
            super::directory::Flow { changed: false, done: true }
        })?;
        Ok(found)
    }

    /// Compares `..` of every directory with the directory that contains its name, and counts it.
    fn check_dotdots(&mut self) -> Res<()> {
        self.dirs.update(Ino::ROOT, |d| d.parent = Ino::ROOT);
        // This loop neither creates nor removes a directory.
        for i in 0..self.dirs.all().len() {
            let Some(&dir) = self.dirs.all().get(i) else { break };
            let ino = dir.ino;
            if dir.parent.0 != 0 && !dir.has_dotdot {
                let draft =
                    Draft::fatal(Id::DotDotMissing, "the second entry is not `..`: enter it");
                if self.should_fix(draft.ino(ino).after(dir.parent))? {
                    self.set_dotdot(ino, dir.parent)?;
                    self.restart_after_phase();
                }
            } else if dir.parent.0 != 0 && dir.dotdot != dir.parent {
                let draft = Draft::benign(Id::DotDotWrong, "`..` names another directory").ino(ino);
                if self.should_fix(draft.before(dir.dotdot).after(dir.parent))? {
                    let (id, from) = (self.file_id(ino)?, dir.dotdot);
                    self.correct(Correction::SetDotDot { dir: id, from, to: dir.parent });
                    self.set_dotdot(ino, dir.parent)?;
                }
            }
            self.count_dotdot(ino);
        }
        Ok(())
    }

    /// Counts `..` of a directory as a link of the directory that it names.
    fn count_dotdot(&mut self, ino: Ino) {
        let Some(d) = self.dirs.get(ino) else { return };
        if d.has_dotdot && self.inodes.get(d.dotdot).is_dir() {
            self.inodes.count(d.dotdot, -1);
            self.dirs.update(ino, |d| d.dotdot_counted = true);
        }
    }

    /// Stops counting `..` of a directory, if it is counted.
    pub(super) fn uncount_dotdot(&mut self, ino: Ino) {
        let Some(d) = self.dirs.get(ino) else { return };
        if d.dotdot_counted {
            self.inodes.count(d.dotdot, 1);
            self.dirs.update(ino, |d| d.dotdot_counted = false);
        }
    }

    /// Marks the directories that are reachable from the root.
    pub(super) fn propagate(&mut self) {
        self.inodes.update(Ino::ROOT, |r| r.state = State::Found);
        // Directories found unreachable here, so that each chain of parents is followed once.
        let mut dead = vec![false; self.dirs.all().len()];
        let mut path: Vec<(usize, Ino)> = Vec::new();
        for start in 0..dead.len() {
            path.clear();
            let mut at = Some(start);
            let reached = loop {
                let Some((i, dir)) = at.and_then(|i| Some((i, self.dirs.all().get(i)?))) else {
                    break false;
                };
                match self.inodes.get(dir.ino).state {
                    State::Found => break true,
                    State::Used if !dead[i] => {}
                    _ => break false,
                }
                // Unreachable until proven otherwise; this also ends chains that form a loop.
                dead[i] = true;
                path.push((i, dir.ino));
                at = self.dirs.position(dir.parent);
            };
            if reached {
                for &(i, ino) in &path {
                    dead[i] = false;
                    self.inodes.update(ino, |r| r.state = State::Found);
                }
            }
        }
    }
}
