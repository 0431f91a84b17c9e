//! `ffs lab chart`: the results of several comparisons together.

use std::io::Write;
use std::path::PathBuf;

use ffs_device::host_words;
use ffs_lab::compare::results::{self, groups, parse};

use super::compare::print_group;
use crate::fail::{Failure, Outcome};
use crate::output;

/// Tables and a page of the results of `ffs lab compare --json`
///
/// Results of one workload with the same --setup are one table. A result that is there several
/// times counts once: the last time.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Files with lines of `ffs lab compare --json`
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Write a page with figures instead of tables
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(args: Args) -> Outcome {
    let mut rows = Vec::new();
    for file in &args.files {
        let text = std::fs::read_to_string(file)
            .map_err(|e| Failure::new(file.display(), host_words(e)))?;
        rows.extend(parse(&text).map_err(|e| Failure::new(file.display(), e))?);
    }
    let groups = groups(rows);
    if let Some(page) = &args.html {
        let text = results::page(&groups)?;
        std::fs::write(page, text).map_err(|e| Failure::new(page.display(), host_words(e)))?;
        return Ok(0);
    }
    let mut out = output::stdout();
    for group in &groups {
        writeln!(out, "{}\n", group.title)?;
        print_group(&mut out, group)?;
        writeln!(out)?;
    }
    out.flush()?;
    Ok(0)
}
