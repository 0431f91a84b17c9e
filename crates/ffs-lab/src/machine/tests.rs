//! Each test sets up the machine so that one mechanism alone decides the outcome.

use super::drive::{Direction, Drive};
use super::geometry::{Extent, Geometry, SECTOR};
use super::parameters::{DiskPreset, SmrPreset, WriteCache};
use super::preset::Preset;
use super::simulator::Simulator;
use ffs_device::{Rng, SplitMix64};

const MS: u64 = 1_000_000;

fn paper() -> Preset {
    Preset::paper().unwrap()
}

fn disk() -> DiskPreset {
    paper().disk
}

fn at(lba: u64, sectors: u64) -> Extent {
    Extent { lba, sectors }
}

fn near(found: f64, wanted: f64, percent: f64) {
    let off = (found / wanted - 1.0).abs() * 100.0;
    assert!(off <= percent, "{found} instead of {wanted}: {off:.2} % off");
}

#[test]
fn the_seek_curve_has_the_manuals_mean_and_end() {
    for (name, mean, full) in [("ide2001-5400", 9.5, 16.7), ("ide2001-7200", 8.5, 14.7)] {
        let disk = Preset::find(name).unwrap().disk;
        let geometry = Geometry::new(&disk);
        let cylinders = u64::from(disk.cylinders);
        near(geometry.seek(cylinders) as f64 / 1e6, full, 0.01);
        let rng = SplitMix64::new(1);
        let n = 200_000;
        let mut sum = 0;
        for _ in 0..n {
            sum += geometry.seek(rng.below(cylinders).abs_diff(rng.below(cylinders)));
        }
        near(sum as f64 / n as f64 / 1e6, mean, 0.5);
        assert!(geometry.seek(1) < 15 * MS / 10 && geometry.seek(1) > MS);
    }
}

/// The rate of reading `n` sectors in pieces, in MB/s.
fn rate(drive: &mut Drive, lba: u64, n: u64) -> f64 {
    let (mut now, piece) = (0, 128);
    for from in (lba..lba + n).step_by(piece as usize) {
        now = drive.read(now, at(from, piece));
    }
    (n * SECTOR) as f64 / 1e6 / (now as f64 / 1e9)
}

#[test]
fn sustained_rates_are_the_manuals_in_both_zones() {
    let mut drive = Drive::new(&disk(), 0);
    let n = 16 << 11;
    near(rate(&mut drive, 0, n), 31.8, 2.0);
    let last = drive.sectors() - n;
    let mut drive = Drive::new(&disk(), 0);
    near(rate(&mut drive, last, n), 14.9, 2.0);
    let capacity = drive.sectors() * SECTOR;
    near(capacity as f64 / 1e9, 20.58, 0.1);
}

#[test]
fn a_rewrite_costs_a_revolution_and_work_in_between_is_free() {
    let turn = Geometry::new(&disk()).turn;
    for work in [0, MS, 5 * MS, 10 * MS] {
        let mut drive = Drive::new(&disk(), 12_345);
        let mut done = drive.write(0, at(4_000_000, 32));
        for _ in 0..20 {
            let next = drive.write(done + work, at(4_000_000, 32));
            assert_eq!((next - done).div_ceil(MS), turn.div_ceil(MS), "work of {work} ns");
            done = next;
        }
    }
    // Work of more than a revolution costs another one.
    let mut drive = Drive::new(&disk(), 12_345);
    let done = drive.write(0, at(4_000_000, 32));
    let next = drive.write(done + 12 * MS, at(4_000_000, 32));
    assert_eq!((next - done).div_ceil(MS), (2 * turn).div_ceil(MS));
}

#[test]
fn reading_ahead_answers_the_next_read_but_not_after_a_write_there() {
    let d = disk();
    let mut drive = Drive::new(&d, 0);
    let done = drive.read(0, at(1000, 32));
    // A revolution later the rest of the segment is in the buffer.
    let idle = done + 12 * MS;
    let hit = drive.read(idle, at(1032, 32));
    assert!(hit - idle < MS / 2, "{} ns for a hit", hit - idle);
    assert_eq!(drive.work.hits, 1);
    // Reading ahead continues. A later read finds the segment after an access elsewhere.
    let away = drive.read(hit + 20 * MS, at(2_000_000, 8));
    let back = drive.read(away, at(1064, 32));
    assert!(back - away < MS / 2);
    let wrote = drive.write(back, at(1070, 2));
    let miss = drive.read(wrote, at(1064, 32));
    assert!(miss - wrote > MS / 2, "the read used an old segment");
}

/// Time for `n` writes of the same sectors, each requested shortly after the one before completed.
fn rewrites(mode: WriteCache, n: u64) -> u64 {
    let mut drive = Drive::new(&DiskPreset { write_cache: mode, ..disk() }, 0);
    let mut done = 0;
    for _ in 0..n {
        done = drive.write(done + MS / 10, at(700_000, 32));
    }
    done
}

#[test]
fn write_caches_differ_as_they_should() {
    let turn = Geometry::new(&disk()).turn;
    let (off, fifo) = (rewrites(WriteCache::Off, 200), rewrites(WriteCache::Fifo, 200));
    near(off as f64, (200 * turn) as f64, 2.0);
    // It accepts sixteen at once; the others take a revolution each.
    near(fifo as f64, ((200 - 16) * turn) as f64, 3.0);
    let merged = rewrites(WriteCache::Merge, 200);
    assert!(merged < 200 * MS, "a merging cache took {merged} ns");
    let burst = rewrites(WriteCache::Fifo, 16);
    assert!(burst < 16 * MS, "{burst} ns for writes that fit the cache");
}

#[test]
fn a_merging_cache_goes_over_the_disk_once() {
    let scattered = |mode| {
        let mut drive = Drive::new(&DiskPreset { write_cache: mode, ..disk() }, 0);
        let rng = SplitMix64::new(3);
        let mut done = 0;
        for _ in 0..500 {
            done = drive.write(done, at(rng.below(30_000_000), 8));
        }
        done
    };
    let (fifo, merge) = (scattered(WriteCache::Fifo), scattered(WriteCache::Merge));
    assert!(merge * 10 < fifo * 8, "elevator {merge}, in order {fifo}");
}

/// A drive of 2014 with a small buffer, and with overlapping tracks if `smr` has values.
fn drive_of_2014(smr: Option<SmrPreset>) -> Drive {
    let disk = Preset::find("smr2014-5900").unwrap().disk;
    Drive::new(&DiskPreset { buffer_kb: 1024, write_cache_segments: 64, smr, ..disk }, 0)
}

fn smr(persistent_cache_mb: u32) -> Option<SmrPreset> {
    Some(SmrPreset { persistent_cache_mb, map_entries: 1_000_000, band_mb: 2, idle_ms: 100.0 })
}

/// Time for `n` random writes of 16 KiB in 512 MB.
fn random_writes(drive: &mut Drive, n: u64) -> u64 {
    let rng = SplitMix64::new(4);
    let mut now = 0;
    for _ in 0..n {
        now = drive.write(now, at(rng.below(32_768) * 32, 32));
    }
    now
}

#[test]
fn overlapping_tracks_take_random_writes_fast_until_the_log_is_full() {
    let mut conventional = drive_of_2014(None);
    let mut large = drive_of_2014(smr(1024));
    let mut small = drive_of_2014(smr(4));
    let [conventional, logged, cleaned] =
        [&mut conventional, &mut large, &mut small].map(|drive| random_writes(drive, 2000));
    assert!(logged * 5 < conventional, "log {logged}, places {conventional}");
    assert!(conventional * 2 < cleaned, "places {conventional}, cleaning {cleaned}");
    assert_eq!(large.work.cleaned_bands, 0);
    // The log has space for 256 of the 2000 writes; a band of 256 has one or two of these.
    assert!(small.work.cleaned_bands > 500, "{:?}", small.work);
}

#[test]
fn cached_sectors_are_read_from_the_log_and_cleaning_in_idle_time_brings_them_back() {
    let mut drive = drive_of_2014(smr(1024));
    // The time of reading a band of 2 MB, from time `now` on.
    let read = |drive: &mut Drive, now: u64| {
        let end = (0..32).fold(now, |now, piece| drive.read(now, at(piece * 128, 128)));
        end - now
    };
    let fresh = read(&mut drive, 0);
    // Every second block of the band, in an order of its own.
    let mut now = 1000 * MS;
    for block in 0..64 {
        now = drive.write(now, at(block * 37 % 64 * 64, 32));
    }
    let busy = now + 50 * MS;
    let logged = read(&mut drive, busy);
    assert!(logged > 3 * fresh, "{logged} ns from the log, {fresh} from the band");
    assert_eq!(drive.work.cleaned_bands, 0, "the drive was not idle");
    let idle = busy + logged + 10_000 * MS;
    let again = read(&mut drive, idle);
    assert_eq!(drive.work.cleaned_bands, 1);
    assert!(again < 2 * fresh, "{again} ns after cleaning, {fresh} before the writes");
}

#[test]
fn a_command_does_not_wait_for_cleaning_in_idle_time() {
    let mut drive = drive_of_2014(smr(1024));
    let now = (0..64).fold(0, |now, block| drive.write(now, at(block * 64, 32)));
    // Cleaning begins after 100 ms and takes some revolutions.
    let request = now + 110 * MS;
    let done = drive.read(request, at(10_000_000, 32));
    assert!(done - request < 40 * MS, "{} ns", done - request);
    assert_eq!(drive.work.cleaned_bands, 0);
    drive.read(request + 60_000 * MS, at(10_000_000, 32));
    assert_eq!(drive.work.cleaned_bands, 1, "the band was forgotten");
}

#[test]
fn a_drive_of_flash_memory_takes_many_commands_at_a_time() {
    let run = |name: &str, direction| {
        let mut simulator = Simulator::new(&Preset::find(name).unwrap(), 0);
        let rng = SplitMix64::new(8);
        for _ in 0..2000 {
            simulator.defer(at(rng.below(30_000_000), 8), direction);
        }
        simulator.flush();
        assert_eq!(simulator.backlog(), 0);
        (simulator.now(), simulator.done())
    };
    for (direction, least, most) in [(Direction::Read, 25, 33), (Direction::Write, 6, 11)] {
        let (one, _) = run("nvme2019", direction);
        let (many, done) = run("nvme2019-queue32", direction);
        // The flush and the processor are the same in both.
        let flush = 400_000;
        let times = (one - flush) / (many - flush);
        assert!((least..most).contains(&times), "{direction:?}: {times} times as fast");
        assert!(done.busy <= many, "the disk was busy for longer than the run");
        assert_eq!(done.reads + done.writes, 2000);
    }
    // One request at a time takes as long as before.
    let single = |name: &str| {
        let mut simulator = Simulator::new(&Preset::find(name).unwrap(), 0);
        for block in 0..100 {
            simulator.read(at(block * 1000, 8));
            simulator.write_through(at(block * 1000, 8));
        }
        simulator.now()
    };
    assert_eq!(single("nvme2019"), single("nvme2019-queue32"));
}

#[test]
fn the_queue_goes_one_way_and_merges_neighbours() {
    let mut simulator = Simulator::new(&paper(), 0);
    // The first keeps the drive busy while the others are queued.
    let mut places = vec![20_000_000, 5_000_000, 9_000_000, 7_000_000, 7_000_032, 7_000_064];
    for lba in places.drain(..) {
        simulator.write(at(lba, 32));
    }
    simulator.flush();
    let done = simulator.done();
    assert_eq!(done.writes, 4, "neighbours were not merged: {done:?}");
    assert_eq!(done.sectors_written, 6 * 32);
    // First 20 million, then 5, 7 and 9 million: no move back and forth.
    assert!(done.seeks <= 4, "{done:?}");
}

#[test]
fn a_writer_waits_only_above_the_limit() {
    let limit = paper().host.running_kb / 16;
    let mut simulator = Simulator::new(&paper(), 0);
    let rng = SplitMix64::new(5);
    for _ in 0..limit {
        simulator.write(at(rng.below(30_000_000), 32));
    }
    assert_eq!(simulator.done().waited, 0, "a megabyte may be in flight");
    simulator.write(at(100, 32));
    let waited = simulator.done().waited;
    // Until two thirds are left: 22 of the 64 requests, each some milliseconds.
    assert!(waited > 15 * 5 * MS && waited < 30 * 25 * MS, "{waited}");
}

#[test]
fn the_background_waits_in_a_backlog_and_a_read_passes_it() {
    let mut simulator = Simulator::new(&paper(), 0);
    let rng = SplitMix64::new(6);
    for _ in 0..1000 {
        simulator.defer(at(rng.below(30_000_000), 32), Direction::Write);
    }
    assert_eq!(simulator.done().waited, 0);
    assert!(simulator.backlog() > 900, "the queue takes a megabyte: {}", simulator.backlog());
    simulator.read(at(15_000_000, 32));
    assert!(simulator.backlog() > 800, "a read waited for the backlog");
    simulator.flush();
    assert_eq!((simulator.backlog(), simulator.done().sectors_written), (0, 32_000));
}

#[test]
fn a_barrier_holds_back_what_follows_and_only_that() {
    let mut simulator = Simulator::new(&paper(), 0);
    // The places descend, and the last two are neighbours: the queue alone would turn and merge
    // them.
    let places = [20_000_000, 10_000_000, 5_000_000, 5_000_032];
    for lba in places {
        simulator.defer(at(lba, 32), Direction::Write);
        simulator.defer_barrier();
    }
    simulator.write(at(25_000_000, 32));
    simulator.flush();
    let order: Vec<u64> = simulator.written.iter().map(|extent| extent.lba).collect();
    assert_eq!(order, [20_000_000, 25_000_000, 10_000_000, 5_000_000, 5_000_032]);
    assert_eq!(simulator.backlog(), 0, "the last barrier was removed");
}

/// A buffer whose write is in the queue or in the drive is not free before its end.
#[test]
fn a_user_of_a_buffer_waits_for_its_write_and_for_no_other() {
    let mut simulator = Simulator::new(&paper(), 0);
    let (first, last) = (at(1_000_000, 32), at(20_000_000, 300));
    simulator.write(first);
    simulator.write(last);
    assert!(simulator.is_writing(at(1_000_031, 1)) && simulator.is_writing(at(20_000_299, 9)));
    assert!(!simulator.is_writing(at(1_000_032, 8)) && !simulator.is_writing(at(999_968, 32)));
    let before = simulator.now();
    simulator.wait_for_writes(at(5_000_000, 8));
    assert_eq!(simulator.now(), before, "nothing is written there");
    simulator.wait_for_writes(at(1_000_008, 8));
    let after = simulator.now();
    assert!(after > before + MS && !simulator.is_writing(first) && simulator.is_writing(last));
    simulator.wait_for_writes(last);
    assert!(simulator.now() > after + MS && !simulator.is_writing(last));
    // A read is no write, and the backlog is not in the queue yet.
    simulator.read(at(30_000_000, 8));
    assert!(!simulator.is_writing(at(30_000_000, 8)));
}

#[test]
fn background_work_is_paid_in_idle_time_or_by_the_next_work() {
    let mut simulator = Simulator::new(&paper(), 0);
    simulator.owe(5 * MS);
    simulator.work(MS);
    assert_eq!(simulator.now(), 6 * MS);
    simulator.owe(3 * MS);
    simulator.read(at(15_000_000, 32));
    let before = simulator.now();
    simulator.work(MS);
    assert_eq!(simulator.now() - before, MS, "the background worked while the reader waited");
    assert_eq!(simulator.done().cpu, 10 * MS + 40_000);
}

#[test]
fn the_same_operations_take_the_same_time() {
    let run = |phase| {
        let mut simulator = Simulator::new(&paper(), phase);
        let rng = SplitMix64::new(7);
        for _ in 0..300 {
            simulator.work(rng.below(2 * MS));
            let place = at(rng.below(30_000_000), 1 + rng.below(64));
            match rng.below(4) {
                0 => simulator.read(place),
                1 => simulator.write_through(place),
                2 => simulator.write(place),
                _ => simulator.defer(place, Direction::Write),
            }
        }
        simulator.flush();
        (simulator.now(), simulator.trace_hash(), simulator.done())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).1, run(5 * MS).1, "the phase at the start makes a difference");
}

#[test]
fn presets_are_complete_and_bad_ones_are_refused_with_the_place() {
    assert_eq!(Preset::find("ide2001-7200").unwrap().disk.turns_per_minute, 7200);
    let own =
        Preset::from_text("mine", "[disk]\nwrite_cache = \"merge\"\nbus_mb_s = 100\n").unwrap();
    assert_eq!(own.disk.write_cache, WriteCache::Merge);
    assert_eq!(own.disk.turns_per_minute, 5400, "the rest is the paper's");
    let refused = |text: &str| Preset::from_text("mine", text).unwrap_err().to_string();
    assert!(refused("[disk]\nrpm = 5400\n").contains("rpm"), "{}", refused("[disk]\nrpm = 5400\n"));
    assert!(refused("[disk]\nheads = 0\n").contains("heads = 0: expected 1 to 64"));
    assert!(refused("[disk]\nwrite_cache = \"on\"\n").contains("off"));
    assert!(refused("[disk\n").contains("line 1"), "{}", refused("[disk\n"));
    assert!(refused("[volume]\nsize_mb = 30000\n").contains("the disk has"));
    let bands = "[disk.smr]\nmap_entries = 100\nband_mb = 1\nidle_ms = 1\n";
    let log = |mb: u32| format!("{bands}persistent_cache_mb = {mb}\n");
    assert!(refused(&log(0)).contains("persistent_cache_mb = 0"));
    assert!(refused(&log(10_000)).contains("the disk has"), "the log has no place");
    assert_eq!(Preset::from_text("mine", &log(100)).unwrap().disk.smr.unwrap().band_mb, 1);
    for (name, _) in super::preset::BUILT_IN {
        assert_eq!(Preset::find(name).unwrap().name, name);
    }
    assert!(refused("[cpu]\nstat = -1\n").contains("stat"));
    assert!(refused("[drive]\n").contains("drive"));
    assert!(Preset::find("/no/such").unwrap_err().to_string().contains("ide2001-5400"));
}
