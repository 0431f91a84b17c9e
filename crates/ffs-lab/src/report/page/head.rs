//! The top of the page: the heading, an introduction, and the most important numbers.

use super::super::criteria::Verdict;
use super::super::reproduction::{self, ComparedNumber};
use super::super::score::{FACTORS, Score, Tally, is_within};
use super::super::study_data::{Benchmark, ResultSeries, StudyData};
use super::super::{Report, alike, format};
use crate::plot::times;
use crate::statistics::Cells;
use crate::study::Factor;
use crate::workload::MetricKind;

pub(super) struct Tile {
    pub(super) value: String,
    pub(super) words: String,
}

/// A list of names in a sentence: `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [front @ .., last] => format!("{} and {last}", front.join(", ")),
    }
}

/// The counts of one kind of published numbers, as parts of a strip.
pub(super) struct NearStrip {
    pub(super) title: String,
    pub(super) parts: Vec<NearPart>,
}

pub(super) struct NearPart {
    pub(super) n: usize,
    pub(super) words: String,
    pub(super) class: &'static str,
}

/// How near the predicted numbers are, for each kind that was run at full size.
pub(super) fn near(report: &Report) -> Vec<NearStrip> {
    let strip = |score: &Score| {
        let Tally { within, other_sign, all } = score.predicted;
        let classes = ["n0", "n1", "n2", "n3"];
        let (mut before, mut from) = (0, None);
        let mut parts = Vec::new();
        for ((count, factor), class) in within.into_iter().zip(FACTORS).zip(classes) {
            let words = match from {
                None => format!("≤ ×{factor}"),
                Some(from) => format!("×{from} to {factor}"),
            };
            from = Some(factor);
            parts.push(NearPart { n: count.saturating_sub(before), words, class });
            before = count;
        }
        let far = all.saturating_sub(before + other_sign);
        parts.push(NearPart { n: far, words: "farther".to_owned(), class: "n4" });
        let words = "0 or other sign".to_owned();
        parts.push(NearPart { n: other_sign, words, class: "n5" });
        parts.retain(|part| part.n > 0);
        NearStrip { title: format!("{}: {all} predicted", score.group), parts }
    };
    report.scores.iter().filter(|score| score.predicted.all > 0).map(strip).collect()
}

/// How near the reproduction is, in a sentence. Empty if no number can be compared.
pub(super) fn near_words(report: &Report) -> String {
    let sum = |of: fn(&Score) -> usize| report.scores.iter().map(of).sum::<usize>();
    let (all, within) = (sum(|s| s.predicted.all), sum(|s| s.predicted.within[1]));
    let ratios = report.compared.iter().flat_map(|section| &section.rows);
    let ratios: Vec<f64> = ratios.filter_map(ComparedNumber::ratio).collect();
    if ratios.is_empty() {
        return String::new();
    }
    if all == 0 {
        let near = ratios.iter().filter(|ratio| is_within(**ratio, FACTORS[1])).count();
        return format!(
            "No published measurement was run at full size, so none counts. Of {} numbers of \
             smaller runs, {near} are within a factor of 1.3 of the published ones.",
            ratios.len()
        );
    }
    format!(
        "Of {all} published numbers that were run at full size and not calibrated, {within} are \
         within a factor of 1.3, in both directions. A strip shows each kind by its distance: \
         effects are readings of sentences about several tests, and the NetBSD mail is of other \
         hardware."
    )
}

pub(super) fn heading(measured: &StudyData) -> String {
    if measured.plan.factors == Factor::paper() {
        let question = "How much do soft updates, dirpref, vmiodir and dirhash gain, alone and \
                        together?";
        return question.to_owned();
    }
    match measured.factor_names().as_slice() {
        [] => "Benchmark results".to_owned(),
        [one] => format!("The effect of {one}"),
        names => format!("The effects of {}, alone and together", listed(names)),
    }
}

/// An introduction: the benchmarks, the combinations and the target.
pub(super) fn about(measured: &StudyData) -> String {
    let plan = &measured.plan;
    let curves = measured.benchmarks.iter().filter(|b| b.curves()).count();
    let benchmarks = format::plural(measured.benchmarks.len() - curves, "benchmark");
    let curves = match curves {
        0 => "",
        _ => ", and the cost curves of the paper's Figures 2 to 6 under one of them",
    };
    let under = match measured.design.combinations().len() {
        1 => "with its default options".to_owned(),
        n => format!("under all {n} combinations of the options"),
    };
    let each = format::plural(plan.replicates as usize, "run");
    let on = match plan.target.split(':').next() {
        Some("sim") => "a simulated computer of 2002 in virtual time",
        _ => "this computer",
    };
    let paper = if plan.factors == Factor::paper() {
        " The report compares them with the numbers measured in 2002 with FreeBSD on a real \
         computer."
    } else {
        ""
    };
    format!("{benchmarks} on ffs {under}{curves}, {each} of each, on {on}.{paper}")
}

/// The results that are times or rates, with their benchmarks. Of results with the same gains, as
/// the rates of one loop have them, the first counts.
fn results(measured: &StudyData) -> impl Iterator<Item = (&Benchmark, &ResultSeries)> {
    let benchmarks = measured.benchmarks.iter().filter(|benchmark| !benchmark.curves());
    let distinct = |b: &Benchmark| {
        let represented = alike::representatives(b).into_iter().enumerate();
        represented.filter(|(own, by)| own == by).map(|(own, _)| own).collect::<Vec<usize>>()
    };
    let all = benchmarks.flat_map(move |b| {
        distinct(b).into_iter().filter_map(move |own| Some((b, b.series.get(own)?)))
    });
    all.filter(|(_, series)| series.kind != MetricKind::CpuPercent)
}

pub(super) fn lead(measured: &StudyData) -> String {
    let gain = |cells: &Cells| cells.gain(cells.summary_end()?);
    let gains = results(measured).filter_map(|(b, s)| Some((gain(&s.cells)?, b, s)));
    let mut gains: Vec<(f64, &Benchmark, &ResultSeries)> = gains.collect();
    gains.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (Some(best), Some(worst)) = (gains.first(), gains.last()) else {
        return "There is no result yet that can be compared with one without options.".to_owned();
    };
    let (low, high) = (gains[gains.len().div_ceil(2) - 1].0, gains[gains.len() / 2].0);
    let middle = (low * high).sqrt();
    let name = |(_, b, s): &(f64, &Benchmark, &ResultSeries)| format!("{}, {}", b.title, s.title);
    let what = format::plural(gains.len(), "distinct result");
    let with = match measured.design.is_two_level() {
        true => "With all options on",
        false => "With the best combination of levels for each",
    };
    format!(
        "{with}, the median improvement of {what} is {}: from {} ({}) to {} ({}).",
        times(middle),
        times(worst.0),
        name(worst),
        times(best.0),
        name(best)
    )
}

pub(super) fn tiles(report: &Report) -> Vec<Tile> {
    let tile = |value: String, words: &str| Tile { value, words: words.to_owned() };
    let of = |verdict| report.targets.iter().filter(|t| t.verdict == verdict).count();
    let judged = of(Verdict::Satisfied) + of(Verdict::Missed);
    let lists = reproduction::lists(&report.measured, &report.published);
    let run = lists.iter().filter(|list| list.measured.is_some()).count();
    let same = lists.iter().filter(|list| list.same_set()).count();
    let (done, planned) = report.measured.jobs;
    let mut tiles = vec![tile(format!("{done} of {planned}"), "runs are in this report")];
    if judged > 0 {
        tiles.push(tile(
            format!("{} of {judged}", of(Verdict::Satisfied)),
            &match of(Verdict::NotRun) {
                0 => "targets of a reproduction met".to_owned(),
                left => format!("targets of a reproduction met; {left} not run"),
            },
        ));
    }
    if run > 0 {
        tiles.push(tile(format!("{same} of {run}"), "rows of Figure 10 with the same options"));
    }
    tiles
}

pub(super) fn incomplete(measured: &StudyData) -> String {
    let (done, planned) = measured.jobs;
    if done >= planned {
        return String::new();
    }
    let missing = measured.benchmarks.iter().filter(|b| b.jobs.0 < b.jobs.1);
    let words: Vec<String> =
        missing.map(|b| format!("{} {} of {}", b.title, b.jobs.0, b.jobs.1)).collect();
    format!(
        "The study is not complete: {}. The report leaves out missing results.",
        words.join(", ")
    )
}
