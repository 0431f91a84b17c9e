//! The same operations on a device that sometimes fails.
//!
//! An operation that meets a failure returns an error and may be partly done. All other files must
//! be unchanged, the mount must continue or end properly, and after a full check the volume is
//! undamaged.

use crate::compare;
use crate::world::{Config, World, fresh};
use ffs_admin::fsck::{Fsck, FsckOptions, quick_check};
use ffs_device::fault::{EIO, Fault, FaultInjector, Rule};
use ffs_device::{BlockDevice, Operation};
use ffs_testkit::envvar::number;
use ffs_testkit::rng::SplitMix64;
use std::sync::Arc;

/// Failures per configuration.
const ROUNDS: u64 = 25;
/// Operations before the device may fail, and at most while it may.
const OPERATIONS: u64 = 60;

/// Runs [`ROUNDS`] worlds, each with one failing transfer.
pub(crate) fn run(config: Config) {
    let base = number("FFS_MODEL_SEED").unwrap_or_else(|| config.default_seed());
    for round in 0..ROUNDS {
        let seed = base.wrapping_add(round);
        println!("{config:?}: faults, seed {seed} (FFS_MODEL_SEED={seed})");
        one(config, seed);
    }
}

fn one(config: Config, seed: u64) {
    let mut rng = SplitMix64::new(seed);
    let device = Arc::new(FaultInjector::new(fresh(&config), Vec::new()));
    let mut world = World::on(config, seed, device.clone() as Arc<dyn BlockDevice>);
    for _ in 0..OPERATIONS {
        world.step();
    }
    let operation = [Operation::Read, Operation::Write, Operation::Flush][rng.below(3) as usize];
    let fault = match rng.below(3) {
        0 => Fault::Short { sectors: rng.below(8), errno: EIO },
        1 => Fault::Torn { seed: rng.next_u64() },
        _ => Fault::Errno(EIO),
    };
    device.add(Rule::new(operation, fault).nth(1 + rng.below(12)).times(1));
    world.faulty = true;
    for _ in 0..OPERATIONS {
        world.step();
        if world.troubled {
            break;
        }
    }
    device.heal();
    settle(&mut world);
}

/// Ends the mount on the working device, repairs the volume, and checks the rest.
fn settle(world: &mut World) {
    if let Err(e) = world.fs.unmount() {
        world.fail(&format!("unmount after the device healed: {e}"));
    }
    let findings = quick_check(&world.dev);
    if !findings.is_empty() && world.is_clean() {
        world.fail(&format!("marked clean, but fsck is not silent: {findings:#?}"));
    }
    let options = FsckOptions { force: true, ..FsckOptions::yes() };
    let report = Fsck::new(Arc::clone(&world.dev), options).run();
    assert!(report.clean, "fsck -y did not finish: {report:?}");
    let findings = quick_check(&world.dev);
    if !findings.is_empty() {
        world.fail(&format!("fsck -y left {findings:#?}"));
    }
    world.mount_again();
    let touched: &[u64] = if world.troubled { &world.touched } else { &[] };
    if let Err(difference) = compare::untouched(&world.fs, &world.model, touched) {
        world.fail(&difference);
    }
}
