//! Names that are removed or replaced.

use super::*;
use crate::ordering::{BlockContent, ParentLink, PtrSlot};

/// Offsets of entries in different sectors of the directory block.
const SECTORS: [u32; 4] = [16, 16 + 512, 16 + 1024, 16 + 1536];

/// A name removed by a rename: the file has one more.
const RENAMED: RemovedName =
    RemovedName { names_left: 1, drops: 1, parent: ParentLink::None, renamed: true };

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
    rig.rename((old, b"old"), (new, b"new"), FILE);
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
    let mut rig = Rig::with_files(&[(16, FILE, b"name"), (32, OTHER, b"other")]);
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

#[test]
fn a_value_that_takes_the_place_of_a_skipped_name_keeps_its_guards() {
    let [one, other, record, _] = SECTORS;
    let mut rig = Rig::with_files(&[(one, FILE, b"one"), (other, OTHER, b"other")]);
    // An exchange, of which nothing is written.
    rig.link(record, FILE, b"record");
    rig.replace(one, FILE, OTHER, RENAMED);
    rig.replace(other, OTHER, FILE, RENAMED);
    assert!(rig.remove(record, FILE, b"record", RENAMED));
    rig.remove(one, OTHER, b"one", RemovedName::file(0));
    rig.init(THIRD);
    rig.add(one, THIRD, EntryKind::New, b"one");
    rig.write_group();
    rig.write_inodes(THIRD);
    let shown = |write| [one, other, record].map(|off| rig.entry_in(&write, off));
    let mut names = vec![shown(rig.write_dir())];
    while names.last() != Some(&[THIRD, FILE, Ino(0)]) {
        assert!(names.len() < 6, "{names:?}");
        names.push(shown(rig.write_dir()));
    }
    assert_eq!(names[0], [FILE, OTHER, FILE], "the file has no other durable name");
    // Every later write keeps the file in a sector that has named it before.
    let keeps_a_name = |pair: &[[Ino; 3]]| (0..3).any(|at| pair.iter().all(|w| w[at] == FILE));
    assert!(names.windows(2).all(keeps_a_name), "{names:?}");
}

#[test]
fn a_removal_waits_for_an_older_name_in_another_record_to_go() {
    let [old, other, new, third] = SECTORS;
    let files = [(old, FILE, &b"name"[..]), (other, OTHER, b"other"), (third, THIRD, b"third")];
    let mut rig = Rig::with_files(&files);
    assert!(!rig.remove(old, FILE, b"name", RemovedName::file(0)), "it is merged");
    // The device never gets this name, but shows the older one.
    rig.link(new, OTHER, b"name");
    assert!(!rig.remove(new, OTHER, b"name", RemovedName::file(1)));
    assert!(rig.remove(third, THIRD, b"third", RemovedName::file(0)));
    let write = rig.write_dir();
    assert_eq!((rig.entry_in(&write, old), rig.entry_in(&write, third)), (Ino(0), THIRD));
    assert_eq!(rig.entry_in(&rig.write_dir(), third), Ino(0));
}

#[test]
fn a_removed_name_that_another_file_gets_still_waits_for_published_names() {
    let [name, other, link, _] = SECTORS;
    for renamed_again in [false, true] {
        let mut rig = Rig::with_files(&[(name, FILE, b"name"), (other, OTHER, b"other")]);
        rig.link(link, OTHER, b"link");
        assert!(rig.remove(name, FILE, b"name", RemovedName::file(0)));
        rig.init(THIRD);
        rig.add(name, THIRD, EntryKind::New, b"name");
        if renamed_again {
            // The new name is in the sector of the old one.
            rig.rename((name, b"name"), (name + 16, b"new"), THIRD);
        }
        rig.write_group();
        rig.write_inodes(THIRD);
        let write = rig.write_dir();
        assert_eq!(rig.entry_in(&write, link), OTHER);
        assert_eq!(rig.entry_in(&write, name), FILE, "the link is not durable yet");
        let after = if renamed_again { Ino(0) } else { THIRD };
        assert_eq!(rig.entry_in(&rig.write_dir(), name), after);
    }
}

#[test]
fn a_removal_waits_for_what_follows_a_published_name() {
    let [from, over, to, third] = SECTORS;
    let files = [(from, FILE, &b"from"[..]), (over, OTHER, b"over"), (third, THIRD, b"third")];
    let mut rig = Rig::with_files(&files);
    // Renamed over another file, and on before that is written.
    rig.replace(over, OTHER, FILE, RemovedName::file(0));
    assert!(rig.remove(from, FILE, b"from", RENAMED));
    rig.rename((over, b"over"), (to, b"to"), FILE);
    assert!(rig.remove(third, THIRD, b"third", RemovedName::file(0)));
    rig.write_inodes(FILE);
    let shown = |write| [over, to, third].map(|off| rig.entry_in(&write, off));
    assert_eq!(shown(rig.write_dir()), [OTHER, FILE, THIRD]);
    assert_eq!(shown(rig.write_dir()), [Ino(0), FILE, THIRD], "`over` showed another file");
    assert_eq!(shown(rig.write_dir()), [Ino(0), FILE, Ino(0)]);
}

/// A removed directory: its last name, and the links of that and of `.`.
const RMDIR: RemovedName =
    RemovedName { names_left: 0, drops: 2, parent: ParentLink::None, renamed: false };

/// How far the new name of the directory has come when it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewName {
    Unwritten,
    InFlight,
    Durable,
}

/// What happens to the directory with the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It is removed.
    Removed,
    /// A name in it is removed first, and waits for the names that were given before.
    EmptiedAndRemoved,
    /// Another directory takes its name.
    Replaced,
}

/// `rename(d/f, new)`, `rename(d, e)`, and the end of `e`: the device shows a name of the directory
/// until `new` is durable, or the file would have no name.
#[test]
fn a_renamed_directory_goes_after_the_files_that_left_it() {
    for stage in [NewName::Unwritten, NewName::InFlight, NewName::Durable] {
        for then in [Then::Removed, Then::EmptiedAndRemoved, Then::Replaced] {
            renamed_directory_ends(stage, then);
        }
    }
}

fn renamed_directory_ends(stage: NewName, then: Then) {
    let [d, f, new, third] = SECTORS;
    let files = [(d, OTHER, &b"d"[..]), (f, FILE, b"elsewhere"), (third, THIRD, b"third")];
    let mut rig = Rig::with_files(&files);
    rig.subdirectory = Some(OTHER);
    // `e` is in another block: that can be durable alone.
    let e = rig.g.bsize + 16;
    rig.link(new, FILE, b"new");
    let (at, old) = (DirPos { dir: OTHER, off: DirOff(24) }, rig.target(FILE));
    assert!(rig.send(Event::EntryRemoved { at, old, name: b"f", removed: RENAMED }).reserve);
    rig.rename((d, b"d"), (e, b"e"), OTHER);
    let mut shows_e = false;
    if stage != NewName::Unwritten {
        // The inode of `f` is in this block: `new` may be written from now on.
        rig.write_inodes(OTHER);
        let write = rig.start_dir(1);
        assert_eq!(rig.entry_in(&write, e), OTHER);
        if stage == NewName::Durable {
            shows_e = true;
            rig.complete_dir(1);
        }
    }
    if then == Then::EmptiedAndRemoved {
        let (at, old) = (DirPos { dir: OTHER, off: DirOff(48) }, rig.target(THIRD));
        let removed = RemovedName::file(1);
        assert!(rig.send(Event::EntryRemoved { at, old, name: b"x", removed }).reserve);
    }
    match then {
        Then::Replaced => rig.replace(e, OTHER, THIRD, RMDIR),
        Then::Removed | Then::EmptiedAndRemoved => _ = rig.remove(e, OTHER, b"e", RMDIR),
    }
    rig.write_inodes(OTHER);
    // The first write brings `new`; it is durable when the second begins.
    let write = rig.write_dir();
    assert_eq!(rig.entry_in(&write, new), FILE, "{stage:?} {then:?}");
    assert!(shows_e || rig.entry_in(&write, d) == OTHER, "{stage:?} {then:?}");
    if stage == NewName::InFlight {
        rig.complete_dir(1);
    }
    for _ in 0..3 {
        let write = rig.start_dir(1);
        rig.complete_dir(1);
        rig.take_work();
        rig.write_inodes(OTHER);
        shows_e = rig.entry_in(&write, e) == OTHER;
        rig.write_dir();
    }
    let write = rig.write_dir();
    assert_eq!((rig.entry_in(&write, d), shows_e), (Ino(0), false), "{stage:?} {then:?}");
}

/// `link(other, y)`, `rename(a, b)`, `unlink(b)`: the file goes after the link is there.
#[test]
fn the_old_name_of_a_file_that_was_removed_waits_for_links_given_before() {
    let [a, other, y, _] = SECTORS;
    let mut rig = Rig::with_files(&[(a, FILE, b"a"), (other, OTHER, b"other")]);
    let b = rig.g.bsize + 16;
    rig.link(y, OTHER, b"y");
    rig.rename((a, b"a"), (b, b"b"), FILE);
    assert!(!rig.remove(b, FILE, b"b", RemovedName::file(0)), "no write contained it");
    assert_eq!(rig.entry_in(&rig.write_dir(), a), FILE, "the link waits for its inode");
    rig.write_inodes(OTHER);
    let write = rig.write_dir();
    assert_eq!((rig.entry_in(&write, y), rig.entry_in(&write, a)), (OTHER, FILE));
    assert_eq!(rig.entry_in(&rig.write_dir(), a), Ino(0));
}

/// Block `lbn` of the root directory gets another run, as when it grows. Returns the run.
pub(super) fn move_block(rig: &mut Rig, lbn: usize) -> FragRun {
    let old_run = |lbn: usize| rig.run(10 + lbn as u64);
    let (old, new) = (old_run(lbn), rig.run(20));
    rig.send(Event::BlockAllocated { run: new });
    rig.send(Event::PointerSet {
        slot: PtrSlot::Direct(Ino::ROOT, lbn),
        new,
        old: Some(old),
        content: BlockContent::DirectoryGrowth,
        block: BufKey::File(Ino::ROOT, lbn as i64),
    });
    let size = (lbn as u64 + 1) * u64::from(rig.g.bsize);
    let mut d = Dinode { mode: 0o040_755, nlink: 2, size, ..Dinode::default() };
    (0..lbn).for_each(|lbn| d.db[lbn] = old_run(lbn).at.pointer());
    d.db[lbn] = new.at.pointer();
    rig.store(Ino::ROOT, InodeChange::DirectoryGrow, &d);
    new
}

/// Makes a file durable with a name in the second block of the root directory.
fn create_in_second_block(rig: &mut Rig, off: u32, ino: Ino, name: &[u8]) {
    rig.init(ino);
    rig.add(off, ino, EntryKind::New, name);
    rig.write_group();
    rig.write_inodes(ino);
    write_second(rig);
    assert_eq!(rig.mode.pending().deps, 0);
}

fn write_second(rig: &Rig) -> Write {
    let write = rig.start_dir(1);
    rig.complete_dir(1);
    write
}

/// A block moves and loses a name, and is truncated: the device shows the old block until it has
/// the truncated inode.
#[test]
fn links_drop_after_a_moved_block_that_was_truncated() {
    let mut rig = Rig::new();
    let off = rig.g.bsize + 16;
    create_in_second_block(&mut rig, off, FILE, b"name");
    move_block(&mut rig, 1);
    assert!(!rig.remove(off, FILE, b"name", RemovedName::file(0)), "it is merged");
    write_second(&rig);
    assert_eq!(rig.take_work(), [], "the pointer is not durable");
    let mut d = rig.dinode(Ino::ROOT);
    (d.db[1], d.size) = (0, rig.g.bsize.into());
    rig.store(Ino::ROOT, InodeChange::Truncate, &d);
    rig.send(Event::BuffersDiscarded { ino: Ino::ROOT, blocks: 1..=i64::MAX });
    let drop = WorkItem::DropLinks { ino: FILE, by: 1 };
    assert!(!rig.take_work().contains(&drop), "the device has the old block");
    rig.write_inodes(Ino::ROOT);
    assert!(rig.take_work().contains(&drop));
}

/// The device shows the older name until it has the pointer to the block without it.
#[test]
fn a_removal_waits_until_a_moved_block_has_lost_an_older_name() {
    for written_before in [false, true] {
        let [old, other, new, _] = SECTORS;
        let mut rig = Rig::with_files(&[(old, FILE, b"name"), (other, OTHER, b"other")]);
        let third = rig.g.bsize + 16;
        create_in_second_block(&mut rig, third, THIRD, b"third");
        assert!(!rig.remove(old, FILE, b"name", RemovedName::file(0)), "it is merged");
        rig.link(new, OTHER, b"name");
        move_block(&mut rig, 0);
        if written_before {
            rig.write_dir();
        }
        assert!(!rig.remove(new, OTHER, b"name", RemovedName::file(1)));
        assert!(rig.remove(third, THIRD, b"third", RemovedName::file(0)), "{written_before}");
        rig.write_dir();
        let write = write_second(&rig);
        assert_eq!(rig.entry_in(&write, third), THIRD, "the pointer is not durable");
        rig.write_group();
        rig.write_inodes(Ino::ROOT);
        assert_eq!(rig.entry_in(&write_second(&rig), third), Ino(0));
    }
}

/// What follows a rename within one sector whose write is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The directory block moves.
    Moved,
    /// Another file gets the old name.
    OldNameGiven,
    /// The file is renamed again, to another block.
    RenamedAgain,
}

/// A removal that one write shows, and the next one does not, does not count.
#[test]
fn a_removal_that_the_next_write_rolls_back_does_not_count() {
    for next in [Next::Moved, Next::OldNameGiven, Next::RenamedAgain] {
        for flushed_before in [false, true] {
            // Without another place of the block, a flushed write counts at once.
            if next == Next::Moved || !flushed_before {
                removal_is_rolled_back(next, flushed_before);
            }
        }
    }
}

fn removal_is_rolled_back(next: Next, flushed_before: bool) {
    let (old, new) = (16, 32);
    let mut rig = with_renamed_file(old, new);
    let elsewhere = rig.g.bsize + 16;
    rig.write_inodes(FILE);
    let write = rig.start_dir(0);
    assert_eq!((rig.entry_in(&write, old), rig.entry_in(&write, new)), (Ino(0), FILE));
    rig.accept(BufKey::File(Ino::ROOT, 0));
    let mut moved_to = None;
    match next {
        Next::Moved => moved_to = Some(move_block(&mut rig, 0)),
        Next::OldNameGiven => {
            rig.init(OTHER);
            rig.add(old, OTHER, EntryKind::New, b"old");
        }
        Next::RenamedAgain => rig.rename((new, b"new"), (elsewhere, b"last"), FILE),
    }
    if flushed_before {
        rig.flush();
    }
    let write = rig.start_dir(0);
    assert_eq!(rig.entry_in(&write, old), FILE, "{next:?}");
    rig.flush();
    let drop = WorkItem::DropLinks { ino: FILE, by: 1 };
    assert!(!rig.take_work().contains(&drop), "{next:?}: the device shows the old name again");
    rig.complete_dir(0);
    rig.write_group();
    if let Some(run) = moved_to {
        // The device has the pointer to the new place.
        assert_eq!(rig.write_inodes(Ino::ROOT).1.db[0], run.at.pointer());
        assert!(!rig.take_work().contains(&drop), "the device shows the old name");
    }
    // Everything becomes durable, and only the last name is left.
    let (mut drops, mut names) = (0, [Ino(0); 3]);
    for _ in 0..4 {
        rig.inodes.keys().for_each(|key| {
            rig.write(*key, BufKind::Inodes, rig.inodes[key].clone());
        });
        let last = write_second(&rig);
        let write = rig.write_dir();
        names = [(&write, old), (&write, new), (&last, elsewhere)]
            .map(|(write, off)| rig.entry_in(write, off));
        assert!(names.contains(&FILE), "{next:?}: no name is left");
        drops += rig.take_work().into_iter().filter(|work| *work == drop).count();
    }
    let expected = match next {
        Next::Moved => [Ino(0), FILE, Ino(0)],
        Next::OldNameGiven => [OTHER, FILE, Ino(0)],
        Next::RenamedAgain => [Ino(0), Ino(0), FILE],
    };
    assert_eq!(names, expected, "{next:?}");
    assert_eq!(drops, if next == Next::RenamedAgain { 2 } else { 1 }, "{next:?}");
}
