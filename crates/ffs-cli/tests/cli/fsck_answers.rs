//! `ffs fsck`: the image after answers that grant no repair, and the explanations of findings.

use std::fs;

use ffs_admin::fsck::Id;

use crate::common::{Dir, fails, ffs, ok, run, text};
use crate::fsck::{edit_inode, with_file};

/// A volume that is marked clean, with a file one of whose pointers leads nowhere.
fn damaged(d: &Dir, newfs: &[&str]) -> String {
    let (image, ino) = with_file(d, "a.img", newfs);
    edit_inode(&image, ino, |inode| inode.db[1] = 1 << 40);
    image
}

fn answered(image: &str, answers: &str) -> std::process::Output {
    ffs().args(["fsck", image]).write_stdin(answers.to_owned()).output().unwrap()
}

/// The line with the counts of files and fragments.
fn totals(printed: &str) -> Option<&str> {
    printed.lines().find(|line| line.contains(" used, "))
}

/// If every repair is refused, the counts are those of `-n`, and only the mark of a clean volume is
/// removed. If it is not there, the image keeps its bytes.
#[test]
fn refusing_every_repair_clears_the_clean_mark_and_nothing_else() {
    let d = Dir::new();
    for newfs in [&["-U"][..], &["-u"]] {
        let image = damaged(&d, newfs);
        let before = fs::read(&image).unwrap();
        let look = String::from_utf8(run(&["fsck", "-n", &image]).stdout).unwrap();
        let refused = answered(&image, &"n\n".repeat(20));
        let printed = text(&refused);
        assert_eq!(refused.status.code(), Some(16), "{printed}");
        assert_eq!(totals(&printed), totals(&look), "{printed}");
        assert!(totals(&printed).is_some_and(|line| !line.contains(" 0 used")), "{printed}");
        assert!(printed.contains("***** FILE SYSTEM MARKED DIRTY *****"), "{printed}");
        assert!(printed.contains("nothing was repaired; damage remains"), "{printed}");
        assert!(!printed.contains("MODIFIED") && !printed.contains("(FIXED)"), "{printed}");
        let after = fs::read(&image).unwrap();
        let differ: Vec<usize> = (0..after.len()).filter(|&at| before[at] != after[at]).collect();
        assert!(!differ.is_empty(), "the mark is cleared");
        assert!(differ.iter().all(|at| (65536..65536 + 8192).contains(at)), "{differ:?}");
        let json: serde_json::Value =
            serde_json::from_slice(&run(&["fsck", "-n", "--json", &image]).stdout).unwrap();
        assert_eq!((&json["clean"], &json["marked_dirty"]), (&false.into(), &false.into()));
        // The volume is not marked clean any more.
        for answers in ["n\n".repeat(20), "q\n".to_owned(), "n\nq\n".to_owned(), String::new()] {
            let printed = text(&answered(&image, &answers));
            assert!(!printed.contains("MODIFIED") && !printed.contains("MARKED"), "{printed}");
            assert!(after == fs::read(&image).unwrap(), "{answers:?} wrote");
        }
        let done = answered(&image, "a\n");
        assert_eq!(done.status.code(), Some(0), "{}", text(&done));
        fs::remove_file(&image).unwrap();
    }
    assert!(ok(&["fsck", "--help"]).contains("MARKED DIRTY"));
}

/// An operator who stops a check before a repair leaves the image as it was.
#[test]
fn quitting_before_a_repair_changes_nothing() {
    let d = Dir::new();
    for newfs in [&["-U"][..], &["-u"]] {
        let image = damaged(&d, newfs);
        let before = fs::read(&image).unwrap();
        for answers in ["q\n", "n\nq\n"] {
            let output = answered(&image, answers);
            let printed = text(&output);
            assert_eq!(output.status.code(), Some(12), "{printed}");
            assert!(printed.contains("interrupted; nothing was changed"), "{printed}");
            assert!(!printed.contains("*****") && !printed.contains(" used, "), "{printed}");
            assert!(before == fs::read(&image).unwrap(), "{answers:?} wrote");
        }
        fs::remove_file(&image).unwrap();
    }
}

/// Every code that a check can print is listed and explained; no image is needed.
#[test]
fn every_code_is_explained() {
    let list = ok(&["fsck", "--explain"]);
    assert_eq!(list, ok(&["fsck", "--explain", "list"]));
    for id in Id::ALL {
        assert!(list.lines().any(|line| line.starts_with(&format!("{id} "))), "{id}: {list}");
        let text = ok(&["fsck", "--explain", id.as_str()]);
        assert!(text.starts_with(&format!("{id}: {}\n", id.meaning())), "{text}");
        for head in ["Repair: ", "Lost: ", "Preen: ", "Type: "] {
            let line = text.lines().find(|line| line.starts_with(head));
            assert!(line.is_some_and(|line| line.len() > head.len() + 5), "{head}{text}");
        }
        assert!(text.contains("ffs fsck "), "{text}");
    }
    let lower = ok(&["fsck", "--explain", "blk-bad"]);
    assert!(lower.contains("zeros") && lower.contains("-p stops"), "{lower}");
    fails(&["fsck", "--explain", "BLK-BD"], 1, "did you mean 'BLK-BAD'?");
    fails(&["fsck", "--explain", "x"], 1, "--explain list");
    fails(&["fsck"], 1, "IMAGE");
}
