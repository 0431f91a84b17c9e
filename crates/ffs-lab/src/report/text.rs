//! The report as text for a terminal, and its tables as CSV.

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Padding, Style};

use super::criteria::Verdict;
use super::score::{self, Score};
use super::study_data::{Benchmark, ResultSeries};
use super::{Report, charts, format, reproduction};
use crate::plot::interaction::{self, LevelAxis};
use crate::plot::svg::csv as lines;
use crate::plot::times;
use crate::statistics::{Combination, Model, RankTable, StepwisePath, hints};
use crate::workload::MetricKind;

/// How much of a report a terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// One line for each result, and the targets.
    Summary,
    /// Also each rank table and model, and the comparison with published numbers.
    Everything,
}

/// A table without rules. The columns in `left` are aligned to the left, others to the right.
fn table(rows: Vec<Vec<String>>, left: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut builder = Builder::default();
    rows.into_iter().for_each(|row| builder.push_record(row));
    let mut table = builder.build();
    table.with(Style::empty()).with(Padding::new(0, 2, 0, 0));
    for column in (0..columns).filter(|column| !left.contains(column)) {
        table.modify(Columns::one(column), Alignment::right());
    }
    let text = table.to_string();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// The report for a terminal.
#[must_use]
pub fn render(report: &Report, much: Detail) -> String {
    let mut out = summary(report);
    if much == Detail::Everything {
        for benchmark in report.measured.benchmarks.iter().filter(|b| !b.curves()) {
            for series in &benchmark.series {
                out.push_str(&result(report, benchmark, series));
            }
        }
        out.push_str(&published(report));
    }
    out.push_str(&scores(report));
    out.push_str(&targets(report));
    out
}

/// How many of the published numbers are reached within which factor.
fn scores(report: &Report) -> String {
    let mut rows: Vec<Vec<String>> =
        report.scores.iter().filter(|score| score.has_numbers()).map(Score::row).collect();
    if rows.is_empty() {
        return String::new();
    }
    rows.insert(0, score::HEADS.map(str::to_owned).to_vec());
    format!("\nPublished measurements, each counted once, at full size\n\n{}", table(rows, &[0]))
}

/// One line for each result.
fn summary(report: &Report) -> String {
    let names = &report.measured.short;
    let end = if report.measured.design.is_two_level() { "all on" } else { "best" };
    let mut rows = vec![row(["result", "none", end, "", "gain", "significant options"])];
    for benchmark in report.measured.benchmarks.iter().filter(|b| !b.curves()) {
        for series in benchmark.series.iter().filter(|s| s.kind != MetricKind::CpuPercent) {
            let cells = &series.cells;
            let all = cells.summary_end();
            let value = |at: Option<Combination>| {
                let mean = at.and_then(|at| cells.mean(at));
                mean.map_or_else(|| "-".to_owned(), |mean| shown(series, mean))
            };
            let path = StepwisePath::of(cells);
            let named = path.map_or_else(
                || "combinations are missing".to_owned(),
                |path| reproduction::names(&path, names).join(" "),
            );
            rows.push(vec![
                format!("{}: {}", benchmark.title, series.title),
                value(Some(Combination::NONE)),
                value(all),
                unit(series),
                all.and_then(|all| cells.gain(all)).map_or_else(String::new, times),
                named,
            ]);
        }
    }
    if rows.len() == 1 {
        return "There is no finished run in these results yet.\n".to_owned();
    }
    table(rows, &[0, 3, 5])
}

fn shown(series: &ResultSeries, mean: f64) -> String {
    format::plain(series.kind, &series.unit, series.shown(mean))
}

fn unit(series: &ResultSeries) -> String {
    format::unit(series.kind, &series.unit)
}

/// The rank table and model of a result.
fn result(report: &Report, benchmark: &Benchmark, series: &ResultSeries) -> String {
    let names = &report.measured.short;
    let ranks = RankTable::of(&series.cells);
    let mut head: Vec<String> = ranks.order.iter().map(|f| names[*f].clone()).collect();
    head.extend([unit(series), "%".to_owned(), "σ/√n".to_owned(), "n".to_owned()]);
    let mut rows = vec![head];
    let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
    for rank in &ranks.rows {
        let dot =
            |f: &usize| if rank.combination.has(*f) { "●".to_owned() } else { String::new() };
        let mut row: Vec<String> = ranks.order.iter().map(dot).collect();
        row.extend([shown(series, rank.mean), optional(rank.percent), optional(rank.error)]);
        row.push(rank.runs.to_string());
        rows.push(row);
    }
    let mut out = format!("\n{}: {}\n\n{}", benchmark.title, series.title, table(rows, &[]));
    for axis in &report.measured.axes {
        out.push_str(&levels(series, axis, names));
    }
    let Some(model) = Model::fit(&series.cells) else { return out };
    let mut rows = vec![row(["term", "Δ%", "σ"])];
    for term in model.significant() {
        let base = term.options == Combination::NONE;
        let name = if base { "base".to_owned() } else { term.options.name(names, ":") };
        rows.push(vec![name, format!("{:.2}", term.value), optional(term.error)]);
    }
    out.push_str(&format!("\n{}", table(rows, &[0])));
    if series.kind != MetricKind::CpuPercent {
        hints::hints(&model, names).iter().for_each(|hint| out.push_str(&format!("{hint}\n")));
    }
    out
}

/// The percentages at the levels of a factor, a row for each combination of the other factors.
fn levels(series: &ResultSeries, axis: &LevelAxis, names: &[String]) -> String {
    let mut head = vec![format!("% of none, by {}", axis.name)];
    head.extend(axis.levels.iter().cloned());
    let mut rows = vec![head];
    let value = |v: &Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
    for line in interaction::lines(&series.cells, axis) {
        let name = line.others.name(names, "+");
        rows.push(std::iter::once(name).chain(line.percent.iter().map(value)).collect());
    }
    format!("\n{}", table(rows, &[0]))
}

/// The published numbers whose workloads were run, with the measured ones.
fn published(report: &Report) -> String {
    let mut out = String::new();
    for section in &report.compared {
        let mut rows = vec![row(["result", "options", "published", "here", "ratio"])];
        for pair in section.rows.iter().filter(|pair| pair.measured.is_some()) {
            rows.push(vec![
                pair.what.clone(),
                pair.on.clone(),
                pair.published.clone(),
                pair.measured.clone().unwrap_or_default(),
                pair.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            ]);
        }
        if rows.len() > 1 {
            out.push_str(&format!(
                "\n{} [{}]\n\n{}",
                section.title,
                section.source,
                table(rows, &[0, 1])
            ));
        }
    }
    out
}

/// Breaks a text between words into lines of at most 100 characters.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= 100 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// The targets and their verdicts.
fn targets(report: &Report) -> String {
    let judged = report.targets.iter().filter(|target| target.verdict != Verdict::NotRun);
    let rows: Vec<Vec<String>> = judged
        .map(|target| {
            let verdict = if target.verdict == Verdict::Satisfied { "met" } else { "missed" };
            vec![verdict.to_owned(), target.group.clone(), target.wanted.clone()]
        })
        .collect();
    let left = match report.targets.len() - rows.len() {
        0 => String::new(),
        1 => "1 target was not run.\n".to_owned(),
        n => format!("{n} targets were not run.\n"),
    };
    let caution = super::criteria::caution(&report.measured);
    let caution = caution.map_or_else(String::new, |caution| wrapped(&caution));
    format!(
        "\nTargets of a reproduction of the paper\n{caution}\n{}{left}",
        table(rows, &[0, 1, 2])
    )
}

/// The tables as files: the runs, the rank tables, the models.
pub(super) fn csv(report: &Report) -> Vec<(String, String)> {
    let names = &report.measured.short;
    let mut out = vec![("runs".to_owned(), runs(report)), ("published".to_owned(), ratios(report))];
    for benchmark in report.measured.benchmarks.iter().filter(|b| !b.curves()) {
        for series in &benchmark.series {
            let id = charts::id(benchmark, series);
            let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.6}"));
            let ranks = RankTable::of(&series.cells).rows.into_iter().map(|row| {
                vec![
                    row.combination.name(names, "+"),
                    format!("{}", row.mean),
                    number(row.percent),
                    number(row.error),
                    row.runs.to_string(),
                ]
            });
            let heads = "options,mean_cost,percent,error_percent,runs";
            out.push((format!("{id}-rank"), lines(heads, ranks)));
            let Some(model) = Model::fit(&series.cells) else { continue };
            let terms = model.terms.iter().map(|term| {
                let chance = term.p_value.map_or_else(String::new, |p| format!("{p:.5e}"));
                let base = term.options == Combination::NONE;
                let name = if base { "base".to_owned() } else { term.options.name(names, ":") };
                vec![
                    name,
                    number(Some(term.value)),
                    number(term.error),
                    chance,
                    term.is_significant.to_string(),
                ]
            });
            let heads = "term,percent,error,chance,shown";
            out.push((format!("{id}-model"), lines(heads, terms)));
        }
    }
    out
}

/// All runs of all results.
fn runs(report: &Report) -> String {
    let names = &report.measured.short;
    let series =
        report.measured.benchmarks.iter().flat_map(|b| b.series.iter().map(move |s| (b, s)));
    let rows = series.flat_map(|(benchmark, series)| {
        series.cells.combinations().flat_map(move |at| {
            series.cells.runs(at).iter().map(move |cost| {
                let (words, metric) = (benchmark.words.clone(), series.metric.clone());
                vec![words, metric, at.name(names, "+"), unit_of_cost(series), cost.to_string()]
            })
        })
    });
    lines("workload,result,options,unit,cost", rows)
}

fn unit_of_cost(series: &ResultSeries) -> String {
    match series.kind {
        MetricKind::Time => "s".to_owned(),
        MetricKind::Rate => format!("s per {}", series.unit),
        MetricKind::CpuPercent => "%".to_owned(),
    }
}

fn ratios(report: &Report) -> String {
    let rows = report.compared.iter().flat_map(|section| {
        section.rows.iter().map(|pair| {
            vec![
                section.title.clone(),
                section.source.clone(),
                pair.at.clone(),
                pair.on.clone(),
                pair.published.clone(),
                pair.measured.clone().unwrap_or_default(),
                pair.ratio().map_or_else(String::new, |ratio| format!("{ratio:.4}")),
            ]
        })
    });
    lines("section,source,result,options,published,measured,ratio", rows)
}
