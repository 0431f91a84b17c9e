//! fsck finds nothing on volumes that newfs made or tunefs changed.
//!
//! newfs computes its counts from its maps, and fsck from the inodes.

use std::sync::Arc;

use ffs_admin::fsck::quick_check;
use ffs_admin::newfs::{NewfsOptions, Release, newfs, quick};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_device::{BlockDevice, ManualClock, MemDevice, SplitMix64};
use ffs_ondisk::{Endian, Format};
use ffs_testkit::fixtures;

fn silent(dev: MemDevice, what: &str) -> MemDevice {
    let shared: Arc<dyn BlockDevice> = Arc::new(dev.snapshot());
    let findings: Vec<String> = quick_check(&shared).iter().map(ToString::to_string).collect();
    assert_eq!(findings, Vec::<String>::new(), "{what}");
    dev
}

#[test]
fn every_geometry() {
    for (bsize, fsize) in
        [(4096, 512), (4096, 4096), (8192, 1024), (16384, 2048), (32768, 4096), (65536, 8192)]
    {
        for format in [Format::Ufs1, Format::Ufs2] {
            for endian in [Endian::Little, Endian::Big] {
                for bytes in [4 << 20, 20_975_104] {
                    let what = format!("{format} {endian:?} {bsize}/{fsize} {bytes}");
                    let dev = quick(endian, format, bsize, fsize, bytes).unwrap();
                    let dev = silent(dev, &what);
                    let opts = TunefsOptions {
                        all_copies: true,
                        soft_updates: Some(true),
                        trim: Some(true),
                        minfree: Some(12),
                        label: Some("tuned".into()),
                        ..TunefsOptions::default()
                    };
                    tunefs(&dev, &opts).unwrap();
                    silent(dev, &what);
                }
            }
        }
    }
}

#[test]
fn every_release_reproducible_or_not() {
    for release in [Release::Freebsd4, Release::Freebsd10, Release::Current] {
        for reproducible in [false, true] {
            let dev = MemDevice::new(9_999_999);
            let opts = NewfsOptions { release, reproducible, ..NewfsOptions::default() };
            let rng = SplitMix64::new(2);
            newfs(&dev, &opts, &ManualClock::default(), &rng, &mut |_, _| {}).unwrap();
            silent(dev, &format!("{opts:?}"));
        }
    }
}

#[test]
fn a_volume_whose_journal_was_disabled() {
    for name in ["suj-ufs1-64m", "suj-ufs2-64m"] {
        let Some(image) = fixtures::load(name) else { return };
        let dev = MemDevice::from_bytes(&image);
        let opts = TunefsOptions { journal: Some(false), ..TunefsOptions::default() };
        tunefs(&dev, &opts).unwrap();
        silent(dev, name);
    }
}
