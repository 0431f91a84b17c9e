//! Failures of the mounted file system that fuzzing found, rebuilt by hand.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::edit::edit;
use ffs_admin::fsck::{Fsck, FsckOptions, Id, quick_check};
use ffs_core::{Cred, Env, Ffs, MountOptions, XattrNamespace, XattrSet};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::{Endian, Format};
use std::sync::Arc;

fn mount(dev: &Arc<MemDevice>) -> Ffs {
    Ffs::mount(dev.clone(), &MountOptions::default(), Env::system()).unwrap()
}

/// The text of a short link is in the pointer area. Blocks of its extended attributes do not turn
/// the text into pointers.
#[test]
fn a_short_link_with_attributes_keeps_its_text() {
    for endian in [Endian::Little, Endian::Big] {
        let made = ffs_admin::newfs::quick(endian, Format::Ufs2, 4096, 512, 2 << 20).unwrap();
        let dev = Arc::new(made);
        let (root, user) = (Cred::root(), XattrNamespace::User);
        let fs = mount(&dev);
        let texts = [1usize, 59, 119, 120, 300].map(|len| vec![b'x'; len]);
        let made = texts.clone().map(|text| {
            let name = format!("link{}", text.len());
            let link = fs.symlink(&root, &fs.root().unwrap(), name.as_bytes(), &text).unwrap();
            fs.setxattr(&root, &link, user, b"name", &[1; 90], XattrSet::Any).unwrap();
            (name, link.ino())
        });
        let g = *fs.geometry();
        fs.unmount().unwrap();
        drop(fs);
        let disk: Arc<dyn BlockDevice> = dev.clone();
        assert_eq!(quick_check(&disk), []);
        // A repair of other fields rewrites the inodes.
        made.iter().for_each(|(_, ino)| drop(edit(&dev, &g, *ino, |d| d.nlink = 7)));
        let report = Fsck::new(disk.clone(), FsckOptions::yes()).run();
        assert_eq!(report.ids(), [Id::LinkHigh], "{:#?}", report.findings);
        assert_eq!(quick_check(&disk), []);
        let fs = mount(&dev);
        for ((name, _), text) in made.iter().zip(&texts) {
            let link = fs.lookup(&root, &fs.root().unwrap(), name.as_bytes()).unwrap();
            assert_eq!(&fs.readlink(&link).unwrap(), text, "{name}");
            assert_eq!(fs.getxattr(&root, &link, user, b"name").unwrap(), [1; 90]);
            fs.removexattr(&root, &link, user, b"name").unwrap();
            fs.unlink(&root, &fs.root().unwrap(), name.as_bytes()).unwrap();
        }
        fs.unmount().unwrap();
        assert_eq!(quick_check(&disk), []);
    }
}
