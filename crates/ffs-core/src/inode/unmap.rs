//! Removing a range of blocks from a file: truncation and hole punching have this in common.
//! XFS calls it `bunmapi`; in FreeBSD it is a part of `ffs_truncate`.
//!
//! The steps, in this order: read the indirect blocks that keep a part of their pointers; clear the
//! pointers of the inode in memory; clear the pointers in those indirect blocks and write them;
//! write the inode; shorten the buffer of the last block; discard the buffers of the removed
//! blocks; free the blocks ([`super::freeblks`]). FreeBSD without soft updates writes the inode
//! before the indirect blocks: then a crash may leave pointers beyond the size.
//!
//! # Invariants
//! 1. An [`UnmapPlan`] holds every indirect block that the call changes. After it is made, only
//!    freeing reads the device.
//!
//! Reference: `spec/soft-updates.md` §6.11, §11.2.

use super::bmap::Node;
use super::freeblks::Detached;
use super::lifecycle::place;
use super::{InodeData, InodeView, LockedInode};
use crate::buf::BufRef;
use crate::error::Result;
use crate::ordering::{Event, FragRun, InodeChange};
use ffs_ondisk::bmap::{pointer, set_pointer};
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::{Lbn, Structure};
use smallvec::SmallVec;
use std::ops::{Range, RangeInclusive};

/// The pointers to a range of blocks, to be cleared.
pub(super) struct UnmapPlan {
    range: RangeInclusive<u64>,
    /// Indexes in `ib` of the inode, of trees that are inside the range.
    roots: Vec<usize>,
    /// Indirect blocks that keep a part of their pointers.
    partial: Vec<PartialIndir>,
    /// The block before the range, if it loses fragments.
    pub(super) last: Option<ShortenedBlock>,
}

/// A block that keeps `new` of its `old` bytes.
pub(super) struct ShortenedBlock {
    pub(super) buf: BufRef,
    pub(super) old: u32,
    pub(super) new: u32,
}

/// An indirect block, and the entries of it that are cleared.
struct PartialIndir {
    buf: BufRef,
    node: Node,
    entries: Range<usize>,
}

impl<'a> InodeView<'a> {
    /// Finds the pointers to the blocks `first` to `last`.
    pub(super) fn plan_unmap(self, first: Lbn, last: Lbn) -> Result<UnmapPlan> {
        let g = self.g();
        let mut plan = UnmapPlan {
            range: first.0..=last.0,
            roots: Vec::new(),
            partial: Vec::new(),
            last: None,
        };
        for (root, &raw) in self.data.d.ib.iter().enumerate().take(NIADDR) {
            let node = Node::root(g, root);
            let span = node.per_pointer(g).saturating_mul(g.nindir.into());
            let end = node.first.0.saturating_add(span - 1);
            if raw == 0 || end < first.0 || node.first > last {
                continue;
            }
            if first <= node.first && end <= last.0 {
                plan.roots.push(root);
            } else {
                self.plan_partial(node, raw, &mut plan)?;
            }
        }
        Ok(plan)
    }

    /// Adds an indirect block of which a part is in the range, and those below it.
    fn plan_partial(self, node: Node, raw: i64, plan: &mut UnmapPlan) -> Result<()> {
        let g = self.g();
        let per = node.per_pointer(g);
        let slots = u64::from(g.nindir);
        // The range in blocks from the first one that `node` maps, its end exclusive.
        let from = plan.range.start().saturating_sub(node.first.0);
        let to = plan.range.end().saturating_add(1).saturating_sub(node.first.0);
        let whole = from.div_ceil(per).min(slots)..(to / per).min(slots);
        let buf = self.indirect(node, raw)?;
        if !whole.is_empty() {
            let entries = whole.start as usize..whole.end as usize;
            plan.partial.push(PartialIndir { buf: buf.clone(), node, entries });
        }
        // The entries at the two ends of the range that keep a part of their blocks.
        let head = (!from.is_multiple_of(per)).then_some(from / per);
        let tail = (!to.is_multiple_of(per)).then_some(to / per).filter(|t| Some(*t) != head);
        for k in [head, tail].into_iter().flatten().filter(|&k| k < slots) {
            let child = pointer(g, &buf.read().bytes, k as usize);
            if child != 0 && node.level > 1 {
                self.plan_partial(node.child(g, k as usize), child, plan)?;
            }
        }
        Ok(())
    }

    /// Shortens the buffer of the last block and returns the fragments that it loses. The inode
    /// must not count them any more: otherwise a write of the shorter buffer would count as a write
    /// of the block, while the device still shows a file with all its fragments.
    fn shorten(self, ShortenedBlock { buf, old, new }: &ShortenedBlock) -> Detached {
        let at = buf.read().addr;
        self.ump.cache.relocate(buf, at, *new as usize, || ());
        let fsize = self.g().fsize;
        let lbn = buf.key.block().unwrap_or(0);
        Detached::data(at.plus((new / fsize).into()).pointer(), (old - new) / fsize, lbn)
    }

    /// Reports pointers whose buffers do not show yet that they are cleared.
    fn report_cleared(self, detached: &[Detached]) {
        let ordering = &self.ump.ordering;
        if detached.is_empty() || !ordering.keeps_journal() || self.data.is_snapshot() {
            return;
        }
        let cleared: Vec<_> = detached.iter().filter_map(|d| d.run(self.g())).collect();
        ordering.notify(Event::PointersCleared { ino: self.ip.ino, cleared: &cleared });
    }

    /// Reports that the last block is about to lose fragments.
    fn report_shortened(self, ShortenedBlock { buf, old, .. }: &ShortenedBlock) {
        let old = FragRun { at: buf.read().addr, frags: old / self.g().fsize };
        let lbn = buf.key.block().unwrap_or(0);
        self.ump.ordering.notify(Event::RunShortened { ino: self.ip.ino, lbn, old });
    }

    /// Clears the pointers in the indirect blocks of the plan and appends them to `out`. `size` is
    /// the stored size before the call.
    fn detach_from_indirect(
        self,
        plan: &UnmapPlan,
        size: u64,
        out: &mut Vec<Detached>,
    ) -> Result<()> {
        let g = self.g();
        for part in &plan.partial {
            let found = out.len();
            {
                let mut b = part.buf.write();
                for k in part.entries.clone() {
                    let raw = pointer(g, &b.bytes, k);
                    if raw != 0 {
                        out.push(Detached::block(raw, part.node.child(g, k), g.frag));
                        set_pointer(g, &mut b.bytes, k, 0);
                    }
                }
                if out.len() > found {
                    self.report_cleared(out.get(found..).unwrap_or(&[]));
                    let (name, entries) = (part.node.name(), part.entries.clone());
                    self.ump.ordering.notify(Event::IndirectTruncated {
                        ino: self.ip.ino,
                        block: name,
                        entries,
                        size,
                    });
                }
            }
            if out.len() > found {
                let then = self
                    .ump
                    .ordering
                    .notify(Event::BlockTruncated { ino: self.ip.ino, block: part.buf.key })
                    .disposition;
                self.ump.cache.apply(&part.buf, then)?;
            }
        }
        Ok(())
    }
}

impl<'a> LockedInode<'a> {
    /// Clears the pointers of the plan, writes the indirect blocks and the inode, and frees the
    /// blocks, together with those of `also`. `change` adjusts the inode before it is written. The
    /// caller has set the times.
    ///
    /// # Errors
    /// The first one. The pointers are cleared in any case. Blocks that could not be freed stay
    /// allocated until fsck frees them.
    pub(super) fn unmap(
        &mut self,
        plan: &UnmapPlan,
        mut also: Vec<Detached>,
        change: impl FnOnce(&mut InodeData),
    ) -> Result<()> {
        let size = self.stored_size();
        self.detach_from_inode(plan, size, &mut also);
        self.view().report_cleared(&also);
        if let Some(last) = &plan.last {
            self.view().report_shortened(last);
        }
        // The pointers are cleared before the size changes, so none is ever beyond the size.
        let cleared = self.view().detach_from_indirect(plan, size, &mut also);
        change(&mut self.data);
        let emptied = self.data.d.db == [0; NDADDR] && self.data.d.ib == [0; NIADDR];
        let blocks_before = self.data.d.blocks;
        if emptied {
            self.set_blocks(self.data.d.ext_sectors(self.g()));
        }
        let updated = self.update(InodeChange::Truncate);
        also.extend(plan.last.as_ref().map(|last| self.view().shorten(last)));
        updated.and(cleared)?;
        let last = i64::try_from(*plan.range.end()).unwrap_or(i64::MAX);
        let first = i64::try_from(*plan.range.start()).unwrap_or(i64::MAX);
        self.view().forget_blocks(first..=last);
        let partial: SmallVec<[i64; 3]> = plan.partial.iter().map(|p| p.node.name()).collect();
        let freed = self.view().free_detached(&also, &partial, self.data.is_snapshot());
        if !emptied {
            let sectors = self.g().frags_to_sectors(freed.frags);
            self.set_blocks(blocks_before.saturating_sub(sectors));
            if sectors > 0 {
                self.update(InodeChange::Attr)?;
            }
        }
        freed.error.map_or(Ok(()), Err)
    }

    /// Clears the pointers of the inode in memory and appends them to `out`. `stored_size`: see
    /// [`Self::stored_size`].
    fn detach_from_inode(&mut self, plan: &UnmapPlan, stored_size: u64, out: &mut Vec<Detached>) {
        let g = self.g();
        let size = self.data.d.size;
        let mut cleared: SmallVec<[(usize, FragRun); 4]> = SmallVec::new();
        let ino = self.ip.ino;
        let mut note = |i: usize, raw: i64, frags: u32| {
            if let Ok(Some(at)) = g.check_run(raw, frags, Structure::Inode, place(ino)) {
                cleared.push((i, FragRun { at, frags }));
            }
        };
        for (i, p) in self.data.d.db.iter_mut().enumerate() {
            let lbn = Lbn(i as u64);
            if *p != 0 && plan.range.contains(&lbn.0) {
                let frags = g.blksize(size, lbn) / g.fsize;
                note(i, *p, frags);
                out.push(Detached::data(*p, frags, i as i64));
                *p = 0;
            }
        }
        for &root in &plan.roots {
            if let Some(p) = self.data.d.ib.get_mut(root) {
                note(NDADDR + root, *p, g.frag);
                out.push(Detached::block(*p, Node::root(g, root), g.frag));
                *p = 0;
            }
        }
        let is_hole = g.lblktosize(Lbn(plan.range.end().saturating_add(1))) < size;
        let last = usize::try_from(plan.range.start().wrapping_sub(1)).ok();
        if is_hole {
            for (i, run) in cleared {
                self.ump.ordering.notify(Event::HolePunched {
                    ino: self.ip.ino,
                    index: i,
                    old: run,
                    size: stored_size,
                });
            }
        } else if !self.data.d.is_dir() {
            let last = last.filter(|&last| last < NDADDR);
            self.ump.ordering.notify(Event::InodeTruncated {
                ino: self.ip.ino,
                last,
                size: stored_size,
                cleared: &cleared,
            });
        }
    }
}
