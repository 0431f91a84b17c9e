//! Images that BSD systems wrote. Everything in them must be read as independent readers read it;
//! operations on writable ones must not affect other files, and fsck must have no findings.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests stop at surprises"
)]

use ffs_admin::fsck::quick_check;
use ffs_core::{Cred, Env, Ffs, MountOptions, NodeKind, RenameMode, SetAttr, Vnode, WriteMode};
use ffs_core::{Error, OrderingPolicy, XattrNamespace};
use ffs_device::partition::{self, Window};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::FileType;
use ffs_testkit::fixtures::{self, ExpectedKind, ExpectedRow};
use ffs_testkit::rng::{SplitMix64, fill};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Larger files have no hash in the expected tree.
const LARGEST_HASHED: u64 = 200 << 20;

/// The file system in fixture `name`: the whole image, or the partition that contains it.
fn device(name: &str) -> Option<Arc<dyn BlockDevice>> {
    let whole: Arc<dyn BlockDevice> = Arc::new(MemDevice::from_bytes(&fixtures::load(name)?));
    if !name.starts_with("part-") {
        return Some(whole);
    }
    let table = partition::scan(&*whole).unwrap();
    let found = table.partitions.iter().find(|p| {
        let window = Window::of(Arc::clone(&whole), p, name).unwrap();
        ffs_ondisk::sbsearch::probe(|at, len| {
            let mut bytes = vec![0; len];
            window.read_at(at, &mut bytes).map(|()| bytes)
        })
    });
    let partition = found.expect("a partition with a file system");
    Some(Arc::new(Window::of(Arc::clone(&whole), partition, name).unwrap()))
}

fn mount(dev: &Arc<dyn BlockDevice>, read_only: bool) -> Ffs {
    let opts =
        MountOptions { read_only, ordering: OrderingPolicy::None, ..MountOptions::default() };
    Ffs::mount(Arc::clone(dev), &opts, Env::system()).unwrap()
}

fn walk(fs: &Ffs, path: &[u8]) -> Result<Vnode, Error> {
    let parts = path.split(|&b| b == b'/').filter(|p| !p.is_empty());
    parts.fold(fs.root(), |at, name| fs.lookup(&Cred::root(), &at?, name))
}

fn hash(fs: &Ffs, file: &Vnode, size: u64) -> [u8; 32] {
    let mut sum = Sha256::new();
    let mut buf = vec![0u8; 1 << 20];
    let mut at = 0;
    while at < size {
        let n = fs.read(file, at, &mut buf).unwrap();
        assert!(n > 0, "short read at {at} of {size}");
        sum.update(&buf[..n]);
        at += n as u64;
    }
    sum.finalize().into()
}

/// Compares one file with its row. `loose` directories may have been changed by the operations.
fn check_row(fs: &Ffs, row: &ExpectedRow, loose: bool) {
    let path = String::from_utf8_lossy(&row.path).into_owned();
    let file = walk(fs, &row.path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let attr = fs.getattr(&file);
    let kind = match row.kind {
        ExpectedKind::File => FileType::Regular,
        ExpectedKind::Dir => FileType::Directory,
        ExpectedKind::Symlink => FileType::Symlink,
        ExpectedKind::Fifo => FileType::Fifo,
        ExpectedKind::Chr => FileType::Char,
        ExpectedKind::Blk => FileType::Block,
        ExpectedKind::Socket => FileType::Socket,
    };
    assert_eq!(attr.kind, kind, "{path}: type");
    assert_eq!(u32::from(attr.perm), row.mode, "{path}: mode");
    assert_eq!((attr.uid, attr.gid), (row.uid, row.gid), "{path}: owner");
    assert_eq!(u64::from(attr.ino.0), row.inode, "{path}: inode");
    assert_eq!(attr.flags.bits(), row.flags, "{path}: flags");
    if !loose {
        assert_eq!(attr.size, row.size, "{path}: size");
        assert_eq!(attr.nlink, row.nlink, "{path}: links");
        let mtime = (attr.mtime.secs, attr.mtime.nsec as u32);
        assert_eq!(mtime, (row.mtime, row.mtime_nsec), "{path}: mtime");
    }
    if kind == FileType::Symlink {
        let target = fs.readlink(&file).unwrap();
        assert_eq!(target, row.target, "{path}: target");
        let sum: [u8; 32] = Sha256::digest(&target).into();
        assert!(row.sha256.is_none_or(|want| want == sum), "{path}: target hash");
    }
    if kind == FileType::Regular
        && let Some(want) = row.sha256
        && row.size <= LARGEST_HASHED
    {
        assert_eq!(hash(fs, &file, row.size), want, "{path}: content");
    }
}

/// All paths of the tree, sorted.
fn list(fs: &Ffs) -> Vec<Vec<u8>> {
    let mut out = vec![b"/".to_vec()];
    let mut todo = vec![Vec::new()];
    while let Some(dir) = todo.pop() {
        let node = walk(fs, &dir).unwrap();
        fs.readdir(&node, 0, &mut |e| {
            if e.name != b"." && e.name != b".." {
                let path = [dir.as_slice(), b"/", e.name].concat();
                if e.kind == Some(FileType::Directory) || e.kind.is_none() {
                    todo.push(path.clone());
                }
                out.push(path);
            }
            true
        })
        .map_or_else(|e| assert_eq!(e.errno(), 20, "{dir:?}: {e}"), |()| ());
    }
    out.sort();
    out
}

fn check_tree(fs: &Ffs, rows: &[ExpectedRow]) {
    for row in rows {
        check_row(fs, row, false);
    }
    let mut want: Vec<Vec<u8>> = rows.iter().map(|r| r.path.clone()).collect();
    want.sort();
    assert_eq!(list(fs), want, "names");
}

/// The fixture names that have an expected tree.
fn fixtures_with_rows() -> Vec<(String, Vec<ExpectedRow>)> {
    let with_rows = |name: String| fixtures::expected(&name).map(|rows| (name, rows));
    fixtures::image_names().into_iter().filter_map(with_rows).collect()
}

#[test]
fn every_fixture_reads_back_as_expected() {
    let all = fixtures_with_rows();
    if all.is_empty() {
        println!("skipped: no fixtures");
    }
    for (name, rows) in all {
        println!("{name}: {} rows", rows.len());
        let Some(dev) = device(&name) else { continue };
        let fs = mount(&dev, true);
        check_tree(&fs, &rows);
        let counters = fs.counters();
        assert_eq!(counters.bytes_written, 0, "{name}: a read-only mount wrote");
    }
}

#[test]
fn extended_attributes_of_fixtures_read_back() {
    for name in ["freebsd14-ufs2-le-4m", "freebsd14-ufs2-be-4m"] {
        let (Some(dev), Some(rows)) = (device(name), fixtures::xattrs(name)) else { continue };
        let fs = mount(&dev, true);
        for row in &rows {
            let file = walk(&fs, &row.path).unwrap();
            let ns = if row.namespace == 1 { XattrNamespace::User } else { XattrNamespace::System };
            let value = fs.getxattr(&Cred::root(), &file, ns, &row.name).unwrap();
            let sum: [u8; 32] = Sha256::digest(&value).into();
            assert_eq!((value.len() as u64, sum), (row.length, row.sha256));
            let listed = fs.listxattr(&Cred::root(), &file).unwrap();
            let here = rows.iter().filter(|r| r.path == row.path).count();
            assert_eq!(listed.len(), here);
        }
    }
}

#[test]
fn snapshots_of_another_system_are_kept_up() {
    let views = ["s1", "s2"].map(|snap| fixtures::expected(&format!("nb-ufs2-snap.view-{snap}")));
    let (Some(dev), [Some(first), Some(second)]) = (device("nb-ufs2-snap"), views) else { return };
    let fs = mount(&dev, false);
    assert_eq!(fs.read_only_reason(), None);
    let shows = |snap: &str, rows: &[ExpectedRow]| {
        let file = walk(&fs, format!("/.snap/{snap}").as_bytes()).unwrap();
        let mut bytes = vec![0; dev.len_bytes() as usize];
        let n = fs.read(&file, 0, &mut bytes).unwrap();
        assert_eq!(n, bytes.len());
        let inside: Arc<dyn BlockDevice> = Arc::new(MemDevice::from_bytes(&bytes));
        check_tree(&mount(&inside, true), rows);
    };
    shows("s1", &first);
    shows("s2", &second);
    for seed in 0..4 {
        work(&fs, seed);
        fs.sync().unwrap();
        shows("s1", &first);
        shows("s2", &second);
        let root = fs.root().unwrap();
        let renamed = format!("work {seed}");
        let (from, to) = (b"ffs work".as_slice(), renamed.as_bytes());
        fs.rename(&Cred::root(), (&root, from), (&root, to), RenameMode::Replace).unwrap();
    }
    let snaps = walk(&fs, b"/.snap").unwrap();
    fs.unlink(&Cred::root(), &snaps, b"s1").unwrap();
    fs.sync().unwrap();
    shows("s2", &second);
    drop(snaps);
    fs.unmount().unwrap();
    let findings = quick_check(&dev);
    assert!(findings.is_empty(), "{findings:#?}");
}

/// Fixtures whose volume is undamaged and may be written.
fn may_be_written(name: &str) -> bool {
    let read_only = ["openbsd28-ufs1-floppy", "nb-ufs2-crash"];
    !read_only.contains(&name) && name != "freebsd-ufs1-10m-b"
}

#[test]
fn random_work_beside_a_fixture_leaves_it_alone() {
    for (name, rows) in fixtures_with_rows() {
        let Some(dev) = device(&name) else { continue };
        let fs = mount(&dev, false);
        assert_eq!(
            !fs.is_read_only(),
            may_be_written(&name),
            "{name}: {:?}",
            fs.read_only_reason()
        );
        if fs.is_read_only() {
            continue;
        }
        println!("{name}: working, seed 7");
        work(&fs, 7);
        fs.unmount().unwrap();
        let findings = quick_check(&dev);
        assert!(findings.is_empty(), "{name}: {findings:#?}");
        let fs = mount(&dev, true);
        for row in &rows {
            check_row(&fs, row, row.path == b"/");
        }
    }
}

/// Creates, fills, renames and removes files in a directory of its own.
fn work(fs: &Ffs, seed: u64) {
    let root = Cred::root();
    let mut rng = SplitMix64::new(seed);
    let top = fs.mkdir(&root, &fs.root().unwrap(), b"ffs work", 0o755).unwrap();
    let mut dirs = vec![top];
    for step in 0..600u32 {
        let dir = dirs[rng.below(dirs.len() as u64) as usize].clone();
        let name = format!("file{}", rng.below(60)).into_bytes();
        let result = match rng.below(10) {
            0 => {
                fs.mkdir(&root, &dir, format!("dir{step}").as_bytes(), 0o700).map(|d| dirs.push(d))
            }
            1..=3 => fs.create(&root, &dir, &name, NodeKind::Regular, 0o600).map(|_| ()),
            4 => fs.unlink(&root, &dir, &name),
            5 => {
                let to = dirs[rng.below(dirs.len() as u64) as usize].clone();
                fs.rename(&root, (&dir, &name), (&to, b"renamed"), RenameMode::Replace)
            }
            6 => {
                fs.symlink(&root, &dir, &name, &vec![b'l'; rng.below(200) as usize + 1]).map(|_| ())
            }
            7 => fs.lookup(&root, &dir, &name).and_then(|f| {
                let set = SetAttr { size: Some(rng.below(50_000)), ..SetAttr::default() };
                fs.setattr(&root, &f, &set).map(|_| ())
            }),
            _ => fs.lookup(&root, &dir, &name).and_then(|f| {
                let data = fill(rng.below(60_000) as usize, rng.next_u64(), 0);
                let at = rng.below(200_000);
                fs.write(&root, &f, at, &data, WriteMode::default()).map(|_| ())
            }),
        };
        // Expected errors: existing names, missing files, writes to symbolic links, full images.
        if let Err(e) = result {
            assert!([2, 17, 20, 21, 22, 28].contains(&e.errno()), "step {step}: {e}");
        }
    }
}
