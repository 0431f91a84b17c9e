//! `ffs lab figures`.

use std::io::Write;

use ffs_lab::cost_curves::{CurveRequest, FIGURES, Point};
use ffs_lab::{LabError, TargetSpec};

use super::{Bar, context};
use crate::fail::{Failure, Outcome};
use crate::output;

/// The cost curves of the paper's Figures 2 to 6, as comma-separated values
///
/// What creating (2), removing (3) and looking at files costs as a directory grows, in listing
/// order (4), in random order (5) and for names that do not exist (6): without and with dirhash,
/// from the name cache with several limits of inodes, and with and without priming. The last
/// columns are work, not time: they are the same on every machine.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Only this figure; may be given several times
    #[arg(long, value_name = "2-6")]
    figure: Vec<u8>,

    /// Entries of the largest directory
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max: u32,

    /// Entries between two points of Figures 3 to 6
    #[arg(long, value_name = "N", default_value_t = 500,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    step: u32,

    /// The library, or it on the machine of 2002, with mount options for all curves
    #[arg(long, value_name = "core:...|sim:...", default_value = "core")]
    target: String,

    /// All orders follow from it
    #[arg(long, default_value_t = 2002)]
    seed: u64,

    /// Rounds; a point is their median
    #[arg(long, value_name = "R", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Print one line of JSON a point
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let base = TargetSpec::parse(&args.target)?;
    if base.as_core().is_none() && base.as_sim().is_none() {
        let why =
            format!("'{}': the figures are of the library alone, 'core' or 'sim'", args.target);
        return Err(LabError::Plan(why).into());
    }
    let request = CurveRequest {
        figures: if args.figure.is_empty() { FIGURES.to_vec() } else { args.figure },
        max: args.max,
        step: args.step.min(args.max),
        seed: args.seed,
        rounds: args.rounds,
        base,
    };
    let mut bar = Bar::new(request.operations());
    let points = request.run(&context(request.seed), &mut bar)?;
    drop(bar);
    let mut out = output::stdout();
    if !args.json {
        writeln!(out, "{}", Point::CSV_HEAD)?;
    }
    for point in &points {
        line(&mut out, point, args.json)?;
    }
    out.flush()?;
    Ok(0)
}

fn line(out: &mut impl Write, point: &Point, json: bool) -> Result<(), Failure> {
    if json {
        return output::json_line(out, point);
    }
    writeln!(out, "{}", point.csv())?;
    Ok(())
}
