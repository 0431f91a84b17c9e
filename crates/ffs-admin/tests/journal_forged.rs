//! Soft-updates journals with records that are valid but forged.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test")]

use crate::fsck_util::Img;
use crate::fsck_util::suj::{crashed, kinds, preen, record};
use ffs_admin::fsck::{FsckOptions, exit};
use ffs_ondisk::journal::{Blk, Move, Record, Ref, Trunc};
use proptest::prelude::*;

/// A record of any kind with fields that are often those of the tree.
fn any_record(img: &Img) -> impl Strategy<Value = Record> + use<> {
    let inos: Vec<u32> = img.tree().values().map(|item| item.ino).chain([3, 30, 31]).collect();
    let runs: Vec<i64> = inos.iter().map(|&i| img.inode(i).db[0]).filter(|&at| at > 0).collect();
    let (frag, ino) = (img.g.frag as u16, prop::sample::select(inos));
    let fields = (0usize..7, ino.clone(), ino, 0u16..4, 0i64..130, -13i64..30, 0..frag);
    (fields, prop::sample::select(runs), 0i64..40).prop_map(
        move |((kind, ino, parent, nlink, off, lbn, frags), run, shift)| {
            let diroff = off * 4;
            let mode = if off % 3 == 0 { 0o040_755 } else { 0o100_644 };
            let entry = Ref { ino, parent, nlink, mode, diroff, ..Ref::default() };
            let blkno = if shift < 20 { run } else { run + shift };
            let blk = Blk { ino, lbn, blkno, frags: frags + 1, ..Blk::default() };
            let trunc = Trunc { ino, size: off * 700, ..Trunc::default() };
            let moved =
                Move { ino, parent, oldoff: diroff, newoff: 4 * lbn.abs(), ..Move::default() };
            match kind {
                0 => Record::AddRef(entry),
                1 => Record::RemRef(entry),
                2 => Record::NewBlk(blk),
                3 => Record::FreeBlk(blk),
                4 => Record::MoveRef(moved),
                5 => Record::Trunc(trunc),
                _ => Record::Sync(trunc),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The recovery ends for all valid records. A full check can repair what forged ones did, and
    /// files that no record names, in directories that no record names, are as they were.
    #[test]
    fn any_records_end_in_a_volume_that_can_be_repaired(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..12),
        records in prop::collection::vec(any_record(&crashed(kinds().next().unwrap())), 64),
    ) {
        let img = crashed(kinds().next().unwrap());
        let chosen: Vec<Record> = picks.iter().map(|i| i.get(&records).clone()).collect();
        record(&img, &chosen);
        let before = img.tree();
        let report = preen(&img);
        prop_assert!(report.stopped.is_none(), "{report:?}");
        prop_assert!(report.clean && report.exit_code == exit::OK);
        let repaired = img.fsck(FsckOptions::yes());
        prop_assert!(repaired.clean && repaired.exit_code == exit::OK, "{repaired:#?}");
        let after = img.tree();
        let named: Vec<u32> = chosen.iter().map(ino_of).collect();
        for (path, item) in &before {
            let parts = path.match_indices('/').map(|(n, _)| &path[..n]).filter(|p| !p.is_empty());
            let inos = parts.map(|p| before[p].ino).chain([item.ino]).collect::<Vec<_>>();
            if inos.iter().all(|ino| !named.contains(ino)) {
                let kept = after.get(path).is_some_and(|now| {
                    now.content == item.content && (now.ino, now.size) == (item.ino, item.size)
                });
                prop_assert!(kept || path.is_empty(), "{path} after {chosen:?}");
            }
        }
        img.silent();
    }
}

/// The inode that a record is about.
fn ino_of(record: &Record) -> u32 {
    match record {
        Record::AddRef(r) | Record::RemRef(r) => r.ino,
        Record::MoveRef(r) => r.ino,
        Record::NewBlk(r) | Record::FreeBlk(r) => r.ino,
        Record::Trunc(r) | Record::Sync(r) => r.ino,
    }
}
