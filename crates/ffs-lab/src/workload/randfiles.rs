//! Empty files with numbers as names, the benchmark of the mail that announced HTree.
//!
//! The table of numbers is shuffled as in `randfiles`. `count=series` measures the sizes of the
//! mail, small ones ten times.
//!
//! Reference: `docs/spec/benchmarks.md` §4.9.

use super::parameters::{Parameter, Parameters};
use super::progress::ProgressMeter;
use super::{PhaseInfo, PhaseRecorder, Workload, WorkloadInfo};
use crate::error::{LabError, Result};
use crate::shuffle::{Purpose, shuffled};
use crate::systems::{Demand, DirId, Target};
use crate::watch::Watch;

pub(super) const INFO: WorkloadInfo = WorkloadInfo {
    name: "randfiles",
    group: "randfiles",
    about: "empty files made and removed in one directory, in random or sequential order",
    params: &[
        Parameter::new(
            "count",
            "100000",
            "files, or 'series': from ten to two million, in both orders",
        ),
        Parameter::new("create", "random", "order of creation: random or sequential"),
        Parameter::new("delete", "same", "order of removal: same, random or sequential"),
        Parameter::new("base", "", "prefix of the names"),
        Parameter::new("max", "2000000", "files in the largest directory of a series"),
    ],
    source: "the HTree mail (D. Phillips, 2001)",
    computes: false,
    make: |words| Ok(Box::new(Randfiles::make(words)?)),
};

struct Randfiles {
    runs: Vec<DirectoryRun>,
    series: bool,
    base: String,
}

/// A directory of the series.
#[derive(Clone, Copy)]
struct DirectoryRun {
    count: u32,
    repeats: u32,
    create: NameOrder,
    delete: NameOrder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NameOrder {
    Sequential,
    Random,
}

impl NameOrder {
    fn name(self) -> &'static str {
        if self == NameOrder::Random { "random" } else { "sequential" }
    }

    fn numbers(self, count: u32, seed: u64, purpose: Purpose) -> Vec<u32> {
        match self {
            NameOrder::Sequential => (0..count).collect(),
            NameOrder::Random => shuffled(count, seed, purpose),
        }
    }
}

/// The name of the directory.
const FOLDER: &[u8] = b"randfiles";
/// Directories of up to this many files are measured ten times.
const SMALL: u32 = 1000;
const REPEATS: u32 = 10;
/// The sizes of the mail.
const SERIES: [u32; 23] = [
    10, 20, 50, 100, 200, 500, 1000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000,
    80_000, 90_000, 100_000, 200_000, 400_000, 800_000, 1_000_000, 1_500_000, 2_000_000,
];

impl Randfiles {
    fn make(words: &Parameters) -> Result<Randfiles> {
        let base = words.text("base").unwrap_or_default();
        if base.len() > 200 || base.contains(['/', '\0']) {
            let why =
                "workload 'randfiles': base= is part of a file name: no slash, at most 200 bytes";
            return Err(LabError::Plan(why.to_owned()));
        }
        let series = words.text("count").is_some_and(|count| count == "series");
        let order = |word| if word == "random" { NameOrder::Random } else { NameOrder::Sequential };
        let create = order(words.word("create", &["random", "sequential"])?);
        let delete = match words.word("delete", &["same", "random", "sequential"])? {
            "same" => create,
            word => order(word),
        };
        let max = words.count("max", 2_000_000, 1_000_000_000)?;
        let runs = if series {
            let sizes = SERIES.into_iter().filter(|count| *count <= max);
            let both = sizes.flat_map(|count| {
                let repeats = if count <= SMALL { REPEATS } else { 1 };
                [NameOrder::Sequential, NameOrder::Random].map(|order| DirectoryRun {
                    count,
                    repeats,
                    create: order,
                    delete: order,
                })
            });
            both.collect()
        } else {
            let count = words.count("count", 100_000, 1_000_000_000)?;
            vec![DirectoryRun { count, repeats: 1, create, delete }]
        };
        Ok(Randfiles { runs, series, base })
    }

    /// The name of a phase.
    fn id(&self, sizes: &DirectoryRun, create: bool) -> String {
        let (what, order) =
            if create { ("create", sizes.create) } else { ("delete", sizes.delete) };
        if self.series {
            format!("{what}/{}/{}", order.name(), sizes.count)
        } else {
            what.to_owned()
        }
    }

    fn names(&self, numbers: &[u32]) -> NameTable {
        let mut names = NameTable { bytes: Vec::new(), ends: Vec::with_capacity(numbers.len()) };
        for number in numbers {
            names.bytes.extend_from_slice(self.base.as_bytes());
            names.bytes.extend_from_slice(number.to_string().as_bytes());
            names.ends.push(names.bytes.len());
        }
        names
    }
}

/// The names of the files, made before the clock starts.
struct NameTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl NameTable {
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[*start..*end])
    }
}

impl Workload for Randfiles {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn phases(&self) -> Vec<PhaseInfo> {
        let mut infos = Vec::new();
        for sizes in &self.runs {
            for create in [true, false] {
                let id = self.id(sizes, create);
                let (what, order) =
                    if create { ("create", sizes.create) } else { ("delete", sizes.delete) };
                let title = format!("{what} {} files, {} order", sizes.count, order.name());
                infos.push(PhaseInfo::time(&id, &title, "files"));
            }
        }
        infos
    }

    fn demand(&self) -> Demand {
        let files = |sizes: &DirectoryRun| (u64::from(sizes.count) + 1) * u64::from(sizes.repeats);
        Demand::files(self.runs.iter().map(files).max().unwrap_or(0))
    }

    fn operations(&self) -> u64 {
        let of = |sizes: &DirectoryRun| u64::from(sizes.count) * u64::from(sizes.repeats) * 2;
        self.runs.iter().map(of).sum()
    }

    fn run(
        &self,
        target: &mut dyn Target,
        seed: u64,
        recorder: &mut PhaseRecorder,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let top = target.begin(self.demand())?;
        let mut meter = ProgressMeter::new(watch);
        for sizes in &self.runs {
            self.directories(target, top, sizes, seed, recorder, &mut meter)?;
        }
        Ok(())
    }
}

impl Randfiles {
    /// Measures one directory for each repeat. All are filled before the first is emptied.
    fn directories(
        &self,
        target: &mut dyn Target,
        top: DirId,
        sizes: &DirectoryRun,
        seed: u64,
        recorder: &mut PhaseRecorder,
        meter: &mut ProgressMeter<'_>,
    ) -> Result<()> {
        let numbers =
            |order: NameOrder, purpose| self.names(&order.numbers(sizes.count, seed, purpose));
        let create = numbers(sizes.create, Purpose::Create);
        let delete = numbers(sizes.delete, Purpose::Unlink);
        let mut dirs = Vec::new();
        for repeat in 0..sizes.repeats {
            dirs.push(target.mkdir(top, &[FOLDER, repeat.to_string().as_bytes()].concat())?);
        }
        let files = f64::from(sizes.count) * f64::from(sizes.repeats);
        let id = self.id(sizes, true);
        meter.phase(recorder, target, &id, |t, meter| {
            for dir in &dirs {
                for name in create.iter() {
                    t.create(*dir, name)?;
                    meter.tick()?;
                }
            }
            Ok(files)
        })?;
        let id = self.id(sizes, false);
        meter.phase(recorder, target, &id, |t, meter| {
            for dir in &dirs {
                for name in delete.iter() {
                    t.unlink(*dir, name)?;
                    meter.tick()?;
                }
            }
            Ok(files)
        })?;
        for (repeat, dir) in dirs.into_iter().enumerate() {
            target.close_dir(dir)?;
            target.rmdir(top, &[FOLDER, repeat.to_string().as_bytes()].concat())?;
        }
        Ok(())
    }
}
