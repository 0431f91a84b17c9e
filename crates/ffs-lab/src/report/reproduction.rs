//! The published numbers, the measured ones, and their ratios.

use super::format;
use super::published::{NumberKind, Published, PublishedNumber, PublishedSection};
use super::study_data::{Benchmark, ResultSeries, StudyData};
use crate::statistics::{Combination, Model, PathStep, StepwisePath};

/// A section of compared numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ComparedSection {
    /// The title of the section.
    pub(crate) title: String,
    /// The source.
    pub(crate) source: String,
    /// The kind of its numbers if they are counted; `None` if they follow from others.
    pub(crate) count: Option<String>,
    /// The numbers.
    pub(crate) rows: Vec<ComparedNumber>,
}

/// How near a measured number is to the published one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) enum Agreement {
    /// It was not measured.
    #[default]
    NotRun,
    /// It was measured at a smaller size than the published one: the ratio, if there is one.
    Smaller(Option<f64>),
    /// It is the base of a percentage, which is 100 in every study.
    Base,
    /// Measured divided by published. For a range, divided by its nearer end, and 1 inside it.
    Ratio(f64),
    /// Measured as 0, or with the other sign.
    OtherSign,
    /// The published number is a bound. Whether it is met.
    Bound(bool),
}

/// A number, published and reproduced.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ComparedNumber {
    /// Workload and metric, in the syntax of a plan.
    pub(crate) at: String,
    /// The benchmark and its result.
    pub(crate) what: String,
    /// The options that are on; for a change, before and after.
    pub(crate) on: String,
    /// As published.
    pub(crate) published: String,
    /// As measured; `None` where it was not run.
    pub(crate) measured: Option<String>,
    /// The published number: its low end, and its high end if it is a range.
    pub(crate) range: (f64, Option<f64>),
    /// The measured number.
    pub(crate) value: Option<f64>,
    /// How near it is.
    pub(crate) agreement: Agreement,
    /// The machine was calibrated with it.
    pub(crate) calibrated: bool,
    /// It follows from another number of the file and is not counted.
    pub(crate) follows: bool,
}

impl ComparedNumber {
    /// Measured divided by published, at any size.
    pub(crate) fn ratio(&self) -> Option<f64> {
        match self.agreement {
            Agreement::Ratio(ratio) => Some(ratio),
            Agreement::Smaller(ratio) => ratio,
            _ => None,
        }
    }
}

/// Compares all sections.
#[must_use]
pub(super) fn all(measured: &StudyData, published: &Published) -> Vec<ComparedSection> {
    let section = |section: &PublishedSection| ComparedSection {
        title: section.title.clone(),
        source: section.source.clone(),
        count: section.count.clone(),
        rows: section.rows.iter().map(|number| pair(measured, section.kind, number)).collect(),
    };
    published.sections.iter().map(section).collect()
}

fn pair(measured: &StudyData, kind: NumberKind, number: &PublishedNumber) -> ComparedNumber {
    let (words, metric) = number.at.split_once('/').unwrap_or((&number.at, ""));
    let found = measured.series(words, metric);
    let value = found.and_then(|found| value(measured, kind, number, found));
    let title = |(benchmark, series): (&Benchmark, &ResultSeries)| {
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
        NumberKind::Term if number.on == "none" => format::fixed(value, 2),
        NumberKind::Term | NumberKind::Change => format::signed(value, 2),
        NumberKind::Percent | NumberKind::Error | NumberKind::TermError => format::fixed(value, 2),
        NumberKind::Factor => crate::plot::times(value),
        NumberKind::Rate if value >= 1e6 => format!("{}M", format::short(value / 1e6)),
        _ => format::short(value),
    };
    let unit = number.unit.as_deref().map_or_else(String::new, |unit| format!(" {unit}"));
    let shown = match number.high {
        Some(high) if is_bound(kind, number) => {
            format!("≤ {}{unit}", digits(high))
        }
        Some(high) => format!("{} … {}{unit}", digits(number.value), digits(high)),
        None => format!("{}{unit}", digits(number.value)),
    };
    ComparedNumber {
        at: number.at.clone(),
        what: found.map_or_else(|| number.at.replace('/', ": "), title),
        on,
        published: shown,
        measured: value.map(digits),
        range: (number.value, number.high),
        value,
        agreement: agreement(
            kind,
            number,
            value,
            found.is_none_or(|(benchmark, _)| benchmark.is_full()),
        ),
        calibrated: number.calibrated,
        follows: number.follows,
    }
}

fn agreement(
    kind: NumberKind,
    number: &PublishedNumber,
    value: Option<f64>,
    full: bool,
) -> Agreement {
    let Some(value) = value else { return Agreement::NotRun };
    let found = ratio(value, number);
    match number.high {
        _ if base(kind, number) => Agreement::Base,
        Some(high) if full && is_bound(kind, number) => Agreement::Bound(value <= high),
        _ if is_bound(kind, number) => Agreement::Smaller(None),
        _ if !full => Agreement::Smaller(found),
        _ => found.map_or(Agreement::OtherSign, Agreement::Ratio),
    }
}

/// Whether a number is only an upper bound.
fn is_bound(kind: NumberKind, number: &PublishedNumber) -> bool {
    kind == NumberKind::Rate && number.value <= 0.0 && number.high.is_some()
}

/// Whether a number is the base of the percentages.
fn base(kind: NumberKind, number: &PublishedNumber) -> bool {
    matches!(kind, NumberKind::Percent | NumberKind::Term) && number.on == "none"
}

/// Measured divided by published. Numbers of different signs have no ratio.
fn ratio(value: f64, number: &PublishedNumber) -> Option<f64> {
    let (low, high) = (number.value, number.high.unwrap_or(number.value));
    if (low..=high).contains(&value) {
        return Some(1.0);
    }
    let nearer = if value < low { low } else { high };
    let ratio = value / nearer;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

fn value(
    measured: &StudyData,
    kind: NumberKind,
    number: &PublishedNumber,
    (benchmark, series): (&Benchmark, &ResultSeries),
) -> Option<f64> {
    let on = measured.combination(&number.on)?;
    let cells = &series.cells;
    let spent = series.spent.get(&on);
    match kind {
        // Seconds of a smaller run are divided by its share of the full size.
        NumberKind::Seconds => spent.map(|spent| spent.elapsed / benchmark.share),
        NumberKind::Each => series.each(on).map(|seconds| seconds * 1e6),
        NumberKind::Percent => cells.percent(on),
        NumberKind::Error => cells.error_percent(on),
        NumberKind::Factor => {
            let to = measured.combination(number.to.as_deref()?)?;
            Some(cells.mean(on)? / cells.mean(to).filter(|mean| *mean > 0.0)?)
        }
        NumberKind::Change => {
            let to = measured.combination(number.to.as_deref()?)?;
            Some((cells.mean(to)? / cells.mean(on).filter(|mean| *mean > 0.0)? - 1.0) * 100.0)
        }
        NumberKind::Term => Some(Model::fit(cells)?.term(on)?.value),
        NumberKind::TermError => Model::fit(cells)?.term(on)?.error,
        NumberKind::Rate => series.each(on).filter(|each| *each > 0.0).map(|each| 1.0 / each),
        NumberKind::NameCache => spent?.lookup_shares().name_cache,
        NumberKind::Search => spent?.lookup_shares().search,
        NumberKind::Processor => spent?.lookup_shares().processor,
    }
}

/// A row of Figure 10: the significant options, published and measured.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ComparedOptions {
    /// The benchmark.
    pub(crate) group: String,
    /// The result.
    pub(crate) what: String,
    /// As published.
    pub(crate) published: Vec<String>,
    /// As measured; `None` where it was not run.
    pub(crate) measured: Option<Vec<String>>,
}

impl ComparedOptions {
    /// Whether both have the same options in the same order.
    #[must_use]
    pub(super) fn same(&self) -> bool {
        self.measured.as_ref() == Some(&self.published)
    }

    /// Whether both have the same options.
    #[must_use]
    pub(super) fn same_set(&self) -> bool {
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
pub(super) fn lists(measured: &StudyData, published: &Published) -> Vec<ComparedOptions> {
    let row = |(list, (words, metric), row): (&super::published::OptionList, (&str, &str), &_)| {
        let row: &super::published::OptionRow = row;
        let found = measured.series(words, metric);
        let path = found.and_then(|(_, series)| StepwisePath::of(&series.cells));
        let names = |path: StepwisePath| names(&path, &measured.short);
        ComparedOptions {
            group: list.group.clone(),
            what: found.map_or_else(|| metric.to_owned(), |(_, series)| series.title.clone()),
            published: row.options.clone(),
            measured: path.map(names),
        }
    };
    published.rows().map(row).collect()
}

/// The significant options of a path, in order; a loss has a minus behind it.
pub(super) fn names(path: &StepwisePath, short: &[String]) -> Vec<String> {
    let name = |step: &PathStep| {
        let sign = if step.gain < 1.0 { "−" } else { "" };
        Some(format!("{}{sign}", short.get(step.factor)?))
    };
    path.steps.iter().filter(|step| step.is_significant).filter_map(name).collect()
}

/// The class of a ratio in the page.
#[must_use]
pub(super) fn near(ratio: f64) -> &'static str {
    match ratio.max(1.0 / ratio) {
        r if r <= 1.3 => "near",
        r if r <= 2.0 => "off",
        _ => "far",
    }
}

/// The gain of one combination over another.
pub(super) fn factor(series: &ResultSeries, from: Combination, to: Combination) -> Option<f64> {
    Some(series.cells.mean(from)? / series.cells.mean(to).filter(|mean| *mean > 0.0)?)
}
