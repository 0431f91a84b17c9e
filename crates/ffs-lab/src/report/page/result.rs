//! A benchmark and its results: rank tables, models, figures and the use of resources.

use super::super::explain::{self, WorkTable};
use super::super::study_data::{Benchmark, ResultSeries};
use super::super::{Report, alike, charts, format};
use crate::plot::interaction::{self, LevelAxis, LevelLine};
use crate::plot::{Figure, style, times};
use crate::statistics::{Combination, Model, RankTable, StepwisePath, hints};
use crate::workload::MetricKind;

pub(super) struct BenchmarkView {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) about: String,
    pub(super) results: Vec<ResultView>,
}

pub(super) struct ResultView {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) open: bool,
    pub(super) gain: String,
    pub(super) chips: Vec<(usize, String)>,
    pub(super) sub: String,
    pub(super) unit: String,
    pub(super) heads: Vec<(usize, String)>,
    pub(super) rank: Vec<RankView>,
    pub(super) terms: Vec<TermView>,
    pub(super) rest: String,
    pub(super) hints: Vec<String>,
    pub(super) notes: Vec<String>,
    /// The result that represents this one, in a sentence.
    pub(super) alike: String,
    /// The figures of this study, and those of the published numbers.
    pub(super) figures: Vec<FigureView>,
    /// The figures over the levels of factors with more than two.
    pub(super) levels: Vec<LevelsView>,
    pub(super) work: Option<WorkTable>,
}

pub(super) struct FigureView {
    /// `here` or `published`.
    pub(super) name: &'static str,
    /// Words behind the captions.
    pub(super) words: &'static str,
    pub(super) triangle: Option<String>,
    pub(super) lattice: Option<String>,
}

/// The figure of a result over the levels of a factor, and its table.
pub(super) struct LevelsView {
    pub(super) factor: String,
    pub(super) figure: String,
    /// A sentence about lines that are not drawn.
    pub(super) rest: String,
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<(String, Vec<String>)>,
}

pub(super) struct RankView {
    pub(super) dots: Vec<(usize, &'static str)>,
    pub(super) mean: String,
    pub(super) percent: String,
    pub(super) error: String,
    pub(super) runs: usize,
}

pub(super) struct TermView {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) error: String,
    pub(super) chance: String,
}

/// A benchmark with all its results. `None` for the cost curves, which have their own section.
pub(super) fn benchmark(report: &Report, benchmark: &Benchmark) -> Option<BenchmarkView> {
    if benchmark.curves() {
        return None;
    }
    let size = benchmark.share;
    let mut about = benchmark.about.clone();
    if !about.is_empty() {
        let first = about.remove(0).to_uppercase().to_string();
        about = format!("{first}{about}.");
    }
    if (size - 1.0).abs() > 1e-9 {
        about.push_str(&format!(" Size: {} of the published one.", format::short(size)));
    }
    if benchmark.series.is_empty() {
        about.push_str(" Not run yet.");
    }
    let like = alike::representatives(benchmark);
    let represented = |n: usize| {
        let other = like.get(n).filter(|other| **other != n)?;
        benchmark.series.get(*other)
    };
    let result = |(n, series): (usize, &ResultSeries)| ResultView {
        open: n == 0,
        ..result(report, benchmark, series, represented(n))
    };
    Some(BenchmarkView {
        id: format!("b-{}", benchmark.slug),
        title: benchmark.title.clone(),
        about,
        results: benchmark.series.iter().enumerate().map(result).collect(),
    })
}

fn result(
    report: &Report,
    benchmark: &Benchmark,
    series: &ResultSeries,
    like: Option<&ResultSeries>,
) -> ResultView {
    let names = &report.measured.short;
    let id = charts::id(benchmark, series);
    let cells = &series.cells;
    let path = StepwisePath::of(cells);
    let model = Model::fit(cells);
    let figure = |kind: &str| report.figure(&format!("{id}-{kind}")).map(Figure::inline);
    let chips = path.as_ref().map_or_else(Vec::new, StepwisePath::significant);
    let table = RankTable::of(cells);
    let end = cells.summary_end();
    let colour = |factor: &usize| factor % style::SERIES;
    // Of a share of processor time neither more nor less is a gain.
    let is_cost = series.kind != MetricKind::CpuPercent;
    ResultView {
        title: series.title.clone(),
        open: false,
        gain: end.filter(|_| is_cost).and_then(|e| cells.gain(e)).map_or_else(String::new, times),
        chips: chips.iter().map(|f| (colour(f), names[*f].clone())).collect(),
        sub: sub(series),
        unit: unit(series),
        heads: table.order.iter().map(|f| (colour(f), names[*f].clone())).collect(),
        rank: rank(series, &table),
        terms: model.as_ref().map_or_else(Vec::new, |model| terms(model, names)),
        rest: model.as_ref().map_or_else(String::new, |model| rest(model, names)),
        hints: model.as_ref().filter(|_| is_cost).map_or_else(Vec::new, |m| hints::hints(m, names)),
        notes: series.notes.clone(),
        alike: like.map_or_else(String::new, |other| {
            format!(
                "The gains are within 2 % of those of {} under every combination: its figures \
                 show them.",
                other.title
            )
        }),
        figures: [("here", "", ""), ("published", ", published", "published-")]
            .into_iter()
            .map(|(name, words, prefix)| FigureView {
                name,
                words,
                triangle: figure(&format!("{prefix}triangle")),
                lattice: figure(&format!("{prefix}lattice")),
            })
            .filter(|view| view.triangle.is_some() || view.lattice.is_some())
            .collect(),
        levels: levels(report, benchmark, series),
        work: explain::work(series, names).filter(|_| series.kind != MetricKind::CpuPercent),
        id,
    }
}

/// The figures over the levels of factors, with the percentages that they show.
fn levels(report: &Report, benchmark: &Benchmark, series: &ResultSeries) -> Vec<LevelsView> {
    let measured = &report.measured;
    let view = |axis: &LevelAxis| {
        let figure = report.figure(&charts::level_id(benchmark, series, axis))?.inline();
        let lines = interaction::lines(&series.cells, axis);
        let value = |v: &Option<f64>| v.map_or_else(|| "–".to_owned(), |v| format::fixed(v, 2));
        let row = |line: &LevelLine| {
            let name = line.others.name(&measured.short, "+");
            (name, line.percent.iter().map(value).collect())
        };
        Some(LevelsView {
            factor: axis.name.clone(),
            figure,
            rest: interaction::rest(lines.len()),
            heads: axis.levels.clone(),
            rows: lines.iter().map(row).collect(),
        })
    };
    measured.axes.iter().filter_map(view).collect()
}

/// The value without options and the value with all, or the best one.
fn sub(series: &ResultSeries) -> String {
    let cells = &series.cells;
    let end = cells.summary_end().and_then(|end| cells.mean(end));
    let ends = cells.mean(Combination::NONE).zip(end);
    let Some((from, to)) = ends.filter(|_| cells.factors() > 0) else { return String::new() };
    let show = |cost: f64| format::short(scaled(series, series.shown(cost)));
    format!("{} → {} {}", show(from), show(to), unit(series))
}

fn scaled(series: &ResultSeries, value: f64) -> f64 {
    format::scaled(series.kind, &series.unit, value)
}

fn unit(series: &ResultSeries) -> String {
    format::unit(series.kind, &series.unit)
}

fn rank(series: &ResultSeries, table: &RankTable) -> Vec<RankView> {
    let value = |mean: f64| scaled(series, series.shown(mean));
    let smallest = table.rows.iter().map(|row| value(row.mean)).fold(f64::INFINITY, f64::min);
    let digits = format::digits(smallest);
    let optional =
        |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format::fixed(v, 2));
    let row = |row: &crate::statistics::RankRow| RankView {
        dots: table
            .order
            .iter()
            .map(|f| (f % style::SERIES, if row.combination.has(*f) { "●" } else { "" }))
            .collect(),
        mean: format::fixed(value(row.mean), digits),
        percent: optional(row.percent),
        error: optional(row.error),
        runs: row.runs,
    };
    table.rows.iter().map(row).collect()
}

fn terms(model: &Model, names: &[String]) -> Vec<TermView> {
    let view = |term: &crate::statistics::Term| TermView {
        name: if term.options == Combination::NONE {
            "base".to_owned()
        } else {
            term.options.name(names, ":")
        },
        value: if term.options == Combination::NONE {
            format::fixed(term.value, 2)
        } else {
            format::signed(term.value, 2)
        },
        error: term.error.map_or_else(|| "–".to_owned(), |error| format::fixed(error, 2)),
        chance: match term.p_value {
            Some(chance) if term.options != Combination::NONE => format::chance(chance),
            _ => String::new(),
        },
    };
    model.significant().map(view).collect()
}

/// The sentence about the terms that are not shown.
fn rest(model: &Model, names: &[String]) -> String {
    let hidden = model.terms.iter().filter(|term| !term.is_significant);
    let largest = hidden.clone().max_by(|a, b| a.value.abs().total_cmp(&b.value.abs()));
    let Some(largest) = largest else { return String::new() };
    let why = if model.spread.is_some() { "not significant" } else { "smaller" };
    format!(
        "{} {why}; the largest is {} with {} %.",
        format::plural(hidden.count(), "other term"),
        largest.options.name(names, ":"),
        format::signed(largest.value, 2)
    )
}
