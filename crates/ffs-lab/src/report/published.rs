//! What others measured: the numbers of `published.toml`.

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::statistics::{Cells, Combination};

/// The file.
const TEXT: &str = include_str!("published.toml");

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    /// Numbers that belong together.
    #[serde(rename = "section")]
    pub sections: Vec<PublishedSection>,
    /// The significant options, by benchmark.
    #[serde(rename = "list")]
    pub lists: Vec<OptionList>,
}

/// Numbers of one kind from one place.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedSection {
    /// The title of the section.
    pub title: String,
    /// The source: `P`, `S`, `N`, `D`.
    pub source: String,
    /// The kind of the numbers.
    pub kind: NumberKind,
    /// What its numbers are, if they are counted. Numbers that follow from others are not.
    pub count: Option<String>,
    /// The numbers.
    pub rows: Vec<PublishedNumber>,
}

/// The kind of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NumberKind {
    /// Seconds a result took.
    Seconds,
    /// Microseconds for each unit of work.
    Each,
    /// Percent of the time without options.
    Percent,
    /// Population sigma / root n, percent of the time without options.
    Error,
    /// The gain from one combination to another: old cost divided by new.
    Factor,
    /// The change of the time from one combination to another, percent.
    Change,
    /// A term of the model, percent.
    Term,
    /// Its standard error.
    TermError,
    /// Units of work for each second.
    Rate,
    /// The hit rate of the name cache, percent.
    NameCache,
    /// Processor time in percent of the elapsed time.
    Processor,
    /// Searches of directories in percent of the processor time.
    Search,
}

/// A number.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedNumber {
    /// Workload and metric.
    pub at: String,
    /// Options that are on.
    pub on: String,
    /// For gains and changes: the options afterwards.
    pub to: Option<String>,
    /// The number, or the low end of a range.
    pub value: f64,
    /// The high end of a range.
    pub high: Option<f64>,
    /// Its unit, if its kind does not imply one.
    pub unit: Option<String>,
    /// The machine was calibrated with it.
    #[serde(default)]
    pub calibrated: bool,
    /// It follows from another number of the file.
    #[serde(default)]
    pub follows: bool,
}

/// The rows of Figure 10 of one benchmark.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OptionList {
    /// The name of the benchmark in the figure.
    pub group: String,
    /// The workload, if the rows have only a metric.
    pub workload: Option<String>,
    /// The rows.
    pub rows: Vec<OptionRow>,
}

/// A row of Figure 10.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OptionRow {
    /// Workload and metric, or the metric.
    pub at: String,
    /// The significant options, in order.
    pub options: Vec<String>,
}

impl Published {
    /// Reads the built-in file.
    ///
    /// # Errors
    /// [`LabError::Plan`] if the built-in file is invalid.
    pub(super) fn read() -> Result<Published> {
        toml::from_str(TEXT).map_err(|error| LabError::Plan(format!("published.toml: {error}")))
    }

    /// The rows of Figure 10 with workload and metric.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&OptionList, (&str, &str), &OptionRow)> {
        self.lists.iter().flat_map(|list| {
            let place = move |row| (list, list.place(row), row);
            list.rows.iter().map(place)
        })
    }

    /// Table 1 as runs: four of each combination of su, dp, vm and dh, with the published mean and
    /// error.
    #[must_use]
    pub(super) fn table1(&self) -> Cells {
        let mut cells = Cells::new(4);
        let of = |kind: NumberKind| -> Vec<&PublishedNumber> {
            let sections = self.sections.iter().filter(|section| section.kind == kind);
            sections
                .flat_map(|section| &section.rows)
                .filter(|n| n.at == "buildworld/build")
                .collect()
        };
        let (means, errors) = (of(NumberKind::Seconds), of(NumberKind::Error));
        let base = means.iter().find(|n| n.on == "none").map_or(1.0, |n| n.value);
        for number in means {
            let error = errors.iter().find(|e| e.on == number.on).map_or(0.0, |e| e.value);
            let sigma = error / 100.0 * base * 2.0;
            for sign in [-1.0, 1.0, -1.0, 1.0] {
                cells.add(bits(&number.on), number.value + sign * sigma);
            }
        }
        cells
    }
}

impl OptionList {
    fn place<'a>(&'a self, row: &'a OptionRow) -> (&'a str, &'a str) {
        match &self.workload {
            Some(workload) => (workload, &row.at),
            None => row.at.split_once('/').unwrap_or((&row.at, "")),
        }
    }
}

/// The paper's options.
pub(super) const PAPER: [&str; 4] = ["su", "dp", "vm", "dh"];

/// A combination of the paper's options.
fn bits(name: &str) -> Combination {
    let bit = |word: &str| PAPER.iter().position(|option| *option == word);
    name.split('+').filter_map(bit).fold(Combination::NONE, Combination::with)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole() {
        let published = Published::read().unwrap();
        assert_eq!(published.rows().count(), 51, "rows of Figure 10");
        let table1 = published.table1();
        assert_eq!(table1, crate::statistics::table1::cells(), "the fixture of the golden tests");
        for section in &published.sections {
            assert!(
                !section.rows.is_empty() && "PSNHD".contains(&section.source),
                "{}",
                section.title
            );
            for n in &section.rows {
                let change = matches!(section.kind, NumberKind::Factor | NumberKind::Change);
                assert_eq!(n.to.is_some(), change, "{n:?}");
                assert!(n.high.is_none_or(|high| high > n.value), "{n:?}");
            }
        }
    }

    /// The derived numbers of the slides follow from the seconds.
    #[test]
    fn factors_are_those_of_the_seconds() {
        let published = Published::read().unwrap();
        let seconds = &published.sections[0];
        let value = |at: &str, on: &str| {
            let found = seconds.rows.iter().find(|n| n.at == at && n.on == on);
            found.map(|n| n.value)
        };
        for n in &published.sections[1].rows {
            let to = n.to.as_deref().unwrap();
            let factor = value(&n.at, &n.on).unwrap() / value(&n.at, to).unwrap();
            assert!((factor / n.value - 1.0).abs() < 0.02, "{n:?}: {factor}");
        }
    }
}
