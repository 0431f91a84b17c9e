//! Paths of inodes, in every phase and on a broken tree.
//!
//! **Purpose.** A table says for each name in which block it was seen: one reading of the directories finds the
//! paths of many inodes.
//!
//! **Invariants.**
//! 1. A path consists of names that are there when it is asked for: each is read again, so a table that repairs
//!    have overtaken leads to a missing part, never to a wrong one.
//! 2. Nothing is believed of the directories that are read. Memory and reading are bounded whatever they say:
//!    [`MOST_DIRECTORIES`], [`MOST_NAMES`], [`MOST_BYTES`], [`DEEPEST`], and [`SEARCHES`] tables in one check.

use std::collections::{BTreeSet, VecDeque};

use ffs_ondisk::dir::{self, Record};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{FragNo, Ino};

use super::Checker;
use super::dirio::DirBlock;
use super::judge::Res;
use super::report::Phase;
use super::tables::State;

/// Directories read for a table. Those nearest to the root come first.
const MOST_DIRECTORIES: usize = 1 << 17;
/// Names in a table.
const MOST_NAMES: usize = 1 << 22;
/// Bytes of directories read for a table.
const MOST_BYTES: u64 = 1 << 30;
/// Deeper paths are not shown from the root on.
const DEEPEST: usize = 1024;
/// Tables made in one check.
pub(super) const SEARCHES: u32 = 100;

/// A name that was seen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    child: Ino,
    dir: Ino,
    /// The directory's block with the name: its first fragment and length in bytes.
    at: FragNo,
    len: u32,
}

/// Where names are.
#[derive(Debug)]
pub(super) struct Names {
    /// By inode; of several names of one the first found in a tree that hangs on the root.
    list: Vec<Seen>,
    /// The store's revision when it was made.
    revision: u64,
    /// Phase 1 had found all directories by then, also those that do not hang on the root.
    complete: bool,
}

impl Names {
    fn of(&self, child: Ino) -> Option<Seen> {
        self.list.binary_search_by_key(&child, |s| s.child).ok().map(|i| self.list[i])
    }
}

/// A search under way.
struct Search<'w> {
    wanted: Option<&'w BTreeSet<Ino>>,
    list: Vec<Seen>,
    visited: BTreeSet<Ino>,
    queue: VecDeque<Ino>,
    bytes: u64,
    most_names: usize,
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        self.visited.len() >= MOST_DIRECTORIES
            || self.list.len() >= self.most_names
            || self.bytes >= MOST_BYTES
    }
}

impl Checker<'_> {
    /// A path of `ino`, beginning with `?` if its upper part is not known; `None` if it has no name.
    pub(super) fn path_of(&mut self, ino: Ino) -> Option<String> {
        if self.is_nameless(ino) {
            return None;
        }
        let path = self.path_by_table(ino);
        let whole = path.as_ref().is_some_and(|p| p.starts_with('/'));
        let (revision, complete) = (self.store.revision(), self.judge.phase >= Phase::Names);
        let is_current = |n: &Names| n.revision == revision && (n.complete || !complete);
        if whole || self.names.as_ref().is_some_and(is_current) || self.name_searches == 0 {
            return path;
        }
        self.name_searches -= 1;
        self.index_names(None);
        self.path_by_table(ino)
    }

    /// Whether phase 2 has found no name of `ino`: then none need be looked for.
    fn is_nameless(&self, ino: Ino) -> bool {
        if self.judge.phase < Phase::Connectivity || ino == Ino::ROOT {
            return false;
        }
        let rec = self.inodes.get(ino);
        match self.dirs.get(ino) {
            Some(dir) => dir.parent.0 == 0,
            None => rec.state != State::Free && !rec.is_dir() && !rec.named(),
        }
    }

    fn path_by_table(&mut self, ino: Ino) -> Option<String> {
        let mut parts: Vec<String> = Vec::new();
        let mut met = BTreeSet::new();
        let mut at = ino;
        // A directory that was met before: they contain each other.
        while at != Ino::ROOT && met.len() < DEEPEST && met.insert(at) {
            let Some((dir, name)) = self.name_of(at) else { break };
            parts.push(String::from_utf8_lossy(&name).into_owned());
            at = dir;
        }
        if parts.is_empty() && at != Ino::ROOT {
            return None;
        }
        let top = if at == Ino::ROOT { "" } else { "?" };
        parts.reverse();
        Some(format!("{top}/{}", parts.join("/")))
    }

    /// A name of `ino` and the directory it is in, as they are now.
    fn name_of(&mut self, ino: Ino) -> Option<(Ino, Vec<u8>)> {
        let seen = self.names.as_ref()?.of(ino)?;
        let block = DirBlock { at: seen.at, len: seen.len as usize, offset: 0 };
        let buf = self.read_dir_block(&block).ok()?;
        let mut found = None;
        self.live_entries(&buf, block.len, |rec| {
            if found.is_none() && rec.ino == ino.0 {
                found = Some(rec.name.to_vec());
            }
        });
        found.map(|name| (seen.dir, name))
    }

    /// Makes the table: of all names, or of directories and `wanted`.
    pub(super) fn index_names(&mut self, wanted: Option<&BTreeSet<Ino>>) {
        // Of the memory that repairs may take, a quarter.
        let room = self.store.limit() / 4 / size_of::<Seen>() as u64;
        let most_names = usize::try_from(room).unwrap_or(usize::MAX).min(MOST_NAMES);
        let mut search = Search {
            wanted,
            list: Vec::new(),
            visited: BTreeSet::new(),
            queue: VecDeque::from([Ino::ROOT]),
            bytes: 0,
            most_names,
        };
        self.search_queue(&mut search);
        // What does not hang on the root shows at least the last part of a path.
        search.queue.extend(self.dirs.all().iter().map(|d| d.ino));
        self.search_queue(&mut search);
        let Search { mut list, .. } = search;
        list.sort_by_key(|s| s.child);
        list.dedup_by_key(|s| s.child);
        let complete = self.judge.phase >= Phase::Names;
        self.names = Some(Names { list, revision: self.store.revision(), complete });
    }

    fn search_queue(&mut self, search: &mut Search<'_>) {
        while let Some(dir) = search.queue.pop_front() {
            if search.is_over() {
                break;
            }
            if search.visited.insert(dir) {
                // What cannot be read has no names.
                let _ = self.search_directory(dir, search);
            }
        }
    }

    fn search_directory(&mut self, dir: Ino, search: &mut Search<'_>) -> Res<()> {
        let mut node = self.node(dir)?;
        if !node.is_dir() {
            return Ok(());
        }
        let fits = ((MOST_BYTES - search.bytes) / u64::from(self.g.bsize)) as usize;
        for block in self.dir_blocks_up_to(&mut node, fits)? {
            let buf = self.read_dir_block(&block)?;
            search.bytes += u64::from(self.g.bsize);
            let (old, inodes, most) = (self.dir_format().old, self.g.inodes(), search.most_names);
            self.live_entries(&buf, block.len, |rec| {
                let child = Ino(rec.ino);
                let is_dir = old || rec.dtype == 4;
                let asked_for = search.wanted.is_none_or(|w| w.contains(&child));
                let named = child.0 >= 2 && child.0 < inodes && search.list.len() < most;
                if named && (is_dir || asked_for) {
                    let len = block.len as u32;
                    search.list.push(Seen { child, dir, at: block.at, len });
                }
                let new = is_dir && !search.visited.contains(&child);
                if named && new && search.queue.len() < MOST_DIRECTORIES {
                    search.queue.push_back(child);
                }
            });
        }
        Ok(())
    }

    /// Calls `each` with the live entries of a block of `len` bytes that are neither `.` nor `..`.
    fn live_entries(&self, buf: &[u8], len: usize, mut each: impl FnMut(&Record<'_>)) {
        let fmt = self.dir_format();
        for chunk in buf[..len.min(buf.len())].chunks_exact(DIRBLKSIZ) {
            let live = dir::records(fmt, chunk).filter_map(Result::ok).filter(Record::live);
            live.filter(|r| !matches!(r.name, b"." | b"..")).for_each(|r| each(&r));
        }
    }
}
