//! Reading and changing directories.
//!
//! **Invariants.**
//! 1. Only blocks of the data area before the first hole are read or changed.
//! 2. A directory grows within its direct blocks and its first indirect block.
//!
//! References: spec/fsck-and-crash.md §4; spec/on-disk-format.md §8.

use ffs_ondisk::bmap::set_pointer;
use ffs_ondisk::dir::{self, DirFormat, Record};
use ffs_ondisk::geometry::{DIRBLKSIZ, NDADDR};
use ffs_ondisk::{FragNo, Ino};

use super::buffered::Class;
use super::checker::Checker;
use super::dirblk::{Entry, insert_record, rebuild_first_dirblk, remove_record, second_record};
use super::inode::Inode;
use super::resolve::Res;
use super::walk::{Action, BlockPointer, Visitor};

/// One file-system block of a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct DataBlock {
    /// First fragment.
    pub(super) at: FragNo,
    /// Its bytes below the directory's size.
    pub(super) len: usize,
    /// Offset of its first byte in the directory.
    pub(super) offset: u64,
}

/// Lists data blocks up to the first hole or bad pointer, at most `limit` of them.
struct List {
    blocks: Vec<(FragNo, u32)>,
    limit: usize,
}

impl Visitor for List {
    fn visit(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        if run.ext || ck.g.run_problem(run.frag(), run.frags).is_some() {
            return Ok(Action::Stop);
        }
        if run.level > 0 {
            return Ok(Action::Keep);
        }
        if run.lbn != self.blocks.len() as u64 || self.blocks.len() >= self.limit {
            return Ok(Action::Stop);
        }
        self.blocks.push((run.frag(), run.frags));
        Ok(Action::Keep)
    }
}

impl Checker<'_> {
    pub(super) fn dir_format(&self) -> DirFormat {
        DirFormat::of(&self.g)
    }

    /// The blocks of a directory.
    pub(super) fn dir_blocks(&mut self, node: &mut Inode) -> Res<Vec<DataBlock>> {
        self.dir_blocks_up_to(node, usize::MAX)
    }

    /// The first `limit` blocks of a directory.
    pub(super) fn dir_blocks_up_to(
        &mut self,
        node: &mut Inode,
        limit: usize,
    ) -> Res<Vec<DataBlock>> {
        let mut list = List { blocks: Vec::new(), limit };
        self.walk(node, &mut list)?;
        let bsize = u64::from(self.g.bsize);
        let size = node.d.size;
        let block = |(i, (at, _)): (usize, (FragNo, u32))| {
            let offset = i as u64 * bsize;
            let len = size.saturating_sub(offset).min(bsize) as usize;
            DataBlock { at, len, offset }
        };
        Ok(list.blocks.into_iter().enumerate().map(block).collect())
    }

    /// The bytes of one block, rounded up to whole fragments.
    pub(super) fn read_dir_block(&mut self, block: &DataBlock) -> Res<Vec<u8>> {
        let len = block.len.next_multiple_of(self.g.fsize as usize);
        self.disk.read(block.at, len)
    }

    /// Calls `each` with every directory block of directory `ino` until [`Flow::done`]; writes
    /// those that changed.
    pub(super) fn for_each_dirblk(
        &mut self,
        ino: Ino,
        mut each: impl FnMut(&mut [u8]) -> Flow,
    ) -> Res<()> {
        self.for_each_dirblk_from(ino, 0, |_, dirblk| each(dirblk))
    }

    /// The same from the block at offset `from` on; `each` also receives the offset of the block.
    fn for_each_dirblk_from(
        &mut self,
        ino: Ino,
        from: u64,
        mut each: impl FnMut(u64, &mut [u8]) -> Flow,
    ) -> Res<()> {
        let mut node = self.read_inode(ino)?;
        let blocks = self.dir_blocks(&mut node)?;
        for block in blocks.into_iter().filter(|b| b.offset >= from) {
            let mut buf = self.read_dir_block(&block)?;
            let (mut changed, mut done) = (false, false);
            for dirblk in buf[..block.len].chunks_exact_mut(DIRBLKSIZ) {
                let flow = each(block.offset, dirblk);
                changed |= flow.changed;
                done = flow.done;
                if done {
                    break;
                }
            }
            if changed {
                self.disk.write(block.at, &buf, Class::Data)?;
            }
            if done {
                break;
            }
        }
        Ok(())
    }

    /// Clears every name but `.` and `..` of directory `ino`, which will be cleared.
    pub(super) fn remove_all_names(&mut self, ino: Ino) -> Res<()> {
        let mut node = self.read_inode(ino)?;
        for block in self.dir_blocks(&mut node)? {
            self.disk.clear_names_first(block.at, block.len)?;
        }
        Ok(())
    }

    /// The live entries of directory `ino` that are neither `.` nor `..`, at most `limit`.
    pub(super) fn entries(&mut self, ino: Ino, limit: usize) -> Res<Vec<Entry>> {
        let fmt = self.dir_format();
        let mut out = Vec::new();
        self.for_each_dirblk(ino, |dirblk| {
            let live = dir::records(fmt, dirblk).filter_map(Result::ok).filter(Record::live);
            out.extend(live.map(|r| Entry::of(&r)).filter(|e| !e.is_dot()));
            Flow { changed: false, done: out.len() >= limit }
        })?;
        Ok(out)
    }

    /// Looks `name` up in directory `dir`.
    pub(super) fn lookup(&mut self, dir: Ino, name: &[u8]) -> Res<Option<Entry>> {
        let fmt = self.dir_format();
        let mut found = None;
        self.for_each_dirblk(dir, |dirblk| {
            let mut live = dir::records(fmt, dirblk).filter_map(Result::ok).filter(Record::live);
            found = live.find(|r| r.name == name).map(|r| Entry::of(&r));
            Flow { changed: false, done: found.is_some() }
        })?;
        Ok(found)
    }

    /// Removes the first entry of `dir`, other than `.` and `..`, for which `which` holds.
    pub(super) fn remove_entry(&mut self, dir: Ino, which: impl Fn(&Entry) -> bool) -> Res<bool> {
        let fmt = self.dir_format();
        let mut removed = false;
        self.for_each_dirblk(dir, |dirblk| {
            let mut prev = None;
            let mut hit = None;
            for rec in dir::records(fmt, dirblk).filter_map(Result::ok) {
                if rec.live() && !matches!(rec.name, b"." | b"..") && which(&Entry::of(&rec)) {
                    hit = Some((prev, rec.off));
                    break;
                }
                prev = Some(rec.off);
            }
            if let Some((prev, off)) = hit {
                remove_record(fmt, dirblk, prev, off);
                removed = true;
            }
            Flow { changed: removed, done: removed }
        })?;
        Ok(removed)
    }

    /// Adds `entry` to directory `dir`; `false` if there is no space.
    pub(super) fn add_entry(&mut self, dir: Ino, entry: &Entry) -> Res<bool> {
        let from = if self.insert_hint.0 == dir { self.insert_hint.1 } else { 0 };
        Ok(self.insert_from(dir, from, entry)?
            || (self.expand_directory(dir)? && self.insert_from(dir, from, entry)?))
    }

    fn insert_from(&mut self, dir: Ino, from: u64, entry: &Entry) -> Res<bool> {
        let fmt = self.dir_format();
        let mut added = None;
        self.for_each_dirblk_from(dir, from, |offset, dirblk| {
            let done = insert_record(fmt, dirblk, entry);
            added = added.or(done.then_some(offset));
            Flow { changed: done, done }
        })?;
        if let Some(offset) = added {
            // The next name is likely to need as much space, so blocks before this one have none
            // for it.
            self.insert_hint = (dir, offset);
        }
        Ok(added.is_some())
    }

    /// Points `..` of directory `dir` to `parent`, adding it if it is missing.
    pub(super) fn set_dotdot(&mut self, dir: Ino, parent: Ino) -> Res<()> {
        let fmt = self.dir_format();
        let mut spilled = Vec::new();
        self.for_each_dirblk(dir, |dirblk| {
            match second_record(fmt, dirblk) {
                Some((off, name)) if name == b".." => dir::set_ino(fmt, dirblk, off, parent.0),
                _ => spilled = rebuild_first_dirblk(fmt, dirblk, dir, parent),
            }
            Flow { changed: true, done: true }
        })?;
        for entry in spilled {
            // An entry that finds no space loses its name here; a later round reconnects its inode.
            let _ = self.add_entry(dir, &entry)?;
        }
        self.dirs.update(dir, |d| {
            d.dotdot = parent;
            d.has_dotdot = true;
        });
        Ok(())
    }

    /// Extends directory `dir` by at most one block; `false` if there is no space.
    fn expand_directory(&mut self, dir: Ino) -> Res<bool> {
        let g = self.g;
        let mut node = self.read_inode(dir)?;
        let blocks = self.dir_blocks(&mut node)?;
        let Some(last) = blocks.last().copied() else { return Ok(false) };
        let held = g.numfrags_up(last.len as u64);
        let full = (held * g.fsize) as usize == last.len;
        if !full {
            // The last fragment has unused directory blocks.
            let grown = self.fill_tail(last.at, last.len, held)?;
            node.d.size = last.offset + grown;
            return self.write_inode(&mut node).map(|()| true);
        }
        if held < g.frag {
            return self.move_tail(&mut node, &last, held);
        }
        self.append_block(&mut node, blocks.len() as u64)
    }

    /// Fills a run of `frags` fragments with empty directory blocks after `kept` bytes; returns the
    /// run's length in bytes.
    fn fill_tail(&mut self, at: FragNo, kept: usize, frags: u32) -> Res<u64> {
        let fsize = self.g.fsize as usize;
        let mut buf = self.disk.read(at, frags as usize * fsize)?;
        for dirblk in buf[kept..].chunks_exact_mut(DIRBLKSIZ) {
            dir::clear_chunk(self.dir_format(), dirblk);
        }
        self.disk.write(at, &buf, Class::Data)?;
        Ok(buf.len() as u64)
    }

    /// Moves the fragments at the end of a directory to a longer run.
    fn move_tail(&mut self, node: &mut Inode, last: &DataBlock, held: u32) -> Res<bool> {
        let g = self.g;
        let Some((at, frags)) = self.alloc_most(held + 1)? else { return Ok(false) };
        let bytes = self.disk.read(last.at, last.len)?;
        self.disk.write(at, &bytes, Class::Data)?;
        let grown = self.fill_tail(at, last.len, frags)?;
        for f in last.at.0..last.at.0 + u64::from(held) {
            self.used.clear(f);
            self.disk.forget(FragNo(f), 1);
        }
        let lbn = (last.offset / u64::from(g.bsize)) as usize;
        let Some(slot) = node.d.db.get_mut(lbn) else { return Ok(false) };
        *slot = at.pointer();
        node.d.size = last.offset + grown;
        node.d.blocks = node.d.blocks.saturating_add(g.frags_to_sectors((frags - held).into()));
        self.write_inode(node).map(|()| true)
    }

    /// As many fragments as are free in one run, from `least` up to a block.
    fn alloc_most(&mut self, least: u32) -> Res<Option<(FragNo, u32)>> {
        for frags in (least..=self.g.frag).rev() {
            if let Some(at) = self.alloc_frags(frags)? {
                return Ok(Some((at, frags)));
            }
        }
        Ok(None)
    }

    /// Adds logical block `lbn` at the end of a directory.
    fn append_block(&mut self, node: &mut Inode, lbn: u64) -> Res<bool> {
        let g = self.g;
        if lbn >= NDADDR as u64 + u64::from(g.nindir) {
            return Ok(false);
        }
        let direct = lbn < NDADDR as u64;
        let mut held = 0;
        if !direct && node.d.ib[0] == 0 {
            let Some(at) = self.alloc_frags(g.frag)? else { return Ok(false) };
            self.disk.write(at, &vec![0; g.bsize as usize], Class::Data)?;
            node.d.ib[0] = at.pointer();
            held += g.frag;
        }
        let Some((at, frags)) = self.alloc_most(if direct { 1 } else { g.frag })? else {
            return Ok(false);
        };
        let grown = self.fill_tail(at, 0, frags)?;
        if direct {
            node.d.db[lbn as usize] = at.pointer();
        } else {
            self.set_indirect_slot(node.d.ib[0], lbn - NDADDR as u64, at.pointer())?;
        }
        node.d.size = lbn * u64::from(g.bsize) + grown;
        node.d.blocks = node.d.blocks.saturating_add(g.frags_to_sectors((held + frags).into()));
        self.write_inode(node).map(|()| true)
    }

    /// Sets pointer `slot` of the indirect block at `block`.
    fn set_indirect_slot(&mut self, block: i64, slot: u64, value: i64) -> Res<()> {
        let mut raw = vec![0; self.g.format.pointer_size()];
        set_pointer(&self.g, &mut raw, 0, value);
        let off = slot as usize * raw.len();
        self.disk.patch(FragNo(u64::try_from(block).unwrap_or(0)), off, &raw, Class::Data)
    }
}

/// Result of a call of a directory-block visitor.
pub(super) struct Flow {
    /// The directory block changed.
    pub(super) changed: bool,
    /// No more calls are needed.
    pub(super) done: bool,
}
