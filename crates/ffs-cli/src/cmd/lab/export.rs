//! `ffs lab export`.

use std::io::Write;
use std::path::PathBuf;

use ffs_lab::report::{dictionary, export};
use ffs_lab::study::Results;

use crate::fail::Outcome;
use crate::output;

/// The results of a study as CSV files, finished or not
///
/// Writes runs.csv (a row for each run and result), phases.csv, counters.csv, published.csv (what
/// others measured) and dictionary.csv, which has type, unit and meaning of every column and
/// counter. Each factor is a column of 0 and 1, or of the numbers of its levels if it has more than
/// two. The same results give the same bytes.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A study's directory, or its results file
    #[arg(value_name = "DIR|FILE", required_unless_present = "dictionary")]
    results: Option<PathBuf>,

    /// Directory for the files; made if it is not there
    #[arg(short, long, value_name = "DIR", required_unless_present = "dictionary")]
    out: Option<PathBuf>,

    /// Print the dictionary as a table in Markdown, and export nothing
    #[arg(long, conflicts_with_all = ["results", "out"])]
    dictionary: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let mut out = output::stdout();
    if let (Some(results), Some(dir)) = (&args.results, &args.out) {
        let results = Results::read(results, &mut |note| output::warn(note))?;
        for path in export(&results, dir)? {
            writeln!(out, "{}", path.display())?;
        }
    } else {
        write!(out, "{}", dictionary())?;
    }
    out.flush()?;
    Ok(0)
}
