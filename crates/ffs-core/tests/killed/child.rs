//! The load, and the process that runs it and is killed.

use crate::common::place::Mounted;
use crate::common::{START, soft_updates};
use crate::{READY, Round, WRITERS};
use ffs_core::{Env, Ffs};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{BlockDevice, FileDevice};
use ffs_testkit::killtest::{COMMON, FileOps, Script, SyncCalls};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Time that passes in each operation: after some 300 of them all dirty buffers are due.
const CALL: Duration = Duration::from_millis(100);
/// Operations for each call of the syncer.
const OPERATIONS_A_TICK: u32 = 10;

/// Runs with the arguments `IMAGE SEED ROUND SOUND` until it is killed.
pub(crate) fn run(arguments: &[String]) {
    let [image, seed, round, sound] = arguments else { panic!("child IMAGE SEED ROUND SOUND") };
    let (seed, round): (u64, i64) = (seed.parse().unwrap(), round.parse().unwrap());
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(image.as_ref(), true).unwrap());
    let failed = |why: String| {
        eprintln!("{why}");
        std::process::exit(3)
    };
    load(
        mount(device, seed, round),
        seed,
        sound == "true",
        &Load { report: &report, failed: &failed },
    );
}

/// Runs the load of a round in this process, on `device`, until the writers have performed so many
/// operations. `mark` gets each report.
pub(crate) fn run_here(
    device: Arc<dyn BlockDevice>,
    round: &Round,
    operations: u64,
    mark: &(dyn Fn(u8) + Sync),
) {
    let left = AtomicU64::new(operations);
    let report = |what: u8| {
        mark(what);
        what == READY
            || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
    };
    let failed = |why: String| panic!("{}: {why}", round.what);
    let place = mount(device, round.seed, i64::try_from(round.number).unwrap());
    load(place, round.seed, round.sound, &Load { report: &report, failed: &failed });
}

/// The reports of a load.
struct Load<'a> {
    /// Reports that the load has begun ([`READY`]), or that an operation of this writer returned.
    /// Returns false to end the load.
    report: &'a (dyn Fn(u8) -> bool + Sync),
    /// Reports a failed operation.
    failed: &'a (dyn Fn(String) + Sync),
}

/// Mounts the volume of a round.
pub(crate) fn open(device: Arc<dyn BlockDevice>, seed: u64, round: i64) -> Mounted {
    let start = Timestamp::new(START + round * 100_000, 0);
    let clock = Arc::new(ManualClock::new(start));
    let mut options = soft_updates();
    if seed.is_multiple_of(3) {
        options.tunables.set("max_softdeps", Some("150")).unwrap();
    }
    let fs = Ffs::mount(device, &options, Env::seeded(clock.clone(), seed)).unwrap();
    Mounted { fs, clock }
}

/// Mounts the volume of a round, and makes the directories of its load.
fn mount(device: Arc<dyn BlockDevice>, seed: u64, round: i64) -> Mounted {
    let place = open(device, seed, round);
    assert!(!place.fs.is_read_only(), "{:?}", place.fs.read_only_reason());
    let old = format!("old{round}");
    if place.at(COMMON[0]).is_ok() {
        place.rename(COMMON[0], &old).unwrap();
    }
    place.make_common();
    place
}

/// Runs writers, a syncer, and on a volume that is `sound` a thread that removes old trees.
fn load(place: Mounted, seed: u64, sound: bool, load: &Load<'_>) {
    let (tick, ticks) = sync_channel(4);
    (load.report)(READY);
    std::thread::scope(|s| {
        let place = &place;
        s.spawn(move || syncer(place, ticks, load));
        if sound {
            s.spawn(|| place.remove_old());
        }
        for writer in 0..WRITERS {
            let tick = tick.clone();
            s.spawn(move || write(place, seed, writer, &tick, load));
        }
        drop(tick);
    });
}

fn report(what: u8) -> bool {
    let out = std::io::stdout();
    let mut pipe = File::from(out.as_fd().try_clone_to_owned().unwrap());
    pipe.write_all(&[what]).is_ok()
}

fn write(place: &Mounted, seed: u64, writer: u8, tick: &SyncSender<()>, load: &Load<'_>) {
    let mut script = Script::new(seed, writer, SyncCalls::Include);
    for n in 0u32.. {
        if let Err((op, why)) = script.step(place) {
            return (load.failed)(format!("writer {writer}: {op}: {why}"));
        }
        if !(load.report)(writer) {
            return;
        }
        place.clock.advance(CALL);
        if n % OPERATIONS_A_TICK == 0 {
            // If the syncer is busy it will be called again soon.
            let _ = tick.try_send(());
        }
    }
}

fn syncer(place: &Mounted, ticks: Receiver<()>, load: &Load<'_>) {
    for () in ticks {
        if let Err(why) = place.fs.tick() {
            (load.failed)(format!("tick: {why}"));
        }
    }
}
