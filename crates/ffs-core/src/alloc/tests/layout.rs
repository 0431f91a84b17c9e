//! The layout of files: golden preferences, extents of sequential files, clusters.

use super::*;

fn small_files() -> Bench {
    let mut setup = Setup::ufs2();
    setup.newfs.maxbpg = Some(16);
    setup.groups(4).make()
}

#[test]
fn golden_preferences_of_2013() {
    let b = small_files();
    let g = *b.g();
    let ino = Ino(g.ipg + 7);
    let own = CgNo(1);
    let q = |lbn, index, prev| data_block(ino, lbn, index, prev);
    let at = FragNo(4096);
    assert!(g.metaspace > 0 && g.nindir == 512);
    assert_eq!(b.a.blkpref(&q(0, 0, None)), Some(g.cgdata(own)), "first block");
    assert_eq!(b.a.blkpref(&q(3, 3, Some(at))), Some(at.plus(8)), "continued");
    assert_eq!(b.a.blkpref(&q(3, 3, None)), Some(g.cgdata(own)), "behind a hole");
    assert_eq!(b.a.blkpref(&q(28, 16, Some(at))), Some(g.cgdata(own)), "a section in the reach");
    let dir = PrefQuery { is_dir: true, ..q(0, 0, None) };
    assert_eq!(b.a.blkpref(&dir), Some(g.cgmeta(own)));
    let ind = |level, lbn, last_direct| PrefQuery {
        indirect: Some(level),
        last_direct,
        ..q(lbn, 0, None)
    };
    assert_eq!(b.a.blkpref(&ind(1, 12, Some(at))), Some(at.plus(8)), "first indirect: in line");
    assert_eq!(b.a.blkpref(&ind(1, 12, None)), Some(g.cgmeta(own)));
    assert_eq!(b.a.blkpref(&ind(2, 524, Some(at))), Some(g.cgmeta(own)));
    assert_eq!(b.a.blkpref(&ind(1, 524, Some(at))), Some(g.cgmeta(own)), "below the double one");
    let twelve = |i| PrefQuery { after_indirect: Some(i), ..q(12, 0, None) };
    let inside = g.cgdata(own).plus(80);
    assert_eq!(b.a.blkpref(&twelve(inside)), Some(inside.plus(8)));
    assert_eq!(b.a.blkpref(&twelve(g.cgmeta(own))), Some(g.cgdata(own)), "not in the data zone");
    // Beyond the single indirect block: a group with average free space, from the file's last group
    // on.
    let prev = g.cgdata(CgNo(1)).plus(8);
    assert_eq!(b.a.blkpref(&q(540, 16, Some(prev))), Some(g.cgdata(CgNo(2))));
    assert_eq!(b.a.blkpref(&q(541, 17, Some(prev))), Some(prev.plus(8)));
    // The inode's group plus the sections so far, 524 / 16 = 32: group 1 again.
    assert_eq!(b.a.blkpref(&q(524, 0, None)), Some(g.cgdata(CgNo(1))));
    let end = FragNo(g.size - 1);
    assert_eq!(b.a.blkpref(&q(3, 3, Some(end))), None, "beyond the volume");
}

#[test]
fn golden_preferences_of_2001() {
    let mut setup = Setup::ufs2();
    setup.newfs.maxbpg = Some(16);
    setup.policy = AllocPolicy::Y2001;
    let b = setup.groups(4).make();
    let g = *b.g();
    let ino = Ino(g.ipg + 7);
    let q = |lbn, index, prev| data_block(ino, lbn, index, prev);
    let front = |c| Some(g.cgbase(CgNo(c)).plus(8));
    let at = FragNo(4096);
    assert_eq!(b.a.blkpref(&q(0, 0, None)), front(1));
    assert_eq!(b.a.blkpref(&PrefQuery { is_dir: true, ..q(0, 0, None) }), front(1));
    assert_eq!(b.a.blkpref(&q(3, 3, Some(at))), Some(at.plus(8)));
    assert_eq!(b.a.blkpref(&q(28, 16, Some(at))), front(1));
    assert_eq!(b.a.blkpref(&PrefQuery { indirect: Some(1), ..q(12, 0, None) }), front(1));
    let next = PrefQuery { after_indirect: Some(at), ..q(12, 0, None) };
    assert_eq!(b.a.blkpref(&next), Some(at.plus(8)));
    let after_last = q(540, 16, Some(g.cgbase(CgNo(g.ncg - 1))));
    assert_eq!(b.a.blkpref(&after_last), front(1), "around the end; group 0 is poorer than most");
    for c in 1..g.ncg {
        for _ in 0..40 {
            b.alloc(Some(g.cgdata(CgNo(c))), 8).unwrap();
        }
    }
    assert_eq!(b.a.blkpref(&after_last), front(0));
}

/// Writes `blocks` blocks of a file with one map, as if one block had all pointers. Returns the
/// number of extents.
fn extents(b: &Bench, ino: Ino, blocks: u64) -> u64 {
    let (mut prev, mut extents) = (None, 0);
    for lbn in 0..blocks {
        let pref = b.a.blkpref(&data_block(ino, lbn, lbn as usize, prev));
        let at = b.alloc(pref, b.g().frag).unwrap();
        if prev.is_none_or(|p: FragNo| p.plus(b.g().frag.into()) != at) {
            extents += 1;
        }
        prev = Some(at);
    }
    extents
}

#[test]
fn a_sequential_file_has_an_extent_per_section() {
    for policy in [AllocPolicy::Y2001, AllocPolicy::Y2013] {
        let mut setup = Setup::new(Format::Ufs2, Endian::Little, 16384, 8);
        setup.bytes = 512 << 20;
        setup.policy = policy;
        let b = setup.groups(8).make();
        let blocks = (100 << 20) / 16384;
        let group = u64::from(b.g().blocks_per_group());
        // The metadata in a group splits a file in two, since data blocks precede it.
        let sections = 1 + blocks / u64::from(b.a.params().maxbpg) + 2 * (blocks / group);
        let got = extents(&b, Ino(5), blocks);
        assert!(got <= sections, "{policy:?}: {got} extents, {sections} sections");
        b.audit();
    }
}

#[test]
fn two_writers_interleave_and_clusters_undo_it() {
    let b = Setup::ufs2().make();
    let frag = u64::from(b.g().frag);
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for lbn in 0..40u64 {
        for (ino, file) in [(Ino(5), &mut one), (Ino(6), &mut two)] {
            let prev = file.last().copied();
            let pref = b.a.blkpref(&data_block(ino, lbn, lbn as usize, prev));
            file.push(b.alloc(pref, 8).unwrap());
        }
    }
    let broken = |f: &[FragNo]| f.windows(2).filter(|w| w[0].plus(frag) != w[1]).count();
    assert!(broken(&one) > 30);
    for cluster in one.chunks_mut(8) {
        let at = b.a.alloc_cluster(Ino(5), Some(cluster[0]), 8).unwrap().unwrap();
        for (i, slot) in cluster.iter_mut().enumerate() {
            b.free(*slot, 8).unwrap();
            *slot = at.plus(i as u64 * frag);
        }
    }
    assert!(broken(&one) <= 5, "{one:?}");
    b.audit();
}

#[test]
fn clusters_are_not_searched_before_the_preference() {
    let b = Setup::ufs2().groups(4).make();
    let g = *b.g();
    let len = g.contigsumsize;
    let pref = g.cgdata(CgNo(2)).plus(800);
    let at = b.a.alloc_cluster(Ino(2), Some(pref), len).unwrap().unwrap();
    assert_eq!(g.dtog(at), CgNo(2));
    assert!(at >= pref && at.0 < pref.0 + 8);
    let end = FragNo(g.cgbase(CgNo(3)).0 - 16);
    let at = b.a.alloc_cluster(Ino(2), Some(end), len).unwrap().unwrap();
    assert_eq!(at, FragNo(g.cgdata(CgNo(3)).0.next_multiple_of(8)), "the next group instead");
    assert_eq!(b.a.alloc_cluster(Ino(2), None, len + 1).unwrap(), None);
    assert_eq!(b.a.alloc_cluster(Ino(2), None, 0).unwrap(), None);
    assert_eq!(g.dtog(b.a.next_cluster_pref(Ino(2), Some(pref))), CgNo((2 + 10) % 4));
    b.audit();
}

#[test]
fn maxcluster_spares_reading_hopeless_groups() {
    let b = Setup::ufs2().groups(2).make();
    let mut all = Vec::new();
    while let Ok(at) = b.alloc(None, 8) {
        all.push(at);
    }
    // Every other block is free: no two are contiguous.
    all.sort();
    for at in all.iter().filter(|a| a.0 / 8 % 2 == 0) {
        b.free(*at, 8).unwrap();
    }
    assert_eq!(b.a.alloc_cluster(Ino(2), None, 2).unwrap(), None);
    let hits = || b.a.cache.counters.values().buf_hits;
    let before = hits();
    assert_eq!(b.a.alloc_cluster(Ino(2), None, 2).unwrap(), None);
    assert_eq!(hits(), before, "no group was looked at");
    assert!(b.a.alloc_cluster(Ino(2), None, 1).unwrap().is_some());
    b.audit();
}

#[test]
fn metadata_and_data_zones_keep_apart() {
    let b = Setup::ufs2().groups(2).make();
    let g = *b.g();
    let zone_end = g.cgdata(CgNo(1));
    // A preference in the data zone of another group is applied to the same zone of this group.
    while b.a.group_sums()[0].nbfree > 0 {
        b.alloc(Some(g.cgdata(CgNo(0))), 8).unwrap();
    }
    let at = b.alloc(Some(g.cgdata(CgNo(0))), 8).unwrap();
    assert!(g.dtog(at) == CgNo(1));
    let rotor = b.a.edit(CgNo(1), |e| Ok(e.cg.view().rotor())).unwrap();
    b.alloc(Some(g.cgmeta(CgNo(1))), 8).unwrap();
    let after = b.a.edit(CgNo(1), |e| Ok(e.cg.view().rotor())).unwrap();
    assert_eq!(rotor, after, "a block of the metadata zone does not move the rotor");
    assert!(zone_end > g.cgmeta(CgNo(1)));
    b.audit();
}
