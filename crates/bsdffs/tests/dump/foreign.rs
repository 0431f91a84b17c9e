//! Streams in the forms of other systems, and access lists in both byte orders.

use crate::random::Changes;
use crate::seen::{assert_same, see};
use crate::stream::{big_endian, with_old_headers};
use crate::{Image, VOLUMES, apply, open, restore};
use ffs_core::acl::{Acl, Entry, Who};
use ffs_core::{Cred, NodeKind};
use ffs_ondisk::Endian;

/// UFS1 has no extended attributes and no creation times, which old streams do not store.
#[test]
fn both_headers_and_both_byte_orders_are_read() {
    for seed in 0..6 {
        let image = Image::new(VOLUMES[1]);
        let before = image.write(|ffs| {
            Changes::new(ffs, seed).make(60);
            see(ffs)
        });
        let plain = image.full_dump();
        let old = with_old_headers(&plain);
        for (name, stream) in [
            ("big-endian", big_endian(&plain)),
            ("old", old.clone()),
            ("old, big-endian", big_endian(&old)),
        ] {
            assert_eq!(open(&stream).header().date, open(&plain).header().date, "{name}");
            let after = restore(&stream, VOLUMES[1]).write(see);
            assert_same(&before, &after, &format!("seed {seed}, {name}"));
        }
        let rebuilt = Image::new(VOLUMES[3]);
        apply(&rebuilt, &big_endian(&old)).unwrap();
        assert_same(&before, &rebuilt.write(see), "rebuilt");
    }
}

/// A volume that applies access lists.
fn with_acls(volume: (ffs_ondisk::Format, Endian)) -> Image {
    let image = Image::new(volume);
    let acls = Some(true);
    let options = ffs_admin::tunefs::TunefsOptions { acls, ..Default::default() };
    ffs_admin::tunefs::tunefs(&*image.device, &options).unwrap();
    image
}

#[test]
fn access_lists_come_back_in_both_byte_orders() {
    let list = |user, perm| {
        let entries = [
            (Who::UserObj, 7),
            (Who::User(user), perm),
            (Who::GroupObj, 5),
            (Who::Mask, 6),
            (Who::Other, 0),
        ];
        Acl::new(entries.map(|(who, perm)| Entry { who, perm }).to_vec()).unwrap()
    };
    for from in [VOLUMES[0], VOLUMES[2]] {
        for to in [VOLUMES[0], VOLUMES[2]] {
            let (image, target) = (with_acls(from), with_acls(to));
            let before = image.write(|ffs| {
                let (cred, root) = (Cred::root(), ffs.root().unwrap());
                let file = ffs.create(&cred, &root, b"file", NodeKind::Regular, 0o640).unwrap();
                ffs.set_access_acl(&cred, &file, Some(&list(1001, 6)), false).unwrap();
                let dir = ffs.mkdir(&cred, &root, b"dir", 0o750).unwrap();
                ffs.set_default_acl(&cred, &dir, Some(&list(70_000, 4))).unwrap();
                see(ffs)
            });
            apply(&target, &image.full_dump()).unwrap();
            assert_same(&before, &target.write(see), &format!("{from:?} -> {to:?}"));
        }
    }
}
