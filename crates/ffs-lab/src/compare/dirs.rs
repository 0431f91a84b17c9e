//! The same directory phases on several targets in one run. [`super::workload`] compares workloads.
//!
//! # Invariants
//! 1. Targets take turns phase by phase, and each round begins with another target, so that a
//!    disturbance of the computer affects all of them. Sizes take turns round by round.
//! 2. One round of each size runs first and is not counted. Without it, the first size would
//!    include the time in which the operating system provides new memory.
//! 3. A phase that a target does not support is reported with its reason, never as a number.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{check_targets, open_all};
use crate::dirs::{DirPlan, Phase, PhaseOutcome, Round, VisitOrder};
use crate::error::{LabError, Result};
use crate::statistics::Summary;
use crate::systems::{Context, Facts, Target, TargetSpec};
use crate::watch::Watch;

/// The fewest operations of a phase in a round. Smaller directories are repeated.
const ROUND_OPS: u32 = 200_000;
/// The most repeats of a small directory in a round.
const MOST_REPEATS: u32 = 5;
/// The most files of a directory: names have at most ten digits.
pub const MOST_FILES: u32 = 1_000_000_000;

/// The request for a comparison.
#[derive(Debug, Clone)]
pub struct DirRequest {
    /// The numbers of files. Each size is a separate comparison.
    pub sizes: Vec<u32>,
    /// The targets. The others are compared with the first.
    pub targets: Vec<TargetSpec>,
    /// The seed of all orders.
    pub seed: u64,
    /// The number of rounds of each size.
    pub rounds: u32,
    /// The order in which the phases after `create` visit the files.
    pub order: VisitOrder,
}

/// The result of one phase on one target. Serialised, it is a line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DirRow {
    /// The target as the user gave it.
    pub target: String,
    /// Its file system.
    pub fs: String,
    /// The phase.
    pub phase: &'static str,
    /// The number of files in the directory.
    pub n: u32,
    /// Microseconds for each operation: the median of the rounds.
    pub us_per_op: f64,
    /// The fastest round, microseconds.
    pub(crate) us_min: f64,
    /// The slowest round, microseconds.
    pub(crate) us_max: f64,
    /// Microseconds of processor time for each operation, including the kernel's: the median.
    pub cpu_us_per_op: f64,
    /// The number of measured rounds.
    pub rounds: usize,
    /// Microseconds for each operation of the sync after the phase, which the others do not
    /// include.
    pub sync_us_per_op: f64,
    /// The order of the phase.
    pub order: &'static str,
    /// The seed of the orders.
    pub seed: u64,
    /// The durability of an operation that has returned.
    pub durability: String,
    /// How the target dropped names before the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgot: Option<&'static str>,
}

/// A phase that a target did not run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SkippedPhase {
    /// The target.
    pub target: String,
    /// The phase.
    pub phase: &'static str,
    /// The reason.
    pub why: String,
}

/// The result of a comparison.
#[derive(Debug, Clone, Default)]
pub struct DirComparison {
    /// The rows by size, phase and target, in the order of the request.
    pub rows: Vec<DirRow>,
    /// The phases that are missing in the rows.
    pub skipped: Vec<SkippedPhase>,
}

/// The ratio of the costs at two sizes. NaN if one was not measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// The ratio of the times.
    pub time: f64,
    /// The ratio of the processor times.
    pub cpu: f64,
}

impl DirComparison {
    /// The row of a target.
    #[must_use]
    pub fn row(&self, target: &str, phase: Phase, n: u32) -> Option<&DirRow> {
        let wanted =
            |row: &&DirRow| row.target == target && row.phase == phase.name() && row.n == n;
        self.rows.iter().find(wanted)
    }

    /// The ratio of the median costs of an operation at `large` files and at `small` files.
    #[must_use]
    pub fn growth(&self, target: &str, phase: Phase, small: u32, large: u32) -> Option<Growth> {
        let (small, large) = (self.row(target, phase, small)?, self.row(target, phase, large)?);
        let ratio = |large: f64, small: f64| if small > 0.0 { large / small } else { f64::NAN };
        Some(Growth {
            time: ratio(large.us_per_op, small.us_per_op),
            cpu: ratio(large.cpu_us_per_op, small.cpu_us_per_op),
        })
    }
}

impl DirRequest {
    fn repeats(n: u32) -> u32 {
        (ROUND_OPS / n.max(1)).clamp(1, MOST_REPEATS)
    }

    /// The number of operations, for a progress bar. It includes the round that is not counted and
    /// the passes that fill the name cache.
    #[must_use]
    pub fn operations(&self) -> u64 {
        let phases = Phase::ALL.len() as u64 + 1;
        let files = |n: &u32| u64::from(*n) * u64::from(Self::repeats(*n));
        let files: u64 = self.sizes.iter().map(files).sum();
        let once: u64 = self.sizes.iter().map(|n| u64::from(*n)).sum();
        (files * u64::from(self.rounds) + once) * phases * self.targets.len() as u64
    }

    fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(LabError::Plan(why));
        if self.rounds == 0 || self.sizes.is_empty() {
            return refuse("nothing to do: a size and a round are needed".to_owned());
        }
        if let Some(n) = self.sizes.iter().find(|n| **n == 0 || **n > MOST_FILES) {
            return refuse(format!("{n} files: expected 1 to {MOST_FILES}"));
        }
        check_targets(&self.targets)
    }

    /// Runs the comparison. It removes everything that it made.
    ///
    /// # Errors
    /// A target is not usable or fails, or `watch` stops the comparison.
    pub fn run(&self, context: &Context, watch: &mut dyn Watch) -> Result<DirComparison> {
        self.check()?;
        let mut targets = open_all(&self.targets, context)?;
        let (mut samples, mut uncounted) = (Samples::default(), Samples::default());
        for &n in &self.sizes {
            self.round(&mut targets, Turn::warming(n), &mut uncounted, watch)?;
        }
        for round in 0..self.rounds {
            for &n in &self.sizes {
                for repeat in 0..Self::repeats(n) {
                    let turn = Turn { round, repeat, n };
                    self.round(&mut targets, turn, &mut samples, watch)?;
                }
            }
        }
        let facts: Vec<Facts> = targets.iter().map(|target| target.facts()).collect();
        Ok(self.summarise(&facts, &samples))
    }

    fn round(
        &self,
        targets: &mut [Box<dyn Target>],
        turn: Turn,
        samples: &mut Samples,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let count = targets.len();
        let first = (turn.round as usize + turn.repeat as usize) % count;
        // Each round has its own orders, which are the same for all targets.
        let seed = self.seed.wrapping_add(u64::from(turn.round) << 32 | u64::from(turn.repeat));
        let plan = DirPlan { n: turn.n, seed, order: self.order };
        let mut rounds = Vec::with_capacity(count);
        for target in targets {
            rounds.push(Round::begin(&mut **target, plan)?);
        }
        for phase in Phase::ALL {
            for at in (0..count).map(|i| (i + first) % count) {
                let spec = &self.targets[at];
                watch.step(&format!("{} {} n={}", spec.label, phase.name(), turn.n));
                let outcome = rounds[at].run(phase, watch)?;
                samples.add(at, phase, turn.n, outcome);
            }
        }
        rounds.into_iter().try_for_each(Round::end)
    }

    fn summarise(&self, facts: &[Facts], samples: &Samples) -> DirComparison {
        let mut out = DirComparison::default();
        for &n in &self.sizes {
            for phase in Phase::ALL {
                for (at, (spec, facts)) in self.targets.iter().zip(facts).enumerate() {
                    let key = (at, phase, n);
                    if let Some(why) = samples.skipped.get(&key) {
                        let target = spec.label.clone();
                        out.skipped.push(SkippedPhase {
                            target,
                            phase: phase.name(),
                            why: why.clone(),
                        });
                    } else if let Some(found) = samples.measured.get(&key) {
                        out.rows.extend(self.row(&spec.label, facts, phase, n, found));
                    }
                }
            }
        }
        out.skipped.sort();
        out.skipped.dedup();
        out
    }

    fn row(
        &self,
        target: &str,
        facts: &Facts,
        phase: Phase,
        n: u32,
        s: &PhaseSamples,
    ) -> Option<DirRow> {
        let (times, syncs) = (Summary::of(&s.us)?, Summary::of(&s.sync_us)?);
        let cpu = Summary::of(&s.cpu_us)?;
        let order = match phase {
            Phase::Create | Phase::Miss => VisitOrder::Shuffled,
            Phase::List => VisitOrder::Listing,
            Phase::Stat | Phase::StatCold | Phase::Rename | Phase::Unlink => self.order,
        };
        Some(DirRow {
            target: target.to_owned(),
            fs: facts.fs.clone(),
            phase: phase.name(),
            n,
            us_per_op: times.median,
            us_min: times.min,
            us_max: times.max,
            cpu_us_per_op: cpu.median,
            rounds: times.rounds,
            sync_us_per_op: syncs.median,
            order: order.name(),
            seed: self.seed,
            durability: facts.durability.clone(),
            forgot: s.forgot,
        })
    }
}

impl DirRow {
    /// The range of the rounds, percent of the median; `None` for one round.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        let DirRow { us_per_op: median, us_min: min, us_max: max, rounds, .. } = *self;
        Summary { median, min, max, rounds }.spread()
    }
}

/// A repeat of a round.
#[derive(Clone, Copy)]
struct Turn {
    round: u32,
    repeat: u32,
    n: u32,
}

impl Turn {
    /// The round that is not counted.
    fn warming(n: u32) -> Turn {
        Turn { round: 0, repeat: u32::MAX, n }
    }
}

/// Index of the target, phase, number of files.
type Key = (usize, Phase, u32);

#[derive(Default)]
struct Samples {
    measured: BTreeMap<Key, PhaseSamples>,
    skipped: BTreeMap<Key, String>,
}

#[derive(Default)]
struct PhaseSamples {
    us: Vec<f64>,
    cpu_us: Vec<f64>,
    sync_us: Vec<f64>,
    forgot: Option<&'static str>,
}

impl Samples {
    fn add(&mut self, at: usize, phase: Phase, n: u32, outcome: PhaseOutcome) {
        match outcome {
            PhaseOutcome::Measured(measured) => {
                let series = self.measured.entry((at, phase, n)).or_default();
                series.us.push(measured.timing.us_per_op());
                series.cpu_us.push(measured.timing.cpu_us_per_op());
                series.sync_us.push(measured.sync.as_secs_f64() * 1e6 / f64::from(n));
                series.forgot = measured.forgot;
            }
            PhaseOutcome::Skipped(why) => {
                self.skipped.insert((at, phase, n), why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::StepTimer;
    use crate::watch::Unwatched;
    use std::sync::Arc;

    fn request(targets: &[&str]) -> DirRequest {
        let targets = targets.iter().map(|t| TargetSpec::parse(t).unwrap()).collect();
        DirRequest { sizes: vec![40], targets, seed: 1, rounds: 2, order: VisitOrder::Shuffled }
    }

    fn context() -> Context {
        Context { timer: Arc::new(StepTimer::new(40_000)), seed: 1 }
    }

    #[test]
    fn every_phase_of_every_target_has_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let request = request(&["core", path]);
        let found = request.run(&context(), &mut Unwatched).unwrap();
        let all = 2 * Phase::ALL.len();
        assert_eq!(found.rows.len() + found.skipped.len(), all, "{:?}", found.skipped);
        let row = found.row("core", Phase::Create, 40).unwrap();
        // Forty operations are one lap, which takes one step of the timer: 1 us for each.
        assert!((row.us_per_op - 1.0).abs() < 1e-9);
        assert_eq!(row.rounds, 2 * DirRequest::repeats(40) as usize);
        let line = serde_json::to_value(row).unwrap();
        assert_eq!(line["target"], "core");
        assert_eq!(line["phase"], "create");
        assert_eq!(line["n"], 40);
        assert!(line["us_per_op"].is_f64());
        assert_eq!(line["order"], "shuffled");
        assert_eq!(found.row("core", Phase::List, 40).unwrap().order, "listing");
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "something is left");
    }

    #[test]
    fn growth_compares_sizes() {
        let request = DirRequest { sizes: vec![40, 80], ..request(&["core"]) };
        let found = request.run(&context(), &mut Unwatched).unwrap();
        // Each lap takes one step of the timer, independent of its operations.
        let growth = found.growth("core", Phase::Unlink, 40, 80).unwrap();
        assert!((growth.time - 0.5).abs() < 1e-9, "{growth:?}");
        assert_eq!(found.growth("core", Phase::Unlink, 40, 81), None);
    }

    #[test]
    fn senseless_requests_are_refused() {
        let run =
            |request: DirRequest| request.run(&context(), &mut Unwatched).unwrap_err().to_string();
        assert!(run(DirRequest { sizes: vec![0], ..request(&["core"]) }).contains("1 to"));
        assert!(run(DirRequest { sizes: vec![], ..request(&["core"]) }).contains("size"));
        assert!(run(request(&["core", "core"])).contains("twice"));
    }

    #[test]
    fn an_image_file_is_made_and_removed_and_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("x.img");
        let label = format!("core:image={}", image.display());
        let again = DirRequest { rounds: 1, ..request(&[&label]) };
        again.run(&context(), &mut Unwatched).unwrap();
        assert!(!image.exists());
        std::fs::write(&image, "mine").unwrap();
        let error = again.run(&context(), &mut Unwatched).unwrap_err().to_string();
        assert!(error.contains("does not exist"), "{error}");
        assert_eq!(std::fs::read_to_string(&image).unwrap(), "mine");
    }
}
