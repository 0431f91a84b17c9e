//! Phase 2: pathnames.
//!
//! **Purpose.** Reads every directory, judges every entry, counts the names of every inode and finds the parent
//! of every directory.
//!
//! **Invariants.**
//! 1. Directories are read in the order of their first blocks, whether they are reachable or not.
//! 2. Afterwards `remaining` of an inode is its stored link count less the names it has, `.` and `..` included.
//!
//! References: spec/fsck-and-crash.md §3.3.

use ffs_ondisk::Ino;
use ffs_ondisk::dir::{self, DT_WHT, Record};
use ffs_ondisk::geometry::DIRBLKSIZ;

use super::Checker;
use super::chunk::{Scan, zero_unused};
use super::dirio::{DirBlock, Entry, new_chunk, remove_record, second_record};
use super::dupnames::name_hash;
use super::judge::{Draft, Res, Stop};
use super::report::{Id, Phase, exit};
use super::store::Class;
use super::tables::{Dir, Rec, State};

/// The smallest directory: `.` and `..`.
const MINDIRSIZE: u64 = 24;

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keep,
    Remove,
    Retype(u8),
    Whiteout,
}

impl Checker<'_> {
    /// Looks at all directories.
    pub(super) fn phase2(&mut self) -> Res<()> {
        let chunks = self.dirs.all().iter().map(|d| u64::from(d.size) / DIRBLKSIZ as u64).sum();
        self.enter(Phase::Names, chunks)?;
        self.check_root()?;
        let order = self.dirs.reading_order();
        let mut scan = Scan::default();
        // From here on no directory is made or removed in this phase: the indexes stay right.
        for (i, &at) in order.iter().enumerate() {
            if i % 256 == 0 {
                self.check_interrupt()?;
            }
            let Some(&dir) = self.dirs.all().get(at as usize) else { break };
            if !self.is_ahead(&scan.batch, dir.first) {
                self.read_ahead(&mut scan.batch, &order[i..]);
            }
            self.scan_directory(&mut scan, &dir)?;
        }
        self.settle_dotdots()?;
        self.mark_reached();
        self.leave()
    }

    /// The root is a directory with content.
    fn check_root(&mut self) -> Res<()> {
        let rec = self.inodes.get(Ino::ROOT);
        let (id, message) = match rec.state {
            State::Free => (Id::RootUnalloc, "root inode unallocated: make a new root directory"),
            State::Candidate => (Id::RootDup, "bad or contested blocks: make a new root directory"),
            State::ZeroDir => (Id::RootZero, "root directory of size 0: make a new one"),
            _ if !rec.is_dir() => (Id::RootType, "root is not a directory: make a new one"),
            _ => return Ok(()),
        };
        if !self.ask(Draft::fatal(id, message).ino(Ino::ROOT))? {
            return Err(Stop::Refused(exit::ERROR, "there is no usable root directory".into()));
        }
        self.dirs.remove(Ino::ROOT);
        self.zero_inode(Ino::ROOT)?;
        let made = self.make_directory(Ino::ROOT, Ino::ROOT, 0o755)?;
        if !made {
            self.judge.repair_failed();
            return Err(Stop::Refused(exit::ERROR, "no room for a root directory".into()));
        }
        self.restart();
        Ok(())
    }

    /// Writes a new, empty directory into the free inode `ino`; `false` if there is no room for it.
    pub(super) fn make_directory(&mut self, ino: Ino, parent: Ino, mode: u16) -> Res<bool> {
        let Some(at) = self.alloc_frags(1)? else { return Ok(false) };
        let mut bytes = new_chunk(self.dir_format(), ino, parent);
        bytes.resize(self.g.fsize as usize, 0);
        for chunk in bytes.chunks_exact_mut(DIRBLKSIZ).skip(1) {
            dir::clear_chunk(self.dir_format(), chunk);
        }
        self.store.write(at, &bytes, Class::Data)?;
        let mut node = self.node(ino)?;
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
        node.d.db[0] = i64::try_from(at.0).unwrap_or(0);
        self.save(&mut node)?;
        // Both names it will have, `.` and the one in the parent, count from the start.
        let rec = Rec { state: State::Found, dtype: 4, nlink: 2, remaining: 0 };
        self.inodes.set(ino, rec);
        let mut dir = Dir::new(ino, at.0, DIRBLKSIZ as u64);
        (dir.parent, dir.dotdot, dir.has_dotdot) = (parent, parent, true);
        self.dirs.insert(dir);
        Ok(true)
    }

    fn scan_directory(&mut self, scan: &mut Scan, dir: &Dir) -> Res<()> {
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

    /// Whether the directory's size allows to read it.
    fn check_dir_size(&mut self, dir: &Dir) -> Res<bool> {
        let (ino, size) = (dir.ino, u64::from(dir.size));
        let (draft, sane) = if size < MINDIRSIZE {
            (Draft::fatal(Id::DirShort, "directory too short"), false)
        } else if !size.is_multiple_of(DIRBLKSIZ as u64) {
            let message = "directory size is no multiple of 512";
            (Draft::fatal_if(self.softdep, Id::DirMult, message), true)
        } else {
            return Ok(true);
        };
        let right = size.next_multiple_of(DIRBLKSIZ as u64);
        if !self.ask(draft.ino(ino).before(size).after(right))? {
            return Ok(sane);
        }
        let mut node = self.node(ino)?;
        node.d.size = right;
        self.save(&mut node)?;
        Ok(true)
    }

    fn scan_block(&mut self, scan: &mut Scan, block: &DirBlock) -> Res<()> {
        let mut buf = std::mem::take(&mut scan.buf);
        self.fill_dir_block(&scan.batch, block, &mut buf)?;
        let mut changed = false;
        let fmt = self.dir_format();
        for (i, chunk) in buf.chunks_exact_mut(DIRBLKSIZ).enumerate() {
            let offset = block.offset + (i * DIRBLKSIZ) as u64;
            changed |= self.check_chain(scan, chunk, offset)?;
            if offset == 0 {
                changed |= self.check_dots(scan, chunk)?;
            }
            changed |= self.check_entries(scan, chunk, offset)?;
            if self.zero_unused && self.judge.may_write() {
                changed |= zero_unused(fmt, chunk);
            }
        }
        if changed && self.judge.may_write() {
            self.store.patch(block.at, 0, &buf, Class::Data)?;
        }
        scan.buf = buf;
        Ok(())
    }

    fn check_entries(&mut self, scan: &mut Scan, chunk: &mut [u8], offset: u64) -> Res<bool> {
        let fmt = self.dir_format();
        let dots = if offset == 0 { leading_dots(fmt, chunk) } else { 0 };
        let (mut at, mut prev, mut changed, mut index) = (0, None, false, 0);
        while at < chunk.len() {
            // A chain that was not repaired ends here.
            let rec = if scan.sound {
                dir::read_again(fmt, chunk, at)
            } else {
                dir::read(fmt, chunk, at)
            };
            let Ok(rec) = rec else { break };
            let len = rec.reclen;
            let verdict = if !rec.live() || (index >= dots && self.count_ordinary(scan, &rec)) {
                Verdict::Keep
            } else if index < dots {
                self.count_dot(scan, &rec);
                Verdict::Keep
            } else {
                self.check_entry(scan, &Entry::of(&rec), offset + at as u64)?
            };
            changed |= verdict != Verdict::Keep;
            match verdict {
                Verdict::Remove => {
                    remove_record(fmt, chunk, prev, at);
                    prev = prev.or(Some(at));
                }
                Verdict::Retype(t) => dir::set_type(fmt, chunk, at, t),
                Verdict::Whiteout => {
                    dir::set_ino(fmt, chunk, at, Ino::WHITEOUT.0);
                    dir::set_type(fmt, chunk, at, DT_WHT);
                }
                Verdict::Keep => {}
            }
            if verdict != Verdict::Remove {
                prev = Some(at);
            }
            index += 1;
            at += len;
        }
        Ok(changed)
    }

    fn count_dot(&mut self, scan: &Scan, dot: &Record<'_>) {
        if dot.name == b"." {
            self.inodes.count(scan.ino, -1);
        }
    }

    /// Counts a live entry nothing is wrong with; `false`, and nothing counted, if it has to be looked at closely.
    fn count_ordinary(&mut self, scan: &mut Scan, entry: &Record<'_>) -> bool {
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
        rec.remaining = rec.remaining.saturating_sub(1);
        scan.names.push(name_hash(entry.name));
        true
    }

    fn check_entry(&mut self, scan: &mut Scan, entry: &Entry, offset: u64) -> Res<Verdict> {
        let fmt = self.dir_format();
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let place = format!("entry {name:?} at offset {offset}");
        let draft = |id, message: &str| {
            let draft = Draft::fatal(id, message).ino(scan.ino).place(place.clone());
            draft.entry(&entry.name, Some(Ino(entry.ino))).before(entry.ino)
        };
        let refuse = |ck: &mut Self, draft| -> Res<Verdict> {
            Ok(if ck.ask(draft)? { Verdict::Remove } else { Verdict::Keep })
        };
        match entry.name.as_slice() {
            b"." => return refuse(self, draft(Id::DotExtra, "another `.`: remove")),
            b".." => return refuse(self, draft(Id::DotDotExtra, "another `..`: remove")),
            _ => {}
        }
        let (number, kind) = (entry.ino == Ino::WHITEOUT.0, entry.dtype == DT_WHT);
        if !fmt.old && (number || kind) {
            if number && kind {
                return Ok(Verdict::Keep);
            }
            let fix = self.ask(draft(Id::EntWhiteout, "half a whiteout: make it one"))?;
            return Ok(if fix { Verdict::Whiteout } else { Verdict::Keep });
        }
        if entry.ino < 2 || entry.ino >= self.g.inodes() {
            return refuse(self, draft(Id::EntRange, "inode number out of range: remove"));
        }
        let child = Ino(entry.ino);
        let rec = self.inodes.get(child);
        match rec.state {
            State::Free => {
                return refuse(self, draft(Id::EntUnalloc, "unallocated inode: remove"));
            }
            State::Candidate => {
                // Kept, it counts as a name: phase 4 asks about the inode.
                let verdict =
                    refuse(self, draft(Id::EntDupBad, "bad or contested blocks: remove"))?;
                if verdict == Verdict::Remove {
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
            return Ok(Verdict::Remove);
        }
        scan.names.push(name_hash(&entry.name));
        self.inodes.count(child, -1);
        if entry.dtype != rec.dtype && !fmt.old {
            let d = Draft::benign(Id::EntType, "wrong type in the entry").ino(scan.ino);
            let d = d.entry(&entry.name, Some(child));
            if self.ask(d.place(place).before(entry.dtype).after(rec.dtype))? {
                return Ok(Verdict::Retype(rec.dtype));
            }
        }
        Ok(Verdict::Keep)
    }

    /// Whether this name of directory `child` is to be dropped because it has another.
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
        if !self.ask(draft)? {
            return Ok(false);
        }
        if !keep_this {
            return Ok(true);
        }
        if self.remove_entry(first, |e| e.ino == child.0)? {
            self.inodes.count(child, 1);
        }
        self.dirs.update(child, |d| d.parent = here);
        Ok(false)
    }

    /// What `..` of a directory says that may not have been scanned yet; 0 if nothing.
    fn peek_dotdot(&mut self, dir: Ino) -> Res<Ino> {
        let fmt = self.dir_format();
        let mut found = Ino(0);
        self.for_each_chunk(dir, |chunk| {
            if let Some((off, name)) = second_record(fmt, chunk)
                && name == b".."
            {
                found = Ino(ffs_ondisk::wire::get(chunk, off, fmt.endian));
            }
            super::dirio::Flow { changed: false, done: true }
        })?;
        Ok(found)
    }

    /// Compares `..` of every directory with where its name was found, and counts it.
    fn settle_dotdots(&mut self) -> Res<()> {
        self.dirs.update(Ino::ROOT, |d| d.parent = Ino::ROOT);
        // Nothing here makes or removes a directory.
        for i in 0..self.dirs.all().len() {
            let Some(&dir) = self.dirs.all().get(i) else { break };
            let ino = dir.ino;
            if dir.parent.0 != 0 && !dir.has_dotdot {
                let draft =
                    Draft::fatal(Id::DotDotMissing, "the second entry is not `..`: enter it");
                if self.ask(draft.ino(ino).after(dir.parent))? {
                    self.set_dotdot(ino, dir.parent)?;
                    self.restart();
                }
            } else if dir.parent.0 != 0 && dir.dotdot != dir.parent {
                let draft = Draft::benign(Id::DotDotWrong, "`..` names another directory").ino(ino);
                if self.ask(draft.before(dir.dotdot).after(dir.parent))? {
                    self.set_dotdot(ino, dir.parent)?;
                }
            }
            self.count_dotdot(ino);
        }
        Ok(())
    }

    /// Counts the `..` of a directory as a name of the directory it names.
    fn count_dotdot(&mut self, ino: Ino) {
        let Some(d) = self.dirs.get(ino) else { return };
        if d.has_dotdot && self.inodes.get(d.dotdot).is_dir() {
            self.inodes.count(d.dotdot, -1);
            self.dirs.update(ino, |d| d.counted = true);
        }
    }

    /// Takes the `..` of a directory out of the counts if it is in them.
    pub(super) fn uncount_dotdot(&mut self, ino: Ino) {
        let Some(d) = self.dirs.get(ino) else { return };
        if d.counted {
            self.inodes.count(d.dotdot, 1);
            self.dirs.update(ino, |d| d.counted = false);
        }
    }

    /// Marks the directories that the root leads to.
    pub(super) fn mark_reached(&mut self) {
        self.inodes.update(Ino::ROOT, |r| r.state = State::Found);
        // Directories known not to be reached in this round, so that chains are climbed once.
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
                // Taken for dead until proven otherwise: this also ends climbs that go in a circle.
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

/// How many of the first two records are `.` and `..` in their places.
fn leading_dots(fmt: dir::DirFormat, chunk: &[u8]) -> usize {
    let mut records = dir::records(fmt, chunk);
    let mut is =
        |name: &[u8]| records.next().is_some_and(|r| r.is_ok_and(|r| r.live() && r.name == name));
    match (is(b"."), is(b"..")) {
        (true, true) => 2,
        (true, false) => 1,
        (false, _) => 0,
    }
}
