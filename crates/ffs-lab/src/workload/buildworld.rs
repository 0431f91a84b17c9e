//! A system build from sources: checkout, build, search, removal of the object tree. The workload
//! is a model: it makes the file operations of the programs and uses their processor time.
//!
//! Reference: `docs/spec/benchmarks.md` §4.7.

use std::time::Duration;

use super::file_calls::{EXEC, WriteMode, entries, read_file, remove_tree, write_file};
use super::open_path::OpenPath;
use super::parameters::{Parameter, share};
use super::progress::ProgressMeter;
use super::random::{RandomStream, Zipf};
use super::tree::{Entry, Tree, TreeFile, TreeSize};
use super::{PhaseInfo, PhaseRecorder, Workload, WorkloadInfo};
use crate::error::Result;
use crate::systems::{Demand, DirId, Kind, Open, Target};
use crate::watch::Watch;

pub(super) const INFO: WorkloadInfo = WorkloadInfo {
    name: "buildworld",
    group: "Buildworld",
    about: "check out a source tree, build it (modelled), search it, remove the object tree",
    params: &[Parameter::new(
        "size",
        "1",
        "share of FreeBSD 4's tree: 3700 directories, 32,000 files",
    )],
    source: "paper §4 (RELENG_4); model of checkout and make buildworld",
    computes: true,
    make: |words| Ok(Box::new(Buildworld::new(words.size(1.0)?))),
};

/// The trees: the kernel's sources, and the rest.
const KERNEL: TreeSize = TreeSize { dirs: 450, files: 4200, bytes: 60_000_000 };
const REST: TreeSize = TreeSize { dirs: 3250, files: 27_800, bytes: 270_000_000 };
/// The size of an RCS file, which has all versions, in tenths of the size of one version.
const HISTORY: u64 = 22;
/// Processor time of the checkout of a file.
const CHECKOUT: Duration = Duration::from_millis(2);
/// The objects of the full tree: number, directories, bytes.
const OBJECTS: u64 = 20_000;
const OBJECT_DIRS: u64 = 1200;
const OBJECT_BYTES: u64 = 130_000_000;
/// Objects in an archive.
const ARCHIVED: usize = 20;
/// Headers of the full tree, and headers that a source includes.
const HEADERS: u64 = 3000;
const INCLUDES: usize = 12;
/// The tools: runs, names that a run looks up, different tools.
const TOOL_RUNS: u64 = 4000;
const LOOKUPS: u64 = 10;
const TOOLS: u64 = 100;
const TOOL_BYTES: u64 = 120_000;
/// Processor time of the whole build, fitted to the row of Table 1 with all options on (2033 s).
pub(crate) const PROCESSOR: Duration = Duration::from_secs(1672);
/// Bytes of a read or write.
const CHUNK: u64 = 8 << 10;
/// The modification time of checked-out files: December 2001.
const TIME: u32 = 1_008_000_000;

const REPOSITORY: &[u8] = b"ncvs";
const SOURCE: &[u8] = b"src";
const OBJECT_TREE: &[u8] = b"obj";
const KERNEL_DIR: &[u8] = b"sys";
const REST_DIR: &[u8] = b"usr";
const ADMIN: [(&[u8], u64); 4] =
    [(b"Entries", 600), (b"Repository", 40), (b"Root", 20), (b"Tag", 10)];

/// The style of new files, written in one piece.
const NEW: WriteMode = WriteMode { open: Open::CreateNew, piece: CHUNK };

struct Buildworld {
    size: f64,
    kernel: TreeSize,
    rest: TreeSize,
}

impl Buildworld {
    fn new(size: f64) -> Buildworld {
        Buildworld { size, kernel: KERNEL.scaled(size), rest: REST.scaled(size) }
    }

    fn share(&self, full: u64) -> u64 {
        share(full, self.size)
    }
}

impl Workload for Buildworld {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn phases(&self) -> Vec<PhaseInfo> {
        vec![
            PhaseInfo::time("checkout", "cvs checkout", "files").row("cvs checkout"),
            PhaseInfo::time("build", "make buildworld", "objects").row("make buildworld"),
            PhaseInfo::time("grep", "find and grep", "files").row("find and grep"),
            PhaseInfo::time("rm", "rm of the object tree", "entries").row("rm of the object tree"),
        ]
    }

    fn demand(&self) -> Demand {
        let dirs = self.kernel.dirs + self.rest.dirs + 2;
        let files = self.kernel.files + self.rest.files;
        let source = self.kernel.bytes + self.rest.bytes;
        let objects = self.share(OBJECTS) * 11 / 10 + self.share(OBJECT_DIRS) + self.share(TOOLS);
        let built = self.share(OBJECT_BYTES) * 2 + self.share(TOOLS) * TOOL_BYTES * 2;
        Demand {
            files: 2 * files + 7 * dirs + objects + 50,
            bytes: source + source * HISTORY / 10 + 1000 * dirs + built + (1 << 20),
        }
    }

    fn operations(&self) -> u64 {
        let files = self.kernel.files + self.rest.files + self.kernel.dirs + self.rest.dirs;
        let built = self.share(OBJECTS) * 2 + self.share(TOOL_RUNS);
        // The repository, the checkout and the search.
        files * 2 + built + self.kernel.files
    }

    fn run(
        &self,
        target: &mut dyn Target,
        seed: u64,
        recorder: &mut PhaseRecorder,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let tree = source(seed, self.kernel, self.rest);
        let top = target.begin(self.demand())?;
        let mut meter = ProgressMeter::new(watch);
        meter.step("repository");
        repository(target, top, &tree, &mut meter)?;
        target.sync()?;
        meter.phase(recorder, target, "checkout", |t, meter| {
            checkout(t, top, &tree, meter)?;
            Ok((self.kernel.files + self.rest.files) as f64)
        })?;
        let mut build = Build::new(self, seed, tree.files(), top);
        meter.phase(recorder, target, "build", |t, meter| build.run(t, meter).map(|n| n as f64))?;
        meter.phase(recorder, target, "grep", |t, meter| grep(t, top, meter).map(|n| n as f64))?;
        meter.phase(recorder, target, "rm", |t, meter| {
            remove_tree(t, top, OBJECT_TREE, meter).map(|removed| removed as f64)
        })?;
        Ok(())
    }
}

/// The kernel's tree and the rest in one directory.
fn source(seed: u64, kernel: TreeSize, rest: TreeSize) -> Tree {
    let mut tree = Tree::default();
    for (name, seed, shape) in [(KERNEL_DIR, seed, kernel), (REST_DIR, !seed, rest)] {
        tree.entries.push(Entry { depth: 0, name: name.to_owned(), size: None });
        let below = Tree::generate(seed, shape).entries;
        tree.entries.extend(below.into_iter().map(|e| Entry { depth: e.depth + 1, ..e }));
    }
    tree
}

/// Writes the repository, with an RCS file for each file. It is not measured.
fn repository(
    t: &mut dyn Target,
    top: DirId,
    tree: &Tree,
    meter: &mut ProgressMeter<'_>,
) -> Result<()> {
    let mut chain = OpenPath::new(top);
    chain.make(t, REPOSITORY)?;
    for Entry { depth, name, size } in &tree.entries {
        let here = chain.up_to(t, depth + 1)?;
        match size {
            None => chain.make(t, name).map(drop)?,
            Some(size) => write_file(t, here, &rcs(name), size * HISTORY / 10, NEW)?,
        }
        meter.tick()?;
    }
    chain.close(t)
}

fn rcs(name: &[u8]) -> Vec<u8> {
    [name, b",v"].concat()
}

fn checkout(
    t: &mut dyn Target,
    top: DirId,
    tree: &Tree,
    meter: &mut ProgressMeter<'_>,
) -> Result<()> {
    let mut from = OpenPath::new(top);
    let mut to = OpenPath::new(top);
    from.enter(t, REPOSITORY)?;
    to.make(t, SOURCE)?;
    administer(t, &mut to)?;
    for Entry { depth, name, size } in &tree.entries {
        let (above, here) = (from.up_to(t, depth + 1)?, to.up_to(t, depth + 1)?);
        match size {
            None => {
                let dir = from.enter(t, name)?;
                entries(t, dir)?;
                to.make(t, name)?;
                administer(t, &mut to)?;
            }
            Some(size) => {
                read_file(t, above, &rcs(name), size * HISTORY / 10, CHUNK)?;
                t.compute(CHECKOUT);
                write_file(t, here, name, *size, NEW)?;
                t.set_times(here, name, TIME)?;
            }
        }
        meter.tick()?;
    }
    from.close(t)?;
    to.close(t)
}

/// Makes the `CVS` directory of a new directory. Every second one has a tag.
fn administer(t: &mut dyn Target, to: &mut OpenPath) -> Result<()> {
    let depth = to.depth();
    let dir = to.make(t, b"CVS")?;
    for (name, size) in &ADMIN[..3 + depth % 2] {
        write_file(t, dir, name, *size, NEW)?;
    }
    to.up_to(t, depth).map(drop)
}

/// Searches the kernel's sources: reads each file once.
fn grep(t: &mut dyn Target, top: DirId, meter: &mut ProgressMeter<'_>) -> Result<u64> {
    t.compute(EXEC * 2);
    let mut chain = OpenPath::new(top);
    let source = chain.enter(t, SOURCE)?;
    let mut read = 0;
    super::file_calls::walk(t, source, KERNEL_DIR, &mut |t, dir, name, kind| {
        if kind == Kind::Directory {
            return t.stat(dir, name).map(drop);
        }
        read_file(t, dir, name, u64::MAX, CHUNK)?;
        read += 1;
        meter.tick()
    })?;
    chain.close(t)?;
    Ok(read)
}

/// A running build.
struct Build<'a> {
    world: &'a Buildworld,
    draw: RandomStream,
    files: Vec<TreeFile>,
    /// The indices of headers among the files, and the probability of each.
    headers: Vec<usize>,
    likely: Zipf,
    top: DirId,
    source: OpenPath,
    objects: OpenPath,
    /// The directories of objects below the object tree.
    dirs: Vec<Vec<Vec<u8>>>,
}

impl<'a> Build<'a> {
    fn new(world: &'a Buildworld, seed: u64, files: Vec<TreeFile>, top: DirId) -> Build<'a> {
        let headers = (world.share(HEADERS).max(INCLUDES as u64) as usize).min(files.len());
        let apart = files.len() / headers.max(1);
        let headers: Vec<usize> = (0..headers).map(|n| n * apart).collect();
        let likely = Zipf::new(headers.len(), 1.0);
        let draw = RandomStream::new(seed, "buildworld");
        let dirs = (0..world.share(OBJECT_DIRS).max(1)).map(|n| {
            let above = format!("lib{}", n / 30).into_bytes();
            if n % 30 == 0 { vec![above] } else { vec![above, format!("d{n}").into_bytes()] }
        });
        let dirs = dirs.collect();
        let (source, objects) = (OpenPath::new(top), OpenPath::new(top));
        Build { world, draw, files, headers, likely, top, source, objects, dirs }
    }

    fn run(&mut self, t: &mut dyn Target, meter: &mut ProgressMeter<'_>) -> Result<u64> {
        self.make_directories(t)?;
        self.install_tools(t)?;
        self.source.enter(t, SOURCE)?;
        let units = self.world.share(OBJECTS);
        let (tool_runs, processor) = (self.world.share(TOOL_RUNS), self.processor());
        let size = self.world.share(OBJECT_BYTES) / units;
        // The objects of a directory are built one after the other.
        let per_dir = units.div_ceil(self.dirs.len() as u64);
        let mut waiting = Vec::new();
        for unit in 0..units {
            let dir = (unit / per_dir) as usize;
            self.compile(t, unit, dir, size)?;
            t.compute(processor);
            waiting.push(unit);
            let last = unit + 1 == units || (unit + 1) / per_dir != dir as u64;
            if waiting.len() == ARCHIVED || last {
                self.archive(t, dir, &waiting, size)?;
                waiting.clear();
            }
            for run in tool_runs * unit / units..tool_runs * (unit + 1) / units {
                self.run_tool(t, run)?;
                meter.tick()?;
            }
            meter.tick()?;
        }
        self.source.up_to(t, 0)?;
        self.objects.up_to(t, 0)?;
        Ok(units)
    }

    /// Processor time of a unit, including that of the tools.
    fn processor(&self) -> Duration {
        let runs = EXEC * self.world.share(TOOL_RUNS) as u32;
        let total = PROCESSOR.as_nanos() as f64 * self.world.size;
        let left = (total as u64).saturating_sub(runs.as_nanos() as u64);
        Duration::from_nanos(left / self.world.share(OBJECTS))
    }

    fn make_directories(&mut self, t: &mut dyn Target) -> Result<()> {
        self.objects.make(t, OBJECT_TREE)?;
        for name in [&b"bin"[..], b"tmp"] {
            self.objects.make(t, name)?;
            self.objects.up_to(t, 1)?;
        }
        for path in &self.dirs {
            for name in path {
                if t.stat(self.objects.current(), name)?.is_none() {
                    self.objects.make(t, name)?;
                } else {
                    self.objects.enter(t, name)?;
                }
            }
            self.objects.up_to(t, 1)?;
        }
        Ok(())
    }

    /// Builds the tools first: each is written under another name, made executable and renamed.
    fn install_tools(&mut self, t: &mut dyn Target) -> Result<()> {
        let bin = self.objects.go(t, [OBJECT_TREE, b"bin"].into_iter())?;
        for tool in 0..self.world.share(TOOLS) {
            write_file(t, bin, b"INS@tmp", TOOL_BYTES, NEW)?;
            t.chmod(bin, b"INS@tmp", 0o555)?;
            t.rename(bin, b"INS@tmp", &tool_name(tool))?;
        }
        self.objects.up_to(t, 1).map(drop)
    }

    fn go_source(&mut self, t: &mut dyn Target, file: usize) -> Result<DirId> {
        let path = self.files[file].path.iter().map(Vec::as_slice);
        self.source.go(t, std::iter::once(SOURCE).chain(path))
    }

    fn go_object(&mut self, t: &mut dyn Target, dir: usize) -> Result<DirId> {
        let path = self.dirs[dir].iter().map(Vec::as_slice);
        self.objects.go(t, std::iter::once(OBJECT_TREE).chain(path))
    }

    /// Reads a source and its headers, writes a temporary file, then the object.
    fn compile(&mut self, t: &mut dyn Target, unit: u64, dir: usize, size: u64) -> Result<()> {
        self.read_source(t, unit as usize % self.files.len())?;
        for _ in 0..INCLUDES {
            let header = self.headers[self.likely.draw(&self.draw)];
            self.read_source(t, header)?;
        }
        let tmp = t.open_dir(self.top, OBJECT_TREE)?;
        let inside = t.open_dir(tmp, b"tmp")?;
        let name = format!("cc{unit}.s").into_bytes();
        write_file(t, inside, &name, size, NEW)?;
        read_file(t, inside, &name, size, CHUNK)?;
        let into = self.go_object(t, dir)?;
        if unit.is_multiple_of(10) {
            t.rename_to((inside, &name), (into, &object(unit)))?;
        } else {
            write_file(t, into, &object(unit), size, NEW)?;
            t.unlink(inside, &name)?;
        }
        t.close_dir(inside)?;
        t.close_dir(tmp)
    }

    fn read_source(&mut self, t: &mut dyn Target, file: usize) -> Result<()> {
        let here = self.go_source(t, file)?;
        let TreeFile { name, size, .. } = &self.files[file];
        read_file(t, here, name, *size, CHUNK).map(drop)
    }

    fn archive(&mut self, t: &mut dyn Target, dir: usize, units: &[u64], size: u64) -> Result<()> {
        let here = self.go_object(t, dir)?;
        for unit in units {
            read_file(t, here, &object(*unit), size, CHUNK)?;
        }
        let name = format!("lib{}.a", units.first().copied().unwrap_or(0)).into_bytes();
        write_file(t, here, &name, size * units.len() as u64, NEW)
    }

    /// Starts a tool: it is looked up and read, and looks up files, most of which do not exist.
    fn run_tool(&mut self, t: &mut dyn Target, run: u64) -> Result<()> {
        let tool = tool_name(self.draw.below(self.world.share(TOOLS)));
        let bin = self.objects.go(t, [OBJECT_TREE, b"bin"].into_iter())?;
        for lookup in 0..LOOKUPS - 2 {
            t.stat(bin, format!("lib{}.so.{lookup}", run % 50).as_bytes())?;
        }
        t.stat(bin, &tool)?;
        t.stat(bin, &tool_name(0))?;
        read_file(t, bin, &tool, TOOL_BYTES, 64 << 10)?;
        t.compute(EXEC);
        Ok(())
    }
}

fn tool_name(tool: u64) -> Vec<u8> {
    format!("tool{tool}").into_bytes()
}

fn object(unit: u64) -> Vec<u8> {
    format!("unit{unit}.o").into_bytes()
}
