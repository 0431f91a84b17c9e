//! `ffs lab compare threads`.

use std::io::Write;

use ffs_lab::threads::{MOST_FILES, MOST_THREADS, ThreadsRequest, ThreadsRow};
use ffs_lab::{LabError, TargetSpec};

use super::{Bar, context};
use crate::fail::{Failure, Outcome};
use crate::output;

/// The same operations from several threads at once
///
/// Each thread creates files, writes 4 KiB to each, looks at them, reads and removes them: in a
/// directory of its own, and in one directory with all the others. The table shows operations a
/// second of all threads together, and how many times as many as of one thread.
///
/// A target is `core` (the library in process, on a new volume in memory), `core:NAME=VALUE,...`
/// (the same with mount options), or a directory you may write in.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Numbers of threads; the first is what the others are compared with
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1, 2],
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_THREADS)))]
    threads: Vec<u32>,

    /// Files of each thread
    #[arg(short, value_name = "FILES", default_value_t = 20_000,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_FILES)))]
    n: u32,

    /// Targets to measure
    #[arg(long, value_name = "TARGET", default_values_t = ["core".to_owned()])]
    target: Vec<String>,

    /// Rounds; the table shows their median
    #[arg(long, value_name = "R", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Simulate as many processors, one for each thread: an upper bound, and the locks that move
    ///
    /// The threads run one at a time. The time that each works between two locks is measured, and a
    /// lock that another processor had last costs 60 ns more. Only for `core`.
    #[cfg(feature = "schedule")]
    #[arg(long)]
    simulate: bool,

    /// Print one line of JSON a row
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let targets = args.target.iter().map(|t| TargetSpec::parse(t));
    let request = ThreadsRequest {
        targets: targets.collect::<Result<_, LabError>>()?,
        threads: args.threads,
        files: args.n,
        rounds: args.rounds,
    };
    #[cfg(feature = "schedule")]
    if args.simulate {
        return simulated::run(&request, args.json);
    }
    let mut bar = Bar::new(request.operations());
    let rows = request.run(&context(2002), &mut bar)?;
    drop(bar);
    let mut out = output::stdout();
    if args.json {
        rows.iter().try_for_each(|row| output::json_line(&mut out, row))?;
    } else {
        tables(&mut out, &request, &rows)?;
    }
    out.flush()?;
    Ok(0)
}

/// A table for each target: operations down, numbers of threads across.
fn tables(
    out: &mut impl Write,
    request: &ThreadsRequest,
    rows: &[ThreadsRow],
) -> Result<(), Failure> {
    let ThreadsRequest { files, rounds, .. } = request;
    writeln!(
        out,
        "operations a second of all threads, {files} files a thread, median of {rounds}"
    )?;
    for target in &request.targets {
        writeln!(out, "\n{}\n", target.label)?;
        let mut table = vec![head(&request.threads)];
        for first in rows.iter().filter(|row| row.target == target.label) {
            if Some(&first.threads) != request.threads.first() {
                continue;
            }
            let mut line = vec![first.phase.to_owned(), first.directory.name().to_owned()];
            let same = |row: &&ThreadsRow| {
                (&row.target, row.phase, row.directory)
                    == (&first.target, first.phase, first.directory)
            };
            for row in rows.iter().filter(same) {
                line.push(format!("{:.0}", row.per_second));
                if row.threads != first.threads {
                    line.push(format!("{:.2}", row.per_second / first.per_second));
                }
            }
            table.push(line);
        }
        let right: Vec<usize> = (2..table[0].len()).collect();
        writeln!(out, "{}", output::table(table, &right))?;
    }
    Ok(())
}

fn head(threads: &[u32]) -> Vec<String> {
    let mut head = vec!["operation".to_owned(), "directory".to_owned()];
    for (k, n) in threads.iter().enumerate() {
        head.push(if *n == 1 { "1 thread".to_owned() } else { format!("{n} threads") });
        if k > 0 {
            head.push("times".to_owned());
        }
    }
    head
}

#[cfg(feature = "schedule")]
mod simulated {
    use super::*;
    use ffs_lab::threads::Sharing;
    use ffs_lab::threads::simulate::{self, SimulatedRow};

    pub(super) fn run(request: &ThreadsRequest, json: bool) -> Outcome {
        let mut out = output::stdout();
        for target in &request.targets {
            let targets = request.targets.len() as u64;
            let all = request.operations() / (u64::from(request.rounds) * targets);
            let mut bar = Bar::new(all);
            let (threads, context) = (&request.threads, context(2002));
            let rows = simulate::run(target, &context, threads, request.files, &mut bar)?;
            drop(bar);
            if json {
                rows.iter().try_for_each(|row| output::json_line(&mut out, row))?;
                continue;
            }
            writeln!(out, "{}, simulated; {} files a thread\n", target.label, request.files)?;
            print(&mut out, &rows)?;
        }
        out.flush()?;
        Ok(0)
    }

    fn print(out: &mut impl Write, rows: &[SimulatedRow]) -> Result<(), Failure> {
        let head = ["operation", "directory", "processors", "times", "locks", "moved", "waits for"];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for directory in Sharing::ALL {
            let mut of: Vec<_> = rows.iter().filter(|row| row.directory == directory).collect();
            of.sort_by_key(|row| (rows.iter().position(|r| r.phase == row.phase), row.processors));
            for row in &of {
                let first = of.iter().find(|first| first.phase == row.phase);
                let times = first.map_or(1.0, |first| row.per_second / first.per_second);
                let waits = row.waits.iter().take(2).filter(|wait| wait.percent >= 1.0);
                let waits: Vec<String> =
                    waits.map(|wait| format!("{} {:.0} %", wait.lock, wait.percent)).collect();
                table.push(vec![
                    row.phase.to_owned(),
                    directory.name().to_owned(),
                    row.processors.to_string(),
                    format!("{times:.2}"),
                    format!("{:.1}", row.locks),
                    format!("{:.1}", row.transfers),
                    waits.join(", "),
                ]);
            }
        }
        writeln!(out, "{}", output::table(table, &[2, 3, 4, 5]))?;
        writeln!(
            out,
            "times: an upper bound; locks: taken for an operation; moved: of them, those"
        )?;
        writeln!(out, "that another processor had last; waits for: share of all processors' time")?;
        print_kinds(out, rows)
    }

    /// The kinds of locks that move, with the most processors in directories of their own.
    fn print_kinds(out: &mut impl Write, rows: &[SimulatedRow]) -> Result<(), Failure> {
        let most = rows.iter().map(|row| row.processors).max();
        let head = ["operation", "lock", "locks", "moved"];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        let shown = rows
            .iter()
            .filter(|row| row.directory == Sharing::ALL[0] && Some(row.processors) == most);
        for row in shown {
            for kind in row.kinds.iter().filter(|kind| kind.locks >= 0.05) {
                table.push(vec![
                    row.phase.to_owned(),
                    kind.lock.clone(),
                    format!("{:.1}", kind.locks),
                    format!("{:.1}", kind.transfers),
                ]);
            }
        }
        writeln!(out, "\n{}", output::table(table, &[2, 3]))?;
        writeln!(out, "of an operation in directories of their own, with the most processors")?;
        Ok(())
    }
}
