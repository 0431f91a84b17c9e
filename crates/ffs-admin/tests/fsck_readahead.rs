//! Threads that read ahead: errors of the device, and the number of reads.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use crate::fsck_util::{Img, KINDS};
use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport, Id, exit};
use ffs_device::fault::{EIO, Fault, FaultInjector, Rule};
use ffs_device::record::{Counters, Level, Recorder};
use ffs_device::{BlockDevice, MemDevice, Operation};
use ffs_ondisk::{CgNo, Endian, Format};

fn check(dev: Arc<dyn BlockDevice>, threads: usize, options: FsckOptions) -> FsckReport {
    let options = FsckOptions { force: true, threads: Some(threads), ..options };
    Fsck::new(dev, options.at(1_700_000_000)).run()
}

/// A check of `img` whose sector at byte `at` cannot be read.
fn unreadable(img: &Img, at: u64, threads: usize, stop: bool) -> FsckReport {
    let rule = Rule::new(Operation::Read, Fault::Errno(EIO)).within(at..at + 512);
    let dev = FaultInjector::new(img.dev.snapshot(), vec![rule]);
    let options = FsckOptions { stop_on_read_error: stop, ..FsckOptions::no() };
    check(Arc::new(dev), threads, options)
}

/// The same findings, the same sector, the same exit code: with zeros in its place, and with `-S`.
#[test]
fn a_read_error_is_reported_as_without_threads() {
    for kind in KINDS {
        let img = Img::with_tree(kind);
        let g = img.g;
        let last = CgNo(g.ncg - 1);
        let places = [
            ("group", g.frag_to_byte(g.cgtod(last))),
            ("first inodes", g.frag_to_byte(g.cgimin(CgNo(0)))),
            ("inodes", g.frag_to_byte(g.cgimin(last)) + 512),
            ("directory", img.entry(2, "a").0 / 512 * 512),
        ];
        for (what, at) in places {
            for stop in [false, true] {
                let [alone, two, many] =
                    [0, 2, 7].map(|threads| unreadable(&img, at, threads, stop));
                let case = format!("{kind:?} {what} -S {stop}");
                assert_eq!(alone, two, "{case}");
                assert_eq!(alone, many, "{case}");
                if stop {
                    assert_eq!(many.exit_code, exit::ERROR, "{case}");
                    let message = many.stopped.unwrap_or_default();
                    // The range that the check wanted, of which the sector is a part.
                    assert!(message.contains("cannot read"), "{case}: {message}");
                } else {
                    let lost = many.findings.iter().find(|f| f.id == Id::IoRead);
                    let place = lost.and_then(|f| f.place.clone()).unwrap_or_default();
                    assert!(place.contains(&at.to_string()), "{case}: {:#?}", many.findings);
                }
            }
        }
    }
}

/// The transfers of a check that finds nothing.
fn transfers(dev: &MemDevice, threads: usize) -> Counters {
    let recorder = Arc::new(Recorder::with_level(dev.snapshot(), Level::Count));
    let report = check(recorder.clone(), threads, FsckOptions::no());
    assert!(report.is_silent(), "{:#?} {:?}", report.findings, report.stopped);
    recorder.counters()
}

/// A group costs its block twice and its initialised inodes once, in any number of threads.
#[test]
fn an_empty_volume_is_read_by_a_few_reads_a_group() {
    let bytes = 1 << 30;
    let dev = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 4096, 4096, bytes).unwrap();
    let g = Img::on(Arc::new(dev.snapshot())).g;
    assert!(g.ncg >= 16, "{} groups", g.ncg);
    let alone = transfers(&dev, 0);
    let groups = u64::from(g.ncg);
    assert!(alone.reads <= 3 * groups + 20, "{alone:?}, {groups} groups");
    let bytes = groups * (2 * u64::from(g.cgsize) + 2 * u64::from(g.bsize));
    assert!(alone.read_bytes <= bytes + (256 << 10), "{alone:?}, {bytes} bytes of groups");
    assert_eq!(transfers(&dev, 4), alone);
}

/// One read fetches many directories whose blocks are close together.
#[test]
fn directories_side_by_side_cost_few_reads() {
    for kind in [KINDS[0], KINDS[1], KINDS[2]] {
        let mut img = Img::with_tree(kind);
        let before = transfers(&img.dev, 3).reads;
        for n in 0..20 {
            img.mkdir(2, &format!("d{n}"));
        }
        let report = img.fsck(FsckOptions::yes());
        assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
        let after = transfers(&img.dev, 3).reads;
        assert!(
            after <= before + 10,
            "{kind:?}: {before} reads before 20 directories, {after} now"
        );
    }
}
