//! The load in this process, cut off after each of its writes.
//!
//! What a kill tries at one moment of a run is tried here at every one: the writes are recorded, in
//! the order in which they were made, with a mark where an operation returned; then each prefix is
//! repaired and judged as an image is after a kill. The next run goes on with one of them.

use crate::child::{Load, load, mount};
use crate::common::examine::examine;
use crate::{READY, Round, Tally, WRITERS};
use ffs_device::record::Event;
use ffs_device::{BlockDevice, Durability, MemDevice, Recorder};
use ffs_testkit::killtest::SyncCalls;
use ffs_testkit::rng::SplitMix64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations of a run at most.
const MOST_OPERATIONS: u64 = 240;
/// Cuts examined of a run at most.
const MOST_CUTS: u64 = 400;

/// Runs on `image` and examines what cuts leave; answers what one of them left.
pub(crate) fn run(
    image: &MemDevice,
    round: &Round,
    rng: &mut SplitMix64,
    tally: &mut Tally,
) -> MemDevice {
    let events = record(image, round, 1 + rng.below(MOST_OPERATIONS));
    let writes = events.iter().filter(|e| matches!(e, Event::Write { .. })).count() as u64;
    let (stride, chosen) = (writes.div_ceil(MOST_CUTS).max(1), rng.below(writes.max(1)));
    let (state, mut left) = (image.snapshot(), image.snapshot());
    let (mut done, mut ready, mut cut) = (vec![0; usize::from(WRITERS)], false, 0);
    for event in &events {
        match event {
            Event::Mark { label, .. } => match label.parse::<u8>().unwrap() {
                READY => ready = true,
                writer => done[usize::from(writer)] += 1,
            },
            Event::Write { offset, bytes, .. } => {
                state.write_at(*offset, bytes).unwrap();
                if cut == chosen {
                    left = state.snapshot();
                }
                cut += 1;
                if cut % stride == 0 {
                    let dev = Arc::new(state.snapshot());
                    let done = ready.then_some(done.as_slice());
                    let (repairs, promises) = examine(&dev, (round.seed, SyncCalls::Include), done)
                        .unwrap_or_else(|why| {
                            panic!(
                                "{}, after write {cut} of {writes} (byte {offset}): {why}",
                                round.what
                            )
                        });
                    tally.kills += 1;
                    tally.repaired += repairs;
                    tally.promises += promises;
                }
            }
            _ => {}
        }
    }
    tally.operations += done.iter().map(|n| *n as u64).sum::<u64>();
    left
}

/// The writes of a run, with a mark where an operation returned.
fn record(image: &MemDevice, round: &Round, operations: u64) -> Vec<Event> {
    let device = image.snapshot().with_durability(Durability::OnFlush);
    let device = Arc::new(Recorder::new(device));
    let left = AtomicU64::new(operations);
    let say = |what: u8| {
        device.mark(what.to_string());
        what == READY
            || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
    };
    let failed = |why: String| panic!("{}: {why}", round.what);
    let number = i64::try_from(round.number).unwrap();
    let place = mount(Arc::clone(&device) as Arc<dyn BlockDevice>, round.seed, number);
    load(place, round.seed, round.sound, &Load { say: &say, failed: &failed });
    device.take_events()
}
