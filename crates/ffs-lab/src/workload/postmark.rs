//! Postmark: the small files of a mail server. Parameters, defaults, the order of random draws and
//! the report are those of version 1.53. Times are not rounded to seconds.
//!
//! # Invariants
//! 1. The sequence of operations depends on Postmark's own seed (42) and not on that of the run, so
//!    it is the same in each run, as with the original.
//! 2. Each transaction has two operations: read or append, and create or delete.
//!
//! Reference: `docs/spec/benchmarks.md` §4.5.

mod report;
mod twister;

use super::file_calls::{WriteMode, read_pieces, write_file, write_pieces};
use super::parameters::{Parameter, Parameters};
use super::progress::ProgressMeter;
use super::{Outcome, PhaseInfo, PhaseRecorder, Workload, WorkloadInfo};
use crate::error::{LabError, Result};
use crate::systems::{Demand, DirId, Open, Target};
use crate::watch::Watch;
use twister::Twister;

pub(super) const INFO: WorkloadInfo = WorkloadInfo {
    name: "postmark",
    group: "Postmark",
    about: "Postmark: a pool of small files made, read, appended to and removed at random",
    params: &[
        Parameter::new("number", "500", "files of the pool"),
        Parameter::new("transactions", "500", "transactions, of two operations each"),
        Parameter::new("low", "500", "smallest file, bytes"),
        Parameter::new("high", "10000", "largest file, bytes"),
        Parameter::new("seed", "42", "seed of the random numbers"),
        Parameter::new("read", "512", "bytes of a read, unbuffered"),
        Parameter::new("write", "512", "bytes of a write, unbuffered"),
        Parameter::new("bias-read", "5", "reads in ten reads and appends; 11: neither"),
        Parameter::new("bias-create", "5", "creations in ten creations and deletions; 11: neither"),
        Parameter::new("buffering", "true", "whether the C library buffers reads and writes"),
        Parameter::new("buffer", "16384", "bytes of its buffer: the block size of the file system"),
        Parameter::new("subdirectories", "0", "number of directories for the files"),
    ],
    source: "Postmark 1.53 (J. Katcher, Network Appliance); the paper has 1.13",
    computes: false,
    make: |words| Ok(Box::new(Postmark::make(words)?)),
};

struct Postmark {
    number: u32,
    transactions: u32,
    low: u32,
    high: u32,
    seed: u32,
    /// Bytes of a read, and of a write.
    pieces: (u64, u64),
    bias: (u32, u32),
    subdirectories: u32,
}

/// The bias that turns a kind of operation off.
const NEITHER: u32 = 11;

impl Postmark {
    fn make(words: &Parameters) -> Result<Postmark> {
        let low = words.fixed("low", 500, 1, 1 << 30)?;
        let high = words.fixed("high", 10_000.max(low), low, 1 << 30)?;
        let most = 1 << 20;
        let mut pieces =
            (words.fixed("read", 512, 1, most)?.into(), words.fixed("write", 512, 1, most)?.into());
        let buffer = words.fixed("buffer", 16 << 10, 512, most)?.into();
        if words.word("buffering", &["true", "false"])? == "true" {
            pieces = (buffer, buffer);
        }
        let bias = |name| words.fixed(name, 5, 0, NEITHER);
        Ok(Postmark {
            number: words.count("number", 500, 100_000_000)?,
            transactions: words.count("transactions", 500, 1_000_000_000)?,
            low,
            high,
            seed: words.fixed("seed", 42, 1, u32::MAX)?,
            pieces,
            bias: (bias("bias-read")?, bias("bias-create")?),
            subdirectories: words.fixed("subdirectories", 0, 0, 10_000)?,
        })
    }
}

impl Workload for Postmark {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn group(&self) -> String {
        let thousands = |n: u32| {
            if n.is_multiple_of(1000) { format!("{}K", n / 1000) } else { n.to_string() }
        };
        let (number, transactions) = (thousands(self.number), thousands(self.transactions));
        format!("Postmark {number} files, {transactions} trans")
    }

    fn phases(&self) -> Vec<PhaseInfo> {
        use PhaseInfo as I;
        vec![
            I::time("total", "total time", "transactions").row("total"),
            I::rate("transactions", "transactions", "transactions").row("transaction"),
            I::rate("create", "files created, overall", "files").row("creation"),
            I::rate("create-alone", "creation alone", "files").row("creation alone"),
            I::rate("create-mixed", "creation, mixed with transactions", "files"),
            I::rate("read", "files read", "files").row("file read"),
            I::rate("append", "files appended to", "files"),
            I::rate("delete", "files deleted, overall", "files").row("deletion"),
            I::rate("delete-alone", "deletion alone", "files").row("deletion alone"),
            I::rate("delete-mixed", "deletion, mixed with transactions", "files"),
            I::rate("data-read", "data read", "bytes").row("data read"),
            I::rate("data-written", "data written", "bytes").row("data write"),
        ]
    }

    fn demand(&self) -> Demand {
        // The pool may grow to the size of the table.
        let files = 2 * u64::from(self.number);
        let mean = (u64::from(self.low) + u64::from(self.high)) / 2;
        let spare = u64::from(self.subdirectories) + 1;
        Demand { files: files + spare, bytes: files * mean * 4 / 3 }
    }

    fn operations(&self) -> u64 {
        2 * u64::from(self.number) + u64::from(self.transactions)
    }

    fn run(
        &self,
        target: &mut dyn Target,
        _: u64,
        recorder: &mut PhaseRecorder,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let top = target.begin(self.demand())?;
        let mut pool = Pool::new(self, top);
        pool.make_directories(target)?;
        let mut meter = ProgressMeter::new(watch);
        meter.step("create");
        let created = recorder.phase(target, "create-alone", |t| {
            for _ in 0..self.number {
                pool.create(t)?;
                meter.tick()?;
            }
            Ok(f64::from(self.number))
        })?;
        let created = created.elapsed;
        meter.step("transactions");
        let before = pool.count.deleted;
        let mixed = recorder.phase(target, "transactions", |t| pool.transactions(t, &mut meter))?;
        let mixed = mixed.elapsed;
        let deleted_mixed = pool.count.deleted - before;
        meter.step("delete");
        let deleted = recorder.phase(target, "delete-alone", |t| {
            let before = pool.count.deleted;
            for slot in 0..pool.table.len() {
                if pool.table[slot].size > 0 {
                    pool.delete(t, slot)?;
                    meter.tick()?;
                }
            }
            Ok((pool.count.deleted - before) as f64)
        })?;
        let total = created + mixed + deleted.elapsed;
        let count = &pool.count;
        let n = |count: u64| count as f64;
        recorder.result("total", total, f64::from(self.transactions));
        recorder.result("create", total, n(count.created));
        recorder.result("create-mixed", mixed, n(count.created - u64::from(self.number)));
        recorder.result("read", mixed, n(count.read));
        recorder.result("append", mixed, n(count.appended));
        recorder.result("delete", total, n(count.deleted));
        recorder.result("delete-mixed", mixed, n(deleted_mixed));
        recorder.result("data-read", total, n(count.bytes_read));
        recorder.result("data-written", total, n(count.bytes_written));
        pool.remove_directories(target)
    }

    fn report(&self, outcome: &Outcome) -> Option<String> {
        report::verbose(outcome)
    }
}

/// A slot of Postmark's table, in use if its size is not 0.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The number in the name of the file.
    number: u64,
    subdirectory: usize,
    size: u32,
}

#[derive(Default)]
struct Count {
    created: u64,
    deleted: u64,
    read: u64,
    appended: u64,
    bytes_read: u64,
    bytes_written: u64,
}

struct Pool<'a> {
    set: &'a Postmark,
    twister: Twister,
    table: Vec<Slot>,
    /// The slot after the last allocated one.
    next: usize,
    /// The directories of the files; the first is the working directory.
    dirs: Vec<DirId>,
    count: Count,
}

impl<'a> Pool<'a> {
    fn new(set: &'a Postmark, top: DirId) -> Pool<'a> {
        let mut twister = Twister::new(set.seed);
        // The original draws numbers to fill a buffer with text.
        for _ in 0..u64::from(set.high) * 2 {
            twister.below(95);
        }
        let table = vec![Slot::default(); set.number as usize * 2];
        Pool { set, twister, table, next: 0, dirs: vec![top], count: Count::default() }
    }

    fn subdirectories(&self) -> u32 {
        if self.set.subdirectories > 1 { self.set.subdirectories } else { 0 }
    }

    fn make_directories(&mut self, t: &mut dyn Target) -> Result<()> {
        for number in 0..self.subdirectories() {
            let dir = t.mkdir(self.dirs[0], format!("s{number}").as_bytes())?;
            self.dirs.push(dir);
        }
        Ok(())
    }

    fn remove_directories(&mut self, t: &mut dyn Target) -> Result<()> {
        let top = self.dirs[0];
        for (number, dir) in self.dirs.drain(1..).enumerate() {
            t.close_dir(dir)?;
            t.rmdir(top, format!("s{number}").as_bytes())?;
        }
        Ok(())
    }

    /// A slot for a new file: the next one, or the first free one.
    fn free_slot(&mut self) -> Option<usize> {
        let free = |slot: &Slot| slot.size == 0;
        let next = self.table.get(self.next).filter(|slot| free(slot)).map(|_| self.next);
        let slot = next.or_else(|| self.table.iter().position(free))?;
        self.next = slot + 1;
        Some(slot)
    }

    fn used_slot(&mut self) -> usize {
        loop {
            let slot = self.twister.below(self.table.len() as u32) as usize;
            if self.table[slot].size > 0 {
                return slot;
            }
        }
    }

    fn create(&mut self, t: &mut dyn Target) -> Result<()> {
        let Some(at) = self.free_slot() else { return Ok(()) };
        let subdirectory = match self.subdirectories() {
            0 => 0,
            many => 1 + self.twister.below(many) as usize,
        };
        self.count.created += 1;
        let size = self.set.low + self.twister.below(self.set.high - self.set.low);
        let slot = Slot { number: self.count.created, subdirectory, size };
        self.table[at] = slot;
        let write = WriteMode { open: Open::Truncate, piece: self.set.pieces.1 };
        write_file(t, self.dirs[subdirectory], &name(slot), size.into(), write)?;
        self.count.bytes_written += u64::from(size);
        Ok(())
    }

    fn delete(&mut self, t: &mut dyn Target, at: usize) -> Result<()> {
        let slot = std::mem::take(&mut self.table[at]);
        self.count.deleted += 1;
        t.unlink(self.dirs[slot.subdirectory], &name(slot))
    }

    fn read(&mut self, t: &mut dyn Target) -> Result<()> {
        let at = self.used_slot();
        let slot = self.table[at];
        let file = t.open(self.dirs[slot.subdirectory], &name(slot), Open::Read)?;
        let read = read_pieces(t, file, slot.size.into(), self.set.pieces.0)?;
        t.close(file)?;
        self.count.read += 1;
        self.count.bytes_read += read;
        Ok(())
    }

    fn append(&mut self, t: &mut dyn Target) -> Result<()> {
        let at = self.used_slot();
        let slot = self.table[at];
        if slot.size >= self.set.high {
            return Ok(());
        }
        let file = t.open(self.dirs[slot.subdirectory], &name(slot), Open::Append)?;
        let more = self.twister.below(self.set.high - slot.size) + 1;
        write_pieces(t, file, slot.size.into(), more.into(), self.set.pieces.1)?;
        t.close(file)?;
        self.table[at].size += more;
        self.count.appended += 1;
        self.count.bytes_written += u64::from(more);
        Ok(())
    }

    fn transactions(&mut self, t: &mut dyn Target, meter: &mut ProgressMeter<'_>) -> Result<f64> {
        let (bias_read, bias_create) = self.set.bias;
        for done in 0..self.set.transactions {
            if self.count.created == self.count.deleted {
                return Err(LabError::Plan(format!(
                    "postmark: out of files after {done} transactions; take a larger number= or \
                     fewer transactions="
                )));
            }
            if bias_read != NEITHER {
                if self.twister.below(10) < bias_read { self.read(t)? } else { self.append(t)? }
            }
            if bias_create != NEITHER {
                if self.twister.below(10) < bias_create {
                    self.create(t)?;
                } else {
                    let at = self.used_slot();
                    self.delete(t, at)?;
                }
            }
            meter.tick()?;
        }
        Ok(f64::from(self.set.transactions))
    }
}

fn name(slot: Slot) -> Vec<u8> {
    slot.number.to_string().into_bytes()
}
