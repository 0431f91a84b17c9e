//! How large a file system must be to hold a tree.
//!
//! A [`Survey`] is a sink that counts the fragments and inodes that the tree needs. Dry runs of
//! newfs with growing sizes then find a file system with that much free space.
//!
//! # Invariants
//! 1. Counts are never too low for a file system that is filled in the order of the survey. They
//!    include data, indirect blocks, the last block of a file that ends in a hole, directories in
//!    their worst packing, and, on request, extended attributes.
//! 2. A directory counts once, whether it is an entry of its own or only part of a path.
//! 3. Memory is linear in the number of names, for paths of any depth.

mod enough;

use std::collections::BTreeMap;

use ffs_admin::AdminError;
use ffs_admin::newfs::{NewfsOptions, NewfsReport, newfs};
use ffs_core::Timespec;
use ffs_device::{ManualClock, MemDevice, SplitMix64};
use ffs_ondisk::geometry::{DIRBLKSIZ, NDADDR};
use ffs_ondisk::{Format, acl, journal};

use super::error::BuildError;
use crate::copy::{CopyReport, Entry, EntryKind, PartialFile, Sink, SinkResult, split_last};
use crate::namei::components;

/// Largest size that is tried, bytes.
const MOST_BYTES: u64 = 1 << 44;
/// Most dry runs of newfs in the search for a size.
const MOST_DRY_RUNS: u32 = 200;

/// Counts the space and the inodes that a tree needs.
pub struct Survey {
    format: Format,
    /// Bytes of a block and of a fragment.
    bsize: u64,
    fsize: u64,
    inodes: u64,
    /// Fragments of files, with their indirect blocks and attributes.
    frags: u64,
    /// The directories; the root is the first.
    directories: Vec<Directory>,
    /// Indices in `directories`, by the index of the parent and the name.
    indices: BTreeMap<(usize, Vec<u8>), usize>,
    /// Path and index of the directory used last: most entries are in the same directory as the
    /// entry before.
    last: (Vec<u8>, usize),
    /// Latest modification.
    newest: Option<Timespec>,
    /// Bytes of data, without holes.
    bytes: u64,
    /// The open file.
    file: Blocks,
    /// Count extended attributes.
    xattrs: bool,
}

/// How full a directory is.
struct Directory {
    /// Full directory blocks of DIRBLKSIZ bytes.
    full_blocks: u64,
    /// Bytes used of the block after them.
    used: usize,
}

impl Directory {
    /// A directory with `.` and `..`.
    const EMPTY: Directory = Directory { full_blocks: 0, used: 24 };

    /// Adds an entry with a name of `name` bytes.
    fn add(&mut self, name: usize) {
        let size = (8 + name + 1).next_multiple_of(4);
        if self.used + size > DIRBLKSIZ {
            self.full_blocks += 1;
            self.used = 0;
        }
        self.used += size;
    }

    fn bytes(&self) -> u64 {
        (self.full_blocks + 1) * DIRBLKSIZ as u64
    }
}

/// Blocks of one file, counted extent by extent.
#[derive(Default)]
struct Blocks {
    size: u64,
    data: u64,
    indirect: u64,
    /// The first logical block that is not counted yet, and the first indirect block of each of the
    /// two lower levels.
    next: u64,
    next_l1: u64,
    next_l2: u64,
    /// The triple indirect block is counted.
    triple: bool,
    /// The last block is counted.
    tail: bool,
}

impl Blocks {
    /// Counts the blocks `first..=last` of a file whose indirect blocks have `per` pointers.
    fn add(&mut self, first: u64, last: u64, per: u64) {
        let from = first.max(self.next);
        if last < from {
            return;
        }
        self.data += last - from + 1;
        self.next = last + 1;
        let direct = NDADDR as u64;
        if last < direct {
            return;
        }
        let (l1, l1_last) = ((from.max(direct) - direct) / per, (last - direct) / per);
        let l1 = l1.max(self.next_l1);
        if l1 > l1_last {
            return;
        }
        self.indirect += l1_last - l1 + 1;
        self.next_l1 = l1_last + 1;
        // The inode points to indirect block 0; the double indirect block points to the next `per`.
        if l1_last == 0 {
            return;
        }
        let (l2, l2_last) = ((l1.max(1) - 1) / per, (l1_last - 1) / per);
        let l2 = l2.max(self.next_l2);
        if l2 <= l2_last {
            self.indirect += l2_last - l2 + 1;
            self.next_l2 = l2_last + 1;
        }
        if l2_last > 0 && !self.triple {
            self.triple = true;
            self.indirect += 1;
        }
    }
}

impl Survey {
    /// An empty survey for a file system with these options.
    ///
    /// # Errors
    /// [`BuildError::Newfs`]: the options are not valid.
    pub fn new(options: &NewfsOptions) -> Result<Survey, BuildError> {
        // The block size that newfs chooses does not depend on the size of the file system, except
        // for very large ones, which need a little less than is counted here.
        let report = dry_run(options, 64 << 20).map_err(BuildError::Newfs)?;
        let (bsize, fsize) = (report.plan.bsize.into(), report.plan.fsize.into());
        Ok(Survey {
            format: report.plan.format,
            bsize,
            fsize,
            inodes: 0,
            frags: 0,
            directories: vec![Directory::EMPTY],
            indices: BTreeMap::new(),
            last: (Vec::new(), 0),
            newest: None,
            bytes: 0,
            file: Blocks::default(),
            xattrs: false,
        })
    }

    /// Counts extended attributes, too.
    #[must_use]
    pub fn with_xattrs(self) -> Survey {
        Survey { xattrs: true, ..self }
    }

    /// Inodes needed.
    #[must_use]
    pub fn inodes(&self) -> u64 {
        self.inodes
    }

    /// Bytes of data, without holes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The latest modification time.
    #[must_use]
    pub fn newest(&self) -> Option<Timespec> {
        self.newest
    }

    /// All fragments needed.
    fn total(&self) -> u64 {
        let directories = self.directories.iter().map(|dir| self.plain(dir.bytes()));
        self.frags + directories.sum::<u64>()
    }

    /// The index of the directory at `path`. Parents without an entry of their own are added, as
    /// the copy creates them.
    fn directory(&mut self, path: &[u8]) -> usize {
        if self.last.0 == path {
            return self.last.1;
        }
        let mut at = 0;
        for name in components(path) {
            let next = self.directories.len();
            let index = *self.indices.entry((at, name.to_vec())).or_insert(next);
            if index == next {
                self.inodes += 1;
                self.directories[at].add(name.len());
                self.directories.push(Directory::EMPTY);
            }
            at = index;
        }
        self.last = (path.to_vec(), at);
        at
    }

    /// Fragments of a file without holes.
    fn plain(&self, size: u64) -> u64 {
        let mut blocks = Blocks { size, ..Blocks::default() };
        if size > 0 {
            blocks.add(0, (size - 1) / self.bsize, self.pointers());
            blocks.tail = true;
        }
        self.frags_of(&blocks)
    }

    /// Counts the blocks `first..=last` of the open file.
    fn blocks(&mut self, first: u64, last: u64) {
        let pointers = self.pointers();
        self.file.add(first, last, pointers);
        self.file.tail |= last >= self.file.size.saturating_sub(1) / self.bsize;
    }

    fn pointers(&self) -> u64 {
        self.bsize / self.format.pointer_size() as u64
    }

    fn frags_of(&self, blocks: &Blocks) -> u64 {
        let per_block = self.bsize / self.fsize;
        let mut frags = (blocks.data + blocks.indirect) * per_block;
        let last = blocks.size.saturating_sub(1) / self.bsize;
        if blocks.tail && last < NDADDR as u64 {
            let used = (blocks.size - last * self.bsize).div_ceil(self.fsize);
            frags -= per_block - used;
        }
        frags
    }

    fn attributes(&self, entry: &Entry) -> u64 {
        if self.format == Format::Ufs1 || !self.xattrs {
            return 0;
        }
        let size = |name: usize, value: usize| {
            ((7 + name).next_multiple_of(8) + value.next_multiple_of(8)) as u64
        };
        let attrs = entry.meta.xattrs.iter();
        let bytes: u64 = attrs.map(|attr| size(attr.name.len(), attr.value.len())).sum();
        // Counted even if the volume does not keep ACLs: few files have any.
        let acls = &entry.meta.acls;
        let each = [(&acls.access, acl::ACCESS_NAME), (&acls.default, acl::DEFAULT_NAME)];
        let each = each.into_iter().filter(|(acl, _)| acl.is_some());
        let bytes = bytes + each.map(|(_, name)| size(name.len(), acl::SIZE)).sum::<u64>();
        bytes.div_ceil(self.fsize)
    }
}

impl Sink for Survey {
    fn entry(&mut self, entry: &Entry, _: &mut CopyReport) -> SinkResult {
        self.newest = self.newest.max(Some(entry.meta.mtime));
        if matches!(entry.kind, EntryKind::Directory) {
            self.directory(&entry.path);
        } else {
            let (dir, name) = split_last(&entry.path);
            let index = self.directory(dir);
            self.directories[index].add(name.len());
            self.inodes += u64::from(!matches!(entry.kind, EntryKind::Link(_)));
        }
        if !matches!(entry.kind, EntryKind::Link(_)) {
            self.frags += self.attributes(entry);
        }
        match &entry.kind {
            EntryKind::Symlink(text) if text.len() >= self.format.short_symlink_capacity() => {
                self.frags += self.plain(text.len() as u64);
            }
            EntryKind::File(size) => self.file = Blocks { size: *size, ..Blocks::default() },
            _ => {}
        }
        Ok(())
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        self.extent(offset, offset + bytes.len() as u64);
        Ok(())
    }

    fn extent(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        self.bytes += end - start;
        self.blocks(start / self.bsize, (end - 1) / self.bsize);
    }

    fn end(&mut self, _: &mut CopyReport) -> SinkResult {
        if let Some(last) = self.file.size.checked_sub(1) {
            // UFS allocates the last block of a file even in a hole.
            self.blocks(last / self.bsize, last / self.bsize);
        }
        let file = std::mem::take(&mut self.file);
        self.frags += self.frags_of(&file);
        Ok(())
    }

    fn abort(&mut self) -> Option<PartialFile> {
        self.file = Blocks::default();
        None
    }
}

impl Survey {
    /// `options` with a size and an inode density that hold the tree and leave `free` bytes outside
    /// the reserve.
    pub(super) fn fit(
        &self,
        options: &NewfsOptions,
        free: u64,
    ) -> Result<NewfsOptions, BuildError> {
        let need = self.total();
        // Fragmentation and allocation preferences may leave some space unused.
        let slack = need / 200 + 16 * (self.bsize / self.fsize);
        let wanted = need.saturating_add(slack).saturating_add(free.div_ceil(self.fsize));
        // The root, .snap, and the inodes that a full cylinder group leaves unused.
        let inodes = self.inodes + self.inodes / 50 + 32;
        let mut options = options.clone();
        let fixed = options.density.is_some();
        let minfree = u64::from(options.minfree.min(99));
        let mut size = wanted.saturating_mul(self.fsize).saturating_mul(100) / (100 - minfree);
        size = size.min(2 * MOST_BYTES) + (256 << 10);
        size = size.next_multiple_of(self.bsize);
        for _ in 0..MOST_DRY_RUNS {
            if size > MOST_BYTES {
                break;
            }
            let report = match dry_run(&options, size) {
                Ok(report) => report,
                Err(AdminError::Size(_)) => {
                    size = (size + size / 4).next_multiple_of(self.bsize);
                    continue;
                }
                Err(error) => return Err(BuildError::Newfs(error)),
            };
            let (free, have) = capacity(&options, &report);
            if free < wanted {
                let more = (wanted - free) * self.fsize;
                size = (size + more + more / 50).next_multiple_of(self.bsize);
            } else if have < inodes && !fixed && options.density.is_none_or(|d| d > 512) {
                let density = options.density.map_or(u64::MAX, u64::from);
                let smaller = density.saturating_sub(density / 8).saturating_sub(1);
                let fair = (size / inodes).min(smaller);
                options.density = Some(u32::try_from(fair).unwrap_or(u32::MAX).max(512));
            } else if have < inodes {
                size = (size + size / 8).next_multiple_of(self.bsize);
            } else {
                options.size = Some(size);
                return Ok(options);
            }
        }
        Err(BuildError::NoSizeFits)
    }

    /// Fails if a file system of `size` bytes cannot hold the tree.
    pub(super) fn check_fits(&self, options: &NewfsOptions, size: u64) -> Result<(), BuildError> {
        let report = match dry_run(options, size) {
            Err(error @ AdminError::Size(_)) => {
                let (needs, enough) = (self.total() * self.fsize, self.enough(options));
                // newfs names the reason for which the size is too large.
                return Err(match enough.is_some_and(|enough| size < enough) {
                    true => BuildError::TooLittleSpace { size, has: 0, needs, enough },
                    false => BuildError::Newfs(error),
                });
            }
            report => report.map_err(BuildError::Newfs)?,
        };
        let free = free_frags(options, &report);
        let (_, inodes) = capacity(options, &report);
        if free < self.total() {
            let (has, needs) = (free * self.fsize, self.total() * self.fsize);
            let enough = self.enough(options);
            Err(BuildError::TooLittleSpace { size, has, needs, enough })
        } else if inodes < self.inodes {
            let enough = self.enough(options);
            Err(BuildError::TooFewInodes { size, has: inodes, needs: self.inodes, enough })
        } else {
            Ok(())
        }
    }
}

/// Fragments of the journal that the volume of `report` gets.
pub(super) fn journal_frags(options: &NewfsOptions, report: &NewfsReport) -> u64 {
    let g = &report.geometry;
    let blocks = if options.journal { journal::blocks(g, journal::default_size(g)) } else { 0 };
    blocks.saturating_mul(g.frag.into())
}

/// Free fragments, with the reserve and without the journal.
fn free_frags(options: &NewfsOptions, report: &NewfsReport) -> u64 {
    let total = report.superblock.cstotal();
    let frags = total.nbfree.saturating_mul(report.plan.frag.into()).saturating_add(total.nffree);
    u64::try_from(frags).unwrap_or(0).saturating_sub(journal_frags(options, report))
}

/// Free fragments without the reserve, and free inodes.
fn capacity(options: &NewfsOptions, report: &NewfsReport) -> (u64, u64) {
    let reserve = (report.plan.dsize * u64::from(report.plan.minfree)).div_ceil(100);
    let inodes = u64::try_from(report.superblock.cstotal().nifree).unwrap_or(0);
    (free_frags(options, report).saturating_sub(reserve), inodes)
}

fn dry_run(options: &NewfsOptions, size: u64) -> Result<NewfsReport, AdminError> {
    let options = NewfsOptions { size: None, reserved: 0, dry_run: true, ..options.clone() };
    let device = MemDevice::new(size);
    let (clock, rng) = (ManualClock::default(), SplitMix64::new(1));
    newfs(&device, &options, &clock, &rng, &mut |_, _| {})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey() -> Survey {
        Survey::new(&NewfsOptions::default()).unwrap().with_xattrs()
    }

    #[test]
    fn files_are_counted_as_the_format_lays_them_out() {
        let s = survey();
        let (b, f) = (s.bsize, s.fsize);
        assert_eq!((b, f), (32768, 4096));
        assert_eq!(s.plain(0), 0);
        assert_eq!(s.plain(1), 1);
        assert_eq!(s.plain(b), 8);
        assert_eq!(s.plain(12 * b), 96);
        assert_eq!(s.plain(12 * b + 1), 96 + 8 + 8, "one indirect block, and no fragments there");
        let per = b / 8;
        assert_eq!(s.plain((12 + per) * b), (12 + per + 1) * 8);
        assert_eq!(s.plain((12 + per + 1) * b), (12 + per + 1 + 3) * 8, "single; double and one");
    }

    #[test]
    fn holes_cost_only_their_pointers() {
        let mut s = survey();
        let size = 600 << 30;
        s.file = Blocks { size, ..Blocks::default() };
        s.extent(size - 4096, size);
        // The last block, and one block at each of three levels.
        let blocks = std::mem::take(&mut s.file);
        assert_eq!(s.frags_of(&blocks), 4 * 8);
    }

    #[test]
    fn a_file_that_ends_in_a_hole_has_its_last_block() {
        let mut s = survey();
        let (b, mut tally) = (s.bsize, CopyReport::default());
        for (size, frags) in [(0, 0), (1, 1), (b + 1, 1), (12 * b + 1, 16), (600 << 30, 4 * 8)] {
            s.frags = 0;
            s.file = Blocks { size, ..Blocks::default() };
            s.end(&mut tally).unwrap();
            assert_eq!(s.frags, frags, "{size} bytes");
        }
        assert_eq!(s.bytes, 0);
    }

    #[test]
    fn directories_count_once_however_they_are_named() {
        let mut s = survey();
        for (path, inodes) in [("a/b/c", 3), ("a", 3), ("", 3), ("a/d", 4), ("a/b", 4)] {
            s.directory(path.as_bytes());
            assert_eq!(s.inodes, inodes, "{path}");
        }
        assert_eq!(s.directories.len(), 5);
        assert_eq!(s.directories[1].used, 24 + 2 * 12, "b and d");
    }

    #[test]
    fn directories_pack_entries_into_chunks() {
        let mut d = Directory::EMPTY;
        for _ in 0..30 {
            d.add(7);
        }
        assert_eq!(d.bytes(), 512, "24 + 30 * 16 = 504");
        d.add(7);
        assert_eq!(d.bytes(), 1024);
    }
}
