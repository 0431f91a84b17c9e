//! Names that are entered.

use super::*;

#[test]
fn a_name_waits_for_its_inode_and_the_inode_for_its_bitmap() {
    let mut rig = Rig::new();
    rig.init(FILE);
    rig.add(16, FILE, EntryKind::New, b"name");
    let write = rig.write_dir();
    assert!(write.rolled_back);
    assert_eq!(rig.entry_in(&write, 16), Ino(0));
    let (rolled_back, d) = rig.write_inodes(FILE);
    assert!(rolled_back && d.mode == 0, "the bitmap is not durable: {d:?}");
    rig.write_group();
    assert_eq!(rig.write_inodes(FILE).1.mode, 0o100_644);
    let write = rig.write_dir();
    assert!(!write.rolled_back);
    assert_eq!(rig.entry_in(&write, 16), FILE);
    assert_eq!(rig.mode.pending().deps, 0);
}

#[test]
fn a_failed_write_satisfies_nothing() {
    let mut rig = Rig::new();
    rig.init(FILE);
    rig.add(16, FILE, EntryKind::New, b"name");
    assert_eq!(rig.mode.start_write(rig.group(), BufKind::CylinderGroup, None), WriteStart::Whole);
    assert!(rig.mode.write_completed(rig.group(), WriteResult::Failed), "it must be written again");
    assert!(rig.write_inodes(FILE).0);
    assert_eq!(rig.entry_in(&rig.write_dir(), 16), Ino(0));
}

#[test]
fn a_write_counts_after_the_flush_that_began_later() {
    let mut rig = Rig::new();
    rig.init(FILE);
    let before = rig.mode.flush_started();
    rig.mode.start_write(rig.group(), BufKind::CylinderGroup, None);
    rig.mode.write_completed(rig.group(), WriteResult::Unflushed);
    rig.mode.flush_completed(before);
    assert!(rig.write_inodes(FILE).0, "the flush began before the write completed");
    rig.mode.flush_completed(rig.mode.flush_started());
    assert!(!rig.write_inodes(FILE).0);
}

#[test]
fn a_name_barrier_keeps_the_name_out_of_writes() {
    let mut rig = Rig::new();
    rig.create_durable(16, FILE, b"old");
    rig.send(Event::NameBarrierBegin { ino: FILE });
    rig.add(32, FILE, EntryKind::Existing, b"new");
    assert_eq!(rig.entry_in(&rig.write_dir(), 32), Ino(0));
    rig.send(Event::NameBarrierEnd { ino: FILE });
    assert_eq!(rig.entry_in(&rig.write_dir(), 32), FILE);
}
