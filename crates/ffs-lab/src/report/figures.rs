//! The pictures of a report.

use super::compare::Compared;
use super::curves;
use super::data::{Benchmark, Measured, Series, slug};
use super::published::{Kind, Published};
use crate::plot::bars::{self, Group, Row, Words};
use crate::plot::curves::{Axes, Curve, Level, draw};
use crate::plot::ratios;
use crate::plot::{Figure, lattice, triangle};
use crate::stat::SummaryPath;
use crate::work::MetricKind;

/// The name of a result in addresses and files.
pub(super) fn id(benchmark: &Benchmark, series: &Series) -> String {
    format!("{}-{}", benchmark.slug, slug(&series.metric))
}

/// A picture of the cost curves: its name, its figure, its title, and which curves.
struct Plate {
    id: &'static str,
    figure: u8,
    title: &'static str,
    which: &'static [&'static str],
}

const PLATES: [Plate; 8] = [
    Plate { id: "fig2", figure: 2, title: "Figure 2: create", which: &["linear", "dirhash"] },
    Plate {
        id: "fig2-small",
        figure: 2,
        title: "Figure 2: create, small directories",
        which: &["linear-small", "dirhash-small"],
    },
    Plate { id: "fig3", figure: 3, title: "Figure 3: remove", which: &["linear", "dirhash"] },
    Plate {
        id: "fig4",
        figure: 4,
        title: "Figure 4: stat in listing order",
        which: &["linear", "dirhash", "name-cache"],
    },
    Plate {
        id: "fig4-minvnodes",
        figure: 4,
        title: "Figure 4: the jump moves with kern.minvnodes",
        which: &["name-cache-minvnodes=1000", "name-cache-minvnodes=4000", "name-cache"],
    },
    Plate {
        id: "fig4-primed",
        figure: 4,
        title: "Figure 4: the first look after creation",
        which: &["not-primed", "primed"],
    },
    Plate {
        id: "fig5",
        figure: 5,
        title: "Figure 5: stat in random order",
        which: &["linear", "dirhash", "name-cache"],
    },
    Plate {
        id: "fig6",
        figure: 6,
        title: "Figure 6: stat of missing names",
        which: &["linear", "dirhash", "linear-again", "dirhash-again"],
    },
];

/// Names of the pictures of cost curves.
pub(super) fn plates() -> impl Iterator<Item = &'static str> {
    PLATES.iter().map(|plate| plate.id)
}

/// Draws all of them.
pub(super) fn all(
    measured: &Measured,
    published: &Published,
    compared: &[Compared],
) -> Vec<Figure> {
    let mut figures = Vec::new();
    let groups = groups(measured, published);
    if groups.iter().any(|group| group.rows.iter().any(|row| row.path.is_some())) {
        let words = Words { short: &measured.short, long: &measured.long };
        let title = "What the options do to every benchmark";
        figures.push(bars::draw("summary", title, &groups, words, false));
        figures.push(bars::draw("summary-narrow", title, &groups, words, true));
    }
    let rows = compared.iter().map(|section| ratios::Row {
        label: section.title.clone(),
        dots: section
            .rows
            .iter()
            .filter_map(|pair| Some((format!("{}, {}", pair.what, pair.on), pair.ratio?)))
            .collect(),
    });
    let rows: Vec<ratios::Row> = rows.filter(|row| !row.dots.is_empty()).collect();
    let title = "Every published number: measured by published";
    figures.extend(ratios::draw("ratios", title, &rows));
    for benchmark in measured.benchmarks.iter().filter(|benchmark| !benchmark.curves()) {
        for series in benchmark.series.iter().filter(|s| s.kind != MetricKind::CpuPercent) {
            let title = format!("{}: {}", benchmark.title, series.title);
            let id = id(benchmark, series);
            let names = &measured.short;
            let name = |kind: &str| format!("{id}-{kind}");
            figures.extend(triangle::draw(&name("triangle"), &title, &series.cells, names));
            figures.extend(lattice::draw(&name("lattice"), &title, &series.cells, names));
        }
    }
    let drawn = curves::all(measured);
    figures.extend(PLATES.iter().filter_map(|plate| plate.draw(&drawn, published)));
    figures
}

/// Benchmarks and their results as the summary has them: the rows of Figure 10, and all of what the
/// paper has not.
fn groups(measured: &Measured, published: &Published) -> Vec<Group> {
    let group = |benchmark: &Benchmark| {
        let known = published.rows().any(|(_, (words, _), _)| {
            measured.benchmark(words).is_some_and(|found| found.words == benchmark.words)
        });
        let shown = |series: &&Series| {
            let row = published.rows().any(|(_, (words, metric), _)| {
                metric == series.metric
                    && measured.benchmark(words).is_some_and(|b| b.words == benchmark.words)
            });
            series.kind != MetricKind::CpuPercent && (row || !known)
        };
        let row = |series: &Series| Row {
            label: series.title.clone(),
            link: id(benchmark, series),
            path: SummaryPath::of(&series.cells),
        };
        let rows = benchmark.series.iter().filter(shown).map(row).collect();
        Group { title: benchmark.title.clone(), rows }
    };
    let benchmarks = measured.benchmarks.iter().filter(|benchmark| !benchmark.curves());
    benchmarks.map(group).filter(|group| !group.rows.is_empty()).collect()
}

impl Plate {
    fn draw(
        &self,
        all: &std::collections::BTreeMap<u8, Vec<Curve>>,
        published: &Published,
    ) -> Option<Figure> {
        let found = self.which.iter().filter_map(|name| curves::find(all, self.figure, name));
        let curves: Vec<Curve> = found.cloned().collect();
        let axes = Axes {
            x: "entries".to_owned(),
            y: "µs an operation".to_owned(),
            log: false,
            levels: self.levels(published),
        };
        draw(self.id, self.title, &curves, &axes)
    }

    /// The published levels of the curves that are drawn.
    fn levels(&self, published: &Published) -> Vec<Level> {
        let sections = published.sections.iter().filter(|section| section.kind == Kind::Each);
        let level = |number: &super::published::Number| {
            let rest = number.at.strip_prefix("micro/fig")?;
            let (figure, rest) = rest.split_once('/')?;
            let (name, _) = rest.rsplit_once('/')?;
            let mine = figure.parse() == Ok(self.figure) && self.which.contains(&name);
            // A level that grows is published for one size only.
            let name = format!("{name}, published");
            mine.then_some(Level { name, value: number.high.unwrap_or(number.value) })
        };
        sections.flat_map(|section| &section.rows).filter_map(level).collect()
    }
}
