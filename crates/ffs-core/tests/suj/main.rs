//! Mounts that keep a soft-updates journal, and every kind of state that a loss of power leaves of
//! them: the recovery by the journal repairs it, with few exceptions that lead to a full
//! check, and a full check afterwards finds nothing.
//!
//! `FFS_SUJ_SEED` is the first seed (default 1), `FFS_SUJ_SEEDS` the number of seeds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a test")]

mod commit;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod file;
mod freebsd;
mod history;
#[path = "../journal/records.rs"]
#[allow(dead_code, reason = "this test uses a part")]
mod records;
mod snapshots;
mod states;

use common::{START, Shape, in_parallel, mount_on, soft_volume};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::{MountOptions, OrderingPolicy};
use ffs_device::{Durability, MemDevice};
use ffs_ondisk::{Endian, Format};
use ffs_testkit::envvar::number;
use history::History;
use states::{States, Tally};

const SHAPES: [Shape; 4] = [
    (Endian::Little, Format::Ufs2, 4096, 512),
    (Endian::Big, Format::Ufs1, 8192, 1024),
    (Endian::Big, Format::Ufs2, 4096, 512),
    (Endian::Little, Format::Ufs2, 16384, 2048),
];

/// A volume with a journal, on a device whose writes are durable after a flush.
pub(crate) fn journaled_volume(shape: Shape) -> MemDevice {
    let dev = soft_volume(shape, 12 << 20);
    let on = TunefsOptions { journal: Some(true), now: START - 9, ..TunefsOptions::default() };
    tunefs(&dev, &on).unwrap();
    dev.with_durability(Durability::OnFlush)
}

pub(crate) fn options(limit: Option<u64>) -> MountOptions {
    MountOptions {
        ordering: OrderingPolicy::Journaled,
        journal_limit: limit,
        ..MountOptions::default()
    }
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let first = number("FFS_SUJ_SEED").unwrap_or(1);
    first..first + number("FFS_SUJ_SEEDS").unwrap_or(default)
}

/// The states of two rounds of operations on one volume.
fn recover(seed: u64) -> Tally {
    let mut all = Tally::default();
    let shape = SHAPES[(seed % 4) as usize];
    // A journal of 64 sectors or less begins again all the time.
    let limit = (!seed.is_multiple_of(3)).then_some(2 * u64::from(shape.2) * (1 + seed % 3 * 2));
    let mut dev = journaled_volume(shape);
    for round in 0..2 {
        let before = dev.snapshot();
        let w = mount_on(dev, &options(limit));
        assert!(w.fs.journal_stats().kept, "seed {seed}");
        let mut history = History::new(&w, seed * 100 + round);
        history.run(400);
        all.add_stats(&w.fs.journal_stats());
        let what = format!("seed {seed}, round {round}");
        let mut states = States::new(before, w.dev.take_events(), seed * 100 + round, what);
        dev = states.examine(history.log(), &mut all).with_durability(Durability::OnFlush);
    }
    all
}

#[test]
fn every_state_is_recovered_by_the_journal() {
    let mut all = Tally::default();
    for one in in_parallel(&seeds(6).collect::<Vec<u64>>(), |seed| recover(*seed)) {
        all.add(&one);
    }
    println!("{all:?}");
    if number("FFS_SUJ_SEED").is_none() {
        assert!(all.recovered > 3000 && all.checkpoints > 20, "{all:?}");
        assert_eq!((all.overflows, all.outside), (0, 0), "{all:?}");
    }
}
