//! Allocating and freeing inodes (`spec/allocation.md` §2; lazily initialised inode blocks:
//! `spec/on-disk-format.md` §5.2).
//!
//! # Invariants
//! 1. An inode is allocated only if its block was initialised. On UFS2 the block after the highest
//!    one in use is written, with the disposition of the ordering mode, before the group counts it.
//!    If the ordering mode waits for that write, it waits for the group's too: a check after a
//!    crash treats every inode above the `initediblk` on disk as free, even if its block was
//!    written.
//!
//! # Locking
//! The buffer of the fresh inode block is locked while the group is locked, against the usual order
//! (buffer, then group). No other thread can hold it: inodes at or above `initediblk` are never
//! read.

use super::dirpref::{self, Expected};
use super::group::GroupEdit;
use super::{Alloc, LOG, ParentDir};
use crate::buf::{BufKey, BufKind, DiskBlock, Disposition, NewContent};
use crate::error::{Error, Result};
use crate::ordering::{Event, FragRun};
use ffs_device::clock::Rng;
use ffs_ondisk::dinode::Dinode2;
use ffs_ondisk::{CgNo, Csum, Format, Ino, Place, Structure};
use tracing::{debug, trace};

impl Alloc {
    /// Allocates an inode for a new file in `parent`. The caller initialises it in the inode block.
    ///
    /// # Errors
    /// [`Error::NoInodes`]; the device's; a damaged group's error if no other group has a free
    /// inode.
    pub(crate) fn alloc_inode(&self, parent: &ParentDir, is_dir: bool) -> Result<Ino> {
        let pref = self.inode_pref(parent, is_dir)?;
        let start = self.g().ino_to_cg(pref);
        let found = self.hash_search_where(
            start,
            |counts| counts.nifree > 0,
            |c, first| self.alloc_inode_in(c, first.then_some(pref), is_dir),
        )?;
        let (ino, parent) = (found.map(|ino| ino.0), parent.ino.0);
        trace!(target: LOG, ino, parent, is_dir, "new inode");
        found.ok_or(Error::NoInodes)
    }

    /// The preferred inode. Counts the new directories and files of its group.
    fn inode_pref(&self, parent: &ParentDir, is_dir: bool) -> Result<Ino> {
        let g = self.g();
        let mut sum = self.sum.lock();
        if sum.totals.nifree <= 0 {
            debug!(target: LOG, "no inodes");
            return Err(Error::NoInodes);
        }
        let pref = if is_dir {
            let expected =
                Expected { avgfilesize: self.params.avgfilesize, avgfpdir: self.params.avgfpdir };
            let view =
                dirpref::View { g, cs: &sum.cs, totals: sum.totals, contigdirs: &sum.contigdirs };
            let c = view.choose(self.tunables.dirpref(), expected, parent, &self.rng);
            Ino(c.0.saturating_mul(g.ipg))
        } else {
            parent.ino
        };
        let pref = if pref.0 < g.inodes() { pref } else { Ino(0) };
        sum.count_contigdirs(g.ino_to_cg(pref), is_dir);
        Ok(pref)
    }

    fn alloc_inode_in(&self, c: CgNo, pref: Option<Ino>, is_dir: bool) -> Result<Option<Ino>> {
        self.edit(c, |e| {
            if e.counts().nifree <= 0 {
                return Ok(None);
            }
            let i = e.find_inode(pref.map(|p| e.g.ino_to_cgi(p)))?;
            self.initialise_inodes(e, i)?;
            Ok(Some(e.take_inode(i, is_dir)))
        })
    }

    /// Writes inode blocks until the block of inode index `i` and the one after it are initialised,
    /// as far as the group has them.
    fn initialise_inodes(&self, e: &mut GroupEdit<'_>, i: u32) -> Result<()> {
        let (inopb, ipg) = (e.g.inopb, e.g.ipg);
        if e.g.format == Format::Ufs1 {
            return Ok(());
        }
        let mut inited = e.cg.view().initediblk();
        while inited < ipg && i.saturating_add(inopb) > inited {
            let answer = self.write_fresh_inodes(e, Ino(e.c.0 * ipg + inited))?;
            inited = inited.saturating_add(inopb).min(ipg);
            e.cg.set_initediblk(inited);
            e.count(Csum::default());
            e.demand(answer);
            self.sum.lock().set_initediblk(e.c, inited);
        }
        Ok(())
    }

    /// Fills the block of inodes that starts with `first` with free inodes, with generation numbers
    /// that no old file handle has.
    fn write_fresh_inodes(&self, e: &GroupEdit<'_>, first: Ino) -> Result<Disposition> {
        let at = e.g.ino_to_fsba(first);
        let len = e.g.bsize as usize;
        let block = DiskBlock { key: BufKey::Meta(at), kind: BufKind::Inodes, addr: at, len };
        let buf = self.cache.getblk(block, NewContent::Zeroed);
        let mut data = buf.write();
        for slot in data.bytes.chunks_exact_mut(Dinode2::SIZE) {
            let generation = self.rng.next_u32().max(1);
            Dinode2 { gen_: generation, ..Dinode2::default() }.encode(slot, e.g.endian);
        }
        drop(data);
        let answer = e
            .ordering
            .notify(Event::InodeBlockInitialized { block: FragRun { at, frags: e.g.frag } })
            .disposition;
        self.cache.apply(&buf, answer)?;
        Ok(answer)
    }

    /// Frees an inode.
    ///
    /// # Errors
    /// [`Error::Format`] if it is not in use or its group is damaged; the device's.
    pub(crate) fn free_inode(&self, ino: Ino, was_dir: bool) -> Result<()> {
        let g = self.g();
        g.check_ino(ino.0, Structure::Inode, Place::Inode(ino))?;
        self.edit(g.ino_to_cg(ino), |e| e.release_inode(g.ino_to_cgi(ino), was_dir))
    }

    /// Whether the inode's block was ever written. Above `initediblk` it has undefined bytes and
    /// the inode is free.
    ///
    /// # Errors
    /// The group's, if it cannot be read.
    pub(crate) fn inode_initialised(&self, ino: Ino) -> Result<bool> {
        let g = self.g();
        if g.format == Format::Ufs1 || ino.0 >= g.inodes() {
            return Ok(ino.0 < g.inodes());
        }
        let (c, i) = (g.ino_to_cg(ino), g.ino_to_cgi(ino));
        if let Some(n) = self.sum.lock().initediblk(c) {
            return Ok(i < n);
        }
        self.edit(c, |e| Ok(i < e.cg.view().initediblk()))
    }
}

impl GroupEdit<'_> {
    /// A free inode index: the preferred one, else the first from the rotor on, modulo the group
    /// size.
    fn find_inode(&self, pref: Option<u32>) -> Result<u32> {
        let cg = self.cg.view();
        if let Some(i) = pref
            && !cg.inode_used(i)
        {
            return Ok(i);
        }
        // A hostile rotor must not cause all inodes of the group to be initialised.
        let start = cg.irotor().min(cg.initediblk().saturating_sub(1)) as usize / 8;
        let map = cg.inosused();
        let in_byte = |(at, byte): (usize, &u8)| {
            let i = at as u32 * 8 + byte.trailing_ones();
            (*byte != 0xff && i < self.g.ipg).then_some(i)
        };
        let mut onward = map.iter().enumerate().skip(start);
        let mut again = map.iter().enumerate().take(start);
        onward.find_map(in_byte).or_else(|| again.find_map(in_byte)).ok_or_else(|| {
            let found = format!("full, though {} are counted free", self.counts().nifree);
            self.corrupt("inosused", found, "as many free inodes as counted")
        })
    }

    fn take_inode(&mut self, i: u32, is_dir: bool) -> Ino {
        let ino = Ino(self.c.0 * self.g.ipg + i);
        self.cg.set_inode_used(i, true);
        self.cg.set_irotor(i);
        self.count(Csum { nifree: -1, ndir: is_dir.into(), ..Csum::default() });
        let taken = Event::InodeAllocated { ino, is_dir };
        let answer: Disposition = self.ordering.notify(taken).disposition;
        self.demand(answer);
        ino
    }

    pub(super) fn release_inode(&mut self, i: u32, was_dir: bool) -> Result<()> {
        if !self.cg.view().inode_used(i) {
            let found = format!("inode {} to be freed marked free", self.c.0 * self.g.ipg + i);
            return Err(self.corrupt("inosused", found, "marked used"));
        }
        self.cg.set_inode_used(i, false);
        if i < self.cg.view().irotor() {
            self.cg.set_irotor(i);
        }
        // A wrong count of directories does not prevent freeing the inode.
        let dirs = i64::from(was_dir && self.counts().ndir > 0);
        self.count(Csum { nifree: 1, ndir: -dirs, ..Csum::default() });
        Ok(())
    }
}
