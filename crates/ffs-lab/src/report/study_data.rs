//! The results of a study, by benchmark, result and combination.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::plot::interaction::LevelAxis;
use crate::statistics::{Cells, Combination, Design};
use crate::study::{JobResult, Plan, Results, check_number};
use crate::workload::{self, LookupShares, LookupTimes, Metric, MetricKind, PhaseResult};

/// All results of a study.
#[derive(Debug)]
pub(crate) struct StudyData {
    /// The plan of the study.
    pub(crate) plan: Plan,
    /// The factors and their combinations.
    pub(crate) design: Design,
    /// Short names of the options: `su`, `big=20000`.
    pub(crate) short: Vec<String>,
    /// Long names: `softupdates`.
    pub(crate) long: Vec<String>,
    /// The factors with more than two levels.
    pub(crate) axes: Vec<LevelAxis>,
    /// Benchmarks in the plan's order.
    pub(crate) benchmarks: Vec<Benchmark>,
    /// The number of finished jobs, and of planned jobs.
    pub(crate) jobs: (usize, usize),
}

/// One workload of a study.
#[derive(Debug)]
pub(crate) struct Benchmark {
    /// The workload as in the plan: `postmark:number=20000`.
    pub(crate) words: String,
    /// A name for addresses and file names.
    pub(crate) slug: String,
    /// The title, for people.
    pub(crate) title: String,
    /// A description.
    pub(crate) about: String,
    /// Its size as a share of the published size.
    pub(crate) share: f64,
    /// Its results.
    pub(crate) series: Vec<ResultSeries>,
    /// The number of finished jobs, and of planned jobs.
    pub(crate) jobs: (usize, usize),
}

/// One result under all combinations.
#[derive(Debug)]
pub(crate) struct ResultSeries {
    /// Its name within the benchmark.
    pub(crate) metric: String,
    /// The title, for people.
    pub(crate) title: String,
    /// Time, rate or percentage.
    pub(crate) kind: MetricKind,
    /// The unit of work that a rate counts.
    pub(crate) unit: String,
    /// The costs: seconds, seconds for each unit of work, or percent.
    pub(crate) cells: Cells,
    /// The use of resources, by combination.
    pub(crate) spent: BTreeMap<Combination, ResourceUse>,
    /// Notes for the reader.
    pub(crate) notes: Vec<String>,
}

/// Means over the runs of one combination.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ResourceUse {
    /// Seconds of the result.
    pub(crate) elapsed: f64,
    /// Units of work of the result.
    pub(crate) work: f64,
    /// Seconds of the phases that it is computed from.
    pub(crate) time: f64,
    /// Units of work of these phases.
    pub(crate) units: f64,
    /// Processor seconds of these phases.
    pub(crate) cpu: f64,
    /// Of them, the seconds of searches of directories.
    pub(crate) search: f64,
    /// Seconds during which the disk was busy.
    pub(crate) disk: f64,
    /// Read requests to the disk.
    pub(crate) reads: f64,
    /// Write requests to the disk.
    pub(crate) writes: f64,
    /// Transferred sectors of 512 bytes.
    pub(crate) sectors: f64,
    /// Requests that do not begin where the one before ended.
    pub(crate) seeks: f64,
    /// Means of the counters by name.
    pub(crate) counters: BTreeMap<String, f64>,
}

impl StudyData {
    /// Sorts the results of a study.
    ///
    /// # Errors
    /// [`LabError::Plan`] if there are more factors or levels than a study may have.
    pub(crate) fn of(results: &Results) -> Result<StudyData> {
        let plan = results.plan.clone();
        check_number(&plan.factors)?;
        let short = plan.option_names();
        let long = short.iter().map(|name| long(name).to_owned()).collect();
        let design = plan.design();
        let axis = |factor: usize| {
            let of = plan.factors.get(factor)?;
            Some(LevelAxis { factor, name: of.name.clone(), levels: of.level_names() })
        };
        let axes = design.multilevel().filter_map(axis).collect();
        let mut benchmarks = Vec::new();
        for item in &plan.workloads {
            let of = results.jobs.iter().filter(|job| job.workload == item.workload);
            let jobs: Vec<&JobResult> = of.collect();
            let runs = if item.combinations.is_empty() {
                design.combinations().len()
            } else {
                item.combinations.len()
            };
            let planned = runs * plan.replicates as usize;
            benchmarks.push(Benchmark::of(&item.workload, item.scale, &jobs, (&design, planned)));
        }
        let sum = |which: fn(&Benchmark) -> usize| benchmarks.iter().map(which).sum();
        let jobs = (sum(|b| b.jobs.0), sum(|b| b.jobs.1));
        Ok(StudyData { plan, design, short, long, axes, benchmarks, jobs })
    }

    /// A combination by the names of its options: `none`, `su+dp`. `None` if the study lacks one.
    #[must_use]
    pub(crate) fn combination(&self, name: &str) -> Option<Combination> {
        if name == "none" {
            return Some(Combination::NONE);
        }
        let bit = |word: &str| self.short.iter().position(|short| short == word);
        name.split('+').try_fold(Combination::NONE, |set, word| Some(set.with(bit(word)?)))
    }

    /// The combination of cost curves: with soft updates, if the study changes them.
    #[must_use]
    pub(crate) fn curve_combination(&self) -> Option<Combination> {
        if self.short.iter().any(|name| name == "su") {
            return self.combination("su");
        }
        let curves = self.plan.workloads.iter().find(|item| is_curves(&item.workload));
        match curves.map(|item| item.combinations.as_slice()) {
            Some([only]) => Some(Combination(*only)),
            _ => Some(Combination::NONE),
        }
    }

    /// The long names of the factors.
    #[must_use]
    pub(crate) fn factor_names(&self) -> Vec<String> {
        self.plan.factors.iter().map(|factor| long(&factor.name).to_owned()).collect()
    }

    /// A benchmark by its workload, with the parameters in any order.
    #[must_use]
    pub(crate) fn benchmark(&self, words: &str) -> Option<&Benchmark> {
        let wanted = sorted(words);
        self.benchmarks.iter().find(|benchmark| sorted(&benchmark.words) == wanted)
    }

    /// The benchmarks of a workload, with any parameters.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = &Benchmark> {
        self.benchmarks.iter().filter(move |b| b.words.split(':').next() == Some(name))
    }

    /// A result by workload and metric.
    #[must_use]
    pub(crate) fn series(&self, words: &str, metric: &str) -> Option<(&Benchmark, &ResultSeries)> {
        let benchmark = self.benchmark(words)?;
        Some((benchmark, benchmark.get(metric)?))
    }
}

/// Whether a workload is the cost curves.
fn is_curves(words: &str) -> bool {
    words.split(':').next() == Some("micro")
}

/// The name, and the parameters in sorted order.
fn sorted(words: &str) -> (&str, Vec<&str>) {
    let (name, parameters) = words.split_once(':').unwrap_or((words, ""));
    let mut parameters: Vec<&str> = parameters.split(',').filter(|p| !p.is_empty()).collect();
    parameters.sort_unstable();
    (name, parameters)
}

/// The long name of an option of the paper. Other options have one name.
fn long(short: &str) -> &str {
    match short {
        "su" => "softupdates",
        "dp" => "dirpref",
        "vm" => "vmiodir",
        "dh" => "dirhash",
        other => other,
    }
}

/// Converts a text to letters, digits and dashes.
pub(super) fn slug(words: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = words.chars().map(plain).collect();
    text.split('-').filter(|part| !part.is_empty()).collect::<Vec<&str>>().join("-")
}

/// A run of at least this part of the published size counts as a full run.
const FULL: f64 = 0.99;

/// The size of a run as a share of the published size.
fn share(words: &str, scale: f64) -> f64 {
    let parameters = words.split_once(':').map_or("", |(_, parameters)| parameters);
    let given = parameters.split(',').find_map(|p| p.strip_prefix("size=")?.parse::<f64>().ok());
    scale * given.unwrap_or(1.0)
}

impl Benchmark {
    fn of(
        words: &str,
        scale: f64,
        jobs: &[&JobResult],
        (design, planned): (&Design, usize),
    ) -> Benchmark {
        let known = workload::by_name(words, scale).ok();
        let mut benchmark = Benchmark {
            words: words.to_owned(),
            slug: slug(words),
            title: known.as_ref().map_or_else(|| words.to_owned(), |workload| workload.group()),
            about: known
                .as_ref()
                .map_or_else(String::new, |workload| workload.info().about.to_owned()),
            share: share(words, scale),
            series: Vec::new(),
            jobs: (jobs.len(), planned),
        };
        let units: BTreeMap<String, &str> = known
            .map(|workload| {
                workload.phases().into_iter().map(|info| (info.id, info.unit)).collect()
            })
            .unwrap_or_default();
        for job in jobs {
            for metric in &job.outcome.metrics {
                let at = benchmark.series.iter().position(|series| series.metric == metric.id);
                let at = at.unwrap_or_else(|| {
                    let unit = units.get(&metric.id).copied().unwrap_or("units");
                    benchmark.series.push(ResultSeries::new(metric, unit, design));
                    benchmark.series.len() - 1
                });
                benchmark.series[at].add(metric, job);
            }
        }
        benchmark.series.iter_mut().for_each(ResultSeries::finish);
        benchmark
    }

    /// A result by its name.
    #[must_use]
    pub(crate) fn get(&self, metric: &str) -> Option<&ResultSeries> {
        self.series.iter().find(|series| series.metric == metric)
    }

    /// Whether the size is at least nearly the published one.
    #[must_use]
    pub(crate) fn is_full(&self) -> bool {
        self.share >= FULL
    }

    /// Whether the workload is the cost curves, whose results are points of curves.
    #[must_use]
    pub(crate) fn curves(&self) -> bool {
        is_curves(&self.words)
    }
}

impl ResultSeries {
    fn new(metric: &Metric, unit: &str, design: &Design) -> ResultSeries {
        ResultSeries {
            metric: metric.id.clone(),
            title: metric.title.clone(),
            kind: metric.kind,
            unit: unit.to_owned(),
            cells: Cells::of(design),
            spent: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    fn add(&mut self, metric: &Metric, job: &JobResult) {
        let at = Combination(job.combination);
        let cost = match self.kind {
            MetricKind::Time => metric.elapsed,
            MetricKind::Rate => metric.elapsed / metric.work,
            MetricKind::CpuPercent => metric.value(),
        };
        if !self.cells.add(at, cost) {
            return;
        }
        let phases = phases_of(&metric.id, &job.outcome.phases);
        self.spent.entry(at).or_default().add(ResourceUse::of(metric, &phases));
        for note in phases.iter().flat_map(|phase| &phase.notes) {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
    }

    /// Divides the sums over runs by the number of runs.
    fn finish(&mut self) {
        for (at, spent) in &mut self.spent {
            spent.divide(self.cells.runs(*at).len());
        }
    }

    /// The value that people see of a cost: seconds, units of work for each second, or percent.
    #[must_use]
    pub(crate) fn shown(&self, cost: f64) -> f64 {
        if self.kind == MetricKind::Rate { 1.0 / cost } else { cost }
    }

    /// Seconds for each unit of work under a combination.
    #[must_use]
    pub(crate) fn each(&self, at: Combination) -> Option<f64> {
        if self.kind == MetricKind::Rate {
            return self.cells.mean(at);
        }
        let spent = self.spent.get(&at)?;
        (spent.work > 0.0).then(|| spent.elapsed / spent.work)
    }
}

/// The phases that a result is computed from: the phase of its name, or of its name without the
/// last word, or all phases.
fn phases_of<'a>(metric: &str, phases: &'a [PhaseResult]) -> Vec<&'a PhaseResult> {
    let shorter = metric.rsplit_once(['-', '/']).map_or(metric, |(front, _)| front);
    let find = |name: &str| phases.iter().find(|phase| phase.phase == name);
    match find(metric).or_else(|| find(shorter)) {
        Some(phase) => vec![phase],
        None => phases.iter().collect(),
    }
}

impl ResourceUse {
    /// The use of resources by one run.
    fn of(metric: &Metric, phases: &[&PhaseResult]) -> ResourceUse {
        let mut spent =
            ResourceUse { elapsed: metric.elapsed, work: metric.work, ..ResourceUse::default() };
        for phase in phases {
            let (usage, seconds) = (&phase.usage, |ns: u64| ns as f64 / 1e9);
            let counters = phase.counters.iter().map(|(name, n)| (name.clone(), *n as f64));
            spent.add(ResourceUse {
                time: phase.elapsed,
                units: phase.work,
                cpu: phase.cpu,
                search: seconds(usage.search_ns),
                disk: seconds(usage.disk_busy_ns),
                reads: usage.reads as f64,
                writes: usage.writes as f64,
                sectors: usage.sectors as f64,
                seeks: usage.seeks as f64,
                counters: counters.collect(),
                ..ResourceUse::default()
            });
        }
        spent
    }

    fn numbers(&mut self) -> [&mut f64; 11] {
        let ResourceUse {
            elapsed,
            work,
            time,
            units,
            cpu,
            search,
            disk,
            reads,
            writes,
            sectors,
            seeks,
            ..
        } = self;
        [elapsed, work, time, units, cpu, search, disk, reads, writes, sectors, seeks]
    }

    fn add(&mut self, mut other: ResourceUse) {
        for (mine, theirs) in self.numbers().into_iter().zip(other.numbers()) {
            *mine += *theirs;
        }
        for (name, count) in other.counters {
            *self.counters.entry(name).or_default() += count;
        }
    }

    fn divide(&mut self, runs: usize) {
        let runs = runs.max(1) as f64;
        self.numbers().into_iter().for_each(|number| *number /= runs);
        self.counters.values_mut().for_each(|count| *count /= runs);
    }

    /// How the lookups were answered, and what they cost the processor.
    #[must_use]
    pub(crate) fn lookup_shares(&self) -> LookupShares {
        let times = LookupTimes { elapsed: self.time, cpu: self.cpu, search: self.search };
        LookupShares::from_sums(|name| self.counter(name), times)
    }

    /// The mean of a counter; 0 if it did not count.
    #[must_use]
    pub(crate) fn counter(&self, name: &str) -> f64 {
        self.counters.get(name).copied().unwrap_or(0.0)
    }
}
