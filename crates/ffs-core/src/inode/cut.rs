//! Taking blocks out of a file's map and freeing them: the common part of truncation and punching.
//!
//! In this order: read what has to be changed, clear the entries of partly kept indirect blocks and
//! write those, clear the inode's pointers and write the inode, shorten the last block's buffer,
//! forget the others, free. (The classic truncation writes the inode before: then a crash may leave
//! pointers beyond the size.)
//!
//! # Invariants
//! 1. A [`Plan`] holds every indirect block that a cut will change: after it nothing but freeing has
//!    to read the device.
//! 2. Freeing goes on past pointers that cannot be right, up to [`MAX_BAD`] of them: so a tree that
//!    an image ties into a knot costs no more steps than the volume has blocks.
//!
//! Reference: `spec/soft-updates.md` §6.11, §11.2.

use super::bmap::{Node, raw};
use super::extattr::ext_sectors;
use super::lifecycle::place;
use super::{InodeData, InodeView, LockedInode};
use crate::buf::{BufKey, BufRef};
use crate::error::{Error, Result};
use crate::ordering::{Event, FragRun, FreeWhen, InodeChange};
use ffs_ondisk::bmap::{pointer, set_pointer};
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::{FragNo, Lbn, Structure};
use smallvec::SmallVec;
use std::ops::{Range, RangeInclusive};

/// Pointers that could not be freed after which freeing stops.
const MAX_BAD: u32 = 16;

/// What lies in the range to be cut.
pub(super) struct Plan {
    range: RangeInclusive<u64>,
    /// Roots in the inode all of whose blocks go.
    roots: Vec<usize>,
    /// Indirect blocks that lose some entries.
    partial: Vec<Partial>,
    /// The block before the range, if it loses fragments.
    pub(super) last: Option<Shorter>,
}

/// A block that keeps `new` of its `old` bytes.
pub(super) struct Shorter {
    pub(super) buf: BufRef,
    pub(super) old: u32,
    pub(super) new: u32,
}

struct Partial {
    buf: BufRef,
    node: Node,
    entries: Range<usize>,
}

/// Something no pointer names any more.
pub(super) struct Detached {
    /// The pointer.
    raw: i64,
    /// What it names; level 0 is data.
    node: Node,
    /// Fragments, of data.
    frags: u32,
}

impl Detached {
    /// A run of data.
    pub(super) fn data(raw: i64, frags: u32) -> Detached {
        Detached { raw, node: Node { level: 0, first: Lbn(0) }, frags }
    }
}

/// Progress of freeing.
#[derive(Default)]
struct Freed {
    frags: u64,
    bad: u32,
    error: Option<Error>,
    /// The file is a snapshot: pointers below a block are marks and name nothing.
    snapshot: bool,
    /// What is to be freed later, neighbours in one run; `None`: freed at once.
    later: Option<Vec<FragRun>>,
}

impl<'a> InodeView<'a> {
    /// What has to be done to take the blocks `first` to `last` out of the file.
    pub(super) fn plan(self, first: Lbn, last: Lbn) -> Result<Plan> {
        let g = self.g();
        let mut plan =
            Plan { range: first.0..=last.0, roots: Vec::new(), partial: Vec::new(), last: None };
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
                self.plan_node(node, raw, &mut plan)?;
            }
        }
        Ok(plan)
    }

    /// Plans the cut through an indirect block that is kept.
    fn plan_node(self, node: Node, raw: i64, plan: &mut Plan) -> Result<()> {
        let g = self.g();
        let per = node.per_pointer(g);
        let slots = u64::from(g.nindir);
        // The range in blocks from the first one mapped here, its end exclusive.
        let from = plan.range.start().saturating_sub(node.first.0);
        let to = plan.range.end().saturating_add(1).saturating_sub(node.first.0);
        let whole = from.div_ceil(per).min(slots)..(to / per).min(slots);
        let buf = self.indirect(node, raw)?;
        if !whole.is_empty() {
            let entries = whole.start as usize..whole.end as usize;
            plan.partial.push(Partial { buf: buf.clone(), node, entries });
        }
        // The entries at the two ends that keep some of their blocks.
        let head = (!from.is_multiple_of(per)).then_some(from / per);
        let tail = (!to.is_multiple_of(per)).then_some(to / per).filter(|t| Some(*t) != head);
        for k in [head, tail].into_iter().flatten().filter(|&k| k < slots) {
            let child = pointer(g, &buf.read().bytes, k as usize);
            if child != 0 && node.level > 1 {
                self.plan_node(node.child(g, k as usize), child, plan)?;
            }
        }
        Ok(())
    }

    /// Lets go of the fragments of a block that the inode does not count any more. Not before: a block that was
    /// written without them would count as written, while the device shows them still.
    fn shorten(self, Shorter { buf, old, new }: &Shorter) -> Detached {
        let at = buf.read().addr;
        self.ump.cache.relocate(buf, at, *new as usize, || ());
        let fsize = self.g().fsize;
        Detached::data(raw(at.plus((new / fsize).into())), (old - new) / fsize)
    }

    fn detach_from_indirect(self, plan: &Plan, size: u64, out: &mut Vec<Detached>) -> Result<()> {
        let g = self.g();
        for part in &plan.partial {
            let found = out.len();
            {
                let mut b = part.buf.write();
                for k in part.entries.clone() {
                    let raw = pointer(g, &b.bytes, k);
                    if raw != 0 {
                        out.push(Detached { raw, node: part.node.child(g, k), frags: g.frag });
                        set_pointer(g, &mut b.bytes, k, 0);
                    }
                }
                if out.len() > found {
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

    /// Frees what no pointer names any more.
    pub(super) fn free_all(self, all: &[Detached]) -> Result<()> {
        self.free_detached(all, &[], false).error.map_or(Ok(()), Err)
    }

    /// `partial`: the indirect blocks in which pointers to some of `all` were cleared.
    fn free_detached(self, all: &[Detached], partial: &[i64], snapshot: bool) -> Freed {
        let ordering = &self.ump.ordering;
        let later = match ordering.notify(Event::BlocksReleased { ino: self.ip.ino }).free {
            FreeWhen::Now => None,
            FreeWhen::Later => Some(Vec::new()),
        };
        let mut freed = Freed { snapshot, later, ..Freed::default() };
        for d in all {
            self.free_tree(d, &mut freed);
        }
        if let Some(runs) = freed.later.take().filter(|runs| !runs.is_empty()) {
            ordering.notify(Event::BlocksFreed { ino: self.ip.ino, runs, partial });
        }
        if freed.bad > 0 {
            self.ump.cache.set_needs_check();
        }
        freed
    }

    /// Frees what `d` names, and all below it, bottom up.
    fn free_tree(self, d: &Detached, freed: &mut Freed) {
        let g = self.g();
        let mark = freed.snapshot && (1..i64::from(g.frag)).contains(&d.raw);
        if freed.bad >= MAX_BAD || mark {
            return;
        }
        let s = if d.node.level == 0 { Structure::Inode } else { Structure::IndirectBlock };
        let at = match g.check_run(d.raw, d.frags, s, place(self.ip.ino)) {
            Ok(at) => at.unwrap_or(FragNo::HOLE),
            Err(e) => return freed.fail(e.into()),
        };
        if d.node.level > 0 {
            match self.indirect(d.node, d.raw) {
                Ok(buf) => self.free_children(d.node, &buf, freed),
                Err(e) => freed.fail(e),
            }
            self.forget_indirect(d.node);
        }
        let run = FragRun { at, frags: d.frags };
        let result = match &mut freed.later {
            None => self.ump.alloc.free_frags(run),
            Some(runs) => {
                gather(runs, run);
                Ok(())
            }
        };
        match result {
            Ok(()) => freed.frags += u64::from(d.frags),
            Err(e) => freed.fail(e),
        }
    }

    fn free_children(self, node: Node, buf: &BufRef, freed: &mut Freed) {
        let g = self.g();
        let below: Vec<(usize, i64)> = {
            let b = buf.read();
            let all = (0..g.nindir as usize).map(|k| (k, pointer(g, &b.bytes, k)));
            all.filter(|&(_, p)| p != 0).collect()
        };
        for (k, raw) in below {
            let child = node.child(g, k);
            self.free_tree(&Detached { raw, node: child, frags: g.frag }, freed);
        }
    }

    /// Forgets the buffers of the blocks of `ip` that `range` names, changes and all.
    pub(super) fn forget_blocks(self, range: RangeInclusive<i64>) {
        self.ump.cache.invalidate_range(self.ip.ino, range.clone());
        self.ump.ordering.notify(Event::BuffersDiscarded { ino: self.ip.ino, blocks: range });
    }

    /// Forgets the buffer of an indirect block.
    pub(super) fn forget_indirect(self, node: Node) {
        let name = node.name();
        self.ump.cache.invalidate(BufKey::File(self.ip.ino, name));
        self.ump.ordering.notify(Event::BuffersDiscarded { ino: self.ip.ino, blocks: name..=name });
    }
}

impl<'a> LockedInode<'a> {
    /// Takes the plan's blocks out of the file, writes the inode (`change` adjusts it first) and
    /// the indirect blocks, and frees; `also` are freed with them. The caller has set the times.
    ///
    /// # Errors
    /// The first. The pointers are gone all the same; blocks that could not be freed wait for fsck.
    pub(super) fn cut(
        &mut self,
        plan: &Plan,
        mut also: Vec<Detached>,
        change: impl FnOnce(&mut InodeData),
    ) -> Result<()> {
        let size = self.data.d.size;
        self.detach_from_inode(plan, &mut also);
        // No pointer lies beyond the size, at any moment: so they go first.
        let cleared = self.view().detach_from_indirect(plan, size, &mut also);
        change(&mut self.data);
        let emptied = self.data.d.db == [0; NDADDR] && self.data.d.ib == [0; NIADDR];
        let blocks_before = self.data.d.blocks;
        if emptied {
            self.data.d.blocks = ext_sectors(self.g(), &self.data.d);
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
            self.data.d.blocks = blocks_before.saturating_sub(sectors);
            if sectors > 0 {
                self.update(InodeChange::Attr)?;
            }
        }
        freed.error.map_or(Ok(()), Err)
    }

    fn detach_from_inode(&mut self, plan: &Plan, out: &mut Vec<Detached>) {
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
                out.push(Detached::data(*p, frags));
                *p = 0;
            }
        }
        for &root in &plan.roots {
            if let Some(p) = self.data.d.ib.get_mut(root) {
                note(NDADDR + root, *p, g.frag);
                out.push(Detached { raw: *p, node: Node::root(g, root), frags: g.frag });
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
                });
            }
        } else if !self.data.d.is_dir() {
            let last = last.filter(|&last| last < NDADDR);
            self.ump.ordering.notify(Event::InodeTruncated {
                ino: self.ip.ino,
                last,
                size,
                cleared: &cleared,
            });
        }
    }
}

/// Adds `run` to the runs, to the last of them if it lies behind it.
fn gather(runs: &mut Vec<FragRun>, run: FragRun) {
    match runs.last_mut() {
        Some(last) if last.at.plus(last.frags.into()) == run.at => {
            last.frags = last.frags.saturating_add(run.frags);
        }
        _ => runs.push(run),
    }
}

impl Freed {
    /// Notes a pointer whose blocks stay allocated.
    fn fail(&mut self, e: Error) {
        self.bad += 1;
        self.error.get_or_insert(e);
    }
}
