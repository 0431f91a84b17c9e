//! `ffs lab serve`.

use std::io::Write;
use std::path::PathBuf;

use ffs_lab::serve::{PORT, Server};

use crate::fail::Outcome;
use crate::output;
use crate::signals;

/// A running study in the browser
///
/// Serves the report of the results so far on this computer alone (127.0.0.1), and prints its
/// address. The page shows how many runs are finished, and new results as they come. Nothing is
/// written, and the study may run, end or begin later. ^C ends the server.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The directory of a study, or its results file
    #[arg(value_name = "DIR|FILE")]
    results: PathBuf,

    /// The port; 0: any free one
    #[arg(long, value_name = "N", default_value_t = PORT)]
    port: u16,
}

pub(super) fn run(args: &Args) -> Outcome {
    let server = Server::bind(&args.results, args.port)?;
    let mut out = output::stdout();
    writeln!(out, "{}", server.url())?;
    out.flush()?;
    server.run(&mut || !signals::interrupted())?;
    Ok(0)
}
