//! Block pointers of inodes.

use super::*;
use crate::ordering::{BlockContent, FreedRuns, PtrSlot};
use ffs_ondisk::bmap;
use ffs_ondisk::geometry::NDADDR;

fn set_block(rig: &mut Rig, new: FragRun, old: Option<FragRun>) {
    set_block_at(rig, 0, new, old, rig.g.bsize.into());
}

/// Sets direct pointer `lbn`, and the size to `size` bytes.
pub(super) fn set_block_at(
    rig: &mut Rig,
    lbn: usize,
    new: FragRun,
    old: Option<FragRun>,
    size: u64,
) {
    let (slot, block) = (PtrSlot::Direct(FILE, lbn), BufKey::File(FILE, lbn as i64));
    rig.send(Event::BlockAllocated { run: new });
    rig.send(Event::PointerSet { slot, new, old, content: BlockContent::Data, block });
    let mut d = rig.dinode(FILE);
    (d.db[lbn], d.size) = (new.at.0 as i64, size);
    rig.store(FILE, InodeChange::Grow, &d);
}

#[test]
fn a_pointer_waits_for_content_and_bitmap() {
    let mut rig = Rig::new();
    rig.create_durable(16, FILE, b"name");
    let run = rig.run(0);
    set_block(&mut rig, run, None);
    let (rolled_back, d) = rig.write_inodes(FILE);
    assert!(rolled_back && d.db[0] == 0 && d.size == 0, "{d:?}");
    rig.write_data(FILE, 0);
    assert!(rig.write_inodes(FILE).0, "the bitmap is not durable");
    rig.write_group();
    let (rolled_back, d) = rig.write_inodes(FILE);
    assert!(!rolled_back);
    assert_eq!((d.db[0], d.size), (run.at.0 as i64, rig.g.bsize.into()));
    assert_eq!(rig.mode.pending().deps, 0);
}

#[test]
fn a_moved_block_is_free_when_the_new_pointer_is_durable() {
    let mut rig = Rig::new();
    rig.create_durable(16, FILE, b"name");
    let (old, new) = (rig.run(0), rig.run(1));
    set_block(&mut rig, old, None);
    rig.write_data(FILE, 0);
    rig.write_group();
    rig.write_inodes(FILE);
    set_block(&mut rig, new, Some(old));
    let (rolled_back, d) = rig.write_inodes(FILE);
    assert!(rolled_back);
    assert_eq!(d.db[0], old.at.0 as i64, "the older run is shown");
    assert_eq!(rig.take_work(), []);
    rig.write_data(FILE, 0);
    rig.write_group();
    assert_eq!(rig.write_inodes(FILE).1.db[0], new.at.0 as i64);
    assert_eq!(rig.take_work(), [WorkItem::FreeBlks(FreedRuns::unordered(vec![old]))]);
}

#[test]
fn a_block_that_no_write_named_is_free_at_once() {
    let mut rig = Rig::new();
    rig.create_durable(16, FILE, b"name");
    let (old, new) = (rig.run(0), rig.run(1));
    set_block(&mut rig, old, None);
    set_block(&mut rig, new, Some(old));
    assert_eq!(rig.take_work(), [WorkItem::FreeBlks(FreedRuns::unordered(vec![old]))]);
}

#[test]
fn a_cancelled_pointer_leaves_no_trace() {
    let mut rig = Rig::new();
    rig.create_durable(16, FILE, b"name");
    let (slot, new) = (PtrSlot::Direct(FILE, 0), rig.run(0));
    let block = BufKey::File(FILE, 0);
    rig.send(Event::PointerSet { slot, new, old: None, content: BlockContent::Data, block });
    rig.send(Event::PointerCancelled { slot, new });
    assert_eq!(rig.mode.pending().deps, 0);
}

#[test]
fn no_pointer_is_written_beyond_a_size_that_was_rolled_back() {
    let mut rig = Rig::new();
    rig.create_durable(16, FILE, b"name");
    let (bsize, fsize) = (u64::from(rig.g.bsize), u64::from(rig.g.fsize));
    let short = FragRun { frags: 1, ..rig.run(0) };
    set_block_at(&mut rig, 0, short, None, fsize);
    rig.write_data(FILE, 0);
    rig.write_group();
    assert!(!rig.write_inodes(FILE).0);
    // The fragment becomes a whole block elsewhere. A second block follows and is ready first.
    let (long, second) = (rig.run(1), rig.run(2));
    set_block_at(&mut rig, 0, long, Some(short), bsize);
    set_block_at(&mut rig, 1, second, None, 2 * bsize);
    rig.write_data(FILE, 1);
    rig.write_group();
    let (rolled_back, d) = rig.write_inodes(FILE);
    assert!(rolled_back);
    assert_eq!((d.size, d.db[0], d.db[1]), (fsize, short.at.0 as i64, 0), "{d:?}");
    rig.write_data(FILE, 0);
    let (rolled_back, d) = rig.write_inodes(FILE);
    assert!(!rolled_back);
    assert_eq!((d.size, d.db[1]), (2 * bsize, second.at.0 as i64));
    assert_eq!(rig.take_work(), [WorkItem::FreeBlks(FreedRuns::unordered(vec![short]))]);
}

/// A truncated file grows again, while an older write of its inode is not durable yet.
#[test]
fn a_size_counts_as_far_as_all_later_writes_show_it() {
    let mut rig = Rig::with_files(&[(16, FILE, b"name")]);
    let (key, single) = (rig.inode_block(FILE), -(NDADDR as i64));
    let set_size = |rig: &mut Rig, why, blocks: usize| {
        let size = blocks as u64 * u64::from(rig.g.bsize);
        let d = Dinode { size, ..rig.dinode(FILE) };
        rig.store(FILE, why, &d);
    };
    set_size(&mut rig, InodeChange::Grow, NDADDR + 2);
    rig.link(32, FILE, b"link");
    rig.start_inodes(FILE);
    rig.accept(key);
    set_size(&mut rig, InodeChange::Truncate, NDADDR + 1);
    rig.write_inodes(FILE);
    let (new, index, content) = (rig.run(1), 1, BlockContent::Data);
    let (slot, lbn) = (PtrSlot::Indirect { ino: FILE, block: single, index }, NDADDR as i64 + 1);
    rig.send(Event::BlockAllocated { run: new });
    let block = BufKey::File(FILE, lbn);
    rig.send(Event::PointerSet { slot, new, old: None, content, block });
    set_size(&mut rig, InodeChange::Grow, NDADDR + 2);
    rig.write_data(FILE, lbn);
    rig.write_group();
    rig.start_inodes(FILE);
    let mut bytes = vec![0; rig.g.bsize as usize];
    bmap::set_pointer(&rig.g, &mut bytes, index as usize, new.at.pointer());
    let is_rolled_back = |rig: &Rig| {
        let write = rig.write(BufKey::File(FILE, single), BufKind::Indirect, bytes.clone());
        write.rolled_back
    };
    rig.flush();
    assert!(is_rolled_back(&rig), "a crash may leave the smaller size");
    rig.accept(key);
    rig.flush();
    assert!(!is_rolled_back(&rig));
}
