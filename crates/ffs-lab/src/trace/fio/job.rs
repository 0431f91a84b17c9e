//! From jobs to calls.

use std::collections::BTreeMap;

use ffs_device::{Rng, SplitMix64};

use super::options::Job;
use crate::trace::path::TracePath;
use crate::trace::{Call, Have, How, MOST_IO, Op, Trace};

/// The most calls of a job file.
const MOST_CALLS: u64 = 5_000_000;

/// The most blocks of a file whose offsets are drawn without repetition.
const MOST_MAPPED: u64 = 1 << 24;

type Made<T> = Result<T, String>;

/// A file of a job.
#[derive(Debug, Clone)]
struct JobFile {
    path: TracePath,
    size: u64,
    number: u64,
}

/// The calls of one copy of a job.
struct Script {
    think: u64,
    ops: std::vec::IntoIter<Op>,
}

/// The trace of jobs.
pub(super) fn trace(jobs: &[Job], seed: u64) -> Made<Trace> {
    let mut maker = Maker { trace: Trace::default(), files: BTreeMap::new(), numbers: 0, calls: 0 };
    maker.trace.is_complete = true;
    let mut group: Vec<Script> = Vec::new();
    let mut drawn = seed;
    let mut copy_number = 0;
    for job in jobs {
        if job.stonewall {
            maker.run(std::mem::take(&mut group));
        }
        for copy in 0..job.copies {
            copy_number += 1;
            drawn = SplitMix64::new(drawn ^ copy_number).next_u64();
            let wrong = |why| format!("line {}: job '{}': {why}", job.line, job.name);
            group.push(maker.script(job, copy, drawn).map_err(wrong)?);
        }
    }
    maker.run(group);
    let Maker { mut trace, files, .. } = maker;
    let mut have = directories(jobs)?;
    have.extend(files.into_iter().map(|(path, size)| Have::File(path, size)));
    trace.have = have;
    Ok(trace)
}

/// The directories of all jobs, each after the one above.
fn directories(jobs: &[Job]) -> Made<Vec<Have>> {
    let mut all = std::collections::BTreeSet::new();
    for job in jobs {
        let mut path = TracePath::root();
        for name in job.directory.names() {
            path = path.join(name)?;
            all.insert(path.clone());
        }
    }
    Ok(all.into_iter().map(Have::Dir).collect())
}

struct Maker {
    trace: Trace,
    /// The files that exist before, with their sizes.
    files: BTreeMap<TracePath, u64>,
    numbers: u64,
    calls: u64,
}

impl Maker {
    /// The files of a copy of a job.
    fn files(&mut self, job: &Job, copy: u64) -> Made<Vec<JobFile>> {
        let named = job.file_names.len() as u64;
        let count = if named > 0 { named } else { job.files };
        let size = match (job.file_size, job.size) {
            (Some(size), _) => size,
            (None, Some(size)) => size / count,
            (None, None) => return Err("has no size; expected size= or filesize=".to_owned()),
        };
        if size < job.block || job.block > MOST_IO {
            return Err(format!("a file of {size} bytes has no block of {} bytes", job.block));
        }
        let mut files = Vec::new();
        for at in 0..count {
            let name = match job.file_names.get(at as usize) {
                Some(name) => name.clone(),
                None => format!("{}.{copy}.{at}", job.name),
            };
            let path = job.directory.join(name.as_bytes())?;
            if job.kind.reads {
                let before = self.files.entry(path.clone()).or_default();
                *before = (*before).max(size);
            }
            self.numbers += 1;
            files.push(JobFile { path, size, number: self.numbers });
        }
        Ok(files)
    }

    /// The calls of a copy of a job.
    fn script(&mut self, job: &Job, copy: u64, seed: u64) -> Made<Script> {
        let files = self.files(job, copy)?;
        let all: u64 = files.iter().map(|file| file.size / job.block).sum();
        let each = job.io_size.map_or(all, |bytes| bytes / job.block);
        let count = each.saturating_mul(job.loops);
        self.calls = self.calls.saturating_add(count).saturating_add(2 * files.len() as u64);
        if self.calls > MOST_CALLS {
            return Err(format!("makes more than {MOST_CALLS} calls with the jobs before"));
        }
        let rng = SplitMix64::new(seed);
        let mut offsets: Vec<Offsets> = files.iter().map(|file| Offsets::of(job, file)).collect();
        let how = match (job.kind.reads, job.kind.writes) {
            (true, false) => How::Read,
            (true, true) => How::Write,
            _ => How::Create,
        };
        let opens =
            files.iter().map(|file| Op::Open { path: file.path.clone(), file: file.number, how });
        let mut ops: Vec<Op> = opens.collect();
        let mut writes = 0;
        for at in 0..count {
            let index = at as usize % files.len();
            let (file, len) = (files[index].number, job.block);
            let offset = offsets[index].next(&rng) * job.block;
            let reads = job.kind.reads && (!job.kind.writes || rng.next_u64() % 100 < job.mix_read);
            if reads {
                ops.push(Op::Read { file, offset, len });
                continue;
            }
            ops.push(Op::Write { file, offset, len });
            writes += 1;
            if job.fsync > 0 && writes % job.fsync == 0 {
                ops.push(Op::Fsync(file));
            }
        }
        for file in &files {
            if job.end_fsync && job.kind.writes {
                ops.push(Op::Fsync(file.number));
            }
            ops.push(Op::Close(file.number));
        }
        Ok(Script { think: job.think, ops: ops.into_iter() })
    }

    /// Adds the calls of jobs that run at the same time: they take turns.
    fn run(&mut self, mut group: Vec<Script>) {
        while !group.is_empty() {
            group.retain_mut(|script| {
                let Some(op) = script.ops.next() else { return false };
                let before = self.trace.calls.last().map_or(0, |call| call.at);
                let at = before.saturating_add(script.think);
                self.trace.calls.push(Call { line: 0, at, took: 0, pid: 0, op, error: None });
                true
            });
        }
    }
}

/// The blocks of a file in the order in which a job uses them.
struct Offsets {
    blocks: u64,
    random: bool,
    /// The blocks that were not used in this loop.
    left: Vec<u32>,
    has_map: bool,
    at: u64,
}

impl Offsets {
    fn of(job: &Job, file: &JobFile) -> Offsets {
        let blocks = file.size / job.block;
        let has_map = job.kind.random && !job.no_map && blocks <= MOST_MAPPED;
        Offsets { blocks, random: job.kind.random, left: Vec::new(), has_map, at: 0 }
    }

    fn next(&mut self, rng: &SplitMix64) -> u64 {
        if !self.random {
            let at = self.at;
            self.at = (at + 1) % self.blocks;
            return at;
        }
        if !self.has_map {
            return rng.next_u64() % self.blocks;
        }
        if self.left.is_empty() {
            self.left = (0..self.blocks as u32).collect();
        }
        let at = (rng.next_u64() % self.left.len() as u64) as usize;
        u64::from(self.left.swap_remove(at))
    }
}
