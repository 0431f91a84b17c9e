//! What a reproduction of the paper has to reach, whether it does, and by which mechanism it misses.
//!
//! A miss is explained by what was counted, and never tuned away.

mod checks;

use std::collections::BTreeSet;

use super::published::{NumberKind, Published};
use super::reproduction::{self, factor};
use super::study_data::{Benchmark, ResultSeries, StudyData};
use super::{explain, format, mechanism};
use crate::plot::times;
use crate::statistics::{Combination, Model, StepwisePath, Term};

/// What is less than this is printed as nothing, percent.
const PRINTED: f64 = 0.005;

/// A run this near to the published size is one of that size.
const FULL: f64 = 0.99;

/// What has to be known before targets are read: which workloads are smaller than the paper's, and what
/// was taken from its results.
#[must_use]
pub(super) fn caution(measured: &StudyData) -> Option<String> {
    let mut small: Vec<(f64, Vec<&str>)> = Vec::new();
    let ran = |b: &&Benchmark| !b.series.is_empty() && b.share < FULL;
    for benchmark in measured.benchmarks.iter().filter(ran) {
        match small.iter_mut().find(|(share, _)| (share - benchmark.share).abs() < 1e-9) {
            Some((_, titles)) => titles.push(&benchmark.title),
            None => small.push((benchmark.share, vec![&benchmark.title])),
        }
    }
    let mut said = Vec::new();
    if !small.is_empty() {
        let one = |(share, titles): &(f64, Vec<&str>)| {
            format!("{} at {}", titles.join(", "), format::short(*share))
        };
        let all: Vec<String> = small.iter().map(one).collect();
        said.push(format!(
            "Smaller than the paper's (1 is its size): {}. \
             What is missed there may be met at full size, and the reverse.",
            all.join("; ")
        ));
    }
    if measured.named("buildworld").any(|b| !b.series.is_empty()) {
        said.push(
            "Buildworld's processor time (1950 s at full size) was set by the row of Table 1 with all \
             options on; the other rows have to follow."
                .to_owned(),
        );
    }
    (!said.is_empty()).then(|| said.join(" "))
}

/// Whether a target is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Met,
    /// It is not.
    Missed,
    /// What it is about was not run, or not completely, and nothing of it is missed.
    NotRun,
}

/// Something to reach.
#[derive(Debug, Clone, PartialEq)]
pub struct Criterion {
    /// The benchmark, or what else it is about.
    pub group: String,
    /// What is to be reached.
    pub wanted: String,
    /// What was found.
    pub found: String,
    /// Whether it is reached.
    pub verdict: Verdict,
    /// Where it is missed: what was counted.
    pub why: Vec<String>,
}

impl Criterion {
    fn new(group: &str, wanted: &str, parts: Vec<Check>) -> Criterion {
        // What failed stays failed, whatever else is still to be run.
        let verdict = if parts.iter().any(|part| part.met == Some(false)) {
            Verdict::Missed
        } else if parts.is_empty() || parts.iter().any(|part| part.met.is_none()) {
            Verdict::NotRun
        } else {
            Verdict::Met
        };
        let found: Vec<String> = parts.iter().map(|part| part.found.clone()).collect();
        let missed = parts.into_iter().filter(|part| part.met == Some(false));
        let mut why: Vec<String> = missed.flat_map(|part| part.why).collect();
        let mut seen = BTreeSet::new();
        why.retain(|line| seen.insert(line.clone()));
        let (group, wanted) = (group.to_owned(), wanted.to_owned());
        Criterion { group, wanted, found: found.join("; "), verdict, why }
    }
}

/// A part of a target.
struct Check {
    /// What was found; `met` is `None` where nothing was.
    found: String,
    met: Option<bool>,
    why: Vec<String>,
}

impl Check {
    fn missing(what: &str) -> Check {
        Check { found: format!("{what}: not run"), met: None, why: Vec::new() }
    }

    fn plain(found: String, met: bool) -> Check {
        Check { found, met: Some(met), why: Vec::new() }
    }

    fn because(self, why: Vec<String>) -> Check {
        Check { why, ..self }
    }
}

/// The options of the paper in a study's numbering.
struct Evaluation<'a> {
    measured: &'a StudyData,
    published: &'a Published,
}

/// All targets.
#[must_use]
pub(super) fn all(measured: &StudyData, published: &Published) -> Vec<Criterion> {
    let look = Evaluation { measured, published };
    let mut all = Vec::new();
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

    /// The mechanism behind a miss, where it is known of the machine of 2002 and the paper's sizes.
    fn known(&self, words: &str, metric: &str, on: &str) -> Vec<String> {
        let full = self.measured.benchmark(words).is_some_and(|b| b.share >= FULL);
        let simulated = self.measured.plan.target.split(':').next() == Some("sim");
        if full && simulated { mechanism::of(words, metric, on) } else { Vec::new() }
    }

    /// A point of a cost curve, which turns its switches itself.
    fn explained_point(&self, figure: u8, name: &str, entries: f64) -> Vec<String> {
        let series = self.series("micro", &format!("fig{figure}/{name}/{entries}"));
        let point = series.and_then(|s| Some((s, *s.spent.keys().next()?)));
        let short = &self.measured.short;
        let text = point
            .and_then(|(s, at)| Some(format!("{}, {}", s.title, explain::sentence(s, at, short)?)));
        text.into_iter().collect()
    }

    /// A term that has to be told from noise, and above nothing.
    fn positive(&self, (words, name): (&str, &str), metric: &str, options: &str) -> Check {
        let series = self.series(words, metric);
        let Some((series, term)) = series.zip(self.term(series, options)) else {
            return Check::missing(name);
        };
        let met = term.is_significant && term.value > PRINTED;
        let alone = std::iter::once("none").chain(options.split('+')).chain([options]);
        let counted = self.explained(series, &alone.collect::<Vec<&str>>());
        Check::plain(format!("{name} {}", percent(&term)), met)
            .because([self.known(words, metric, options), counted].concat())
    }

    /// A gain from some options to others that has to satisfy `wanted`.
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
            met: Some(wanted(gain)),
            why: [
                self.known(words, metric, &format!("{from} → {to}")),
                self.explained(series, &[from, to]),
            ]
            .concat(),
        }
    }

    /// Published numbers of a kind and place that have to be within a factor.
    fn within(&self, kind: NumberKind, start: &str, factor: (f64, f64)) -> Vec<Check> {
        let compared = reproduction::all(self.measured, self.published);
        let sections = self.published.sections.iter().zip(&compared);
        let numbers = sections
            .filter(|(section, _)| section.kind == kind)
            .flat_map(|(_, compared)| &compared.rows)
            .filter(|pair| pair.at.starts_with(start));
        let part = |pair: &reproduction::ComparedNumber| {
            let metric = pair.at.rsplit_once('/').map_or("", |(_, metric)| metric);
            let curve = pair.at.strip_prefix("micro/");
            let name = format!("{} {}", curve.unwrap_or(metric), pair.on);
            let Some(ratio) = pair.ratio else { return Check::missing(&name) };
            let series =
                pair.at.split_once('/').and_then(|(words, metric)| self.series(words, metric));
            let ends: Vec<&str> = pair.on.split(" → ").collect();
            Check {
                found: format!("{name} ×{}", format::fixed(ratio, 2)),
                met: Some((factor.0..=factor.1).contains(&ratio)),
                why: [
                    pair.at
                        .split_once('/')
                        .map_or_else(Vec::new, |(w, m)| self.known(w, m, &pair.on)),
                    series.map_or_else(Vec::new, |series| self.explained(series, &ends)),
                ]
                .concat(),
            }
        };
        numbers.map(part).collect()
    }

    fn term(&self, series: Option<&ResultSeries>, options: &str) -> Option<Term> {
        Model::fit(&series?.cells)?.term(self.at(options)?).copied()
    }

    /// Whether an option is told from noise on the way of a result.
    fn named(&self, series: &ResultSeries, option: &str) -> Option<bool> {
        let factor = self.measured.short.iter().position(|name| name == option)?;
        Some(StepwisePath::of(&series.cells)?.significant().contains(&factor))
    }
}

/// A term's value, and how likely chance alone is.
fn percent(term: &Term) -> String {
    let chance = term.p_value.map_or_else(String::new, |p| format!(", p {}", format::chance(p)));
    format!("{} %{chance}", format::signed(term.value, 2))
}
