//! The report of a study: one HTML page, its figures as files, and the same tables for a terminal.
//!
//! | module | holds |
//! | --- | --- |
//! | `study_data` | the results of a study by benchmark, result and combination of options |
//! | `published` | the numbers that others measured, with their sources |
//! | `reproduction` | reproduced numbers beside published numbers, with ratios |
//! | `criteria` | what a reproduction has to reach, and by which mechanism it misses |
//! | `cost_curves` | the cost curves and the sizes at which they jump |
//! | `explain` | the counters behind a time, and one sentence about them |
//! | `mechanism` | the known reasons for a miss |
//! | `command` | the command line that runs the same study again |
//! | `charts` | the figures of the report |
//! | `page` | the HTML page |
//! | `text` | the tables for a terminal |
//! | [`format`] | numbers as text |
//!
//! # Invariants
//! 1. The report depends on the results only: same results, same bytes.
//! 2. The page is one file. A browser loads nothing else to show it.
//! 3. The report names each result that is missing. It never fills one in.
//! 4. A report file appears under its name, or replaces its predecessor, only when it is complete.
//!
//! Reference: `docs/spec/benchmarks.md` §2, §3.4, §7.

mod charts;
mod command;
mod cost_curves;
mod criteria;
mod explain;
pub mod format;
mod mechanism;
mod page;
mod published;
mod reproduction;
mod study_data;
#[cfg(test)]
mod tests;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{LabError, Result};
use crate::plot::Figure;
use crate::study::Results;
use criteria::Criterion;
use published::Published;
use reproduction::ComparedSection;
use study_data::StudyData;
pub use text::{Detail, render};

/// Everything a report tells.
#[derive(Debug)]
pub struct Report {
    /// The results.
    pub measured: StudyData,
    /// Next to what others measured, by section.
    pub compared: Vec<ComparedSection>,
    /// What a reproduction has to reach.
    pub targets: Vec<Criterion>,
    /// Pictures, by their place in the page.
    pub figures: Vec<Figure>,
    published: Published,
}

/// Files of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenReport {
    /// The page.
    pub page: PathBuf,
    /// Pictures and tables besides.
    pub files: usize,
}

impl Report {
    /// Makes the report of a study, finished or not.
    ///
    /// # Errors
    /// [`LabError::Plan`] if the results have more combinations than can be told apart.
    pub fn of(results: &Results) -> Result<Report> {
        let measured = StudyData::of(results)?;
        let published = Published::read()?;
        let compared = reproduction::all(&measured, &published);
        let targets = criteria::all(&measured, &published);
        let figures = charts::all(&measured, &published, &compared);
        Ok(Report { measured, compared, targets, figures, published })
    }

    /// Writes `report.html`, and `figures/` with every picture and its data.
    ///
    /// # Errors
    /// [`LabError::Unusable`] with the file that cannot be written.
    pub fn write(&self, dir: &Path) -> Result<WrittenReport> {
        let figures = dir.join("figures");
        let made = fs::create_dir_all(&figures);
        made.map_err(|error| LabError::unusable(&figures.display().to_string(), error))?;
        let page = dir.join("report.html");
        put(&page, &self.html()?)?;
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

    /// The page.
    ///
    /// # Errors
    /// None but those of the template, which has none.
    pub fn html(&self) -> Result<String> {
        page::render(self)
    }

    /// A picture by its name.
    #[must_use]
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }
}

/// Writes a file that is there whole or, whatever ends the program, not at all.
fn put(path: &Path, text: &str) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // What is left of it would be overwritten by the next.
        let _ = fs::remove_file(&beside);
        LabError::unusable(&path.display().to_string(), error)
    })
}
