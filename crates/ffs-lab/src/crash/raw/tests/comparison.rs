//! Compares this checker with `fsck` on randomly damaged images: a violation for one is a finding
//! of the other.

use std::sync::Arc;

use ffs_admin::fsck::{Severity, quick_check};
use ffs_device::{BlockDevice, MemDevice, Rng, SplitMix64};
use ffs_ondisk::Endian;

use super::image::{SHAPES, furnished};
use crate::crash::raw::Checker;

fn fsck(bytes: &[u8]) -> Vec<(String, bool)> {
    let dev: Arc<dyn BlockDevice> = Arc::new(MemDevice::from_bytes(bytes));
    let findings = quick_check(&dev);
    findings
        .iter()
        .map(|f| (format!("{:?}: {}", f.id, f.message), f.severity == Severity::Fatal))
        .collect()
}

#[test]
fn both_checkers_agree() {
    for (n, shape) in SHAPES.into_iter().enumerate().take(3) {
        for endian in [Endian::Little, Endian::Big] {
            let good = furnished(shape, endian);
            let mut checker = Checker::new();
            let places = interesting(&mut checker, &good);
            let rng = SplitMix64::new(7 + n as u64);
            for round in 0..400 {
                let mut bytes = good.clone();
                let (from, to) = places[(rng.next_u64() % places.len() as u64) as usize];
                let at = from + (rng.next_u64() % (to - from) as u64) as usize;
                bytes[at] ^= 1 << (rng.next_u64() % 8);
                let mine: Vec<String> =
                    checker.check(&bytes).violations.iter().map(|v| v.to_string()).collect();
                let theirs = fsck(&bytes);
                let place =
                    format!("{shape:?} {endian:?} round {round} byte {at} ({from}+{})", at - from);
                let fatal = theirs.iter().any(|finding| finding.1);
                assert!(!fatal || !mine.is_empty(), "{place}: only fsck sees {theirs:?}");
                assert!(
                    mine.is_empty() || !theirs.is_empty(),
                    "{place}: fsck does not see {mine:?}"
                );
            }
        }
    }
}

/// Ranges of the image that hold inodes in use, directories, indirect blocks and maps.
fn interesting(checker: &mut Checker, good: &Vec<u8>) -> Vec<(usize, usize)> {
    let tree = &checker.check(good).tree;
    let v = tree.volume;
    let mut places = Vec::new();
    for inode in tree.inodes() {
        let at = inode.text as usize - if v.ufs2 { 112 } else { 40 };
        places.push((at, at + v.isize() as usize));
        if inode.mode >> 12 == 4 {
            for extent in tree.extents(inode) {
                places.push((extent.at as usize, extent.at as usize + 120));
            }
        }
    }
    for cg in 0..v.ncg {
        let at = v.header(cg) as usize;
        places.push((at, at + 168 + 300));
    }
    places
}

#[test]
fn any_bytes_are_survived() {
    for (n, shape) in (0u64..).zip(SHAPES.into_iter().take(3)) {
        let good = furnished(shape, Endian::Little);
        let mut checker = Checker::new();
        let mut places = interesting(&mut checker, &good);
        let superblock = if checker.found().tree.volume.ufs2 { 65536 } else { 8192 };
        places.push((superblock, superblock + 1376));
        for seed in 0..300 {
            let rng = SplitMix64::new(seed << 8 | n);
            let mut bytes = good.clone();
            for _ in 0..=rng.next_u64() % 40 {
                let (from, to) = places[(rng.next_u64() % places.len() as u64) as usize];
                let at = from + (rng.next_u64() % (to - from) as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            println!("{shape:?} seed {seed}");
            checker.check(&bytes);
        }
    }
}
