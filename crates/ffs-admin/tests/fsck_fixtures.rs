//! The check on images that real BSD systems wrote.

use std::sync::Arc;

use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport, exit};
use ffs_device::{BlockDevice, MemDevice};
use ffs_testkit::fixtures;

/// Images without a whole file system at byte 0.
const NOT_ONE: [&str; 5] = [
    "freebsd8-ufs2-head-1m",
    "label-bsd-only",
    "label-mbr-bsd",
    "part-gpt-ufs2",
    "part-mbr-bsd-ufs1-abs",
];
/// Images that a power cut left in need of repair.
const BROKEN: [&str; 1] = ["nb-ufs2-crash"];

fn device(name: &str) -> Option<Arc<dyn BlockDevice>> {
    Some(Arc::new(MemDevice::from_bytes(&fixtures::load(name)?)))
}

fn check(dev: &Arc<dyn BlockDevice>, options: FsckOptions) -> FsckReport {
    Fsck::new(Arc::clone(dev), options).run()
}

#[test]
fn every_clean_image_is_silent() {
    for name in fixtures::image_names() {
        if NOT_ONE.contains(&name.as_str()) || BROKEN.contains(&name.as_str()) {
            continue;
        }
        let Some(dev) = device(&name) else { continue };
        let report = check(&dev, FsckOptions::no());
        assert!(report.is_silent(), "{name}: {:?} {:#?}", report.stopped, report.findings);
        assert_eq!(report.exit_code, exit::OK, "{name}");
        assert!(!report.modified, "{name}");
    }
}

#[test]
fn what_is_no_volume_is_refused() {
    for name in NOT_ONE {
        let Some(dev) = device(name) else { continue };
        let report = check(&dev, FsckOptions::yes());
        assert_eq!(report.exit_code, exit::SUPERBLOCK, "{name}");
        assert!(report.stopped.is_some() && !report.modified, "{name}");
    }
}
