//! Renames with an action between two of their steps.

use super::*;
use crate::buf::BufKey;
use crate::mount::Env;
use crate::options::{MountOptions, OrderingPolicy};
use crate::types::{NodeKind, WriteMode};
use ffs_ondisk::{Endian, Format};
use std::cell::RefCell;
use std::sync::mpsc;
use std::time::Duration;

thread_local! {
    /// An action that runs once between two steps of a rename.
    static BETWEEN: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

pub(super) fn between() {
    if let Some(act) = BETWEEN.take() {
        act();
    }
}

/// With `replace_order`: another thread writes the directory after it names the new file, and
/// before the dependency on the file's content is recorded.
#[test]
fn a_replacing_name_is_not_written_before_it_depends_on_the_content() {
    const LEN: usize = 3000;
    let dev = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 4096, 512, 8 << 20).unwrap();
    let dev = Arc::new(dev);
    let ordering = OrderingPolicy::SoftUpdates;
    let opts = MountOptions { ordering, force: true, ..MountOptions::default() };
    let fs = Arc::new(Ffs::mount(dev.clone(), &opts, Env::system()).unwrap());
    let (c, root) = (Cred::root(), fs.root().unwrap());
    let make = |name: &[u8]| fs.create(&c, &root, name, NodeKind::Regular, 0o644).unwrap();
    let (old, new) = (make(b"f"), make(b"new"));
    fs.write(&c, &old, 0, &[1; LEN], WriteMode::default()).unwrap();
    fs.sync().unwrap();
    fs.write(&c, &new, 0, &[2; LEN], WriteMode::default()).unwrap();
    let (other, device, (sender, receiver)) = (fs.clone(), dev.clone(), mpsc::channel());
    let (dir, ino) = (root.ip.ino, new.ip.ino);
    BETWEEN.set(Some(Box::new(move || {
        // Writes the inode, with its new link, then the directory, but not the content.
        let (g, cache) = (other.0.ump.g(), &other.0.ump.cache);
        for key in [BufKey::Meta(g.ino_to_fsba(ino)), BufKey::File(dir, 0)] {
            cache.bwrite(&cache.incore(key).unwrap()).unwrap();
            cache.flush_device().unwrap();
        }
        sender.send(device.snapshot()).unwrap();
    })));
    fs.rename(&c, (&root, b"new"), (&root, b"f"), RenameMode::Replace).unwrap();
    let crashed = receiver.try_recv().unwrap();
    let fs = Ffs::mount(Arc::new(crashed), &opts, Env::system()).unwrap();
    let root = fs.root().unwrap();
    let mut found = [0; LEN];
    let f = fs.lookup(&c, &root, b"f").unwrap();
    let read = fs.read(&f, 0, &mut found).unwrap();
    assert_eq!((read, found), (LEN, [1; LEN]), "neither the old file nor the new one");
}

#[test]
fn a_lock_left_from_the_try_before_is_not_waited_for() {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let dev =
            ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, 8 << 20).unwrap();
        let fs = Ffs::mount(Arc::new(dev), &MountOptions::default(), Env::system()).unwrap();
        let cred = Cred::root();
        let root = fs.root().unwrap();
        let x = fs.mkdir(&cred, &root, b"x", 0o755).unwrap();
        let y = fs.mkdir(&cred, &x, b"y", 0o755).unwrap();
        fs.mkdir(&cred, &root, b"s", 0o755).unwrap();
        let req = Request {
            cred: &cred,
            from: NameInDir { dir: &root.ip, name: b"s" },
            to: NameInDir { dir: &y.ip, name: b"s" },
            mode: RenameMode::Replace,
        };
        // The name meant `x` in the try before; now `x` is only above the target.
        let alone = fs.0.rename_lock.lock();
        let moved = attempt(&fs.0, req, Some(&x.ip), true);
        drop(alone);
        done.send(matches!(moved, Ok(Attempt::Done))).unwrap();
    });
    assert_eq!(wait.recv_timeout(Duration::from_secs(20)), Ok(true));
}
