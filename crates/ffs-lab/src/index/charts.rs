//! The charts: Phillips' comparison redrawn, one line for each index.

use super::IndexKind;
use super::plan::NameOrder::{self, Number, Random};
use super::run::{IndexResults, IndexRow};
use crate::plot::Figure;
use crate::plot::line_chart::{Axes, Curve, draw};
use crate::plot::svg::sheet;

/// A chart.
struct Chart {
    id: &'static str,
    title: &'static str,
    phase: &'static str,
    created: NameOrder,
    deleted: NameOrder,
    /// The sizes of the directories.
    files: std::ops::RangeInclusive<u32>,
}

/// Sizes of small directories, of the mail's first chart, and beyond.
const SMALL: std::ops::RangeInclusive<u32> = 1..=1000;
const LARGE: std::ops::RangeInclusive<u32> = 1001..=100_000;
const HUGE: std::ops::RangeInclusive<u32> = 100_001..=u32::MAX;

const fn chart(
    id: &'static str,
    title: &'static str,
    phase: &'static str,
    (created, deleted): (NameOrder, NameOrder),
    files: std::ops::RangeInclusive<u32>,
) -> Chart {
    Chart { id, title, phase, created, deleted, files }
}

const IN_ORDER: (NameOrder, NameOrder) = (Number, Number);
const SHUFFLED: (NameOrder, NameOrder) = (Random, Random);

const CHARTS: [Chart; 14] = [
    chart("create-number", "create, names by number", "create", IN_ORDER, LARGE),
    chart("create-random", "create, names in random order", "create", SHUFFLED, LARGE),
    chart("delete-number", "delete in the order of creation", "delete", IN_ORDER, LARGE),
    chart("delete-random", "delete in random order", "delete", SHUFFLED, LARGE),
    chart("list-stat", "stat each file of a cold listing", "list-stat", SHUFFLED, LARGE),
    chart("miss", "look up a missing name", "miss", SHUFFLED, LARGE),
    chart("small-create", "create, small directories", "create", SHUFFLED, SMALL),
    chart("small-delete", "delete, small directories", "delete", SHUFFLED, SMALL),
    chart(
        "number-random",
        "delete in random order, created by number",
        "delete",
        (Number, Random),
        LARGE,
    ),
    chart(
        "random-number",
        "delete by number, created in random order",
        "delete",
        (Random, Number),
        LARGE,
    ),
    chart("huge-create-number", "create, names by number", "create", IN_ORDER, HUGE),
    chart("huge-create-random", "create, names in random order", "create", SHUFFLED, HUGE),
    chart("huge-delete-random", "delete in random order", "delete", SHUFFLED, HUGE),
    chart("huge-list-stat", "stat each file of a cold listing", "list-stat", SHUFFLED, HUGE),
];

impl Chart {
    fn has(&self, row: &IndexRow) -> bool {
        row.phase == self.phase
            && (row.created, row.deleted) == (self.created, self.deleted)
            && self.files.contains(&row.files)
    }

    fn draw(&self, rows: &[IndexRow]) -> Option<Figure> {
        // A few writes at the end decide the elapsed time of small directories.
        let cpu = *self.files.end() <= 1000;
        let curve = |kind: IndexKind| {
            let rows = rows.iter().filter(|row| row.index == kind.name() && self.has(row));
            let cost = |row: &IndexRow| if cpu { row.cpu_us } else { row.us };
            let points = rows.map(|row| (f64::from(row.files), cost(row))).collect();
            Curve { name: kind.name().to_owned(), points }
        };
        // Every chart has the same curves, so that each index has one colour.
        let measured = |kind: &IndexKind| rows.iter().any(|row| row.index == kind.name());
        let kinds = IndexKind::ALL.into_iter().filter(|kind| *kind != IndexKind::Control);
        let curves: Vec<Curve> = kinds.filter(measured).map(curve).collect();
        let axes = Axes {
            x: "files".to_owned(),
            y: if cpu { "µs of the processor" } else { "µs for each file" }.to_owned(),
            log: true,
            levels: Vec::new(),
            names: Vec::new(),
        };
        draw(&format!("index-{}", self.id), self.title, &curves, &axes)
    }
}

impl IndexResults {
    /// The charts as SVG: the name and the content of each file. The first has all of them.
    #[must_use]
    pub fn charts(&self) -> Vec<(String, String)> {
        let drawn = |chart: &Chart| chart.draw(&self.rows);
        let figures: Vec<Figure> = CHARTS.iter().filter_map(drawn).collect();
        if figures.is_empty() {
            return Vec::new();
        }
        let title = "Directory indexes: virtual time for each file";
        let all = ("indexes.svg".to_owned(), sheet("indexes", title, &figures, 2));
        let single = figures.iter().map(|figure| (format!("{}.svg", figure.id), figure.file()));
        std::iter::once(all).chain(single).collect()
    }
}
