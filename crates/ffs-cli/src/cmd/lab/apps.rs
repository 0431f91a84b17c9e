//! `ffs lab apps`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ffs_device::BlockDevice;
use ffs_fuse::Disk;
use ffs_lab::apps::draw::StateId;
use ffs_lab::apps::driver::{Driver, Promise};
use ffs_lab::apps::record::Served;
use ffs_lab::apps::run::{Found, Plan, ProgramResults, again, run as run_plan};
use ffs_lab::apps::side::Side;
use ffs_lab::{LabError, Result};

use super::Bar;
use crate::fail::{Failure, Outcome};
use crate::output;

/// Where files and mounts are if no directory is named: in memory, so that the host's disk does not
/// count.
const MEMORY: &str = "/dev/shm";
const MIB: u64 = 1 << 20;

/// Run real programs, fail the power, and check their data afterwards
///
/// Runs SQLite, LevelDB, RocksDB, LMDB, git, vim, maildir deliveries, package installations and the
/// saves of editors on a mount of ffs, and of ext4 beside it, on a disk in memory that records
/// every write and flush. Then draws states that a power failure may leave: all unflushed writes
/// lost, some of them kept, single writes torn. Each state is mounted, on ffs unrepaired and again
/// after `fsck -p`. The program then checks that each acknowledged step is there, and that it can
/// use its data.
///
/// Needs root, /dev/fuse and python3. Programs that this machine lacks are reported as skipped.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Programs, by name or beginning of several names; all if none is given
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,

    /// List the programs
    #[arg(long, conflicts_with_all = ["replay", "keep"])]
    list: bool,

    /// File systems: ffs, ext4, xfs or btrfs, and mount options after a colon; may be given several
    /// times
    #[arg(long, value_name = "FS[:OPTIONS]", default_values = ["ffs", "ffs:stable", "ext4"])]
    side: Vec<String>,

    /// States of each recording, at most: those with the same content count once
    #[arg(long, value_name = "N", default_value_t = 60,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    states: u32,

    /// Steps of each program: transactions, commits, deliveries, saves
    #[arg(long, value_name = "N", default_value_t = 24,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    steps: u32,

    /// Contents and states follow from it
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// MiB of each volume (XFS takes 300 at least, btrfs 128)
    #[arg(long, value_name = "MIB", default_value_t = 64,
        value_parser = clap::value_parser!(u64).range(16..=4096))]
    size: u64,

    /// Keep every recording below this directory, so that states can be examined again
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Examine one state of a kept recording again; its image is left there as the file `state`
    #[arg(long, value_name = "RECORDING", requires = "state")]
    replay: Option<PathBuf>,

    /// Which state, as the table names it
    #[arg(long, value_name = "WINDOW:STATE", requires = "replay")]
    state: Option<String>,

    /// A directory for files and mounts, instead of memory
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,

    /// Print one line of JSON for each row
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Outcome {
    let work = work_dir(args.work.as_deref())?;
    if args.list {
        return list(work.path());
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::plain("mounting loop devices needs root: run this as root"));
    }
    let ffs = std::env::current_exe().map_err(|error| Failure::new("ffs", error))?;
    if let (Some(dir), Some(state)) = (&args.replay, &args.state) {
        return replay(dir, state.parse()?, &ffs, work.path());
    }
    let sides = args.side.iter().map(|side| side.parse()).collect::<Result<Vec<Side>>>()?;
    let plan = Plan {
        programs: args.programs.clone(),
        sides,
        states: args.states as usize,
        steps: args.steps,
        seed: args.seed,
        size: args.size * MIB,
        ffs,
        work: work.path(),
        keep: args.keep.clone(),
        serve: &serve,
    };
    let mut out = output::stdout();
    let (mut rows, mut failed) = (Vec::new(), None);
    let done = run_plan(&plan, &mut Bar::new(0), |row: ProgramResults| {
        if args.json && failed.is_none() {
            let shown = output::json_line(&mut out, &row);
            failed = shown.and_then(|()| Ok(out.flush()?)).err();
        }
        rows.push(row);
    });
    if let Some(failure) = failed {
        return Err(failure);
    }
    // After an interruption the table has the rows that are complete.
    let has_table = done.is_ok() || !rows.is_empty();
    if has_table && !args.json {
        table(&mut out, &args, &rows)?;
        out.flush()?;
    }
    done?;
    Ok(u8::from(rows.iter().any(|row| is_violation(row, &rows))))
}

/// Whether ffs breaks a promise of the program that no other file system of the run breaks.
fn is_violation(row: &ProgramResults, rows: &[ProgramResults]) -> bool {
    let ours = |row: &ProgramResults| row.side.starts_with("ffs");
    let others = rows.iter().filter(|other| other.program == row.program && !ours(other));
    ours(row)
        && row.violations() > 0
        && others.map(ProgramResults::violations).all(|count| count == 0)
}

fn work_dir(named: Option<&Path>) -> std::result::Result<tempfile::TempDir, Failure> {
    let memory = Path::new(MEMORY);
    let temporary = std::env::temp_dir();
    let below = named.unwrap_or(if memory.is_dir() { memory } else { &temporary });
    let made = tempfile::Builder::new().prefix("ffs-lab-apps.").tempdir_in(below);
    made.map_err(|error| Failure::new(below.display(), error))
}

/// Serves a device as a file for the programs' file systems.
fn serve(device: Arc<dyn BlockDevice>, dir: &Path) -> Result<Served> {
    let disk = Disk::serve(device, dir).map_err(|error| LabError::Unusable {
        target: "recorded disk".to_owned(),
        why: error.to_string(),
    })?;
    Ok(Served { path: disk.path(), service: Box::new(disk) })
}

fn promise(promise: Promise) -> &'static str {
    match promise {
        Promise::Durable => "durable",
        Promise::Usable => "usable",
        Promise::None => "none",
    }
}

fn list(work: &Path) -> Outcome {
    let mut lines = vec![["", "promises", "found", ""].map(str::to_owned).to_vec()];
    for program in Driver::new(work)?.list()? {
        let found = program.version.or(program.missing).unwrap_or_default();
        lines.push(vec![program.name, promise(program.promise).to_owned(), found, program.what]);
    }
    let mut out = output::stdout();
    write!(out, "{}", output::table(lines, &[]))?;
    out.flush()?;
    Ok(0)
}

fn replay(dir: &Path, state: StateId, ffs: &Path, work: &Path) -> Outcome {
    let (label, looks) = again(dir, state, ffs, work)?;
    let mut out = output::stdout();
    writeln!(out, "{} on {}, state {state}", label.program, label.side)?;
    for look in &looks {
        let result = match &look.answer.broken {
            Some(why) => crate::fail::show(why),
            None => format!("{} of {} acknowledged steps missing", look.answer.lost, look.acked),
        };
        writeln!(out, "{}: {result}", look.view)?;
    }
    writeln!(out, "image: {}", dir.join("state").display())?;
    out.flush()?;
    let wrong = |answer: &ffs_lab::apps::driver::Answer| answer.lost > 0 || answer.broken.is_some();
    Ok(u8::from(looks.iter().any(|look| wrong(&look.answer))))
}

fn table(
    out: &mut impl Write,
    args: &Args,
    rows: &[ProgramResults],
) -> std::result::Result<(), Failure> {
    writeln!(
        out,
        "Programs after power failures, seed {}, {} steps, up to {} states\n",
        args.seed, args.steps, args.states
    )?;
    let head = [
        "program",
        "promises",
        "on",
        "states",
        "lost",
        "steps",
        "unusable",
        "read-only",
        "unmountable",
        "",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let mark = match (&row.skipped, is_violation(row, rows)) {
            (Some(why), _) => format!("skipped: {}", crate::fail::show(why)),
            (None, true) => "*".to_owned(),
            (None, false) => String::new(),
        };
        lines.push(vec![
            row.program.clone(),
            promise(row.promise).to_owned(),
            row.side.clone(),
            row.states.to_string(),
            row.lost.to_string(),
            row.lost_most.to_string(),
            row.broken.to_string(),
            row.read_only.to_string(),
            row.unmountable.to_string(),
            mark,
        ]);
    }
    writeln!(out, "{}", output::table(lines, &[3, 4, 5, 6, 7, 8]))?;
    writeln!(
        out,
        "lost: states that lack acknowledged steps; steps: how many at most; unusable: states in \
         which the\nprogram cannot use its data; read-only, unmountable: states that are mounted \
         read-only, or not\nat all, before a repair;\n*: ffs breaks a promise of the program, \
         and no other file system here does."
    )?;
    for row in rows.iter().filter(|row| row.lost + row.broken + row.read_only + row.unmountable > 0)
    {
        for (what, found) in [("lost", &row.first_lost), ("unusable", &row.first_broken)] {
            let Some(Found { state, view, acked, why }) = found else { continue };
            writeln!(
                out,
                "{} on {}, {what}: state {state}, {acked} acknowledged, {view}: {}",
                row.program,
                row.side,
                crate::fail::show(why)
            )?;
        }
    }
    Ok(())
}
