//! Workloads with snapshots.
//!
//! Reference: `spec/fsck-and-crash.md` §12.2; `spec/snapshots.md` §14.

use ffs_device::{Rng, SplitMix64};

use super::super::geometry::Shape;
use super::super::op::{Op, Path, Workload};
use super::{join, path, pick, trace};

/// Forms of a workload of one operation.
const FORMS: u32 = 4;
/// Operations of a trace, besides those on snapshots.
const LENGTH: u32 = 110;
/// Of so many traces one has as many snapshots as there may be.
const MANY: u32 = 3;
/// Snapshots that a superblock can list.
const FSMAXSNAP: usize = 20;

/// Whether volumes of `shape` have space for snapshots.
pub(super) fn fits(shape: &Shape) -> bool {
    !shape.full
}

/// How many workloads there are of one of the operations `core`.
pub(super) fn count(core: &[Op]) -> u32 {
    core.len() as u32 * FORMS
}

/// One operation: after a snapshot was made, before one is made, between two of which both are
/// removed, and before a snapshot is made that replaces another.
pub(super) fn around(core: &[Op], n: u32) -> Option<Workload> {
    let op = core.get((n / FORMS) as usize)?.clone();
    let [first, second] = ["s0", "s1"].map(path);
    let made = |at: &Path| Op::Snapshot(at.clone());
    let removed = |at: &Path| Op::Unlink(at.clone());
    let compare = |at: &Path| Op::Compare(at.clone());
    let (setup, ops) = match n % FORMS {
        0 => (vec![made(&first)], vec![op, Op::Wait(31), compare(&first)]),
        1 => (Vec::new(), vec![op, made(&first), Op::Sync, compare(&first)]),
        2 => {
            let ends = [removed(&first), Op::Sync, compare(&second), removed(&second)];
            let setup = vec![made(&first), op, made(&second)];
            (setup, ends.into_iter().chain([Op::Wait(31)]).collect())
        }
        _ => {
            let replaces = Op::Rename(second.clone(), first.clone());
            let ops = vec![op, made(&second), replaces, Op::Sync, compare(&first)];
            (vec![made(&first)], ops)
        }
    };
    Some(Workload { standard_tree: true, setup, ops, ..Workload::default() })
}

/// The snapshots of a trace that is made.
struct Snapshots<'a> {
    rng: &'a SplitMix64,
    prefix: String,
    most: usize,
    there: Vec<Path>,
    made: u32,
}

impl Snapshots<'_> {
    /// An operation on snapshots.
    fn op(&mut self) -> Op {
        let few = self.there.len() < self.most;
        match self.rng.below(10) {
            0..=4 if few => {
                let name = format!("{}{}", self.prefix, self.made);
                let at = join(pick(self.rng, &["", "", "A", "A/C"]), &name);
                self.made += 1;
                self.there.push(at.clone());
                Op::Snapshot(at)
            }
            // One more than there may be.
            0 => Op::Snapshot(join("", "more")),
            1..=3 if !self.there.is_empty() => Op::Compare(self.any()),
            4 | 5 if !self.there.is_empty() => {
                let at = self.any();
                let to =
                    join(pick(self.rng, &["", "B"]), &format!("{}r{}", self.prefix, self.made));
                self.made += 1;
                self.there.retain(|known| *known != at);
                self.there.push(to.clone());
                Op::Rename(at, to)
            }
            6 if !self.there.is_empty() => Op::Chmod(self.any(), 0o440),
            _ if !self.there.is_empty() && (!few || self.rng.below(2) == 0) => {
                let at = self.any();
                self.there.retain(|known| *known != at);
                Op::Unlink(at)
            }
            _ => Op::Sync,
        }
    }

    fn any(&self) -> Path {
        self.there[self.rng.below(self.there.len() as u64) as usize].clone()
    }
}

/// A trace in which snapshots are made, read, renamed and removed.
pub(super) fn trace(shape: &Shape, rng: &SplitMix64, n: u32) -> Workload {
    let blocks = shape.bytes / u64::from(shape.bsize);
    let many = n % MANY == MANY - 1 && blocks >= 1024;
    let most = if many { FSMAXSNAP } else { (blocks / 128) as usize };
    let mut snapshots =
        Snapshots { rng, prefix: "snap".to_owned(), most, there: Vec::new(), made: 0 };
    let mut ops = Vec::new();
    let share = if many { 3 } else { 5 };
    for op in trace::trace(shape, rng, LENGTH) {
        ops.push(op);
        if rng.below(share) == 0 {
            ops.push(snapshots.op());
        }
    }
    if n % 2 == 1 {
        ops.extend(snapshots.there.drain(..).map(Op::Unlink));
        ops.push(Op::Wait(31));
    }
    Workload {
        standard_tree: true,
        write_through: n % 5 == 4,
        tight_memory: n % 4 == 2,
        setup: trace::populated(&["", "A", "B", "A/C"]),
        ops,
        ..Workload::default()
    }
}

/// Adds snapshots to the workload before crash number `link` of a chain.
pub(super) fn sprinkle(rng: &SplitMix64, link: u32, workload: Workload) -> Workload {
    let before = link.checked_sub(1).map(|link| path(&format!("snap{link}0")));
    let mut snapshots = Snapshots {
        rng,
        prefix: format!("snap{link}"),
        most: 2,
        there: before.into_iter().collect(),
        made: 0,
    };
    let mut ops = Vec::new();
    for op in workload.ops {
        ops.push(op);
        if rng.below(12) == 0 {
            ops.push(snapshots.op());
        }
    }
    Workload { ops, ..workload }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::geometry::SHAPES;

    #[test]
    fn a_trace_may_have_as_many_snapshots_as_a_superblock_lists() {
        let shape = SHAPES.iter().find(|shape| shape.name == "ufs2-8m").unwrap();
        let workload = trace(shape, &SplitMix64::new(3), MANY - 1);
        let (mut now, mut most) = (0, 0);
        for op in &workload.ops {
            match op {
                Op::Snapshot(_) => now += 1,
                Op::Unlink(at) if at.to_string().contains("snap") => now -= 1,
                _ => {}
            }
            most = most.max(now);
        }
        assert!(most >= 15, "{most} at a time");
    }
}
