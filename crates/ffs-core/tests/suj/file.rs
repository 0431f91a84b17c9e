//! The file of the journal, while a mount keeps the journal.

use crate::common::{errno, mount_on};
use crate::{SHAPES, journaled_volume, options};
use ffs_core::{Cred, FileFlags, RenameMode, SetAttr, WriteMode};

/// `EPERM`.
const EPERM: i32 = 1;
/// `EBUSY`.
const EBUSY: i32 = 16;

/// The blocks of the journal are written past its file. If the file lost them, the journal would
/// overwrite the files that get them.
#[test]
fn the_file_of_a_journal_that_is_kept_cannot_be_changed() {
    for shape in SHAPES {
        let w = mount_on(journaled_volume(shape), &options(None));
        let c = Cred::root();
        let journal = w.get(&w.root, ".sujournal").unwrap();
        let attr = w.fs.getattr(&journal);
        assert!(w.fs.journal_stats().kept);
        for left in [FileFlags::SF_IMMUTABLE, FileFlags::SF_NOUNLINK, FileFlags::empty()] {
            let clear = SetAttr { flags: Some(left), ..SetAttr::default() };
            assert_eq!(errno(w.fs.setattr(&c, &journal, &clear)), EBUSY, "{shape:?} {left:?}");
        }
        let more =
            SetAttr { flags: Some(attr.flags | FileFlags::SF_ARCHIVED), ..SetAttr::default() };
        w.fs.setattr(&c, &journal, &more).unwrap();
        let shorter = SetAttr { size: Some(0), ..SetAttr::default() };
        assert_eq!(errno(w.fs.setattr(&c, &journal, &shorter)), EPERM);
        assert_eq!(errno(w.fs.unlink(&c, &w.root, b".sujournal")), EPERM);
        assert_eq!(errno(w.fs.link(&c, &journal, &w.root, b"second")), EPERM);
        let file = w.file(&w.root, "file");
        w.fs.write(&c, &file, 0, b"content", WriteMode::default()).unwrap();
        for mode in [RenameMode::Replace, RenameMode::Exchange] {
            let names = ((&w.root, &b"file"[..]), (&w.root, &b".sujournal"[..]));
            assert_eq!(errno(w.fs.rename(&c, names.0, names.1, mode)), EPERM, "{mode:?}");
            assert_eq!(errno(w.fs.rename(&c, names.1, names.0, mode)), EPERM, "{mode:?}");
        }
        assert_eq!(w.fs.getattr(&journal).blocks, attr.blocks);

        // While a snapshot stops the journal, root may remove the file.
        let (snapshot, _) = w.fs.snapshot(&c, &w.root, b"snap").unwrap();
        let none = SetAttr { flags: Some(FileFlags::empty()), ..SetAttr::default() };
        w.fs.setattr(&c, &journal, &none).unwrap();
        drop((snapshot, file, journal));
        w.fs.unlink(&c, &w.root, b".sujournal").unwrap();
        w.fs.unlink(&c, &w.root, b"snap").unwrap();
        w.fs.sync().unwrap();
        w.fs.tick().unwrap();
        assert!(!w.fs.journal_stats().kept, "{shape:?}: there is no file");
        w.end();
    }
}
