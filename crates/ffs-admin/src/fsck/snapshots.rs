//! Snapshots during a check.
//!
//! **Purpose.** The superblock must list only snapshots that a mount can keep up. A block that is
//! about to be freed while a snapshot still reads it in place becomes part of that snapshot. A
//! block that is about to change is copied for the snapshots first.
//!
//! **Invariants.**
//! 1. A freed block goes to the oldest listed snapshot with an unset pointer; the others continue
//!    to read it in place.
//! 2. A changed block is copied once for each snapshot that reads it in place, from the content on
//!    the device.
//! 3. No copy is placed in a block that a snapshot reads in place.
//! 4. A listed snapshot that has lost a part of its content is removed. No pointer of it is set to
//!    0 instead: that would show the present content of the volume.
//!
//! References: spec/snapshots.md §3, §6; spec/fsck-and-crash.md §3.6 (CG-LEAK).

use std::collections::BTreeSet;

use ffs_ondisk::bmap::{self, Path, pointer, set_pointer};
use ffs_ondisk::cg::{Cg, full_pattern};
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::snapshot::{self, block_frags};
use ffs_ondisk::superblock::FSMAXSNAP;
use ffs_ondisk::{CgNo, FragNo, Ino, Lbn};

use super::buffered::Class;
use super::checker::Checker;
use super::inode::Inode;
use super::report::Id;
use super::resolve::{Draft, Res, Stop};

/// How a snapshot gets a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gain {
    /// A copy, before the block changes.
    Copy,
    /// The block itself, which became free.
    TakeOver,
}

/// Location of a pointer.
enum PointerLocation {
    Direct(usize),
    Indirect(FragNo, usize),
}

/// Why an examination of a snapshot ended early.
enum Ended {
    Damaged(ffs_ondisk::Error),
    Stopped(Stop),
}

impl From<ffs_ondisk::Error> for Ended {
    fn from(error: ffs_ondisk::Error) -> Self {
        Ended::Damaged(error)
    }
}

impl Checker<'_> {
    /// Whether `node` is a snapshot that the superblock lists.
    pub(super) fn is_listed_snapshot(&self, node: &Inode) -> bool {
        node.is_snapshot() && snapshot::active(&self.sb).contains(&node.ino)
    }

    /// Removes the listed snapshot `node` if a mount could not keep it up; `true` if so.
    pub(super) fn remove_if_not_kept_up(&mut self, node: &Inode) -> Res<bool> {
        if !self.is_listed_snapshot(node) {
            return Ok(false);
        }
        let g = self.g;
        let listed = snapshot::listed_state(&g, node.ino, &node.d, |at| {
            self.disk.read(at, g.bsize as usize).map_err(Ended::Stopped)
        });
        match listed {
            Ok(_) => Ok(false),
            Err(Ended::Damaged(error)) => self.remove_snapshot(node.ino, &error.to_string()),
            Err(Ended::Stopped(stop)) => Err(stop),
        }
    }

    /// Removes the snapshot `ino`, which has lost a part of its content; `true` if that was
    /// granted. `why`: what is damaged.
    pub(super) fn remove_snapshot(&mut self, ino: Ino, why: &str) -> Res<bool> {
        let message = format!("damaged snapshot: remove it ({why})");
        let remove = self.should_fix(Draft::fatal(Id::InoSnapshot, message).ino(ino))?;
        if remove {
            self.clear_inode(ino)?;
            self.restart_after_phase();
        }
        Ok(remove)
    }

    /// Removes inodes that are not snapshots from the superblock's list.
    pub(super) fn check_snapshot_list(&mut self) -> Res<()> {
        let listed = self.sb.f.snapinum;
        let mut good: Vec<u32> = Vec::new();
        for ino in listed.into_iter().take_while(|&i| i != 0) {
            if self.snapshots.contains(&Ino(ino)) && !good.contains(&ino) {
                good.push(ino);
            }
        }
        let mut right = [0; FSMAXSNAP];
        right[..good.len()].copy_from_slice(&good);
        if right != listed {
            let draft = Draft::benign(
                Id::SbSnapshot,
                "the superblock lists an inode that is not a snapshot",
            );
            let draft = draft.before(format!("{listed:?}")).after(format!("{good:?}"));
            if self.should_fix(draft)? {
                self.sb.f.snapinum = right;
            }
        }
        self.listed = good.into_iter().map(Ino).collect();
        Ok(())
    }

    /// Preserves the content of the listed snapshots across the repairs.
    pub(super) fn preserve_snapshots(&mut self) -> Res<()> {
        if self.listed.is_empty() || !self.resolver.can_write() {
            return Ok(());
        }
        for c in 0..self.g.ncg {
            if self.groups[c as usize].header_ok {
                self.give_freed_blocks(CgNo(c))?;
            }
        }
        self.copy_changed_blocks()
    }

    /// Gives blocks of group `c` that are free now, and that a snapshot reads in place, to that
    /// snapshot.
    fn give_freed_blocks(&mut self, c: CgNo) -> Res<()> {
        let old = &self.read_group(c)?;
        let g = self.g;
        let view = Cg::new(&g, old);
        for blk in 0..g.cg_frags(c) / g.frag {
            let first = g.cgbase(c).plus(u64::from(blk * g.frag));
            let used = self.used.word(first.0) as u8 & full_pattern(g.frag);
            // A block of which a part is free on the device: its last used part becomes free.
            let free = view.block_pattern(blk);
            if free != full_pattern(g.frag) && used == 0 {
                self.give_freed_block(first, free)?;
            }
        }
        Ok(())
    }

    /// Gives the freed block at `at` to the oldest snapshot that reads it in place. `free`: the
    /// fragments that are free on the device.
    fn give_freed_block(&mut self, at: FragNo, free: u8) -> Res<()> {
        let lbn = self.g.fragstoblks(at);
        for ino in self.listed.clone() {
            let mut node = self.read_inode(ino)?;
            let Some(slot) = self.unset_pointer(&mut node, lbn)? else { continue };
            let message = "a free block that a snapshot still reads: give it to the snapshot";
            let draft = Draft::benign(Id::CgLeak, message).ino(ino).place(format!("block {lbn}"));
            if !self.should_fix(draft)? {
                return Ok(());
            }
            self.set_snapshot_pointer(&mut node, &slot, at, Gain::TakeOver)?;
            for f in 0..self.g.frag {
                let at = at.0 + u64::from(f);
                self.used.set(at);
                if free & (1 << f) != 0 {
                    self.new_frags.insert(at);
                }
            }
            return Ok(());
        }
        Ok(())
    }

    /// Sets the pointer at `slot` of a snapshot to the block at `at`, which becomes its own.
    fn set_snapshot_pointer(
        &mut self,
        node: &mut Inode,
        slot: &PointerLocation,
        at: FragNo,
        gain: Gain,
    ) -> Res<()> {
        match *slot {
            PointerLocation::Direct(i) => node.d.db[i] = at.pointer(),
            PointerLocation::Indirect(frag, off) => {
                let mut raw = vec![0; self.g.format.pointer_size()];
                set_pointer(&self.g, &mut raw, 0, at.pointer());
                match gain {
                    Gain::Copy => self.disk.point_to_copy(frag, off, &raw)?,
                    Gain::TakeOver => self.disk.take_over(frag, off, &raw),
                }
            }
        }
        let sectors = self.g.frags_to_sectors(self.g.frag.into());
        node.d.blocks = node.d.blocks.saturating_add(sectors);
        self.write_inode(node)
    }

    /// Copies for the snapshots the blocks that the repairs are about to change.
    fn copy_changed_blocks(&mut self) -> Res<()> {
        let mut done: BTreeSet<u64> = BTreeSet::new();
        // A new block for one snapshot changes that snapshot's metadata, which other snapshots may
        // read in place.
        for _ in 0..4 {
            let dirty = self.disk.dirty_blocks(self.g.frag);
            let todo: Vec<u64> = dirty.into_iter().filter(|b| done.insert(*b)).collect();
            if todo.is_empty() {
                break;
            }
            for lbn in todo {
                self.copy_for_snapshots(Lbn(lbn))?;
            }
        }
        Ok(())
    }

    fn copy_for_snapshots(&mut self, lbn: Lbn) -> Res<()> {
        let first = self.g.blkstofrags(lbn);
        let mut frags = first.0..first.plus(self.g.frag.into()).0;
        if frags.all(|f| self.new_frags.contains(&f)) {
            return Ok(());
        }
        for ino in self.listed.clone() {
            let mut node = self.read_inode(ino)?;
            let Some(slot) = self.unset_pointer(&mut node, lbn)? else { continue };
            let Some(copy) = self.alloc_for_snapshot()? else {
                let message = "no space to copy a block for a snapshot";
                self.report_only(Draft::benign(Id::SbSnapshot, message).ino(ino));
                return Ok(());
            };
            let there = block_frags(&self.g, lbn) as usize * self.g.fsize as usize;
            let mut bytes = self.disk.read_device(first, there)?;
            bytes.resize(self.g.bsize as usize, 0);
            self.disk.write(copy, &bytes, Class::Copy)?;
            self.set_snapshot_pointer(&mut node, &slot, copy, Gain::Copy)?;
        }
        Ok(())
    }

    /// Allocates a block that no snapshot reads in place.
    fn alloc_for_snapshot(&mut self) -> Res<Option<FragNo>> {
        let mut refused = Vec::new();
        let mut found = None;
        while let Some(at) = self.alloc_frags(self.g.frag)? {
            if !self.is_read_in_place(at)? {
                found = Some(at);
                break;
            }
            refused.push(at);
        }
        for at in refused {
            for f in at.0..at.0 + u64::from(self.g.frag) {
                self.used.clear(f);
                self.new_frags.remove(&f);
            }
        }
        Ok(found)
    }

    fn is_read_in_place(&mut self, at: FragNo) -> Res<bool> {
        let lbn = self.g.fragstoblks(at);
        for ino in self.listed.clone() {
            let mut node = self.read_inode(ino)?;
            if self.unset_pointer(&mut node, lbn)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Location of the pointer to block `lbn` if it is 0; `None` also if an indirect block is
    /// damaged.
    fn unset_pointer(&mut self, node: &mut Inode, lbn: Lbn) -> Res<Option<PointerLocation>> {
        let g = self.g;
        if lbn.0 >= node.nblocks(&g) {
            return Ok(None);
        }
        let (levels, index) = match bmap::path(&g, lbn) {
            Some(Path::Direct(i)) if i < NDADDR => {
                return Ok((node.d.db[i] == 0).then_some(PointerLocation::Direct(i)));
            }
            Some(Path::Indirect { levels, index }) => (levels, index),
            _ => return Ok(None),
        };
        let mut at = node.d.ib[levels - 1];
        for (depth, &slot) in index.iter().take(levels).enumerate() {
            let frag = FragNo(u64::try_from(at).unwrap_or(0));
            if g.run_problem(frag, g.frag).is_some() {
                return Ok(None);
            }
            let off = slot as usize * g.format.pointer_size();
            let within = off % g.fsize as usize;
            let piece = frag.plus((off / g.fsize as usize) as u64);
            let buf = self.disk.read(piece, g.fsize as usize)?;
            at = pointer(&g, buf.get(within..).unwrap_or(&[]), 0);
            if depth + 1 == levels {
                return Ok((at == 0).then_some(PointerLocation::Indirect(piece, within)));
            }
        }
        Ok(None)
    }
}
