//! Reading and changing directories.
//!
//! **Invariants.**
//! 1. Only blocks in the data area below the first hole are touched.
//! 2. A directory grows within its direct blocks and its first indirect block.
//!
//! References: spec/fsck-and-crash.md §4; spec/on-disk-format.md §8.

use ffs_ondisk::bmap::set_pointer;
use ffs_ondisk::dir::{self, DirFormat, Record, dirsiz};
use ffs_ondisk::geometry::{DIRBLKSIZ, NDADDR};
use ffs_ondisk::{FragNo, Ino};

use super::Checker;
use super::judge::Res;
use super::node::Node;
use super::store::Class;
use super::walk::{Action, Run, Visitor};

/// One block of a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct DirBlock {
    /// First fragment.
    pub(super) at: FragNo,
    /// Bytes of it below the directory's size.
    pub(super) len: usize,
    /// Offset of its first byte in the directory.
    pub(super) offset: u64,
}

/// An entry, copied out of its chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Inode number as stored.
    pub(super) ino: u32,
    /// `d_type`.
    pub(super) dtype: u8,
    /// The name.
    pub(super) name: Vec<u8>,
}

impl Entry {
    pub(super) fn of(rec: &Record<'_>) -> Entry {
        Entry { ino: rec.ino, dtype: rec.dtype, name: rec.name.to_vec() }
    }

    pub(super) fn is_dot(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

/// Lists data blocks up to the first hole or bad pointer, at most `limit`.
struct List {
    blocks: Vec<(FragNo, u32)>,
    limit: usize,
}

impl Visitor for List {
    fn run(&mut self, ck: &mut Checker<'_>, run: &Run) -> Res<Action> {
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
    pub(super) fn dir_blocks(&mut self, node: &mut Node) -> Res<Vec<DirBlock>> {
        self.dir_blocks_up_to(node, usize::MAX)
    }

    /// The first blocks of a directory, at most `limit`.
    pub(super) fn dir_blocks_up_to(&mut self, node: &mut Node, limit: usize) -> Res<Vec<DirBlock>> {
        let mut list = List { blocks: Vec::new(), limit };
        self.walk(node, &mut list)?;
        let bsize = u64::from(self.g.bsize);
        let size = node.d.size;
        let block = |(i, (at, _)): (usize, (FragNo, u32))| {
            let offset = i as u64 * bsize;
            let len = size.saturating_sub(offset).min(bsize) as usize;
            DirBlock { at, len, offset }
        };
        Ok(list.blocks.into_iter().enumerate().map(block).collect())
    }

    /// The bytes of one block, rounded up to whole fragments.
    pub(super) fn read_dir_block(&mut self, block: &DirBlock) -> Res<Vec<u8>> {
        let len = block.len.next_multiple_of(self.g.fsize as usize);
        self.store.read(block.at, len)
    }

    /// Calls `each` with every chunk of directory `ino`, as [`Flow`] says; changed ones are written.
    pub(super) fn for_each_chunk(
        &mut self,
        ino: Ino,
        mut each: impl FnMut(&mut [u8]) -> Flow,
    ) -> Res<()> {
        self.for_each_chunk_from(ino, 0, |_, chunk| each(chunk))
    }

    /// The same from the block at offset `from` on; `each` also gets the offset of the block.
    fn for_each_chunk_from(
        &mut self,
        ino: Ino,
        from: u64,
        mut each: impl FnMut(u64, &mut [u8]) -> Flow,
    ) -> Res<()> {
        let mut node = self.node(ino)?;
        let blocks = self.dir_blocks(&mut node)?;
        for block in blocks.into_iter().filter(|b| b.offset >= from) {
            let mut buf = self.read_dir_block(&block)?;
            let (mut changed, mut done) = (false, false);
            for chunk in buf[..block.len].chunks_exact_mut(DIRBLKSIZ) {
                let flow = each(block.offset, chunk);
                changed |= flow.changed;
                done = flow.done;
                if done {
                    break;
                }
            }
            if changed {
                self.store.write(block.at, &buf, Class::Data)?;
            }
            if done {
                break;
            }
        }
        Ok(())
    }

    /// Takes every name but `.` and `..` out of directory `ino`, which will be cleared.
    pub(super) fn empty_out(&mut self, ino: Ino) -> Res<()> {
        let mut node = self.node(ino)?;
        for block in self.dir_blocks(&mut node)? {
            self.store.empty_out(block.at, block.len)?;
        }
        Ok(())
    }

    /// The live entries of directory `ino` that are neither `.` nor `..`, at most `limit`.
    pub(super) fn entries(&mut self, ino: Ino, limit: usize) -> Res<Vec<Entry>> {
        let fmt = self.dir_format();
        let mut out = Vec::new();
        self.for_each_chunk(ino, |chunk| {
            let live = dir::records(fmt, chunk).filter_map(Result::ok).filter(Record::live);
            out.extend(live.map(|r| Entry::of(&r)).filter(|e| !e.is_dot()));
            Flow { changed: false, done: out.len() >= limit }
        })?;
        Ok(out)
    }

    /// Looks `name` up in directory `dir`.
    pub(super) fn lookup(&mut self, dir: Ino, name: &[u8]) -> Res<Option<Entry>> {
        let fmt = self.dir_format();
        let mut found = None;
        self.for_each_chunk(dir, |chunk| {
            let mut live = dir::records(fmt, chunk).filter_map(Result::ok).filter(Record::live);
            found = live.find(|r| r.name == name).map(|r| Entry::of(&r));
            Flow { changed: false, done: found.is_some() }
        })?;
        Ok(found)
    }

    /// Removes the first entry of `dir`, other than `.` and `..`, for which `which` holds.
    pub(super) fn remove_entry(&mut self, dir: Ino, which: impl Fn(&Entry) -> bool) -> Res<bool> {
        let fmt = self.dir_format();
        let mut removed = false;
        self.for_each_chunk(dir, |chunk| {
            let mut prev = None;
            let mut hit = None;
            for rec in dir::records(fmt, chunk).filter_map(Result::ok) {
                if rec.live() && !matches!(rec.name, b"." | b"..") && which(&Entry::of(&rec)) {
                    hit = Some((prev, rec.off));
                    break;
                }
                prev = Some(rec.off);
            }
            if let Some((prev, off)) = hit {
                remove_record(fmt, chunk, prev, off);
                removed = true;
            }
            Flow { changed: removed, done: removed }
        })?;
        Ok(removed)
    }

    /// Enters `entry` in directory `dir`; `false` if there is no room.
    pub(super) fn add_entry(&mut self, dir: Ino, entry: &Entry) -> Res<bool> {
        let from = if self.insert_hint.0 == dir { self.insert_hint.1 } else { 0 };
        Ok(self.insert_from(dir, from, entry)?
            || (self.expand_directory(dir)? && self.insert_from(dir, from, entry)?))
    }

    fn insert_from(&mut self, dir: Ino, from: u64, entry: &Entry) -> Res<bool> {
        let fmt = self.dir_format();
        let mut added = None;
        self.for_each_chunk_from(dir, from, |offset, chunk| {
            let done = insert_record(fmt, chunk, entry);
            added = added.or(done.then_some(offset));
            Flow { changed: done, done }
        })?;
        if let Some(offset) = added {
            // Names of one directory that are entered one after the other are much alike in length.
            self.insert_hint = (dir, offset);
        }
        Ok(added.is_some())
    }

    /// Makes `..` of directory `dir` name `parent`, entering it if it is missing.
    pub(super) fn set_dotdot(&mut self, dir: Ino, parent: Ino) -> Res<()> {
        let fmt = self.dir_format();
        let mut spilled = Vec::new();
        self.for_each_chunk(dir, |chunk| {
            match second_record(fmt, chunk) {
                Some((off, name)) if name == b".." => dir::set_ino(fmt, chunk, off, parent.0),
                _ => spilled = rebuild_first_chunk(fmt, chunk, dir, parent),
            }
            Flow { changed: true, done: true }
        })?;
        for entry in spilled {
            // What finds no room loses its name here and is reconnected by a later pass.
            let _ = self.add_entry(dir, &entry)?;
        }
        self.dirs.update(dir, |d| {
            d.dotdot = parent;
            d.has_dotdot = true;
        });
        Ok(())
    }

    /// Gives directory `dir` more room, as much as one block; `false` if there is none.
    fn expand_directory(&mut self, dir: Ino) -> Res<bool> {
        let g = self.g;
        let mut node = self.node(dir)?;
        let blocks = self.dir_blocks(&mut node)?;
        let Some(last) = blocks.last().copied() else { return Ok(false) };
        let held = g.numfrags_up(last.len as u64);
        let full = (held * g.fsize) as usize == last.len;
        if !full {
            // The last fragment has unused chunks.
            let grown = self.fill_tail(last.at, last.len, held)?;
            node.d.size = last.offset + grown;
            return self.save(&mut node).map(|()| true);
        }
        if held < g.frag {
            return self.move_tail(&mut node, &last, held);
        }
        self.append_block(&mut node, blocks.len() as u64)
    }

    /// Makes the rest of a run of `frags` fragments after `kept` bytes empty chunks; its bytes.
    fn fill_tail(&mut self, at: FragNo, kept: usize, frags: u32) -> Res<u64> {
        let fsize = self.g.fsize as usize;
        let mut buf = self.store.read(at, frags as usize * fsize)?;
        for chunk in buf[kept..].chunks_exact_mut(DIRBLKSIZ) {
            dir::clear_chunk(self.dir_format(), chunk);
        }
        self.store.write(at, &buf, Class::Data)?;
        Ok(buf.len() as u64)
    }

    /// Moves the fragments at the end of a directory to a larger run.
    fn move_tail(&mut self, node: &mut Node, last: &DirBlock, held: u32) -> Res<bool> {
        let g = self.g;
        let Some((at, frags)) = self.alloc_most(held + 1)? else { return Ok(false) };
        let bytes = self.store.read(last.at, last.len)?;
        self.store.write(at, &bytes, Class::Data)?;
        let grown = self.fill_tail(at, last.len, frags)?;
        for f in last.at.0..last.at.0 + u64::from(held) {
            self.used.clear(f);
            self.store.forget(FragNo(f), 1);
        }
        let lbn = (last.offset / u64::from(g.bsize)) as usize;
        let Some(slot) = node.d.db.get_mut(lbn) else { return Ok(false) };
        *slot = pointer_to(at);
        node.d.size = last.offset + grown;
        node.d.blocks = node.d.blocks.saturating_add(g.frags_to_sectors((frags - held).into()));
        self.save(node).map(|()| true)
    }

    /// As many fragments as there are room for, at least `least`, at most a block.
    fn alloc_most(&mut self, least: u32) -> Res<Option<(FragNo, u32)>> {
        for frags in (least..=self.g.frag).rev() {
            if let Some(at) = self.alloc_frags(frags)? {
                return Ok(Some((at, frags)));
            }
        }
        Ok(None)
    }

    /// Adds logical block `lbn` at the end of a directory.
    fn append_block(&mut self, node: &mut Node, lbn: u64) -> Res<bool> {
        let g = self.g;
        if lbn >= NDADDR as u64 + u64::from(g.nindir) {
            return Ok(false);
        }
        let direct = lbn < NDADDR as u64;
        let mut held = 0;
        if !direct && node.d.ib[0] == 0 {
            let Some(at) = self.alloc_frags(g.frag)? else { return Ok(false) };
            self.store.write(at, &vec![0; g.bsize as usize], Class::Data)?;
            node.d.ib[0] = pointer_to(at);
            held += g.frag;
        }
        let Some((at, frags)) = self.alloc_most(if direct { 1 } else { g.frag })? else {
            return Ok(false);
        };
        let grown = self.fill_tail(at, 0, frags)?;
        if direct {
            node.d.db[lbn as usize] = pointer_to(at);
        } else {
            self.set_indirect_slot(node.d.ib[0], lbn - NDADDR as u64, pointer_to(at))?;
        }
        node.d.size = lbn * u64::from(g.bsize) + grown;
        node.d.blocks = node.d.blocks.saturating_add(g.frags_to_sectors((held + frags).into()));
        self.save(node).map(|()| true)
    }

    /// Sets pointer `slot` of the indirect block at `block`.
    fn set_indirect_slot(&mut self, block: i64, slot: u64, value: i64) -> Res<()> {
        let mut raw = vec![0; self.g.format.pointer_size()];
        set_pointer(&self.g, &mut raw, 0, value);
        let off = slot as usize * raw.len();
        self.store.patch(FragNo(u64::try_from(block).unwrap_or(0)), off, &raw, Class::Data)
    }
}

/// Takes every name but `.` and `..` out of the chunks of `buf`; whether there was one.
pub(super) fn take_names_out(fmt: DirFormat, buf: &mut [u8]) -> bool {
    let mut any = false;
    for chunk in buf.chunks_exact_mut(DIRBLKSIZ) {
        let live = dir::records(fmt, chunk).filter_map(Result::ok).filter(Record::live);
        let names: Vec<usize> =
            live.filter(|r| !matches!(r.name, b"." | b"..")).map(|r| r.off).collect();
        names.iter().for_each(|&off| dir::set_ino(fmt, chunk, off, 0));
        any |= !names.is_empty();
    }
    any
}

/// A fragment number as a pointer.
fn pointer_to(at: FragNo) -> i64 {
    i64::try_from(at.0).unwrap_or(0)
}

/// What a chunk visitor did.
pub(super) struct Flow {
    /// It changed the chunk.
    pub(super) changed: bool,
    /// It needs no more.
    pub(super) done: bool,
}

/// Offset and name of the second record of a chunk, if it is live.
pub(super) fn second_record(fmt: DirFormat, chunk: &[u8]) -> Option<(usize, &[u8])> {
    let rec = dir::records(fmt, chunk).nth(1)?.ok()?;
    rec.live().then_some((rec.off, rec.name))
}

/// Removes the record at `off`: the one before takes its room.
pub(super) fn remove_record(fmt: DirFormat, chunk: &mut [u8], prev: Option<usize>, off: usize) {
    let len = |chunk: &[u8], at: usize| -> usize {
        ffs_ondisk::wire::get::<u16>(chunk, at + 4, fmt.endian).into()
    };
    match prev {
        Some(prev) => {
            let both = off - prev + len(chunk, off);
            dir::set_reclen(fmt, chunk, prev, both);
        }
        None => dir::set_ino(fmt, chunk, off, 0),
    }
}

/// Puts `entry` into the first record with room for it.
fn insert_record(fmt: DirFormat, chunk: &mut [u8], entry: &Entry) -> bool {
    let need = dirsiz(entry.name.len());
    let spot = dir::records(fmt, chunk).filter_map(Result::ok).find_map(|r| {
        let used = if r.live() { dirsiz(r.name.len()) } else { 0 };
        (r.slack() >= need).then_some((r.off, used, r.reclen))
    });
    let Some((off, used, reclen)) = spot else { return false };
    if used > 0 {
        dir::set_reclen(fmt, chunk, off, used);
    }
    put(fmt, chunk, off + used, reclen - used, entry);
    true
}

fn put(fmt: DirFormat, chunk: &mut [u8], off: usize, reclen: usize, entry: &Entry) {
    let Entry { ino, dtype, name } = entry;
    dir::write(fmt, chunk, &Record { off, ino: *ino, reclen, dtype: *dtype, name });
}

/// Makes `.` and `..` the first two entries of a directory's first chunk; the entries that no longer fit.
pub(super) fn rebuild_first_chunk(
    fmt: DirFormat,
    chunk: &mut [u8],
    own: Ino,
    parent: Ino,
) -> Vec<Entry> {
    let live = dir::records(fmt, chunk).filter_map(Result::ok).filter(Record::live);
    let others: Vec<Entry> = live.map(|r| Entry::of(&r)).filter(|e| !e.is_dot()).collect();
    let dot = |name: &[u8], ino: Ino| Entry { ino: ino.0, dtype: 4, name: name.to_vec() };
    dir::clear_chunk(fmt, chunk);
    put(fmt, chunk, 0, 12, &dot(b".", own));
    let rest = chunk.len() - 12;
    put(fmt, chunk, 12, rest, &dot(b"..", parent));
    others.into_iter().filter(|e| !insert_record(fmt, chunk, e)).collect()
}

/// The first chunk of a new directory.
pub(super) fn new_chunk(fmt: DirFormat, own: Ino, parent: Ino) -> Vec<u8> {
    let mut chunk = vec![0; DIRBLKSIZ];
    rebuild_first_chunk(fmt, &mut chunk, own, parent);
    chunk
}
