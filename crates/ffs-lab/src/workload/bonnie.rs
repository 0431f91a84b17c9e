//! Bonnie++: file and data tests.
//!
//! A name is a number of seven digits and up to twelve random characters. The number comes first in
//! the sequential tests and last in the random ones. The sequential tests visit the files in the
//! order of the directory, the random tests in the order of a shuffled table.
//!
//! Reference: `docs/spec/benchmarks.md` §4.3.

use std::time::Duration;

use super::file_calls::{WriteMode, entries, read_file, write_file};
use super::parameters::{Parameter, Parameters};
use super::progress::ProgressMeter;
use super::random::RandomStream;
use super::recorder::CPU_SUFFIX;
use super::{PhaseInfo, PhaseRecorder, Workload, WorkloadInfo};
use crate::error::Result;
use crate::systems::{Demand, DirId, Open, Target};
use crate::watch::Watch;

pub(super) const INFO: WorkloadInfo = WorkloadInfo {
    name: "bonnie",
    group: "Bonnie++",
    about: "Bonnie++: one large file written, rewritten and read; many files made and removed",
    params: &[
        Parameter::new("n", "16", "files of the file tests, in units of 1024; 0 omits them"),
        Parameter::new("data", "512m", "bytes of the large file; 0 omits the data tests"),
        Parameter::new("min", "0", "smallest file of the file tests, bytes"),
        Parameter::new("max", "0", "largest file of the file tests, bytes"),
        Parameter::new("sync", "off", "on: creation ends with a sync, as in versions 2"),
    ],
    source: "paper §4; Bonnie++'s documentation",
    computes: true,
    make: |words| Ok(Box::new(Bonnie::make(words)?)),
};

struct Bonnie {
    files: u32,
    data: u64,
    sizes: (u64, u64),
    sync: bool,
}

/// Bytes of a read or write.
const CHUNK: u64 = 8 << 10;
/// Processor time of the C library for reading or writing one byte.
const PER_CHARACTER: Duration = Duration::from_nanos(40);
/// The number of random seeks.
const SEEKS: u32 = 8192;
/// One seek of this many rewrites its block.
const REWRITTEN: u32 = 10;
/// The name of the large file.
const LARGE: &[u8] = b"Bonnie.data";

/// The data tests: name, and title for people.
const DATA: [(&str, &str); 6] = [
    ("write-chr", "sequential output, per character"),
    ("write-block", "sequential output, block"),
    ("rewrite", "sequential output, rewrite"),
    ("read-chr", "sequential input, per character"),
    ("read-block", "sequential input, block"),
    ("seeks", "random seeks"),
];

/// The file tests: name, title for people, and row of Figure 10.
const FILES: [(&str, &str, Option<&str>); 6] = [
    ("seq-create", "sequential create", Some("sequential file create")),
    ("seq-read", "sequential read", Some("sequential file read")),
    ("seq-delete", "sequential delete", Some("sequential file delete")),
    ("ran-create", "random create", Some("random file create")),
    ("ran-read", "random read", Some("random file read")),
    ("ran-delete", "random delete", Some("random file delete")),
];

impl Bonnie {
    fn make(words: &Parameters) -> Result<Bonnie> {
        let files = match words.fixed("n", 16, 0, 1 << 20)? {
            0 => 0,
            n => u32::try_from(words.share(u64::from(n) * 1024)).unwrap_or(u32::MAX),
        };
        let data = match words.bytes("data", 512 << 20)? / CHUNK {
            0 => 0,
            chunks => words.share(chunks) * CHUNK,
        };
        let min = words.bytes("min", 0)?;
        let sizes = (min, words.bytes("max", 0)?.max(min));
        let sync = words.word("sync", &["off", "on"])? == "on";
        Ok(Bonnie { files, data, sizes, sync })
    }
}

impl Workload for Bonnie {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn phases(&self) -> Vec<PhaseInfo> {
        let mut infos = Vec::new();
        let mut add = |id: &str, title: &str, unit, row: Option<&'static str>| {
            let rate = PhaseInfo::rate(id, title, unit);
            infos.push(row.map_or(rate.clone(), |row| rate.row(row)));
            infos.push(PhaseInfo::cpu(&format!("{id}{CPU_SUFFIX}"), &format!("{title}, %CPU")));
        };
        if self.data > 0 {
            for (id, title) in DATA {
                add(id, title, if id == "seeks" { "seeks" } else { "bytes" }, None);
            }
        }
        if self.files > 0 {
            FILES.iter().for_each(|(id, title, row)| add(id, title, "files", *row));
        }
        infos
    }

    fn demand(&self) -> Demand {
        let files = u64::from(self.files);
        Demand { files: files + 2, bytes: self.data + files * self.sizes.1 }
    }

    fn operations(&self) -> u64 {
        u64::from(self.files) * 6 + self.data / CHUNK * 6 + u64::from(SEEKS)
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
        if self.data > 0 {
            self.data_tests(target, top, seed, recorder, &mut meter)?;
        }
        if self.files > 0 {
            let seq = FileTests { bonnie: self, sequential: true, top };
            seq.run(target, seed, recorder, &mut meter)?;
            let random = FileTests { sequential: false, ..seq };
            random.run(target, seed, recorder, &mut meter)?;
        }
        Ok(())
    }
}

impl Bonnie {
    fn data_tests(
        &self,
        target: &mut dyn Target,
        top: DirId,
        seed: u64,
        recorder: &mut PhaseRecorder,
        meter: &mut ProgressMeter<'_>,
    ) -> Result<()> {
        let bytes = self.data as f64;
        for (id, _) in DATA {
            meter.phase(recorder, target, id, |t, meter| {
                match id {
                    "write-chr" => self.write(t, top, Open::CreateNew, PER_CHARACTER, meter)?,
                    "write-block" => self.write(t, top, Open::Truncate, Duration::ZERO, meter)?,
                    "rewrite" => self.rewrite(t, top, meter)?,
                    "read-chr" => self.read(t, top, PER_CHARACTER, meter)?,
                    "read-block" => self.read(t, top, Duration::ZERO, meter)?,
                    _ => {
                        self.seeks(t, top, seed, meter)?;
                        return Ok(f64::from(SEEKS));
                    }
                }
                Ok(bytes)
            })?;
        }
        target.unlink(top, LARGE)
    }

    fn chunks(&self) -> impl Iterator<Item = u64> {
        (0..self.data / CHUNK).map(|chunk| chunk * CHUNK)
    }

    fn write(
        &self,
        t: &mut dyn Target,
        top: DirId,
        how: Open,
        per_byte: Duration,
        meter: &mut ProgressMeter<'_>,
    ) -> Result<()> {
        let file = t.open(top, LARGE, how)?;
        for at in self.chunks() {
            t.compute(per_byte * CHUNK as u32);
            t.write(file, at, CHUNK as usize)?;
            meter.tick()?;
        }
        t.close(file)
    }

    fn rewrite(&self, t: &mut dyn Target, top: DirId, meter: &mut ProgressMeter<'_>) -> Result<()> {
        let file = t.open(top, LARGE, Open::Write)?;
        for at in self.chunks() {
            t.read(file, at, CHUNK as usize)?;
            t.write(file, at, CHUNK as usize)?;
            meter.tick()?;
        }
        t.close(file)
    }

    fn read(
        &self,
        t: &mut dyn Target,
        top: DirId,
        per_byte: Duration,
        meter: &mut ProgressMeter<'_>,
    ) -> Result<()> {
        let file = t.open(top, LARGE, Open::Read)?;
        for at in self.chunks() {
            t.read(file, at, CHUNK as usize)?;
            t.compute(per_byte * CHUNK as u32);
            meter.tick()?;
        }
        t.close(file)
    }

    fn seeks(
        &self,
        t: &mut dyn Target,
        top: DirId,
        seed: u64,
        meter: &mut ProgressMeter<'_>,
    ) -> Result<()> {
        let draw = RandomStream::new(seed, "bonnie seeks");
        let file = t.open(top, LARGE, Open::Write)?;
        for seek in 0..SEEKS {
            let at = draw.below(self.data / CHUNK) * CHUNK;
            t.read(file, at, CHUNK as usize)?;
            if seek % REWRITTEN == 0 {
                t.write(file, at, CHUNK as usize)?;
            }
            meter.tick()?;
        }
        t.close(file)
    }
}

/// The sequential file tests or the random ones.
struct FileTests<'a> {
    bonnie: &'a Bonnie,
    sequential: bool,
    top: DirId,
}

impl FileTests<'_> {
    fn run(
        &self,
        target: &mut dyn Target,
        seed: u64,
        recorder: &mut PhaseRecorder,
        meter: &mut ProgressMeter<'_>,
    ) -> Result<()> {
        let purpose = if self.sequential { "bonnie sequential" } else { "bonnie random" };
        let draw = RandomStream::new(seed, purpose);
        let mut names: Vec<Vec<u8>> = (0..self.bonnie.files).map(|i| self.name(i, &draw)).collect();
        let ids = if self.sequential { &FILES[..3] } else { &FILES[3..] };
        let folder: &[u8] = if self.sequential { b"Bonnie.seq" } else { b"Bonnie.ran" };
        let dir = target.mkdir(self.top, folder)?;
        let files = names.len() as f64;
        meter.phase(recorder, target, ids[0].0, |t, meter| {
            for name in &names {
                self.create(t, dir, name, &draw)?;
                meter.tick()?;
            }
            if self.bonnie.sync {
                t.sync()?;
            }
            Ok(files)
        })?;
        shuffle(&mut names, &draw);
        meter.phase(recorder, target, ids[1].0, |t, meter| {
            self.each(t, dir, &names, meter, |t, name| self.look_at(t, dir, name))?;
            Ok(files)
        })?;
        shuffle(&mut names, &draw);
        meter.phase(recorder, target, ids[2].0, |t, meter| {
            self.each(t, dir, &names, meter, |t, name| t.unlink(dir, name))?;
            t.close_dir(dir)?;
            t.rmdir(self.top, folder)?;
            Ok(files)
        })?;
        Ok(())
    }

    fn name(&self, number: u32, draw: &RandomStream) -> Vec<u8> {
        const CHARACTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let random = (0..draw.below(13)).map(|_| CHARACTERS[draw.index(CHARACTERS.len())]);
        let random: Vec<u8> = random.collect();
        let number = format!("{number:07}").into_bytes();
        if self.sequential { [number, random].concat() } else { [random, number].concat() }
    }

    fn create(
        &self,
        t: &mut dyn Target,
        dir: DirId,
        name: &[u8],
        draw: &RandomStream,
    ) -> Result<()> {
        let (min, max) = self.bonnie.sizes;
        if max == 0 {
            return t.create(dir, name);
        }
        let write = WriteMode { open: Open::CreateNew, piece: CHUNK };
        write_file(t, dir, name, draw.range(min, max), write)
    }

    fn look_at(&self, t: &mut dyn Target, dir: DirId, name: &[u8]) -> Result<()> {
        match t.stat(dir, name)? {
            Some(stat) if stat.size > 0 => read_file(t, dir, name, stat.size, CHUNK).map(drop),
            _ => Ok(()),
        }
    }

    /// Calls `each` for every file, in the order of the test.
    fn each(
        &self,
        t: &mut dyn Target,
        dir: DirId,
        names: &[Vec<u8>],
        meter: &mut ProgressMeter<'_>,
        mut act: impl FnMut(&mut dyn Target, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if self.sequential {
            for (name, _) in entries(t, dir)? {
                act(t, &name)?;
                meter.tick()?;
            }
            return Ok(());
        }
        for name in names {
            act(t, name)?;
            meter.tick()?;
        }
        Ok(())
    }
}

/// The shuffle of Bonnie++: each element is swapped with a random one.
fn shuffle(names: &mut [Vec<u8>], draw: &RandomStream) {
    for i in 0..names.len() {
        names.swap(i, draw.index(names.len()));
    }
}
