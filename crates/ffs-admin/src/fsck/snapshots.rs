//! What the check owes to snapshots.
//!
//! **Purpose.** The list in the superblock names snapshots only; a block that is about to be freed although some
//! snapshot still reads it in place becomes that snapshot's own; and one that is about to be changed is copied.
//!
//! **Invariants.**
//! 1. The oldest listed snapshot with an unset pointer takes a freed block; the others go on reading it in place.
//! 2. A changed block is copied once for each snapshot that reads it in place, from what is on the device.
//! 3. A copy never lies in a block that some snapshot reads in place.
//!
//! References: spec/snapshots.md §3, §6; spec/fsck-and-crash.md §3.6 (CG-LEAK).

use std::collections::BTreeSet;

use ffs_ondisk::bmap::{self, Path, pointer, set_pointer};
use ffs_ondisk::cg::{Cg, full_pattern};
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::superblock::FSMAXSNAP;
use ffs_ondisk::{CgNo, FragNo, Ino, Lbn};

use super::Checker;
use super::judge::{Draft, Res};
use super::node::Node;
use super::report::Id;
use super::store::Class;

/// Where a pointer lies.
enum Slot {
    Direct(usize),
    Indirect(FragNo, usize),
}

impl Checker<'_> {
    /// Drops from the superblock's list what is no snapshot.
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
            let draft = Draft::benign(Id::SbSnapshot, "the superblock lists what is no snapshot");
            let draft = draft.before(format!("{listed:?}")).after(format!("{good:?}"));
            if self.ask(draft)? {
                self.sb.f.snapinum = right;
            }
        }
        self.listed = good.into_iter().map(Ino).collect();
        Ok(())
    }

    /// Sees to it that the listed snapshots show after the repairs what they showed before.
    pub(super) fn keep_snapshots(&mut self) -> Res<()> {
        if self.listed.is_empty() || !self.judge.may_write() {
            return Ok(());
        }
        for c in 0..self.g.ncg {
            if self.groups[c as usize].sound {
                self.claim_freed(CgNo(c))?;
            }
        }
        self.preserve_changed()
    }

    /// Gives the free blocks of group `c` that a snapshot still reads in place to that snapshot.
    fn claim_freed(&mut self, c: CgNo) -> Res<()> {
        let old = &self.read_group(c)?;
        let g = self.g;
        let view = Cg::new(&g, old);
        for blk in 0..g.cg_frags(c) / g.frag {
            let first = g.cgbase(c).plus(u64::from(blk * g.frag));
            let used = self.used.byte(first.0) & full_pattern(g.frag);
            if view.block_pattern(blk) == 0 && used == 0 {
                self.offer(first)?;
            }
        }
        Ok(())
    }

    /// Offers the freed block at `at` to the snapshots, oldest first.
    fn offer(&mut self, at: FragNo) -> Res<()> {
        let lbn = Lbn(at.0 / u64::from(self.g.frag));
        for ino in self.listed.clone() {
            let mut node = self.node(ino)?;
            let Some(slot) = self.unset_pointer(&mut node, lbn)? else { continue };
            let message = "a free block that a snapshot still reads: give it to the snapshot";
            let draft = Draft::benign(Id::CgLeak, message).ino(ino).place(format!("block {lbn}"));
            if !self.ask(draft)? {
                return Ok(());
            }
            let own = i64::try_from(at.0).unwrap_or(0);
            match slot {
                Slot::Direct(i) => node.d.db[i] = own,
                Slot::Indirect(frag, off) => {
                    let mut raw = vec![0; self.g.format.pointer_size()];
                    set_pointer(&self.g, &mut raw, 0, own);
                    self.store.patch(frag, off, &raw, Class::Data)?;
                }
            }
            node.d.blocks =
                node.d.blocks.saturating_add(self.g.frags_to_sectors(self.g.frag.into()));
            self.save(&mut node)?;
            for f in at.0..at.0 + u64::from(self.g.frag) {
                self.used.set(f);
            }
            return Ok(());
        }
        Ok(())
    }

    /// Makes the pointer at `slot` of a snapshot name a block of its own.
    fn give_block(&mut self, node: &mut Node, slot: &Slot, block: i64) -> Res<()> {
        match *slot {
            Slot::Direct(i) => node.d.db[i] = block,
            Slot::Indirect(frag, off) => {
                let mut raw = vec![0; self.g.format.pointer_size()];
                set_pointer(&self.g, &mut raw, 0, block);
                self.store.patch(frag, off, &raw, Class::Data)?;
            }
        }
        let sectors = self.g.frags_to_sectors(self.g.frag.into());
        node.d.blocks = node.d.blocks.saturating_add(sectors);
        self.save(node)
    }

    /// Copies for the snapshots what the repairs are about to change.
    fn preserve_changed(&mut self) -> Res<()> {
        let mut done: BTreeSet<u64> = BTreeSet::new();
        // Giving a snapshot a block changes that snapshot's own metadata, which others may read in place.
        for _ in 0..4 {
            let dirty = self.store.dirty_blocks(self.g.frag);
            let todo: Vec<u64> = dirty.into_iter().filter(|b| done.insert(*b)).collect();
            if todo.is_empty() {
                break;
            }
            for lbn in todo {
                self.preserve(Lbn(lbn))?;
            }
        }
        Ok(())
    }

    fn preserve(&mut self, lbn: Lbn) -> Res<()> {
        let first = lbn.0.saturating_mul(self.g.frag.into());
        let mut frags = first..first + u64::from(self.g.frag);
        if frags.all(|f| self.new_frags.contains(&f)) {
            return Ok(());
        }
        for ino in self.listed.clone() {
            let mut node = self.node(ino)?;
            let Some(slot) = self.unset_pointer(&mut node, lbn)? else { continue };
            let Some(copy) = self.alloc_for_snapshot()? else {
                let message = "no room to preserve a block for a snapshot";
                self.mention(Draft::benign(Id::SbSnapshot, message).ino(ino));
                return Ok(());
            };
            let left = self.g.size.saturating_sub(first).min(self.g.frag.into());
            let mut bytes =
                self.store.read_device(FragNo(first), (left * u64::from(self.g.fsize)) as usize)?;
            bytes.resize(self.g.bsize as usize, 0);
            self.store.write(copy, &bytes, Class::Data)?;
            self.give_block(&mut node, &slot, i64::try_from(copy.0).unwrap_or(0))?;
        }
        Ok(())
    }

    /// A free block that no snapshot reads in place.
    fn alloc_for_snapshot(&mut self) -> Res<Option<FragNo>> {
        let mut refused = Vec::new();
        let mut found = None;
        while let Some(at) = self.alloc_frags(self.g.frag)? {
            if !self.read_in_place(at)? {
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

    fn read_in_place(&mut self, at: FragNo) -> Res<bool> {
        let lbn = Lbn(at.0 / u64::from(self.g.frag));
        for ino in self.listed.clone() {
            let mut node = self.node(ino)?;
            if self.unset_pointer(&mut node, lbn)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The place of the pointer to block `lbn` if it is 0; `None` also if it cannot be reached.
    fn unset_pointer(&mut self, node: &mut Node, lbn: Lbn) -> Res<Option<Slot>> {
        let g = self.g;
        if lbn.0 >= node.nblocks(&g) {
            return Ok(None);
        }
        let (levels, index) = match bmap::path(&g, lbn) {
            Some(Path::Direct(i)) if i < NDADDR => {
                return Ok((node.d.db[i] == 0).then_some(Slot::Direct(i)));
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
            let buf = self.store.read(piece, g.fsize as usize)?;
            at = pointer(&g, buf.get(within..).unwrap_or(&[]), 0);
            if depth + 1 == levels {
                return Ok((at == 0).then_some(Slot::Indirect(piece, within)));
            }
        }
        Ok(None)
    }
}
