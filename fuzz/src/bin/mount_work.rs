//! Mounts a damaged image by force, works on it, unmounts.
#![no_main]

use ffs_core::{Ffs, MountOptions, OrderingPolicy};
use ffs_fuzz::{Input, base, work};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|input: Input| {
    let image = Arc::new(input.image());
    let ordering = if input.base & 0x80 == 0 { OrderingPolicy::None } else { OrderingPolicy::Sync };
    let opts = MountOptions {
        force: true,
        ordering,
        cache_bytes: 4 << 20,
        maxvnodes: 16,
        ..MountOptions::default()
    };
    let Ok(fs) = Ffs::mount(image, &opts, base::env()) else { return };
    work::run(&fs, &input.steps);
    let _ = fs.unmount();
});
