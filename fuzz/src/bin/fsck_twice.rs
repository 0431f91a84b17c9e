//! Repairs a damaged image; the second look must find nothing, and the volume must mount.
#![no_main]

use ffs_admin::fsck::{self, Fsck, FsckOptions};
use ffs_core::{Ffs, MountOptions};
use ffs_device::BlockDevice;
use ffs_fuzz::{Input, base, work};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|input: Input| {
    let image: Arc<dyn BlockDevice> = Arc::new(input.image());
    let options = FsckOptions { force: true, ..FsckOptions::yes() };
    if !Fsck::new(image.clone(), options).run().clean {
        return;
    }
    let findings = fsck::quick_check(&image);
    assert!(findings.is_empty(), "one pass did not converge: {findings:#?}");
    let Ok(fs) = Ffs::mount(image.clone(), &MountOptions::default(), base::env()) else {
        panic!("a repaired volume does not mount");
    };
    let writable = !fs.is_read_only();
    work::run(&fs, &input.steps);
    fs.unmount().unwrap();
    drop(fs);
    if writable {
        let findings = fsck::quick_check(&image);
        assert!(findings.is_empty(), "work on a repaired volume broke it: {findings:#?}");
    }
});
