//! One workload on several targets in one run.
//!
//! # Invariants
//! 1. Targets take turns run by run, and each round begins with another target. All runs of a round
//!    have the same seed.
//! 2. The result of several runs is the median of the time for each unit of work, also for rates.
//! 3. All targets are left as they were, also after an error.

use serde::{Deserialize, Serialize};

use super::{check_targets, open_all};
use crate::error::{LabError, Result};
use crate::statistics::Summary;
use crate::systems::{Context, Facts, TargetSpec};
use crate::watch::Watch;
use crate::workload::{MetricKind, Outcome, PhaseInfo, PhaseOptions, Workload, measure};

/// The request for a comparison.
pub struct WorkloadRequest<'a> {
    /// The workload.
    pub workload: &'a dyn Workload,
    /// The targets. The others are compared with the first.
    pub targets: Vec<TargetSpec>,
    /// The seed of the workload.
    pub seed: u64,
    /// The number of runs on each target.
    pub rounds: u32,
    /// The actions before and after each phase.
    pub options: PhaseOptions,
    /// Words about the setup, which each result repeats.
    pub setup: String,
}

/// A result on one target. Serialised, it is a line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadRow {
    /// The setup of the comparison, in the words of the user; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub setup: String,
    /// The workload.
    pub workload: String,
    /// The target as the user gave it.
    pub target: String,
    /// Its file system.
    pub fs: String,
    /// The name of the result.
    pub result: String,
    /// The title of the result, for people.
    pub title: String,
    /// Seconds, units of work for each second, or percent.
    pub kind: MetricKind,
    /// The unit of work.
    pub unit: String,
    /// The median of the rounds.
    pub value: f64,
    /// The best round.
    pub best: f64,
    /// The worst round.
    pub worst: f64,
    /// The number of measured rounds.
    pub rounds: usize,
    /// Seconds for each unit of work: the median of the rounds.
    pub(crate) seconds_per_unit: f64,
    /// The ratio of the time, or of the percentage, to that of the first target.
    pub ratio: Option<f64>,
    /// The action that ends a phase.
    pub finish: String,
    /// The durability of an operation that has returned.
    pub durability: String,
    /// The seed.
    pub seed: u64,
}

/// The result of a comparison.
#[derive(Debug, Clone, Default)]
pub struct WorkloadComparison {
    /// The rows by result and target, in the order of the workload and the request.
    pub rows: Vec<WorkloadRow>,
    /// Notes about the rows.
    pub notes: Vec<String>,
    /// The outcome of the last run on each target.
    pub last: Vec<(String, Outcome)>,
}

impl WorkloadComparison {
    /// The row of a target.
    #[must_use]
    pub fn row(&self, target: &str, result: &str) -> Option<&WorkloadRow> {
        self.rows.iter().find(|row| row.target == target && row.result == result)
    }
}

impl WorkloadRow {
    /// The range of the rounds, percent of the median; `None` for one round.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        let apart = (self.worst - self.best).abs() / self.value * 100.0;
        (self.rounds > 1 && apart.is_finite()).then_some(apart)
    }
}

impl WorkloadRequest<'_> {
    /// The approximate number of operations, for a progress bar.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.workload.operations() * u64::from(self.rounds) * self.targets.len() as u64
    }

    /// Runs the comparison. It removes everything that it made.
    ///
    /// # Errors
    /// A target is not usable or fails, or `watch` stops the comparison.
    pub fn run(&self, context: &Context, watch: &mut dyn Watch) -> Result<WorkloadComparison> {
        check_targets(&self.targets)?;
        if self.rounds == 0 {
            return Err(LabError::Plan("nothing to do: a round is needed".to_owned()));
        }
        let mut targets = open_all(&self.targets, context)?;
        let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); targets.len()];
        let count = targets.len();
        for round in 0..self.rounds {
            let seed = self.seed.wrapping_add(u64::from(round) << 32);
            for at in (0..count).map(|i| (i + round as usize) % count) {
                let label = self.targets[at].label.clone();
                let mut named = LabelledWatch { label: &label, watch: &mut *watch };
                let target = &mut *targets[at];
                let outcome = measure(self.workload, target, seed, self.options, &mut named)?;
                outcomes[at].push(outcome);
            }
        }
        let facts: Vec<Facts> = targets.iter().map(|target| target.facts()).collect();
        Ok(self.summarise(&facts, outcomes))
    }

    fn summarise(&self, facts: &[Facts], outcomes: Vec<Vec<Outcome>>) -> WorkloadComparison {
        let mut out = WorkloadComparison::default();
        for info in self.workload.phases() {
            let mut first = None;
            for (at, facts) in facts.iter().enumerate() {
                if let Some(mut row) = self.row(&info, at, facts, &outcomes[at]) {
                    let measure = row.measure();
                    if at == 0 {
                        first = Some(measure);
                    } else {
                        row.ratio = first.map(|first| measure / first).filter(|r| r.is_finite());
                    }
                    out.rows.push(row);
                }
            }
        }
        for (spec, (facts, outcomes)) in self.targets.iter().zip(facts.iter().zip(outcomes)) {
            let phases = outcomes.iter().flat_map(|outcome| &outcome.phases);
            let notes =
                phases.flat_map(|p| p.notes.iter().map(|note| format!("{}: {note}", spec.label)));
            out.notes.extend(notes);
            if self.workload.info().computes && !facts.computes {
                out.notes.push(format!(
                    "{}: time is real and excludes the processor time of modelled programs",
                    spec.label
                ));
            }
            out.last.extend(outcomes.into_iter().last().map(|last| (spec.label.clone(), last)));
        }
        let mut seen = std::collections::BTreeSet::new();
        out.notes.retain(|note| seen.insert(note.clone()));
        out
    }

    fn row(
        &self,
        info: &PhaseInfo,
        at: usize,
        facts: &Facts,
        found: &[Outcome],
    ) -> Option<WorkloadRow> {
        let metrics: Vec<_> = found.iter().filter_map(|o| o.metric(&info.id)).collect();
        let values: Vec<f64> = metrics.iter().map(|metric| metric.value()).collect();
        let costs: Vec<f64> = metrics.iter().map(|m| m.elapsed / m.work).collect();
        let (values, costs) = (Summary::of(&values)?, Summary::of(&costs)?);
        let (best, worst) = match info.kind {
            MetricKind::Rate => (values.max, values.min),
            MetricKind::Time | MetricKind::CpuPercent => (values.min, values.max),
        };
        Some(WorkloadRow {
            setup: self.setup.clone(),
            workload: self.workload.info().name.to_owned(),
            target: self.targets[at].label.clone(),
            fs: facts.fs.clone(),
            result: info.id.clone(),
            title: info.title.clone(),
            kind: info.kind,
            unit: info.unit.to_owned(),
            value: values.median,
            best,
            worst,
            rounds: values.rounds,
            seconds_per_unit: costs.median,
            ratio: None,
            finish: match self.options.sync {
                true => "sync, in the time".to_owned(),
                false => "return of the last call".to_owned(),
            },
            durability: facts.durability.clone(),
            seed: self.seed,
        })
    }
}

impl WorkloadRow {
    /// The compared value: time for each unit of work, or the percentage.
    fn measure(&self) -> f64 {
        match self.kind {
            MetricKind::CpuPercent => self.value,
            MetricKind::Rate => self.seconds_per_unit,
            MetricKind::Time => self.value,
        }
    }
}

/// Adds the name of the target to progress reports.
struct LabelledWatch<'a> {
    label: &'a str,
    watch: &'a mut dyn Watch,
}

impl Watch for LabelledWatch<'_> {
    fn step(&mut self, what: &str) {
        self.watch.step(&format!("{} {what}", self.label));
    }

    fn done(&mut self, n: u64) -> bool {
        self.watch.done(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::{RealTimer, StepTimer};
    use crate::watch::Unwatched;
    use crate::workload::by_name;
    use std::sync::Arc;

    fn compare(words: &str, targets: &[&str], options: PhaseOptions) -> Result<WorkloadComparison> {
        let workload = by_name(words, 1.0).unwrap();
        let targets = targets.iter().map(|t| TargetSpec::parse(t).unwrap()).collect();
        let request = WorkloadRequest {
            workload: &*workload,
            targets,
            seed: 1,
            rounds: 2,
            options,
            setup: String::new(),
        };
        let context = Context { timer: Arc::new(StepTimer::new(500_000)), seed: 1 };
        request.run(&context, &mut Unwatched)
    }

    #[test]
    fn every_result_of_every_target_has_a_line_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let image = dir.path().join("x.img");
        let image = format!("core:image={}", image.display());
        let targets = ["core", path, &image];
        let found =
            compare("postmark:number=20,transactions=30", &targets, PhaseOptions::default())
                .unwrap();
        assert_eq!(found.rows.len(), 12 * 3);
        let first = found.row("core", "create-alone").unwrap();
        // Each phase takes one step of the timer: twenty files in half a millisecond.
        assert_eq!((first.value, first.ratio, first.rounds), (40_000.0, None, 2));
        assert_eq!(found.row(path, "create-alone").unwrap().ratio, Some(1.0));
        let line = serde_json::to_value(found.row(path, "total").unwrap()).unwrap();
        assert_eq!((&line["workload"], &line["kind"]), (&"postmark".into(), &"time".into()));
        assert!(line["durability"].as_str().unwrap().contains("sync"), "{line}");
        assert_eq!(found.last.len(), 3);
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "something is left");
    }

    /// The workloads of the model tests run on real file systems too.
    #[test]
    fn every_workload_runs_on_the_library_and_on_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        for (words, scale) in [
            ("x11", 0.01),
            ("mh", 0.01),
            ("bonnie:max=9000", 0.005),
            ("andrew", 0.01),
            ("postmark:subdirectories=3", 0.2),
            ("netnews", 0.0005),
            ("buildworld", 0.002),
            ("randfiles", 0.002),
            ("ports", 0.005),
        ] {
            let workload = by_name(words, scale).unwrap();
            let targets: Vec<_> = ["core", "core:softdep,format=ufs1,bsize=16k,fsize=2k", path]
                .map(|target| TargetSpec::parse(target).unwrap())
                .into();
            let options = PhaseOptions { sync: true, cold: false };
            let request = WorkloadRequest {
                workload: &*workload,
                targets,
                seed: 1,
                rounds: 1,
                options,
                setup: String::new(),
            };
            let context = Context { timer: Arc::new(RealTimer::start()), seed: 1 };
            let found = request.run(&context, &mut Unwatched).unwrap();
            assert_eq!(found.rows.len(), workload.phases().len() * 3, "{words}");
            // All targets did the same work.
            let work = |at: usize| -> Vec<f64> {
                found.last[at].1.phases.iter().map(|phase| phase.work).collect()
            };
            assert_eq!((work(0), work(0)), (work(1), work(2)), "{words}");
            assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "{words}: something is left");
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_everything_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let image = dir.path().join("small.img");
        let small = format!("core:size=2m,image={}", image.display());
        let error =
            compare("bonnie:n=0,data=8m", &[path, &small], PhaseOptions::default()).unwrap_err();
        assert!(matches!(error, LabError::Failed { full: true, .. }), "{error}");
        assert!(error.to_string().contains("small.img: write"), "{error}");
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "something is left");
    }

    #[test]
    fn figures_need_switches() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let error =
            compare("micro:max=100,step=100", &[path], PhaseOptions::default()).unwrap_err();
        assert!(error.to_string().contains("no switches"), "{error}");
        let found = compare("micro:max=100,step=100", &["core"], PhaseOptions::default()).unwrap();
        assert!(found.row("core", "fig5/linear/100").is_some());
    }
}
