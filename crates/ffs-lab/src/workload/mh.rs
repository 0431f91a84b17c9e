//! A mail folder of the MH kind: thousands of empty files named by numbers in one directory.
//!
//! The files are made in the order in which a directory with years of use lists them: see
//! [`history`]. `pack` renames them to 1, 2, 3 ... in the order of their numbers.
//!
//! Reference: `docs/spec/benchmarks.md` §4.2.

use std::collections::BTreeMap;

use super::file_calls::{entries, remove_tree};
use super::parameters::{Parameter, Parameters};
use super::progress::ProgressMeter;
use super::random::RandomStream;
use super::{PhaseInfo, PhaseRecorder, Workload, WorkloadInfo};
use crate::error::Result;
use crate::systems::{Demand, Target};
use crate::watch::Watch;

pub(super) const INFO: WorkloadInfo = WorkloadInfo {
    name: "mh",
    group: "MH folder",
    about: "a mail folder: make, renumber and remove thousands of empty files in one directory",
    params: &[
        Parameter::new("count", "33164", "files"),
        Parameter::new("order", "found", "order of creation: found, sorted or random"),
    ],
    source: "paper §4 (12 years of mail); the order is that of a simulated folder's history",
    computes: false,
    make: |words| Ok(Box::new(Mh::make(words)?)),
};

/// The number of files in the paper's folder.
const COUNT: u32 = 33_164;
/// The number of messages delivered to it over the years.
const DELIVERED: u64 = 48_000;
/// The name of the folder.
const FOLDER: &[u8] = b"inbox";

struct Mh {
    count: u32,
    order: DeliveryOrder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DeliveryOrder {
    Found,
    Sorted,
    Random,
}

impl Mh {
    fn make(words: &Parameters) -> Result<Mh> {
        let order = match words.word("order", &["found", "sorted", "random"])? {
            "sorted" => DeliveryOrder::Sorted,
            "random" => DeliveryOrder::Random,
            _ => DeliveryOrder::Found,
        };
        Ok(Mh { count: words.count("count", COUNT, 10_000_000)?, order })
    }

    fn numbers(&self, seed: u64) -> Vec<u32> {
        let mut numbers = history(self.count, seed);
        match self.order {
            DeliveryOrder::Found => {}
            DeliveryOrder::Sorted => numbers.sort_unstable(),
            DeliveryOrder::Random => {
                numbers.sort_unstable();
                RandomStream::new(seed, "mh order").shuffle(&mut numbers);
            }
        }
        numbers
    }
}

impl Workload for Mh {
    fn info(&self) -> &'static WorkloadInfo {
        &INFO
    }

    fn phases(&self) -> Vec<PhaseInfo> {
        vec![
            PhaseInfo::time("create", "create", "files").row("create"),
            PhaseInfo::time("pack", "folder -pack", "renames").row("pack"),
            PhaseInfo::time("rm", "rm -rf", "files").row("rm"),
        ]
    }

    fn demand(&self) -> Demand {
        Demand::files(u64::from(self.count) + 1)
    }

    fn operations(&self) -> u64 {
        3 * u64::from(self.count)
    }

    fn run(
        &self,
        target: &mut dyn Target,
        seed: u64,
        recorder: &mut PhaseRecorder,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let numbers = self.numbers(seed);
        let names: Vec<String> = numbers.iter().map(u32::to_string).collect();
        let top = target.begin(self.demand())?;
        let dir = target.mkdir(top, FOLDER)?;
        let mut meter = ProgressMeter::new(watch);
        meter.phase(recorder, target, "create", |t, meter| {
            for name in &names {
                t.create(dir, name.as_bytes())?;
                meter.tick()?;
            }
            Ok(names.len() as f64)
        })?;
        meter.phase(recorder, target, "pack", |t, meter| {
            let found = entries(t, dir)?;
            let number = |name: &[u8]| std::str::from_utf8(name).ok()?.parse::<u32>().ok();
            let mut numbers: Vec<u32> = found.iter().filter_map(|(name, _)| number(name)).collect();
            numbers.sort_unstable();
            let mut renames = 0;
            for (number, rank) in numbers.into_iter().zip(1u32..) {
                if number != rank {
                    t.rename(dir, number.to_string().as_bytes(), rank.to_string().as_bytes())?;
                    renames += 1;
                }
                meter.tick()?;
            }
            Ok(f64::from(renames))
        })?;
        target.close_dir(dir)?;
        meter.phase(recorder, target, "rm", |t, meter| {
            let removed = remove_tree(t, top, FOLDER, meter)?;
            Ok((removed - 1) as f64)
        })?;
        Ok(())
    }
}

/// The size of a directory chunk in bytes (`DIRBLKSIZ`).
const BLOCK: u64 = 512;
/// Bytes of `.` and `..` in the first chunk.
const DOTS: u64 = 24;
/// The share of deletions that remove a recent message, percent.
const RECENT_PERCENT: u64 = 60;
/// The number of messages that are recent.
const RECENT: u64 = 500;
/// Attempts to draw a recent message, before any message is drawn.
const TRIES: u32 = 64;

/// The size in bytes of the directory entry of a number.
fn record(number: u32) -> u64 {
    let digits = u64::from(number.checked_ilog10().unwrap_or(0)) + 1;
    // Eight bytes of header, then the name and its zero byte, padded to four bytes.
    8 + (digits + 1).next_multiple_of(4)
}

/// The numbers of `count` messages in the order in which their directory lists them.
///
/// Messages are delivered with ascending numbers, each into the first chunk of the directory with
/// space for its entry. About three in ten are deleted again, most of them soon.
fn history(count: u32, seed: u64) -> Vec<u32> {
    let draw = RandomStream::new(seed, "mh history");
    let delivered = u64::from(count) * DELIVERED / u64::from(COUNT);
    let delivered = delivered.max(u64::from(count));
    let mut folder = Folder::default();
    let mut deletions = delivered - u64::from(count);
    for number in 1..=delivered as u32 {
        folder.deliver(number);
        // Selection sampling: the exact number of deletions, at equally likely times.
        let left = delivered - u64::from(number) + 1;
        if draw.below(left) < deletions {
            deletions -= 1;
            let victim = folder.victim(&draw, number);
            folder.delete(victim);
        }
    }
    folder.blocks.into_iter().flat_map(|block| block.numbers).collect()
}

#[derive(Default)]
struct Folder {
    blocks: Vec<Block>,
    /// The block of each message, and its index in `living`.
    places: BTreeMap<u32, (usize, usize)>,
    living: Vec<u32>,
    /// No block before this one has space for an entry.
    first: usize,
}

struct Block {
    /// Free bytes.
    free: u64,
    /// In the order of the directory. A new entry is the last one, because the others are
    /// compacted.
    numbers: Vec<u32>,
}

impl Folder {
    fn deliver(&mut self, number: u32) {
        let size = record(number);
        let fits = |block: &Block| block.free >= size;
        let at = match self.blocks[self.first..].iter().position(fits) {
            Some(at) => self.first + at,
            None => {
                let dots = if self.blocks.is_empty() { DOTS } else { 0 };
                self.blocks.push(Block { free: BLOCK - dots, numbers: Vec::new() });
                self.blocks.len() - 1
            }
        };
        let block = &mut self.blocks[at];
        block.free -= size;
        block.numbers.push(number);
        self.places.insert(number, (at, self.living.len()));
        self.living.push(number);
        // The smallest entry has 12 bytes.
        while self.first < at && self.blocks[self.first].free < 12 {
            self.first += 1;
        }
    }

    fn victim(&self, draw: &RandomStream, last: u32) -> u32 {
        if draw.percent(RECENT_PERCENT) {
            for _ in 0..TRIES {
                let back = draw.below(RECENT.min(u64::from(last))) as u32;
                if self.places.contains_key(&(last - back)) {
                    return last - back;
                }
            }
        }
        self.living[draw.index(self.living.len())]
    }

    fn delete(&mut self, number: u32) {
        let Some((at, place)) = self.places.remove(&number) else { return };
        self.living.swap_remove(place);
        if let Some(moved) = self.living.get(place) {
            self.places.entry(*moved).and_modify(|found| found.1 = place);
        }
        let block = &mut self.blocks[at];
        block.numbers.retain(|each| *each != number);
        block.free += record(number);
        self.first = self.first.min(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_has_the_papers_numbers_mostly_in_order() {
        let numbers = history(COUNT, 1);
        assert_eq!(numbers.len(), COUNT as usize);
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), COUNT as usize, "a number twice");
        assert!(sorted.first() >= Some(&1) && *sorted.last().unwrap() <= DELIVERED as u32);
        let ascents = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
        let share = ascents as f64 / numbers.len() as f64;
        assert!((0.6..0.99).contains(&share), "neither sorted nor shuffled: {share}");
        assert_eq!(numbers, history(COUNT, 1));
        assert_ne!(numbers, history(COUNT, 2));
        assert_eq!(history(1, 5).len(), 1);
    }

    #[test]
    fn records_have_their_sizes() {
        assert_eq!([1, 123, 1234, 48_000].map(record), [12, 12, 16, 16]);
    }
}
