//! The report of a study: one HTML page, its figures as files, and the same tables for a terminal.
//!
//! | module | holds |
//! | --- | --- |
//! | `study_data` | the results of a study by benchmark, result and combination of options |
//! | `published` | the numbers that others measured, with their sources |
//! | `reproduction` | reproduced numbers beside published numbers, with ratios |
//! | `criteria` | the targets of a reproduction, and the reasons for a miss |
//! | `cost_curves` | the cost curves and the sizes at which they jump |
//! | `explain` | the counters behind a time, and one sentence about them |
//! | `export` | the results as CSV files with a dictionary |
//! | `score` | how many published numbers are reached within which factor |
//! | `comparison` | the published numbers and ours, as a table for a document |
//! | `command` | the command line that runs the same study again |
//! | `alike` | results of a benchmark with the same gains, shown as one |
//! | `charts` | the figures of the report |
//! | `page` | the HTML page |
//! | `text` | the tables for a terminal |
//! | [`mod@format`] | numbers as text |
//!
//! # Invariants
//! 1. The report depends on the results only: same results, same bytes.
//! 2. The page is one file. A browser loads nothing else to show it.
//! 3. The report names each result that is missing. It never fills one in.
//! 4. A report file appears under its name, or replaces its predecessor, only when it is complete.
//!
//! Reference: `docs/spec/benchmarks.md` §2, §3.4, §7.

mod alike;
mod charts;
mod command;
mod comparison;
mod cost_curves;
mod criteria;
mod explain;
mod export;
pub mod format;
mod page;
mod published;
mod reproduction;
mod score;
mod study_data;
#[cfg(test)]
pub(crate) mod tests;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{LabError, Result};
use crate::plot::Figure;
use crate::study::Results;
use criteria::Criterion;
pub use export::{dictionary, export};
use published::Published;
use reproduction::ComparedSection;
use score::Score;
use study_data::StudyData;
pub use text::{Detail, render};

/// The content of a report.
#[derive(Debug)]
pub struct Report {
    /// The results.
    pub(crate) measured: StudyData,
    /// Measured and published numbers, by section.
    pub(crate) compared: Vec<ComparedSection>,
    /// How many of the published numbers are reached.
    pub(crate) scores: Vec<Score>,
    /// The targets of a reproduction.
    pub(crate) targets: Vec<Criterion>,
    /// The figures, in the order of the page.
    pub(crate) figures: Vec<Figure>,
    /// Other studies, for the what-if panel of the page.
    others: Vec<StudyData>,
    published: Published,
}

/// The files of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenReport {
    /// The page.
    pub page: PathBuf,
    /// The number of figures and tables beside it.
    pub files: usize,
}

impl Report {
    /// Makes the report of a study, finished or not.
    ///
    /// # Errors
    /// [`LabError::Plan`] if the results have more factors than a report can show.
    pub fn of(results: &Results) -> Result<Report> {
        let measured = StudyData::of(results)?;
        let published = Published::read()?;
        let compared = reproduction::all(&measured, &published);
        let scores = score::all(&compared);
        let targets = criteria::all(&measured, &published, &compared);
        let figures = charts::all(&measured, &published, &compared);
        Ok(Report { measured, compared, scores, targets, figures, others: Vec::new(), published })
    }

    /// Adds another study, whose results the page offers in its what-if panel beside those of this
    /// study.
    ///
    /// # Errors
    /// As [`Report::of`].
    pub fn with(mut self, other: &Results) -> Result<Report> {
        self.others.push(StudyData::of(other)?);
        Ok(self)
    }

    /// Writes `report.html`, each figure with its data to `figures/`, and `comparison.md`: every
    /// published number beside ours.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if a file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<WrittenReport> {
        let figures = dir.join("figures");
        let made = fs::create_dir_all(&figures);
        made.map_err(|error| LabError::unusable(&figures.display().to_string(), error))?;
        let page = dir.join("report.html");
        put(&page, &self.html()?)?;
        put(&dir.join("comparison.md"), &comparison::markdown(self))?;
        let mut files = 0;
        for figure in &self.figures {
            put(&figures.join(format!("{}.svg", figure.id)), &figure.file())?;
            put(&figures.join(format!("{}.csv", figure.id)), &figure.csv)?;
            files += 2;
        }
        for (name, table) in text::csv(self) {
            put(&figures.join(format!("{name}.csv")), &table)?;
            files += 1;
        }
        Ok(WrittenReport { page, files })
    }

    /// The HTML page.
    ///
    /// # Errors
    /// [`LabError::Plan`] if the template fails.
    pub(crate) fn html(&self) -> Result<String> {
        page::render(self)
    }

    /// A figure by its name.
    #[must_use]
    pub(crate) fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }
}

/// Writes a file beside its name, then renames it: the name never has an incomplete file.
fn put(path: &Path, text: &str) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // If this fails too, the next report overwrites the file.
        let _ = fs::remove_file(&beside);
        LabError::unusable(&path.display().to_string(), error)
    })
}
