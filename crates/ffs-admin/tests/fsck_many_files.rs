//! Repairs of many files: what does not fit, and what may not be written early.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fsck_util::Img;
use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport, Id, exit};
use ffs_ondisk::superblock::SBLOCKSIZE;
use ffs_ondisk::{Endian, FileFlags, Format, Superblock, snapshot};

/// A check with all repairs granted that is interrupted when so many phases have begun.
fn interrupted_after(img: &Img, phases: usize) -> FsckReport {
    let flag = Arc::new(AtomicBool::new(false));
    let options =
        FsckOptions { interrupt: Some(Arc::clone(&flag)), force: true, ..FsckOptions::yes() };
    let (mut last, mut begun) = (None, 0);
    Fsck::new(img.dev.clone(), options)
        .with_progress(move |p| {
            begun += usize::from(last != Some(p.phase));
            last = Some(p.phase);
            flag.store(begun >= phases, Ordering::Relaxed);
        })
        .run()
}

/// Makes files without names.
fn orphans(img: &mut Img, number: u32) -> Vec<u32> {
    let first = img.file(2, "x", 1);
    let (at, _) = img.entry(2, "x");
    img.write(at, &[0; 4]);
    let d = img.inode(first);
    let crowd: Vec<u32> = (first + 1..first + number).collect();
    for &ino in &crowd {
        let mut copy = d.clone();
        copy.db[0] = 0;
        copy.blocks = 0;
        assert!(ino < img.g.inodes());
        img.set_inode(ino, &copy);
    }
    crowd
}

/// Repairs that do not fit into memory would be written before the copies for snapshots.
#[test]
fn repairs_beyond_the_memory_are_refused_beside_snapshots() {
    let mut img = Img::fresh((Endian::Little, Format::Ufs1, 4096, 512, 64 << 20));
    let ino = img.sparse(2, "snapshot", snapshot::image_bytes(&img.g), &[]);
    img.edit(ino, |d| d.flags |= FileFlags::SF_SNAPSHOT);
    for ino in orphans(&mut img, 12_000) {
        img.edit(ino, |d| d.nlink = 3);
    }
    let tables = img.g.size / 8 + u64::from(img.g.ncg) * 64;
    let little = || FsckOptions { max_memory: Some(tables + (1 << 20)), ..FsckOptions::yes() };
    assert_eq!(img.copy().fsck(little()).exit_code, exit::OK);

    let home = 8192;
    let mut sb = Superblock::decode(&img.read(home, SBLOCKSIZE), home).unwrap();
    sb.f.snapinum[0] = ino;
    img.write(home, &sb.encode());
    let before = img.bytes();
    let report = img.fsck(little());
    assert_eq!(report.exit_code, exit::ERROR);
    assert!(report.stopped.unwrap().contains("more memory than the limit"));
    assert!(!report.modified && img.bytes() == before);
    for phases in 1..=5 {
        let report = interrupted_after(&img, phases);
        assert_eq!(report.exit_code, exit::INTERRUPTED);
        assert!(report.stopped.unwrap().ends_with("because the volume has snapshots"));
        assert!(!report.modified && img.bytes() == before, "phase {phases}");
    }
    assert_eq!(img.fsck(FsckOptions::yes()).exit_code, exit::OK);
    img.silent();
}

#[test]
fn kf2_07_many_orphans_fit_into_lost_found() {
    let mut img = Img::fresh((Endian::Little, Format::Ufs1, 4096, 512, 8 << 20));
    let crowd = orphans(&mut img, 3500);
    let report = img.fsck(FsckOptions::yes());
    assert_eq!(report.exit_code, exit::OK, "{:?}", report.counts);
    assert!(!report.counts.contains_key(&Id::LfFull), "{:?}", report.counts);
    img.silent();
    let home = img.ino("lost+found");
    assert_eq!(img.entries(home).len(), crowd.len() + 3);
    assert!(img.inode(home).ib[0] != 0, "beyond the direct blocks");
}
