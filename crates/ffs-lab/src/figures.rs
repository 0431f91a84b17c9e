//! The cost curves of the paper's Figures 2 to 6: one operation as a directory grows.
//!
//! | figure | operation | curves |
//! | --- | --- | --- |
//! | 2 | create, in windows while the directory grows | linear, dirhash; both again for small directories |
//! | 3 | remove in listing order | linear, dirhash |
//! | 4 | stat in listing order | linear, dirhash, name cache (with several `kern.minvnodes`), priming |
//! | 5 | stat in random order | as 4 |
//! | 6 | stat of missing names, random order | linear, dirhash, and the second pass over the same names |
//!
//! Names are forgotten before every pass but those of the name cache, which come second, and of
//! priming, which come first after creation. Directories of all sizes are hashed.
//!
//! Reference: `spec/benchmarks.md` §2.4, §4.8.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::dirs::{Order, Plan, Timing, create_all, listed, miss_all, stat_all, unlink_all};
use crate::error::{LabError, Result};
use crate::names::Names;
use crate::order::Purpose;
use crate::stats::Summary;
use crate::target::{Context, DirId, Room, Target, TargetSpec};
use crate::watch::Watch;

/// The figures there are.
pub const FIGURES: [u8; 5] = [2, 3, 4, 5, 6];

/// Names of a window of Figure 2.
const WINDOW: usize = 100;
/// The same in small directories.
const SMALL_WINDOW: usize = 10;
/// Entries of the largest small directory.
const SMALL: u32 = 310;
/// Digits that make a record of a small directory 20 bytes long.
const SMALL_DIGITS: usize = 10;
/// Small directories made for each that is measured: each is short.
const SMALL_REPEATS: u32 = 20;

/// The switches a curve is drawn under.
struct Setting {
    name: &'static str,
    words: &'static [&'static str],
    passes: Passes,
}

/// What is measured under a setting, besides creation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passes {
    /// Everything purged first: the directory code itself, and the second pass over missing names.
    Directory,
    /// Second passes: the name cache.
    NameCache,
    /// First passes after creation.
    Fresh,
}

// A study may have turned hashes off for the whole volume.
const SETTINGS: [Setting; 7] = [
    Setting { name: "linear", words: &["dirhash_maxmem=0"], passes: Passes::Directory },
    Setting {
        name: "dirhash",
        words: &["dirhash_maxmem=auto", "dirhash_minsize=512"],
        passes: Passes::Directory,
    },
    Setting {
        name: "name cache minvnodes=1000",
        words: &["dirhash_maxmem=auto", "dirhash_minsize=512", "minvnodes=1000"],
        passes: Passes::NameCache,
    },
    Setting {
        name: "name cache minvnodes=4000",
        words: &["dirhash_maxmem=auto", "dirhash_minsize=512", "minvnodes=4000"],
        passes: Passes::NameCache,
    },
    Setting {
        name: "name cache",
        words: &["dirhash_maxmem=auto", "dirhash_minsize=512"],
        passes: Passes::NameCache,
    },
    Setting {
        name: "not primed",
        words: &["dirhash_maxmem=auto", "dirhash_minsize=512", "namecache_prime=off"],
        passes: Passes::Fresh,
    },
    Setting {
        name: "primed",
        words: &["dirhash_maxmem=auto", "dirhash_minsize=512", "namecache_prime=create"],
        passes: Passes::Fresh,
    },
];

/// Which curves, and how finely.
#[derive(Debug, Clone)]
pub struct Request {
    /// Figures to draw, out of [`FIGURES`].
    pub figures: Vec<u8>,
    /// Entries of the largest directory.
    pub max: u32,
    /// Entries between two points of Figures 3 to 6.
    pub step: u32,
    /// Orders follow from it.
    pub seed: u64,
    /// Rounds; a point is their median.
    pub rounds: u32,
    /// The library, or the library on a simulated machine; the curves' own switches come later.
    pub base: TargetSpec,
}

/// A point of a curve. Serialised, it is a line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Number of the figure in the paper.
    pub figure: u8,
    /// The curve.
    pub series: String,
    /// Entries in the directory; in Figure 2 at the end of the window.
    pub n: u32,
    /// Microseconds an operation: the median of the rounds.
    pub us_per_op: f64,
    /// The best round.
    pub us_min: f64,
    /// The worst round.
    pub us_max: f64,
    /// Bytes of directory searched an operation by the linear code. This and what follows are the same
    /// on every machine.
    pub dir_bytes_per_op: f64,
    /// Slots of a hash looked at an operation.
    pub hash_probes_per_op: f64,
    /// Directory blocks fetched an operation because a hash pointed there.
    pub hash_blocks_per_op: f64,
}

/// Counters of work, in the order of [`Point`]'s last members.
const WORK: [&str; 3] = ["dir_bytes_scanned", "dirhash_probes", "dirhash_blocks_read"];

/// Their values.
pub(crate) type Work = [f64; WORK.len()];

impl Point {
    /// The heads of [`Point::csv`].
    pub const CSV_HEAD: &'static str = "figure,series,n,us_per_op,us_min,us_max,\
        dir_bytes_per_op,hash_probes_per_op,hash_blocks_per_op";

    /// The point as a line of comma-separated values.
    #[must_use]
    pub fn csv(&self) -> String {
        let Point { figure, series, n, us_per_op, us_min, us_max, .. } = self;
        let work = [self.dir_bytes_per_op, self.hash_probes_per_op, self.hash_blocks_per_op];
        let mut line = format!("{figure},{series},{n},{us_per_op:.4},{us_min:.4},{us_max:.4}");
        for each in work {
            line.push_str(&format!(",{each:.3}"));
        }
        line
    }
}

impl Request {
    fn check(&self) -> Result<()> {
        if let Some(no) = self.figures.iter().find(|figure| !FIGURES.contains(figure)) {
            return Err(LabError::Plan(format!("there is no figure {no} here: 2 to 6")));
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

    /// Operations of all curves, nearly, for a progress bar.
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

    /// Draws the library's curves.
    ///
    /// # Errors
    /// The library's, or `watch` wants to stop.
    pub fn run(&self, context: &Context, watch: &mut dyn Watch) -> Result<Vec<Point>> {
        let mut target = self.base.open(context)?;
        let mut points: BTreeMap<Key, Vec<(f64, Work)>> = BTreeMap::new();
        self.draw(&mut *target, watch, &mut |key, timing, work| {
            points.entry(key).or_default().push((timing.us_per_op(), work));
        })?;
        target.end()?;
        Ok(finish(points))
    }

    /// Draws the curves of a target with switches; `found` gets every measurement.
    pub(crate) fn draw(
        &self,
        target: &mut dyn Target,
        watch: &mut dyn Watch,
        found: &mut dyn FnMut(Key, &Timing, Work),
    ) -> Result<()> {
        self.check()?;
        let mut drawing = Drawing { request: self, target, found };
        for round in 0..self.rounds {
            let seed = self.seed.wrapping_add(u64::from(round) << 32);
            for setting in &SETTINGS {
                drawing.setting(setting, seed, watch)?;
            }
        }
        Ok(())
    }

    /// Entries of the largest directory there will be.
    pub(crate) fn largest(&self) -> u32 {
        if self.wants(2) { self.max.max(SMALL) } else { self.max }
    }

    /// Every point there will be.
    pub(crate) fn keys(&self) -> BTreeSet<Key> {
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
            let figures: &[u8] = match passes {
                Passes::Directory => &[3, 4, 5, 6],
                Passes::NameCache | Passes::Fresh => &[4, 5],
            };
            for n in self.sizes() {
                figures.iter().for_each(|figure| add(*figure, (*name).to_owned(), n));
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

/// Figure, curve, entries.
pub(crate) type Key = (u8, String, u32);

struct Drawing<'a> {
    request: &'a Request,
    target: &'a mut dyn Target,
    found: &'a mut dyn FnMut(Key, &Timing, Work),
}

impl Drawing<'_> {
    /// An empty directory under a setting.
    fn begin(&mut self, setting: &Setting, files: u64) -> Result<DirId> {
        let dir = self.target.begin(Room::files(files))?;
        for word in setting.words {
            let (name, value) = word.split_once('=').unwrap_or((word, "1"));
            if self.target.set_tunable(name, value)?.is_none() {
                let why = "has no switches: the figures are those of the library";
                return Err(LabError::unusable(self.target.label(), why));
            }
        }
        Ok(dir)
    }

    fn setting(&mut self, setting: &Setting, seed: u64, watch: &mut dyn Watch) -> Result<()> {
        if setting.passes == Passes::Directory && self.request.wants(2) {
            self.growing(setting, seed, watch)?;
            self.small(setting, seed, watch)?;
        }
        let passes: &[u8] =
            if setting.passes == Passes::Directory { &[3, 4, 5, 6] } else { &[4, 5] };
        if !passes.iter().any(|figure| self.request.wants(*figure)) {
            return Ok(());
        }
        for n in self.request.sizes() {
            watch.step(&format!("{} n={n}", setting.name));
            let plan = Plan { n, seed, order: Order::Listing };
            match setting.passes {
                Passes::Directory => self.directory(setting, plan, watch)?,
                Passes::NameCache => self.name_cache(setting, plan, watch)?,
                Passes::Fresh => self.fresh(setting, plan, watch)?,
            }
        }
        Ok(())
    }

    /// Figure 2.
    fn growing(&mut self, setting: &Setting, seed: u64, watch: &mut dyn Watch) -> Result<()> {
        let plan = Plan { n: self.request.max, seed, order: Order::Shuffled };
        watch.step(&format!("{} create", setting.name));
        let names = plan.names("f", Purpose::Create);
        self.windows(setting, setting.name, &names, WINDOW, watch)
    }

    /// Figure 2 for small directories.
    fn small(&mut self, setting: &Setting, seed: u64, watch: &mut dyn Watch) -> Result<()> {
        let series = format!("{} small", setting.name);
        for repeat in 0..SMALL_REPEATS {
            let seed = seed.wrapping_add(u64::from(repeat));
            let order = crate::order::shuffled(SMALL, seed, Purpose::Create);
            let names = Names::new("f", SMALL_DIGITS, order);
            self.windows(setting, &series, &names, SMALL_WINDOW, watch)?;
        }
        Ok(())
    }

    fn windows(
        &mut self,
        setting: &Setting,
        series: &str,
        names: &Names,
        window: usize,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let dir = self.begin(setting, names.len() as u64)?;
        let mut n = 0;
        for window in names.windows(window) {
            n += window.len() as u32;
            self.pass(2, series, n, |t| create_all(t, dir, &window, watch))?;
        }
        Ok(())
    }

    /// A new directory with the plan's files.
    fn made(&mut self, setting: &Setting, plan: &Plan, watch: &mut dyn Watch) -> Result<DirId> {
        let dir = self.begin(setting, u64::from(plan.n))?;
        let names = plan.names("f", Purpose::Create);
        create_all(self.target, dir, &names, watch)?;
        Ok(dir)
    }

    fn directory(&mut self, setting: &Setting, plan: Plan, watch: &mut dyn Watch) -> Result<()> {
        let dir = self.made(setting, &plan, watch)?;
        let n = plan.n;
        let in_order = listed(self.target, dir, &plan)?;
        let random = plan.names("f", Purpose::Stat);
        let missing = plan.names("m", Purpose::Miss);
        self.target.forget()?;
        self.pass(4, setting.name, n, |t| stat_all(t, dir, &in_order, watch))?;
        self.target.forget()?;
        self.pass(5, setting.name, n, |t| stat_all(t, dir, &random, watch))?;
        self.target.forget()?;
        self.pass(6, setting.name, n, |t| miss_all(t, dir, &missing, watch))?;
        let again = format!("{} again", setting.name);
        self.pass(6, &again, n, |t| miss_all(t, dir, &missing, watch))?;
        self.target.forget()?;
        self.pass(3, setting.name, n, |t| unlink_all(t, dir, &in_order, watch))
    }

    fn name_cache(&mut self, setting: &Setting, plan: Plan, watch: &mut dyn Watch) -> Result<()> {
        let dir = self.made(setting, &plan, watch)?;
        let n = plan.n;
        let in_order = listed(self.target, dir, &plan)?;
        let random = plan.names("f", Purpose::Stat);
        self.target.forget()?;
        stat_all(self.target, dir, &in_order, watch)?;
        self.pass(4, setting.name, n, |t| stat_all(t, dir, &in_order, watch))?;
        stat_all(self.target, dir, &random, watch)?;
        self.pass(5, setting.name, n, |t| stat_all(t, dir, &random, watch))
    }

    fn fresh(&mut self, setting: &Setting, plan: Plan, watch: &mut dyn Watch) -> Result<()> {
        let n = plan.n;
        let dir = self.made(setting, &plan, watch)?;
        let in_order = listed(self.target, dir, &plan)?;
        self.pass(4, setting.name, n, |t| stat_all(t, dir, &in_order, watch))?;
        let dir = self.made(setting, &plan, watch)?;
        let random = plan.names("f", Purpose::Stat);
        self.pass(5, setting.name, n, |t| stat_all(t, dir, &random, watch))
    }

    /// Measures one pass over files; the directory has `n` then.
    fn pass(
        &mut self,
        figure: u8,
        series: &str,
        n: u32,
        pass: impl FnOnce(&mut dyn Target) -> Result<Timing>,
    ) -> Result<()> {
        let before = work(self.target);
        let timing = pass(self.target)?;
        let work = per_op(before, work(self.target), timing.ops);
        if self.request.wants(figure) {
            (self.found)((figure, series.to_owned(), n), &timing, work);
        }
        Ok(())
    }
}

fn finish(points: BTreeMap<Key, Vec<(f64, Work)>>) -> Vec<Point> {
    let point = |((figure, series, n), found): (Key, Vec<(f64, Work)>)| {
        let (us, works): (Vec<f64>, Vec<Work>) = found.into_iter().unzip();
        let us = Summary::of(&us)?;
        let median = |at: usize| {
            let of_rounds: Vec<f64> = works.iter().map(|work| work[at]).collect();
            Summary::of(&of_rounds).map(|work| work.median)
        };
        Some(Point {
            figure,
            series,
            n,
            us_per_op: us.median,
            us_min: us.min,
            us_max: us.max,
            dir_bytes_per_op: median(0)?,
            hash_probes_per_op: median(1)?,
            hash_blocks_per_op: median(2)?,
        })
    };
    points.into_iter().filter_map(point).collect()
}

/// Work done so far.
fn work(target: &dyn Target) -> Work {
    let counters = target.counters();
    WORK.map(|wanted| {
        let found = counters.iter().find(|(name, _)| *name == wanted);
        found.map_or(0.0, |(_, value)| *value as f64)
    })
}

/// Work between two moments, an operation.
fn per_op(before: Work, after: Work, ops: u64) -> Work {
    std::array::from_fn(|at| (after[at] - before[at]) / ops.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::StepTimer;
    use crate::watch::Unwatched;
    use std::sync::Arc;

    fn request(figures: &[u8]) -> Request {
        Request {
            figures: figures.to_vec(),
            max: 400,
            step: 200,
            seed: 1,
            rounds: 1,
            base: TargetSpec::parse("core").unwrap(),
        }
    }

    fn draw(figures: &[u8]) -> Vec<Point> {
        let context = Context { timer: Arc::new(StepTimer::new(1000)), seed: 1 };
        request(figures).run(&context, &mut Unwatched).unwrap()
    }

    fn at<'a>(points: &'a [Point], figure: u8, series: &str, n: u32) -> &'a Point {
        let found = points.iter().find(|p| (p.figure, p.n) == (figure, n) && p.series == series);
        found.unwrap()
    }

    #[test]
    fn every_figure_has_its_curves() {
        let (points, keys) = (draw(&FIGURES), request(&FIGURES).keys());
        let drawn = points.iter().map(|p| (p.figure, p.series.clone(), p.n));
        assert!(drawn.eq(keys), "points that were not announced, or the other way round");
        for figure in FIGURES {
            for series in ["linear", "dirhash"] {
                let last = points.iter().filter(|p| p.figure == figure && p.series == series);
                assert_eq!(last.map(|p| p.n).max(), Some(400), "{figure} {series}");
            }
        }
        for series in ["name cache minvnodes=1000", "name cache", "primed", "not primed"] {
            assert!(at(&points, 4, series, 200).us_per_op > 0.0);
            assert!(at(&points, 5, series, 400).us_per_op > 0.0);
        }
        let small = points.iter().filter(|p| p.series == "dirhash small").map(|p| p.n);
        assert_eq!(small.max(), Some(SMALL));
        let columns = Point::CSV_HEAD.split(',').count();
        assert!(points.iter().all(|p| p.csv().split(',').count() == columns));
    }

    /// The shapes of the paper, in work done and not in time.
    #[test]
    fn without_a_hash_work_grows_with_the_directory_and_with_one_it_does_not() {
        let points = draw(&[2, 5, 6]);
        let bytes = |figure, series, n| at(&points, figure, series, n).dir_bytes_per_op;
        let growth = |figure| bytes(figure, "linear", 400) / bytes(figure, "linear", 200);
        assert!(growth(2) > 1.5, "making a name searches all there are: {}", growth(2));
        assert!(growth(5) > 1.7, "random order searches half the directory: {}", growth(5));
        assert!(growth(6) > 1.7, "a miss searches all of it: {}", growth(6));
        for n in [200, 400] {
            let (hit, miss) = (at(&points, 5, "dirhash", n), at(&points, 6, "dirhash", n));
            assert_eq!((hit.dir_bytes_per_op, miss.dir_bytes_per_op), (0.0, 0.0));
            assert!((0.9..=1.1).contains(&hit.hash_blocks_per_op), "{hit:?}");
            assert_eq!(miss.hash_blocks_per_op, 0.0);
            for series in ["name cache", "primed"] {
                let known = at(&points, 5, series, n);
                assert_eq!((known.hash_probes_per_op, known.hash_blocks_per_op), (0.0, 0.0));
            }
            assert!(at(&points, 5, "not primed", n).hash_blocks_per_op > 0.9);
        }
    }

    #[test]
    fn figures_that_are_not_there_are_refused() {
        assert!(request(&[7]).check().unwrap_err().to_string().contains('7'));
    }
}
