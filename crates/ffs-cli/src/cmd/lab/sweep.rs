//! `ffs lab sweep`.

use std::io::Write;
use std::path::{Path, PathBuf};

use ffs_lab::report::format;
use ffs_lab::sweep::{CurveSetting, Sweep, SweepPoint, files, parse_over};

use super::{Bar, context};
use crate::fail::{Failure, Outcome};
use crate::output;

/// One workload over the values of a setting, under several combinations of switches
///
/// Shows how the effect of a switch depends on something else: the memory, the drive, the number of
/// files. Each result gives a table with a line for each value and a column for each curve. Curves
/// that are not parallel interact.
///
/// The setting is a parameter of the workload (`ffs lab list`) or an option of the target. On `sim`
/// the memory of the machine (`memory`), its drive (`machine`: ide2001-5400, ide2001-7200,
/// scsi2002-15k, sata2016-7200, smr2014-5900, ssd2009, nvme2019, nvme2019-queue32) and the speed of
/// its processor (`processor`) are such options.
#[derive(clap::Args)]
pub(super) struct Args {
    /// What to run: `ffs lab list` shows what there is
    workload: String,

    /// The setting and its values: `memory=16m,64m,256m,1g`
    #[arg(long, value_name = "NAME=V1,V2,...")]
    over: String,

    /// A curve: a combination of the paper's switches (`none`, `su`, `su+dp+vm+dh`), or options of
    /// the target; may be given several times
    #[arg(long, value_name = "SWITCHES",
        default_values_t = ["none".to_owned(), "su+dp+vm+dh".to_owned()])]
    curve: Vec<String>,

    /// Where: `sim` or `core`, with `:NAME=VALUE,...` for all runs
    #[arg(long, default_value = "sim")]
    target: String,

    /// All counts of the workload are multiplied by it
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,

    /// Aged volumes and what the workload draws follow from it
    #[arg(long, default_value_t = 2002)]
    seed: u64,

    /// Runs at a time [default: one for each core; 1 where time is real]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,

    /// Directory for a figure (SVG) and a table (CSV) of each result; made if it is not there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print one line of JSON for each result, value and curve
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let (over, values) = parse_over(&args.over)?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let virtual_time = args.target.split(':').next() == Some("sim");
    let jobs = args.jobs.map(|jobs| jobs as usize);
    let sweep = Sweep {
        workload: args.workload,
        scale: args.scale,
        target: args.target,
        over,
        values,
        curves: args.curve.iter().map(|text| CurveSetting::parse(text)).collect(),
        seed: args.seed,
        jobs: jobs.unwrap_or_else(|| if virtual_time { cores() } else { 1 }),
    };
    let mut bar = Bar::new((sweep.values.len() * sweep.curves.len()) as u64);
    let points = sweep.run(&context(sweep.seed), &mut bar)?;
    drop(bar);
    let mut out = output::stdout();
    if args.json {
        points.iter().try_for_each(|point| output::json_line(&mut out, point))?;
    } else {
        tables(&mut out, &sweep, &points)?;
    }
    out.flush()?;
    if let Some(dir) = &args.out {
        write(dir, &points)?;
    }
    Ok(0)
}

fn tables(out: &mut impl Write, sweep: &Sweep, points: &[SweepPoint]) -> Result<(), Failure> {
    writeln!(out, "{} on {} (seed {})", sweep.workload, sweep.target, sweep.seed)?;
    for result in points.chunk_by(|a, b| a.result == b.result) {
        let Some(first) = result.first() else { continue };
        let mut head = vec![sweep.over.clone()];
        head.extend(sweep.curves.iter().map(|curve| curve.name.clone()));
        let right: Vec<usize> = (1..head.len()).collect();
        let mut rows = vec![head];
        for line in result.chunk_by(|a, b| a.at == b.at) {
            let mut row: Vec<String> = line.iter().take(1).map(|point| point.at.clone()).collect();
            let value = |point: &SweepPoint| format::plain(point.kind, point.counts, point.value);
            row.extend(line.iter().map(value));
            rows.push(row);
        }
        writeln!(out, "\n{}, {}\n{}", first.title, first.unit, output::table(rows, &right))?;
    }
    Ok(())
}

fn write(dir: &Path, points: &[SweepPoint]) -> Result<(), Failure> {
    let failed = |at: &Path, error: std::io::Error| {
        Failure::plain(format_args!("{}: {error}", at.display()))
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    for (name, text) in files(points) {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
