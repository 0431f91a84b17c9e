//! `ffs lab report`.

use std::io::Write;
use std::path::{Path, PathBuf};

use ffs_lab::report::{Detail, Report, render};
use ffs_lab::study::Results;

use crate::fail::{Failure, Outcome};
use crate::output;

/// The report of a study, finished or not
///
/// Writes DIR/report.html, one page with everything in it, and DIR/figures with every picture as
/// SVG and its numbers as CSV; the same results give the same bytes. In a browser the figures can
/// be filtered, sorted and compared with the published numbers, without a network. The terminal
/// gets a line a result and the targets of a reproduction, with --tables every rank table and
/// model, and published numbers with their ratios.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A study's directory, or its results file
    #[arg(value_name = "DIR|FILE")]
    results: PathBuf,

    /// Where the report goes [default: beside the results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Another study, for the what-if panel of the page: of another machine or another size of
    /// memory, say; may be given several times
    #[arg(long, value_name = "DIR|FILE")]
    with: Vec<PathBuf>,

    /// Print every table
    #[arg(long)]
    tables: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let results = Results::read(&args.results, &mut |note| output::warn(note))?;
    let beside = || {
        let file = args.results.is_file();
        let parent = args.results.parent().filter(|_| file).unwrap_or(&args.results);
        if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() }
    };
    let out = args.out.clone().unwrap_or_else(beside);
    let mut report = Report::of(&results)?;
    for other in &args.with {
        report = report.with(&Results::read(other, &mut |note| output::warn(note))?)?;
    }
    put(&report, &out, if args.tables { Detail::Everything } else { Detail::Summary })?;
    Ok(0)
}

/// Writes the report of `results` into `dir`, and prints as much of it as wanted.
pub(crate) fn make(results: &Results, dir: &Path, detail: Detail) -> Result<(), Failure> {
    put(&Report::of(results)?, dir, detail)
}

fn put(report: &Report, dir: &Path, detail: Detail) -> Result<(), Failure> {
    let written = report.write(dir)?;
    let mut out = output::stdout();
    write!(out, "{}", render(report, detail))?;
    writeln!(out, "\nreport: {}", written.page.display())?;
    out.flush()?;
    Ok(())
}
