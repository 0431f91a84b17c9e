//! The results as tables of text.

use super::IndexKind;
use super::plan::NameOrder;
use super::real::RealRow;
use super::run::{IndexResults, IndexRow, PHASES};

/// A table: the first row has the heads of the columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// What it shows, one line.
    pub title: String,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

fn number(value: f64) -> String {
    let digits = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

fn count(value: u64) -> String {
    value.to_string()
}

/// Indexes and phases down, sizes across: real processor time.
#[must_use]
pub fn real_times(rows: &[RealRow]) -> Table {
    let mut sizes: Vec<u32> = rows.iter().map(|row| row.files).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let heads = sizes.iter().map(|files| format!("{files} files"));
    let names = ["index", "phase"].map(str::to_owned).into_iter();
    let mut lines = vec![names.chain(heads).collect::<Vec<String>>()];
    for row in rows {
        let is_new = |line: &Vec<String>| line[0] == row.index && line[1] == row.phase;
        if lines.iter().any(is_new) {
            continue;
        }
        let same = || rows.iter().filter(|r| (r.index, r.phase) == (row.index, row.phase));
        let cell = |files: &u32| {
            let found = same().find(|row| row.files == *files);
            found.map_or("-".to_owned(), |row| number(row.real_cpu_us))
        };
        let names = [row.index, row.phase].map(str::to_owned).into_iter();
        lines.push(names.chain(sizes.iter().map(cell)).collect());
    }
    let title = "processor time of this computer, microseconds for each file, volume in memory";
    Table { title: title.to_owned(), rows: lines }
}

impl IndexResults {
    fn kinds(&self) -> Vec<IndexKind> {
        let measured = |kind: &IndexKind| self.rows.iter().any(|row| row.index == kind.name());
        IndexKind::ALL.into_iter().filter(measured).collect()
    }

    /// All tables: times, work, and crash states.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let mut orders: Vec<(NameOrder, NameOrder)> = Vec::new();
        for row in &self.rows {
            if !orders.contains(&(row.created, row.deleted)) {
                orders.push((row.created, row.deleted));
            }
        }
        let mut tables = Vec::new();
        for order in &orders {
            tables.extend(PHASES.map(|phase| self.times(*order, phase)));
        }
        tables.extend(orders.last().and_then(|order| self.work(*order)));
        tables.push(self.crash_states());
        tables
    }

    /// Sizes down, indexes across: microseconds for each operation.
    fn times(&self, (created, deleted): (NameOrder, NameOrder), phase: &str) -> Table {
        let kinds = self.kinds();
        let of = |row: &&IndexRow| {
            row.phase == phase && (row.created, row.deleted) == (created, deleted)
        };
        let mut sizes: Vec<u32> = self.rows.iter().filter(of).map(|row| row.files).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let heads = kinds.iter().map(|kind| kind.name().to_owned());
        let mut rows = vec![std::iter::once("files".to_owned()).chain(heads).collect()];
        for files in sizes {
            let cell = |kind: &IndexKind| {
                let mut rows = self.rows.iter().filter(of);
                let row = rows.find(|row| row.files == files && row.index == kind.name());
                row.map_or("-".to_owned(), |row| number(row.us))
            };
            let cells = kinds.iter().map(cell);
            rows.push(std::iter::once(files.to_string()).chain(cells).collect());
        }
        let (created, deleted) = (created.name(), deleted.name());
        let order = match phase {
            "delete" => format!("created {created}, deleted {deleted}"),
            _ => format!("created {created}"),
        };
        Table { title: format!("{phase}: virtual microseconds for each file, {order}"), rows }
    }

    /// The work at the largest size that every index has.
    fn work(&self, (created, deleted): (NameOrder, NameOrder)) -> Option<Table> {
        let kinds = self.kinds();
        let largest = |kind: &IndexKind| {
            let rows = self.rows.iter().filter(|row| row.index == kind.name());
            rows.map(|row| row.files).max()
        };
        let files = kinds.iter().filter_map(largest).min()?;
        let mut rows = vec![
            [
                "index",
                "phase",
                "us",
                "cpu us",
                "reads",
                "writes",
                "read KB",
                "written KB",
                "directory KB",
                "memory KB",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        for row in &self.rows {
            if row.files != files || (row.created, row.deleted) != (created, deleted) {
                continue;
            }
            let numbers = [
                number(row.us),
                number(row.cpu_us),
                count(row.reads),
                count(row.writes),
                count(row.read_kb),
                count(row.written_kb),
                count(row.bytes / 1024),
                count(row.memory.div_ceil(1024)),
            ];
            let names = [row.index, row.phase].map(str::to_owned);
            rows.push(names.into_iter().chain(numbers).collect());
        }
        let order = format!("created {}, deleted {}", created.name(), deleted.name());
        Some(Table { title: format!("work in directories of {files} files, {order}"), rows })
    }

    fn crash_states(&self) -> Table {
        let heads = [
            "index",
            "operation",
            "blocks",
            "new",
            "operations",
            "states",
            "lost",
            "untidy",
            "own order",
            "any order",
            "clean order",
        ];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        let word = |safe: bool| if safe { "safe" } else { "loses names" }.to_owned();
        for row in &self.crash {
            let clean = if row.clean_order { "yes" } else { "no" };
            rows.push(vec![
                row.index.to_owned(),
                row.operation.to_owned(),
                row.blocks.to_string(),
                row.new_blocks.to_string(),
                row.operations.to_string(),
                row.states.to_string(),
                row.lost.to_string(),
                row.untidy.to_string(),
                word(row.own_order_safe),
                word(row.safe_order),
                clean.to_owned(),
            ]);
        }
        let title = "states that a crash within one operation may leave, blocks of 1024 bytes";
        Table { title: title.to_owned(), rows }
    }
}
