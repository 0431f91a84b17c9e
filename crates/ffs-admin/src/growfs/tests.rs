//! A grown volume is sound, in every format, and wherever growfs was interrupted.

mod refusals;

use std::sync::Arc;

use super::*;
use crate::audit::audit;
use crate::fsck::{Fsck, FsckOptions};
use crate::newfs::{NewfsOptions, newfs};
use ffs_device::record::Event;
use ffs_device::{ManualClock, MemDevice, Recorder, SplitMix64, Timestamp};
use ffs_ondisk::{Endian, Error};

const KIB: u64 = 1024;

/// A kind of volume, and sizes before and after.
#[derive(Clone, Copy, Debug)]
struct Case {
    format: Format,
    endian: Endian,
    bsize: u32,
    fsize: u32,
    from: u64,
    to: u64,
    /// Most fragments in a group; 0 for the default.
    max_group: u32,
}

const fn case(
    format: Format,
    endian: Endian,
    sizes: (u32, u32),
    from: u64,
    to: u64,
    max_group: u32,
) -> Case {
    let (bsize, fsize) = sizes;
    Case { format, endian, bsize, fsize, from: from * KIB, to: to * KIB, max_group }
}

const CASES: [Case; 8] = [
    case(Format::Ufs2, Endian::Little, (4096, 512), 2000, 2400, 0),
    // The last group becomes longer, and groups are added.
    case(Format::Ufs2, Endian::Little, (4096, 512), 2000, 9000, 1024),
    // The summary area becomes larger than a fragment, and moves.
    case(Format::Ufs2, Endian::Big, (4096, 512), 8000, 24000, 1024),
    case(Format::Ufs1, Endian::Little, (4096, 512), 8000, 24001, 1024),
    case(Format::Ufs1, Endian::Big, (8192, 1024), 4000, 6001, 0),
    case(Format::Ufs2, Endian::Little, (32768, 4096), 16384, 70001, 0),
    case(Format::Ufs2, Endian::Little, (65536, 8192), 33000, 80000, 0),
    // The old size is a whole number of groups.
    case(Format::Ufs2, Endian::Little, (4096, 512), 2048, 4096, 1024),
];

fn clock() -> ManualClock {
    ManualClock::new(Timestamp::new(2_000_000_000, 0))
}

/// The volume before it grows, on a device with space for it afterwards.
fn made(case: &Case) -> MemDevice {
    let dev = MemDevice::new(case.to);
    let opts = NewfsOptions {
        endian: case.endian,
        format: Some(case.format),
        bsize: Some(case.bsize),
        fsize: Some(case.fsize),
        size: Some(case.from),
        max_group: (case.max_group > 0).then_some(case.max_group),
        ..NewfsOptions::default()
    };
    newfs(&dev, &opts, &clock(), &SplitMix64::new(1), &mut |_, _| {}).unwrap();
    dev
}

fn grow(dev: &dyn BlockDevice, size: Option<u64>) -> Result<GrowfsReport, AdminError> {
    let opts = GrowfsOptions { size, ..GrowfsOptions::default() };
    growfs(dev, &opts, &clock(), &SplitMix64::new(2), &mut |_, _| ControlFlow::Continue(()))
}

/// Fails unless a full check finds nothing.
fn assert_sound(dev: &MemDevice, context: &str) {
    let report = Fsck::new(Arc::new(dev.snapshot()), FsckOptions::no()).run();
    assert!(report.is_silent(), "{context}: {:?}", report.ids());
    audit(dev);
}

#[test]
fn grown_volumes_are_sound_and_have_the_size() {
    for case in CASES {
        let dev = made(&case);
        let report = grow(&dev, None).unwrap();
        assert_sound(&dev, &format!("{case:?}"));
        let slack = report.fragment_size.into();
        let unused = case.to - report.new_bytes;
        assert!(unused < slack || !report.notes.is_empty(), "{case:?}: {report:?}");
        let vol = Volume::open(&dev).unwrap();
        assert_eq!(vol.geo.size * u64::from(vol.geo.fsize), report.new_bytes, "{case:?}");
        assert_eq!(u64::try_from(vol.sb.f.providersize), Ok(case.to / slack), "{case:?}");
        for c in 0..vol.geo.ncg {
            let at = vol.geo.frag_to_byte(vol.geo.cgsblock(CgNo(c)));
            let backup = Volume::open_at(&dev, at).unwrap();
            assert_eq!(backup.sb.differing_field(&vol.sb), None, "{case:?}: backup {c}");
            assert_eq!(backup.sb.f.size, vol.sb.f.size, "{case:?}: backup {c}");
        }
    }
}

/// What newfs makes of the larger device differs in policy only where growth cannot follow: the
/// data fragments agree with newfs' formula.
#[test]
fn the_data_size_is_that_of_the_formula() {
    for case in CASES {
        let dev = made(&case);
        grow(&dev, None).unwrap();
        let Volume { sb, geo: g, .. } = Volume::open(&dev).unwrap();
        let metadata = i64::from(g.dblkno - g.sblkno) * i64::from(g.ncg) + i64::from(g.sblkno);
        let csum = i64::from(g.cssize / g.fsize);
        assert_eq!(sb.f.dsize, sb.f.size - metadata - csum, "{case:?}");
    }
}

#[test]
fn growth_in_steps_ends_in_the_same_groups() {
    for case in CASES {
        let (once, twice) = (made(&case), made(&case));
        grow(&once, None).unwrap();
        if grow(&twice, Some((case.from + case.to) / 2)).is_ok() {
            assert_sound(&twice, &format!("{case:?}, half"));
            grow(&twice, None).unwrap();
        } else {
            grow(&twice, None).unwrap();
        }
        let (a, b) = (Volume::open(&once).unwrap(), Volume::open(&twice).unwrap());
        assert_eq!((a.geo.size, a.geo.ncg), (b.geo.size, b.geo.ncg), "{case:?}");
        // A summary area that moved twice is elsewhere, and leaves a block in fragments.
        let frags = |vol: &Volume<'_>| {
            let total = vol.sb.cstotal();
            total.nbfree * i64::from(vol.geo.frag) + total.nffree
        };
        assert_eq!(frags(&a), frags(&b), "{case:?}");
        assert_sound(&twice, &format!("{case:?}, in steps"));
    }
}

#[test]
fn a_dry_run_writes_nothing_and_reports_the_same() {
    for case in CASES {
        let dev = made(&case);
        let before = dev.to_vec();
        let opts = GrowfsOptions { dry_run: true, ..GrowfsOptions::default() };
        let dry = growfs(&dev, &opts, &clock(), &SplitMix64::new(2), &mut |_, _| {
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(dev.to_vec() == before, "{case:?}");
        assert_eq!(dry, grow(&dev, None).unwrap(), "{case:?}");
    }
}

/// A write: byte offset and content.
type Write = (u64, Arc<[u8]>);

/// The writes of `run` on a copy of `dev`, in windows that end with a flush.
fn windows(dev: &MemDevice, run: impl FnOnce(&dyn BlockDevice)) -> Vec<Vec<Write>> {
    let recorder = Recorder::new(dev.snapshot());
    run(&recorder);
    let mut windows = vec![Vec::new()];
    for event in recorder.take_events() {
        match event {
            Event::Write { offset, bytes, .. } => {
                windows.last_mut().unwrap().push((offset, bytes));
            }
            Event::Flush { .. } => windows.push(Vec::new()),
            other => panic!("{other:?}"),
        }
    }
    windows.retain(|writes| !writes.is_empty());
    windows
}

/// Calls `each` with states that a crash may leave: every prefix of the writes of each window,
/// random subsets of their sectors, and each write alone.
fn for_each_state(
    dev: &MemDevice,
    windows: &[Vec<Write>],
    random: u32,
    mut each: impl FnMut(&MemDevice, &str),
) {
    let rng = SplitMix64::new(7);
    let base = dev.snapshot();
    for (w, writes) in windows.iter().enumerate() {
        let prefix = base.snapshot();
        for (n, (at, bytes)) in writes.iter().enumerate() {
            each(&prefix.snapshot(), &format!("window {w}, {n} writes"));
            let alone = base.snapshot();
            alone.write_at(*at, bytes).unwrap();
            each(&alone, &format!("window {w}, write {n} alone"));
            prefix.write_at(*at, bytes).unwrap();
        }
        for round in 0..random {
            let state = base.snapshot();
            for (at, bytes) in writes {
                for (i, sector) in bytes.chunks(512).enumerate() {
                    if rng.next_u32().is_multiple_of(2) {
                        state.write_at(at + 512 * i as u64, sector).unwrap();
                    }
                }
            }
            each(&state, &format!("window {w}, random sectors {round}"));
        }
        for (at, bytes) in writes {
            base.write_at(*at, bytes).unwrap();
        }
    }
    each(&base.snapshot(), "the end");
}

/// What a crash left of a growth.
#[derive(PartialEq)]
enum Left {
    Old,
    New,
    Unfinished,
}

/// Fails unless `dev` has the old volume, the new one, or the mark of an unfinished growfs.
fn examine(dev: &MemDevice, sizes: (u64, u64), context: &str) -> Left {
    match Volume::open(dev) {
        Ok(vol) => {
            assert_eq!(vol.source, Source::Primary, "{context}");
            assert_sound(dev, context);
            let bytes = vol.geo.size * u64::from(vol.geo.fsize);
            assert!(bytes == sizes.0 || bytes == sizes.1, "{context}: {bytes}");
            if bytes == sizes.0 { Left::Old } else { Left::New }
        }
        Err(AdminError::Format(Error::GrowfsUnfinished(_))) => Left::Unfinished,
        Err(error) => panic!("{context}: {error}"),
    }
}

/// The second run, too, may be interrupted anywhere, and may have another target.
#[test]
fn an_interrupted_growfs_leaves_either_size_or_is_completed() {
    for (number, case) in CASES.into_iter().enumerate() {
        let dev = made(&case);
        let done = dev.snapshot();
        let report = grow(&done, None).unwrap();
        let sizes = (report.old_bytes, report.new_bytes);
        let mut left = [0; 3];
        let first = windows(&dev, |dev| _ = grow(dev, None).unwrap());
        for_each_state(&dev, &first, 4, |state, context| {
            let context = format!("case {number}, {context}");
            match examine(state, sizes, &context) {
                Left::Old => left[0] += 1,
                Left::New => left[1] += 1,
                Left::Unfinished => {
                    left[2] += 1;
                    if left[2] % 16 == 1 {
                        interrupt_again(state, sizes, &context);
                    }
                    let report = grow(state, None).unwrap();
                    assert!(report.resumed, "{context}");
                    assert!(examine(state, sizes, &context) == Left::New, "{context}");
                }
            }
        });
        assert!(left.iter().all(|&n| n > 0), "{case:?}: {left:?}");
    }
}

fn interrupt_again(dev: &MemDevice, sizes: (u64, u64), context: &str) {
    let second = windows(dev, |dev| _ = grow(dev, None).unwrap());
    for_each_state(dev, &second, 1, |state, again| {
        let context = format!("{context}; again: {again}");
        if examine(state, sizes, &context) != Left::New {
            grow(state, None).unwrap();
            assert!(examine(state, sizes, &context) == Left::New, "{context}");
        }
    });
}

/// The first and the last marked state of the growth of `case`.
fn unfinished(case: &Case) -> MemDevice {
    let dev = made(case);
    let writes = windows(&dev, |dev| _ = grow(dev, None).unwrap());
    // All but the window that removes the mark.
    for (at, bytes) in writes[..writes.len() - 1].iter().flatten() {
        dev.write_at(*at, bytes).unwrap();
    }
    dev
}

#[test]
fn every_tool_names_an_unfinished_growfs() {
    let dev = unfinished(&CASES[1]);
    let report = Fsck::new(Arc::new(dev.snapshot()), FsckOptions::preen()).run();
    assert!(!report.is_silent());
    let error = Volume::open(&dev).err().unwrap().to_string();
    assert!(error.contains("growfs did not finish"), "{error}");
    let opts = GrowfsOptions { dry_run: true, ..GrowfsOptions::default() };
    let error =
        growfs(&dev, &opts, &clock(), &SplitMix64::new(2), &mut |_, _| ControlFlow::Continue(()))
            .unwrap_err();
    assert!(error.to_string().contains("without -N"), "{error}");
}

/// A size that the second run refuses leaves the old volume, not the mark.
#[test]
fn a_refused_second_run_has_restored_the_old_volume() {
    let case = CASES[1];
    let dev = unfinished(&case);
    grow(&dev, Some(case.from)).unwrap_err();
    assert!(examine(&dev, (case.from, case.from), "restored") == Left::Old);
    let original = Volume::open(&dev).unwrap().sb;
    assert_eq!(original.encode(), Volume::open(&made(&case)).unwrap().sb.encode());
}

#[test]
fn a_damaged_undo_log_is_refused_without_a_write() {
    let dev = unfinished(&CASES[1]);
    let record = find_record(&dev);
    for at in [0, 8, 16, 100, 2000] {
        let damaged = dev.snapshot();
        let mut byte = [0];
        damaged.read_at(record + at, &mut byte).unwrap();
        damaged.write_at(record + at, &[byte[0] ^ 0x10]).unwrap();
        let before = damaged.to_vec();
        let error = grow(&damaged, None).unwrap_err().to_string();
        assert!(error.contains("undo log is damaged"), "{error}");
        assert!(damaged.to_vec() == before);
    }
}

fn find_record(dev: &MemDevice) -> u64 {
    let mut superblock = vec![0; 8192];
    dev.read_at(65536, &mut superblock).unwrap();
    ffs_ondisk::growth::GrowthRecord::decode(&superblock, Endian::Little).unwrap().log_at
}

/// A file may have the bytes of a marked superblock at a place where superblocks are searched.
#[test]
fn a_mark_beside_a_valid_superblock_is_ignored() {
    let mut superblock = vec![0; 8192];
    unfinished(&CASES[1]).read_at(65536, &mut superblock).unwrap();
    let dev = made(&CASES[5]);
    dev.write_at(262_144, &superblock).unwrap();
    assert!(undo::find(&dev).unwrap().is_none());
    let ufs1 = made(&CASES[4]);
    ufs1.write_at(65536, &superblock).unwrap();
    assert!(undo::find(&ufs1).unwrap().is_none());
}
