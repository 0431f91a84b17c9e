//! Cylinder groups with a wrong check hash: torn by a crash, or damaged.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common::{World, mount_on, soft_volume};
use ffs_admin::fsck::{Fsck, FsckOptions, Id};
use ffs_core::{Cred, MountOptions, WriteMode};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::geometry::Geometry;
use ffs_ondisk::{Cg, CgNo, Csum, Endian, Format, cg};
use std::sync::Arc;

fn volume(format: Format) -> MemDevice {
    soft_volume((Endian::Little, format, 8192, 1024), 32 << 20)
}

fn put(w: &World, name: &str, content: &[u8]) {
    let v = w.file(&w.root, name);
    w.fs.write(&Cred::root(), &v, 0, content, WriteMode::default()).unwrap();
}

/// The volume after a power cut at this moment.
fn crashed(w: &World) -> MemDevice {
    w.dev.inner().snapshot()
}

/// The block of group `c`.
fn group(dev: &MemDevice, g: &Geometry, c: CgNo) -> Vec<u8> {
    let mut block = vec![0; g.cgsize as usize];
    dev.read_at(g.frag_to_byte(g.cgtod(c)), &mut block).unwrap();
    block
}

/// A write of a group is torn between any two sectors, in both directions, on the volume as it was
/// before the write.
#[test]
fn a_torn_group_is_worked_on_without_a_check() {
    for format in [Format::Ufs1, Format::Ufs2] {
        let w = mount_on(volume(format), &MountOptions::default());
        put(&w, "kept", &[4; 9000]);
        w.fs.sync().unwrap();
        let old = crashed(&w);
        // Nothing is freed, not even by a growing directory. So the fragments that the old volume
        // uses are marked in each sector, old or new.
        for i in 0..20 {
            put(&w, &format!("n{i}"), &vec![5; 40_000 * i]);
        }
        w.fs.sync().unwrap();
        let g = *w.fs.geometry();
        let (at, len) = (g.frag_to_byte(g.cgtod(CgNo(0))), g.cgsize as usize);
        let (was, is) = (group(&old, &g, CgNo(0)), group(&crashed(&w), &g, CgNo(0)));
        for tear in (512..len).step_by(512) {
            for (front, back) in [(&was, &is), (&is, &was)] {
                let dev = old.snapshot();
                dev.write_at(at, &[&front[..tear], &back[tear..]].concat()).unwrap();
                let what = format!("{format:?}, torn at {tear}");
                if tear == len / 1024 * 512 && format == Format::Ufs2 {
                    worked_on_by_force(dev.snapshot(), &what);
                }
                let w = mount_on(dev, &MountOptions::default());
                assert!(w.fs.unchecked().is_some() && !w.fs.is_read_only(), "{what}");
                worked_on(&w, &what);
            }
        }
    }
}

/// The same crash tore the superblock: then the volume is mounted read-write only by force.
fn worked_on_by_force(dev: MemDevice, what: &str) {
    worked_on(&forced(dev), &format!("{what}, and the superblock"));
}

/// The volume with a wrong check hash in its superblock (which only UFS2 has), mounted by force.
fn forced(dev: MemDevice) -> World {
    spoil(&dev, 65536 + 1304);
    assert!(mount_on(dev.snapshot(), &MountOptions::default()).fs.is_read_only());
    mount_on(dev, &MountOptions { force: true, ..MountOptions::default() })
}

fn spoil(dev: &MemDevice, at: u64) {
    let mut bytes = [0; 4];
    dev.read_at(at, &mut bytes).unwrap();
    dev.write_at(at, &bytes.map(|b| !b)).unwrap();
}

/// No crash tears an unmounted volume: a group with a wrong check hash is not used, even if the
/// superblock has a wrong one too.
#[test]
fn damage_of_a_clean_volume_is_not_taken_for_a_torn_write() {
    let w = mount_on(volume(Format::Ufs2), &MountOptions::default());
    let g = *w.fs.geometry();
    w.fs.unmount().unwrap();
    let dev = crashed(&w);
    spoil(&dev, g.frag_to_byte(g.cgtod(CgNo(0))) + 132);
    let before = group(&dev, &g, CgNo(0));
    let w = forced(dev);
    put(&w, "more", &[6; 50_000]);
    w.fs.unmount().unwrap();
    assert!(group(&crashed(&w), &g, CgNo(0)) == before, "the group was changed");
}

/// Changes a volume that was not checked. Preen must be able to repair it afterwards.
fn worked_on(w: &World, what: &str) {
    put(w, "more", &[6; 50_000]);
    w.dir(&w.root, "dir");
    w.fs.unlink(&Cred::root(), &w.root, b"kept").unwrap();
    w.fs.unmount().unwrap();
    let dev: Arc<dyn BlockDevice> = Arc::new(crashed(w));
    let left = ffs_admin::fsck::quick_check(&dev);
    use Id::{CgLeak, CgSummary, CsCg, CsTotal};
    let benign = [CgLeak, CgSummary, CsCg, CsTotal];
    assert!(left.iter().all(|f| benign.contains(&f.id)), "{what}: {left:#?}");
    counts_agree(w, what);
    let preen = Fsck::new(dev.clone(), FsckOptions::preen()).run();
    assert!(preen.clean, "{what}: {preen:#?}");
    let left = ffs_admin::fsck::quick_check(&dev);
    assert!(left.is_empty(), "{what}: {left:#?}");
}

/// Checks that the summary area agrees with the groups' bitmaps, and the groups' check hashes.
fn counts_agree(w: &World, what: &str) {
    let (g, dev) = (*w.fs.geometry(), crashed(w));
    let mut area = vec![0; g.cssize as usize];
    dev.read_at(g.frag_to_byte(g.csaddr), &mut area).unwrap();
    for c in 0..g.ncg {
        let block = group(&dev, &g, CgNo(c));
        cg::validate(&g, CgNo(c), &block).unwrap();
        let (counted, own) = (Csum::decode(&area, c as usize * 16, g.endian), Cg::new(&g, &block));
        assert_eq!(counted, own.cs(), "{what}");
        let counts = own.recount();
        let maps = Csum { ndir: counted.ndir, ..counts.cs };
        assert_eq!(counted, maps, "{what}");
    }
}
