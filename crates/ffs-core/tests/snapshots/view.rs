//! What a volume shows, and what a snapshot of it shows.

use ffs_admin::fsck::quick_check;
use ffs_core::{Env, Ffs, FileType, MountOptions, Vnode};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::snapshot::image_bytes;
use ffs_ondisk::{FileFlags, Ino};
use foldhash::fast::FixedState;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

/// The permissions, links, size and hash of the content of each file, by path. Snapshots are left
/// out.
pub(crate) type Tree = BTreeMap<String, (u16, u32, usize, u64)>;

/// The tree of a mounted volume.
pub(crate) fn tree_of(fs: &Ffs) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(String::new(), fs.root().unwrap())];
    while let Some((path, file)) = todo.pop() {
        let attr = fs.getattr(&file);
        if attr.flags.contains(FileFlags::SF_SNAPSHOT) {
            continue;
        }
        let mut content = Vec::new();
        match attr.kind {
            FileType::Directory => {
                for (name, ino) in entries(fs, &file) {
                    let child = fs.vget(Ino(ino), None).unwrap();
                    todo.push((format!("{path}/{name}"), child));
                }
            }
            FileType::Regular => {
                content = vec![0; attr.size as usize];
                let n = fs.read(&file, 0, &mut content).unwrap();
                assert_eq!(n, content.len(), "{path}");
            }
            _ => {}
        }
        let hash = FixedState::default().hash_one(&content);
        tree.insert(path, (attr.perm, attr.nlink, content.len(), hash));
    }
    tree
}

fn entries(fs: &Ffs, dir: &Vnode) -> Vec<(String, u32)> {
    let mut all = Vec::new();
    fs.readdir(dir, 0, &mut |e| {
        if e.name != b"." && e.name != b".." {
            all.push((String::from_utf8_lossy(e.name).into_owned(), e.ino.0));
        }
        true
    })
    .unwrap();
    all
}

/// The image in a snapshot, as a device.
pub(crate) fn image_of(fs: &Ffs, snap: &Vnode) -> Arc<dyn BlockDevice> {
    let len = image_bytes(fs.geometry());
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    assert_eq!(fs.read(snap, 0, &mut bytes).unwrap(), bytes.len());
    Arc::new(MemDevice::from_bytes(&bytes))
}

/// The tree that a snapshot shows, without older snapshots, which are empty files named `snap...`.
pub(crate) fn view_of(fs: &Ffs, snap: &Vnode) -> Tree {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let clock = Arc::new(ManualClock::new(Timestamp::new(1_700_000_000, 0)));
    let image = Ffs::mount(image_of(fs, snap), &options, Env::seeded(clock, 1)).unwrap();
    let mut tree = tree_of(&image);
    tree.retain(|path, file| !(path.starts_with("/snap") && file.2 == 0));
    tree
}

/// What `fsck -n` finds on a device.
pub(crate) fn findings(dev: &Arc<dyn BlockDevice>) -> Vec<String> {
    quick_check(dev).iter().map(|f| format!("{f:?}")).collect()
}
