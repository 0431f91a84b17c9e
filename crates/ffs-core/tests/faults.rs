//! Operations on a device that fails once: an operation that returns an error has changed nothing,
//! one that succeeds is complete, and the volume is undamaged in both cases.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common;
use crate::common::errno;
use ffs_admin::fsck::{Fsck, FsckOptions, Id, quick_check};
use ffs_core::{Cred, Env, Ffs, MountOptions, NodeKind, OrderingPolicy, RenameMode, Result, Vnode};
use ffs_core::{Error, SetAttr, WriteMode};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::fault::{Fault, FaultInjector, Rule};
use ffs_device::{BlockDevice, MemDevice, Operation};
use ffs_ondisk::{Endian, FileType, Format};
use std::sync::Arc;

const EIO: i32 = 5;

type Step = (&'static str, fn(&Ffs, &Vnode) -> Result<()>);

fn cred() -> Cred {
    Cred::root()
}

fn at(fs: &Ffs, root: &Vnode, path: &str) -> Result<Vnode> {
    let mut v = root.clone();
    for name in path.split('/') {
        v = fs.lookup(&cred(), &v, name.as_bytes())?;
    }
    Ok(v)
}

fn mv(
    fs: &Ffs,
    root: &Vnode,
    from: (&str, &str),
    to: (&str, &str),
    mode: RenameMode,
) -> Result<()> {
    let (a, b) = (at(fs, root, from.0)?, at(fs, root, to.0)?);
    fs.rename(&cred(), (&a, from.1.as_bytes()), (&b, to.1.as_bytes()), mode)
}

/// Every operation on names, in variants with different code paths.
const STEPS: [Step; 19] = [
    ("create", |fs, r| {
        fs.create(&cred(), &at(fs, r, "d")?, b"new", NodeKind::Regular, 0o644).map(drop)
    }),
    ("create in a new chunk", |fs, r| {
        fs.create(&cred(), &at(fs, r, "full")?, &[b'x'; 250], NodeKind::Regular, 0o644).map(drop)
    }),
    ("create that truncates", |fs, r| {
        fs.create(&cred(), &at(fs, r, "long")?, b"new", NodeKind::Regular, 0o644).map(drop)
    }),
    ("mkdir", |fs, r| fs.mkdir(&cred(), &at(fs, r, "d")?, b"new", 0o755).map(drop)),
    ("short symlink", |fs, r| fs.symlink(&cred(), &at(fs, r, "d")?, b"new", b"to").map(drop)),
    ("long symlink", |fs, r| fs.symlink(&cred(), &at(fs, r, "d")?, b"new", &[b't'; 500]).map(drop)),
    ("link", |fs, r| fs.link(&cred(), &at(fs, r, "d/f")?, &at(fs, r, "e")?, b"new")),
    ("unlink", |fs, r| fs.unlink(&cred(), &at(fs, r, "d")?, b"f")),
    ("unlink of one of two", |fs, r| fs.unlink(&cred(), &at(fs, r, "d")?, b"two")),
    ("rmdir", |fs, r| fs.rmdir(&cred(), &at(fs, r, "d")?, b"empty")),
    ("rename", |fs, r| mv(fs, r, ("d", "f"), ("d", "new"), RenameMode::Replace)),
    ("rename elsewhere", |fs, r| mv(fs, r, ("d", "f"), ("e", "new"), RenameMode::Replace)),
    ("rename into a new chunk", |fs, r| {
        mv(fs, r, ("d", "f"), ("full", &"y".repeat(250)), RenameMode::Replace)
    }),
    ("replace", |fs, r| mv(fs, r, ("d", "f"), ("e", "g"), RenameMode::Replace)),
    ("move directory", |fs, r| mv(fs, r, ("d", "sub"), ("e", "new"), RenameMode::Replace)),
    ("replace directory", |fs, r| mv(fs, r, ("d", "sub"), ("e", "none"), RenameMode::Replace)),
    ("replace beside", |fs, r| mv(fs, r, ("d", "sub"), ("d", "empty"), RenameMode::Replace)),
    ("exchange", |fs, r| mv(fs, r, ("d", "sub"), ("e", "g"), RenameMode::Exchange)),
    ("exchange directories", |fs, r| mv(fs, r, ("d", "sub"), ("e", "none"), RenameMode::Exchange)),
];

fn populate(fs: &Ffs, root: &Vnode) -> Result<()> {
    let c = cred();
    let [d, e, full, long] =
        ["d", "e", "full", "long"].map(|n| fs.mkdir(&c, root, n.as_bytes(), 0o755));
    let (d, e, full, long) = (d?, e?, full?, long?);
    let f = fs.create(&c, &d, b"f", NodeKind::Regular, 0o644)?;
    fs.write(&c, &f, 0, &[3; 5000], WriteMode::default())?;
    let g = fs.create(&c, &e, b"g", NodeKind::Regular, 0o644)?;
    fs.write(&c, &g, 0, &[4; 9000], WriteMode::default())?;
    let two = fs.create(&c, &d, b"two", NodeKind::Regular, 0o644)?;
    fs.link(&c, &two, &e, b"too")?;
    for n in [&b"sub"[..], b"empty"] {
        fs.mkdir(&c, &d, n, 0o755)?;
    }
    fs.mkdir(&c, &e, b"none", 0o755)?;
    fs.create(&c, &at(fs, root, "d/sub")?, b"inside", NodeKind::Fifo, 0o600)?;
    // One more name of this length needs another fragment.
    for i in 0..7u8 {
        fs.create(&c, &full, &[b'a' + i; 250], NodeKind::Fifo, 0o600)?;
    }
    for i in 0..30u8 {
        fs.create(&c, &long, format!("{i:0100}").as_bytes(), NodeKind::Fifo, 0o600)?;
    }
    for i in 3..30u8 {
        fs.unlink(&c, &long, format!("{i:0100}").as_bytes())?;
    }
    let set = SetAttr { perm: Some(0o700), ..SetAttr::default() };
    fs.setattr(&c, &d, &set).map(drop)
}

/// The whole tree: path, type, links, size, content.
fn state(fs: &Ffs, dir: &Vnode, path: &str, all: &mut Vec<String>) {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |e| {
        names.push(e.name.to_vec());
        true
    })
    .unwrap();
    names.sort();
    for n in names.iter().filter(|n| **n != b"." && **n != b"..") {
        let v = fs.lookup(&cred(), dir, n).unwrap();
        let a = fs.getattr(&v);
        let path = format!("{path}/{}", String::from_utf8_lossy(n));
        let mut content = vec![0; 10_000];
        let content = match a.kind {
            FileType::Regular => fs.read(&v, 0, &mut content).map(|n| content[n / 2]).unwrap(),
            _ => 0,
        };
        let size = if a.kind == FileType::Directory { 0 } else { a.size };
        all.push(format!("{path} {:?} {} {size} {content}", a.kind, a.nlink));
        if a.kind == FileType::Directory {
            let up = fs.lookup(&cred(), &v, b"..").unwrap();
            assert_eq!(up.ino(), dir.ino(), "{path}: '..'");
            state(fs, &v, &path, all);
        }
    }
}

fn tree(fs: &Ffs) -> Vec<String> {
    let mut all = Vec::new();
    state(fs, &fs.root().unwrap(), "", &mut all);
    all
}

fn mount(dev: &Arc<FaultInjector<MemDevice>>, policy: OrderingPolicy) -> Ffs {
    let clock = Arc::new(ManualClock::new(Timestamp::new(common::START, 0)));
    let opts = MountOptions { ordering: policy, ..MountOptions::default() };
    let dev = Arc::clone(dev) as Arc<dyn BlockDevice>;
    Ffs::mount(dev, &opts, Env::seeded(clock, 1)).unwrap()
}

/// Damage that a failed device may leave for fsck: blocks without an owner that are still marked as
/// used.
const LEAKS: [Id; 5] = [Id::InoBlocks, Id::CgLeak, Id::CgSummary, Id::CsCg, Id::CsTotal];

/// The volume must be undamaged, except for leaks if the device failed; fsck repairs those.
fn check(dev: &Arc<FaultInjector<MemDevice>>, what: &str, failed: bool) {
    let dev = Arc::clone(dev) as Arc<dyn BlockDevice>;
    let found = quick_check(&dev);
    let all: Vec<String> =
        found.iter().map(|f| format!("{:?} {:?}: {}", f.id, f.ino, f.message)).collect();
    let allowed = |id: Id| failed && LEAKS.contains(&id);
    assert!(found.iter().all(|f| allowed(f.id)), "{what}: fsck found:\n{}", all.join("\n"));
    if failed {
        let options = FsckOptions { force: true, ..FsckOptions::yes() };
        let report = Fsck::new(Arc::clone(&dev), options).run();
        assert_eq!(report.stopped, None, "{what}");
        assert_eq!(quick_check(&dev).len(), 0, "{what}: after the repair");
    }
}

/// Makes the `n`th transfer of `step` fail. Returns false if there is no `n`th.
fn fail_once(base: &MemDevice, step: &Step, op: Operation, n: u64, policy: OrderingPolicy) -> bool {
    let what = format!("{} {policy:?}, {op:?} {n}", step.0);
    let dev = Arc::new(FaultInjector::new(base.snapshot(), Vec::new()));
    let fs = mount(&dev, policy);
    let root = fs.root().unwrap();
    if op != Operation::Read {
        // All blocks are in memory, so only writes can fail.
        tree(&fs);
    }
    let before = dev.counts().injected;
    dev.add(Rule::new(op, Fault::Errno(EIO)).nth(n).times(1));
    let result = step.1(&fs, &root);
    let struck = dev.counts().injected > before;
    dev.heal();
    let after = tree(&fs);
    let expected = expected(base, step, result.is_ok());
    assert_eq!(after, expected, "{what}: {result:?}");
    if let Err(e) = &result {
        assert_eq!((Error::errno(e), struck), (EIO, true), "{what}");
    }
    // The operation can be repeated.
    if result.is_err() {
        assert_eq!(errno(step.1(&fs, &root)), 0, "{what}: again");
    }
    drop(root);
    fs.unmount().unwrap();
    check(&dev, &what, struck);
    let fs = mount(&dev, policy);
    assert_eq!(tree(&fs), self::expected(base, step, true), "{what}: on disk");
    struck
}

/// The tree with or without the step.
fn expected(base: &MemDevice, step: &Step, done: bool) -> Vec<String> {
    let dev = Arc::new(FaultInjector::new(base.snapshot(), Vec::new()));
    let fs = mount(&dev, OrderingPolicy::None);
    if done {
        step.1(&fs, &fs.root().unwrap()).unwrap();
    }
    tree(&fs)
}

fn base() -> MemDevice {
    let mem = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, 8 << 20).unwrap();
    let dev = Arc::new(FaultInjector::new(mem, Vec::new()));
    let fs = mount(&dev, OrderingPolicy::None);
    populate(&fs, &fs.root().unwrap()).unwrap();
    fs.unmount().unwrap();
    check(&dev, "populate", false);
    dev.inner().snapshot()
}

#[test]
fn a_write_that_fails() {
    let base = base();
    for step in &STEPS {
        let mut n = 1;
        while fail_once(&base, step, Operation::Write, n, OrderingPolicy::Sync) {
            n += 1;
        }
        assert!(n > 1, "{}: nothing was written", step.0);
    }
}

#[test]
fn a_read_that_fails() {
    let base = base();
    for step in &STEPS {
        for policy in [OrderingPolicy::None, OrderingPolicy::Sync] {
            let mut n = 1;
            while fail_once(&base, step, Operation::Read, n, policy) {
                n += 1;
            }
            assert!(n > 1, "{}: nothing was read", step.0);
        }
    }
}
