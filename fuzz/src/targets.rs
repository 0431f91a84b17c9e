//! The fuzz targets.

use crate::{Input, base, walk, work};
use ffs_admin::fsck::{self, Finding, Fsck, FsckOptions, FsckReport, exit};
use ffs_core::{AllocPolicy, DirPref, Ffs, MountOptions, OrderingPolicy, TunableValues};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::sbsearch;
use std::sync::Arc;

/// Mounts a damaged volume by force, makes operations, unmounts. Errors are expected; panics,
/// endless loops and unbounded memory are failures, and the volume must be repairable afterwards.
///
/// # Panics
/// If it is not repairable.
pub fn mount_work(data: &[u8]) {
    let input = Input::of(data);
    let image = Arc::new(input.image());
    let bit = |n: u8| input.flags >> n & 1 == 1;
    let foreign = base::base(input.base).foreign;
    let opts = MountOptions {
        force: true,
        read_only: input.flags >> 1 & 15 == 15 || foreign,
        ordering: if bit(1) { OrderingPolicy::Sync } else { OrderingPolicy::None },
        acls: bit(5).then_some(true),
        tunables: TunableValues {
            alloc: if bit(2) { AllocPolicy::Y2001 } else { AllocPolicy::Y2013 },
            doreallocblks: !bit(3),
            dirpref: if bit(4) { DirPref::Depth } else { DirPref::New10 },
            ..small()
        },
        ..MountOptions::default()
    };
    let Ok(fs) = Ffs::mount(image.clone(), &opts, base::env()) else { return };
    let _ = work::run(&fs, &input.steps);
    let _ = walk::tree(&fs);
    let _ = fs.unmount();
    drop(fs);
    if bit(7) && !foreign {
        let image: Arc<dyn BlockDevice> = image;
        repair(&image, FsckOptions::yes());
    }
}

/// Little memory, so that blocks and inodes are often evicted.
fn small() -> TunableValues {
    TunableValues { cache: 2 << 20, maxvnodes: 16, ..TunableValues::default() }
}

/// Repairs a damaged volume. A second check must have no findings, the volume must mount,
/// everything on it must be readable, and operations must leave it undamaged.
///
/// # Panics
/// If any of that fails.
pub fn fsck_twice(data: &[u8]) {
    let mut input = Input::of(data);
    input.base = base::writable(input.base);
    let image = Arc::new(input.image());
    let dev: Arc<dyn BlockDevice> = image.clone();
    if input.flags & 2 != 0 {
        preen(&image, &dev);
    }
    let options = FsckOptions {
        force: true,
        zero_unused: input.flags & 4 != 0,
        shrink_initialised: input.flags & 8 != 0,
        ..FsckOptions::yes()
    };
    let Some(report) = repair(&dev, options) else { return };
    let opts = MountOptions {
        ordering: if input.flags & 16 != 0 { OrderingPolicy::Sync } else { OrderingPolicy::None },
        tunables: small(),
        ..MountOptions::default()
    };
    let fs = match Ffs::mount(dev.clone(), &opts, base::env()) {
        Ok(fs) => fs,
        Err(e) => panic!("a repaired volume does not mount: {e}"),
    };
    let bad = walk::tree(&fs);
    assert!(bad.is_empty(), "a repaired volume cannot be read: {bad:#?}");
    let bad = work::run(&fs, &input.steps);
    assert!(bad.is_empty(), "a repaired volume cannot be worked on: {bad:#?}\n{input:?}");
    fs.unmount().unwrap();
    drop(fs);
    settled(&dev, "work on a repaired volume broke it", &report);
}

/// Recovers a damaged volume by its damaged journal, as preen does. A refusal leads to preen's
/// check. After either the volume must be repairable.
///
/// # Panics
/// If it is not, or if the recovery was used a second time.
pub fn journal(data: &[u8]) {
    let mut input = Input::of(data);
    input.base = base::journal(input.base);
    let image = Arc::new(input.image());
    let read = |at: u64, len: usize| {
        let mut bytes = vec![0; len];
        image.read_at(at, &mut bytes).map(|()| bytes)
    };
    let Ok(found) = sbsearch::find(read, Some(image.len_bytes())) else { return };
    let mut sb = found.sb;
    sb.f.clean = 0;
    image.write_at(sb.location, &sb.encode()).unwrap();
    let dev: Arc<dyn BlockDevice> = image.clone();
    let run = || {
        let options = FsckOptions { mode: fsck::Mode::Preen, ..FsckOptions::default() };
        Fsck::new(dev.clone(), options.at(base::NOW + 5)).run()
    };
    if matches!(run().journal, Some(fsck::JournalUse::Recovered(_))) {
        let again = run();
        assert!(again.skipped, "a recovered volume is not clean: {again:#?}");
    }
    repair(&dev, FsckOptions::yes());
}

/// Repairs the volume. Returns the report, or `None` if it cannot be checked at all, which must
/// then be permanent.
fn repair(dev: &Arc<dyn BlockDevice>, options: FsckOptions) -> Option<FsckReport> {
    let run = |options: FsckOptions| Fsck::new(dev.clone(), options.at(base::NOW)).run();
    let report = run(options);
    if report.stopped.is_some() {
        let again = run(FsckOptions::yes());
        assert_eq!(report.stopped, again.stopped, "stopped for one reason, then for another");
        return None;
    }
    assert!(report.clean && report.exit_code == exit::OK, "not repaired: {report:#?}");
    settled(dev, "one pass did not converge", &report);
    Some(report)
}

/// After a successful preen a second one has no findings (a full check may: with soft updates preen
/// trusts the inode maps). A preen that failed has written nothing.
fn preen(image: &MemDevice, dev: &Arc<dyn BlockDevice>) {
    let run = || Fsck::new(dev.clone(), FsckOptions::preen().at(base::NOW)).run();
    let before = image.snapshot();
    let report = run();
    if report.exit_code == exit::OK {
        let again = run();
        assert!(
            again.is_silent() && again.clean,
            "preen left something: {again:#?}\nafter {report:#?}"
        );
    } else {
        assert!(image.to_vec() == before.to_vec(), "a preen that failed has written: {report:#?}");
    }
}

fn settled(dev: &Arc<dyn BlockDevice>, what: &str, before: &FsckReport) {
    let findings = fsck::quick_check(dev);
    let list = |all: &[Finding]| all.iter().map(|f| format!("\n  {f}")).collect::<String>();
    let repaired =
        || format!("\nrepaired in {} rounds:{}", before.totals.rounds, list(&before.findings));
    assert!(findings.is_empty(), "{what}:{}{}", list(&findings), repaired());
}
