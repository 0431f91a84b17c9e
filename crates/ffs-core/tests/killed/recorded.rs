//! The load in this process, and a check of every prefix of its writes.
//!
//! A kill tests one point in time of a run; this tests all of them. The writes are recorded in
//! order, with a mark where an operation returned. Then each prefix is repaired and checked like an
//! image after a kill. The next run continues with one of them.

use crate::child::run_here;
use crate::{Reports, Round, Tally};
use ffs_device::record::Event;
use ffs_device::{BlockDevice, Durability, MemDevice, Recorder};
use ffs_testkit::rng::SplitMix64;
use std::sync::Arc;

/// Most operations of a run.
const MOST_OPERATIONS: u64 = 240;
/// Most prefixes examined of a run.
const MOST_PREFIXES: u64 = 400;

/// Runs on `image` and checks the prefixes. Returns the image of one of them.
pub(crate) fn run(
    image: &MemDevice,
    round: &Round,
    rng: &mut SplitMix64,
    tally: &mut Tally,
) -> MemDevice {
    let events = record(image, round, 1 + rng.below(MOST_OPERATIONS));
    let writes = events.iter().filter(|e| matches!(e, Event::Write { .. })).count() as u64;
    let (stride, chosen) = (writes.div_ceil(MOST_PREFIXES).max(1), rng.below(writes.max(1)));
    let (state, mut left) = (image.snapshot(), image.snapshot());
    let (mut reports, mut prefix) = (Reports::default(), 0);
    for event in &events {
        match event {
            Event::Mark { label, .. } => reports.add(label.parse().unwrap()),
            Event::Write { offset, bytes, .. } => {
                state.write_at(*offset, bytes).unwrap();
                if prefix == chosen {
                    left = state.snapshot();
                }
                prefix += 1;
                if prefix % stride == 0 {
                    let place = format_args!("after write {prefix} of {writes} (byte {offset})");
                    round.check(&state, &reports, place, tally);
                }
            }
            _ => {}
        }
    }
    tally.operations += reports.operations();
    left
}

/// Records the writes of a run, with a mark where an operation returned.
fn record(image: &MemDevice, round: &Round, operations: u64) -> Vec<Event> {
    let device = image.snapshot().with_durability(Durability::OnFlush);
    let device = Arc::new(Recorder::new(device));
    run_here(device.clone(), round, operations, &|what| device.mark(what.to_string()));
    device.take_events()
}
