//! The cost of one operation as a directory grows: the curves of the paper's Figures 2 to 6.
//!
//! | figure | operation | curves |
//! | --- | --- | --- |
//! | 2 | create, in windows while the directory grows | linear and dirhash; small directories too |
//! | 3 | remove in listing order | linear, dirhash |
//! | 4 | stat in listing order | linear, dirhash, name cache, priming |
//! | 5 | stat in random order | as 4 |
//! | 6 | stat of missing names in random order | linear, dirhash; a second pass over the names |
//!
//! The curve *name cache* is drawn under three limits of `kern.minvnodes`.
//!
//! | module | content |
//! | --- | --- |
//! | `setting` | the mount options of each curve, and the passes measured under them |
//! | `point` | the points, and the counters of a pass |
//! | `run` | the measurement |
//!
//! # Invariants
//! 1. The target forgets names before every pass. The exceptions are the second passes of the name
//!    cache, and the first passes after creation that show priming.
//! 2. Directories of all sizes have a hash where the setting has hashes.
//!
//! Reference: `docs/spec/benchmarks.md` §2.4, §4.8.

mod point;
mod run;
mod setting;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use point::Point;
pub(crate) use point::{PointKey, WorkCounts};

use crate::dirs::Timing;
use crate::error::{LabError, Result};
use crate::systems::{Context, Target, TargetSpec};
use crate::watch::Watch;
use run::CurveRun;
use setting::{Passes, SETTINGS, Setting};

/// The numbers of the figures.
pub const FIGURES: [u8; 5] = [2, 3, 4, 5, 6];

/// Names in a window of Figure 2.
const WINDOW: usize = 100;
/// Names in a window of a small directory.
const SMALL_WINDOW: usize = 10;
/// Entries of the largest small directory.
const SMALL: u32 = 310;

/// Which curves to measure, and how many points they have.
#[derive(Debug, Clone)]
pub struct CurveRequest {
    /// Figures to measure, out of [`FIGURES`].
    pub figures: Vec<u8>,
    /// Entries of the largest directory.
    pub max: u32,
    /// Entries between two points of Figures 3 to 6.
    pub step: u32,
    /// The orders are derived from it.
    pub seed: u64,
    /// Rounds; a point is their median.
    pub rounds: u32,
    /// The library, or the library on the simulated computer. Each curve adds its own options.
    pub base: TargetSpec,
}

/// The callback of a measurement: the point, its timing, its counters per operation.
type Record<'a> = dyn FnMut(PointKey, &Timing, WorkCounts) + 'a;

impl CurveRequest {
    fn check(&self) -> Result<()> {
        if let Some(no) = self.figures.iter().find(|figure| !FIGURES.contains(figure)) {
            return Err(LabError::Plan(format!("there is no figure {no}: expected 2 to 6")));
        }
        if self.max == 0 || self.step == 0 || self.rounds == 0 || self.figures.is_empty() {
            return Err(LabError::Plan("nothing to do: every number must be above 0".to_owned()));
        }
        Ok(())
    }

    fn wants(&self, figure: u8) -> bool {
        self.figures.contains(&figure)
    }

    fn sizes(&self) -> impl Iterator<Item = u32> {
        (1..=self.max / self.step).map(|i| i * self.step)
    }

    /// About how many operations the curves take: the length of a progress bar.
    #[must_use]
    pub fn operations(&self) -> u64 {
        let grid: u64 = self.sizes().map(u64::from).sum();
        let growing = if self.wants(2) { 2 * u64::from(self.max) } else { 0 };
        // Creation, and the passes of each setting.
        let passes = |setting: &Setting| match setting.passes {
            Passes::Directory => 6,
            Passes::NameCache => 5,
            Passes::Fresh => 4,
        };
        let passes: u64 = SETTINGS.iter().map(passes).sum();
        let grid = if self.figures.iter().any(|f| *f > 2) { grid * passes } else { 0 };
        (growing + grid) * u64::from(self.rounds)
    }

    /// Measures the curves of the library.
    ///
    /// # Errors
    /// The library's, or [`LabError::Interrupted`].
    pub fn run(&self, context: &Context, watch: &mut dyn Watch) -> Result<Vec<Point>> {
        let mut target = self.base.open(context)?;
        let mut rounds: BTreeMap<PointKey, Vec<(f64, WorkCounts)>> = BTreeMap::new();
        self.measure(&mut *target, watch, &mut |key, timing, counts| {
            rounds.entry(key).or_default().push((timing.us_per_op(), counts));
        })?;
        target.end()?;
        Ok(point::medians(rounds))
    }

    /// Measures the curves on `target`; calls `record` for every measurement.
    pub(crate) fn measure(
        &self,
        target: &mut dyn Target,
        watch: &mut dyn Watch,
        record: &mut Record<'_>,
    ) -> Result<()> {
        self.check()?;
        for round in 0..self.rounds {
            let seed = self.seed.wrapping_add(u64::from(round) << 32);
            let (target, watch, record) = (&mut *target, &mut *watch, &mut *record);
            let mut run = CurveRun { request: self, target, watch, record, seed };
            SETTINGS.iter().try_for_each(|setting| run.setting(setting))?;
        }
        Ok(())
    }

    /// Entries of the largest directory that is measured.
    pub(crate) fn largest(&self) -> u32 {
        if self.wants(2) { self.max.max(SMALL) } else { self.max }
    }

    /// All points that are measured.
    pub(crate) fn keys(&self) -> BTreeSet<PointKey> {
        let mut keys = BTreeSet::new();
        let mut add = |figure: u8, series: String, n: u32| {
            if self.wants(figure) {
                keys.insert((figure, series, n));
            }
        };
        let windows = |max: u32, window: usize| {
            let window = window as u32;
            (1..=max.div_ceil(window)).map(move |i| (i * window).min(max))
        };
        for Setting { name, passes, .. } in &SETTINGS {
            for n in self.sizes() {
                passes.figures().iter().for_each(|figure| add(*figure, (*name).to_owned(), n));
            }
            if *passes == Passes::Directory {
                self.sizes().for_each(|n| add(6, format!("{name} again"), n));
                windows(self.max, WINDOW).for_each(|n| add(2, (*name).to_owned(), n));
                windows(SMALL, SMALL_WINDOW).for_each(|n| add(2, format!("{name} small"), n));
            }
        }
        keys
    }
}
