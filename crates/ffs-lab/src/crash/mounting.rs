//! Mounts of the laboratory: options, virtual clock, and the error of a step that fails.

use std::sync::Arc;
use std::time::Duration;

use ffs_core::{DirTruncate, Env, Ffs, MountOptions, OrderingPolicy};
use ffs_device::{BlockDevice, ManualClock, MemDevice, Timestamp};

use super::op::Workload;
use super::oracle::SoftUpdateOptions;
use crate::error::{LabError, Result};

/// The time at which every volume is made, seconds.
pub(crate) const START: i64 = 1_000_000_000;

pub(crate) fn failed(what: &str, why: &dyn std::fmt::Display) -> LabError {
    LabError::Failed {
        target: "crash".into(),
        what: what.into(),
        why: why.to_string(),
        full: false,
    }
}

/// The options of the mount under test.
pub(crate) fn options(
    ordering: OrderingPolicy,
    soft: SoftUpdateOptions,
    workload: &Workload,
) -> MountOptions {
    let mut options = MountOptions {
        ordering,
        force: true,
        replace_order: soft.replace_order,
        ..MountOptions::default()
    };
    options.stable = workload.stable;
    options.journal_limit = workload.journal_bytes;
    options.acls = Some(true);
    let t = &mut options.tunables;
    t.fsync = soft.fsync;
    t.cache = 2 << 20;
    if workload.truncate_on_removal {
        t.dir_truncate = DirTruncate::CreateDelete;
    }
    if workload.write_in_place {
        t.write_in_place = ffs_core::WriteInPlace::Always;
    }
    if workload.tight_memory {
        t.nbuf = ffs_core::Limit::Of(16);
        t.hibufspace = ffs_core::Limit::Of(64 << 10);
        t.maxvnodes = 4;
    }
    options
}

/// The options of a mount that only prepares or inspects a volume.
pub(super) fn unordered() -> MountOptions {
    options(OrderingPolicy::None, SoftUpdateOptions::default(), &Workload::default())
}

/// A clock at `secs` seconds after the volumes were made.
pub(crate) fn clock(secs: i64) -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::new(START + secs, 0)))
}

pub(crate) fn mount(
    device: Arc<dyn BlockDevice>,
    options: &MountOptions,
    seed: u64,
) -> Result<(Ffs, Arc<ManualClock>)> {
    let clock = clock(60);
    let env = Env::seeded(Arc::clone(&clock) as Arc<dyn ffs_device::Clock>, seed);
    let fs = Ffs::mount(device, options, env).map_err(|error| failed("mount", &error))?;
    if let Some(why) = fs.read_only_reason() {
        return Err(failed("mount", &why));
    }
    Ok((fs, clock))
}

/// Whether the volume can be mounted without force: not if its superblock is torn.
pub(super) fn is_mountable(image: &[u8]) -> bool {
    let device = Arc::new(MemDevice::from_bytes(image));
    let options = MountOptions { ordering: OrderingPolicy::SoftUpdates, ..MountOptions::default() };
    mount(device, &options, 1).is_ok()
}

pub(crate) fn wait(fs: &Ffs, clock: &ManualClock, secs: u32) -> ffs_core::Result<()> {
    for _ in 0..secs {
        clock.advance(Duration::from_secs(1));
        fs.tick()?;
    }
    Ok(())
}
