//! Names that are removed or replaced.

use super::*;

#[test]
fn a_name_that_no_write_contained_leaves_no_trace() {
    let mut rig = Rig::new();
    rig.init(FILE);
    rig.add(16, FILE, EntryKind::New, b"name");
    assert!(!rig.remove(16, FILE, b"name", RemovedName::file(0)));
    assert_eq!(rig.mode.pending().deps, 0);
    assert!(!rig.write_dir().rolled_back);
    assert_eq!(rig.take_work(), []);
}

#[test]
fn links_drop_after_the_block_lost_the_name() {
    let mut rig = Rig::new();
    rig.create_durable(16, FILE, b"name");
    assert!(!rig.remove(16, FILE, b"name", RemovedName::file(0)));
    assert_eq!(rig.mode.nlink_delta(FILE), 1);
    assert_eq!(rig.take_work(), []);
    assert!(!rig.write_dir().rolled_back);
    assert_eq!(rig.take_work(), [WorkItem::DropLinks { ino: FILE, by: 1 }]);
    rig.send(Event::LinksDropped { ino: FILE, by: 1 });
    assert_eq!(rig.mode.nlink_delta(FILE), 0);
    assert_eq!(rig.mode.pending().deps, 0);
}

/// A durable file with the name at `old`, which is renamed to the entry at `new`: nothing of the
/// rename is written, and the old entry is reserved.
fn with_renamed_file(old: u32, new: u32) -> Rig {
    let mut rig = Rig::new();
    rig.create_durable(old, FILE, b"old");
    rig.link(new, FILE, b"new");
    let removed = RemovedName { renamed: true, ..RemovedName::file(1) };
    assert!(rig.remove(old, FILE, b"old", removed), "the entry is reserved");
    rig
}

#[test]
fn the_old_name_of_a_rename_is_shown_until_the_new_one_is_durable() {
    // The two names are in different chunks: in one, a single sector write changes both.
    let (old, new) = (16, 16 + DIRBLKSIZ as u32);
    let rig = with_renamed_file(old, new);
    assert_eq!(rig.mode.reserved_for(Ino::ROOT, b"old"), Some(DirOff(old)));
    let write = rig.write_dir();
    assert_eq!((rig.entry_in(&write, old), rig.entry_in(&write, new)), (FILE, Ino(0)));
    rig.write_inodes(FILE);
    let write = rig.write_dir();
    assert_eq!((rig.entry_in(&write, old), rig.entry_in(&write, new)), (FILE, FILE));
    let write = rig.write_dir();
    assert_eq!((rig.entry_in(&write, old), rig.entry_in(&write, new)), (Ino(0), FILE));
    assert_eq!(rig.mode.take_freed_entries(Ino::ROOT), [DirOff(old)]);
    assert_eq!(rig.take_work(), [WorkItem::DropLinks { ino: FILE, by: 1 }]);
}

#[test]
fn names_of_one_sector_change_in_one_write() {
    let (old, new) = (16, 32);
    let rig = with_renamed_file(old, new);
    rig.write_inodes(FILE);
    let write = rig.write_dir();
    assert!(!write.rolled_back);
    assert_eq!((rig.entry_in(&write, old), rig.entry_in(&write, new)), (Ino(0), FILE));
}

/// Two durable files, and a link to the second that is not durable: removals wait for that.
fn with_published_link() -> Rig {
    let mut rig = Rig::new();
    rig.create_durable(16, FILE, b"name");
    rig.create_durable(32, OTHER, b"other");
    rig.link(16 + DIRBLKSIZ as u32, OTHER, b"link");
    rig
}

#[test]
fn a_removal_waits_for_names_published_before() {
    let mut rig = with_published_link();
    assert!(rig.remove(16, FILE, b"name", RemovedName::file(0)), "it waits for the link");
    assert_eq!(rig.mode.nlink_delta(FILE), 1);
    rig.write_inodes(OTHER);
    assert_eq!(rig.entry_in(&rig.write_dir(), 16), FILE, "the link is not durable yet");
    assert_eq!(rig.entry_in(&rig.write_dir(), 16), Ino(0));
    assert_eq!(rig.take_work(), [WorkItem::DropLinks { ino: FILE, by: 1 }]);
}

#[test]
fn a_reserved_name_that_returns_undoes_its_removal() {
    let mut rig = with_published_link();
    assert!(rig.remove(16, FILE, b"name", RemovedName::file(0)));
    // The removal of a rename would keep guards; a removal has only the barrier.
    rig.add(16, FILE, EntryKind::Existing, b"name");
    assert_eq!(rig.mode.nlink_delta(FILE), 0);
    rig.write_inodes(OTHER);
    assert_eq!(rig.entry_in(&rig.write_dir(), 16), FILE);
    assert_eq!(rig.take_work(), []);
    assert!(!rig.mode.has_reserved(Ino::ROOT));
}
