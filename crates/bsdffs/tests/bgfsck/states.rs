//! Many states after crashes: the check in the background has the result of `fsck -p`.

use super::world::{Disk, START, assert_sound, check_all, crashed, preen, tree_of, tree_on};
use ffs_admin::fsck::Id;
use ffs_device::BlockDevice;
use ffs_testkit::envvar::number;
use std::collections::BTreeMap;
use std::sync::Arc;

/// States that are examined.
const STATES: u64 = 150;

#[test]
fn the_check_in_the_background_corrects_what_preen_would_repair() {
    let first = number("FFS_BGFSCK_SEED").unwrap_or(1);
    let (mut ids, mut corrections) = (BTreeMap::<Id, u64>::new(), 0);
    for seed in first..first + number("FFS_BGFSCK_STATES").unwrap_or(STATES) {
        let at = format!("FFS_BGFSCK_SEED={seed}");
        let state = crashed(seed);
        let repaired: Arc<dyn BlockDevice> = Arc::new(state.snapshot());
        let by_preen = preen(&repaired);
        assert_eq!(by_preen.exit_code, 0, "{at}: {:#?}", by_preen.findings);
        let disk = Disk::mount(state, seed, START + 50).unwrap();
        if disk.fs.read_only_reason().is_some() {
            // A torn superblock needs the check first.
            continue;
        }
        let before = tree_of(&disk.fs);
        let report = check_all(&disk.fs, &at);
        assert_eq!(report.refused, 0, "{at}: {:#?}", report.findings);
        assert_eq!(report.rounds, 1, "{at}");
        for finding in &report.findings {
            *ids.entry(finding.id).or_default() += 1;
        }
        corrections += report.corrections;
        let after = tree_of(&disk.fs);
        for (path, (kind, _, _, content)) in &after {
            let (was, _, _, had) = &before[path];
            assert!(was == kind && had.starts_with(content), "{at}: {path}");
            let shortened = report.findings.iter().any(|f| f.id == Id::InoEndHole);
            assert!(content.len() == had.len() || shortened, "{at}: {path}");
        }
        let dev = disk.unmounted();
        assert_sound(&dev, &at);
        let expected = tree_on(&repaired);
        let found = tree_on(&dev);
        for (path, file) in &expected {
            let (kind, perm, links, content) = &found[path];
            assert!((*kind, *perm, *links) == (file.0, file.1, file.2), "{at}: {path}");
            assert!(*content == file.3, "{at}: {path}");
        }
        assert_eq!(expected.len(), found.len(), "{at}");
    }
    println!("{corrections} corrections: {ids:?}");
    assert!(corrections > 0);
}
