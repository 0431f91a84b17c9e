//! `ffs lab compare dirs`.

use std::collections::BTreeSet;
use std::io::Write;

use clap::ValueEnum;
use ffs_lab::compare::{DirComparison, DirRequest, DirRow, MOST_FILES};
use ffs_lab::dirs::{self, Phase};
use ffs_lab::{LabError, TargetSpec, memory_latency};

use super::{Bar, context};
use crate::fail::{Failure, Outcome};
use crate::output;

/// One directory of N empty files: what each operation costs
///
/// A target is `core` (the library in process, on a new volume in memory), `core:NAME=VALUE,...`
/// (the same with mount options; also format=, endian=, bsize=, fsize=, size=, image=FILE) or a
/// directory you may write in: the work is done through system calls in a subdirectory of it, which
/// is removed.
///
/// Phases: create (names shuffled), list, stat (names looked up just before), stat-cold (names
/// forgotten), miss (names that do not exist), rename, unlink. Writing back is not part of them;
/// the sync after a phase is shown by itself.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Files in the directory; several sizes are compared with each other
    #[arg(short, value_name = "N", default_values_t = [10_000], action = clap::ArgAction::Append,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_FILES)))]
    n: Vec<u32>,

    /// Targets to measure; ratios are relative to the first
    #[arg(long, value_name = "TARGET", default_values_t = ["core".to_owned()])]
    target: Vec<String>,

    /// All orders follow from it
    #[arg(long, default_value_t = 2002)]
    seed: u64,

    /// Rounds; the table shows their median. Small directories are measured several times in each
    #[arg(long, value_name = "R", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Order in which files are looked at, renamed and removed
    #[arg(long, value_enum, default_value_t)]
    order: OrderArg,

    /// Print one line of JSON a phase and target
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum OrderArg {
    /// Each phase in its own shuffle
    #[default]
    Shuffled,
    /// As the directory lists them
    Listing,
}

pub(super) fn run(args: Args) -> Outcome {
    let mut seen = BTreeSet::new();
    let request = DirRequest {
        sizes: args.n.into_iter().filter(|n| seen.insert(*n)).collect(),
        targets: args
            .target
            .iter()
            .map(|t| TargetSpec::parse(t))
            .collect::<Result<_, LabError>>()?,
        seed: args.seed,
        rounds: args.rounds,
        order: match args.order {
            OrderArg::Shuffled => dirs::VisitOrder::Shuffled,
            OrderArg::Listing => dirs::VisitOrder::Listing,
        },
    };
    let mut bar = Bar::new(request.operations());
    let context = context(request.seed);
    let found = request.run(&context, &mut bar)?;
    drop(bar);
    let mut out = output::stdout();
    if args.json {
        lines(&mut out, &found.rows)?;
        for note in skipped(&found) {
            output::note(note);
        }
    } else {
        // Where sizes are compared: what of the difference waiting for memory explains.
        let wait = (request.sizes.len() > 1)
            .then(|| memory_latency::dependent_read(&*context.timer, memory_latency::LARGE));
        tables(&mut out, &request, &found, wait)?;
    }
    out.flush()?;
    Ok(0)
}

/// One line of JSON a row.
fn lines(out: &mut impl Write, rows: &[DirRow]) -> Result<(), Failure> {
    rows.iter().try_for_each(|row| output::json_line(out, row))
}

fn skipped(found: &DirComparison) -> Vec<String> {
    let note = |s: &ffs_lab::compare::SkippedPhase| {
        format!("{}: {} is not measured: {}", s.target, s.phase, s.why)
    };
    found.skipped.iter().map(note).collect()
}

/// `wait`: microseconds that a read of memory takes.
fn tables(
    out: &mut impl Write,
    request: &DirRequest,
    found: &DirComparison,
    wait: Option<f64>,
) -> Result<(), Failure> {
    let targets: Vec<&str> = request.targets.iter().map(|t| t.label.as_str()).collect();
    for &n in &request.sizes {
        let rounds = found.rows.iter().find(|row| row.n == n).map_or(0, |row| row.rounds);
        writeln!(
            out,
            "{n} files, microseconds an operation, median of {rounds} (orders {}, seed {})\n",
            request.order.name(),
            request.seed
        )?;
        writeln!(out, "{}", table(found, &targets, n))?;
    }
    for pair in request.sizes.windows(2) {
        if let [small, large] = *pair {
            writeln!(
                out,
                "{large} files against {small}: times as long, and as much processor time, an \
                 operation\n"
            )?;
            writeln!(out, "{}", growth(found, &targets, (small, large), wait))?;
        }
    }
    if let Some(wait) = wait {
        writeln!(
            out,
            "waits: the difference in processor time, as a number of dependent reads of memory;\n\
             one takes {wait:.3} microseconds here now, in {} MB\n",
            memory_latency::LARGE >> 20
        )?;
    }
    for target in &targets {
        let of_target = |row: &&DirRow| row.target == *target;
        if let Some(row) = found.rows.iter().find(of_target) {
            writeln!(out, "{target}: {}; durable: {}", row.fs, row.durability)?;
        }
        let forgot = found.rows.iter().filter(of_target).find_map(|row| row.forgot);
        if let Some(how) = forgot {
            writeln!(out, "{target}: before stat-cold: {how}")?;
        }
    }
    for note in skipped(found) {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

/// Phases down, targets across.
fn table(found: &DirComparison, targets: &[&str], n: u32) -> String {
    let mut head = vec![String::new()];
    for (at, target) in targets.iter().enumerate() {
        head.extend([(*target).to_owned(), "spread".to_owned(), "cpu".to_owned()]);
        if at > 0 {
            head.push("ratio".to_owned());
        }
    }
    let right: Vec<usize> = (1..head.len()).collect();
    let mut rows = vec![head];
    for phase in Phase::ALL {
        let first = targets.first().and_then(|first| found.row(first, phase, n));
        let mut line = vec![phase.name().to_owned()];
        let mut sync = vec!["  sync after".to_owned()];
        for (at, target) in targets.iter().enumerate() {
            let row = found.row(target, phase, n);
            line.push(row.map_or("-".to_owned(), |row| format!("{:.3}", row.us_per_op)));
            let spread = row.and_then(DirRow::spread);
            line.push(spread.map_or(String::new(), |percent| format!("{percent:.0} %")));
            line.push(row.map_or(String::new(), |row| format!("{:.3}", row.cpu_us_per_op)));
            sync.push(row.map_or(String::new(), |row| format!("{:.3}", row.sync_us_per_op)));
            sync.extend([String::new(), String::new()]);
            if at > 0 {
                let ratio = first.zip(row).map(|(first, row)| row.us_per_op / first.us_per_op);
                line.push(ratio.map_or(String::new(), |ratio| format!("x {ratio:.2}")));
                sync.push(String::new());
            }
        }
        rows.push(line);
        if matches!(phase, Phase::Create | Phase::Rename | Phase::Unlink) {
            rows.push(sync);
        }
    }
    output::table(rows, &right)
}

/// Phases down, targets across: how much longer an operation takes in the larger directory.
fn growth(
    found: &DirComparison,
    targets: &[&str],
    (small, large): (u32, u32),
    wait: Option<f64>,
) -> String {
    let mut head = vec![String::new()];
    let columns = |target: &&str| [(*target).to_owned(), "cpu".to_owned(), "waits".to_owned()];
    head.extend(targets.iter().flat_map(columns));
    let right: Vec<usize> = (1..head.len()).collect();
    let mut rows = vec![head];
    for phase in Phase::ALL {
        let mut line = vec![phase.name().to_owned()];
        for target in targets {
            let growth = found.growth(target, phase, small, large);
            let shown = |times: f64| format!("x {times:.2}");
            line.push(growth.map_or("-".to_owned(), |growth| shown(growth.time)));
            line.push(growth.map_or(String::new(), |growth| shown(growth.cpu)));
            let cpu = |n| found.row(target, phase, n).map(|row| row.cpu_us_per_op);
            let more = cpu(large).zip(cpu(small)).map(|(large, small)| large - small);
            let waits = more.zip(wait).filter(|(_, wait)| *wait > 0.0);
            line.push(waits.map_or(String::new(), |(more, wait)| format!("{:.1}", more / wait)));
        }
        rows.push(line);
    }
    output::table(rows, &right)
}
