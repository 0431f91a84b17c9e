//! What growfs refuses, and what it does when the device or the caller ends it.

use super::*;
use ffs_device::{Fault, FaultInjector, Operation, Rule};

#[test]
fn sizes_that_cannot_be_are_refused_without_a_write() {
    let case = CASES[1];
    for (size, expected) in [
        (case.from, "not larger than the current size"),
        (case.from / 2, "not larger than the current size"),
        (case.to + 512, "make it larger first"),
        (case.from + 2 * 512, "at least"),
    ] {
        let dev = made(&case);
        let before = dev.to_vec();
        let error = grow(&dev, Some(size)).unwrap_err().to_string();
        assert!(error.contains(expected), "{size}: {error}");
        assert!(dev.to_vec() == before, "{size}");
    }
}

#[test]
fn volumes_that_need_something_else_first_are_refused() {
    type Change = fn(&mut ffs_ondisk::Superblock);
    let cases: [(Change, &str); 5] = [
        (|sb| sb.set_flags(sb.flags() | FsFlags::GJOURNAL), "gjournal"),
        (|sb| sb.f.sujfree = 7, "run fsck first"),
        (|sb| sb.f.clean = 0, "run fsck first"),
        (|sb| sb.set_flags(sb.flags() | FsFlags::NEEDSFSCK), "run fsck first"),
        (|sb| sb.f.snapinum[0] = 5, "snapshots"),
    ];
    for (change, expected) in cases {
        let dev = made(&CASES[1]);
        let mut vol = Volume::open(&dev).unwrap();
        change(&mut vol.sb);
        vol.write_superblock().unwrap();
        let before = dev.to_vec();
        let error = grow(&dev, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(dev.to_vec() == before);
    }
}

#[test]
fn groups_measured_in_cylinders_are_refused() {
    let dev = made(&CASES[3]);
    let mut vol = Volume::open(&dev).unwrap();
    vol.sb.f.old_cpg = 2;
    vol.write_superblock().unwrap();
    let error = grow(&dev, None).unwrap_err().to_string();
    assert!(error.contains("before FreeBSD 5"), "{error}");
}

/// UFS1 with blocks of 64 KiB has a backup at byte 65536, where BSD looks first: the mark would not
/// keep it from using the volume.
#[test]
fn a_backup_where_bsd_searches_is_refused() {
    let case = case(Format::Ufs1, Endian::Little, (65536, 8192), 33000, 80000, 0);
    let dev = made(&case);
    let backup = Volume::open_at(&dev, 65536).unwrap();
    assert_eq!(backup.geo.format, Format::Ufs1);
    let before = dev.to_vec();
    let error = grow(&dev, None).unwrap_err().to_string();
    assert!(error.contains("byte 65536"), "{error}");
    assert!(dev.to_vec() == before);
}

/// What a mount cannot keep right, growfs cannot either.
#[test]
fn foreign_and_old_volumes_are_refused() {
    let changes: [fn(&mut ffs_ondisk::Superblock); 2] =
        [|sb| sb.f.maxsymlinklen = 0, |sb| sb.f.old_inodefmt = 0];
    for change in changes {
        let dev = made(&CASES[4]);
        let mut vol = Volume::open(&dev).unwrap();
        change(&mut vol.sb);
        vol.write_superblock().unwrap();
        let before = dev.to_vec();
        let error = grow(&dev, None).unwrap_err().to_string();
        assert!(error.contains("4.3BSD volume"), "{error}");
        assert!(dev.to_vec() == before);
    }
}

/// A device that reports a size which it does not have.
#[test]
fn an_end_that_cannot_be_used_is_found_before_a_change() {
    for operation in [Operation::Read, Operation::Write] {
        let case = CASES[1];
        let dev = made(&case);
        let before = dev.to_vec();
        let fault = Rule::new(operation, Fault::Errno(5)).within(case.to - 512..case.to);
        let end = FaultInjector::new(dev.snapshot(), vec![fault]);
        let error = grow(&end, None).unwrap_err();
        assert!(matches!(error, AdminError::Device(_)), "{error}");
        assert!(end.inner().to_vec() == before, "{operation}");
    }
}

/// Interrupted after each group: the old volume is as it was, and a later run completes it.
#[test]
fn an_interrupt_leaves_the_old_volume() {
    let case = CASES[1];
    let old_end = case.from as usize;
    let all = grow(&made(&case), None).unwrap();
    let new = all.new_groups - all.old_groups;
    assert!(new > 2);
    for last in 1..=new {
        let dev = made(&case);
        let before = dev.to_vec();
        let mut stop = |done: u32, _: u32| match done == last {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let opts = GrowfsOptions::default();
        let ended = growfs(&dev, &opts, &clock(), &SplitMix64::new(2), &mut stop);
        assert!(matches!(ended, Err(AdminError::Interrupted)));
        assert!(dev.to_vec()[..old_end] == before[..old_end], "{last}");
        assert_eq!(grow(&dev, None).unwrap(), all);
        assert_sound(&dev, "after an interrupt");
    }
}

/// The second run has another target than the first.
#[test]
fn the_second_run_may_have_another_target() {
    for case in [CASES[1], CASES[2]] {
        let dev = unfinished(&case);
        let target = (case.from + case.to) / 2;
        let report = grow(&dev, Some(target)).unwrap();
        assert!(report.resumed && report.new_bytes <= target, "{report:?}");
        let sizes = (report.old_bytes, report.new_bytes);
        assert!(examine(&dev, sizes, "another target") == Left::New);
        assert!(!is_unfinished(&dev).unwrap());
    }
}

/// The places of undo log and summary area: each combination that the cases have to cover.
#[test]
fn the_cases_cover_logs_and_summary_areas_in_new_groups() {
    let (mut log_in_new_group, mut moved) = (0, 0);
    for case in CASES {
        let dev = made(&case);
        let old = Volume::open(&dev).unwrap();
        let plan = GrowthPlan::new(&old, case.to, case.to, 0).unwrap();
        let first_new = u64::from(old.geo.ncg) * u64::from(old.geo.fpg);
        log_in_new_group += u32::from(plan.log_at >= first_new * u64::from(old.geo.fsize));
        if plan.moves_csum(&old) {
            moved += 1;
            assert!(plan.geo.dtog(plan.geo.csaddr).0 >= old.geo.ncg, "{case:?}");
        }
    }
    assert!(log_in_new_group > 0 && moved > 0, "{log_in_new_group} {moved}");
}

/// The undo log is beyond the end of a device that became shorter in between.
#[test]
fn a_device_that_became_shorter_is_named() {
    let dev = unfinished(&CASES[1]);
    let shorter = MemDevice::from_bytes(&dev.to_vec()[..find_record(&dev) as usize]);
    let before = shorter.to_vec();
    let error = grow(&shorter, None).unwrap_err().to_string();
    assert!(error.contains("enlarge the device to its size at that time"), "{error}");
    assert!(shorter.to_vec() == before);
}

/// Volumes with a journal, which BSD's tunefs made: the journal stays a valid file.
#[test]
fn volumes_with_a_journal_grow() {
    for name in ["suj-ufs2-64m", "suj-ufs1-64m"] {
        let Some(raw) = ffs_testkit::fixtures::load(name) else { return };
        let dev = MemDevice::new(raw.len() as u64 * 3);
        dev.write_at(0, &raw).unwrap();
        let report = grow(&dev, None).unwrap();
        assert!(report.new_bytes > report.old_bytes, "{name}");
        let vol = Volume::open(&dev).unwrap();
        assert!(vol.sb.flags().contains(FsFlags::SUJ), "{name}");
        let check = Fsck::new(Arc::new(dev.snapshot()), FsckOptions::no()).run();
        assert!(check.is_silent(), "{name}: {:?}", check.findings);
    }
}
