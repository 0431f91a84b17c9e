//! Pointers that are cleared.

use super::pointers::set_block_at;
use super::removals::move_block;
use super::*;
use crate::ordering::{BlockContent, FreedRuns, PtrSlot};
use ffs_ondisk::bmap;
use ffs_ondisk::geometry::NDADDR;

/// A durable file with these blocks; block `n` is run `n`.
pub(super) fn with_blocks(blocks: &[usize]) -> Rig {
    let mut rig = Rig::with_files(&[(16, FILE, b"name")]);
    for &lbn in blocks {
        let (run, size) = (rig.run(lbn as u64), bytes(&rig, lbn + 1));
        set_block_at(&mut rig, lbn, run, None, size);
        rig.write_data(FILE, lbn as i64);
    }
    rig.write_group();
    rig.write_inodes(FILE);
    assert_eq!(rig.mode.pending().deps, 0);
    rig
}

pub(super) fn bytes(rig: &Rig, blocks: usize) -> u64 {
    blocks as u64 * u64::from(rig.g.bsize)
}

/// Truncates the file behind block `last`, a hole, which gets run `run`. The runs `freed` of the
/// blocks behind it, or of roots, are freed.
pub(super) fn truncate_into_hole(
    rig: &mut Rig,
    last: usize,
    run: FragRun,
    freed: &[(usize, FragRun)],
) {
    let (slot, block) = (PtrSlot::Direct(FILE, last), BufKey::File(FILE, last as i64));
    rig.send(Event::BlockAllocated { run });
    let content = BlockContent::Data;
    rig.send(Event::PointerSet { slot, new: run, old: None, content, block });
    let mut d = rig.dinode(FILE);
    let (ino, size) = (FILE, d.size);
    rig.send(Event::InodeTruncated { ino, last: Some(last), size, cleared: freed });
    d.db[last + 1..].fill(0);
    freed.iter().filter_map(|(i, _)| i.checked_sub(NDADDR)).for_each(|root| d.ib[root] = 0);
    (d.db[last], d.size) = (run.at.pointer(), bytes(rig, last + 1));
    rig.store(FILE, InodeChange::Truncate, &d);
    rig.send(Event::BuffersDiscarded { ino, blocks: last as i64 + 1..=i64::MAX });
    let runs = FreedRuns::unordered(freed.iter().map(|(_, run)| *run).collect());
    rig.send(Event::BlocksFreed { ino, runs, partial: &[] });
}

/// `ftruncate` into a hole; then the file gets a last block of fragments before its old end.
#[test]
fn a_write_with_the_old_end_shows_no_fragments_before_it() {
    let mut rig = with_blocks(&[3]);
    let (old, middle) = (rig.run(3), rig.run(1));
    truncate_into_hole(&mut rig, 0, middle, &[(3, old)]);
    let tail = FragRun { at: FragNo(rig.run(5).at.0 + 1), frags: 1 };
    let size = bytes(&rig, 1) + u64::from(rig.g.fsize);
    set_block_at(&mut rig, 1, tail, None, size);
    rig.write_data(FILE, 1);
    rig.write_group();
    let (rolled_back, d) = rig.write_inodes(FILE);
    assert!(rolled_back);
    assert_eq!((d.db[0], d.db[1], d.db[3], d.size), (0, 0, old.at.pointer(), bytes(&rig, 4)));
    assert_eq!(freed(&rig), []);
    rig.write_data(FILE, 0);
    let (rolled_back, d) = rig.write_inodes(FILE);
    assert!(!rolled_back);
    let pointers = (d.db[0], d.db[1], d.db[3]);
    assert_eq!(pointers, (middle.at.pointer(), tail.at.pointer(), 0));
    assert_eq!((d.size, freed(&rig)), (size, vec![old]));
    assert_eq!(rig.mode.pending().deps, 0);
}

/// Sets a root of indirect blocks, and the size to `blocks` blocks.
pub(super) fn set_root(rig: &mut Rig, root: usize, run: FragRun, blocks: usize) {
    let (slot, content) = (PtrSlot::IndirectRoot(FILE, root), BlockContent::Indirect);
    let block = bmap::indirect_name(bmap::first_of_root(&rig.g, root), root + 1);
    rig.send(Event::BlockAllocated { run });
    let block = BufKey::File(FILE, block);
    rig.send(Event::PointerSet { slot, new: run, old: None, content, block });
    let mut d = rig.dinode(FILE);
    (d.ib[root], d.size) = (run.at.pointer(), bytes(rig, blocks));
    rig.store(FILE, InodeChange::Grow, &d);
}

/// Punches pointer `index`, which names `run`.
pub(super) fn punch(rig: &mut Rig, index: usize, run: FragRun) {
    let (ino, mut d) = (FILE, rig.dinode(FILE));
    rig.send(Event::HolePunched { ino, index, old: run, size: d.size });
    let pointer = d.db.get_mut(index).or(d.ib.get_mut(index.wrapping_sub(NDADDR)));
    *pointer.unwrap() = 0;
    rig.store(FILE, InodeChange::Truncate, &d);
    if index < NDADDR {
        rig.send(Event::BuffersDiscarded { ino, blocks: index as i64..=index as i64 });
    }
    let runs = FreedRuns::unordered(vec![run]);
    rig.send(Event::BlocksFreed { ino, runs, partial: &[] });
}

/// What happens to a file that was truncated into a hole and grows again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Besides {
    Nothing,
    /// Before it grows, a write shows the new end. The write may get lost.
    Write,
    /// After it grew, the end of the truncation is punched.
    Punch,
}

/// `ftruncate` into a hole; then the file gets another indirect block, and a smaller size than
/// before.
fn grown_again(besides: Besides) {
    let mut rig = Rig::with_files(&[(16, FILE, b"name")]);
    let (old, new, middle) = (rig.run(2), rig.run(4), rig.run(1));
    let block = BufKey::File(FILE, -(NDADDR as i64));
    set_root(&mut rig, 0, old, NDADDR + 4);
    let empty = vec![0; rig.g.bsize as usize];
    rig.write(block, BufKind::Indirect, empty.clone());
    rig.write_group();
    rig.write_inodes(FILE);
    truncate_into_hole(&mut rig, 0, middle, &[(NDADDR, old)]);
    rig.write_data(FILE, 0);
    rig.write_group();
    if besides == Besides::Write {
        let d = rig.start_inodes(FILE);
        assert_eq!((d.ib[0], d.size), (0, bytes(&rig, 1)));
        rig.accept(rig.inode_block(FILE));
    }
    set_root(&mut rig, 0, new, NDADDR + 2);
    if besides == Besides::Punch {
        punch(&mut rig, 0, middle);
    }
    rig.write_group();
    let (rolled_back, d) = rig.write_inodes(FILE);
    assert!(rolled_back);
    assert_eq!((d.ib[0], d.size), (old.at.pointer(), bytes(&rig, NDADDR + 4)));
    // No write named the block in the middle.
    let early = if besides == Besides::Punch { vec![middle] } else { Vec::new() };
    assert_eq!(freed(&rig), early);
    rig.write(block, BufKind::Indirect, empty);
    let (_, d) = rig.write_inodes(FILE);
    assert_eq!((d.ib[0], d.size), (new.at.pointer(), bytes(&rig, NDADDR + 2)));
    assert_eq!(freed(&rig), [old]);
    assert_eq!(rig.mode.pending().deps, 0);
}

#[test]
fn an_old_indirect_block_is_shown_with_the_old_size() {
    grown_again(Besides::Nothing);
}

#[test]
fn an_old_indirect_block_is_shown_with_the_old_size_after_a_write_without_it() {
    grown_again(Besides::Write);
}

#[test]
fn an_old_indirect_block_is_shown_with_the_old_size_while_the_new_end_is_a_hole() {
    grown_again(Besides::Punch);
}

/// The runs that work frees.
pub(super) fn freed(rig: &Rig) -> Vec<FragRun> {
    let runs = |work| match work {
        WorkItem::FreeBlks(runs) => runs.first,
        _ => Vec::new(),
    };
    rig.take_work().into_iter().flat_map(runs).collect()
}

/// `ftruncate` into a hole; then the file grows again before the write of the new end is durable.
#[test]
fn a_run_is_not_free_while_the_newest_write_names_it() {
    let mut rig = with_blocks(&[0, 2]);
    let (old, new) = (rig.run(2), rig.run(3));
    let last = rig.run(1);
    truncate_into_hole(&mut rig, 1, last, &[(2, old)]);
    rig.write_data(FILE, 1);
    rig.write_group();
    let key = rig.inode_block(FILE);
    let d = rig.start_inodes(FILE);
    assert_eq!((d.db[1], d.db[2], d.size), (last.at.pointer(), 0, bytes(&rig, 2)));
    rig.accept(key);
    let size = bytes(&rig, 3);
    set_block_at(&mut rig, 2, new, None, size);
    let d = rig.start_inodes(FILE);
    assert_eq!(d.db[2], old.at.pointer(), "the new block is not ready");
    rig.flush();
    assert_eq!(freed(&rig), []);
    rig.accept(key);
    rig.flush();
    assert_eq!(freed(&rig), []);
    rig.write_data(FILE, 2);
    rig.write_group();
    assert_eq!(rig.write_inodes(FILE).1.db[2], new.at.pointer());
    assert_eq!(freed(&rig), [old]);
    assert_eq!(rig.mode.pending().deps, 0);
}

/// Two times `ftruncate` into a hole: the new block of the second is not ready, so a write shows
/// the end before the first.
#[test]
fn runs_are_not_free_while_the_newest_write_shows_the_old_end() {
    let mut rig = with_blocks(&[0, 3, 4, 5]);
    let old: Vec<(usize, FragRun)> = (3..6).map(|lbn| (lbn, rig.run(lbn as u64))).collect();
    let (second, first) = (rig.run(2), rig.run(1));
    truncate_into_hole(&mut rig, 2, second, &old);
    rig.write_data(FILE, 2);
    rig.write_group();
    let key = rig.inode_block(FILE);
    assert_eq!(rig.start_inodes(FILE).size, bytes(&rig, 3));
    rig.accept(key);
    truncate_into_hole(&mut rig, 1, first, &[(2, second)]);
    let d = rig.start_inodes(FILE);
    assert_eq!((d.db[2], d.db[3]), (second.at.pointer(), old[0].1.at.pointer()));
    assert_eq!(d.size, bytes(&rig, 6), "the old end is shown");
    rig.flush();
    assert_eq!(freed(&rig), []);
    rig.accept(key);
    rig.flush();
    assert_eq!(freed(&rig), []);
    rig.write_data(FILE, 1);
    rig.write_group();
    let d = rig.write_inodes(FILE).1;
    assert_eq!((d.db[1], d.db[2], d.size), (first.at.pointer(), 0, bytes(&rig, 2)));
    let mut all = freed(&rig);
    all.sort_by_key(|run| run.at);
    assert_eq!(all, [second, old[0].1, old[1].1, old[2].1]);
    assert_eq!(rig.mode.pending().deps, 0);
}

/// A file is renamed within a sector, and truncated so that the new name waits for the new end.
/// Another file gets the old name. The next write still has a name of the first file.
#[test]
fn a_file_keeps_its_old_name_while_the_new_one_waits_for_its_end() {
    let (old, new) = (16, 32);
    let mut rig = with_blocks(&[0, 2]);
    rig.rename((old, b"name"), (new, b"new"), FILE);
    rig.write_inodes(FILE);
    let write = rig.start_dir(0);
    assert_eq!((rig.entry_in(&write, old), rig.entry_in(&write, new)), (Ino(0), FILE));
    rig.accept(BufKey::File(Ino::ROOT, 0));
    move_block(&mut rig, 0);
    rig.flush();
    let (last, freed) = (rig.run(1), [(2, rig.run(2))]);
    truncate_into_hole(&mut rig, 1, last, &freed);
    rig.init(OTHER);
    rig.add(old, OTHER, EntryKind::New, b"name");
    rig.write_group();
    rig.write_inodes(OTHER);
    let write = rig.start_dir(0);
    let names = [old, new].map(|off| rig.entry_in(&write, off));
    assert!(names.contains(&FILE), "{names:?}");
}
