//! Contents and attributes that a crash may leave, and those that it may not.

use super::story::{GOOD, Story};
use crate::crash::history::{Action, ROOT};
use crate::crash::tag::{self, POISON};

#[test]
fn durable_content_stays() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    s.synced();
    let empty = s.image();
    s.write(f, 0, 3000);
    let full = s.image();
    assert_eq!(s.broken(&empty), GOOD);
    s.fsynced(f);
    assert_eq!(s.broken(&full), GOOD);
    assert_eq!(s.broken(&empty), ["G1"]);
    s.hidden_truncate(f, 0);
    s.hidden_truncate(f, 3000);
    let broken = s.broken(&s.image());
    assert!(broken.len() == 6 && broken.iter().all(|rule| rule == "G1"), "{broken:?}");
}

#[test]
fn content_that_was_not_synced_may_be_zero_or_end_at_a_fragment() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    s.synced();
    let bytes = s.record_write(f, 0, 3000);
    s.hidden_truncate(f, 3000);
    assert_eq!(s.broken(&s.image()), GOOD, "all zero");
    s.hidden_write(f, 512, &bytes[512..1024]);
    assert_eq!(s.broken(&s.image()), GOOD, "one sector");
    s.hidden_truncate(f, 1024);
    assert_eq!(s.broken(&s.image()), GOOD, "end of a fragment");
    s.hidden_truncate(f, 1000);
    assert_eq!(s.broken(&s.image()), ["G8"], "no size it ever had");
}

#[test]
fn an_overwritten_sector_is_old_or_new_but_not_older() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    let first = s.write(f, 0, 2048);
    let second = s.write(f, 0, 2048);
    s.fsynced(f);
    let third = s.write(f, 300, 1000);
    assert_eq!(s.broken(&s.image()), GOOD);
    s.hidden_write(f, 512, &second[512..1024]);
    assert_eq!(s.broken(&s.image()), GOOD, "one sector old, the others new");
    s.hidden_write(f, 512, &first[512..1024]);
    assert_eq!(s.broken(&s.image()), ["G1"], "older than what was synced");
    s.hidden_write(f, 512, &third[212..500]);
    assert_eq!(s.broken(&s.image()), ["G1"], "half a sector");
}

#[test]
fn no_file_shows_what_is_not_its_own() {
    let mut s = Story::new();
    let (f, g) = (s.file(ROOT, "f"), s.file(ROOT, "g"));
    s.synced();
    s.write(f, 0, 1024);
    assert_eq!(s.broken(&s.image()), GOOD);
    s.hidden_write(f, 512, &tag::sector(g, 1, 1));
    assert_eq!(s.broken(&s.image()), ["F6"]);
    s.hidden_write(f, 512, &[POISON; 512]);
    assert_eq!(s.broken(&s.image()), ["F6"]);
    s.hidden_write(f, 512, &[7; 512]);
    assert_eq!(s.broken(&s.image()), ["F6"]);
    s.hidden_write(f, 512, &tag::sector(f, 1, 0));
    assert_eq!(s.broken(&s.image()), ["G9"], "its own, in the wrong place");
}

#[test]
fn old_and_new_content_do_not_mix_across_a_truncation() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    let old = s.write(f, 0, 4096);
    s.synced();
    let before = s.image();
    s.truncate(f, 0);
    let empty = s.image();
    s.write(f, 0, 2048);
    let after = s.image();
    for image in [&before, &empty, &after] {
        assert_eq!(s.broken(image), GOOD);
    }
    s.hidden_write(f, 512, &old[512..1024]);
    assert_eq!(s.broken(&s.image()), ["G11"]);
    s.hidden_truncate(f, 0);
    s.hidden_truncate(f, 4096);
    assert_eq!(s.broken(&s.image()), ["G11"], "the old size without the old content");
}

#[test]
fn a_truncated_tail_does_not_come_back_once_that_is_durable() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    let old = s.write(f, 0, 4096);
    s.truncate(f, 600);
    s.truncate(f, 4096);
    assert_eq!(s.broken(&s.image()), GOOD);
    s.hidden_write(f, 1024, &old[1024..1536]);
    let back = s.image();
    assert_eq!(s.broken(&back), GOOD, "no guarantee covers it");
    s.hidden_truncate(f, 1024);
    s.hidden_truncate(f, 4096);
    s.fsynced(f);
    assert_eq!(s.broken(&s.image()), GOOD);
    assert_eq!(s.broken(&back), ["G9"]);
}

#[test]
fn a_tail_truncated_at_a_sector_may_be_zeros_after_the_file_grew_again() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    s.write(f, 0, 4096);
    s.synced();
    s.truncate(f, 2048);
    s.truncate(f, 4096);
    assert_eq!(s.broken(&s.image()), GOOD);
    s.fsynced(f);
    assert_eq!(s.broken(&s.image()), GOOD);
    s.hidden_truncate(f, 1024);
    s.hidden_truncate(f, 4096);
    assert_eq!(s.broken(&s.image()), ["G1", "G1"], "the bytes before the new end stay");
}

/// The first byte after the direct blocks.
const INDIRECT: u64 = 12 * 4096;

#[test]
fn durable_zeros_at_the_end_may_be_lost_in_a_truncation() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    let end = INDIRECT + 8192;
    s.write(f, 0, end);
    s.record(vec![Action::Zeroed { obj: f, bytes: 2048..end }]);
    s.hidden_truncate(f, 2048);
    s.hidden_truncate(f, end);
    s.synced();
    s.hidden_truncate(f, 2048);
    let truncated = s.image();
    assert_eq!(s.broken(&truncated), ["G1"], "no call truncates it");
    s.record(vec![Action::Resized { obj: f, size: INDIRECT + 4100 }]);
    assert_eq!(s.broken(&s.image()), GOOD, "fsck shortens a file that ends in a hole");
    s.hidden_truncate(f, 1536);
    assert_eq!(s.broken(&s.image()), ["G8"], "there was content");
}

#[test]
fn zeros_at_the_end_may_go_while_a_file_with_indirect_blocks_grows() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    let end = INDIRECT + 4096;
    s.write(f, 0, end);
    s.synced();
    s.record_write(f, end, 1024);
    s.hidden_truncate(f, 2048);
    assert_eq!(s.broken(&s.image()), ["G8"], "there was content");
    s.record(vec![Action::Zeroed { obj: f, bytes: 2048..end + 1024 }]);
    assert_eq!(s.broken(&s.image()), GOOD, "a hole was made there");
}

/// The end of the durable content became a hole while an append was in progress.
#[test]
fn a_file_of_direct_blocks_is_never_smaller_than_it_ever_was() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    s.write(f, 0, 8 * 4096);
    s.synced();
    s.record_write(f, 8 * 4096, 4096);
    s.record(vec![Action::Zeroed { obj: f, bytes: 6 * 4096..8 * 4096 }]);
    assert_eq!(s.broken(&s.image()), GOOD, "no part of it happened");
    s.hidden_truncate(f, 6 * 4096);
    assert_eq!(s.broken(&s.image()), ["G8"]);
}

#[test]
fn large_and_sparse_files_are_judged_by_what_was_written() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    s.write(f, 13 * 4096 + 100, 700);
    s.truncate(f, 1 << 38);
    s.synced();
    assert_eq!(s.broken(&s.image()), GOOD);
    s.hidden_write(f, 20 * 4096, &[1]);
    assert_eq!(s.broken(&s.image()), ["F6"]);
}

#[test]
fn write_fsync_rename_gives_old_or_new_content() {
    let mut s = Story::new();
    let b = s.file(ROOT, "b");
    s.write(b, 0, 1000);
    s.synced();
    let old = s.image();
    let tmp = s.file(ROOT, "tmp");
    s.write(tmp, 0, 2000);
    s.fsynced(tmp);
    s.rename(tmp, (ROOT, "tmp"), (ROOT, "b"), Some(b));
    assert_eq!(s.broken(&s.image()), GOOD);
    assert_eq!(s.broken(&old), ["X1", "X2"], "tmp was durable");
    s.hidden_truncate(tmp, 512);
    assert_eq!(s.broken(&s.image()), ["G1"]);
}

#[test]
fn attributes_are_old_or_new_together() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    s.synced();
    let old = s.image();
    s.chmod(f, 0o600, 7);
    let new = s.image();
    assert_eq!(s.broken(&old), GOOD);
    assert_eq!(s.broken(&new), GOOD);
    let set = ffs_core::SetAttr { perm: Some(0o644), ..ffs_core::SetAttr::default() };
    s.fs.setattr(&s.cred, &s.vnode(f), &set).unwrap();
    assert_eq!(s.broken(&s.image()), ["G20"], "old mode, new owner");
    s.fsynced(f);
    assert_eq!(s.broken(&new), GOOD);
    assert_eq!(s.broken(&old), ["G20"]);
}

#[test]
fn extended_attributes_are_old_or_new_together() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    let none = s.image();
    s.set_xattr(f, "x", b"1");
    let one = s.image();
    s.set_xattr(f, "y", b"2");
    let two = s.image();
    for image in [&none, &one, &two] {
        assert_eq!(s.broken(image), GOOD);
    }
    s.fsynced(f);
    assert_eq!(s.broken(&two), GOOD);
    assert_eq!(s.broken(&one), ["G20"]);
    s.fs.removexattr(&s.cred, &s.vnode(f), ffs_core::XattrNamespace::User, b"x").unwrap();
    assert_eq!(s.broken(&s.image()), ["G20"]);
}

#[test]
fn a_file_is_never_seen_without_what_it_was_made_with() {
    let mut s = Story::new();
    s.file_with("whole", true);
    assert_eq!(s.broken(&s.image()), GOOD);
    s.file_with("bare", false);
    assert_eq!(s.broken(&s.image()), ["G20"]);
}

#[test]
fn an_attribute_that_was_never_set_is_a_violation() {
    let mut s = Story::new();
    let f = s.file(ROOT, "f");
    let (file, space) = (s.vnode(f), ffs_core::XattrNamespace::User);
    s.fs.setxattr(&s.cred, &file, space, b"k", b"v", ffs_core::XattrSet::Any).unwrap();
    assert_eq!(s.broken(&s.image()), ["G20"]);
}

#[test]
fn a_symbolic_link_has_its_whole_target() {
    let mut s = Story::new();
    let long = "x".repeat(300);
    s.symlink(ROOT, "short", "somewhere", "somewhere");
    s.symlink(ROOT, "long", &long, &long);
    assert_eq!(s.broken(&s.image()), GOOD);
    s.symlink(ROOT, "bad", "some", "somewhere");
    assert_eq!(s.broken(&s.image()), ["G7"]);
}
