//! A commit of several segments, of which a loss of power leaves some.

use crate::common::{START, mount_on};
use crate::records::superblock;
use crate::{SHAPES, journaled_volume, options};
use ffs_admin::fsck::{Fsck, FsckOptions, JournalUse, Mode, quick_check};
use ffs_core::{Cred, NodeKind, WriteMode};
use ffs_device::record::Event;
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::journal::SegHeader;
use std::sync::Arc;

/// A write: byte offset and bytes.
type Write = (u64, Arc<[u8]>);

/// The device when the first commit of several segments begins, and the writes of the commit.
fn first_commit(shape: crate::common::Shape) -> (MemDevice, Vec<Write>) {
    let dev = journaled_volume(shape);
    let base = dev.snapshot();
    let w = mount_on(dev, &options(None));
    assert!(w.fs.journal_stats().kept);
    let file = w.fs.create(&Cred::root(), &w.root, b"n", NodeKind::Regular, 0o644).unwrap();
    // A record for each block: more than one segment has.
    let blocks = shape.2 / 512 * 15 + 20;
    let bytes = vec![7; (blocks * shape.2) as usize];
    w.fs.write(&Cred::root(), &file, 0, &bytes, WriteMode::default()).unwrap();
    w.fs.fsync(&file).unwrap();
    let mut writes = Vec::new();
    for event in w.dev.take_events() {
        match event {
            Event::Write { offset, bytes, .. } => writes.push((offset, bytes)),
            Event::Flush { .. } => {
                let time = superblock(&base).0.f.mtime;
                let ours = |bytes: &[u8]| SegHeader::decode(bytes, shape.0).time == time;
                let commit: Vec<_> = writes.iter().filter(|w| ours(&w.1)).cloned().collect();
                if commit.len() > 1 {
                    return (base, commit);
                }
                for (offset, bytes) in writes.drain(..) {
                    base.write_at(offset, &bytes).unwrap();
                }
            }
            _ => {}
        }
    }
    panic!("no commit has several segments");
}

#[test]
fn any_part_of_the_first_commit_may_be_lost() {
    for shape in [SHAPES[0], SHAPES[2]] {
        let (base, commit) = first_commit(shape);
        for kept in 0..1_u32 << commit.len() {
            let dev = base.snapshot();
            for (_, (offset, bytes)) in
                commit.iter().enumerate().filter(|(i, _)| kept >> i & 1 == 1)
            {
                dev.write_at(*offset, bytes).unwrap();
            }
            let dev = Arc::new(dev) as Arc<dyn BlockDevice>;
            let preen = FsckOptions { mode: Mode::Preen, ..FsckOptions::default() };
            let report = Fsck::new(Arc::clone(&dev), preen.at(START + 500)).run();
            let used = matches!(report.journal, Some(JournalUse::Recovered(_)));
            assert!(used, "segments {kept:b}: {report:#?}");
            assert!(quick_check(&dev).is_empty(), "segments {kept:b}");
        }
    }
}
