//! The HTML page: the values that the template shows.

mod data;
mod head;
mod result;

use askama::Template;

use self::head::{NearStrip, Tile, about, heading, incomplete, lead, tiles};
use self::result::{BenchmarkView, benchmark};
use super::criteria::{Criterion, Verdict};
use super::reproduction::{self, Agreement, ComparedNumber, ComparedOptions};
use super::score::{self, Score};
use super::study_data::StudyData;
use super::{Report, charts, explain, format};
use crate::error::{LabError, Result};
use crate::plot::{Figure, style};
use crate::statistics::Combination;
use crate::study::Factor;

const CSS: &str = include_str!("../../../templates/report.css");
/// The script of the page, in the order of its parts.
const SCRIPT: &str = concat!(
    include_str!("../../../templates/page/core.js"),
    include_str!("../../../templates/page/rows.js"),
    include_str!("../../../templates/page/gains.js"),
    include_str!("../../../templates/page/numbers.js"),
    include_str!("../../../templates/page/whatif.js"),
    include_str!("../../../templates/page/figures.js"),
);
/// What the script has besides if a factor of a study has more than two levels.
const LEVELS: &str = include_str!("../../../templates/page/levels.js");
/// The end of the script.
const MAIN: &str = include_str!("../../../templates/page/main.js");

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    title: String,
    style: String,
    plan: String,
    heading: String,
    lead: String,
    about: String,
    near_words: String,
    near: Vec<NearStrip>,
    level: &'static str,
    tiles: Vec<Tile>,
    incomplete: String,
    contents: Vec<(String, String)>,
    options: Vec<(String, String)>,
    summary: Option<(String, String)>,
    targets: Vec<TargetView>,
    caution: String,
    score_heads: Vec<&'static str>,
    scores: Vec<Vec<String>>,
    ratios: Option<String>,
    compared: Vec<SectionView>,
    lists: Vec<ListView>,
    lists_words: String,
    benchmarks: Vec<BenchmarkView>,
    /// The counters in the tables of the benchmarks, and what they count.
    counters: Vec<(String, &'static str)>,
    curves: Vec<CurveView>,
    percent: PercentTable,
    experiment: String,
    factors: Vec<(String, String, String)>,
    machine: Vec<String>,
    command: String,
    version: &'static str,
    runs: String,
    data: String,
    script: String,
    /// Whether a factor has more than two levels.
    has_levels: bool,
    /// The factors with more than two levels, and their levels.
    levels: Vec<(String, Vec<String>)>,
}

struct TargetView {
    class: &'static str,
    mark: &'static str,
    group: String,
    wanted: String,
    found: String,
    why: Vec<String>,
}

struct SectionView {
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

#[derive(Default)]
struct PercentTable {
    heads: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

/// A figure of cost curves and its table: a row for each number of entries.
struct CurveView {
    title: String,
    svg: String,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl CurveView {
    fn of(figure: &Figure) -> CurveView {
        let lines = figure.csv.lines().skip(1).map(|line| line.split(',').collect::<Vec<&str>>());
        let (mut heads, mut rows) = (vec!["entries".to_owned()], Vec::<(f64, Vec<String>)>::new());
        for line in lines {
            let [name, n, cost] = line.as_slice() else { continue };
            let (Ok(entries), Ok(value)) = (n.parse::<f64>(), cost.parse()) else { continue };
            let at = heads.iter().position(|head| head == name).unwrap_or(heads.len());
            if at == heads.len() {
                heads.push((*name).to_owned());
            }
            let row = match rows.iter_mut().find(|row| row.0 == entries) {
                Some(row) => row,
                None => {
                    rows.push((entries, Vec::new()));
                    let last = rows.len() - 1;
                    &mut rows[last]
                }
            };
            row.1.resize(row.1.len().max(at), "–".to_owned());
            row.1[at - 1] = format::short(value);
        }
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let columns = heads.len() - 1;
        let whole = |(entries, mut cells): (f64, Vec<String>)| {
            cells.resize(columns, "–".to_owned());
            cells.insert(0, format::fixed(entries, 0));
            cells
        };
        let (title, svg) = (figure.title.clone(), figure.inline());
        CurveView { title, svg, heads, rows: rows.into_iter().map(whole).collect() }
    }
}

/// The page of a report.
pub(super) fn render(report: &Report) -> Result<String> {
    let page = Page::of(report)?;
    page.render().map_err(|error| LabError::Plan(format!("report.html: {error}")))
}

impl Page {
    fn of(report: &Report) -> Result<Page> {
        let measured = &report.measured;
        let benchmarks: Vec<BenchmarkView> =
            measured.benchmarks.iter().filter_map(|b| benchmark(report, b)).collect();
        let results = benchmarks.iter().flat_map(|b| &b.results);
        let counters = explain::meanings(results.filter_map(|result| result.work.as_ref()));
        let inline = |id: &str| report.figure(id).map(Figure::inline);
        let summary = inline("summary").zip(inline("summary-narrow"));
        let plates = charts::curve_charts().filter_map(|id| report.figure(id));
        let curves: Vec<CurveView> = plates.map(CurveView::of).collect();
        let percent = percent(measured);
        let lists = reproduction::lists(measured, &report.published);
        let plan = &measured.plan;
        let factor = |f: &Factor| match f.levels.as_slice() {
            [off, on] => Some((f.name.clone(), shown(off), shown(on))),
            _ => None,
        };
        let levels = |f: &Factor| (f.name.clone(), f.levels.iter().map(|l| shown(l)).collect());
        let mut page = Page {
            title: format!("ffs lab: {}", plan.name),
            style: format!("{}{}{CSS}", style::COLOURS, style::SHAPES),
            plan: format!("{} · seed {} · {}", plan.name, plan.seed, plan.target),
            heading: heading(measured),
            lead: lead(measured),
            about: about(measured),
            near_words: head::near_words(report),
            near: head::near(report),
            level: if plan.replicates > 1 { "p < 1/1000 and at least 1 %" } else { "at least 5 %" },
            tiles: tiles(report),
            incomplete: incomplete(measured),
            contents: Vec::new(),
            options: measured.long.iter().cloned().zip(measured.short.iter().cloned()).collect(),
            summary,
            targets: report.targets.iter().map(target).collect(),
            caution: super::criteria::caution(measured).unwrap_or_default(),
            score_heads: score::HEADS.to_vec(),
            scores: report.scores.iter().filter(|s| s.has_numbers()).map(Score::row).collect(),
            ratios: inline("ratios"),
            compared: report.compared.iter().map(section).collect(),
            lists_words: lists_words(&lists),
            lists: lists.into_iter().map(list).collect(),
            benchmarks,
            counters,
            curves,
            percent,
            experiment: experiment(measured),
            factors: plan.factors.iter().filter_map(factor).collect(),
            has_levels: !measured.design.is_two_level(),
            levels: plan.factors.iter().filter(|f| !f.is_two_level()).map(levels).collect(),
            machine: machine(&plan.target),
            command: super::command::again(plan),
            version: env!("CARGO_PKG_VERSION"),
            runs: format::plural(measured.jobs.0, "run"),
            data: data::json(report)?,
            script: script(report),
        };
        page.contents = page.table_of_contents();
        Ok(page)
    }

    fn table_of_contents(&self) -> Vec<(String, String)> {
        let fixed = |id: &str, name: &str| (id.to_owned(), name.to_owned());
        let mut contents = Vec::new();
        if self.summary.is_some() {
            contents.push(fixed("overview", "Gains"));
            contents.push(fixed("whatif", "What if?"));
        }
        contents.push(fixed("targets", "Targets"));
        contents.push(fixed("published", "Published numbers"));
        match self.benchmarks.as_slice() {
            [] => {}
            [one] => contents.push(fixed(&one.id, &one.title)),
            _ => contents.push(fixed("benchmarks", "Benchmarks")),
        }
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

/// The script of the page.
fn script(report: &Report) -> String {
    let mut studies = std::iter::once(&report.measured).chain(&report.others);
    let levels = if studies.any(|study| !study.design.is_two_level()) { LEVELS } else { "" };
    format!("{SCRIPT}{levels}{MAIN}")
}

fn shown(words: &str) -> String {
    if words.is_empty() { "–".to_owned() } else { words.to_owned() }
}

fn target(target: &Criterion) -> TargetView {
    let (class, mark) = match target.verdict {
        Verdict::Satisfied => ("met", "✓ met"),
        Verdict::Missed => ("missed", "✗ missed"),
        Verdict::NotRun => ("notrun", "– not run"),
    };
    let Criterion { group, wanted, found, why, .. } = target.clone();
    TargetView { class, mark, group, wanted, found, why }
}

/// What takes the place of a ratio.
fn words(agreement: Agreement) -> String {
    let words = match agreement {
        Agreement::OtherSign => "0 or other sign",
        Agreement::Bound(true) => "met",
        Agreement::Bound(false) => "not met",
        Agreement::NotRun | Agreement::Smaller(_) | Agreement::Base | Agreement::Ratio(_) => "",
    };
    words.to_owned()
}

fn class(pair: &ComparedNumber) -> &'static str {
    match (pair.agreement, pair.ratio()) {
        (_, Some(ratio)) => reproduction::near(ratio),
        (Agreement::OtherSign | Agreement::Bound(false), None) => "far",
        (Agreement::Bound(true), None) => "near",
        _ => "",
    }
}

fn section(section: &reproduction::ComparedSection) -> SectionView {
    let row = |pair: &ComparedNumber| PairView {
        what: pair.what.clone(),
        on: pair.on.clone(),
        published: pair.published.clone(),
        measured: pair.measured.clone().unwrap_or_else(|| "–".to_owned()),
        ratio: pair.ratio().map_or_else(|| words(pair.agreement), format::ratio),
        class: class(pair),
    };
    let rows = section.rows.iter().map(row).collect();
    SectionView { title: section.title.clone(), source: section.source.clone(), rows }
}

fn list(row: ComparedOptions) -> ListView {
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

fn lists_words(lists: &[ComparedOptions]) -> String {
    let run = lists.iter().filter(|list| list.measured.is_some()).count();
    let same = lists.iter().filter(|list| list.same()).count();
    let set = lists.iter().filter(|list| list.same_set()).count();
    let all = lists.len();
    let groups = lists.iter().filter(|list| list.same_set()).map(|list| &list.group);
    let postmark = groups.filter(|group| group.contains("Postmark")).count();
    format!(
        "{run} of {all} rows were run. {set} have the same options, {same} of them in that order. \
         A loss has a minus behind it and is not the same as a gain. {postmark} of the {set} are \
         of Postmark, whose rates are mostly those of one loop."
    )
}

/// All results in percent, one column for each combination.
fn percent(measured: &StudyData) -> PercentTable {
    /// The most columns: five factors of two levels.
    const MOST: usize = 32;
    let mut columns = measured.design.combinations().to_vec();
    if columns.len() > MOST {
        return PercentTable::default();
    }
    columns.sort_by_key(|c| (c.count(), c.0));
    let heads = columns.iter().map(|c| c.name(&measured.short, " ")).collect();
    let benchmarks = measured.benchmarks.iter().filter(|benchmark| !benchmark.curves());
    let rows = benchmarks.flat_map(|b| b.series.iter().map(move |series| (b, series)));
    let rows = rows.map(|(benchmark, series)| {
        let value = |c: &Combination| {
            let percent = series.cells.percent(*c);
            percent.map_or_else(|| "–".to_owned(), |value| format::fixed(value, 2))
        };
        let name = format!("{}: {}", benchmark.title, series.title);
        (name, columns.iter().map(value).collect())
    });
    PercentTable { heads, rows: rows.collect() }
}

fn experiment(measured: &StudyData) -> String {
    let plan = &measured.plan;
    let combinations = format::plural(measured.design.combinations().len(), "combination");
    let what = if measured.design.is_two_level() { "option" } else { "factor" };
    let options = format::plural(plan.factors.len(), what);
    format!(
        "{combinations} of {options}, each run {}. Seed {} determines the order of the runs and \
         the seeds of the replicates. All combinations of a replicate have its seed and begin on a \
         copy of the same volume.",
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
                "The options after the colon change the computer and the volume described here."
                    .to_owned(),
            );
        }
        lines.push(
            "A simulated computer of 2002 in virtual time: a processor of 1.6 GHz, 256 MB of \
             memory, and a disk of 20 GB with 5400 revolutions a minute. The model of the disk has \
             a seek curve, zones, head and cylinder skew and a read-ahead buffer; the write cache \
             is off. The disk turns while the processor works. The volume is UFS1 of 16 GB with \
             blocks of 16 KB and fragments of 2 KB, aged to 45 % with the old dirpref. The \
             benchmarks run on the ffs library itself. Only the modelled processor and disk take \
             time."
                .to_owned(),
        );
        lines.push(
            "Durability: without soft updates each ordered write of metadata is synchronous; with \
             soft updates such writes are delayed and ordered. In both cases a phase ends when its \
             last call returns, and its delayed writes happen during the next phase."
                .to_owned(),
        );
    }
    lines
}
