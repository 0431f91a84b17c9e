//! What fuzzing found in the check, rebuilt by hand: one repair has to be enough.
#![allow(clippy::unwrap_used, reason = "a test")]

mod fsck_util;

use ffs_admin::fsck::{FsckOptions, exit};
use ffs_ondisk::Format;
use ffs_ondisk::cg::CgFields;
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

/// `cg_initediblk` below what is in use, in a group whose check hash is wrong too.
#[test]
fn a_group_with_a_bad_hash_forgets_no_inodes_in_use() {
    one_repair_is_enough(|i| {
        if i.g.format == Format::Ufs2 {
            let at = i.group_at(0);
            let mut header = i.read(at, 256);
            let mut h = CgFields::decode(&header, i.g.endian);
            h.initediblk = 0;
            h.encode(&mut header, i.g.endian);
            i.write(at, &header);
        }
    });
}
