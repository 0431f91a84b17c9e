//! Phase 1: blocks and sizes.
//!
//! **Purpose.** Scans every inode in use, checks its type, size and pointers, and marks its
//! fragments used.
//!
//! **Invariants.**
//! 1. After phase 1 a fragment is marked used exactly if it belongs to metadata or to an inode that
//!    remains. If another round is due, that round establishes this.
//! 2. Each indirect block is read at most once, in a listed snapshot twice: the second pointer to a
//!    fragment is a duplicate and is not followed.
//!
//! References: spec/fsck-and-crash.md §3.1; spec/on-disk-format.md §7, §11, §18.3.

use ffs_ondisk::geometry::{Format, NDADDR, NIADDR};
use ffs_ondisk::superblock::CkHash;
use ffs_ondisk::wire::get;
use ffs_ondisk::{CgNo, FileType, FragNo, Geometry, Ino, bmap, dinode};

use super::blkcheck::{BlockCheck, FragCount};
use super::buffered::Read;
use super::checker::Checker;
use super::corrections::Correction;
use super::inode::Inode;
use super::inoinfo::{InoInfo, InoStat, State};
use super::report::{Id, Phase};
use super::resolve::{Draft, Res};
use super::walk::Dropped;

/// Bytes of inodes read at a time.
const READ_SIZE: usize = 256 << 10;

/// Pointers of a free inode.
const ZEROS: [u8; 120] = [0; 120];

/// Inodes of one group that are read at once.
#[derive(Clone, Copy)]
struct InodePiece {
    c: CgNo,
    /// Index of the first one in its group: the first of an inode block.
    start: u32,
    n: u32,
}

impl InodePiece {
    fn at(self, g: &Geometry) -> FragNo {
        g.cgimin(self.c).plus(u64::from(self.start / g.inopb) * u64::from(g.frag))
    }

    fn bytes(self, g: &Geometry) -> usize {
        self.n.next_multiple_of(g.inopb) as usize * g.format.dinode_size()
    }
}

/// Inodes that a thread has read.
#[derive(Default)]
struct InodesRead {
    bytes: Vec<u8>,
    read: Read,
    /// The check hashes of all inodes in use are right.
    hashes_ok: bool,
}

/// What is known of an inode before its check.
#[derive(Clone, Copy)]
struct Known {
    /// It is marked in a trusted map, or there is none.
    marked: bool,
    /// Its check hash is right; otherwise that is not known.
    hash_ok: bool,
}

impl Checker<'_> {
    /// Scans all inodes.
    pub(super) fn phase1(&mut self) -> Res<()> {
        let inodes = self.groups.iter().map(|group| u64::from(group.scan.min(self.g.ipg))).sum();
        self.begin_phase(Phase::Blocks, inodes)?;
        self.mark_metadata();
        self.restore_root_type()?;
        self.scan_inodes()?;
        self.end_phase()
    }

    /// Marks superblock copies, group blocks, inode blocks and the summary area.
    fn mark_metadata(&mut self) {
        let g = self.g;
        for c in 0..g.ncg {
            let c = CgNo(c);
            let from = if c.0 == 0 { FragNo(0) } else { g.cgsblock(c) };
            self.used.set_range(from.0, g.cgdmin(c).0);
        }
        let frags = u64::from(g.numfrags_up(g.cssize.into()));
        self.used.set_range(g.csaddr.0, g.csaddr.0 + frags);
    }

    /// The map of used inodes of group `c` if preen trusts it; otherwise the inodes' modes decide.
    fn trusted_inode_map(&mut self, c: CgNo) -> Res<Option<Vec<u8>>> {
        let group = self.groups[c.0 as usize];
        if !(self.resolver.is_preen() && self.softdep && group.map_trusted) {
            return Ok(None);
        }
        let bytes = self.read_group(c)?;
        Ok(Some(ffs_ondisk::Cg::new(&self.g, &bytes).inosused().to_vec()))
    }

    /// Scans the inodes of all groups, which threads read ahead.
    fn scan_inodes(&mut self) -> Res<()> {
        let g = self.g;
        let per_read = ((READ_SIZE / g.bsize as usize).max(1) * g.inopb as usize) as u32;
        let mut pieces = Vec::new();
        for (c, group) in (0..g.ncg).map(CgNo).zip(&self.groups) {
            let scan = group.scan.min(g.ipg);
            let starts = (0..scan).step_by(per_read as usize);
            pieces.extend(starts.map(|start| InodePiece {
                c,
                start,
                n: per_read.min(scan - start),
            }));
        }
        let reader = self.disk.reader();
        let work = |item: usize, out: &mut InodesRead| {
            let Some(piece) = pieces.get(item) else { return };
            out.bytes.resize(piece.bytes(&g), 0);
            out.read = reader.read(piece.at(&g), &mut out.bytes);
            let inodes = out.bytes.chunks_exact(g.format.dinode_size()).take(piece.n as usize);
            out.hashes_ok = inodes
                .into_iter()
                .all(|raw| get::<u16>(raw, 0, g.endian) == 0 || dinode::hash_ok(&g, raw));
        };
        let mut map = None;
        self.threads.in_order(pieces.len(), work, |item, inodes| {
            let Some(&piece) = pieces.get(item) else { return Ok(()) };
            if piece.start == 0 {
                map = self.trusted_inode_map(piece.c)?;
                self.inodes.reserve_group(piece.c, self.groups[piece.c.0 as usize].scan.min(g.ipg));
            }
            self.scan_piece(piece, inodes, map.as_deref())?;
            if pieces.get(item + 1).is_none_or(|next| next.c != piece.c) {
                self.inodes.trim(piece.c);
                self.report_bad_reads()?;
                self.check_interrupt()?;
            }
            Ok(())
        })
    }

    fn scan_piece(
        &mut self,
        piece: InodePiece,
        inodes: &mut InodesRead,
        map: Option<&[u8]>,
    ) -> Res<()> {
        let g = self.g;
        let (at, len) = (piece.at(&g), inodes.bytes.len());
        let hashes_ok = inodes.hashes_ok && self.disk.is_final(at, len, inodes.read);
        self.disk.complete(at, &mut inodes.bytes, inodes.read)?;
        self.advance(piece.n.into());
        for (i, raw) in (0..piece.n).zip(inodes.bytes.chunks_exact(g.format.dinode_size())) {
            let index = piece.start + i;
            let marked = map.is_none_or(|m| ffs_ondisk::cg::bit(m, index) != Some(false));
            let ino = Ino(piece.c.0 * g.ipg + index);
            if ino.0 >= 2 {
                self.check_inode(ino, raw, Known { marked, hash_ok: hashes_ok })?;
            }
        }
        Ok(())
    }

    /// Checks one inode. An inode that is not marked in a trusted map is free: soft updates mark it
    /// in the map before its first write, and clear the mark after the inode is free on disk.
    fn check_inode(&mut self, ino: Ino, raw: &[u8], known: Known) -> Res<()> {
        if get::<u16>(raw, 0, self.g.endian) == 0 {
            return self.check_free_inode(ino, raw);
        }
        if !known.marked {
            let draft = self.in_use_but_free("inode in use but marked free".to_owned());
            return self.report_unfixed(draft.ino(ino));
        }
        if self.check_inode_fast(ino, raw, known.hash_ok) {
            return Ok(());
        }
        let g = self.g;
        let mut node = Inode::decode(&g, ino, raw);
        if !dinode::hash_ok(&g, raw) {
            let draft = Draft::benign(Id::InoHash, "wrong inode check hash").ino(ino);
            if self.adopting.contains(CkHash::INODE) || self.should_fix(draft)? {
                self.rehash_inode(&mut node)?;
            }
        }
        if self.is_invalid(&mut node)? {
            return Ok(());
        }
        let nlink = node.d.nlink;
        let dtype = (node.d.mode >> 12) as u8;
        let rec = InoStat { state: State::Used, dtype, nlink, unaccounted: nlink.into() };
        self.inodes.set(ino, rec);
        if !self.check_blocks(&mut node)? {
            self.inodes.set(ino, InoStat::default());
            return Ok(());
        }
        if node.changed {
            self.write_inode(&mut node)?;
        }
        if node.is_dir() {
            self.add_directory(&node);
        }
        if node.is_snapshot() {
            self.snapshots.push(ino);
        }
        if self.sujfree && node.d.freelink != 0 && !node.is_dir() {
            self.unchain(&mut node)?;
        }
        Ok(())
    }

    /// Checks that a free inode has no size and no pointers.
    fn check_free_inode(&mut self, ino: Ino, raw: &[u8]) -> Res<()> {
        let parts = match self.g.format {
            Format::Ufs1 => [&raw[8..16], &raw[40..100]],
            Format::Ufs2 => [&raw[16..24], &raw[112..232]],
        };
        // There are many of these, so the comparison is not done byte by byte.
        if parts.iter().all(|p| **p == ZEROS[..p.len()]) {
            return Ok(());
        }
        let draft =
            Draft::fatal(Id::InoPartial, "free inode with a size or pointers: clear").ino(ino);
        if self.should_fix(draft)? {
            self.clear_inode(ino)?;
        }
        Ok(())
    }

    /// Whether the inode as a whole is invalid. If so, it has been cleared or counts as free.
    fn is_invalid(&mut self, node: &mut Inode) -> Res<bool> {
        let g = self.g;
        let Some(kind) = node.d.file_type() else {
            let draft = Draft::fatal(Id::InoType, "unknown file type: clear");
            return self.clear_or_ignore(node, draft.before(format!("{:#o}", node.d.mode)));
        };
        let limit = node.size_limit(&g);
        let special = !matches!(kind, FileType::Regular | FileType::Directory | FileType::Symlink);
        if special && node.d.size != 0 {
            let draft = Draft::fatal(Id::InoSpecial, "device, fifo or socket with a size: clear");
            return self.clear_or_ignore(node, draft.before(node.d.size));
        }
        let none = match g.format {
            Format::Ufs1 => node.d.rdev() as u32 == u32::MAX,
            Format::Ufs2 => node.d.rdev() == u64::MAX,
        };
        if kind.is_device() && none {
            let draft = Draft::fatal(Id::InoSpecial, "device without a number: clear");
            return self.clear_or_ignore(node, draft);
        }
        if node.d.size > limit {
            let message = format!("size beyond the limit of {limit}: clear");
            let draft = Draft::fatal(Id::InoSize, message).before(node.d.size);
            return self.clear_or_ignore(node, draft);
        }
        if self.remove_if_not_kept_up(node)? {
            return Ok(true);
        }
        let extra = pointers_past_end(&g, node);
        if extra > 0 {
            return self.past_end(node, extra);
        }
        Ok(false)
    }

    fn clear_or_ignore(&mut self, node: &Inode, draft: Draft) -> Res<bool> {
        if self.should_fix(draft.ino(node.ino))? {
            self.clear_inode(node.ino)?;
        } else {
            // Its pointers are not followed; phase 2 reports its names.
            let (dtype, nlink) = ((node.d.mode >> 12) as u8, node.d.nlink);
            let rec = InoStat { state: State::DupBad, dtype, nlink, unaccounted: nlink.into() };
            self.inodes.set(node.ino, rec);
        }
        Ok(true)
    }

    /// Drops pointers in the inode beyond its size, or clears the inode.
    fn past_end(&mut self, node: &mut Inode, extra: usize) -> Res<bool> {
        let message = format!("{extra} pointers beyond the size: drop them");
        let draft = Draft::fatal(Id::InoPastEnd, message).ino(node.ino).before(node.d.size);
        if self.should_fix(draft)? {
            drop_pointers(&self.g, node);
            self.write_inode(node)?;
            return Ok(false);
        }
        if !self.resolver.is_interactive() {
            return Ok(false);
        }
        let draft = Draft::fatal(Id::InoPastEnd, "pointers beyond the size: clear the inode");
        self.clear_or_ignore(node, draft.alternative())
    }

    /// Checks the blocks of `node`, and then the fields that depend on them. Returns false if
    /// the inode was cleared.
    fn check_blocks(&mut self, node: &mut Inode) -> Res<bool> {
        self.check_ext_size(node)?;
        let mut check = BlockCheck::new(node, self.softdep, self.is_listed_snapshot(node));
        let complete = self.walk(node, &mut check)?;
        if check.removed {
            return Ok(false);
        }
        let candidate = !complete || check.keeps_bad();
        if candidate {
            *node = Inode::decode(&self.g, node.ino, node.raw());
            self.inodes.update(node.ino, |r| r.state = State::DupBad);
            self.rerun_after_phase4();
            return Ok(true);
        }
        if check.dropped_bad() {
            self.restart_after_phase();
        }
        if check.dups > 0 {
            // The count and the holes of a file with duplicate blocks are checked once it has its
            // own copies.
            return Ok(true);
        }
        if node.is_dir() {
            self.check_dir_holes(node, &mut check)?;
        }
        self.check_ext_records(node, &mut check)?;
        self.check_end(node, &mut check)?;
        let stored = node.stored_blocks;
        let counted = self.g.frags_to_sectors(check.frags);
        if stored != counted && !check.reshaped {
            let draft = Draft::benign(Id::InoBlocks, "wrong block count").ino(node.ino);
            if self.should_fix(draft.before(stored).after(counted))? {
                node.d.blocks = counted;
                node.changed = true;
                self.correct(Correction::AdjBlkCnt { file: node.id() });
            }
        }
        Ok(true)
    }

    fn check_dir_holes(&mut self, node: &mut Inode, check: &mut BlockCheck) -> Res<()> {
        let Some(hole) = check.first_hole else { return Ok(()) };
        let size = hole * u64::from(self.g.bsize);
        let message = format!("directory with an unallocated block {hole}: shorten");
        let draft = Draft::fatal(Id::DirHole, message).ino(node.ino);
        if self.should_fix(draft.before(node.d.size).after(size))? {
            node.d.size = size;
            self.drop_past_end(node, Dropped::Keep)?;
            self.write_shortened(node, check)?;
        }
        Ok(())
    }

    /// Writes an inode that has lost blocks, with the right count. The next round marks the blocks.
    pub(super) fn write_shortened(&mut self, node: &mut Inode, check: &mut BlockCheck) -> Res<()> {
        check.reshaped = true;
        let mut recount = FragCount::default();
        self.walk(node, &mut recount)?;
        node.d.blocks = self.g.frags_to_sectors(recount.frags);
        self.write_inode(node)?;
        self.restart_after_phase();
        Ok(())
    }

    /// Checks that a file with indirect blocks ends with an allocated block.
    fn check_end(&mut self, node: &mut Inode, check: &mut BlockCheck) -> Res<()> {
        let g = self.g;
        let nblocks = node.nblocks(&g);
        let regular = node.d.file_type() == Some(FileType::Regular) && !node.is_snapshot();
        if !regular || nblocks <= NDADDR as u64 || check.end >= nblocks {
            return Ok(());
        }
        let size = check.end * u64::from(g.bsize);
        let message = "size beyond the end of the allocated blocks: shorten";
        let draft = Draft::benign(Id::InoEndHole, message).ino(node.ino);
        if self.should_fix(draft.before(node.d.size).after(size))? {
            if self.in_background() {
                // The blocks behind the new end stay used: the mount frees them.
                self.correct(Correction::SetSize { file: node.id(), size });
                return Ok(());
            }
            node.d.size = size;
            node.changed = true;
            self.drop_past_end(node, Dropped::Free)?;
            let mut recount = FragCount::default();
            self.walk(node, &mut recount)?;
            check.frags = recount.frags;
        }
        Ok(())
    }

    fn add_directory(&mut self, node: &Inode) {
        let state = self.inodes.get(node.ino).state;
        if node.d.size == 0 && state == State::Used {
            self.inodes.update(node.ino, |r| r.state = State::ZeroDir);
        } else if state == State::Used {
            let first = u64::try_from(node.d.db[0]).unwrap_or(0);
            self.dirs.insert(InoInfo::new(node.ino, first, node.d.size));
        }
    }
}

/// The number of non-zero pointers in the inode beyond the size.
fn pointers_past_end(g: &Geometry, node: &Inode) -> usize {
    if node.inline {
        let p = g.format.pointer_size();
        let text = usize::try_from(node.d.size).unwrap_or(usize::MAX);
        let from = text.next_multiple_of(p);
        let capacity = g.format.short_symlink_capacity();
        let area = node.d.short.text(capacity as u64);
        let words = area.get(from..).unwrap_or(&[]).chunks(p);
        return words.filter(|w| w.iter().any(|&b| b != 0)).count();
    }
    let (db, ib) = first_spare(g, node);
    let spare = |list: &[i64], from: usize| list.iter().skip(from).filter(|&&p| p != 0).count();
    spare(&node.d.db, db) + spare(&node.d.ib, ib)
}

/// The number of direct and indirect pointers that the size (or the device number) requires.
fn first_spare(g: &Geometry, node: &Inode) -> (usize, usize) {
    if node.has_pointers() {
        let nblocks = node.nblocks(g);
        let ib = (0..NIADDR).filter(|&i| bmap::first_of_root(g, i).0 < nblocks).count();
        return (usize::try_from(nblocks).unwrap_or(NDADDR).min(NDADDR), ib);
    }
    let device = node.d.file_type().is_some_and(FileType::is_device);
    (usize::from(device), 0)
}

fn drop_pointers(g: &Geometry, node: &mut Inode) {
    if node.inline {
        let text = node.d.short.text(node.d.size).to_vec();
        node.d.short = dinode::ShortLink::new(&text);
    } else {
        let (db, ib) = first_spare(g, node);
        node.d.db.iter_mut().skip(db).for_each(|p| *p = 0);
        node.d.ib.iter_mut().skip(ib).for_each(|p| *p = 0);
    }
    node.changed = true;
}
