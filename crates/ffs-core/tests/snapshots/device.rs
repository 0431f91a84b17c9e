//! What the device has of a snapshot: its pointers and copies.

use super::faults::{Faulty, mounted};
use super::view::{tree_of, view_of};
use super::{SHAPES, remove, snapshot, write_file};
use ffs_core::{Cred, Ffs};
use ffs_device::fault::{EIO, Fault, Rule};
use ffs_device::{BlockDevice, Operation};
use ffs_ondisk::bmap::pointer;
use ffs_ondisk::cg::Cg;
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::snapshot::{Content, classify};
use ffs_ondisk::{Dinode, FragNo, Geometry, Ino, Lbn};

fn block_on(dev: &Faulty, g: &Geometry, at: FragNo) -> Vec<u8> {
    let mut bytes = vec![0; g.bsize as usize];
    dev.read_at(g.frag_to_byte(at), &mut bytes).unwrap();
    bytes
}

fn inode_on(dev: &Faulty, g: &Geometry, ino: Ino) -> Dinode {
    Dinode::decode(g, &block_on(dev, g, g.ino_to_fsba(ino))[g.ino_to_fsbo(ino)..])
}

/// The first block of the file `name`.
fn first_block(dev: &Faulty, fs: &Ffs, name: &str) -> FragNo {
    let file = fs.lookup(&Cred::root(), &fs.root().unwrap(), name.as_bytes()).unwrap();
    FragNo(inode_on(dev, fs.geometry(), file.ino()).db[0].unsigned_abs())
}

/// The content of block `lbn` of the snapshot `ino`, by the pointer in its first indirect block.
fn content_on(dev: &Faulty, g: &Geometry, ino: Ino, lbn: Lbn) -> Content {
    assert!(lbn.0 >= NDADDR as u64, "the pointer of {lbn:?} is in the inode");
    let slot = lbn.0 - NDADDR as u64;
    assert!(slot < g.nindir.into(), "{lbn:?} is behind the first indirect block");
    let leaf = FragNo(inode_on(dev, g, ino).ib[0].unsigned_abs());
    classify(g, ino, lbn, pointer(g, &block_on(dev, g, leaf), slot as usize)).unwrap()
}

#[test]
fn a_block_is_not_overwritten_until_the_pointer_to_its_copy_is_written() {
    for shape in 0..SHAPES.len() {
        let (dev, fs) = mounted(shape);
        let g = *fs.geometry();
        let at = first_block(&dev, &fs, "a");
        let (tree, old) = (tree_of(&fs), block_on(&dev, &g, at));
        let snap = snapshot(&fs, "snap");
        fs.sync().unwrap();
        let content = |dev| content_on(dev, &g, snap.ino(), g.fragstoblks(at));
        assert_eq!(content(&dev), Content::Volume(at), "shape {shape}");
        let leaf = g.frag_to_byte(FragNo(inode_on(&dev, &g, snap.ino()).ib[0].unsigned_abs()));
        let write = Rule::new(Operation::Write, Fault::Errno(EIO));
        dev.add(write.within(leaf..leaf + u64::from(g.bsize)));
        write_file(&fs, "a", &[3; 60_000]);
        for _ in 0..3 {
            assert!(fs.sync().is_err(), "shape {shape}");
            assert_eq!(content(&dev), Content::Volume(at), "shape {shape}");
            assert!(block_on(&dev, &g, at) == old, "shape {shape}");
        }
        dev.heal();
        fs.sync().unwrap();
        assert!(matches!(content(&dev), Content::Copy(_)), "shape {shape}");
        assert!(block_on(&dev, &g, at) != old, "shape {shape}");
        assert_eq!(view_of(&fs, &snap), tree, "shape {shape}");
    }
}

/// The free fragments of the block at `at`, as its group on the device has them.
fn free_on(dev: &Faulty, g: &Geometry, at: FragNo) -> u8 {
    let group = block_on(dev, g, g.cgtod(g.dtog(at)));
    Cg::new(g, &group).block_pattern(g.dtogd(at) / g.frag)
}

#[test]
fn a_block_of_which_the_last_part_is_freed_is_used_before_a_snapshot_owns_it() {
    for shape in (0..SHAPES.len()).filter(|&shape| SHAPES[shape].2 > SHAPES[shape].3) {
        let (dev, fs) = mounted(shape);
        let g = *fs.geometry();
        // All of a block but its last fragment. Other files get that of some blocks.
        let parts = ["part1", "part2", "part3", "part4"];
        parts.iter().for_each(|name| write_file(&fs, name, &vec![5; (g.bsize - g.fsize) as usize]));
        fs.sync().unwrap();
        let places = parts.map(|name| (name, g.blknum(first_block(&dev, &fs, name))));
        let tree = tree_of(&fs);
        let snap = snapshot(&fs, "snap");
        fs.sync().unwrap();
        let last = 1 << (g.frag - 1);
        let (name, at) = places.into_iter().find(|&(_, at)| free_on(&dev, &g, at) == last).unwrap();
        let content = |dev| content_on(dev, &g, snap.ino(), g.fragstoblks(at));
        assert_eq!(content(&dev), Content::Volume(at), "shape {shape}");
        let group = g.frag_to_byte(g.cgtod(g.dtog(at)));
        remove(&fs, name);
        // Without a write of the group the pointer must not be written.
        let write = Rule::new(Operation::Write, Fault::Errno(EIO));
        dev.add(write.within(group..group + u64::from(g.bsize)));
        for _ in 0..3 {
            assert!(fs.sync().is_err(), "shape {shape}");
            assert_eq!(content(&dev), Content::Volume(at), "shape {shape}");
        }
        dev.heal();
        fs.sync().unwrap();
        assert_eq!((content(&dev), free_on(&dev, &g, at)), (Content::TakenOver(at), 0));
        assert_eq!(view_of(&fs, &snap), tree, "shape {shape}");
    }
}

#[test]
fn a_removed_snapshot_has_no_pointer_to_a_block_of_which_the_device_shows_a_part_free() {
    for shape in (0..SHAPES.len()).filter(|&shape| SHAPES[shape].2 > SHAPES[shape].3) {
        let (dev, fs) = mounted(shape);
        let g = *fs.geometry();
        let parts = ["part1", "part2", "part3", "part4"];
        parts.iter().for_each(|name| write_file(&fs, name, &vec![5; (g.bsize - g.fsize) as usize]));
        fs.sync().unwrap();
        let places = parts.map(|name| (name, g.blknum(first_block(&dev, &fs, name))));
        let snap = snapshot(&fs, "snap");
        fs.sync().unwrap();
        let last = 1 << (g.frag - 1);
        let (name, at) = places.into_iter().find(|&(_, at)| free_on(&dev, &g, at) == last).unwrap();
        let content = |dev| content_on(dev, &g, snap.ino(), g.fragstoblks(at));
        let (root, ino) = (fs.root().unwrap(), snap.ino());
        remove(&fs, name);
        // An fsync does not write the pointers of snapshots.
        for _ in 0..20 {
            if fs.counters().snapshot_takeovers == 0 {
                fs.fsync(&root).unwrap();
            }
        }
        assert_eq!(fs.counters().snapshot_takeovers, 1, "shape {shape}");
        assert_eq!(content(&dev), Content::Volume(at), "shape {shape}: in memory only");
        assert_eq!(free_on(&dev, &g, at), last, "shape {shape}: in memory only");
        drop(snap);
        remove(&fs, "snap");
        let mut written = false;
        for _ in 0..20 {
            // It writes what its files need, and no group whose blocks were only freed.
            fs.fsync(&root).unwrap();
            let content = content_on(&dev, &g, ino, g.fragstoblks(at));
            if content == Content::TakenOver(at) {
                assert_eq!(free_on(&dev, &g, at), 0, "shape {shape}");
                written = true;
            }
        }
        assert!(written, "shape {shape}: the pointer was never on the device");
    }
}
