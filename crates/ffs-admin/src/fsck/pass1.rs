//! Phase 1: blocks and sizes.
//!
//! **Purpose.** Visits every inode in use, judges its type, size and pointers, and marks the fragments it claims.
//!
//! **Invariants.**
//! 1. After it, a fragment is marked used exactly if metadata or an inode that will stay claims it, unless
//!    `rerun` is set: then a later pass sees to it.
//! 2. Each indirect block is entered once at most: the second claim of a fragment is a duplicate and not entered.
//!
//! References: spec/fsck-and-crash.md §3.1; spec/on-disk-format.md §7, §11, §18.3.

use ffs_ondisk::geometry::{Format, NDADDR, NIADDR};
use ffs_ondisk::superblock::CkHash;
use ffs_ondisk::wire::get;
use ffs_ondisk::{CgNo, FileType, FragNo, Geometry, Ino, bmap, dinode};

use super::Checker;
use super::claim::{Claims, Count};
use super::judge::{Draft, Res};
use super::node::Node;
use super::report::{Id, Phase};
use super::tables::{Dir, Rec, State};

/// Bytes of inodes read at a time.
const CHUNK: usize = 256 << 10;

/// What the pointers of a free inode are.
const ZEROS: [u8; 120] = [0; 120];

impl Checker<'_> {
    /// Looks at all inodes.
    pub(super) fn phase1(&mut self) -> Res<()> {
        let inodes = self.groups.iter().map(|group| u64::from(group.scan.min(self.g.ipg))).sum();
        self.enter(Phase::Blocks, inodes)?;
        self.claim_metadata();
        self.rescue_root()?;
        for c in 0..self.g.ncg {
            self.scan_group(CgNo(c))?;
            self.inodes.trim(CgNo(c));
            self.report_bad_reads()?;
            self.check_interrupt()?;
        }
        self.leave()
    }

    /// Marks superblock copies, group blocks, inode blocks and the summary area.
    fn claim_metadata(&mut self) {
        let g = self.g;
        for c in 0..g.ncg {
            let c = CgNo(c);
            let from = if c.0 == 0 { FragNo(0) } else { g.cgsblock(c) };
            self.used.set_range(from.0, g.cgdmin(c).0);
        }
        let frags = u64::from(g.numfrags_up(g.cssize.into()));
        self.used.set_range(g.csaddr.0, g.csaddr.0 + frags);
    }

    /// The used-inode map of group `c` if it decides which inodes are in use; else the inodes do.
    fn believed_map(&mut self, c: CgNo) -> Res<Option<Vec<u8>>> {
        let group = self.groups[c.0 as usize];
        if !(self.judge.preen() && self.softdep && group.trusted) {
            return Ok(None);
        }
        let bytes = self.read_group(c)?;
        Ok(Some(ffs_ondisk::Cg::new(&self.g, &bytes).inosused().to_vec()))
    }

    fn scan_group(&mut self, c: CgNo) -> Res<()> {
        let g = self.g;
        let map = self.believed_map(c)?;
        let size = g.format.dinode_size();
        let scan = self.groups[c.0 as usize].scan.min(g.ipg);
        let per_chunk = (CHUNK / g.bsize as usize).max(1) * g.inopb as usize;
        let mut buf = Vec::new();
        self.inodes.expect(c, scan);
        for start in (0..scan as usize).step_by(per_chunk) {
            let n = per_chunk.min(scan as usize - start);
            let blocks = (start / g.inopb as usize) as u64;
            let bytes = n.next_multiple_of(g.inopb as usize) * size;
            let at = g.cgimin(c).plus(blocks * u64::from(g.frag));
            buf.resize(bytes, 0);
            self.store.read_into(at, &mut buf)?;
            self.advance(n as u64);
            for (i, raw) in buf.chunks_exact(size).take(n).enumerate() {
                let index = (start + i) as u32;
                let marked =
                    map.as_ref().is_none_or(|m| ffs_ondisk::cg::bit(m, index) != Some(false));
                let ino = Ino(c.0 * g.ipg + index);
                if ino.0 >= 2 {
                    self.check_inode(ino, raw, marked)?;
                }
            }
        }
        Ok(())
    }

    /// An inode that is not `marked` in a map that is believed is free: soft updates mark it before its first
    /// write, and clear the mark after the inode is free on disk.
    fn check_inode(&mut self, ino: Ino, raw: &[u8], marked: bool) -> Res<()> {
        if get::<u16>(raw, 0, self.g.endian) == 0 {
            return self.check_free_inode(ino, raw);
        }
        if !marked {
            let draft = self.taken_but_free("inode in use but marked free".to_owned());
            return self.note(draft.ino(ino));
        }
        if self.take_in_ordinary(ino, raw) {
            return Ok(());
        }
        let g = self.g;
        let mut node = Node::decode(&g, ino, raw);
        if !dinode::hash_ok(&g, raw) {
            let draft = Draft::benign(Id::InoHash, "wrong inode check hash").ino(ino);
            if self.adopting.contains(CkHash::INODE) || self.ask(draft)? {
                self.rehash_inode(&mut node)?;
            }
        }
        if self.nonsense(&mut node)? {
            return Ok(());
        }
        let nlink = node.d.nlink;
        let dtype = (node.d.mode >> 12) as u8;
        let rec = Rec { state: State::Used, dtype, nlink, remaining: nlink.into() };
        self.inodes.set(ino, rec);
        self.check_blocks(&mut node)?;
        if node.changed {
            self.save(&mut node)?;
        }
        if node.is_dir() {
            self.enter_directory(&node);
        }
        if node.is_snapshot() {
            self.snapshots.push(ino);
        }
        if self.sujfree && node.d.freelink != 0 && !node.is_dir() {
            self.unchain(&mut node)?;
        }
        Ok(())
    }

    /// A free inode holds nothing.
    fn check_free_inode(&mut self, ino: Ino, raw: &[u8]) -> Res<()> {
        let parts = match self.g.format {
            Format::Ufs1 => [&raw[8..16], &raw[40..100]],
            Format::Ufs2 => [&raw[16..24], &raw[112..232]],
        };
        // There are many of these: compared as a whole, not byte by byte.
        if parts.iter().all(|p| **p == ZEROS[..p.len()]) {
            return Ok(());
        }
        let draft =
            Draft::fatal(Id::InoPartial, "free inode with a size or pointers: clear").ino(ino);
        if self.ask(draft)? {
            self.zero_inode(ino)?;
        }
        Ok(())
    }

    /// Whether the inode makes no sense; if so it has been cleared or counts as free from here on.
    fn nonsense(&mut self, node: &mut Node) -> Res<bool> {
        let g = self.g;
        let Some(kind) = node.d.file_type() else {
            let draft = Draft::fatal(Id::InoType, "unknown file type: clear");
            return self.clear_nonsense(node, draft.before(format!("{:#o}", node.d.mode)));
        };
        let limit = node.size_limit(&g);
        let special = !matches!(kind, FileType::Regular | FileType::Directory | FileType::Symlink);
        if special && node.d.size != 0 {
            let draft = Draft::fatal(Id::InoSpecial, "device, fifo or socket with a size: clear");
            return self.clear_nonsense(node, draft.before(node.d.size));
        }
        let none = match g.format {
            Format::Ufs1 => node.d.rdev() as u32 == u32::MAX,
            Format::Ufs2 => node.d.rdev() == u64::MAX,
        };
        if kind.is_device() && none {
            let draft = Draft::fatal(Id::InoSpecial, "device without a number: clear");
            return self.clear_nonsense(node, draft);
        }
        if node.d.size > limit {
            let message = format!("size beyond the limit of {limit}: clear");
            let draft = Draft::fatal(Id::InoSize, message).before(node.d.size);
            return self.clear_nonsense(node, draft);
        }
        let extra = pointers_past_end(&g, node);
        if extra > 0 {
            return self.past_end(node, extra);
        }
        Ok(false)
    }

    fn clear_nonsense(&mut self, node: &Node, draft: Draft) -> Res<bool> {
        if self.ask(draft.ino(node.ino))? {
            self.zero_inode(node.ino)?;
        } else {
            // Its pointers are not followed; names of it are questioned in phase 2.
            let (dtype, nlink) = ((node.d.mode >> 12) as u8, node.d.nlink);
            let rec = Rec { state: State::Candidate, dtype, nlink, remaining: nlink.into() };
            self.inodes.set(node.ino, rec);
        }
        Ok(true)
    }

    /// Pointers in the inode beyond its size: dropped, or the inode is cleared.
    fn past_end(&mut self, node: &mut Node, extra: usize) -> Res<bool> {
        let message = format!("{extra} pointers beyond the size: drop them");
        let draft = Draft::fatal(Id::InoPastEnd, message).ino(node.ino).before(node.d.size);
        if self.ask(draft)? {
            drop_pointers(&self.g, node);
            self.save(node)?;
            return Ok(false);
        }
        if !self.judge.asks() {
            return Ok(false);
        }
        let draft = Draft::fatal(Id::InoPastEnd, "pointers beyond the size: clear the inode");
        self.clear_nonsense(node, draft.place("whole inode"))
    }

    /// Claims the blocks of `node` and settles what depends on them.
    fn check_blocks(&mut self, node: &mut Node) -> Res<()> {
        self.check_ext_size(node)?;
        let mut claims = Claims::of(node, self.softdep);
        let complete = self.walk(node, &mut claims)?;
        let candidate = !complete || claims.keeps_bad();
        if candidate {
            *node = Node::decode(&self.g, node.ino, node.raw());
            self.inodes.update(node.ino, |r| r.state = State::Candidate);
            self.again();
            return Ok(());
        }
        if claims.dropped_bad() {
            self.restart();
        }
        if claims.dups > 0 {
            // Counts and holes of a file with contested blocks are settled once it has its own.
            return Ok(());
        }
        if node.is_dir() {
            self.check_dir_holes(node, &mut claims)?;
        }
        self.check_end(node, &mut claims)?;
        let stored = node.stored_blocks;
        let counted = self.g.frags_to_sectors(claims.frags);
        if stored != counted && !claims.reshaped {
            let draft = Draft::benign(Id::InoBlocks, "wrong block count").ino(node.ino);
            if self.ask(draft.before(stored).after(counted))? {
                node.d.blocks = counted;
                node.changed = true;
            }
        }
        Ok(())
    }

    /// The extended-attribute area has a possible size, and blocks for it.
    fn check_ext_size(&mut self, node: &mut Node) -> Res<()> {
        let (size, limit) = (node.d.extsize, 2 * self.g.bsize);
        let missing = (0..2u32).any(|i| size > i * self.g.bsize && node.d.extb[i as usize] == 0);
        if size <= limit && !missing {
            return Ok(());
        }
        let message = "extended attributes without their blocks: drop them";
        let draft = Draft::fatal(Id::Ext, message).ino(node.ino).before(size).after(0);
        if self.ask(draft)? {
            node.d.extsize = 0;
            node.d.extb = [0; 2];
            node.changed = true;
        }
        Ok(())
    }

    fn check_dir_holes(&mut self, node: &mut Node, claims: &mut Claims) -> Res<()> {
        let Some(hole) = claims.first_hole else { return Ok(()) };
        let size = hole * u64::from(self.g.bsize);
        let message = format!("directory with an unallocated block {hole}: shorten");
        let draft = Draft::fatal(Id::DirHole, message).ino(node.ino);
        if self.ask(draft.before(node.d.size).after(size))? {
            node.d.size = size;
            self.drop_past_end(node, false)?;
            claims.reshaped = true;
            let mut recount = Count::default();
            self.walk(node, &mut recount)?;
            node.d.blocks = self.g.frags_to_sectors(recount.frags);
            self.save(node)?;
            self.restart();
        }
        Ok(())
    }

    /// A file with indirect blocks ends with an allocated block.
    fn check_end(&mut self, node: &mut Node, claims: &mut Claims) -> Res<()> {
        let g = self.g;
        let nblocks = node.nblocks(&g);
        let regular = node.d.file_type() == Some(FileType::Regular) && !node.is_snapshot();
        if !regular || nblocks <= NDADDR as u64 || claims.end >= nblocks {
            return Ok(());
        }
        let size = claims.end * u64::from(g.bsize);
        let message = "size beyond the end of the allocated blocks: shorten";
        let draft = Draft::benign(Id::InoEndHole, message).ino(node.ino);
        if self.ask(draft.before(node.d.size).after(size))? {
            node.d.size = size;
            node.changed = true;
            self.drop_past_end(node, true)?;
            let mut recount = Count::default();
            self.walk(node, &mut recount)?;
            claims.frags = recount.frags;
        }
        Ok(())
    }

    fn enter_directory(&mut self, node: &Node) {
        let state = self.inodes.get(node.ino).state;
        if node.d.size == 0 && state == State::Used {
            self.inodes.update(node.ino, |r| r.state = State::ZeroDir);
        } else if state == State::Used {
            let first = u64::try_from(node.d.db[0]).unwrap_or(0);
            self.dirs.insert(Dir::new(node.ino, first, node.d.size));
        }
    }
}

/// Pointers in the inode beyond the size.
fn pointers_past_end(g: &Geometry, node: &Node) -> usize {
    if node.inline {
        let p = g.format.pointer_size();
        let text = usize::try_from(node.d.size).unwrap_or(usize::MAX);
        let from = text.next_multiple_of(p);
        let room = g.format.short_symlink_room();
        let area = node.d.short.text(room as u64);
        let words = area.get(from..).unwrap_or(&[]).chunks(p);
        return words.filter(|w| w.iter().any(|&b| b != 0)).count();
    }
    let (db, ib) = first_spare(g, node);
    let spare = |list: &[i64], from: usize| list.iter().skip(from).filter(|&&p| p != 0).count();
    spare(&node.d.db, db) + spare(&node.d.ib, ib)
}

/// How many direct and indirect pointers the size (or the device number) calls for.
fn first_spare(g: &Geometry, node: &Node) -> (usize, usize) {
    if node.has_pointers() {
        let nblocks = node.nblocks(g);
        let ib = (0..NIADDR).filter(|&i| bmap::first_of_root(g, i).0 < nblocks).count();
        return (usize::try_from(nblocks).unwrap_or(NDADDR).min(NDADDR), ib);
    }
    let device = node.d.file_type().is_some_and(FileType::is_device);
    (usize::from(device), 0)
}

fn drop_pointers(g: &Geometry, node: &mut Node) {
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
