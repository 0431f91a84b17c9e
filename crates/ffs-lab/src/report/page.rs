//! The page: what the template shows, in words.

use askama::Template;

use super::compare::{self, Listed, Pair};
use super::data::{Benchmark, Measured, Series};
use super::explain::{self, Work};
use super::targets::{Target, Verdict};
use super::{Report, figures, words};
use crate::error::{LabError, Result};
use crate::plot::{Figure, style, times};
use crate::stat::{Combination, Model, RankTable, SummaryPath, hints};
use crate::work::MetricKind;

const CSS: &str = include_str!("../../templates/report.css");

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    title: String,
    style: String,
    plan: String,
    heading: String,
    lead: String,
    level: &'static str,
    tiles: Vec<Tile>,
    incomplete: String,
    contents: Vec<(String, String)>,
    options: Vec<(String, String)>,
    summary: Option<(String, String)>,
    targets: Vec<TargetView>,
    caution: String,
    ratios: Option<String>,
    compared: Vec<Section>,
    lists: Vec<ListView>,
    lists_words: String,
    benchmarks: Vec<BenchmarkView>,
    curves: Vec<(String, String)>,
    percent: Percent,
    experiment: String,
    factors: Vec<(String, String, String)>,
    machine: Vec<String>,
    command: String,
    version: &'static str,
    runs: String,
}

struct Tile {
    value: String,
    words: String,
}

struct TargetView {
    class: &'static str,
    mark: &'static str,
    group: String,
    wanted: String,
    found: String,
    why: Vec<String>,
}

struct Section {
    title: String,
    source: String,
    rows: Vec<PairView>,
}

struct PairView {
    what: String,
    on: String,
    published: String,
    measured: String,
    ratio: String,
    class: &'static str,
}

struct ListView {
    group: String,
    what: String,
    published: String,
    measured: String,
    same: &'static str,
    class: &'static str,
}

struct BenchmarkView {
    id: String,
    title: String,
    about: String,
    results: Vec<ResultView>,
}

struct ResultView {
    id: String,
    title: String,
    open: bool,
    gain: String,
    chips: Vec<(usize, String)>,
    sub: String,
    unit: String,
    heads: Vec<(usize, String)>,
    rank: Vec<RankView>,
    terms: Vec<TermView>,
    rest: String,
    hints: Vec<String>,
    notes: Vec<String>,
    triangle: Option<String>,
    lattice: Option<String>,
    work: Option<Work>,
}

struct RankView {
    dots: Vec<(usize, &'static str)>,
    mean: String,
    percent: String,
    error: String,
    runs: usize,
}

struct TermView {
    name: String,
    value: String,
    error: String,
    chance: String,
}

#[derive(Default)]
struct Percent {
    heads: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

/// The page of a report.
pub(super) fn render(report: &Report) -> Result<String> {
    let page = Page::of(report);
    page.render().map_err(|error| LabError::Plan(format!("report.html: {error}")))
}

impl Page {
    fn of(report: &Report) -> Page {
        let measured = &report.measured;
        let benchmarks: Vec<BenchmarkView> =
            measured.benchmarks.iter().filter_map(|b| benchmark(report, b)).collect();
        let inline = |id: &str| report.figure(id).map(Figure::inline);
        let summary = inline("summary").zip(inline("summary-narrow"));
        let plates = figures::plates().filter_map(|id| report.figure(id));
        let curves: Vec<(String, String)> =
            plates.map(|figure| (figure.title.clone(), figure.inline())).collect();
        let percent = percent(measured);
        let lists = compare::lists(measured, &report.published);
        let plan = &measured.plan;
        let factor = |f: &crate::study::Factor| (f.name.clone(), shown(&f.off), shown(&f.on));
        let mut page = Page {
            title: format!("ffs lab: {}", plan.name),
            style: format!("{}{}{CSS}", style::COLOURS, style::SHAPES),
            plan: format!("{} · seed {} · {}", plan.name, plan.seed, plan.target),
            heading: heading(measured),
            lead: lead(measured),
            level: if plan.replicates > 1 {
                "p < 1/1000, and 1 % at least"
            } else {
                "5 % at least"
            },
            tiles: tiles(report),
            incomplete: incomplete(measured),
            contents: Vec::new(),
            options: measured.long.iter().cloned().zip(measured.short.iter().cloned()).collect(),
            summary,
            targets: report.targets.iter().map(target).collect(),
            caution: super::targets::caution(measured).unwrap_or_default(),
            ratios: inline("ratios"),
            compared: report.compared.iter().map(section).collect(),
            lists_words: lists_words(&lists),
            lists: lists.into_iter().map(list).collect(),
            benchmarks,
            curves,
            percent,
            experiment: experiment(measured),
            factors: plan.factors.iter().map(factor).collect(),
            machine: machine(&plan.target),
            command: super::command::again(plan),
            version: env!("CARGO_PKG_VERSION"),
            runs: words::plural(measured.jobs.0, "run"),
        };
        page.contents = page.table_of_contents();
        page
    }

    fn table_of_contents(&self) -> Vec<(String, String)> {
        let fixed = |id: &str, name: &str| (id.to_owned(), name.to_owned());
        let mut contents = Vec::new();
        if self.summary.is_some() {
            contents.push(fixed("overview", "Summary"));
        }
        contents.push(fixed("targets", "Targets"));
        contents.push(fixed("published", "Published"));
        contents.extend(self.benchmarks.iter().map(|b| fixed(&b.id, &b.title)));
        if !self.curves.is_empty() {
            contents.push(fixed("curves", "Curves"));
        }
        if !self.percent.rows.is_empty() {
            contents.push(fixed("all", "All results"));
        }
        contents.push(fixed("method", "Method"));
        contents
    }
}

fn shown(words: &str) -> String {
    if words.is_empty() { "–".to_owned() } else { words.to_owned() }
}

/// Names in a sentence: `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [front @ .., last] => format!("{} and {last}", front.join(", ")),
    }
}

fn heading(measured: &Measured) -> String {
    match measured.long.as_slice() {
        [] => "What the benchmarks cost".to_owned(),
        [one] => format!("What {one} does"),
        names => format!("What {} do, alone and together", listed(names)),
    }
}

/// Results that are times or rates, with where they are from.
fn results(measured: &Measured) -> impl Iterator<Item = (&Benchmark, &Series)> {
    let benchmarks = measured.benchmarks.iter().filter(|benchmark| !benchmark.curves());
    let all = benchmarks.flat_map(|b| b.series.iter().map(move |series| (b, series)));
    all.filter(|(_, series)| series.kind != MetricKind::CpuPercent)
}

fn lead(measured: &Measured) -> String {
    let all = Combination::all(measured.short.len());
    let gains = results(measured).filter_map(|(b, s)| Some((s.cells.gain(all)?, b, s)));
    let mut gains: Vec<(f64, &Benchmark, &Series)> = gains.collect();
    gains.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (Some(best), Some(worst)) = (gains.first(), gains.last()) else {
        return "There is no result yet that can be compared with the one without options."
            .to_owned();
    };
    let middle = gains[gains.len() / 2].0;
    let name = |(_, b, s): &(f64, &Benchmark, &Series)| format!("{}, {}", b.title, s.title);
    let what = words::plural(gains.len(), "result");
    format!(
        "With all options on, {what} improve by {} in the median: from {} ({}) to {} ({}).",
        times(middle),
        times(worst.0),
        name(worst),
        times(best.0),
        name(best)
    )
}

fn tiles(report: &Report) -> Vec<Tile> {
    let tile = |value: String, words: &str| Tile { value, words: words.to_owned() };
    let of = |verdict| report.targets.iter().filter(|t| t.verdict == verdict).count();
    let judged = of(Verdict::Met) + of(Verdict::Missed);
    let ratios =
        report.compared.iter().flat_map(|section| &section.rows).filter_map(|row| row.ratio);
    let ratios: Vec<f64> = ratios.collect();
    let near = ratios.iter().filter(|ratio| compare::near(**ratio) == "near").count();
    let lists = compare::lists(&report.measured, &report.published);
    let run = lists.iter().filter(|list| list.measured.is_some()).count();
    let same = lists.iter().filter(|list| list.same_set()).count();
    let (done, planned) = report.measured.jobs;
    let mut tiles = vec![tile(format!("{done} of {planned}"), "runs are in this report")];
    if judged > 0 {
        tiles.push(tile(
            format!("{} of {judged}", of(Verdict::Met)),
            &match of(Verdict::NotRun) {
                0 => "targets of a reproduction met".to_owned(),
                left => format!("targets of a reproduction met; {left} not run"),
            },
        ));
    }
    if !ratios.is_empty() {
        let all = ratios.len();
        tiles.push(tile(format!("{near} of {all}"), "published numbers within ±30 %"));
    }
    if run > 0 {
        tiles.push(tile(format!("{same} of {run}"), "rows of Figure 10 with the same options"));
    }
    tiles
}

fn incomplete(measured: &Measured) -> String {
    let (done, planned) = measured.jobs;
    if done >= planned {
        return String::new();
    }
    let missing = measured.benchmarks.iter().filter(|b| b.jobs.0 < b.jobs.1);
    let words: Vec<String> =
        missing.map(|b| format!("{} {} of {}", b.title, b.jobs.0, b.jobs.1)).collect();
    format!("Not everything was run: {}. What is missing is left out.", words.join(", "))
}

fn target(target: &Target) -> TargetView {
    let (class, mark) = match target.verdict {
        Verdict::Met => ("met", "✓ met"),
        Verdict::Missed => ("missed", "✗ missed"),
        Verdict::NotRun => ("notrun", "– not run"),
    };
    let Target { group, wanted, found, why, .. } = target.clone();
    TargetView { class, mark, group, wanted, found, why }
}

fn section(section: &compare::Compared) -> Section {
    let row = |pair: &Pair| PairView {
        what: pair.what.clone(),
        on: pair.on.clone(),
        published: pair.published.clone(),
        measured: pair.measured.clone().unwrap_or_else(|| "–".to_owned()),
        ratio: pair.ratio.map_or_else(String::new, words::ratio),
        class: pair.ratio.map_or("", compare::near),
    };
    let rows = section.rows.iter().map(row).collect();
    Section { title: section.title.clone(), source: section.source.clone(), rows }
}

fn list(row: Listed) -> ListView {
    let (same, class) = match &row.measured {
        None => ("", ""),
        Some(_) if row.same() => ("yes", "near"),
        Some(_) if row.same_set() => ("other order", "near"),
        Some(_) => ("no", "far"),
    };
    let words =
        |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    ListView {
        published: words(&row.published),
        measured: row.measured.as_deref().map_or_else(|| "–".to_owned(), words),
        group: row.group,
        what: row.what,
        same,
        class,
    }
}

fn lists_words(lists: &[Listed]) -> String {
    let run = lists.iter().filter(|list| list.measured.is_some()).count();
    let same = lists.iter().filter(|list| list.same()).count();
    let set = lists.iter().filter(|list| list.same_set()).count();
    let all = lists.len();
    format!(
        "{run} of {all} rows were run; {set} have the same options, {same} of these in the same order."
    )
}

fn benchmark(report: &Report, benchmark: &Benchmark) -> Option<BenchmarkView> {
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
        about.push_str(&format!(" Size: {} of the published one.", words::short(size)));
    }
    if benchmark.series.is_empty() {
        about.push_str(" Not run yet.");
    }
    let result = |(n, series): (usize, &Series)| result(report, benchmark, series, n == 0);
    Some(BenchmarkView {
        id: format!("b-{}", benchmark.slug),
        title: benchmark.title.clone(),
        about,
        results: benchmark.series.iter().enumerate().map(result).collect(),
    })
}

fn result(report: &Report, benchmark: &Benchmark, series: &Series, open: bool) -> ResultView {
    let names = &report.measured.short;
    let id = figures::id(benchmark, series);
    let cells = &series.cells;
    let path = SummaryPath::of(cells);
    let model = Model::fit(cells);
    let figure = |kind: &str| report.figure(&format!("{id}-{kind}")).map(Figure::inline);
    let chips = path.as_ref().map_or_else(Vec::new, SummaryPath::named);
    let table = RankTable::of(cells);
    let colour = |factor: &usize| factor % style::SERIES;
    ResultView {
        title: series.title.clone(),
        open,
        gain: cells.gain(Combination::all(cells.factors())).map_or_else(String::new, times),
        chips: chips.iter().map(|f| (colour(f), names[*f].clone())).collect(),
        sub: sub(series),
        unit: unit(series),
        heads: table.order.iter().map(|f| (colour(f), names[*f].clone())).collect(),
        rank: rank(series, &table),
        terms: model.as_ref().map_or_else(Vec::new, |model| terms(model, names)),
        rest: model.as_ref().map_or_else(String::new, |model| rest(model, names)),
        hints: model.as_ref().map_or_else(Vec::new, |model| hints::hints(model, names)),
        notes: series.notes.clone(),
        triangle: figure("triangle"),
        lattice: figure("lattice"),
        work: explain::work(series, names).filter(|_| series.kind != MetricKind::CpuPercent),
        id,
    }
}

/// From the value without options to that with all.
fn sub(series: &Series) -> String {
    let cells = &series.cells;
    let ends = cells.mean(Combination::NONE).zip(cells.mean(Combination::all(cells.factors())));
    let Some((from, to)) = ends.filter(|_| cells.factors() > 0) else { return String::new() };
    let show = |cost: f64| words::short(scaled(series, series.shown(cost)));
    format!("{} → {} {}", show(from), show(to), unit(series))
}

/// Bytes are shown in millions.
fn scaled(series: &Series, value: f64) -> f64 {
    if series.kind == MetricKind::Rate && series.unit == "bytes" { value / 1e6 } else { value }
}

fn unit(series: &Series) -> String {
    match series.kind {
        MetricKind::Time => "s".to_owned(),
        MetricKind::Rate if series.unit == "bytes" => "MB/s".to_owned(),
        MetricKind::Rate => format!("{}/s", series.unit),
        MetricKind::CpuPercent => "% CPU".to_owned(),
    }
}

fn rank(series: &Series, table: &RankTable) -> Vec<RankView> {
    let value = |mean: f64| scaled(series, series.shown(mean));
    let smallest = table.rows.iter().map(|row| value(row.mean)).fold(f64::INFINITY, f64::min);
    let digits = words::digits(smallest);
    let optional =
        |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| words::fixed(v, 2));
    let row = |row: &crate::stat::RankRow| RankView {
        dots: table
            .order
            .iter()
            .map(|f| (f % style::SERIES, if row.combination.has(*f) { "●" } else { "" }))
            .collect(),
        mean: words::fixed(value(row.mean), digits),
        percent: optional(row.percent),
        error: optional(row.error),
        runs: row.runs,
    };
    table.rows.iter().map(row).collect()
}

fn terms(model: &Model, names: &[String]) -> Vec<TermView> {
    let view = |term: &crate::stat::Term| TermView {
        name: if term.options == Combination::NONE {
            "base".to_owned()
        } else {
            term.options.name(names, ":")
        },
        value: if term.options == Combination::NONE {
            words::fixed(term.value, 2)
        } else {
            words::signed(term.value, 2)
        },
        error: term.error.map_or_else(|| "–".to_owned(), |error| words::fixed(error, 2)),
        chance: match term.chance {
            Some(chance) if term.options != Combination::NONE => words::chance(chance),
            _ => String::new(),
        },
    };
    model.shown().map(view).collect()
}

/// What is said of the terms that are not shown.
fn rest(model: &Model, names: &[String]) -> String {
    let hidden = model.terms.iter().filter(|term| !term.shown);
    let largest = hidden.clone().max_by(|a, b| a.value.abs().total_cmp(&b.value.abs()));
    let Some(largest) = largest else { return String::new() };
    let why = if model.spread.is_some() { "not told from noise" } else { "smaller" };
    format!(
        "{} {why}; the largest is {} with {} %.",
        words::plural(hidden.count(), "other term"),
        largest.options.name(names, ":"),
        words::signed(largest.value, 2)
    )
}

/// Every result in percent, a column a combination.
fn percent(measured: &Measured) -> Percent {
    /// More columns are no table.
    const MOST: usize = 5;
    if measured.short.len() > MOST {
        return Percent::default();
    }
    let all: Vec<Combination> = (0..measured.plan.combinations()).map(Combination).collect();
    let mut columns = all;
    columns.sort_by_key(|c| (c.count(), c.0));
    let heads = columns.iter().map(|c| c.name(&measured.short, " ")).collect();
    let benchmarks = measured.benchmarks.iter().filter(|benchmark| !benchmark.curves());
    let rows = benchmarks.flat_map(|b| b.series.iter().map(move |series| (b, series)));
    let rows = rows.map(|(benchmark, series)| {
        let value = |c: &Combination| {
            let percent = series.cells.percent(*c);
            percent.map_or_else(|| "–".to_owned(), |value| words::fixed(value, 2))
        };
        let name = format!("{}: {}", benchmark.title, series.title);
        (name, columns.iter().map(value).collect())
    });
    Percent { heads, rows: rows.collect() }
}

fn experiment(measured: &Measured) -> String {
    let plan = &measured.plan;
    let combinations = words::plural(plan.combinations() as usize, "combination");
    let options = words::plural(plan.factors.len(), "option");
    format!(
        "{combinations} of {options}, each run {} with seeds of its own, in an order drawn from seed {}. All \
         combinations of a replicate have its seed and begin on the same volume; every run has a fresh copy.",
        match plan.replicates {
            1 => "once".to_owned(),
            n => format!("{n} times"),
        },
        plan.seed
    )
}

fn machine(target: &str) -> Vec<String> {
    let name = target.split(':').next().unwrap_or(target);
    let mut lines = vec![format!("Target: {target}.")];
    if name == "sim" {
        if target != name {
            lines.push(
                "Words behind the colon change the machine and the volume told here.".to_owned(),
            );
        }
        lines.push(
            "A simulated machine of 2002 in virtual time: a processor of 1.6 GHz, 256 MB of memory, and a disk \
             of 20 GB at 5400 turns a minute with its seek curve, zones, head and cylinder skew, read-ahead \
             buffer and write cache off. The platter turns on while the processor works. One UFS1 volume of \
             16 GB with blocks of 16 KB and fragments of 2 KB, aged to 45 % under the old dirpref. What runs on \
             it is the library itself, and nothing else takes time but the modelled processor and disk."
                .to_owned(),
        );
        lines.push(
            "Durability: without soft updates every write of metadata that has to be in order is waited for; \
             with them such writes are delayed and ordered. A phase ends with the return of its last call in \
             either case; what it leaves to be written is written while the next one runs."
                .to_owned(),
        );
    }
    lines
}
