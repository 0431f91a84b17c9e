//! The top of the page: the heading, an introduction, and the most important numbers.

use super::super::criteria::Verdict;
use super::super::reproduction;
use super::super::score::Tally;
use super::super::study_data::{Benchmark, ResultSeries, StudyData};
use super::super::{Report, format};
use crate::plot::times;
use crate::statistics::Combination;
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

pub(super) fn heading(measured: &StudyData) -> String {
    match measured.long.as_slice() {
        [] => "Benchmark results".to_owned(),
        [one] => format!("The effect of {one}"),
        names => format!("The effects of {}, alone and together", listed(names)),
    }
}

/// An introduction: the benchmarks, the combinations and the target.
pub(super) fn about(measured: &StudyData) -> String {
    let plan = &measured.plan;
    let benchmarks = format::plural(measured.benchmarks.len(), "benchmark");
    let under = match plan.combinations() {
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
    format!("{benchmarks} on ffs {under}, {each} of each, on {on}.{paper}")
}

/// The results that are times or rates, with their benchmarks.
fn results(measured: &StudyData) -> impl Iterator<Item = (&Benchmark, &ResultSeries)> {
    let benchmarks = measured.benchmarks.iter().filter(|benchmark| !benchmark.curves());
    let all = benchmarks.flat_map(|b| b.series.iter().map(move |series| (b, series)));
    all.filter(|(_, series)| series.kind != MetricKind::CpuPercent)
}

pub(super) fn lead(measured: &StudyData) -> String {
    let all = Combination::all(measured.short.len());
    let gains = results(measured).filter_map(|(b, s)| Some((s.cells.gain(all)?, b, s)));
    let mut gains: Vec<(f64, &Benchmark, &ResultSeries)> = gains.collect();
    gains.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (Some(best), Some(worst)) = (gains.first(), gains.last()) else {
        return "There is no result yet that can be compared with one without options.".to_owned();
    };
    let middle = gains[gains.len() / 2].0;
    let name = |(_, b, s): &(f64, &Benchmark, &ResultSeries)| format!("{}, {}", b.title, s.title);
    let what = format::plural(gains.len(), "result");
    format!(
        "With all options on, the median improvement of {what} is {}: from {} ({}) to {} ({}).",
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
    for score in report.scores.iter().filter(|score| score.predicted.all > 0) {
        let Tally { all, within, .. } = score.predicted;
        tiles.push(tile(
            format!("{} of {all}", within[1]),
            &format!("predicted {} within a factor of 1.3", score.group),
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
