//! A sweep: one workload over the values of one setting, under several combinations of switches.
//!
//! A study has switches that are off or on. A sweep answers how their effects depend on a setting
//! with more values: the memory, the drive, the number of files. Each result gives a table and a
//! figure of curves. Curves that are not parallel interact.
//!
//! # Invariants
//! 1. All runs have the same seed. Results do not depend on the number of threads.
//! 2. A point that cannot be run is an error, never a gap: a curve is complete.

use serde::Serialize;

use crate::error::{LabError, Result};
use crate::plot::Figure;
use crate::plot::line_chart::{self, Axes, Curve};
use crate::pool;
use crate::report::format;
use crate::study::Plan;
use crate::systems::{Context, TargetSpec};
use crate::watch::{Unwatched, Watch};
use crate::workload::{MetricKind, Outcome, PhaseInfo, PhaseOptions, all, by_name, measure};

/// The most values of a sweep.
const MOST_VALUES: usize = 100;

/// What to run.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The workload, with its parameters.
    pub workload: String,
    /// The factor of its counts.
    pub scale: f64,
    /// The target of all runs.
    pub target: String,
    /// The setting: a parameter of the workload, or an option of the target.
    pub over: String,
    /// Its values.
    pub values: Vec<String>,
    /// The curves.
    pub curves: Vec<CurveSetting>,
    /// The seed of all runs.
    pub seed: u64,
    /// The number of threads.
    pub jobs: usize,
}

/// A curve: a name and options of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurveSetting {
    /// The name: `none`, `su+dp`, or the options.
    pub name: String,
    /// Options of the target, separated by commas.
    pub words: String,
}

/// A point of a result. Serialised, it is a line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepPoint {
    /// The workload with its parameters.
    pub workload: String,
    /// The result, a stable name.
    pub result: String,
    /// Its title.
    pub title: String,
    /// The unit of the value.
    pub unit: String,
    /// The setting.
    pub over: String,
    /// Its value.
    pub at: String,
    /// The curve.
    pub curve: String,
    /// The measured value, in its unit.
    pub value: f64,
    /// The kind of the value.
    #[serde(skip)]
    pub kind: MetricKind,
    /// What the workload counts.
    #[serde(skip)]
    pub counts: &'static str,
}

impl CurveSetting {
    /// Parses a combination of the paper's factors (`none`, `su`, `su+dp`), or options.
    #[must_use]
    pub fn parse(text: &str) -> CurveSetting {
        let plan = Plan::paper();
        let known = plan.combinations().into_iter().find(|c| plan.combination_name(*c) == text);
        let words = known.map_or_else(|| text.to_owned(), |c| plan.words_in(c));
        CurveSetting { name: text.to_owned(), words }
    }
}

/// Splits `NAME=V1,V2,...`.
///
/// # Errors
/// [`LabError::Plan`] if it has another form.
pub fn parse_over(text: &str) -> Result<(String, Vec<String>)> {
    let wrong = |why: &str| LabError::Plan(format!("--over '{text}': {why}"));
    let (name, values) = text
        .split_once('=')
        .ok_or_else(|| wrong("expected NAME=V1,V2,..., like memory=16m,64m,256m"))?;
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    if name.is_empty() || values.iter().any(String::is_empty) {
        return Err(wrong("a name or a value is empty"));
    }
    if values.len() > MOST_VALUES {
        return Err(wrong(&format!("at most {MOST_VALUES} values")));
    }
    for (at, value) in values.iter().enumerate() {
        if values[..at].contains(value) {
            return Err(wrong(&format!("{value} is there twice")));
        }
    }
    Ok((name.to_owned(), values))
}

impl Sweep {
    /// Whether the setting is a parameter of the workload.
    fn is_parameter(&self) -> bool {
        let name = self.workload.split(':').next().unwrap_or_default();
        let info = all().iter().find(|info| info.name == name);
        info.is_some_and(|info| info.params.iter().any(|param| param.name == self.over))
    }

    /// The workload and the target of a point.
    fn point(&self, value: &str, curve: &CurveSetting) -> (String, String) {
        let joined = |base: &str, word: &str| match (base.contains(':'), word.is_empty()) {
            (_, true) => base.to_owned(),
            (true, _) => format!("{base},{word}"),
            (false, _) => format!("{base}:{word}"),
        };
        let word = format!("{}={value}", self.over);
        let target = joined(&self.target, &curve.words);
        if self.is_parameter() {
            (joined(&self.workload, &word), target)
        } else {
            (self.workload.clone(), joined(&target, &word))
        }
    }

    /// Runs all points. The result has them by result, value and curve.
    ///
    /// # Errors
    /// An unknown workload, setting or option; a target that is not usable or fails; `watch` stops
    /// the sweep.
    pub fn run(&self, context: &Context, watch: &mut dyn Watch) -> Result<Vec<SweepPoint>> {
        if self.values.is_empty() || self.curves.is_empty() {
            return Err(LabError::Plan("nothing to do: a value and a curve are needed".to_owned()));
        }
        // All mistakes are found before the first run.
        let mut infos = None;
        for (value, curve) in self.places() {
            let (workload, target) = self.point(value, curve);
            let workload = by_name(&workload, self.scale)?;
            TargetSpec::parse(&target)?;
            infos.get_or_insert_with(|| workload.phases());
        }
        let places: Vec<_> = self.places().collect();
        let order: Vec<usize> = (0..places.len()).collect();
        let outcomes = pool::run(&order, self.jobs, watch, |at, progress| {
            let (value, curve) = places[at];
            let outcome = self.one(value, curve, context)?;
            progress.done(1, &format!("{value} {}", curve.name));
            Ok(outcome)
        })?;
        let mut points = Vec::new();
        for info in infos.unwrap_or_default() {
            for ((value, curve), outcome) in self.places().zip(&outcomes) {
                points.extend(self.measured(&info, value, curve, outcome));
            }
        }
        Ok(points)
    }

    fn places(&self) -> impl Iterator<Item = (&str, &CurveSetting)> {
        let curves = |value| self.curves.iter().map(move |curve| (value, curve));
        self.values.iter().map(String::as_str).flat_map(curves)
    }

    fn one(&self, value: &str, curve: &CurveSetting, context: &Context) -> Result<Outcome> {
        let (workload, target) = self.point(value, curve);
        let workload = by_name(&workload, self.scale)?;
        let context = Context { seed: self.seed, ..context.clone() };
        let mut target = TargetSpec::parse(&target)?.open(&context)?;
        measure(&*workload, &mut *target, self.seed, PhaseOptions::default(), &mut Unwatched)
    }

    fn measured(
        &self,
        info: &PhaseInfo,
        value: &str,
        curve: &CurveSetting,
        outcome: &Outcome,
    ) -> Option<SweepPoint> {
        let metric = outcome.metric(&info.id)?;
        Some(SweepPoint {
            workload: self.workload.clone(),
            result: info.id.clone(),
            title: info.title.clone(),
            unit: format::unit(info.kind, info.unit),
            over: self.over.clone(),
            at: value.to_owned(),
            curve: curve.name.clone(),
            value: metric.value(),
            kind: info.kind,
            counts: info.unit,
        })
    }
}

/// The files of a sweep, by name: for each result a figure and its numbers.
#[must_use]
pub fn files(points: &[SweepPoint]) -> Vec<(String, String)> {
    let mut ids: Vec<&str> = points.iter().map(|point| point.result.as_str()).collect();
    ids.dedup();
    let drawn = ids.into_iter().filter_map(|id| Some((id, figure(points, id)?)));
    drawn
        .flat_map(|(id, figure)| {
            let svg = (format!("{id}.svg"), figure.file());
            [svg, (format!("{id}.csv"), table(points, id))]
        })
        .collect()
}

/// The numbers of the result `id`, separated by commas.
fn table(points: &[SweepPoint], id: &str) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out = "setting,at,curve,value,unit\n".to_owned();
    for point in points.iter().filter(|point| point.result == id) {
        let words = [&point.over, &point.at, &point.curve].map(|text| quoted(text));
        let value = format!("{:.6}", point.value);
        out.push_str(&[words.join(","), value, quoted(&point.unit)].join(","));
        out.push('\n');
    }
    out
}

/// The figure of the result `id`: a curve for each setting, a place on the axis for each value.
fn figure(points: &[SweepPoint], id: &str) -> Option<Figure> {
    let points: Vec<&SweepPoint> = points.iter().filter(|point| point.result == id).collect();
    let first = points.first()?;
    let mut names: Vec<String> = Vec::new();
    let mut curves: Vec<Curve> = Vec::new();
    for point in &points {
        if !names.contains(&point.at) {
            names.push(point.at.clone());
        }
        if !curves.iter().any(|curve| curve.name == point.curve) {
            curves.push(Curve { name: point.curve.clone(), points: Vec::new() });
        }
        let at = names.iter().position(|name| *name == point.at).unwrap_or_default();
        if let Some(curve) = curves.iter_mut().find(|curve| curve.name == point.curve) {
            curve.points.push((at as f64, point.value));
        }
    }
    let values = points.iter().map(|point| point.value);
    let (low, high) = values.fold((f64::MAX, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    let axes = Axes {
        x: first.over.clone(),
        y: format!("{}, {}", first.title, first.unit),
        log: low > 0.0 && high / low > 10.0,
        levels: Vec::new(),
        names,
    };
    let title = format!("{}: {}", first.workload, first.title);
    line_chart::draw(&format!("sweep-{id}"), &title, &curves, &axes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use std::sync::Arc;

    use super::*;
    use crate::timer::RealTimer;

    fn sweep(over: &str, values: &[&str], jobs: usize) -> Sweep {
        Sweep {
            workload: "mh:count=200".to_owned(),
            scale: 1.0,
            target: "sim:size=64,turnover=0,used=0".to_owned(),
            over: over.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            curves: ["none", "su+dh"].map(CurveSetting::parse).to_vec(),
            seed: 7,
            jobs,
        }
    }

    fn run(sweep: &Sweep) -> Result<Vec<SweepPoint>> {
        sweep.run(&Context { timer: Arc::new(RealTimer::start()), seed: 7 }, &mut Unwatched)
    }

    #[test]
    fn every_value_has_every_curve_with_any_number_of_threads() {
        let points = run(&sweep("memory", &["16m", "64m"], 1)).unwrap();
        assert_eq!(points.len(), 3 * 2 * 2);
        assert_eq!(points, run(&sweep("memory", &["16m", "64m"], 3)).unwrap());
        let of = |curve: &str| {
            let found = |p: &&SweepPoint| p.result == "create" && p.curve == curve;
            points.iter().find(found).unwrap().value
        };
        assert!(of("none") > 10.0 * of("su+dh"), "{} {}", of("none"), of("su+dh"));
        let svg = figure(&points, "create").unwrap();
        assert!(svg.file().contains("64m"));
        let files = files(&points);
        assert_eq!(files.len(), 2 * 3);
        assert_eq!((files[1].0.as_str(), files[1].1.lines().count()), ("create.csv", 1 + 4));
    }

    #[test]
    fn parameters_of_the_workload_and_machines_can_be_swept() {
        let mut sizes = sweep("count", &["50", "500"], 2);
        sizes.workload = "mh".to_owned();
        let sizes = run(&sizes).unwrap();
        let create: Vec<f64> =
            sizes.iter().filter(|p| p.result == "create").map(|p| p.value).collect();
        assert!(create[2] > 5.0 * create[0], "{create:?}");
        let machines = ["ide2001-5400", "scsi2002-15k", "ssd2009", "nvme2019"];
        let drives = run(&sweep("machine", &machines, 2)).unwrap();
        let rm: Vec<f64> = drives
            .iter()
            .filter(|p| p.result == "rm" && p.curve == "none")
            .map(|p| p.value)
            .collect();
        assert!(rm.is_sorted_by(|slower, faster| slower > faster), "{rm:?}");
    }

    #[test]
    fn mistakes_are_found_before_the_first_run() {
        for (over, value, named) in [
            ("memory", "1m", "16m to 4g"),
            ("machine", "ssd2010", "ssd2009"),
            ("memry", "16m", "memry"),
            ("count", "many", "count"),
        ] {
            let error = run(&sweep(over, &["64m", value], 1)).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        for text in ["memory", "=1", "memory=", "memory=1,,2", "memory=1,1"] {
            assert!(parse_over(text).is_err(), "{text}");
        }
    }
}
