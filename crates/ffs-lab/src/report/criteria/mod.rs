//! The targets of a reproduction of the paper, their verdicts, and the reasons for misses.
//!
//! The counters of the same runs explain a miss. No constant is tuned to meet a target.

mod checks;

use std::collections::BTreeSet;

use super::published::{NumberKind, Published};
use super::reproduction::{Agreement, ComparedNumber, ComparedSection, factor};
use super::study_data::{Benchmark, ResultSeries, StudyData};
use super::{explain, format};
use crate::plot::times;
use crate::statistics::{Combination, Model, StepwisePath, Term};

/// A smaller value is printed as 0. Percent.
const PRINTED: f64 = 0.005;

/// The caution before the targets: the workloads that are smaller than in the paper, and the value
/// that was fitted to its results.
#[must_use]
pub(super) fn caution(measured: &StudyData) -> Option<String> {
    let mut small: Vec<(f64, Vec<&str>)> = Vec::new();
    let ran = |b: &&Benchmark| !b.series.is_empty() && !b.is_full();
    for benchmark in measured.benchmarks.iter().filter(ran) {
        match small.iter_mut().find(|(share, _)| (share - benchmark.share).abs() < 1e-9) {
            Some((_, titles)) => titles.push(&benchmark.title),
            None => small.push((benchmark.share, vec![&benchmark.title])),
        }
    }
    let mut sentences = Vec::new();
    if !small.is_empty() {
        let one = |(share, titles): &(f64, Vec<&str>)| {
            format!("{} at {}", titles.join(", "), format::short(*share))
        };
        let all: Vec<String> = small.iter().map(one).collect();
        sentences.push(format!(
            "Smaller than in the paper, where 1 is the full size: {}. \
             At full size the verdicts may differ.",
            all.join("; ")
        ));
    }
    if measured.named("buildworld").any(|b| !b.series.is_empty()) {
        sentences.push(format!(
            "The processor time of Buildworld ({} s at full size) is fitted to the row of \
             Table 1 with all options on; the other fifteen rows are not fitted.",
            crate::workload::BUILD_PROCESSOR.as_secs()
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Whether a target is satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is satisfied.
    Satisfied,
    /// A part of it is missed.
    Missed,
    /// Its workloads were not run, or not all of them, and no part that ran is missed.
    NotRun,
}

/// A target and its verdict.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Criterion {
    /// The benchmark or other subject.
    pub(crate) group: String,
    /// The target, for people.
    pub(crate) wanted: String,
    /// The measured values, for people.
    pub(crate) found: String,
    /// Whether it is satisfied.
    pub(crate) verdict: Verdict,
    /// The counters behind a miss.
    pub(crate) why: Vec<String>,
}

impl Criterion {
    fn new(group: &str, wanted: &str, parts: Vec<Check>) -> Criterion {
        // A missed part decides, even if other parts were not run.
        let verdict = if parts.iter().any(|part| part.satisfied == Some(false)) {
            Verdict::Missed
        } else if parts.is_empty() || parts.iter().any(|part| part.satisfied.is_none()) {
            Verdict::NotRun
        } else {
            Verdict::Satisfied
        };
        let found: Vec<String> = parts.iter().map(|part| part.found.clone()).collect();
        let missed = parts.into_iter().filter(|part| part.satisfied == Some(false));
        let mut why: Vec<String> = missed.flat_map(|part| part.why).collect();
        let mut seen = BTreeSet::new();
        why.retain(|line| seen.insert(line.clone()));
        let (group, wanted) = (group.to_owned(), wanted.to_owned());
        Criterion { group, wanted, found: found.join("; "), verdict, why }
    }
}

/// A part of a target.
struct Check {
    /// The measured value. `satisfied` is `None` if there is none.
    found: String,
    satisfied: Option<bool>,
    why: Vec<String>,
}

impl Check {
    fn missing(name: &str) -> Check {
        Check { found: format!("{name}: not run"), satisfied: None, why: Vec::new() }
    }

    fn plain(found: String, satisfied: bool) -> Check {
        Check { found, satisfied: Some(satisfied), why: Vec::new() }
    }

    fn because(self, why: Vec<String>) -> Check {
        Check { why, ..self }
    }
}

/// The data on which the targets are judged.
struct Evaluation<'a> {
    measured: &'a StudyData,
    published: &'a Published,
    compared: &'a [ComparedSection],
}

/// All targets.
#[must_use]
pub(super) fn all(
    measured: &StudyData,
    published: &Published,
    compared: &[ComparedSection],
) -> Vec<Criterion> {
    let look = Evaluation { measured, published, compared };
    let mut all = vec![look.absolute_times()];
    all.extend(look.mh());
    all.extend(look.x11());
    all.extend(look.buildworld());
    all.extend(look.andrew());
    all.push(look.bonnie());
    all.extend(look.postmark());
    all.extend(look.figures());
    all.push(look.statistics());
    all
}

impl Evaluation<'_> {
    fn at(&self, name: &str) -> Option<Combination> {
        self.measured.combination(name)
    }

    fn series(&self, words: &str, metric: &str) -> Option<&ResultSeries> {
        self.measured.series(words, metric).map(|(_, series)| series)
    }

    fn explained(&self, series: &ResultSeries, at: &[&str]) -> Vec<String> {
        let short = &self.measured.short;
        let sentence = |name: &&str| explain::sentence(series, self.at(name)?, short);
        at.iter().filter_map(sentence).map(|text| format!("{}, {text}", series.title)).collect()
    }

    /// The counters of a point of a cost curve. A curve sets its own mount options.
    fn explained_point(&self, figure: u8, name: &str, entries: f64) -> Vec<String> {
        let series = self.series("micro", &format!("fig{figure}/{name}/{entries}"));
        let point = series.zip(self.measured.curve_combination());
        let short = &self.measured.short;
        let text = point
            .and_then(|(s, at)| Some(format!("{}, {}", s.title, explain::sentence(s, at, short)?)));
        text.into_iter().collect()
    }

    /// Checks that a term is significant and positive.
    fn positive(&self, (words, name): (&str, &str), metric: &str, options: &str) -> Check {
        let series = self.series(words, metric);
        let Some((series, term)) = series.zip(self.term(series, options)) else {
            return Check::missing(name);
        };
        let satisfied = term.is_significant && term.value > PRINTED;
        let alone = std::iter::once("none").chain(options.split('+')).chain([options]);
        let counted = self.explained(series, &alone.collect::<Vec<&str>>());
        Check::plain(format!("{name} {}", percent(&term)), satisfied).because(counted)
    }

    /// Checks the gain from one combination to another with `wanted`.
    fn gain(
        &self,
        (words, metric): (&str, &str),
        (from, to): (&str, &str),
        wanted: impl Fn(f64) -> bool,
    ) -> Check {
        let found = self
            .series(words, metric)
            .and_then(|series| Some((series, factor(series, self.at(from)?, self.at(to)?)?)));
        let Some((series, gain)) = found else { return Check::missing(metric) };
        Check {
            found: format!("{} {from} → {to} {}", series.title, times(gain)),
            satisfied: Some(wanted(gain)),
            why: self.explained(series, &[from, to]),
        }
    }

    /// Checks that the ratios to the published numbers of a kind are within `factor`.
    fn within(&self, kind: NumberKind, start: &str, factor: (f64, f64)) -> Vec<Check> {
        let sections = self.published.sections.iter().zip(self.compared);
        let numbers = sections
            .filter(|(section, _)| section.kind == kind)
            .flat_map(|(_, compared)| &compared.rows)
            .filter(|pair| pair.at.starts_with(start));
        numbers.map(|pair| self.near(pair, factor)).collect()
    }

    /// Checks that the ratio of a number is within `factor`.
    fn near(&self, pair: &ComparedNumber, factor: (f64, f64)) -> Check {
        let metric = pair.at.rsplit_once('/').map_or("", |(_, metric)| metric);
        let curve = pair.at.strip_prefix("micro/");
        let name = format!("{} {}", curve.unwrap_or(metric), pair.on);
        let (found, satisfied) = match (pair.agreement, pair.ratio()) {
            (_, Some(ratio)) => (
                format!("{name} ×{}", format::fixed(ratio, 2)),
                (factor.0..=factor.1).contains(&ratio),
            ),
            (Agreement::OtherSign, None) => (format!("{name}: 0 or other sign"), false),
            _ => return Check::missing(&name),
        };
        let series = pair.at.split_once('/').and_then(|(words, metric)| self.series(words, metric));
        let ends: Vec<&str> = pair.on.split(" → ").collect();
        let why = series.map_or_else(Vec::new, |series| self.explained(series, &ends));
        Check::plain(found, satisfied).because(why)
    }

    fn term(&self, series: Option<&ResultSeries>, options: &str) -> Option<Term> {
        Model::fit(&series?.cells)?.term(self.at(options)?).copied()
    }

    /// Whether an option is a significant step of a result's path.
    fn named(&self, series: &ResultSeries, option: &str) -> Option<bool> {
        let factor = self.measured.short.iter().position(|name| name == option)?;
        Some(StepwisePath::of(&series.cells)?.significant().contains(&factor))
    }
}

/// A term's value and its p value.
fn percent(term: &Term) -> String {
    let untested = || " (one run: no test, the limit is 1 %)".to_owned();
    let chance = term.p_value.map_or_else(untested, |p| format!(", p {}", format::chance(p)));
    format!("{} %{chance}", format::signed(term.value, 2))
}
