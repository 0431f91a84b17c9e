//! Many states after crashes: the check in the background has the result of `fsck -p`.

use super::edit::edit;
use super::world::{
    Disk, START, assert_sound, check_all, crashed, preen, tree_of, tree_on, volume,
};
use ffs_admin::fsck::Id;
use ffs_core::{Cred, NodeKind, WriteMode};
use ffs_device::BlockDevice;
use ffs_ondisk::FragNo;
use ffs_ondisk::bmap::set_pointer;
use ffs_ondisk::geometry::NDADDR;
use ffs_testkit::envvar::number;
use std::collections::BTreeMap;
use std::sync::Arc;

/// States that are examined.
const STATES: u64 = 150;
/// Seeds whose operations broke soft updates once: a size below pointers in an indirect block, and
/// a name that was replaced before it was reachable.
const BROKEN_ONCE: [u64; 2] = [681, 805];

#[test]
fn the_check_in_the_background_corrects_what_preen_would_repair() {
    let first = number("FFS_BGFSCK_SEED").unwrap_or(1);
    let (mut ids, mut corrections) = (BTreeMap::<Id, u64>::new(), 0);
    let seeds = first..first + number("FFS_BGFSCK_STATES").unwrap_or(STATES);
    for seed in seeds.chain(BROKEN_ONCE) {
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

/// A pointer of a directory may be durable before the size that covers it.
#[test]
fn pointers_beyond_the_size_of_a_directory_are_dropped() {
    let (c, disk) = (Cred::root(), Disk::mount(volume(0), 0, START).unwrap());
    let (fs, root) = (&disk.fs, disk.fs.root().unwrap());
    let dir = fs.mkdir(&c, &root, b"large", 0o755).unwrap();
    for n in 0..300 {
        let name = format!("{n:0>180}");
        fs.create(&c, &dir, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
    }
    let file = fs.create(&c, &root, b"file", NodeKind::Regular, 0o644).unwrap();
    let g = *fs.geometry();
    fs.write(&c, &file, 0, &vec![1; g.bsize as usize], WriteMode::default()).unwrap();
    fs.sync().unwrap();
    let (dir, file) = (dir.ino(), file.ino());
    let state = disk.crash();
    // The block of the file becomes one of the directory, behind its size.
    let mut block = 0;
    edit(&state, &g, file, |d| {
        block = d.db[0];
        (d.size, d.blocks) = (0, 0);
        d.db = Default::default();
    });
    let large = edit(&state, &g, dir, |_| ());
    let slot = large.size.div_ceil(g.bsize.into()) as usize + 1 - NDADDR;
    let at = g.frag_to_byte(FragNo(large.ib[0].unsigned_abs()));
    let mut indirect = vec![0; g.bsize as usize];
    state.read_at(at, &mut indirect).unwrap();
    set_pointer(&g, &mut indirect, slot, block);
    state.write_at(at, &indirect).unwrap();

    let disk = Disk::mount(state, 0, START + 50).unwrap();
    let (free, tree) = (disk.fs.statfs().frags_free, tree_of(&disk.fs));
    let report = check_all(&disk.fs, "directory");
    let ids: Vec<Id> = report.findings.iter().map(|f| f.id).collect();
    assert_eq!(ids[0], Id::IndTrunc, "{ids:?}");
    assert_eq!((report.corrections, report.refused), (1, 0), "{ids:?}");
    disk.fs.sync().unwrap();
    assert_eq!(disk.fs.statfs().frags_free, free + u64::from(g.frag));
    assert!(tree_of(&disk.fs) == tree);
    assert_sound(&disk.unmounted(), "directory");
}
