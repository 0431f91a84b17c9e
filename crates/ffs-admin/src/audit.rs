//! For tests: recomputes the counts of a new volume from its maps and inodes.

use ffs_device::BlockDevice;
use ffs_ondisk::dir::{self, DirFormat};
use ffs_ondisk::sbsearch::Source;
use ffs_ondisk::{Cg, CgNo, Csum, Dinode, FragNo, Geometry, Ino, Superblock, cg, dinode};

use crate::Volume;

/// Panics unless every count of the volume on `dev` is right. Returns its geometry.
pub(crate) fn audit(dev: &dyn BlockDevice) -> Geometry {
    let vol = Volume::open(dev).unwrap();
    assert_eq!(vol.source, Source::Primary);
    assert!(vol.warnings.is_empty(), "{:?}", vol.warnings);
    let g = vol.geo;
    let mut summaries = Vec::new();
    vol.for_each_csum(|_, cs| {
        summaries.push(cs);
        Ok(())
    })
    .unwrap();
    assert_eq!(summaries.len() as u32, g.ncg);
    let mut total = Csum::default();
    for c in (0..g.ncg).map(CgNo) {
        let block = vol.read_cg(c).unwrap();
        cg::validate(&g, c, &block).unwrap();
        let counted = count_group(&vol, c, &block);
        let view = Cg::new(&g, &block);
        assert_eq!(view.cs(), counted, "group {c}");
        assert_eq!(summaries[c.0 as usize], counted, "summary of group {c}");
        total.add(&counted);
        check_backup(&vol, c);
    }
    assert_eq!(vol.sb.cstotal(), total);
    check_directories(&vol, total.ndir);
    g
}

/// Checks the run sums and cluster sums of a group's block, and the inodes against the map. Returns
/// the counts.
fn count_group(vol: &Volume<'_>, c: CgNo, block: &[u8]) -> Csum {
    let g = &vol.geo;
    let view = Cg::new(g, block);
    let frags: Vec<bool> = (0..g.cg_frags(c)).map(|f| view.frag_free(f)).collect();
    let mut cs = Csum::default();
    let mut frsum = [0u32; 8];
    let mut whole = Vec::new();
    for dirblk in frags.chunks(g.frag as usize) {
        let free = dirblk.len() == g.frag as usize && dirblk.iter().all(|&b| b);
        whole.push(free);
        if free {
            cs.nbfree += 1;
            continue;
        }
        for run in dirblk.split(|&b| !b).filter(|r| !r.is_empty()) {
            cs.nffree += run.len() as i64;
            frsum[run.len()] += 1;
        }
    }
    assert_eq!(view.header().frsum, frsum, "group {c}");
    if g.contigsumsize > 0 {
        let bit = |b| cg::bit(view.clustersfree(), b).unwrap();
        let map: Vec<bool> = (0..view.nblocks()).map(bit).collect();
        assert_eq!(map[..], whole[..view.nblocks() as usize], "group {c}");
        let mut sums = vec![0i32; g.contigsumsize as usize + 1];
        for run in map.split(|&b| !b).filter(|r| !r.is_empty()) {
            sums[run.len().min(g.contigsumsize as usize)] += 1;
        }
        let stored: Vec<i32> = (1..=g.contigsumsize).map(|k| view.clustersum(k)).collect();
        assert_eq!(stored, sums[1..], "group {c}");
    }
    check_metadata(g, c, &frags);
    let size = g.format.dinode_size();
    let mut inodes = vec![0; (view.initediblk() / g.inopb * g.bsize) as usize];
    vol.read(g.cgimin(c), &mut inodes).unwrap();
    for i in 0..g.ipg {
        let used = view.inode_used(i);
        cs.nifree += i64::from(!used);
        if i < view.initediblk() {
            let raw = &inodes[i as usize * size..][..size];
            let inode = Dinode::decode(g, raw);
            let reserved = c.0 == 0 && i < 2;
            assert_eq!(inode.mode != 0 || reserved, used, "group {c} inode {i}");
            assert!(dinode::hash_ok(g, raw), "group {c} inode {i}");
            cs.ndir += i64::from(inode.is_dir());
        } else {
            assert!(!used);
        }
    }
    cs
}

/// Checks that metadata is in use and all other fragments are free, except those of the
/// directories.
fn check_metadata(g: &Geometry, c: CgNo, frags: &[bool]) {
    let mut data_used = 0;
    for (i, &free) in frags.iter().enumerate() {
        let frag = FragNo(g.cgbase(c).0 + i as u64);
        if g.in_metadata(c, frag) {
            assert!(!free, "{frag:?} is metadata");
        } else {
            data_used += u32::from(!free);
        }
    }
    assert!(data_used <= if c.0 == 0 { 2 } else { 0 }, "group {c}: {data_used}");
}

fn check_backup(vol: &Volume<'_>, c: CgNo) {
    let at = vol.geo.frag_to_byte(vol.geo.cgsblock(c));
    let mut bytes = vec![0; 8192];
    vol.device().read_at(at, &mut bytes).unwrap();
    let copy = Superblock::decode(&bytes, at).unwrap();
    assert!(copy.hash_ok(), "backup of group {c}");
    assert_eq!(copy.differing_field(&vol.sb), None, "backup of group {c}");
}

/// Checks that the root contains the right names.
fn check_directories(vol: &Volume<'_>, ndir: i64) {
    let names = list(vol, Ino::ROOT);
    let snap: Vec<(u32, String)> =
        (ndir == 2).then(|| (3, ".snap".to_owned())).into_iter().collect();
    let mut want = vec![(2, ".".to_owned()), (2, "..".to_owned())];
    want.extend(snap.clone());
    assert_eq!(names, want);
    if !snap.is_empty() {
        assert_eq!(list(vol, Ino(3)), [(3, ".".to_owned()), (2, "..".to_owned())]);
    }
}

fn list(vol: &Volume<'_>, ino: Ino) -> Vec<(u32, String)> {
    let g = &vol.geo;
    let mut block = vec![0; g.bsize as usize];
    vol.read(g.ino_to_fsba(ino), &mut block).unwrap();
    let raw = &block[g.ino_to_fsbo(ino)..][..g.format.dinode_size()];
    let inode = dinode::check(g, ino, raw).unwrap();
    assert_eq!(inode.size, 512);
    assert!(g.run_problem(FragNo(inode.db[0] as u64), 1).is_none());
    let mut dirblk = vec![0; 512];
    vol.read(FragNo(inode.db[0] as u64), &mut dirblk).unwrap();
    dir::records(DirFormat::of(g), &dirblk)
        .map(|r| r.unwrap())
        .map(|r| (r.ino, String::from_utf8(r.name.to_vec()).unwrap()))
        .collect()
}
