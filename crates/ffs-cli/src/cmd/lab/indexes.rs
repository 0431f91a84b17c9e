//! `ffs lab indexes`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use ffs_lab::index::{Extent, IndexKind, IndexRequest, IndexResults, real_times};

use super::Bar;
use crate::fail::{Failure, Outcome};
use crate::output;

/// Directory indexes side by side: linear search, dirhash, chunk hash, HTree, B+tree
///
/// One directory layer on the machine of 2002 with the index as a switch. linear and dirhash are
/// the library's own directories; chunk (NetApp's chunk hash), htree (ext2's on-disk index) and
/// btree (a B+tree of hashes, of the kind of XFS) exist in the laboratory only. They have the same
/// inodes, buffer cache, block size and write policy. control is linear search in the laboratory's
/// frame.
///
/// Empty files with numbers as names are created, listed and looked up after a remount, and
/// removed, by number and in random order. Times are virtual. Then every state is examined that a
/// crash within one operation may leave.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directories of up to 5000 files only
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// Directories of up to 2,000,000 files, and deletion in other orders than creation; takes long
    #[arg(long)]
    full: bool,

    /// Only this index; may be given several times
    #[arg(long, value_parser = kinds(), value_name = "INDEX")]
    index: Vec<IndexKind>,

    /// Files in a directory, instead of the usual sizes; may be given several times
    #[arg(short, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    n: Vec<u32>,

    /// All orders follow from it
    #[arg(long, default_value_t = 2002)]
    seed: u64,

    /// Directories at a time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Measure also the processor time of this computer, with the volume in memory
    #[arg(long)]
    real: bool,

    /// Write the charts as SVG and the rows as JSON into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print one line of JSON a phase, then one a kind of operation and its crash states
    #[arg(long)]
    json: bool,
}

/// Reads an index by its name.
fn kinds() -> impl TypedValueParser<Value = IndexKind> {
    let names = IndexKind::ALL.map(IndexKind::name);
    PossibleValuesParser::new(names).try_map(|name| {
        let kind = IndexKind::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or("no such index")
    })
}

pub(super) fn run(args: Args) -> Outcome {
    let mut kinds = args.index;
    if kinds.is_empty() {
        kinds = IndexKind::ALL.to_vec();
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let request = IndexRequest {
        kinds,
        extent: match (args.quick, args.full) {
            (true, _) => Extent::Quick,
            (_, true) => Extent::Full,
            _ => Extent::Usual,
        },
        sizes: args.n,
        seed: args.seed,
        jobs: args.jobs.map_or(cores, usize::from),
    };
    let mut bar = Bar::new(request.operations());
    let results = request.run(&mut bar)?;
    let real = if args.real { request.run_real(&mut bar)? } else { Vec::new() };
    drop(bar);
    let mut out = output::stdout();
    if args.json {
        lines(&mut out, &results)?;
        real.iter().try_for_each(|row| output::json_line(&mut out, row))?;
    } else {
        let measured = (!real.is_empty()).then(|| real_times(&real));
        for table in results.tables().into_iter().chain(measured) {
            let right: Vec<usize> = (1..table.rows.first().map_or(1, Vec::len)).collect();
            writeln!(out, "{}\n\n{}", table.title, output::table(table.rows, &right))?;
        }
    }
    if let Some(dir) = args.out {
        write_files(&dir, &results)?;
        output::note(format!("charts: {}", dir.join("indexes.svg").display()));
    }
    out.flush()?;
    Ok(0)
}

fn lines(out: &mut impl Write, results: &IndexResults) -> Result<(), Failure> {
    results.rows.iter().try_for_each(|row| output::json_line(out, row))?;
    results.crash.iter().try_for_each(|row| output::json_line(out, row))
}

fn write_files(dir: &Path, results: &IndexResults) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)?;
    for (name, svg) in results.charts() {
        std::fs::write(dir.join(name), svg)?;
    }
    let mut rows = Vec::new();
    lines(&mut rows, results)?;
    std::fs::write(dir.join("indexes.jsonl"), rows)?;
    Ok(())
}
