//! The figures of a report.

use super::alike;
use super::cost_curves;
use super::published::{NumberKind, Published, PublishedNumber};
use super::reproduction::ComparedSection;
use super::study_data::{Benchmark, ResultSeries, StudyData, slug};
use crate::plot::bar_chart::{self, Bar, BarGroup, OptionLabels};
use crate::plot::interaction::{self, LevelAxis};
use crate::plot::line_chart::{Axes, Curve, ReferenceLine, draw};
use crate::plot::ratio_chart;
use crate::plot::{Figure, lattice, triangle};
use crate::statistics::{Cells, StepwisePath};
use crate::workload::MetricKind;

/// The name of a result in addresses and files.
pub(super) fn id(benchmark: &Benchmark, series: &ResultSeries) -> String {
    format!("{}-{}", benchmark.slug, slug(&series.metric))
}

/// The name of the figure of a result over the levels of a factor.
pub(super) fn level_id(benchmark: &Benchmark, series: &ResultSeries, axis: &LevelAxis) -> String {
    // Names of factors may differ in characters that an address does not have.
    format!("{}-levels-{}-{}", id(benchmark, series), axis.factor + 1, slug(&axis.name))
}

/// A chart of cost curves: its name, the figure of the paper, its title and its curves.
struct CurveChart {
    id: &'static str,
    figure: u8,
    title: &'static str,
    which: &'static [&'static str],
}

const CURVE_CHARTS: [CurveChart; 8] = [
    CurveChart { id: "fig2", figure: 2, title: "Figure 2: create", which: &["linear", "dirhash"] },
    CurveChart {
        id: "fig2-small",
        figure: 2,
        title: "Figure 2: create, small directories",
        which: &["linear-small", "dirhash-small"],
    },
    CurveChart { id: "fig3", figure: 3, title: "Figure 3: remove", which: &["linear", "dirhash"] },
    CurveChart {
        id: "fig4",
        figure: 4,
        title: "Figure 4: stat in listing order",
        which: &["linear", "dirhash", "name-cache"],
    },
    CurveChart {
        id: "fig4-minvnodes",
        figure: 4,
        title: "Figure 4: with other kern.minvnodes",
        which: &["name-cache-minvnodes=1000", "name-cache-minvnodes=4000", "name-cache"],
    },
    CurveChart {
        id: "fig4-primed",
        figure: 4,
        title: "Figure 4: the first stat after creation",
        which: &["not-primed", "primed"],
    },
    CurveChart {
        id: "fig5",
        figure: 5,
        title: "Figure 5: stat in random order",
        which: &["linear", "dirhash", "name-cache"],
    },
    CurveChart {
        id: "fig6",
        figure: 6,
        title: "Figure 6: stat of missing names",
        which: &["linear", "dirhash", "linear-again", "dirhash-again"],
    },
];

/// The names of the charts of cost curves.
pub(super) fn curve_charts() -> impl Iterator<Item = &'static str> {
    CURVE_CHARTS.iter().map(|chart| chart.id)
}

/// Draws all figures.
pub(super) fn all(
    measured: &StudyData,
    published: &Published,
    compared: &[ComparedSection],
) -> Vec<Figure> {
    let mut figures = Vec::new();
    let groups = groups(measured, published);
    if groups.iter().any(|group| group.rows.iter().any(|row| row.path.is_some())) {
        let words = OptionLabels { short: &measured.short, long: &measured.long };
        let title = "The effects of the options on all benchmarks";
        figures.push(bar_chart::draw("summary", title, &groups, words, false));
        figures.push(bar_chart::draw("summary-narrow", title, &groups, words, true));
    }
    let rows = compared.iter().map(|section| ratio_chart::RatioRow {
        label: section.title.clone(),
        dots: section
            .rows
            .iter()
            .filter_map(|pair| Some((format!("{}, {}", pair.what, pair.on), pair.ratio()?)))
            .collect(),
    });
    let rows: Vec<ratio_chart::RatioRow> = rows.filter(|row| !row.dots.is_empty()).collect();
    let title = "Published numbers: measured divided by published";
    figures.extend(ratio_chart::draw("ratios", title, &rows));
    for benchmark in measured.benchmarks.iter().filter(|benchmark| !benchmark.curves()) {
        let represented = alike::representatives(benchmark);
        for (n, series) in benchmark.series.iter().enumerate() {
            if series.kind == MetricKind::CpuPercent || represented.get(n) != Some(&n) {
                continue;
            }
            let title = format!("{}: {}", benchmark.title, series.title);
            let id = id(benchmark, series);
            let names = &measured.short;
            let name = |kind: &str| format!("{id}-{kind}");
            figures.extend(triangle::draw(&name("triangle"), &title, &series.cells, names));
            figures.extend(lattice::draw(&name("lattice"), &title, &series.cells, names));
            let levels = measured.axes.iter().filter_map(|axis| {
                let id = level_id(benchmark, series, axis);
                interaction::draw(&id, &title, &series.cells, names, axis)
            });
            figures.extend(levels);
            let (words, metric) = (&benchmark.words, &series.metric);
            let Some(cells) = published_cells(measured, published, words, metric) else { continue };
            let title = format!("{title}, published");
            figures.extend(triangle::draw(&name("published-triangle"), &title, &cells, names));
            figures.extend(lattice::draw(&name("published-lattice"), &title, &cells, names));
        }
    }
    let drawn = cost_curves::all(measured);
    figures.extend(CURVE_CHARTS.iter().filter_map(|chart| chart.draw(&drawn, published)));
    figures
}

/// The published seconds of a result by the combinations of this study. `None` without the seconds
/// of no option and of another combination.
pub(super) fn published_cells(
    measured: &StudyData,
    published: &Published,
    words: &str,
    metric: &str,
) -> Option<Cells> {
    let mut cells = Cells::of(&measured.design);
    let sections = published.sections.iter().filter(|s| s.kind == NumberKind::Seconds);
    for number in sections.flat_map(|section| &section.rows) {
        let (at, of) = number.at.split_once('/').unwrap_or((&number.at, ""));
        let same = of == metric && measured.benchmark(at).is_some_and(|b| b.words == words);
        if let Some(on) = measured.combination(&number.on).filter(|_| same) {
            cells.add(on, number.value);
        }
    }
    cells.base()?;
    let known = cells.combinations().filter(|at| cells.mean(*at).is_some()).count();
    (known > 1).then_some(cells)
}

/// The benchmarks and results of the summary: the rows of Figure 10, and all results of benchmarks
/// that the figure lacks.
fn groups(measured: &StudyData, published: &Published) -> Vec<BarGroup> {
    let group = |benchmark: &Benchmark| {
        let known = published.rows().any(|(_, (words, _), _)| {
            measured.benchmark(words).is_some_and(|found| found.words == benchmark.words)
        });
        let shown = |series: &&ResultSeries| {
            let row = published.rows().any(|(_, (words, metric), _)| {
                metric == series.metric
                    && measured.benchmark(words).is_some_and(|b| b.words == benchmark.words)
            });
            series.kind != MetricKind::CpuPercent && (row || !known)
        };
        let represented = &alike::representatives(benchmark);
        let like = |n: usize| {
            let of = benchmark.series.iter().enumerate().filter(|(_, series)| shown(series));
            let mine = represented.get(n);
            of.filter(move |(m, _)| represented.get(*m) == mine).map(|(m, _)| m)
        };
        let row = |(n, series): (usize, &ResultSeries)| Bar {
            label: match like(n).count() {
                0 | 1 => series.title.clone(),
                all => format!("{} and {} alike", series.title, all - 1),
            },
            link: id(benchmark, series),
            path: StepwisePath::of(&series.cells),
        };
        let all = benchmark.series.iter().enumerate().filter(|(_, series)| shown(series));
        let rows = all.filter(|(n, _)| like(*n).next() == Some(*n)).map(row).collect();
        BarGroup { title: benchmark.title.clone(), rows }
    };
    let benchmarks = measured.benchmarks.iter().filter(|benchmark| !benchmark.curves());
    benchmarks.map(group).filter(|group| !group.rows.is_empty()).collect()
}

impl CurveChart {
    fn draw(
        &self,
        all: &std::collections::BTreeMap<u8, Vec<Curve>>,
        published: &Published,
    ) -> Option<Figure> {
        let found = self.which.iter().filter_map(|name| cost_curves::find(all, self.figure, name));
        let curves: Vec<Curve> = found.cloned().collect();
        let axes = Axes {
            x: "entries".to_owned(),
            y: "µs for each operation".to_owned(),
            log: false,
            levels: self.levels(published),
            names: Vec::new(),
        };
        draw(self.id, self.title, &curves, &axes)
    }

    /// The published levels of the curves that are drawn.
    fn levels(&self, published: &Published) -> Vec<ReferenceLine> {
        let sections = published.sections.iter().filter(|section| section.kind == NumberKind::Each);
        sections.flat_map(|section| &section.rows).flat_map(|number| self.level(number)).collect()
    }

    /// The lines of a published number of this figure: of a range both ends. A level that grows is
    /// published for one size only.
    fn level(&self, number: &PublishedNumber) -> Vec<ReferenceLine> {
        let curve = || {
            let rest = number.at.strip_prefix("micro/fig")?;
            let (figure, rest) = rest.split_once('/')?;
            let (name, _) = rest.rsplit_once('/')?;
            (figure.parse() == Ok(self.figure) && self.which.contains(&name)).then_some(name)
        };
        let Some(name) = curve() else { return Vec::new() };
        let line = |words: &str, value| ReferenceLine { name: format!("{name}, {words}"), value };
        match number.high {
            Some(high) => {
                vec![line("published at least", number.value), line("published at most", high)]
            }
            None => vec![line("published", number.value)],
        }
    }
}
