//! Sparse files that are punched, truncated, and grow again.

use super::holes::{bytes, freed, punch, set_root, truncate_into_hole, with_blocks};
use super::pointers::set_block_at;
use super::*;
use crate::ordering::{BlockContent, FreedRuns, PtrSlot};
use ffs_ondisk::bmap;
use ffs_ondisk::geometry::NDADDR;

/// Appends block `lbn`, which stays unwritten.
fn append(rig: &mut Rig, lbn: usize) -> FragRun {
    let (run, size) = (rig.run(lbn as u64), bytes(rig, lbn + 1));
    set_block_at(rig, lbn, run, None, size);
    run
}

/// A write to block `lbn`, a hole, gets run `new` and fails.
fn fail_to_write(rig: &Rig, lbn: usize, new: FragRun) {
    let (slot, block) = (PtrSlot::Direct(FILE, lbn), BufKey::File(FILE, lbn as i64));
    rig.send(Event::BlockAllocated { run: new });
    rig.send(Event::PointerSet { slot, new, old: None, content: BlockContent::Data, block });
    rig.send(Event::PointerCancelled { slot, new });
}

/// A block is punched, written again, and truncated.
#[test]
fn a_punched_run_is_not_free_before_a_write_without_it() {
    let mut rig = with_blocks(&[0, 3]);
    let (old, new) = (rig.run(3), rig.run(6));
    let behind = append(&mut rig, 4);
    punch(&mut rig, 3, old);
    let size = bytes(&rig, 5);
    set_block_at(&mut rig, 3, new, None, size);
    assert_eq!(rig.write_inodes(FILE).1.db[3], old.at.pointer(), "the new block is not ready");
    let cleared = [(0, rig.run(0)), (3, new), (4, behind)];
    let (ino, size) = (FILE, bytes(&rig, 5));
    rig.send(Event::InodeTruncated { ino, last: None, size, cleared: &cleared });
    let d = Dinode { size: 0, db: [0; NDADDR], ..rig.dinode(FILE) };
    rig.store(FILE, InodeChange::Truncate, &d);
    rig.send(Event::BuffersDiscarded { ino, blocks: 0..=i64::MAX });
    let runs = FreedRuns::unordered(cleared.iter().map(|(_, run)| *run).collect());
    rig.send(Event::BlocksFreed { ino, runs, partial: &[] });
    assert!(!freed(&rig).contains(&old), "the device names it");
    rig.write_group();
    assert!(!freed(&rig).contains(&old), "the device names it");
    assert_eq!(rig.write_inodes(FILE).1.db, [0; NDADDR]);
    assert!(freed(&rig).contains(&old));
    assert_eq!(rig.mode.pending().deps, 0);
}

/// A write without the punched block is in progress, and writing the block again fails.
#[test]
fn a_hole_that_a_write_contains_stays_when_its_successor_is_cancelled() {
    let mut rig = with_blocks(&[0, 3]);
    let (old, new) = (rig.run(3), rig.run(6));
    append(&mut rig, 4);
    punch(&mut rig, 3, old);
    rig.write_data(FILE, 4);
    rig.write_group();
    assert_eq!(rig.start_inodes(FILE).db[3], 0);
    rig.accept(rig.inode_block(FILE));
    fail_to_write(&rig, 3, new);
    assert_eq!(freed(&rig), []);
    rig.flush();
    assert_eq!(freed(&rig), [old]);
    assert_eq!(rig.mode.pending().deps, 0, "no write is needed");
}

/// A block is punched, and writing it again fails.
#[test]
fn a_punched_run_is_not_free_when_its_successor_is_cancelled() {
    let mut rig = with_blocks(&[0, 3]);
    let (old, new) = (rig.run(3), rig.run(6));
    let behind = append(&mut rig, 4);
    punch(&mut rig, 3, old);
    fail_to_write(&rig, 3, new);
    assert_eq!(rig.write_inodes(FILE).1.db[3], old.at.pointer(), "no block is behind it");
    assert_eq!(freed(&rig), []);
    rig.write_data(FILE, 4);
    rig.write_group();
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.db[3], d.db[4]), (0, behind.at.pointer()));
    assert_eq!(freed(&rig), [old]);
}

/// The last durable block is punched, and the file is truncated into a hole before it.
#[test]
fn a_write_shows_the_old_end_although_it_was_punched() {
    let mut rig = with_blocks(&[8]);
    let (old, middle) = (rig.run(8), rig.run(4));
    let last = append(&mut rig, 9);
    punch(&mut rig, 8, old);
    truncate_into_hole(&mut rig, 4, middle, &[(9, last)]);
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.db[8], d.size), (old.at.pointer(), bytes(&rig, 9)));
    assert!(!freed(&rig).contains(&old));
    rig.write_data(FILE, 4);
    rig.write_group();
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.db[4], d.db[8], d.size), (middle.at.pointer(), 0, bytes(&rig, 5)));
    assert!(freed(&rig).contains(&old));
    assert_eq!(rig.mode.pending().deps, 0);
}

/// `ftruncate` into a hole; then the file grows, and its end after the truncation is punched.
#[test]
fn a_write_shows_the_old_end_until_it_shows_a_block_behind_the_punched_one() {
    let mut rig = with_blocks(&[9]);
    let (old, middle) = (rig.run(9), rig.run(4));
    truncate_into_hole(&mut rig, 4, middle, &[(9, old)]);
    let behind = append(&mut rig, 8);
    punch(&mut rig, 4, middle);
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.db[9], d.size), (old.at.pointer(), bytes(&rig, 10)));
    rig.write_data(FILE, 8);
    rig.write_group();
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.db[8], d.db[9], d.size), (behind.at.pointer(), 0, bytes(&rig, 9)));
    assert!(freed(&rig).contains(&old));
    assert_eq!(rig.mode.pending().deps, 0);
}

/// The same with an indirect block behind.
#[test]
fn a_write_shows_the_old_end_until_it_shows_an_indirect_block_behind_the_punched_one() {
    let mut rig = with_blocks(&[9]);
    let (old, middle, root) = (rig.run(9), rig.run(4), rig.run(5));
    truncate_into_hole(&mut rig, 4, middle, &[(9, old)]);
    set_root(&mut rig, 0, root, NDADDR + 2);
    punch(&mut rig, 4, middle);
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.db[9], d.ib[0], d.size), (old.at.pointer(), 0, bytes(&rig, NDADDR + 2)));
    let block = BufKey::File(FILE, -(NDADDR as i64));
    rig.write(block, BufKind::Indirect, vec![0; rig.g.bsize as usize]);
    rig.write_group();
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.db[9], d.ib[0]), (0, root.at.pointer()));
    assert!(freed(&rig).contains(&old));
    assert_eq!(rig.mode.pending().deps, 0);
}

/// Two times `ftruncate` into a hole. A flush between them and the next write makes the first end
/// durable, so that write shows this end, and not the one before.
#[test]
fn a_write_shows_the_end_that_became_durable() {
    let mut rig = with_blocks(&[9]);
    let (old, first, second) = (rig.run(9), rig.run(4), rig.run(2));
    truncate_into_hole(&mut rig, 4, first, &[(9, old)]);
    rig.write_data(FILE, 4);
    rig.write_group();
    assert_eq!(rig.start_inodes(FILE).size, bytes(&rig, 5));
    rig.accept(rig.inode_block(FILE));
    truncate_into_hole(&mut rig, 2, second, &[(4, first)]);
    rig.flush();
    assert_eq!(freed(&rig), [old]);
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.db[4], d.db[9], d.size), (first.at.pointer(), 0, bytes(&rig, 5)));
    rig.write_data(FILE, 2);
    rig.write_group();
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.db[2], d.db[4], d.size), (second.at.pointer(), 0, bytes(&rig, 3)));
    assert_eq!(freed(&rig), [first]);
    assert_eq!(rig.mode.pending().deps, 0);
}

/// An indirect block is punched. The file is truncated in the range of its successor, then into a
/// hole among the direct blocks.
#[test]
fn a_punched_indirect_block_is_shown_with_the_size_that_covers_it() {
    let mut rig = Rig::with_files(&[(16, FILE, b"name")]);
    let [old, behind, new, middle] = [2, 3, 4, 5].map(|number| rig.run(number));
    let (ino, double) = (FILE, NDADDR + rig.g.nindir as usize);
    set_root(&mut rig, 0, old, NDADDR + 40);
    let block = BufKey::File(FILE, -(NDADDR as i64));
    rig.write(block, BufKind::Indirect, vec![0; rig.g.bsize as usize]);
    rig.write_group();
    rig.write_inodes(FILE);
    set_root(&mut rig, 1, behind, double + 1);
    punch(&mut rig, NDADDR, old);
    set_root(&mut rig, 0, new, double + 1);
    let cleared = [(NDADDR + 1, behind)];
    rig.send(Event::InodeTruncated {
        ino,
        last: None,
        size: bytes(&rig, double + 1),
        cleared: &cleared,
    });
    let mut d = Dinode { size: bytes(&rig, NDADDR + 3), ..rig.dinode(FILE) };
    d.ib[1] = 0;
    rig.store(FILE, InodeChange::Truncate, &d);
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.ib[0], d.size), (old.at.pointer(), bytes(&rig, double + 1)));
    truncate_into_hole(&mut rig, 4, middle, &[(NDADDR, new)]);
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.ib[0], d.size), (old.at.pointer(), bytes(&rig, double + 1)));
    assert!(!freed(&rig).contains(&old));
    rig.write_data(FILE, 4);
    rig.write_group();
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.ib[0], d.db[4], d.size), (0, middle.at.pointer(), bytes(&rig, 5)));
    assert!(freed(&rig).contains(&old));
}

/// A file is truncated in the range of an indirect block and gets a block there. A write of the
/// inode shows the size before the truncation, but a later one need not.
#[test]
fn a_pointer_in_an_indirect_block_waits_for_a_size_that_is_not_the_old_one() {
    let mut rig = Rig::with_files(&[(16, FILE, b"name")]);
    let single = -(NDADDR as i64);
    let set_size = |rig: &mut Rig, why, blocks: usize| {
        let d = Dinode { size: bytes(rig, blocks), ..rig.dinode(FILE) };
        rig.store(FILE, why, &d);
    };
    let root = rig.run(2);
    set_root(&mut rig, 0, root, NDADDR + 40);
    rig.write(BufKey::File(FILE, single), BufKind::Indirect, vec![0; rig.g.bsize as usize]);
    rig.write_group();
    rig.write_inodes(FILE);
    let (entries, size) = (1..rig.g.nindir as usize, bytes(&rig, NDADDR + 40));
    rig.send(Event::IndirectTruncated { ino: FILE, block: single, entries, size });
    set_size(&mut rig, InodeChange::Truncate, NDADDR + 1);
    let (new, index, content) = (rig.run(1), 1, BlockContent::Data);
    let (slot, lbn) = (PtrSlot::Indirect { ino: FILE, block: single, index }, NDADDR as i64 + 1);
    rig.send(Event::BlockAllocated { run: new });
    let block = BufKey::File(FILE, lbn);
    rig.send(Event::PointerSet { slot, new, old: None, content, block });
    rig.write_data(FILE, lbn);
    rig.write_group();
    assert_eq!(rig.write_inodes(FILE).1.size, size);
    let mut bytes = vec![0; rig.g.bsize as usize];
    bmap::set_pointer(&rig.g, &mut bytes, index as usize, new.at.pointer());
    let is_rolled_back = |rig: &Rig| {
        let write = rig.write(BufKey::File(FILE, single), BufKind::Indirect, bytes.clone());
        write.rolled_back
    };
    assert!(is_rolled_back(&rig), "the stored size does not cover it");
    set_size(&mut rig, InodeChange::Grow, NDADDR + 2);
    rig.write_inodes(FILE);
    assert!(!is_rolled_back(&rig));
}
