//! Reproduced next to published: every number the sources give, and its ratio.

use super::data::{Benchmark, Measured, Series};
use super::published::{Kind, Number, Published, Section};
use super::words;
use crate::stat::{Combination, Model, SummaryPath};

/// A section of numbers, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// What they are.
    pub title: String,
    /// Where they are from.
    pub source: String,
    /// The numbers.
    pub rows: Vec<Pair>,
}

/// A number, published and reproduced.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Workload and metric, as in the plan.
    pub at: String,
    /// The benchmark and its result.
    pub what: String,
    /// Options.
    pub on: String,
    /// As published.
    pub published: String,
    /// As measured; `None` where it was not run.
    pub measured: Option<String>,
    /// Measured by published: to the nearer end of a range, 1 inside. `None` for what is 100 by
    /// construction: it agrees whatever was run.
    pub ratio: Option<f64>,
}

/// Compares everything.
#[must_use]
pub fn all(measured: &Measured, published: &Published) -> Vec<Compared> {
    let section = |section: &Section| Compared {
        title: section.title.clone(),
        source: section.source.clone(),
        rows: section.rows.iter().map(|number| pair(measured, section.kind, number)).collect(),
    };
    published.sections.iter().map(section).collect()
}

fn pair(measured: &Measured, kind: Kind, number: &Number) -> Pair {
    let (words, metric) = number.at.split_once('/').unwrap_or((&number.at, ""));
    let found = measured.series(words, metric);
    let value = found.and_then(|found| value(measured, kind, number, found));
    let title = |(benchmark, series): (&Benchmark, &Series)| {
        if benchmark.curves() {
            series.title.clone()
        } else {
            format!("{}: {}", benchmark.title, series.title)
        }
    };
    let on = match &number.to {
        Some(to) => format!("{} → {to}", number.on),
        None => number.on.clone(),
    };
    let digits = |value: f64| match kind {
        Kind::Term if number.on == "none" => words::fixed(value, 2),
        Kind::Term | Kind::Change => words::signed(value, 2),
        Kind::Percent | Kind::Error | Kind::TermError => words::fixed(value, 2),
        Kind::Factor => crate::plot::times(value),
        Kind::Rate if value >= 1e6 => format!("{}M", words::short(value / 1e6)),
        _ => words::short(value),
    };
    let unit = number.unit.as_deref().map_or_else(String::new, |unit| format!(" {unit}"));
    let shown = match number.high {
        Some(high) if kind == Kind::Rate && number.value <= 0.0 => {
            format!("≤ {}{unit}", digits(high))
        }
        Some(high) => format!("{} … {}{unit}", digits(number.value), digits(high)),
        None => format!("{}{unit}", digits(number.value)),
    };
    Pair {
        at: number.at.clone(),
        what: found.map_or_else(|| number.at.replace('/', ": "), title),
        on,
        published: shown,
        measured: value.map(digits),
        ratio: value.filter(|_| !base(kind, number)).and_then(|value| ratio(value, number)),
    }
}

/// Whether a number is the base that others are in percent of.
fn base(kind: Kind, number: &Number) -> bool {
    matches!(kind, Kind::Percent | Kind::Term) && number.on == "none"
}

/// Measured by published. Numbers of different signs have no ratio.
fn ratio(value: f64, number: &Number) -> Option<f64> {
    let (low, high) = (number.value, number.high.unwrap_or(number.value));
    if (low..=high).contains(&value) {
        return Some(1.0);
    }
    let nearer = if value < low { low } else { high };
    let ratio = value / nearer;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

fn value(
    measured: &Measured,
    kind: Kind,
    number: &Number,
    (benchmark, series): (&Benchmark, &Series),
) -> Option<f64> {
    // The curves turn their switches themselves: whatever else was on.
    let turned = series.spent.keys().next().copied().filter(|_| benchmark.curves());
    let on = turned.or_else(|| measured.combination(&number.on))?;
    let cells = &series.cells;
    let spent = series.spent.get(&on);
    match kind {
        // A smaller run is taken as that part of a full one.
        Kind::Seconds => spent.map(|spent| spent.elapsed / benchmark.share),
        Kind::Each => series.each(on).map(|seconds| seconds * 1e6),
        Kind::Percent => cells.percent(on),
        Kind::Error => cells.error_percent(on),
        Kind::Factor => {
            let to = measured.combination(number.to.as_deref()?)?;
            Some(cells.mean(on)? / cells.mean(to).filter(|mean| *mean > 0.0)?)
        }
        Kind::Change => {
            let to = measured.combination(number.to.as_deref()?)?;
            Some((cells.mean(to)? / cells.mean(on).filter(|mean| *mean > 0.0)? - 1.0) * 100.0)
        }
        Kind::Term => Some(Model::fit(cells)?.term(on)?.value),
        Kind::TermError => Model::fit(cells)?.term(on)?.error,
        Kind::Rate => series.each(on).filter(|each| *each > 0.0).map(|each| 1.0 / each),
        Kind::NameCache => {
            let spent = spent?;
            let hits = spent.counter("cache_numposhits") + spent.counter("cache_numneghits");
            let all = hits + spent.counter("cache_nummiss") + spent.counter("cache_nummisszap");
            (all > 0.0).then(|| hits / all * 100.0)
        }
        Kind::Processor => spent.filter(|s| s.time > 0.0).map(|s| s.cpu / s.time * 100.0),
    }
}

/// A row of Figure 10: the options that are told from noise, published and reproduced.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The benchmark.
    pub group: String,
    /// The result.
    pub what: String,
    /// As published.
    pub published: Vec<String>,
    /// As measured; `None` where it was not run.
    pub measured: Option<Vec<String>>,
}

impl Listed {
    /// Whether both have the same options in the same order.
    #[must_use]
    pub fn same(&self) -> bool {
        self.measured.as_ref() == Some(&self.published)
    }

    /// Whether both have the same options.
    #[must_use]
    pub fn same_set(&self) -> bool {
        let sorted = |list: &[String]| {
            let mut list = list.to_vec();
            list.sort();
            list
        };
        self.measured.as_ref().is_some_and(|mine| sorted(mine) == sorted(&self.published))
    }
}

/// Compares the lists of options of Figure 10.
#[must_use]
pub fn lists(measured: &Measured, published: &Published) -> Vec<Listed> {
    let row = |(list, (words, metric), row): (&super::published::List, (&str, &str), &_)| {
        let row: &super::published::Row = row;
        let found = measured.series(words, metric);
        let path = found.and_then(|(_, series)| SummaryPath::of(&series.cells));
        let names = |path: SummaryPath| names(&path, &measured.short);
        Listed {
            group: list.group.clone(),
            what: found.map_or_else(|| metric.to_owned(), |(_, series)| series.title.clone()),
            published: row.options.clone(),
            measured: path.map(names),
        }
    };
    published.rows().map(row).collect()
}

/// The options a path names, in order.
pub(super) fn names(path: &SummaryPath, short: &[String]) -> Vec<String> {
    path.named().into_iter().filter_map(|factor| short.get(factor).cloned()).collect()
}

/// How a ratio is to be looked at.
#[must_use]
pub fn near(ratio: f64) -> &'static str {
    match ratio.max(1.0 / ratio) {
        r if r <= 1.3 => "near",
        r if r <= 2.0 => "off",
        _ => "far",
    }
}

/// The gain of one combination over another.
pub(super) fn factor(series: &Series, from: Combination, to: Combination) -> Option<f64> {
    Some(series.cells.mean(from)? / series.cells.mean(to).filter(|mean| *mean > 0.0)?)
}
