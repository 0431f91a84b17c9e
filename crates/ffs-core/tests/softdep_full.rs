//! Soft updates on a full volume: an operation that fails half way leaves no dependency.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use crate::common::{START, World, mount_on, soft_updates};
use ffs_admin::fsck::quick_check;
use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_core::{Cred, Error, Fallocate, NodeKind, SetAttr, Vnode, WriteMode};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{BlockDevice, MemDevice, Rng, SplitMix64};
use ffs_ondisk::{Dinode, Format, FragNo, Ino};
use std::collections::BTreeMap;
use std::sync::Arc;

/// 4 MB, blocks of 4096 bytes and fragments of 512, at least four groups, no reserve.
fn world() -> World {
    let dev = MemDevice::new(4 << 20);
    let options = NewfsOptions {
        format: Some(Format::Ufs2),
        bsize: Some(4096),
        fsize: Some(512),
        density: Some(4096),
        minfree: 0,
        max_group: Some(2048),
        soft_updates: true,
        ..NewfsOptions::default()
    };
    let clock = ManualClock::new(Timestamp::new(START, 0));
    newfs(&dev, &options, &clock, &SplitMix64::new(1), &mut |_, _| {}).unwrap();
    mount_on(dev, &soft_updates())
}

/// Makes files of `size` bytes until the volume is full.
fn fill(w: &World, prefix: &str, size: usize) -> BTreeMap<String, Vnode> {
    let mut made = BTreeMap::new();
    for n in 0.. {
        let name = format!("{prefix}{n}");
        let c = Cred::root();
        let made_one = w.fs.create(&c, &w.root, name.as_bytes(), NodeKind::Regular, 0o644);
        let Ok(v) = made_one else { break };
        if w.fs.write(&c, &v, 0, &vec![b'x'; size], WriteMode::default()).is_err() {
            drop(v);
            w.fs.unlink(&c, &w.root, name.as_bytes()).unwrap();
            break;
        }
        made.insert(name, v);
    }
    made
}

/// The inode of a file on the device.
fn inode_on_device(w: &World, v: &Vnode) -> Dinode {
    let (g, ino) = (*w.fs.geometry(), w.fs.getattr(v).ino);
    let mut bytes = vec![0; g.bsize as usize];
    w.dev.read_at(g.ino_to_fsba(ino).0 * u64::from(g.fsize), &mut bytes).unwrap();
    Dinode::decode(&g, &bytes[g.ino_to_fsbo(ino)..])
}

/// The first block of a file on the device.
fn first_block(w: &World, v: &Vnode) -> FragNo {
    FragNo(inode_on_device(w, v).db[0].unsigned_abs())
}

fn truncate(w: &World, v: &Vnode, size: u64) {
    let size = SetAttr { size: Some(size), ..SetAttr::default() };
    w.fs.setattr(&Cred::root(), v, &size).unwrap();
    w.fs.fsync(v).unwrap();
}

/// The findings of a check on the device as it is now, without those that a crash allows.
fn unsound(w: &World) -> Vec<String> {
    let now = Arc::new(w.dev.inner().snapshot()) as Arc<dyn BlockDevice>;
    let excused = ffs_testkit::killtest::ALLOWED_REPAIRS;
    let all = quick_check(&now);
    let foreign = all.iter().filter(|f| !excused.contains(&f.id.as_str()));
    foreign.map(|f| format!("{}: {}", f.id.as_str(), f.message)).collect()
}

/// A file ends in two unwritten fragments in group 0. The next write first extends them to a whole
/// block, which only group 3 has, and then finds no space for its own block. The file keeps the
/// fragments in group 0. An fsync once did not wait for their bitmap: they were free on the device.
#[test]
fn fragments_kept_for_want_of_space_are_marked_used_when_fsync_returns() {
    let w = world();
    let g = *w.fs.geometry();
    let (blocks, small) = (fill(&w, "b", 4096), fill(&w, "s", 512));
    w.fs.sync().unwrap();
    let group_of = |v: &Vnode| g.ino_to_cg(w.fs.getattr(v).ino).0;
    let at: BTreeMap<&String, FragNo> =
        blocks.iter().chain(&small).map(|(name, v)| (name, first_block(&w, v))).collect();
    let of_group = |n: u32| blocks.iter().find(|(_, v)| group_of(v) == n).unwrap();
    let ((victim, v), (other, y)) = (of_group(1), of_group(2));
    let away = |name: &&String| g.dtog(at[name]).0 == 3 && *name != victim && *name != other;
    let z = &blocks[blocks.keys().find(away).unwrap()];
    let mut low: Vec<_> = small.keys().map(|name| (at[name], name)).collect();
    low.retain(|(at, _)| g.dtog(*at).0 == 0);
    low.sort();
    let frag = u64::from(g.frag);
    let neighbours =
        |p: &&[(FragNo, &String)]| p[0].0.0 + 1 == p[1].0.0 && p[0].0.0 / frag == p[1].0.0 / frag;
    let pair = low.windows(2).find(neighbours).unwrap();
    // The file is empty, and its block belongs to another file. Two fragments are free in group 0,
    // and a block in group 3.
    truncate(&w, v, 0);
    let c = Cred::root();
    w.fs.write(&c, y, 4096, &[b'y'; 4096], WriteMode::default()).unwrap();
    let names: Vec<String> = pair.iter().map(|(_, name)| (*name).clone()).collect();
    drop(small);
    for name in &names {
        w.fs.unlink(&c, &w.root, name.as_bytes()).unwrap();
    }
    w.fs.sync().unwrap();
    truncate(&w, z, 0);
    w.fs.sync().unwrap();
    w.fs.write(&c, v, 0, &[b'A'; 1024], WriteMode::default()).unwrap();
    let failed = w.fs.write(&c, v, 4096, &[b'B'; 512], WriteMode::default());
    assert!(matches!(failed, Err(Error::NoSpace)), "{failed:?}");
    w.fs.fsync(v).unwrap();
    assert_eq!(unsound(&w), [""; 0]);
    drop(blocks);
    w.end();
}

/// An allocation behind the end of a file fails after some blocks. The inode's block is written
/// for another file: the file has its old size there, and not the one that it had meanwhile.
#[test]
fn no_write_shows_the_size_that_a_failed_allocation_reached() {
    let w = world();
    let (c, blocks) = (Cred::root(), 14);
    let create = |name: &[u8]| w.fs.create(&c, &w.root, name, NodeKind::Regular, 0o644).unwrap();
    let (v, neighbour) = (create(b"a"), create(b"neighbour"));
    let size = blocks * 4096;
    w.fs.write(&c, &v, 0, &vec![b'a'; size], WriteMode::default()).unwrap();
    let others = fill(&w, "b", 4096);
    let names: Vec<String> = others.keys().take(3).cloned().collect();
    drop(others);
    for name in &names {
        w.fs.unlink(&c, &w.root, name.as_bytes()).unwrap();
    }
    w.fs.sync().unwrap();
    let more = Fallocate::Allocate;
    let failed = w.fs.fallocate(&c, &v, size as u64, 20 * 4096, more);
    assert!(matches!(failed, Err(Error::NoSpace)), "{failed:?}");
    let mode = SetAttr { perm: Some(0o600), ..SetAttr::default() };
    w.fs.setattr(&c, &neighbour, &mode).unwrap();
    w.fs.fsync(&neighbour).unwrap();
    assert_eq!(inode_on_device(&w, &neighbour).mode & 0o777, 0o600, "the block was written");
    assert_eq!(inode_on_device(&w, &v).size, size as u64);
    w.end();
}

/// As before, with random sizes: files grow by fragments and blocks on an almost full volume. Each
/// file that was fsynced is consistent on the device, with its content.
#[test]
fn growing_without_space_leaves_what_was_fsynced_sound() {
    let mut failures = 0;
    for seed in 0..12 {
        println!("seed {seed}");
        let w = world();
        let (c, rng) = (Cred::root(), SplitMix64::new(seed));
        let kept = fill(&w, "b", 4096 + 512 * (seed as usize % 4));
        drop(fill(&w, "s", 512));
        w.fs.sync().unwrap();
        let files: Vec<&Vnode> = kept.values().collect();
        let pick = || files[rng.below(files.len() as u64) as usize];
        for _ in 0..8 {
            truncate(&w, pick(), rng.below(4) * 512);
        }
        for round in 0..150u32 {
            let v = pick();
            let (at, n) = (rng.below(40) * 512, 512 * (1 + rng.below(8)) as usize);
            match rng.below(4) {
                0 => truncate(&w, v, rng.below(3) * 512),
                _ => {
                    let wrote = w.fs.write(&c, v, at, &vec![round as u8; n], WriteMode::default());
                    failures += u32::from(wrote.is_err());
                }
            }
            if rng.below(3) == 0 {
                w.pass(rng.below(3) as u32 * 10);
            }
            w.fs.fsync(v).unwrap();
            assert_eq!(unsound(&w), [""; 0], "seed {seed}, round {round}");
            let size = w.fs.getattr(v).size;
            assert_eq!(size_on_device(&w, v), size, "seed {seed}, round {round}");
        }
        drop(files);
        drop(kept);
        w.end();
    }
    assert!(failures > 100, "{failures} failures: there was too much space");
}

fn size_on_device(w: &World, v: &Vnode) -> u64 {
    let (g, ino): (_, Ino) = (*w.fs.geometry(), w.fs.getattr(v).ino);
    let mut bytes = vec![0; g.bsize as usize];
    w.dev.read_at(g.ino_to_fsba(ino).0 * u64::from(g.fsize), &mut bytes).unwrap();
    Dinode::decode(&g, &bytes[g.ino_to_fsbo(ino)..]).size
}
