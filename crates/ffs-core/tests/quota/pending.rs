//! A quota that only files in removal fill: operations wait for the removals, as they do on a full
//! volume.

use super::*;
use crate::common::errno;
use ffs_core::{Env, RenameMode, XattrNamespace, XattrSet};
use ffs_device::DeviceError;
use ffs_device::clock::{ManualClock, Timestamp};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A user at a limit of blocks and inodes: `full` has all blocks, and `f0` to `f7` most inodes.
fn full_world(shape: Shape) -> World {
    let w = quota_world(shape, OrderingPolicy::SoftUpdates);
    let file = new_file(&w, &user(), "full").unwrap();
    for n in 0..8 {
        new_file(&w, &user(), &format!("f{n}")).unwrap();
    }
    write(&w, &user(), &file, 0, 65536).unwrap();
    let used = record(&w.fs, QuotaType::User, 10);
    let full = limits([0, used.curblocks + 1], [0, used.curinodes + 1]);
    w.fs.set_quota(QuotaType::User, 10, &full).unwrap();
    assert_eq!(errno(new_file(&w, &user(), "more")), EDQUOT);
    let small = w.get(&w.get(&w.root, "d").unwrap(), "f0").unwrap();
    assert_eq!(errno(write(&w, &user(), &small, 0, 1)), EDQUOT);
    w
}

#[test]
fn every_operation_finds_the_quota_of_removed_files_at_once() {
    type Step = fn(&World, &Vnode, &Vnode) -> ffs_core::Result<()>;
    let steps: [(&str, Step); 10] = [
        ("write", |w, _, f| write(w, &user(), f, 0, 65536).map(|n| assert_eq!(n, 65536))),
        ("create", |w, _, _| new_file(w, &user(), "new").map(drop)),
        ("unnamed", |w, d, _| w.fs.create_unnamed(&user(), d, 0o600, true).map(drop)),
        ("mkdir", |w, d, _| w.fs.mkdir(&user(), d, b"new", 0o755).map(drop)),
        ("symlink", |w, d, _| w.fs.symlink(&user(), d, b"new", &[b'x'; 600]).map(drop)),
        ("allocate", |w, _, f| w.fs.fallocate(&user(), f, 0, 65536, ffs_core::Fallocate::Allocate)),
        ("truncate", |w, _, f| {
            let set = SetAttr { size: Some(100_000), ..SetAttr::default() };
            w.fs.setattr(&user(), f, &set).map(drop)
        }),
        ("attribute", |w, _, f| {
            let (ns, value) = (XattrNamespace::User, [1; 200]);
            w.fs.setxattr(&user(), f, ns, b"x", &value, XattrSet::Any)
        }),
        ("rename", |w, d, _| w.fs.rename(&user(), (d, b"f1"), (d, b"f2"), RenameMode::Replace)),
        ("gift", |w, d, _| {
            // Another user's file, which has content.
            let give = SetAttr { uid: Some(10), ..SetAttr::default() };
            let other = w.get(d, "other")?;
            w.fs.setattr(&Cred::root(), &other, &give).map(drop)
        }),
    ];
    for shape in [UFS2, UFS1] {
        for (name, step) in steps {
            if name == "attribute" && shape == UFS1 {
                continue;
            }
            let w = full_world(shape);
            let d = w.get(&w.root, "d").unwrap();
            let other = w.fs.create(&Cred::user(11, 21), &d, b"other", NodeKind::Regular, 0o644);
            write(&w, &Cred::user(11, 21), &other.unwrap(), 0, 5000).unwrap();
            let small = w.get(&d, "f0").unwrap();
            w.fs.sync().unwrap();
            w.fs.unlink(&user(), &d, b"full").unwrap();
            let done = step(&w, &d, &small);
            assert!(done.is_ok(), "{shape:?}: {name}: {done:?}");
            drop((small, d));
            end_checked(w);
        }
    }
}

/// Each level of a removed tree is freed after the one above it.
#[test]
fn a_deep_tree_that_was_removed_frees_its_quota_at_once() {
    const DEEP: usize = 150;
    let w = quota_world(UFS2, OrderingPolicy::SoftUpdates);
    let mut dirs = vec![w.get(&w.root, "d").unwrap()];
    for _ in 0..DEEP {
        dirs.push(w.fs.mkdir(&user(), dirs.last().unwrap(), b"s", 0o755).unwrap());
    }
    let used = record(&w.fs, QuotaType::User, 10).curinodes;
    w.fs.set_quota(QuotaType::User, 10, &limits([0, 0], [0, used + 1])).unwrap();
    w.fs.sync().unwrap();
    assert_eq!(errno(new_file(&w, &user(), "one more")), EDQUOT);
    while dirs.len() > 1 {
        dirs.pop();
        w.fs.rmdir(&user(), dirs.last().unwrap(), b"s").unwrap();
    }
    drop(dirs);
    for n in 0..used {
        new_file(&w, &user(), &n.to_string()).unwrap();
    }
    assert_eq!(errno(new_file(&w, &user(), "one more")), EDQUOT);
    end_checked(w);
}

type Hook = Box<dyn FnOnce() + Send>;

/// A device that makes a call before it reads a place.
struct Hooked {
    inner: MemDevice,
    place: AtomicU64,
    hook: Mutex<Option<Hook>>,
}

impl BlockDevice for Hooked {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        if offset == self.place.load(Ordering::SeqCst)
            && let Some(hook) = self.hook.lock().unwrap().take()
        {
            hook();
        }
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.inner.write_at(offset, buf)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }
}

/// A file is no longer pending while another thread frees it, and its quota is not yet released.
#[test]
fn an_operation_waits_for_a_thread_that_frees_a_file() {
    let w = quota_world(UFS2, OrderingPolicy::SoftUpdates);
    let file = new_file(&w, &user(), "full").unwrap();
    new_file(&w, &user(), "small").unwrap();
    write(&w, &user(), &file, 0, 20 * 16384).unwrap();
    let (ino, g) = (file.ino(), *w.fs.geometry());
    let used = record(&w.fs, QuotaType::User, 10).curblocks;
    w.fs.set_quota(QuotaType::User, 10, &limits([0, used + 1], [0, 0])).unwrap();
    drop(file);
    let inner = unmounted(w).with_durability(Durability::OnFlush);
    let mut raw = vec![0; g.format.dinode_size()];
    let at = g.frag_to_byte(g.ino_to_fsba(ino)) + g.ino_to_fsbo(ino) as u64;
    inner.read_at(at, &mut raw).unwrap();
    let indirect = ffs_ondisk::FragNo(ffs_ondisk::Dinode::decode(&g, &raw).ib[0].unsigned_abs());
    let place = AtomicU64::new(g.frag_to_byte(indirect));
    let dev = Arc::new(Hooked { inner, place, hook: Mutex::new(None) });
    let clock = Arc::new(ManualClock::new(Timestamp::new(crate::common::START, 0)));
    let soft = options(OrderingPolicy::SoftUpdates);
    let fs = Arc::new(Ffs::mount(dev.clone(), &soft, Env::seeded(clock, 1)).unwrap());
    let d = fs.lookup(&Cred::root(), &fs.root().unwrap(), b"d").unwrap();
    let small = fs.lookup(&Cred::root(), &d, b"small").unwrap();
    fs.unlink(&user(), &d, b"full").unwrap();
    let (go, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (began, ended, volume) = (Arc::clone(&go), Arc::clone(&done), Arc::clone(&fs));
    *dev.hook.lock().unwrap() = Some(Box::new(move || {
        let before = volume.counters().space_requests;
        began.store(true, Ordering::SeqCst);
        // The other thread waits for this one, or it has failed.
        while volume.counters().space_requests == before && !ended.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }));
    let written = std::thread::scope(|threads| {
        let other = threads.spawn(|| {
            while !go.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let written = fs.write(&user(), &small, 0, &[1; 16384], WriteMode::default());
            done.store(true, Ordering::SeqCst);
            written
        });
        fs.sync().unwrap();
        // Without a read of the place the other thread would not begin.
        assert!(dev.hook.lock().unwrap().is_none() || !go.swap(true, Ordering::SeqCst));
        other.join().unwrap()
    });
    assert!(dev.hook.lock().unwrap().is_none(), "the file was freed without a read");
    assert_eq!(written.unwrap(), 16384);
    drop((small, d));
    fs.unmount().unwrap();
}
