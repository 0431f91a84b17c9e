//! Inodes that are freed.

use super::*;
use crate::ordering::FreeWhen;

#[test]
fn an_inode_is_free_after_its_cleared_state_is_durable() {
    let mut rig = Rig::new();
    rig.create_durable(16, FILE, b"name");
    rig.remove(16, FILE, b"name", RemovedName::file(0));
    rig.write_dir();
    rig.take_work();
    rig.send(Event::LinksDropped { ino: FILE, by: 1 });
    rig.store(FILE, InodeChange::Free, &Dinode::default());
    let response = rig.send(Event::InodeReleased { ino: FILE, was_dir: false });
    assert_eq!(response.free, FreeWhen::Later);
    assert_eq!(rig.take_work(), []);
    rig.write_inodes(FILE);
    assert_eq!(rig.take_work(), [WorkItem::FreeFile { ino: FILE, was_dir: false }]);
    assert_eq!(
        rig.mode.pending(),
        crate::ordering::Pending { steps: rig.mode.pending().steps, ..Default::default() }
    );
}

#[test]
fn an_inode_that_no_write_contained_is_free_at_once() {
    let mut rig = Rig::new();
    rig.init(FILE);
    rig.store(FILE, InodeChange::Free, &Dinode::default());
    let response = rig.send(Event::InodeReleased { ino: FILE, was_dir: false });
    assert_eq!(response.free, FreeWhen::Now);
}

#[test]
fn an_inode_taken_again_waits_for_the_later_bitmap() {
    let mut rig = Rig::new();
    rig.init(FILE);
    let key = rig.group();
    rig.mode.start_write(key, BufKind::CylinderGroup, None);
    // Freed and allocated again while the first bitmap is being written.
    rig.store(FILE, InodeChange::Free, &Dinode::default());
    rig.send(Event::InodeReleased { ino: FILE, was_dir: false });
    rig.init(FILE);
    rig.mode.write_completed(key, WriteResult::Durable);
    rig.audit();
    assert_eq!(rig.write_inodes(FILE).1.mode, 0, "the later bitmap is not durable");
    rig.write_group();
    assert_ne!(rig.write_inodes(FILE).1.mode, 0);
}
