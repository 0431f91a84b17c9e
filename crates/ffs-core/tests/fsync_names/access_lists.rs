//! Access lists: their owner, and a name together with the lists that its file inherited.

use crate::common::{at, mount_on, soft_volume};
use crate::{after_power_loss, options};
use ffs_core::acl::{Acl, Entry, Who};
use ffs_core::{Cred, Error, FileFlags, FsyncScope, SetAttr};
use ffs_ondisk::{Endian, Format};

/// Only the owner can change a file's access lists; a refused call changes nothing.
#[test]
fn access_lists_are_the_owners() {
    let mut opts = options(FsyncScope::All);
    opts.acls = Some(true);
    let shape = (Endian::Little, Format::Ufs2, 8192, 1024);
    let w = mount_on(soft_volume(shape, 16 << 20), &opts);
    let (v, d) = (w.file(&w.root, "f"), w.dir(&w.root, "d"));
    let entry = |who, perm| Entry { who, perm };
    let entries = [
        entry(Who::UserObj, 6),
        entry(Who::User(1001), 6),
        entry(Who::GroupObj, 4),
        entry(Who::Mask, 4),
        entry(Who::Other, 4),
    ];
    let acl = Acl::new(entries.to_vec()).unwrap();
    let (other, owner) = (Cred::user(1001, 1001), Cred::user(7, 7));
    for list in [Some(&acl), None] {
        let set = w.fs.set_access_acl(&other, &v, list, false);
        assert!(matches!(set, Err(Error::NotPermitted)), "{set:?}");
        let set = w.fs.set_default_acl(&other, &d, list);
        assert!(matches!(set, Err(Error::NotPermitted)), "{set:?}");
    }
    assert!(w.fs.access_acl(&v).unwrap().is_none() && w.fs.default_acl(&d).unwrap().is_none());
    let root = Cred::root();
    let mut set = SetAttr { uid: Some(7), ..SetAttr::default() };
    w.fs.setattr(&root, &v, &set).unwrap();
    w.fs.set_access_acl(&owner, &v, Some(&acl), false).unwrap();
    set.flags = Some(FileFlags::UF_IMMUTABLE);
    w.fs.setattr(&root, &v, &set).unwrap();
    let removed = w.fs.set_access_acl(&owner, &v, None, false);
    assert!(matches!(removed, Err(Error::NotPermitted)), "{removed:?}");
    assert!(w.fs.access_acl(&v).unwrap().is_some());
    drop((v, d));
    w.end();
}

/// A file made in a directory with a default access list has its list in every state of the device
/// that has its name.
#[test]
fn an_inherited_access_list_is_there_with_the_name() {
    let mut opts = options(FsyncScope::All);
    opts.acls = Some(true);
    let shape = (Endian::Little, Format::Ufs2, 8192, 1024);
    let w = mount_on(soft_volume(shape, 16 << 20), &opts);
    let c = Cred::root();
    let d = w.dir(&w.root, "d");
    let entry = |who, perm| Entry { who, perm };
    let default = Acl::new(vec![
        entry(Who::UserObj, 7),
        entry(Who::User(1001), 6),
        entry(Who::GroupObj, 0),
        entry(Who::Mask, 6),
        entry(Who::Other, 0),
    ]);
    w.fs.set_default_acl(&c, &d, Some(&default.unwrap())).unwrap();
    w.fs.sync().unwrap();
    let before = w.record();
    let made = [w.file(&d, "secret"), w.dir(&d, "below")];
    let other = w.file(&d, "other");
    w.fs.fsync(&other).unwrap();
    let mut seen = 0;
    w.each_write(&before, |dev, offset| {
        let fs = after_power_loss(dev);
        for path in ["d/secret", "d/below"] {
            let Ok(v) = at(&fs, path) else { continue };
            seen += 1;
            let acl = fs.access_acl(&v).unwrap();
            assert!(acl.is_some(), "{path} without its list, a write at {offset}");
            let is_dir = path == "d/below";
            assert_eq!(fs.default_acl(&v).unwrap().is_some(), is_dir, "{path}, {offset}");
        }
    });
    assert!(seen > 0, "neither name was seen");
    drop((made, other, d));
    w.end();
}
