//! Names that a crash may leave, and names that it may not.

use super::story::{GOOD, SOFT, Story};
use crate::crash::history::ROOT;
use crate::crash::oracle::Condition;

#[test]
fn every_state_on_the_way_is_good_until_a_promise_forbids_it() {
    let mut s = Story::new();
    let mut images = vec![s.image()];
    let d = s.mkdir(ROOT, "d");
    images.push(s.image());
    let f = s.file(d, "f");
    images.push(s.image());
    s.write(f, 0, 5000);
    images.push(s.image());
    s.link(f, ROOT, "g");
    images.push(s.image());
    s.rename(f, (d, "f"), (ROOT, "h"), None);
    images.push(s.image());
    s.rmdir(ROOT, "d", d);
    images.push(s.image());
    for image in &images {
        assert_eq!(s.broken(image), GOOD);
    }
    s.synced();
    let (last, rest) = images.split_last().unwrap();
    assert_eq!(s.broken(last), GOOD);
    for image in rest {
        assert_ne!(s.broken(image), GOOD);
    }
}

#[test]
fn a_durable_name_must_stay() {
    let mut s = Story::new();
    let empty = s.image();
    let f = s.file(ROOT, "f");
    assert_eq!(s.broken(&empty), GOOD);
    s.fsynced(f);
    assert_eq!(s.broken(&empty), ["X1", "X4"]);
    // The name may be missing after its removal, or present until the removal is durable.
    let there = s.image();
    s.unlink(ROOT, "f", f);
    assert_eq!(s.broken(&empty), GOOD);
    assert_eq!(s.broken(&there), GOOD);
    s.fsynced(ROOT);
    assert_eq!(s.broken(&empty), GOOD);
    assert_eq!(s.broken(&there), ["X4"]);
}

#[test]
fn fsync_of_a_file_makes_new_directories_above_it_durable() {
    let mut s = Story::new();
    let empty = s.image();
    let a = s.mkdir(ROOT, "a");
    let b = s.mkdir(a, "b");
    let with_dirs = s.image();
    let f = s.file(b, "f");
    assert_eq!(s.broken(&empty), GOOD);
    s.fsynced(f);
    assert_eq!(s.broken(&empty), ["X1", "X1", "X1", "X4"]);
    assert_eq!(s.broken(&with_dirs), ["X1", "X4"]);
}

/// The directory was durable under another name.
#[test]
fn fsync_of_a_file_makes_renamed_directories_above_it_durable() {
    for is_new in [false, true] {
        let mut s = Story::new();
        let a = s.mkdir(ROOT, "a");
        let old = (!is_new).then(|| s.file(a, "f"));
        s.synced();
        s.rename(a, (ROOT, "a"), (ROOT, "b"), None);
        let f = old.unwrap_or_else(|| s.file(a, "f"));
        s.write(f, 0, 700);
        let renamed = s.image();
        s.hidden_rename((ROOT, "b"), (ROOT, "a"));
        let not_yet = s.image();
        assert_eq!(s.broken(&not_yet), GOOD, "no guarantee covers the new name");
        s.fsynced(f);
        assert_eq!(s.broken(&renamed), GOOD);
        assert_eq!(s.broken(&not_yet), ["X4"], "`b` is missing");
    }
}

#[test]
fn an_exchange_is_done_or_not_once_a_check_was_there() {
    let mut s = Story::new();
    let d = s.mkdir(ROOT, "d");
    let (f, g) = (s.file(ROOT, "f"), s.file(d, "g"));
    s.synced();
    let before = s.image();
    s.record_exchange((ROOT, "f"), (d, "g"), f, g);
    assert_eq!(s.broken(&before), GOOD);
    // Half of it: `f` has both names, `g` a temporary one.
    s.fs.link(&s.cred, &s.vnode(g), &s.vnode(ROOT), b".ffs-exchange.5").unwrap();
    s.hidden_unlink(d, "g");
    s.fs.link(&s.cred, &s.vnode(f), &s.vnode(d), b"g").unwrap();
    let half = s.image();
    assert_eq!(s.broken(&half), ["X1", "X5", "X7"]);
    let untouched = |image: &[u8]| s.broken_in(image, s.now(), SOFT, Condition::Untouched);
    assert_eq!(untouched(&half), GOOD, "a check or the next mount completes it");
    s.hidden_unlink(ROOT, "f");
    s.hidden_rename((ROOT, ".ffs-exchange.5"), (ROOT, "f"));
    let done = s.image();
    assert_eq!(s.broken(&done), GOOD);
    // The exchange is durable: the old names cannot come back.
    s.fsynced(f);
    assert_eq!(s.broken(&done), GOOD);
    assert_ne!(s.broken(&before), GOOD);
}

#[test]
fn of_an_exchange_that_went_on_each_name_may_be_ahead() {
    let mut s = Story::new();
    let (f, g) = (s.file(ROOT, "f"), s.file(ROOT, "g"));
    s.link(f, ROOT, "other");
    s.synced();
    s.record_exchange((ROOT, "f"), (ROOT, "g"), f, g);
    s.record_removal("f", g);
    s.hidden_unlink(ROOT, "f");
    assert_eq!(s.broken(&s.image()), ["X8"], "`g` has lost the name it got before `f` got its own");
    s.hidden_unlink(ROOT, "g");
    assert_ne!(s.broken(&s.image()), GOOD, "`f` owes the name it got");
}

#[test]
fn fsync_of_a_directory_makes_its_entries_durable_and_nothing_else() {
    let mut s = Story::new();
    let d = s.mkdir(ROOT, "d");
    let before = s.image();
    s.file(d, "f");
    s.file(ROOT, "g");
    let after = s.image();
    s.fsynced(d);
    assert_eq!(s.broken(&before), ["X1", "X4"]);
    s.hidden_unlink(ROOT, "g");
    let without_g = s.image();
    assert_eq!(s.broken(&without_g), GOOD);
    assert_eq!(s.broken(&after), GOOD);
}

#[test]
fn rename_leaves_the_old_name_or_both_or_the_new_one() {
    let mut s = Story::new();
    let f = s.file(ROOT, "a");
    s.synced();
    let old = s.image();
    s.record_rename(f, (ROOT, "a"), (ROOT, "b"), None);
    s.fs.link(&s.cred, &s.vnode(f), &s.vnode(ROOT), b"b").unwrap();
    let both = s.image();
    s.hidden_unlink(ROOT, "a");
    let new = s.image();
    s.hidden_unlink(ROOT, "b");
    let none = s.image();
    for image in [&old, &both, &new] {
        assert_eq!(s.broken(image), GOOD);
    }
    assert_eq!(s.broken(&none), ["X1", "X2"]);
    s.fsynced(f);
    assert_eq!(s.broken(&old), ["X4", "X4"]);
    assert_eq!(s.broken(&both), ["X4"]);
    assert_eq!(s.broken(&new), GOOD);
}

#[test]
fn a_linked_file_that_is_renamed_keeps_one_of_the_two_names() {
    let mut s = Story::new();
    let f = s.file(ROOT, "a");
    s.link(f, ROOT, "other");
    s.synced();
    s.rename(f, (ROOT, "a"), (ROOT, "b"), None);
    assert_eq!(s.broken(&s.image()), GOOD);
    s.hidden_unlink(ROOT, "b");
    assert_eq!(s.broken(&s.image()), ["X2"]);
}

#[test]
fn rename_over_a_name_never_leaves_it_empty() {
    let mut s = Story::new();
    let old = s.file(ROOT, "b");
    let new = s.file(ROOT, "tmp");
    s.synced();
    let before = s.image();
    s.rename(new, (ROOT, "tmp"), (ROOT, "b"), Some(old));
    let after = s.image();
    assert_eq!(s.broken(&before), GOOD);
    assert_eq!(s.broken(&after), GOOD);
    s.hidden_rename((ROOT, "b"), (ROOT, "tmp"));
    assert_eq!(s.broken(&s.image()), ["X4"], "b is missing");
}

#[test]
fn a_chain_of_renames_keeps_the_file() {
    let mut s = Story::new();
    let f = s.file(ROOT, "a");
    s.synced();
    let mut images = vec![s.image()];
    s.rename(f, (ROOT, "a"), (ROOT, "b"), None);
    images.push(s.image());
    s.rename(f, (ROOT, "b"), (ROOT, "c"), None);
    images.push(s.image());
    for image in &images {
        assert_eq!(s.broken(image), GOOD);
    }
    s.hidden_unlink(ROOT, "c");
    let broken = s.broken(&s.image());
    assert!(broken.contains(&"X1".to_owned()), "{broken:?}");
}

#[test]
fn a_name_in_between_may_be_spared() {
    let mut s = Story::new();
    let f = s.file(ROOT, "a");
    let old = s.file(ROOT, "b");
    s.synced();
    // On the disk `b` never changed, and `f` moved to `c` directly.
    s.hidden_rename((ROOT, "a"), (ROOT, "c"));
    s.record_rename(f, (ROOT, "a"), (ROOT, "b"), Some(old));
    let early = s.image();
    assert_eq!(s.broken(&early), ["X1", "X2", "X5"], "not before the removal");
    s.record_rename(f, (ROOT, "b"), (ROOT, "c"), None);
    assert_eq!(s.broken(&early), GOOD);
    // No guarantee covers the object of `b`; it only is not this file any more.
    s.fsynced(f);
    assert_eq!(s.broken(&early), GOOD);
    s.hidden_rename((ROOT, "c"), (ROOT, "b"));
    assert_eq!(s.broken(&s.image()), ["X4", "X4"], "`c` is missing, `b` is the file's again");
}

#[test]
fn a_chain_whose_last_name_was_removed_was_given_up() {
    let mut s = Story::new();
    let (f, old) = (s.file(ROOT, "a"), s.file(ROOT, "b"));
    s.link(f, ROOT, "other");
    s.synced();
    // On the disk the first name is removed, and the later ones never appeared.
    s.record_rename(f, (ROOT, "a"), (ROOT, "b"), Some(old));
    s.record_rename(f, (ROOT, "b"), (ROOT, "c"), None);
    s.hidden_unlink(ROOT, "a");
    let removed = s.image();
    assert_eq!(s.broken(&removed), ["X2"], "its last name must exist");
    s.record_removal("c", f);
    assert_eq!(s.broken(&removed), GOOD);
}

#[test]
fn who_is_where_it_was_never_went_to_a_name_in_between() {
    let mut s = Story::new();
    let f = s.file(ROOT, "a");
    let g = s.file(ROOT, "g");
    s.synced();
    // On the disk `f` did not move, and `g` has the name that `f` had in between.
    s.record_rename(f, (ROOT, "a"), (ROOT, "b"), None);
    s.record_rename(f, (ROOT, "b"), (ROOT, "c"), None);
    s.rename(g, (ROOT, "g"), (ROOT, "b"), None);
    assert_eq!(s.broken(&s.image()), GOOD);
    s.hidden_unlink(ROOT, "a");
    let broken = s.broken(&s.image());
    assert!(broken.contains(&"X2".to_owned()), "{broken:?}");
}

#[test]
fn of_two_names_of_a_directory_a_check_keeps_one() {
    let mut s = Story::new();
    let (d, empty) = (s.mkdir(ROOT, "d"), s.mkdir(ROOT, "e"));
    let (f, old) = (s.file(ROOT, "f"), s.file(ROOT, "g"));
    s.synced();
    s.fs.rmdir(&s.cred, &s.vnode(ROOT), b"e").unwrap();
    let dropped = s.image();
    assert_eq!(s.broken(&dropped), ["X1", "X4"], "not before the removal");
    s.record_rename(d, (ROOT, "d"), (ROOT, "e"), Some(empty));
    assert_eq!(s.broken(&dropped), GOOD);
    // A file keeps both names.
    s.hidden_unlink(ROOT, "g");
    s.record_rename(f, (ROOT, "f"), (ROOT, "g"), Some(old));
    assert_eq!(s.broken(&s.image()), ["X4"]);
    s.fsynced(ROOT);
    let broken = s.broken(&dropped);
    assert!(broken.contains(&"X4".to_owned()), "{broken:?}");
}

#[test]
fn link_and_unlink_leave_one_of_the_names() {
    let mut s = Story::new();
    let f = s.file(ROOT, "a");
    s.synced();
    s.link(f, ROOT, "b");
    s.unlink(ROOT, "a", f);
    let moved = s.image();
    assert_eq!(s.broken(&moved), GOOD);
    s.hidden_unlink(ROOT, "b");
    let none = s.image();
    assert_eq!(s.broken(&none), ["X1", "X8"]);
    // After a durable removal it may be missing.
    s.record_removal("b", f);
    assert_eq!(s.broken(&none), GOOD);
}

#[test]
fn a_removal_comes_after_older_links_but_not_after_new_files_and_younger_links() {
    for (linked, then, expected) in
        [(true, true, vec!["X8"]), (true, false, vec![]), (false, true, vec![])]
    {
        let mut s = Story::new();
        let (f, g) = (s.file(ROOT, "a"), s.file(ROOT, "g"));
        s.synced();
        s.hidden_unlink(ROOT, "g");
        let early = s.image();
        if !then {
            s.record_removal("g", g);
        }
        if linked {
            s.link(f, ROOT, "b");
        } else {
            s.file(ROOT, "new");
        }
        if then {
            s.record_removal("g", g);
        }
        assert_eq!(s.broken(&early), expected, "linked {linked}, then removed {then}");
    }
}

#[test]
fn a_removed_name_is_given_again_only_after_older_links() {
    for (linked_first, expected) in [(true, vec!["X8"]), (false, vec![])] {
        let mut s = Story::new();
        let (f, g) = (s.file(ROOT, "a"), s.file(ROOT, "g"));
        s.synced();
        if linked_first {
            s.link(f, ROOT, "b");
        }
        s.unlink(ROOT, "g", g);
        s.file(ROOT, "g");
        if !linked_first {
            s.link(f, ROOT, "b");
        }
        s.hidden_unlink(ROOT, "b");
        assert_eq!(s.broken(&s.image()), expected, "linked first: {linked_first}");
    }
}

#[test]
fn a_call_under_way_may_have_happened_or_not() {
    let mut s = Story::new();
    let f = s.file(ROOT, "a");
    s.synced();
    let before = s.image();
    let began = s.now();
    s.unlink(ROOT, "a", f);
    let after = s.image();
    s.history.steps.last_mut().unwrap().at = began + 5;
    assert_eq!(s.broken_at(&after, began, SOFT), ["X1", "X4"], "the removal has not begun");
    assert_eq!(s.broken_at(&after, began + 1, SOFT), GOOD);
    assert_eq!(s.broken_at(&before, began + 1, SOFT), GOOD);
}

#[test]
fn invented_names_and_files_are_violations() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    s.synced();
    let kind = ffs_core::NodeKind::Regular;
    s.fs.create(&s.cred, &s.vnode(ROOT), b"stranger", kind, 0o644).unwrap();
    assert_eq!(s.broken(&s.image()), ["X5"]);
    s.hidden_unlink(ROOT, "stranger");
    s.hidden_unlink(ROOT, "f");
    s.fs.create(&s.cred, &s.vnode(ROOT), b"f", kind, 0o644).unwrap();
    let broken = s.broken(&s.image());
    assert!(broken.contains(&"F10".to_owned()), "{broken:?}");
    let _ = f;
}

#[test]
fn a_name_leads_to_no_other_object() {
    let mut s = Story::new();
    s.file(ROOT, "a");
    s.file(ROOT, "b");
    s.synced();
    s.hidden_rename((ROOT, "a"), (ROOT, "t"));
    s.hidden_rename((ROOT, "b"), (ROOT, "a"));
    s.hidden_rename((ROOT, "t"), (ROOT, "b"));
    assert_eq!(s.broken(&s.image()), ["X3", "X3"]);
}

#[test]
fn a_directory_moves_with_all_it_holds() {
    let mut s = Story::new();
    let (from, to) = (s.mkdir(ROOT, "from"), s.mkdir(ROOT, "to"));
    let d = s.mkdir(from, "d");
    s.file(d, "f");
    s.synced();
    let before = s.image();
    s.rename(d, (from, "d"), (to, "e"), None);
    let after = s.image();
    assert_eq!(s.broken(&before), GOOD);
    assert_eq!(s.broken(&after), GOOD);
    s.hidden_unlink(d, "f");
    assert_eq!(s.broken(&s.image()), ["X1", "X4"]);
}

#[test]
fn a_removal_of_a_name_that_never_was_durable_does_not_wait_for_older_links() {
    for (was_durable, expected) in [(true, vec!["X8"]), (false, vec![])] {
        let mut s = Story::new();
        let f = s.file(ROOT, "a");
        let (d, e) = (s.mkdir(ROOT, "d"), s.mkdir(ROOT, "e"));
        s.synced();
        let g = s.file(d, "g");
        if was_durable {
            s.fsynced(g);
        }
        s.link(f, e, "b");
        s.unlink(d, "g", g);
        s.fsynced(d);
        s.hidden_unlink(e, "b");
        assert_eq!(s.broken(&s.image()), expected, "was durable: {was_durable}");
    }
}
