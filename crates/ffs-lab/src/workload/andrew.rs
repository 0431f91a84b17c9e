//! The Andrew benchmark on a hundred copies of its tree.
//!
//! Reference: `docs/spec/benchmarks.md` §4.4.

use std::time::Duration;

use super::file_calls::{EXEC, WriteMode, entries, read_file, remove_tree, write_file};
use super::open_path::OpenPath;
use super::parameters::Parameter;
use super::progress::ProgressMeter;
use super::random::RandomStream;
use super::{PhaseInfo, PhaseRecorder, Workload, WorkloadInfo};
use crate::error::Result;
use crate::systems::{Demand, DirId, Kind, Open, Target};
use crate::watch::Watch;

pub(super) const INFO: WorkloadInfo = WorkloadInfo {
    name: "andrew",
    group: "Andrew",
    about: "the Andrew benchmark on many copies: mkdir, copy, stat, read, compile, remove",
    params: &[Parameter::new("copies", "100", "copies of the tree: 20 directories, 70 files")],
    source: "paper §4; model of the tree of Howard et al. 1988",
    computes: true,
    make: |words| Ok(Box::new(Andrew { copies: words.count("copies", 100, 1_000_000)? })),
};

struct Andrew {
    copies: u32,
}

/// Directories of a copy, including its top.
const DIRS: usize = 20;
/// The files of a copy: number, suffix and bytes of sources, headers and others.
const FILES: [(usize, &str, u64); 3] = [(25, "c", 4096), (25, "h", 1536), (20, "txt", 3200)];
/// Headers that a source includes.
const HEADERS: usize = 8;
const COMPILE: Duration = Duration::from_millis(250);
const LINK: Duration = Duration::from_millis(400);
const TEMPORARY: u64 = 20 << 10;
const OBJECT: u64 = 6 << 10;
const BINARY: u64 = 100 << 10;
/// Bytes of a read or write.
const CHUNK: u64 = 8 << 10;
const PHASES: [&str; 6] = ["mkdir", "cp", "stat", "grep", "compile", "rm"];
/// The name of the tree that is copied.
const SOURCE: &[u8] = b"source";

/// The tree: directories by parent, files by directory.
struct Plan {
    /// The path of each directory below the top.
    dirs: Vec<Vec<Vec<u8>>>,
    files: Vec<File>,
}

struct File {
    dir: usize,
    name: Vec<u8>,
    kind: &'static str,
    size: u64,
}

impl Plan {
    fn new(seed: u64) -> Plan {
        let draw = RandomStream::new(seed, "andrew");
        let mut dirs: Vec<Vec<Vec<u8>>> = vec![Vec::new()];
        while dirs.len() < DIRS {
            let mut path = dirs[draw.index(dirs.len())].clone();
            // The top counts as a level.
            if path.len() < 3 {
                path.push(format!("dir{}", dirs.len()).into_bytes());
                dirs.push(path);
            }
        }
        let mut files = Vec::new();
        for (count, kind, mean) in FILES {
            for number in 0..count {
                let name = format!("file{number}.{kind}").into_bytes();
                let size = draw.range(mean / 2, mean * 3 / 2);
                files.push(File { dir: draw.index(DIRS), name, kind, size });
            }
        }
        Plan { dirs, files }
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.kind == kind)
    }

    fn path(&self, dir: usize) -> impl Iterator<Item = &[u8]> {
        self.dirs[dir].iter().map(Vec::as_slice)
    }
}

fn copy_name(copy: u32) -> Vec<u8> {
    format!("copy{copy}").into_bytes()
}

/// A running benchmark.
struct Run<'a, 'w> {
    plan: &'a Plan,
    meter: &'a mut ProgressMeter<'w>,
    top: DirId,
}

impl Workload for Andrew {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn group(&self) -> String {
        format!("Andrew x{}", self.copies)
    }

    fn phases(&self) -> Vec<PhaseInfo> {
        let units = ["directories", "files", "entries", "files", "objects", "entries"];
        let phase = |(id, unit)| PhaseInfo::time(id, id, unit).row(id);
        PHASES.into_iter().zip(units).map(phase).collect()
    }

    fn demand(&self) -> Demand {
        let copies = u64::from(self.copies) + 1;
        let bytes: u64 = FILES.iter().map(|(count, _, mean)| *count as u64 * mean * 3 / 2).sum();
        let made = 25 * OBJECT + BINARY + TEMPORARY;
        Demand { files: copies * (DIRS as u64 + 70 + 27), bytes: copies * (bytes + made) }
    }

    fn operations(&self) -> u64 {
        u64::from(self.copies) * (20 + 70 + 90 + 140 + 25 + 116)
    }

    fn run(
        &self,
        target: &mut dyn Target,
        seed: u64,
        recorder: &mut PhaseRecorder,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let plan = Plan::new(seed);
        let top = target.begin(self.demand())?;
        let mut run = Run { plan: &plan, meter: &mut ProgressMeter::new(watch), top };
        run.mkdir(target, SOURCE)?;
        run.write_source(target)?;
        target.sync()?;
        for phase in PHASES {
            run.meter.step(phase);
            recorder.phase(target, phase, |t| {
                let mut done = 0;
                for copy in 0..self.copies {
                    done += run.part(phase, t, &copy_name(copy))?;
                }
                Ok(done as f64)
            })?;
        }
        run.rm(target, SOURCE).map(drop)
    }
}

impl Run<'_, '_> {
    fn part(&mut self, phase: &str, t: &mut dyn Target, copy: &[u8]) -> Result<u64> {
        match phase {
            "mkdir" => self.mkdir(t, copy),
            "cp" => self.cp(t, copy),
            "stat" => self.stat(t, copy),
            "grep" => self.grep(t, copy),
            "compile" => self.compile(t, copy),
            _ => self.rm(t, copy),
        }
    }

    fn mkdir(&mut self, t: &mut dyn Target, copy: &[u8]) -> Result<u64> {
        let dir = t.mkdir(self.top, copy)?;
        let mut chain = OpenPath::new(dir);
        for path in &self.plan.dirs[1..] {
            let (name, above) = path.split_last().map_or((&[][..], &[][..]), |(n, a)| (&n[..], a));
            chain.go(t, above.iter().map(Vec::as_slice))?;
            chain.make(t, name)?;
            self.meter.tick()?;
        }
        chain.close(t)?;
        t.close_dir(dir)?;
        Ok(DIRS as u64)
    }

    fn write_source(&mut self, t: &mut dyn Target) -> Result<()> {
        self.each_file(t, SOURCE, |_, t, dir, file| {
            let write = WriteMode { open: Open::CreateNew, piece: CHUNK };
            write_file(t, dir, &file.name, file.size, write)
        })
    }

    /// Calls `each` for every file of a copy, with its directory open.
    fn each_file(
        &mut self,
        t: &mut dyn Target,
        copy: &[u8],
        mut each: impl FnMut(&mut Self, &mut dyn Target, DirId, &File) -> Result<()>,
    ) -> Result<()> {
        let plan = self.plan;
        let dir = t.open_dir(self.top, copy)?;
        let mut chain = OpenPath::new(dir);
        for at in 0..DIRS {
            let here = chain.go(t, plan.path(at))?;
            for file in plan.files.iter().filter(|file| file.dir == at) {
                each(self, t, here, file)?;
                self.meter.tick()?;
            }
        }
        chain.close(t)?;
        t.close_dir(dir)
    }

    fn cp(&mut self, t: &mut dyn Target, copy: &[u8]) -> Result<u64> {
        let from = t.open_dir(self.top, SOURCE)?;
        let mut source = OpenPath::new(from);
        self.each_file(t, copy, |run, t, dir, file| {
            let from = source.go(t, run.plan.path(file.dir))?;
            read_file(t, from, &file.name, file.size, CHUNK)?;
            let write = WriteMode { open: Open::CreateNew, piece: CHUNK };
            write_file(t, dir, &file.name, file.size, write)
        })?;
        source.close(t)?;
        t.close_dir(from)?;
        Ok(self.plan.files.len() as u64)
    }

    /// `find`, an `ls` for each entry, and `du` call stat for each entry.
    fn stat(&mut self, t: &mut dyn Target, copy: &[u8]) -> Result<u64> {
        let found = self.look(t, self.top, copy, EXEC)?;
        t.compute(EXEC);
        self.look(t, self.top, copy, Duration::ZERO)?;
        Ok(found)
    }

    fn look(&mut self, t: &mut dyn Target, at: DirId, name: &[u8], exec: Duration) -> Result<u64> {
        let dir = t.open_dir(at, name)?;
        let mut found = 1;
        for (name, kind) in entries(t, dir)? {
            t.compute(exec);
            t.stat(dir, &name)?;
            if kind == Kind::Directory {
                found += self.look(t, dir, &name, exec)?;
            } else {
                found += 1;
                self.meter.tick()?;
            }
        }
        t.close_dir(dir)?;
        Ok(found)
    }

    /// `grep` reads each file, then `wc` does.
    fn grep(&mut self, t: &mut dyn Target, copy: &[u8]) -> Result<u64> {
        for _ in 0..2 {
            t.compute(EXEC);
            self.each_file(t, copy, |_, t, dir, file| {
                read_file(t, dir, &file.name, file.size, CHUNK).map(drop)
            })?;
        }
        Ok(self.plan.files.len() as u64)
    }

    fn compile(&mut self, t: &mut dyn Target, copy: &[u8]) -> Result<u64> {
        let plan = self.plan;
        let dir = t.open_dir(self.top, copy)?;
        let mut chain = OpenPath::new(dir);
        let headers: Vec<&File> = plan.of_kind("h").collect();
        let mut objects = 0;
        for (at, source) in plan.of_kind("c").enumerate() {
            let here = chain.go(t, plan.path(source.dir))?;
            read_file(t, here, &source.name, source.size, CHUNK)?;
            for header in headers.iter().cycle().skip(at).take(HEADERS) {
                let here = chain.go(t, plan.path(header.dir))?;
                read_file(t, here, &header.name, header.size, CHUNK)?;
            }
            t.compute(COMPILE);
            let write = WriteMode { open: Open::CreateNew, piece: CHUNK };
            let here = chain.go(t, plan.path(source.dir))?;
            write_file(t, here, b"cc.tmp", TEMPORARY, write)?;
            read_file(t, here, b"cc.tmp", TEMPORARY, CHUNK)?;
            write_file(t, here, &object(source), OBJECT, write)?;
            t.unlink(here, b"cc.tmp")?;
            objects += 1;
            self.meter.tick()?;
        }
        for source in plan.of_kind("c") {
            let here = chain.go(t, plan.path(source.dir))?;
            read_file(t, here, &object(source), OBJECT, CHUNK)?;
        }
        t.compute(LINK);
        chain.close(t)?;
        write_file(t, dir, b"a.out", BINARY, WriteMode { open: Open::CreateNew, piece: CHUNK })?;
        t.close_dir(dir)?;
        Ok(objects)
    }

    fn rm(&mut self, t: &mut dyn Target, copy: &[u8]) -> Result<u64> {
        remove_tree(t, self.top, copy, self.meter)
    }
}

fn object(source: &File) -> Vec<u8> {
    let stem = source.name.strip_suffix(b"c").unwrap_or(&source.name);
    [stem, b"o"].concat()
}
