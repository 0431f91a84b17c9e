//! What fuzzing found in the check, rebuilt by hand: one repair has to be enough.
#![allow(clippy::unwrap_used, reason = "a test")]

mod fsck_util;

use ffs_admin::fsck::{FsckOptions, exit};
use ffs_ondisk::cg::CgFields;
use ffs_ondisk::{CgMut, Format};
use fsck_util::{Img, KINDS};

/// Damages every kind of volume; one repair must leave nothing.
fn one_repair_is_enough(damage: impl Fn(&mut Img)) {
    for kind in KINDS {
        let mut img = Img::with_tree(kind).copy();
        damage(&mut img);
        let repair = img.fsck(FsckOptions::yes());
        assert_eq!(repair.exit_code, exit::OK, "{kind:?}: {:#?}", repair.findings);
        let look = img.fsck(FsckOptions::no());
        assert!(look.is_silent(), "{kind:?}: {:#?}, first {:#?}", look.findings, repair.findings);
    }
}

/// As [`one_repair_is_enough`], and the tree is what it was.
fn nothing_is_lost(damage: impl Fn(&mut Img)) {
    one_repair_is_enough(|i| {
        let tree = i.tree();
        damage(i);
        let repaired = i.copy();
        repaired.fsck(FsckOptions::yes());
        assert_eq!(repaired.tree(), tree);
    });
}

/// `cg_initediblk` and the inode map both say that no inode was ever used.
#[test]
fn a_group_forgets_no_inodes_in_use() {
    nothing_is_lost(|i| {
        if i.g.format == Format::Ufs2 {
            i.edit_group(0, |g, bytes| {
                let mut h = CgFields::decode(bytes, g.endian);
                h.initediblk = 0;
                h.encode(bytes, g.endian);
                for n in 0..g.ipg {
                    CgMut::new(g, bytes).set_inode_used(n, false);
                }
            });
        }
    });
}
