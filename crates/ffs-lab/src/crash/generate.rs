//! The workloads of the laboratory, each by its name.
//!
//! | name | workload |
//! | --- | --- |
//! | `g4` | number 4 of the list of patterns that have broken file systems before |
//! | `1.17` | one operation: every operation of the set, each with every way to make it durable |
//! | `2.1043` | two operations: every pair |
//! | `3.5` | three operations, drawn by the seed |
//! | `r.2` | a long trace, drawn by the seed |
//! | `d.2` | a trace in a directory of more than twelve blocks, drawn by the seed |
//! | `j.2` | a trace that fills a small journal, drawn by the seed (`--ordering suj`) |
//! | `f.9` | one operation on a nearly full volume, by the super-user or by a user |
//! | `e.2` | a trace at the edge of a full volume, drawn by the seed |
//! | `c.2` | a chain of up to ten crashes without a check in between, drawn by the seed |
//! | `o.2` | commands without ordering in `/A`, drawn by the seed |
//! | `s.9` | one operation before, after or between snapshots |
//! | `t.2` | a trace in which snapshots are made, read and removed, drawn by the seed |
//! | `k.2` | as `c.2`, with snapshots |
//! | `b.2` | a check in the background of what a crash left, under load, drawn by the seed |
//! | `l.1` | `growfs`, to one of several sizes |
//! | `u.5` | `tunefs`: every setting |
//! | `w.2` | three threads, each in its own directory, drawn by the seed (feature `schedule`) |
//! | `file` | the one that was given |
//!
//! # Invariants
//! 1. A workload follows from the shape of its volume, its name and the seed.
//!
//! Reference: `spec/fsck-and-crash.md` §12.2.

mod core;
mod directory;
mod full;
mod journal;
mod patterns;
mod snapshots;
mod source;
mod trace;

use ffs_device::{Rng, SplitMix64};

use super::geometry::Shape;
use super::op::{Op, Path, Workload};
pub(super) use directory::{further_names, is_long};
pub use source::Source;
pub(super) use trace::further_work;

/// Operations of an offline command.
const COMMANDS: u32 = 25;
/// Operations of each of several threads.
const WRITER: u32 = 40;
/// The last link of a chain.
pub(super) const LAST_LINK: u32 = 9;
/// Operations between two crashes of a chain.
const LINK: u32 = 60;
/// Operations of a long trace.
const TRACE: u32 = 1000;
/// Of so many workloads two are run on a device without a volatile cache, two in tight memory, and
/// one with each mount option that changes the order.
const VARIANTS: u64 = 16;

/// Makes the workloads for one shape of volume.
#[derive(Debug)]
pub struct Generator {
    shape: &'static Shape,
    seed: u64,
    core: Vec<Op>,
}

/// What follows an operation to make it durable, or to let time do so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    Wait(u32),
    File,
    Data,
    Directory,
    Sync,
}

/// After an operation that another one follows.
const BETWEEN: [Then; 6] =
    [Then::Nothing, Then::Wait(1), Then::Wait(31), Then::File, Then::Directory, Then::Sync];
/// After the last one.
const LAST: [Then; 4] = [Then::File, Then::Data, Then::Directory, Then::Sync];
/// After the only one.
const ONLY: [Then; 8] = [
    Then::Nothing,
    Then::Wait(1),
    Then::Wait(29),
    Then::Wait(31),
    Then::File,
    Then::Data,
    Then::Directory,
    Then::Sync,
];

fn path(text: &str) -> Path {
    Path::parse(text).unwrap_or_else(|| unreachable!("a constant"))
}

/// The operation that makes `op` durable in this way.
fn persist(op: &Op, how: Then) -> Option<Op> {
    let used = op.paths().last().map_or_else(|| path(""), |path| (*path).clone());
    // A removed name cannot be opened: its directory is used instead.
    let removed = matches!(op, Op::Unlink(_) | Op::Rmdir(_));
    let file = if removed { used.parent() } else { used.clone() };
    match how {
        Then::Nothing => None,
        Then::Wait(secs) => Some(Op::Wait(secs)),
        Then::File => Some(Op::Fsync(file)),
        Then::Data => Some(Op::Fdatasync(file)),
        Then::Directory => Some(Op::Fsync(used.parent())),
        Then::Sync => Some(Op::Sync),
    }
}

/// The workload in that variant.
fn variant(number: u64, plain: Workload) -> Workload {
    match number {
        0 | 1 => Workload { write_through: true, ..plain },
        2 | 3 => Workload { tight_memory: true, ..plain },
        4 => Workload { stable: true, ..plain },
        5 => Workload { fsync_file: true, ..plain },
        6 => Workload { no_replace_order: true, ..plain },
        7 => Workload { unflagged: true, ..plain },
        8 => {
            // Read-only and writable again behind the first operation.
            let mut ops = plain.ops.clone();
            let again = [true, false].map(|read_only| Op::Remount { read_only });
            ops.splice(1.min(ops.len())..1.min(ops.len()), again);
            Workload { ops, ..plain }
        }
        _ => plain,
    }
}

impl Generator {
    /// A generator for `shape`.
    #[must_use]
    pub fn new(shape: &'static Shape, seed: u64) -> Generator {
        Generator { shape, seed, core: core::ops(shape) }
    }

    /// How many patterns there are.
    #[must_use]
    pub fn patterns(&self) -> u32 {
        patterns::all(self.shape).len() as u32
    }

    /// How many workloads of one operation there are.
    #[must_use]
    pub fn ones(&self) -> u32 {
        (self.core.len() * ONLY.len()) as u32
    }

    /// How many workloads of two operations there are.
    #[must_use]
    pub fn twos(&self) -> u32 {
        (self.core.len() * self.core.len() * BETWEEN.len() * LAST.len()) as u32
    }

    /// Whether directories can be made long on such a volume.
    #[must_use]
    pub fn has_long_directories(&self) -> bool {
        directory::fits(self.shape)
    }

    /// The workload; `None` if there is none of that name. Every other one of a kind writes in
    /// place, but for the patterns.
    #[must_use]
    pub fn workload(&self, source: Source) -> Option<Workload> {
        let write_in_place = match source {
            Source::One(n) | Source::Two(n) | Source::Three(n) => self.rng(16, n).below(2) == 1,
            Source::Trace(n) | Source::Journal(n) | Source::Edge(n) | Source::Full(n) => n % 2 == 1,
            Source::SnapshotTrace(n) | Source::Offline(n) | Source::Writers(n) => n % 2 == 1,
            _ => false,
        };
        let workload = self.buffered(source)?;
        Some(Workload { write_in_place: write_in_place || workload.write_in_place, ..workload })
    }

    /// The workload, with writes through the cache.
    fn buffered(&self, source: Source) -> Option<Workload> {
        let ops = match source {
            Source::File => return None,
            Source::Pattern(n) => return patterns::all(self.shape).into_iter().nth(n as usize),
            Source::One(n) => self.one(n as usize)?,
            Source::Two(n) => self.two(n as usize)?,
            Source::Three(n) => self.three(n),
            Source::Trace(n) => trace::trace(self.shape, &self.rng(4, n), TRACE),
            Source::Directory(n) => return directory::workload(self.shape, &self.rng(5, n), n),
            Source::Journal(n) => return Some(journal::workload(self.shape, &self.rng(14, n), n)),
            Source::Full(n) => return full::workload(self.shape, &self.core, n),
            Source::Edge(n) => return full::trace(self.shape, &self.rng(8, n), n),
            Source::Chain(n) => return Some(self.link(n, 0)),
            Source::SnapshotChain(n) => return Some(self.snapshot_link(n, 0)),
            Source::Background(n) => return Some(self.crashed(n)),
            Source::Snapshot(n) => return snapshots::around(&self.core, n),
            Source::SnapshotTrace(n) => {
                return Some(snapshots::trace(self.shape, &self.rng(13, n), n));
            }
            Source::Growth(_) | Source::Tuning(_) => {
                let setup = trace::populated(&["A", "A/C"]);
                return Some(Workload { standard_tree: true, setup, ..Workload::default() });
            }
            Source::Offline(n) => {
                let ops = trace::in_directory(self.shape, &self.rng(12, n), "A", COMMANDS);
                let tight_memory = n % 3 == 1;
                let setup = trace::populated(&["A", "A/C"]);
                return Some(Workload {
                    standard_tree: true,
                    tight_memory,
                    setup,
                    ops,
                    ..Workload::default()
                });
            }
            Source::Writers(n) => {
                let (setup, writers) = self.writers(n);
                let ops = writers.concat();
                return Some(Workload { setup, ops, ..Workload::default() });
            }
        };
        let plain = Workload { standard_tree: true, ops, ..Workload::default() };
        Some(match source {
            Source::Trace(n) => {
                let write_through = n % 4 == 3;
                Workload { write_through, tight_memory: true, fsync_file: n % 2 == 1, ..plain }
            }
            Source::One(n) | Source::Two(n) | Source::Three(n) => {
                variant(self.rng(6, n).below(VARIANTS), plain)
            }
            _ => plain,
        })
    }

    /// What is there before several threads begin, and what each of them does, in a directory of
    /// its own.
    #[must_use]
    pub fn writers(&self, n: u32) -> (Vec<Op>, Vec<Vec<Op>>) {
        let rng = self.rng(10, n);
        let dirs = ["W0", "W1", "W2"];
        let below = |dir: &str| [path(dir), join(dir, "C")];
        let mut setup: Vec<Op> = dirs.iter().flat_map(|dir| below(dir)).map(Op::Mkdir).collect();
        setup.extend(trace::populated(&dirs));
        let each = |dir: &&str| trace::in_directory(self.shape, &rng, dir, WRITER);
        (setup, dirs.iter().map(each).collect())
    }

    /// What happens between two crashes of chain `n`, before crash number `link`, counted from 0.
    #[must_use]
    pub fn link(&self, n: u32, link: u32) -> Workload {
        let rng = self.rng(9, n.wrapping_mul(64).wrapping_add(link));
        let mut ops = trace::trace(self.shape, &rng, LINK);
        // A device that fails, before the last crash: what is damaged needs a check.
        if n % 4 == 3 && link == LAST_LINK {
            let fault =
                Op::Fault { flush: rng.below(3) == 0, nth: 1 + rng.below(9) as u32, torn: true };
            ops.insert(rng.below(ops.len() as u64) as usize, fault);
        }
        let setup = if link == 0 { trace::populated(&["", "A", "B", "A/C"]) } else { Vec::new() };
        Workload {
            standard_tree: true,
            tight_memory: n % 3 == 1,
            fsync_file: n % 2 == 1,
            write_in_place: (n + link).is_multiple_of(2),
            setup,
            ops,
            ..Workload::default()
        }
    }

    /// As [`Generator::link`], with snapshots.
    #[must_use]
    pub fn snapshot_link(&self, n: u32, link: u32) -> Workload {
        let rng = self.rng(14, n.wrapping_mul(64).wrapping_add(link));
        snapshots::sprinkle(&rng, link, self.link(n, link))
    }

    /// What happens before the crash that a check in the background repairs.
    #[must_use]
    pub fn crashed(&self, n: u32) -> Workload {
        let number = 1000 + n;
        let has_snapshots = n % 2 == 1 && snapshots::fits(self.shape);
        let link = if has_snapshots { Generator::snapshot_link } else { Generator::link };
        link(self, number * 4, 0)
    }

    /// What happens during the check in the background.
    #[must_use]
    pub fn during_check(&self, n: u32) -> Workload {
        let ops = trace::trace(self.shape, &self.rng(15, n), LINK);
        Workload { standard_tree: true, tight_memory: n % 3 == 1, ops, ..Workload::default() }
    }

    /// How many workloads there are of one operation and snapshots.
    #[must_use]
    pub fn snapshots(&self) -> u32 {
        if snapshots::fits(self.shape) { snapshots::count(&self.core) } else { 0 }
    }

    /// Whether the volume has space for snapshots.
    #[must_use]
    pub fn has_snapshots(&self) -> bool {
        snapshots::fits(self.shape)
    }

    /// How many sizes there are to which the volume can grow.
    #[must_use]
    pub fn growths(&self) -> u32 {
        super::offline::growth_count(self.shape)
    }

    /// How many changes by `tunefs` there are.
    #[must_use]
    pub fn tunings(&self) -> u32 {
        super::offline::tuning_count(self.shape)
    }

    /// How many workloads there are of one operation on a full volume.
    #[must_use]
    pub fn fulls(&self) -> u32 {
        full::count(self.shape, &self.core)
    }

    /// Whether the volume is made nearly full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.shape.full
    }

    fn rng(&self, kind: u64, number: u32) -> SplitMix64 {
        let mix = SplitMix64::new(self.seed ^ kind << 48);
        SplitMix64::new(mix.next_u64() ^ u64::from(number))
    }

    fn one(&self, n: usize) -> Option<Vec<Op>> {
        let op = self.core.get(n / ONLY.len())?;
        let mut ops = vec![op.clone()];
        ops.extend(persist(op, ONLY[n % ONLY.len()]));
        Some(ops)
    }

    fn two(&self, n: usize) -> Option<Vec<Op>> {
        let (n, last) = (n / LAST.len(), LAST[n % LAST.len()]);
        let (n, between) = (n / BETWEEN.len(), BETWEEN[n % BETWEEN.len()]);
        let (first, second) =
            (self.core.get(n / self.core.len())?, &self.core[n % self.core.len()]);
        let mut ops = vec![first.clone()];
        ops.extend(persist(first, between));
        ops.push(second.clone());
        ops.extend(persist(second, last));
        Some(ops)
    }

    fn three(&self, n: u32) -> Vec<Op> {
        let rng = self.rng(3, n);
        let moves = if n % 2 == 1 { core::moves() } else { Vec::new() };
        let set = if moves.is_empty() { &self.core } else { &moves };
        let mut ops = Vec::new();
        for at in 0..3 {
            let op = set[rng.below(set.len() as u64) as usize].clone();
            let how = if at < 2 { pick(&rng, &BETWEEN) } else { pick(&rng, &LAST) };
            let persist = persist(&op, how);
            ops.push(op);
            ops.extend(persist);
        }
        ops
    }
}

fn join(dir: &str, name: &str) -> Path {
    path(&format!("{dir}{}{name}", if dir.is_empty() { "" } else { "/" }))
}

fn pick<T: Copy>(rng: &SplitMix64, list: &[T]) -> T {
    list[rng.below(list.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::geometry::SHAPES;
    use crate::crash::text;

    #[test]
    fn every_name_is_a_workload_and_can_be_read_back() {
        for shape in SHAPES {
            let generator = Generator::new(shape, 5);
            let last = |n: u32| n - 1;
            let sources = [
                Source::Pattern(last(generator.patterns())),
                Source::One(last(generator.ones())),
                Source::Two(last(generator.twos())),
                Source::Three(12345),
                Source::Trace(3),
                Source::Journal(4),
            ];
            let long = generator.has_long_directories().then_some(Source::Directory(2));
            let full = generator.is_full().then_some([Source::Full(7), Source::Edge(1)]);
            for source in sources.into_iter().chain(long).chain(full.into_iter().flatten()) {
                let workload = generator.workload(source).unwrap();
                assert_eq!(source.to_string().parse(), Ok(source));
                assert_eq!(text::parse(&text::print(&workload)), Ok(workload));
            }
            assert_eq!(generator.workload(Source::Pattern(generator.patterns())), None);
            assert_eq!(generator.workload(Source::One(generator.ones())), None);
            assert_eq!(generator.workload(Source::Two(generator.twos())), None);
        }
        for wrong in ["", "g", "4.1", "2.", "files", "1.x"] {
            assert_eq!(wrong.parse::<Source>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn drawn_workloads_follow_from_the_seed() {
        let made = |seed, source| Generator::new(&SHAPES[0], seed).workload(source);
        for source in [Source::Three(4), Source::Trace(0), Source::Directory(0)] {
            assert_eq!(made(1, source), made(1, source));
            assert_ne!(made(1, source), made(2, source));
        }
        let trace = made(1, Source::Trace(0)).unwrap().ops;
        assert!(
            trace.iter().filter(|op| op.is_persistence()).count() > 50,
            "some are made durable"
        );
    }
}
