//! The conversion of an old quota file, interrupted at every write, and on a full volume.

use super::*;
use crate::common::{errno, soft_updates};
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_ondisk::quota::RecordFormat;
use std::collections::BTreeMap;

const LAST: u32 = 9000;

fn records() -> BTreeMap<u32, Dqblk> {
    let of = |id: u32| (id, limits([id.into(), 7000], [3, 4]));
    (0..=LAST).step_by(9).map(of).collect()
}

/// A volume whose `quota.user` has 32-bit records.
fn old_volume(shape: Shape) -> MemDevice {
    let w = mount_on(soft_volume(shape, 16 << 20), &soft_updates());
    let file = w.file(&w.root, "quota.user");
    let mut bytes = vec![0; 32 * (LAST as usize + 1)];
    for (id, record) in records() {
        let all = [record.bhardlimit, record.bsoftlimit, 0, record.ihardlimit, record.isoftlimit];
        for (n, value) in all.into_iter().enumerate() {
            let at = 32 * id as usize + 4 * n;
            ffs_ondisk::wire::put(&mut bytes, at, shape.0, value as u32);
        }
    }
    w.fs.write(&Cred::root(), &file, 0, &bytes, WriteMode::default()).unwrap();
    drop(file);
    unmounted(w)
}

fn file_of(dev: &dyn BlockDevice) -> QuotaFile {
    let vol = Volume::open(dev).unwrap();
    let [file, _] = quotacheck::check(&vol, [true, false]).unwrap();
    file.unwrap()
}

/// The limits in a file; a check may correct the usage.
fn limits_of(file: &QuotaFile) -> BTreeMap<u32, Dqblk> {
    let only = |r: &Dqblk| limits([r.bsoftlimit, r.bhardlimit], [r.isoftlimit, r.ihardlimit]);
    let all = file.records.iter().map(|(id, record)| (*id, only(record)));
    all.filter(|(_, record)| record.has_limits()).collect()
}

/// Fails without showing a thousand records.
fn assert_limits(file: &QuotaFile, at: &str) {
    assert!(limits_of(file) == records(), "{at}: {} records", file.records.len());
}

fn assert_converted(w: &World) {
    w.fs.sync().unwrap();
    let file = file_of(w.dev.inner());
    assert_eq!(file.format, RecordFormat::Records64);
    assert_limits(&file, "converted");
    let names = w.names(&w.root);
    assert!(names.iter().any(|name| name == "quota.user_32.orig"), "{names:?}");
    assert!(!names.iter().any(|name| name == "quota.user_64.new"), "{names:?}");
    let wanted = QuotaOptions { user: QuotaOption::On, group: QuotaOption::Off };
    w.fs.quotaon(wanted).unwrap();
    assert_eq!(record(&w.fs, QuotaType::User, 9).bhardlimit, 7000);
}

#[test]
fn a_conversion_that_a_crash_ends_leaves_the_old_file_or_the_new_one() {
    for shape in [UFS2, UFS1] {
        let before = old_volume(shape);
        let w = mount_on(before.snapshot(), &soft_updates());
        assert_eq!(file_of(&before).format, RecordFormat::Old);
        let state = w.record();
        w.fs.convert_quota_file(QuotaType::User, &records()).unwrap();
        let mut states = Vec::new();
        w.each_write(&state, |dev, _| states.push(dev.snapshot()));
        assert_converted(&w);
        w.end();
        let (mut old, mut new) = (0, 0);
        for (n, left) in states.into_iter().enumerate() {
            let left = Arc::new(left);
            let report = Fsck::new(left.clone(), FsckOptions::preen()).run();
            assert!(report.clean, "{shape:?}, write {n}: {report:?}");
            let found = file_of(&*left);
            assert_limits(&found, &format!("{shape:?}, write {n}"));
            let w = mount_on(left.snapshot(), &soft_updates());
            if found.format == RecordFormat::Old {
                old += 1;
                let error = w.fs.quotaon(QuotaOptions::PRESENT).unwrap_err().to_string();
                assert!(error.contains("`ffs quotacheck -c 64` converts them"), "{error}");
                w.fs.convert_quota_file(QuotaType::User, &found.records).unwrap();
            } else {
                new += 1;
            }
            assert_converted(&w);
            w.end();
        }
        assert!(old > 3 && new > 0, "{old} {new}");
    }
}

#[test]
fn a_conversion_without_space_changes_nothing() {
    for shape in [UFS2, UFS1] {
        let w = mount_on(old_volume(shape), &soft_updates());
        let file = w.file(&w.root, "all");
        let mut at = 0;
        while let Ok(n) = write(&w, &Cred::root(), &file, at, 4096) {
            at += n as u64;
        }
        let names = w.names(&w.root);
        // With more free space each time it fails at another place.
        let mut failed = 0;
        while let Err(error) = w.fs.convert_quota_file(QuotaType::User, &records()) {
            assert_eq!(error.errno(), 28);
            assert_eq!(w.names(&w.root), names);
            failed += 1;
            at -= 65536;
            let set = SetAttr { size: Some(at), ..SetAttr::default() };
            w.fs.setattr(&Cred::root(), &file, &set).unwrap();
            w.fs.sync().unwrap();
            let found = file_of(w.dev.inner());
            assert_eq!(found.format, RecordFormat::Old);
            assert_limits(&found, "without space");
        }
        assert!(failed > 2, "{failed}");
        assert_converted(&w);
        drop(file);
        w.end();
    }
}

#[test]
fn a_conversion_keeps_the_files_of_others() {
    let w = mount_on(old_volume(UFS2), &soft_updates());
    let convert = || w.fs.convert_quota_file(QuotaType::User, &records());
    w.file(&w.root, "quota.user_32.orig");
    assert_eq!(errno(convert()), 17);
    w.fs.unlink(&Cred::root(), &w.root, b"quota.user_32.orig").unwrap();
    // The owner of an old file may have set any limit.
    let old = w.get(&w.root, "quota.user").unwrap();
    let give = |uid| {
        let set = SetAttr { uid: Some(uid), ..SetAttr::default() };
        w.fs.setattr(&Cred::root(), &old, &set).unwrap();
    };
    give(10);
    assert_eq!(errno(convert()), 1);
    assert_eq!(w.names(&w.root), [".snap", "quota.user"]);
    give(0);
    convert().unwrap();
    assert_converted(&w);
    drop(old);
    w.end();
}
