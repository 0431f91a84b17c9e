//! Images that other systems wrote: the content of every file, and of every file in snapshots.

use super::*;
use ffs_ondisk::FileType;
use ffs_testkit::fixtures::{self, ExpectedKind, ExpectedRow};
use sha2::{Digest, Sha256};

/// Finds the inode of a path by reading directories.
fn walk(b: &Bench, path: &[u8]) -> Arc<Inode> {
    let mut ip = b.t.get(Ino::ROOT).unwrap();
    for name in path.split(|&c| c == b'/').filter(|n| !n.is_empty()) {
        let ino = entry(b, &ip, name);
        ip = b.t.get(ino).unwrap();
    }
    ip
}

fn entry(b: &Bench, dir_ip: &Inode, name: &[u8]) -> Ino {
    let data = dir_ip.read();
    let fmt = DirFormat::of(&b.g());
    for lbn in 0..data.d.size.div_ceil(u64::from(b.g().bsize)) {
        let buf = b.view(dir_ip, &data).read_block(Lbn(lbn)).unwrap().unwrap();
        for chunk in buf.read().bytes.chunks(512) {
            for r in dir::records(fmt, chunk).map_while(|r| r.ok()) {
                if r.ino != 0 && r.name == name {
                    return Ino(r.ino);
                }
            }
        }
    }
    panic!("no {}", String::from_utf8_lossy(name));
}

fn compare(b: &Bench, row: &ExpectedRow) {
    let path = String::from_utf8_lossy(&row.path).into_owned();
    let ip = walk(b, &row.path);
    let attr = b.view(&ip, &ip.read()).attr();
    assert_eq!(u64::from(ip.ino.0), row.inode, "{path}");
    assert_eq!((attr.size, attr.nlink), (row.size, row.nlink), "{path}");
    assert_eq!((attr.uid, attr.gid, u32::from(attr.perm)), (row.uid, row.gid, row.mode), "{path}");
    assert_eq!((attr.mtime.secs, attr.mtime.nsec), (row.mtime, row.mtime_nsec as i32), "{path}");
    let Some(want) = row.sha256 else { return };
    let content = match row.kind {
        ExpectedKind::File => b.all(&ip),
        ExpectedKind::Symlink => b.view(&ip, &ip.read()).readlink().unwrap(),
        _ => return,
    };
    assert_eq!(attr.kind == FileType::Symlink, row.kind == ExpectedKind::Symlink);
    assert_eq!(Sha256::digest(&content)[..], want, "{path}");
}

fn open(image: &[u8]) -> Bench {
    let dev: Arc<dyn BlockDevice> = Arc::new(ffs_device::MemDevice::from_bytes(image));
    let b = Bench::open(dev);
    b.t.ump.set_read_only(true);
    b
}

#[test]
fn content_and_attributes_of_real_images() {
    for name in fixtures::image_names() {
        let part = name.starts_with("part-") || name.starts_with("label-");
        if part || name.ends_with("crash") {
            continue;
        }
        let Some(rows) = fixtures::expected(&name) else { continue };
        let Some(image) = fixtures::load(&name) else { continue };
        let b = open(&image);
        let snapshot = |r: &&ExpectedRow| r.reader != "snapshot";
        for row in rows.iter().filter(snapshot) {
            compare(&b, row);
        }
        for row in fixtures::xattrs(&name).unwrap_or_default() {
            let ip = walk(&b, &row.path);
            let ns = [XattrNamespace::User, XattrNamespace::System][usize::from(row.namespace) - 1];
            let value = b.view(&ip, &ip.read()).xattr_get(ns, &row.name).unwrap();
            assert_eq!(value.len() as u64, row.length);
            assert_eq!(Sha256::digest(&value)[..], row.sha256);
        }
        assert_eq!(b.t.ump.cache.stats().dirtyspace, 0, "reading changes nothing");
    }
}

use crate::types::XattrNamespace;

#[test]
fn a_snapshot_file_reads_as_the_volume_was() {
    let Some(image) = fixtures::load("nb-ufs2-snap") else { return };
    let b = open(&image);
    for view in ["s1", "s2"] {
        let ip = walk(&b, format!("/.snap/{view}").as_bytes());
        let bytes = b.g().size * u64::from(b.g().fsize);
        // Read in pieces of odd sizes: within blocks, across rows.
        let mut content = Vec::new();
        let mut numbers = ffs_testkit::rng::SplitMix64::new(5);
        while (content.len() as u64) < bytes {
            let n = 1 + numbers.below(200_000);
            let n = n.min(bytes - content.len() as u64);
            content.extend(b.read(&ip, content.len() as u64, n as usize).unwrap());
        }
        let inside = open(&content);
        let Some(rows) = fixtures::expected(&format!("nb-ufs2-snap.view-{view}")) else { return };
        for row in rows.iter().filter(|r| r.reader != "snapshot") {
            compare(&inside, row);
        }
    }
}
