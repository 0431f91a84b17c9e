//! The guarantees of each ordering mode.

use super::story::{GOOD, SOFT, Story};
use crate::crash::history::ROOT;
use crate::crash::oracle::{Condition, Expectation, FsyncScope, Promise, SoftUpdateOptions};
use crate::crash::raw::Checker;
use crate::crash::tag::POISON;

#[test]
fn synchronous_names_are_durable_at_return() {
    let mut s = Story::new();
    let empty = s.image();
    let f = s.file(ROOT, "f");
    assert_eq!(s.broken(&empty), GOOD);
    assert_eq!(s.broken_at(&empty, s.now(), Promise::SyncOrdered), ["X1", "X4"]);
    let there = s.image();
    s.unlink(ROOT, "f", f);
    assert_eq!(s.broken(&there), GOOD);
    assert_eq!(s.broken_at(&there, s.now(), Promise::SyncOrdered), ["X4"]);
}

#[test]
fn synchronous_order_may_show_foreign_data_where_nothing_was_synced() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    s.write(f, 0, 1024);
    s.fsynced(f);
    s.write(f, 1024, 1024);
    s.hidden_write(f, 1024, &[POISON; 512]);
    let image = s.image();
    assert_eq!(s.broken(&image), ["F6"]);
    assert_eq!(s.broken_at(&image, s.now(), Promise::SyncOrdered), GOOD);
    s.hidden_write(f, 0, &[POISON; 512]);
    assert_eq!(s.broken_at(&s.image(), s.now(), Promise::SyncOrdered), ["F6"]);
}

#[test]
fn without_order_only_what_was_synced_counts_and_only_until_something_changes() {
    let mut s = Story::new();
    let empty = s.image();
    s.file(ROOT, "f");
    assert_eq!(s.broken_at(&empty, s.now(), Promise::Async), GOOD);
    s.synced();
    assert_eq!(s.broken_at(&empty, s.now(), Promise::Async), ["X1", "X4"]);
    s.file(ROOT, "g");
    assert_eq!(s.broken_at(&empty, s.now(), Promise::Async), GOOD);
}

#[test]
fn a_replacing_rename_may_wait_for_the_content() {
    let mut s = Story::new();
    let b = s.file(ROOT, "b");
    s.synced();
    let old = s.image();
    let tmp = s.file(ROOT, "tmp");
    s.write(tmp, 0, 2000);
    s.rename(tmp, (ROOT, "tmp"), (ROOT, "b"), Some(b));
    s.write(tmp, 2000, 100);
    let ordered =
        Promise::SoftUpdates(SoftUpdateOptions { fsync: FsyncScope::File, replace_order: true });
    let new = s.image();
    s.hidden_truncate(tmp, 2000);
    let as_renamed = s.image();
    for image in [&old, &new, &as_renamed] {
        assert_eq!(s.broken_at(image, s.now(), ordered), GOOD);
    }
    s.hidden_truncate(tmp, 512);
    let early = s.image();
    assert_eq!(s.broken_at(&early, s.now(), SOFT), GOOD);
    assert_eq!(s.broken_at(&early, s.now(), ordered), ["G18"]);
    // Under the name of its creation it may be incomplete.
    s.hidden_rename((ROOT, "b"), (ROOT, "tmp"));
    let broken = s.broken_at(&s.image(), s.now(), ordered);
    assert!(!broken.contains(&"G18".to_owned()), "{broken:?}");
}

/// Soft updates with the default mount options.
const DEFAULT: Promise =
    Promise::SoftUpdates(SoftUpdateOptions { fsync: FsyncScope::All, replace_order: true });

#[test]
fn an_fsync_makes_older_names_of_all_directories_durable() {
    let mut s = Story::new();
    let (a, b) = (s.mkdir(ROOT, "a"), s.mkdir(ROOT, "b"));
    let (f, g) = (s.file(a, "f"), s.file(b, "g"));
    s.synced();
    let before = s.image();
    s.rename(f, (a, "f"), (a, "new"), None);
    let renamed = s.image();
    let broken = |s: &Story, image: &[u8], fsync| {
        s.broken_at(
            image,
            s.now(),
            Promise::SoftUpdates(SoftUpdateOptions { fsync, replace_order: true }),
        )
    };
    assert_eq!(broken(&s, &before, FsyncScope::All), GOOD);
    s.fsynced(g);
    assert_eq!(broken(&s, &renamed, FsyncScope::All), GOOD);
    assert_eq!(broken(&s, &before, FsyncScope::File), GOOD);
    assert_eq!(broken(&s, &before, FsyncScope::All), ["X4", "X4"], "older than the fsync");
    s.rename(f, (a, "new"), (a, "newer"), None);
    assert_eq!(broken(&s, &renamed, FsyncScope::All), GOOD, "younger than the fsync");
}

#[test]
fn an_fdatasync_makes_older_names_durable_only_with_metadata_of_its_own() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    s.write(f, 0, 600);
    s.synced();
    let before = s.image();
    s.mkdir(ROOT, "d");
    s.write(f, 0, 600);
    let after = s.image();
    s.fdatasynced(f);
    let broken = |s: &Story, image: &[u8]| {
        let broken = s.broken_at(image, s.now(), DEFAULT);
        broken.into_iter().filter(|rule| rule.starts_with('X')).collect::<Vec<String>>()
    };
    assert_eq!(broken(&s, &before), GOOD, "written in place");
    s.write(f, 600, 600);
    let grown = s.image();
    s.fdatasynced(f);
    assert_eq!(broken(&s, &grown), GOOD);
    assert_eq!(broken(&s, &after), GOOD, "another rule covers its content");
    assert_eq!(broken(&s, &before), ["X1", "X4"], "the directory is older than the fdatasync");
}

#[test]
fn a_name_given_by_rename_or_link_waits_for_the_content() {
    for links in [false, true] {
        let mut s = Story::new();
        let f = s.file(ROOT, "tmp");
        s.synced();
        let old = s.image();
        s.write(f, 0, 2000);
        if links {
            s.link(f, ROOT, "public");
        } else {
            s.rename(f, (ROOT, "tmp"), (ROOT, "public"), None);
        }
        let new = s.image();
        s.hidden_truncate(f, 512);
        let early = s.image();
        s.hidden_unlink(ROOT, "public");
        for image in [&old, &new] {
            assert_eq!(s.broken_at(image, s.now(), DEFAULT), GOOD);
        }
        assert_eq!(s.broken_at(&early, s.now(), DEFAULT), ["G18"]);
        assert_eq!(s.broken_at(&early, s.now(), SOFT), GOOD);
    }
}

#[test]
fn a_repair_leaves_neither_leaks_nor_wrong_counts() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    let mut image = s.image();
    let mut checker = Checker::new();
    let inode = *checker.check(&image).tree.inode(s.fs.getattr(&s.vnode(f)).ino).unwrap();
    let nlink = inode.text as usize - 112 + 2;
    image[nlink] = 2;
    let found = checker.check(&image);
    let expectation = Expectation::new(&s.history, s.now(), SOFT);
    for (condition, rules) in [(Condition::Untouched, vec![]), (Condition::Recovered, vec!["LINK"])]
    {
        let mut out = Vec::new();
        expectation.judge(&image, found, condition, &mut out);
        let broken: Vec<&str> = out.iter().map(|violation| violation.rule.as_str()).collect();
        assert_eq!(broken, rules);
    }
}

#[test]
fn a_name_without_an_inode_is_reported_once() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    s.synced();
    s.rename(f, (ROOT, "f"), (ROOT, "g"), None);
    let mut image = s.image();
    let mut checker = Checker::new();
    let inode = *checker.check(&image).tree.inode(s.fs.getattr(&s.vnode(f)).ino).unwrap();
    let dinode = inode.text as usize - 112;
    image[dinode..dinode + 256].fill(0);
    let found = checker.check(&image);
    assert!(!found.violations.is_empty());
    let mut out = Vec::new();
    let expectation = Expectation::new(&s.history, s.now(), SOFT);
    expectation.judge(&image, found, Condition::Untouched, &mut out);
    assert_eq!(out, []);
}
