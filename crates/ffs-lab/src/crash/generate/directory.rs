//! Traces in a directory of about twelve blocks. Further blocks need an indirect block, which is
//! allocated and freed as the directory grows, is truncated and is removed.
//!
//! A *wide* name leaves space for one more name in its chunk of 512 bytes. The longest *fitting*
//! name fills that space completely. So a directory has about as many chunks as wide names.
//!
//! # Invariants
//! 1. When the recording begins, the directory exists with a length that the seed decides.
//! 2. A trace tracks the names in the directory, so that most of its operations succeed.

use ffs_device::{Rng, SplitMix64};
use ffs_ondisk::geometry::{DIRBLKSIZ, NDADDR};

use super::super::geometry::Shape;
use super::super::op::{Op, Path, Workload};
use super::{join, path, pick};

/// Bytes of a wide name.
const WIDE: usize = 255;
const FITTING: [usize; 4] = [9, 100, 200, 239];
/// Chunks of a new directory beyond twelve blocks.
const BEYOND: [i32; 12] = [-9, -2, -1, 0, 0, 1, 1, 2, 7, 8, 9, 20];
/// Parts of a trace, each with one kind of operations, and the most names that a part adds or
/// removes. Parts that create or empty the whole directory may exceed it.
const PARTS: u32 = 8;
const PART: u64 = 16;
/// The two paths between which the long directory moves.
const PLACES: [&str; 2] = ["D", "B/D"];

/// Whether such a volume has enough space for a long directory, and its states can be examined in
/// reasonable time.
pub(super) fn fits(shape: &Shape) -> bool {
    !shape.full && shape.bsize <= 8192
}

/// Number `n`, drawn by `rng`.
pub(super) fn workload(shape: &Shape, rng: &SplitMix64, n: u32) -> Option<Workload> {
    if !fits(shape) {
        return None;
    }
    let edge = shape.bsize / DIRBLKSIZ as u32 * NDADDR as u32;
    let (names, ops) = (Vec::new(), Vec::new());
    let mut trace = Trace { rng, edge, at: PLACES[0], names, made: 0, ops };
    trace.make();
    let setup = std::mem::take(&mut trace.ops);
    (0..PARTS).for_each(|_| trace.part());
    let mut ops = trace.ops;
    if n % 4 == 2 {
        // With little free space, the directory's growth fails, too.
        let (filler, left) = (path("filler"), u64::from(shape.bsize));
        let fill = [Op::Create(filler.clone()), Op::Fill(filler, left), Op::Sync];
        ops.splice(0..0, fill);
    }
    Some(Workload {
        standard_tree: true,
        write_through: n % 5 == 4,
        tight_memory: n % 3 == 1,
        truncate_on_removal: n % 2 == 1,
        fsync_file: n.is_multiple_of(2),
        setup,
        ops,
        ..Workload::default()
    })
}

/// Whether the volume has the long directory of these traces. `is_there`: whether a path exists.
pub(crate) fn is_long(is_there: impl Fn(&Path) -> bool) -> bool {
    is_there(&path(PLACES[0]))
}

/// Operations in the directory after an unrepaired crash, at either path: it grows, is truncated,
/// and grows again.
pub(crate) fn further_names(seed: u64) -> Vec<Op> {
    let (rng, mut ops) = (SplitMix64::new(seed), Vec::new());
    let name = |place, number: u64| join(place, &format!("{:+<WIDE$}", number));
    for place in PLACES {
        let (more, fewer) = (1 + rng.below(20), rng.below(20));
        ops.extend((0..more).map(|number| Op::Create(name(place, number))));
        ops.extend((0..more.min(fewer)).map(|number| Op::Unlink(name(place, more - 1 - number))));
        ops.push(Op::Link(path("foo"), join(place, "further")));
        ops.extend((more..more + 4).map(|number| Op::Mkdir(name(place, number))));
    }
    ops
}

/// The kind of object that a name refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
}

struct Trace<'a> {
    rng: &'a SplitMix64,
    /// Chunks of twelve blocks.
    edge: u32,
    /// The current path of the long directory.
    at: &'static str,
    /// The names in it, roughly in the order of their position.
    names: Vec<(String, Kind)>,
    /// Names made so far.
    made: u32,
    ops: Vec<Op>,
}

impl Trace<'_> {
    fn part(&mut self) {
        let times = 1 + self.rng.below(PART);
        match self.rng.below(12) {
            0..=1 => (0..times).for_each(|_| self.enter(WIDE)),
            2..=3 => self.truncate(times),
            4..=5 => self.hover(),
            6..=9 => (0..times).for_each(|_| self.mix()),
            10 => self.go_elsewhere(),
            _ => self.begin_anew(),
        }
    }

    fn path(&self, name: &str) -> Path {
        join(self.at, name)
    }

    /// A new name of `length` bytes.
    fn fresh(&mut self, length: usize) -> String {
        self.made += 1;
        format!("{:-<length$}", self.made)
    }

    /// The index of a random name; more often of one near the end.
    fn some(&self) -> Option<usize> {
        let all = self.names.len() as u64;
        let last = if self.rng.below(2) == 0 { all.min(PART) } else { all };
        (all > 0).then(|| (all - 1 - self.rng.below(last)) as usize)
    }

    /// Adds `op`, and sometimes an operation that makes it or others durable.
    fn act(&mut self, op: Op) {
        let about = op.paths().last().map_or_else(|| path(self.at), |path| (*path).clone());
        self.ops.push(op);
        match self.rng.below(32) {
            0 => self.ops.push(Op::Sync),
            1 => self.ops.push(Op::Fsync(about)),
            2 => self.ops.push(Op::Fsync(path(self.at))),
            3..=6 => self.ops.push(Op::Wait(pick(self.rng, &[1, 1, 5, 29, 31]))),
            _ => {}
        }
    }

    /// Makes the directory, of about twelve blocks.
    fn make(&mut self) {
        let chunks = self.edge.saturating_add_signed(pick(self.rng, &BEYOND));
        self.ops.push(Op::Mkdir(path(self.at)));
        (0..chunks).for_each(|_| self.name_more(WIDE));
    }

    /// Adds a name. There are few inodes, so most names are links.
    fn name_more(&mut self, length: usize) {
        let name = self.fresh(length);
        let at = self.path(&name);
        let (op, kind) = match self.rng.below(12) {
            0..=3 => (Op::Create(at), Kind::File),
            4 => (Op::Mkdir(at), Kind::Directory),
            _ => (Op::Link(path(pick(self.rng, &["foo", "A/foo", "B/foo"])), at), Kind::File),
        };
        self.ops.push(op);
        self.names.push((name, kind));
    }

    fn enter(&mut self, length: usize) {
        self.name_more(length);
        if let Some(op) = self.ops.pop() {
            self.act(op);
        }
    }

    /// Removes the name with that index.
    fn remove(&mut self, place: usize) {
        let (name, kind) = self.names.remove(place);
        let at = self.path(&name);
        self.act(match kind {
            Kind::File => Op::Unlink(at),
            Kind::Directory => Op::Rmdir(at),
        });
    }

    fn remove_last(&mut self) {
        if let Some(last) = self.names.len().checked_sub(1) {
            self.remove(last);
        }
    }

    /// Removes the last names. The next new name truncates the empty end.
    fn truncate(&mut self, names: u64) {
        (0..names).for_each(|_| self.remove_last());
        let fitting = pick(self.rng, &FITTING);
        self.enter(fitting);
    }

    /// Brings the directory to twelve blocks, then makes it repeatedly longer and shorter.
    fn hover(&mut self) {
        let wide =
            |all: &[(String, Kind)]| all.iter().filter(|(n, _)| n.len() == WIDE).count() as u32;
        while wide(&self.names) > self.edge {
            self.remove_last();
        }
        while wide(&self.names) < self.edge {
            self.enter(WIDE);
        }
        for _ in 0..1 + self.rng.below(4) {
            let over = 1 + self.rng.below(3);
            (0..over).for_each(|_| self.enter(WIDE));
            self.truncate(over);
        }
    }

    /// An operation that a directory of any length has.
    fn mix(&mut self) {
        let Some(place) = self.some() else { return self.enter(WIDE) };
        let outside = path(pick(self.rng, &["A/out", "B/out", "out"]));
        let (from, kind) = self.names[place].clone();
        let from = self.path(&from);
        match self.rng.below(10) {
            0..=1 => self.remove(place),
            2 => self.enter(WIDE),
            3 => {
                let fitting = pick(self.rng, &FITTING);
                self.enter(fitting);
            }
            4..=5 => {
                let length = pick(self.rng, &[WIDE, FITTING[1], FITTING[3]]);
                let to = self.fresh(length);
                self.names.remove(place);
                self.act(Op::Rename(from, self.path(&to)));
                self.names.push((to, kind));
            }
            6 => {
                self.names.remove(place);
                self.act(Op::Rename(from, outside));
            }
            7 => {
                let to = self.fresh(WIDE);
                self.act(Op::Rename(outside, self.path(&to)));
                self.names.push((to, Kind::File));
            }
            8 => self.replace(place),
            _ => self.act(Op::Exchange(from, outside)),
        }
    }

    /// A name replaces another one.
    fn replace(&mut self, place: usize) {
        let (from, kind) = self.names.remove(place);
        match self.some().map(|other| self.names[other].clone()) {
            Some((to, other)) if other == kind => {
                self.act(Op::Rename(self.path(&from), self.path(&to)));
            }
            _ => self.names.push((from, kind)),
        }
    }

    fn go_elsewhere(&mut self) {
        let to = if self.at == PLACES[0] { PLACES[1] } else { PLACES[0] };
        let was = std::mem::replace(&mut self.at, to);
        self.act(Op::Rename(path(was), path(to)));
    }

    /// Empties the directory, from the end or in random order, removes it or replaces it by an
    /// empty one, and creates it again.
    fn begin_anew(&mut self) {
        let from_end = self.rng.below(2) == 0;
        while let Some(any) = self.some() {
            self.remove(if from_end { self.names.len() - 1 } else { any });
        }
        if self.rng.below(2) == 0 {
            self.enter(FITTING[0]);
            self.remove_last();
        }
        if self.rng.below(3) == 0 {
            let empty = path("empty");
            self.ops.push(Op::Mkdir(empty.clone()));
            self.act(Op::Rename(empty, path(self.at)));
            self.act(Op::Rmdir(path(self.at)));
        } else {
            self.act(Op::Rmdir(path(self.at)));
        }
        self.make();
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::exec::Executor;
    use super::super::super::geometry::SHAPES;
    use super::super::super::mounting::{clock, options};
    use super::super::super::oracle::SoftUpdateOptions;
    use super::*;
    use crate::crash::Updates;
    use ffs_core::{Cred, Env, Ffs, OrderingPolicy, Vnode};
    use ffs_device::SplitMix64;
    use std::sync::Arc;

    /// The size of the long directory in bytes; 0: it does not exist.
    fn size(fs: &Ffs) -> u64 {
        let (c, root) = (Cred::root(), fs.root().unwrap());
        let below = |dir: &Vnode| fs.lookup(&c, dir, b"D");
        let other = || fs.lookup(&c, &root, b"B").and_then(|dir| below(&dir));
        below(&root).or_else(|_| other()).map_or(0, |found| fs.getattr(&found).size)
    }

    #[test]
    fn directories_become_longer_than_twelve_blocks_and_shorter_again() {
        let shape = SHAPES.iter().find(|shape| fits(shape)).unwrap();
        let (mut longer, mut shorter, mut removed, mut failed, mut all) = (0, 0, 0, 0, 0);
        for n in 0..8 {
            let workload = workload(shape, &SplitMix64::new(n.into()), n).unwrap();
            let base = shape.base(Updates::Soft, true).unwrap();
            let base = base.with(&workload.setup).unwrap();
            let options =
                options(OrderingPolicy::SoftUpdates, SoftUpdateOptions::default(), &workload);
            let fs =
                Ffs::mount(Arc::new(base.device.snapshot()), &options, Env::seeded(clock(0), 1));
            let mut executor = Executor::new(fs.unwrap(), base.tree.clone());
            let mut before = size(&executor.fs);
            let edge = u64::from(shape.bsize) * NDADDR as u64;
            assert!(before.abs_diff(edge) < edge / 2, "{before}");
            for op in &workload.ops {
                failed += u32::from(executor.perform(op).is_err());
                let now = size(&executor.fs);
                longer += u32::from(before <= edge && edge < now);
                shorter += u32::from(now != 0 && now <= edge && edge < before);
                removed += u32::from(now == 0 && 0 < before);
                (before, all) = (now, all + 1);
            }
        }
        assert!(longer > 8 && shorter > 8 && removed > 1, "{longer} {shorter} {removed}");
        assert!(failed < all / 10, "{failed} of {all}");
    }
}
