//! The data of the interactive figures, as JSON in the page.
//!
//! # Invariants
//! 1. Every number is one of the report: a mean, a gain, a published number or their ratio. Missing
//!    results are `null`.
//! 2. The text can be embedded in HTML and in XML: it has no `<`, `>` or `&`.
//!
//! An option `big=20000` is a level of the factor `big`, and excludes its other levels.
//!
//! Costs are seconds, seconds for each unit of work, or percent; numbers have six digits.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::study_data::{Benchmark, ResultSeries, StudyData};
use super::super::{Report, alike, charts, format, reproduction};
use crate::error::{LabError, Result};
use crate::statistics::{Cells, Combination, StepwisePath};
use crate::workload::MetricKind;

/// A number for each combination. If options exclude each other, only the combinations that exist
/// have a number.
#[derive(Serialize)]
#[serde(untagged)]
enum ByCombination {
    TwoLevel(Vec<Option<f64>>),
    Levels(BTreeMap<u32, f64>),
}

impl ByCombination {
    fn of(cells: &Cells, value: impl Fn(Combination) -> Option<f64>) -> ByCombination {
        if cells.design().is_two_level() {
            return ByCombination::TwoLevel(cells.combinations().map(value).collect());
        }
        let numbers = cells.combinations().filter_map(|at| Some((at.0, value(at)?)));
        ByCombination::Levels(numbers.collect())
    }
}

/// The data of a page.
#[derive(Serialize)]
struct PageData {
    factors: Vec<FactorData>,
    benchmarks: Vec<BenchmarkData>,
    results: Vec<ResultData>,
    sections: Vec<SectionData>,
    numbers: Vec<NumberData>,
    studies: Vec<StudyView>,
}

/// An option: a factor of two levels, or a level of another factor.
#[derive(Serialize)]
struct FactorData {
    name: String,
    long: String,
    off: String,
    on: String,
}

#[derive(Serialize)]
struct BenchmarkData {
    words: String,
    title: String,
    /// Its size as a share of the published one.
    share: f64,
}

#[derive(Serialize)]
struct ResultData {
    id: String,
    metric: String,
    /// The index of the benchmark.
    bench: usize,
    title: String,
    kind: MetricKind,
    unit: String,
    /// The unit of a value is this many times that of a cost or its inverse.
    scale: f64,
    /// The index of the result that represents this one.
    like: usize,
    /// Mean costs by combination.
    costs: ByCombination,
    /// Standard deviations, percent of the mean, by combination.
    sigmas: ByCombination,
    /// Published seconds by combination.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    published: BTreeMap<u32, f64>,
    /// The options of Figure 10, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    named: Option<Vec<String>>,
    /// The stepwise path: option, gain, whether it is significant.
    path: Option<Vec<(usize, f64, bool)>>,
    /// The best combination and its gain.
    best: Option<(u32, f64)>,
}

#[derive(Serialize)]
struct SectionData {
    title: String,
    source: String,
    counted: Option<String>,
}

#[derive(Serialize)]
struct NumberData {
    section: usize,
    /// The index of the benchmark; `None` if it is not in the study.
    bench: Option<usize>,
    at: String,
    what: String,
    on: String,
    published: (f64, Option<f64>),
    published_text: String,
    value: Option<f64>,
    value_text: String,
    ratio: Option<f64>,
    class: &'static str,
    /// Words in the place of a ratio.
    words: String,
    calibrated: bool,
    follows: bool,
}

/// A study whose results can be chosen in the what-if panel: this one, or another.
#[derive(Serialize)]
struct StudyView {
    label: String,
    /// The settings of the target, `machine` among them.
    settings: BTreeMap<String, String>,
    factors: Vec<String>,
    /// Mean costs by combination, for each result of the page.
    costs: Vec<Option<ByCombination>>,
}

/// The JSON of a report.
///
/// # Errors
/// [`LabError::Plan`] if a number cannot be written.
pub(super) fn json(report: &Report) -> Result<String> {
    let data = PageData::of(report);
    let text = serde_json::to_string(&data);
    let text = text.map_err(|error| LabError::Plan(format!("data of the page: {error}")))?;
    let replace = |text: String, (from, to): (char, &str)| text.replace(from, to);
    Ok([('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026")].into_iter().fold(text, replace))
}

/// A number with six significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

impl PageData {
    fn of(report: &Report) -> PageData {
        let measured = &report.measured;
        let shown = measured.benchmarks.iter().filter(|b| !b.curves());
        let benchmarks: Vec<&Benchmark> = shown.collect();
        let results = results(report, &benchmarks);
        let place = |b: &Benchmark| benchmarks.iter().position(|other| other.words == b.words);
        let mut sections = Vec::new();
        let mut numbers = Vec::new();
        for (section, compared) in report.compared.iter().enumerate() {
            sections.push(SectionData {
                title: compared.title.clone(),
                source: compared.source.clone(),
                counted: compared.count.clone(),
            });
            let row = |number| {
                let words = at(number).0;
                let bench = measured.benchmark(words).and_then(place);
                NumberData::of(section, bench, number)
            };
            numbers.extend(compared.rows.iter().map(row));
        }
        let mut studies = vec![StudyView::of(measured, &results, &benchmarks)];
        studies.extend(report.others.iter().map(|o| StudyView::of(o, &results, &benchmarks)));
        PageData {
            factors: options(measured),
            benchmarks: benchmarks
                .iter()
                .map(|b| BenchmarkData {
                    words: b.words.clone(),
                    title: b.title.clone(),
                    share: b.share,
                })
                .collect(),
            results,
            sections,
            numbers,
            studies,
        }
    }
}

/// The options, in the order of their bits.
fn options(measured: &StudyData) -> Vec<FactorData> {
    let levels = measured.plan.factors.iter().flat_map(|factor| {
        let base = factor.levels.first();
        factor.levels.iter().skip(1).map(move |level| (base, level))
    });
    let names = measured.short.iter().zip(&measured.long).zip(levels);
    let option =
        |((name, long), (base, level)): ((&String, &String), (Option<&String>, &String))| {
            let (name, long) = (name.clone(), long.clone());
            FactorData { name, long, off: base.cloned().unwrap_or_default(), on: level.clone() }
        };
    names.map(option).collect()
}

/// Workload and metric of a number.
fn at(number: &reproduction::ComparedNumber) -> (&str, &str) {
    number.at.split_once('/').unwrap_or((&number.at, ""))
}

fn results(report: &Report, benchmarks: &[&Benchmark]) -> Vec<ResultData> {
    let mut all = Vec::new();
    for (bench, benchmark) in benchmarks.iter().enumerate() {
        let first = all.len();
        let like = alike::representatives(benchmark);
        for (series, like) in benchmark.series.iter().zip(like) {
            all.push(ResultData::of(report, (bench, benchmark), series, first + like));
        }
    }
    all
}

impl ResultData {
    fn of(
        report: &Report,
        (bench, benchmark): (usize, &Benchmark),
        series: &ResultSeries,
        like: usize,
    ) -> ResultData {
        let cells = &series.cells;
        let (words, metric) = (&benchmark.words, &series.metric);
        let published = charts::published_cells(&report.measured, &report.published, words, metric);
        let published = published.iter().flat_map(|cells| {
            cells.combinations().filter_map(|at| Some((at.0, rounded(cells.mean(at)?))))
        });
        let named = report.published.rows().find(|(_, (at, of), _)| {
            of == metric && report.measured.benchmark(at).is_some_and(|b| b.words == *words)
        });
        let path = StepwisePath::of(cells);
        let sigma = |at: Combination| {
            let mean = cells.mean(at).filter(|mean| *mean > 0.0)?;
            Some(rounded(cells.sigma(at)? / mean * 100.0))
        };
        ResultData {
            id: charts::id(benchmark, series),
            metric: metric.clone(),
            bench,
            title: series.title.clone(),
            kind: series.kind,
            unit: format::unit(series.kind, &series.unit),
            scale: format::scaled(series.kind, &series.unit, 1.0),
            like,
            costs: costs(series),
            sigmas: ByCombination::of(cells, sigma),
            published: published.collect(),
            named: named.map(|(_, _, row)| row.options.clone()),
            best: path.as_ref().map(|path| (path.best.0.0, rounded(path.best.1))),
            path: path.map(|path| {
                let step =
                    |s: &crate::statistics::PathStep| (s.factor, rounded(s.gain), s.is_significant);
                path.steps.iter().map(step).collect()
            }),
        }
    }
}

fn costs(series: &ResultSeries) -> ByCombination {
    ByCombination::of(&series.cells, |at| series.cells.mean(at).map(rounded))
}

impl NumberData {
    fn of(
        section: usize,
        bench: Option<usize>,
        number: &reproduction::ComparedNumber,
    ) -> NumberData {
        let finite = |value: f64| value.is_finite().then(|| rounded(value));
        NumberData {
            section,
            bench,
            at: number.at.clone(),
            what: number.what.clone(),
            on: number.on.clone(),
            published: (number.range.0, number.range.1),
            published_text: number.published.clone(),
            value: number.value.and_then(finite),
            value_text: number.measured.clone().unwrap_or_default(),
            ratio: number.ratio().and_then(finite),
            class: super::class(number),
            words: super::words(number.agreement),
            calibrated: number.calibrated,
            follows: number.follows,
        }
    }
}

impl StudyView {
    /// The results of `study` that the page has, of workloads of the same size.
    fn of(study: &StudyData, results: &[ResultData], benchmarks: &[&Benchmark]) -> StudyView {
        let plan = &study.plan;
        let (target, words) = plan.target.split_once(':').unwrap_or((&plan.target, ""));
        let mut settings = BTreeMap::from([("target".to_owned(), target.to_owned())]);
        for word in words.split(',').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, "on"));
            settings.insert(name.to_owned(), value.to_owned());
        }
        if target == "sim" {
            settings.entry("machine".to_owned()).or_insert_with(|| "paper".to_owned());
        }
        let found = |result: &ResultData| {
            let benchmark = benchmarks.get(result.bench)?;
            let (other, series) = study.series(&benchmark.words, &result.metric)?;
            let same = (other.share / benchmark.share - 1.0).abs() < 1e-9;
            same.then(|| costs(series))
        };
        StudyView {
            label: format!("{} · seed {} · {}", plan.name, plan.seed, plan.target),
            settings,
            factors: study.short.clone(),
            costs: results.iter().map(found).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::synthetic;
    use super::*;

    #[test]
    fn the_data_has_every_result_and_ends_no_script() {
        let mut study = synthetic::study(2);
        study.plan.name = "</script>&<b>".to_owned();
        let report = Report::of(&study).unwrap();
        let text = json(&report).unwrap();
        assert!(!text.contains(['<', '>', '&']));
        let data: serde_json::Value = serde_json::from_str(&text).unwrap();
        let shown = report.measured.benchmarks.iter().filter(|b| !b.curves());
        let series: usize = shown.map(|b| b.series.len()).sum();
        assert_eq!(data["results"].as_array().unwrap().len(), series);
        let rows: usize = report.compared.iter().map(|section| section.rows.len()).sum();
        assert_eq!(data["numbers"].as_array().unwrap().len(), rows);
        assert_eq!(data["studies"][0]["settings"]["machine"], "paper");
        assert!(data["studies"][0]["label"].as_str().unwrap().starts_with("</script>"));
        let untar = &data["results"][0];
        assert_eq!(untar["published"]["0"], 300.0);
        assert_eq!(untar["costs"].as_array().unwrap().len(), 16);
    }

    #[test]
    fn levels_are_options_and_only_their_combinations_have_costs() {
        let report = Report::of(&synthetic::levels(2)).unwrap();
        let data: serde_json::Value = serde_json::from_str(&json(&report).unwrap()).unwrap();
        let options = data["factors"].as_array().unwrap();
        let names: Vec<&str> = options.iter().filter_map(|o| o["name"].as_str()).collect();
        assert_eq!(names, ["su", "big=20000", "big=90000"]);
        assert_eq!(options[2]["off"], "maxvnodes=5000");
        assert_eq!(options[2]["on"], "maxvnodes=90000");
        let costs = data["results"][0]["costs"].as_object().unwrap();
        assert_eq!(costs.keys().collect::<Vec<&String>>(), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(data["studies"][0]["costs"][0], data["results"][0]["costs"]);
    }

    #[test]
    fn another_study_has_the_results_of_the_same_size() {
        let study = synthetic::small(&["a"], 1);
        let mut other = synthetic::small(&["a", "b"], 1);
        other.plan.target = "sim:machine=ide2001-7200,cache=8m".to_owned();
        let with = |other: &crate::study::Results| {
            let report = Report::of(&study).unwrap().with(other).unwrap();
            serde_json::from_str::<serde_json::Value>(&json(&report).unwrap()).unwrap()
        };
        let data = with(&other);
        let view = &data["studies"][1];
        assert_eq!(view["settings"]["machine"], "ide2001-7200");
        assert_eq!(view["settings"]["cache"], "8m");
        assert_eq!(view["costs"][0].as_array().unwrap().len(), 4);
        other.plan.workloads[0].scale *= 2.0;
        assert!(with(&other)["studies"][1]["costs"][0].is_null());
    }
}
