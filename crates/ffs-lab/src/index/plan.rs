//! The experiment: sizes, orders, and the indexes that are measured at each size.
//!
//! Reference: `docs/spec/benchmarks.md` §4.9.

use serde::Serialize;

use super::IndexKind;
use crate::shuffle::{Purpose, shuffled};

/// An order of the names' numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NameOrder {
    /// By number.
    Number,
    /// Shuffled by the seed.
    Random,
}

impl NameOrder {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NameOrder::Number => "by number",
            NameOrder::Random => "random",
        }
    }

    pub(super) fn numbers(self, count: u32, seed: u64, purpose: Purpose) -> Vec<u32> {
        match self {
            NameOrder::Number => (0..count).collect(),
            NameOrder::Random => shuffled(count, seed, purpose),
        }
    }
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Directories up to 5000 files: seconds.
    Quick,
    /// Up to 100,000 files: half a minute.
    Usual,
    /// Up to 2,000,000 files, and every order.
    Full,
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct IndexRequest {
    /// The indexes.
    pub kinds: Vec<IndexKind>,
    /// How much.
    pub extent: Extent,
    /// Sizes instead of those of the extent.
    pub sizes: Vec<u32>,
    /// The orders and the machine follow from it.
    pub seed: u64,
    /// Jobs at a time.
    pub jobs: usize,
}

/// Directories of one size, on a machine of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) kind: IndexKind,
    /// Files of a directory.
    pub(super) files: u32,
    /// Directories.
    pub(super) directories: u32,
    pub(super) create: NameOrder,
    pub(super) delete: NameOrder,
}

const LARGE: [u32; 10] =
    [10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000, 80_000, 90_000, 100_000];
const HUGE: [u32; 6] = [200_000, 400_000, 800_000, 1_000_000, 1_500_000, 2_000_000];
const SMALL: [u32; 7] = [10, 20, 50, 100, 200, 500, 1000];
/// Directories of up to this many files are measured ten times, as in the mail.
const SMALL_FILES: u32 = 1000;
const REPEATS: u32 = 10;

impl Extent {
    fn sizes(self) -> Vec<u32> {
        match self {
            Extent::Quick => vec![10, 50, 200, 1000, 2000, 5000],
            Extent::Usual => [&SMALL[..], &[10_000, 20_000, 40_000, 70_000, 100_000]].concat(),
            Extent::Full => [&SMALL[..], &LARGE, &HUGE].concat(),
        }
    }

    /// The largest directory of a kind whose cost grows with the square of the size.
    fn limit(self, kind: IndexKind) -> u32 {
        match (kind, self) {
            (IndexKind::Control, _) => 10_000,
            (IndexKind::Linear, Extent::Full) => 100_000,
            (IndexKind::Linear, _) => 40_000,
            (IndexKind::Chunk, Extent::Full) => 200_000,
            _ => u32::MAX,
        }
    }
}

impl Job {
    /// About how many operations the job has.
    pub(super) fn operations(&self) -> u64 {
        u64::from(self.files) * u64::from(self.directories) * 3
    }
}

impl IndexRequest {
    /// The jobs, in the order of their results.
    pub(super) fn jobs(&self) -> Vec<Job> {
        let sizes = if self.sizes.is_empty() { self.extent.sizes() } else { self.sizes.clone() };
        let (number, random) = (NameOrder::Number, NameOrder::Random);
        let mut orders = vec![(number, number), (random, random)];
        if self.extent == Extent::Full {
            orders.extend([(number, random), (random, number)]);
        }
        let mut jobs = Vec::new();
        for kind in &self.kinds {
            for files in sizes.iter().filter(|files| **files <= self.extent.limit(*kind)) {
                let directories = if *files <= SMALL_FILES { REPEATS } else { 1 };
                // Beyond the sizes of the first chart only the two orders of the mail.
                let count = if *files > 100_000 { 2 } else { orders.len() };
                let job = |(create, delete)| Job {
                    kind: *kind,
                    files: *files,
                    directories,
                    create,
                    delete,
                };
                jobs.extend(orders.iter().take(count).copied().map(job));
            }
        }
        jobs
    }

    /// About how many operations there are: the length of a progress bar.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.jobs().iter().map(Job::operations).sum()
    }
}
