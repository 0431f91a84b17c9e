//! Paths of inodes, in every phase and on a damaged tree.
//!
//! **Purpose.** One pass over the directories builds a table of the locations of all names. The
//! table yields the paths of many inodes.
//!
//! **Invariants.**
//! 1. A path consists of names that exist when the path is requested, because each name is read
//!    again. A table that is older than a repair leads to a missing part, never to a wrong one.
//! 2. Directory content cannot make memory or reads unbounded. The limits are
//!    [`MAX_DIRECTORIES`], [`MAX_NAMES`], [`MAX_BYTES`], [`MAX_DEPTH`], and [`SEARCHES`] tables in
//!    one check.
//!
//! [`SEARCHES`]: super::nametable::SEARCHES

use std::collections::{BTreeSet, VecDeque};

use ffs_ondisk::Ino;
use ffs_ondisk::dir::{self, Record};
use ffs_ondisk::geometry::DIRBLKSIZ;

use super::checker::Checker;
use super::directory::DataBlock;
use super::inoinfo::State;
use super::nametable::{NameLocation, NameTable};
use super::report::Phase;
use super::resolve::Res;

/// Most directories that one search reads; those nearest to the root come first.
const MAX_DIRECTORIES: usize = 1 << 17;
/// Most names in a table.
const MAX_NAMES: usize = 1 << 22;
/// Most bytes of directories that one search reads.
const MAX_BYTES: u64 = 1 << 30;
/// Most components of a path; deeper paths are shown without their upper part.
const MAX_DEPTH: usize = 1024;

/// A search for names.
struct NameSearch<'w> {
    /// Record directories and these inodes only; `None`: all names.
    wanted: Option<&'w BTreeSet<Ino>>,
    list: Vec<NameLocation>,
    visited: BTreeSet<Ino>,
    queue: VecDeque<Ino>,
    bytes: u64,
    most_names: usize,
}

impl NameSearch<'_> {
    fn is_over(&self) -> bool {
        self.visited.len() >= MAX_DIRECTORIES
            || self.list.len() >= self.most_names
            || self.bytes >= MAX_BYTES
    }
}

impl Checker<'_> {
    /// A path of `ino`, which begins with `?` if its upper part is not known; `None` if `ino` has
    /// no name.
    pub(super) fn path_of(&mut self, ino: Ino) -> Option<String> {
        if self.has_no_name(ino) {
            return None;
        }
        let path = self.path_from_table(ino);
        let whole = path.as_ref().is_some_and(|p| p.starts_with('/'));
        let (revision, complete) = (self.disk.revision(), self.resolver.phase >= Phase::Names);
        let is_current = |n: &NameTable| n.revision == revision && (n.complete || !complete);
        if whole || self.names.as_ref().is_some_and(is_current) || self.name_searches == 0 {
            return path;
        }
        self.name_searches -= 1;
        self.build_name_table(None);
        self.path_from_table(ino)
    }

    /// Whether phase 2 has found no name of `ino`, so that a search is pointless.
    fn has_no_name(&self, ino: Ino) -> bool {
        if self.resolver.phase < Phase::Connectivity || ino == Ino::ROOT {
            return false;
        }
        let rec = self.inodes.get(ino);
        match self.dirs.get(ino) {
            Some(dir) => dir.parent.0 == 0,
            None => rec.state != State::Unallocated && !rec.is_dir() && !rec.has_name(),
        }
    }

    fn path_from_table(&mut self, ino: Ino) -> Option<String> {
        let mut parts: Vec<String> = Vec::new();
        let mut visited = BTreeSet::new();
        let mut at = ino;
        // A directory that was visited before is part of a loop.
        while at != Ino::ROOT && visited.len() < MAX_DEPTH && visited.insert(at) {
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

    /// A current name of `ino`, and the directory that contains it.
    fn name_of(&mut self, ino: Ino) -> Option<(Ino, Vec<u8>)> {
        let location = self.names.as_ref()?.get(ino)?;
        let block = DataBlock { at: location.at, len: location.len as usize, offset: 0 };
        let buf = self.read_dir_block(&block).ok()?;
        let mut found = None;
        self.live_entries(&buf, block.len, |rec| {
            if found.is_none() && rec.ino == ino.0 {
                found = Some(rec.name.to_vec());
            }
        });
        found.map(|name| (location.dir, name))
    }

    /// Builds the table of all names, or of the names of directories and of `wanted`.
    pub(super) fn build_name_table(&mut self, wanted: Option<&BTreeSet<Ino>>) {
        // At most a quarter of the memory for repairs.
        let fit = self.disk.limit() / 4 / size_of::<NameLocation>() as u64;
        let most_names = usize::try_from(fit).unwrap_or(usize::MAX).min(MAX_NAMES);
        let mut search = NameSearch {
            wanted,
            list: Vec::new(),
            visited: BTreeSet::new(),
            queue: VecDeque::from([Ino::ROOT]),
            bytes: 0,
            most_names,
        };
        self.search_queued(&mut search);
        // A tree that the root does not reach yields at least the last part of a path.
        search.queue.extend(self.dirs.all().iter().map(|d| d.ino));
        self.search_queued(&mut search);
        let complete = self.resolver.phase >= Phase::Names;
        self.names = Some(NameTable::new(search.list, self.disk.revision(), complete));
    }

    fn search_queued(&mut self, search: &mut NameSearch<'_>) {
        while let Some(dir) = search.queue.pop_front() {
            if search.is_over() {
                break;
            }
            if search.visited.insert(dir) {
                // A directory that cannot be read adds no names.
                let _ = self.search_directory(dir, search);
            }
        }
    }

    fn search_directory(&mut self, dir: Ino, search: &mut NameSearch<'_>) -> Res<()> {
        let mut node = self.read_inode(dir)?;
        if !node.is_dir() {
            return Ok(());
        }
        let fits = ((MAX_BYTES - search.bytes) / u64::from(self.g.bsize)) as usize;
        for block in self.dir_blocks_up_to(&mut node, fits)? {
            let buf = self.read_dir_block(&block)?;
            search.bytes += u64::from(self.g.bsize);
            let (old, inodes, most) = (self.dir_format().old, self.g.inodes(), search.most_names);
            self.live_entries(&buf, block.len, |rec| {
                let child = Ino(rec.ino);
                let is_dir = old || rec.dtype == 4;
                let is_wanted = search.wanted.is_none_or(|w| w.contains(&child));
                let named = child.0 >= 2 && child.0 < inodes && search.list.len() < most;
                if named && (is_dir || is_wanted) {
                    let len = block.len as u32;
                    search.list.push(NameLocation { child, dir, at: block.at, len });
                }
                let new = is_dir && !search.visited.contains(&child);
                if named && new && search.queue.len() < MAX_DIRECTORIES {
                    search.queue.push_back(child);
                }
            });
        }
        Ok(())
    }

    /// Calls `each` with the live entries of a block of `len` bytes that are neither `.` nor `..`.
    fn live_entries(&self, buf: &[u8], len: usize, mut each: impl FnMut(&Record<'_>)) {
        let fmt = self.dir_format();
        for dirblk in buf[..len.min(buf.len())].chunks_exact(DIRBLKSIZ) {
            let live = dir::records(fmt, dirblk).filter_map(Result::ok).filter(Record::live);
            live.filter(|r| !matches!(r.name, b"." | b"..")).for_each(|r| each(&r));
        }
    }
}
