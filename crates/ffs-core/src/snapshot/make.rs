//! The blocks of a new snapshot (FreeBSD: `ffs_snapshot`, `cgaccount`, `expunge_ufs2`).
//!
//! A [`Draft`] is made in steps: [`Draft::begin`] allocates, [`Draft::scan`] writes a first
//! version while the volume is in use, [`Draft::suspend`] brings it up to date while no operation
//! runs and begins copy-on-write, [`Draft::write_list`] completes the file. The caller then enters
//! the snapshot in the superblock and its pointers in its inode. Until then the inode is an empty
//! file: a crash leaves blocks without an owner, and no snapshot.
//!
//! # Invariants
//! 1. In the image the snapshot itself, older snapshots and files without links own nothing: their
//!    blocks and inodes are free in the copies of the cylinder groups.
//! 2. When copy-on-write begins, the pointers, the cylinder groups, the summary area and the
//!    superblock of the image are those of the suspended volume.
//!
//! Reference: `spec/snapshots.md` §4.

mod content;

use super::{FSMAXSNAP, LOG, PointerMap, Snapshots};
use crate::error::{Error, Result};
use crate::ordering::FragRun;
use crate::ordering::rules::Rule;
use ffs_ondisk::bmap::{path, set_pointer};
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::snapshot::{LIST_WORD, image_blocks, leaf_count};
use ffs_ondisk::wire::put;
use ffs_ondisk::{CgNo, Csum, Dinode, FileFlags, FragNo, Geometry, Ino, Lbn};
use std::collections::{BTreeMap, BTreeSet};
use tracing::debug;

/// Words of the block list for blocks whose number is not known at the beginning.
const MARGIN: u64 = 4096;

/// What the image does not show.
#[derive(Debug, Default)]
pub(crate) struct Excluded {
    /// Files without links that are in use, and whether each is a directory.
    pub(crate) unlinked: Vec<(Ino, bool)>,
    /// Their blocks.
    pub(crate) runs: Vec<FragRun>,
    /// Other inodes, and the links that their stored counts have too many: those of the `..` of
    /// removed directories that are in use.
    pub(crate) links: Vec<(Ino, u16)>,
}

/// A snapshot that is being made.
pub(crate) struct Draft<'a> {
    snaps: &'a Snapshots,
    ino: Ino,
    /// The first block behind the image: that of the block list.
    image: Lbn,
    /// Blocks of the file.
    blocks: u64,
    roots: [i64; NIADDR],
    leaves: Vec<FragNo>,
    /// The indirect blocks above the leaves.
    above: Vec<FragNo>,
    /// The blocks of the block list.
    list: Vec<FragNo>,
    copies: BTreeMap<Lbn, FragNo>,
    /// Allocated blocks that have no use yet.
    spare: Vec<FragNo>,
    /// Blocks of this and of older snapshots.
    owned: BTreeSet<Lbn>,
    /// The block that was allocated last.
    last: Option<FragNo>,
    /// Blocks that were allocated while operations waited: their marks are not durable.
    late: Vec<FragNo>,
    suspended: bool,
    /// Runs and inodes that are free in the image, by group.
    freed_runs: BTreeMap<CgNo, Vec<FragRun>>,
    freed_inodes: BTreeMap<CgNo, Vec<(u32, bool)>>,
    /// For each group: its number of changes when it was copied last.
    seen: Vec<Option<u64>>,
    sums: Vec<Csum>,
    direct: [i64; NDADDR],
}

impl<'a> Draft<'a> {
    /// Allocates the blocks of a snapshot whose file is `ino`.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::TooBig`]; the device's. Nothing stays allocated.
    pub(crate) fn begin(snaps: &'a Snapshots, ino: Ino) -> Result<Draft<'a>> {
        let g = *snaps.g();
        if (0..g.ncg).any(|c| !g.cgtod(CgNo(c)).0.is_multiple_of(g.frag.into())) {
            return Err(Error::NotSupported("snapshots of a volume with unaligned groups"));
        }
        let image = image_blocks(&g);
        let summary = u64::from(g.cssize.div_ceil(g.bsize)) + 1;
        // Also an inode block for each older snapshot.
        let fixed = u64::from(g.ncg) + summary + 2 + NDADDR as u64 + FSMAXSNAP as u64;
        // Each copy is listed with its number and with its address.
        let leaves = leaf_count(&g, image) + 2;
        let words = 1 + 2 * fixed + leaves + leaves / u64::from(g.nindir) + 4 + MARGIN;
        let listed = (words * LIST_WORD).div_ceil(g.bsize.into()) + 1;
        let blocks = image + listed;
        let bytes = blocks.saturating_mul(g.bsize.into());
        if path(&g, Lbn(blocks - 1)).is_none() || bytes > g.maxfilesize {
            return Err(Error::TooBig);
        }
        let mut draft = Draft {
            snaps,
            ino,
            image: Lbn(image),
            blocks,
            roots: [0; NIADDR],
            leaves: Vec::new(),
            above: Vec::new(),
            list: Vec::new(),
            copies: BTreeMap::new(),
            spare: Vec::new(),
            owned: BTreeSet::new(),
            last: None,
            late: Vec::new(),
            suspended: false,
            freed_runs: BTreeMap::new(),
            freed_inodes: BTreeMap::new(),
            seen: vec![None; g.ncg as usize],
            sums: vec![Csum::default(); g.ncg as usize],
            direct: [0; NDADDR],
        };
        match draft.allocate(listed, fixed) {
            Ok(()) => Ok(draft),
            Err(e) => {
                draft.abandon(&[]);
                Err(e)
            }
        }
    }

    fn g(&self) -> &'a Geometry {
        self.snaps.g()
    }

    fn allocate(&mut self, listed: u64, fixed: u64) -> Result<()> {
        for root in 0..NIADDR {
            if (self.leaves.len() as u64) < leaf_count(self.g(), self.blocks) {
                self.roots[root] = self.allocate_tree(root)?;
            }
        }
        for _ in 0..listed {
            let at = self.take()?;
            self.list.push(at);
        }
        for _ in 0..fixed {
            let at = self.allocate_block()?;
            self.spare.push(at);
        }
        for c in 0..self.g().ncg {
            let lbn = self.g().fragstoblks(self.g().cgtod(CgNo(c)));
            let at = self.take()?;
            self.copies.insert(lbn, at);
        }
        Ok(())
    }

    /// Allocates an indirect block and those below it, `above` levels over the leaves. Returns the
    /// pointer to it.
    fn allocate_tree(&mut self, above: usize) -> Result<i64> {
        let at = self.take()?;
        if above == 0 {
            self.leaves.push(at);
            return Ok(at.pointer());
        }
        self.above.push(at);
        let want = leaf_count(self.g(), self.blocks);
        let mut bytes = vec![0; self.g().bsize as usize];
        for k in 0..self.g().nindir as usize {
            if self.leaves.len() as u64 >= want {
                break;
            }
            let below = self.allocate_tree(above - 1)?;
            set_pointer(self.g(), &mut bytes, k, below);
        }
        self.write(at, &bytes)?;
        Ok(at.pointer())
    }

    /// A block of this snapshot.
    fn take(&mut self) -> Result<FragNo> {
        match self.spare.pop() {
            Some(at) => Ok(at),
            None => self.allocate_block(),
        }
    }

    /// Allocates a block for this snapshot that no other one reads in place.
    fn allocate_block(&mut self) -> Result<FragNo> {
        let at =
            self.snaps.place_for(self.ino, self.last.map(|at| at.plus(self.g().frag.into())))?;
        self.last = Some(at);
        if self.suspended {
            self.late.push(at);
        }
        self.exclude_block(at);
        self.owned.insert(self.g().fragstoblks(at));
        Ok(at)
    }

    /// The block is free in the image.
    fn exclude_block(&mut self, at: FragNo) {
        let run = FragRun { at, frags: self.g().frag };
        self.exclude_run(run);
    }

    fn exclude_run(&mut self, run: FragRun) {
        let c = self.g().dtog(run.at);
        self.freed_runs.entry(c).or_default().push(run);
        self.forget_group(c);
    }

    /// Writes a first version of pointers and cylinder groups, while the volume is in use.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn scan(&mut self) -> Result<()> {
        for at in self.snaps.begin_log()? {
            self.exclude_older(at);
        }
        self.update(|_| true)
    }

    /// Forgets which blocks older snapshots have.
    fn forget_older(&mut self) {
        self.owned.clear();
        self.freed_runs.clear();
        self.freed_inodes.clear();
        self.seen.fill(None);
        for at in self.own_blocks() {
            self.exclude_older(at);
        }
    }

    /// The blocks of this snapshot, and those that have no use yet.
    fn own_blocks(&self) -> Vec<FragNo> {
        let lists = [&self.spare, &self.leaves, &self.above, &self.list];
        lists.into_iter().flatten().chain(self.copies.values()).copied().collect()
    }

    fn exclude_older(&mut self, at: FragNo) {
        if self.owned.insert(self.g().fragstoblks(at)) {
            self.exclude_block(at);
        }
    }

    /// Brings the draft up to date, and begins copy-on-write. The caller has suspended all
    /// operations and has made everything durable. `superblock` makes the superblock of the image,
    /// at byte `location` of the volume, with the totals. Returns the number of groups that were
    /// copied again; `None` if an older snapshot was removed since [`Draft::scan`], which has to be
    /// repeated.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; the device's. Copy-on-write has not begun.
    pub(crate) fn suspend(
        &mut self,
        excluded: &Excluded,
        (location, superblock): (u64, impl FnOnce(&Csum) -> Vec<u8>),
    ) -> Result<Option<usize>> {
        let Some(acquired) = self.snaps.take_log() else {
            self.forget_older();
            return Ok(None);
        };
        self.suspended = true;
        for at in acquired {
            self.exclude_older(at);
        }
        for run in &excluded.runs {
            self.exclude_run(*run);
        }
        for ino in self.snaps.all() {
            self.edit_inode(ino, true)?;
        }
        for &(ino, is_dir) in &excluded.unlinked {
            self.edit_inode(ino, false)?;
            let (c, i) = (self.g().ino_to_cg(ino), self.g().ino_to_cgi(ino));
            self.freed_inodes.entry(c).or_default().push((i, is_dir));
            self.forget_group(c);
        }
        for &(ino, links) in &excluded.links {
            self.lower_links(ino, links)?;
        }
        self.copy_fixed(location)?;
        let again = self.changed_groups();
        for c in &again {
            self.forget_group(*c);
        }
        self.update(|c| again.contains(&c))?;
        self.write_summaries()?;
        let mut totals = Csum::default();
        self.sums.iter().for_each(|cs| totals.add(cs));
        self.patch(location, &superblock(&totals))?;
        self.direct = self.direct_pointers()?;
        self.snaps.flush_if(Rule::ImageBeforeList)?;
        debug!(target: LOG, ino = self.ino.0, groups = again.len(), "copy-on-write begins");
        Ok(Some(again.len()))
    }

    /// The pointers of the snapshot, for [`Snapshots::activate`].
    pub(crate) fn pointer_map(&self) -> PointerMap {
        let indirect = (self.leaves.clone(), self.above.clone());
        PointerMap::new(self.g(), self.ino, self.blocks, self.direct, indirect)
    }

    /// The groups that changed since they were copied.
    fn changed_groups(&self) -> BTreeSet<CgNo> {
        let all = (0..self.g().ncg).map(CgNo);
        let changes = self.snaps.alloc.group_changes();
        let is_stale = |c: &CgNo| {
            let now = changes.get(c.0 as usize).copied();
            self.seen.get(c.0 as usize).copied().flatten() != now
        };
        all.filter(is_stale).collect()
    }

    fn write(&self, at: FragNo, bytes: &[u8]) -> Result<()> {
        Ok(self.snaps.dev().write_at(self.g().frag_to_byte(at), bytes)?)
    }

    /// Writes the block list, after operations were resumed. Everything is durable on return.
    ///
    /// # Errors
    /// [`Error::Busy`] if the list is full; the device's.
    pub(crate) fn write_list(&mut self) -> Result<()> {
        let own =
            self.leaves.iter().chain(&self.above).chain(&self.list).chain(self.copies.values());
        let mut listed: BTreeSet<Lbn> = own.map(|at| self.g().fragstoblks(*at)).collect();
        // FreeBSD does not copy listed blocks. An older snapshot may still need one.
        listed.extend(self.snaps.not_read_in_place(self.copies.keys().copied())?);
        let words = listed.len() as u64 + 1;
        if words * LIST_WORD > self.list.len() as u64 * u64::from(self.g().bsize) {
            return Err(Error::Busy("too many removed files are still in use"));
        }
        let mut bytes = vec![0; self.list.len() * self.g().bsize as usize];
        let listed = listed.into_iter().map(|lbn| lbn.0);
        for (k, word) in std::iter::once(words).chain(listed).enumerate() {
            let word = i64::try_from(word).unwrap_or(0);
            put(&mut bytes, k * LIST_WORD as usize, self.g().endian, word);
        }
        for (at, block) in self.list.iter().zip(bytes.chunks(self.g().bsize as usize)) {
            self.write(*at, block)?;
        }
        self.snaps.flush_if(Rule::ImageBeforeList)
    }

    /// Fills in the inode of the finished snapshot.
    pub(crate) fn fill_inode(&self, d: &mut Dinode) {
        let blocks = self.leaves.len() + self.above.len() + self.list.len() + self.copies.len();
        d.size = self.blocks.saturating_mul(self.g().bsize.into());
        d.db = self.direct;
        d.ib = self.roots;
        // It has those of extended attributes already.
        let sectors = Dinode::sectors(self.g(), self.g().frag).saturating_mul(blocks as u64);
        d.blocks = d.blocks.saturating_add(sectors);
        d.flags.insert(FileFlags::SF_SNAPSHOT);
    }

    /// Frees the blocks that were not needed.
    pub(crate) fn release_spare(&mut self) {
        let spare = std::mem::take(&mut self.spare);
        self.snaps.give_back(&spare);
    }

    /// Frees all blocks, and those that the snapshot `acquired`: it was not made. Copy-on-write for
    /// it has ended.
    pub(crate) fn abandon(self, acquired: &[FragNo]) {
        self.snaps.take_log();
        self.snaps.give_back(&self.own_blocks());
        self.snaps.give_back(acquired);
    }
}
