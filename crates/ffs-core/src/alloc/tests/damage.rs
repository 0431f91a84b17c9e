//! Damaged groups and invalid requests: errors without panics, and without changes.

use super::*;
use crate::Error;
use crate::alloc::Torn;
use ffs_ondisk::CgMut;

/// Changes the block of group `c` on the device, and seals it again.
fn tamper(b: &Bench, c: CgNo, change: impl FnOnce(&mut CgMut<'_>)) {
    let g = *b.g();
    let at = g.frag_to_byte(g.cgtod(c));
    let mut block = vec![0; g.cgsize as usize];
    b.dev.read_at(at, &mut block).unwrap();
    let mut cg = CgMut::new(&g, &mut block);
    change(&mut cg);
    cg.seal(0);
    b.dev.write_at(at, &block).unwrap();
}

fn is_corrupt<T>(r: &crate::Result<T>) -> bool {
    matches!(r, Err(Error::Format(ffs_ondisk::Error::Corrupt(_))))
}

#[test]
fn what_is_free_cannot_be_freed() {
    let b = Setup::ufs2().groups(3).make();
    let at = b.alloc(None, 8).unwrap();
    b.free(at.plus(5), 3).unwrap();
    let before = b.a.totals();
    assert!(is_corrupt(&b.free(at.plus(5), 1)), "the rest of the block");
    assert!(is_corrupt(&b.free(at, 6)), "one too many");
    assert!(is_corrupt(&b.free(at.plus(8), 8)), "a free block");
    assert!(is_corrupt(&b.free(at.plus(4), 5)), "across the block's end");
    assert!(is_corrupt(&b.free(at, 0)));
    assert!(is_corrupt(&b.free(at, 9)));
    for bad in [FragNo(0), FragNo(b.g().size), FragNo(u64::MAX), b.g().cgtod(CgNo(1))] {
        assert!(is_corrupt(&b.free(bad, 1)), "{bad:?}");
    }
    assert!(is_corrupt(&b.a.free_inode(Ino(b.g().ipg + 5), false)));
    assert!(is_corrupt(&b.a.free_inode(Ino(0), false)));
    assert!(is_corrupt(&b.a.free_inode(Ino(u32::MAX), true)));
    assert_eq!(b.a.totals(), before);
    let run = FragRun { at: at.plus(5), frags: 2 };
    assert!(is_corrupt(&b.a.realloc_frags(Ino(2), run, 3, None, Reserve::Allowed)));
    let run = FragRun { at: FragNo(b.g().size), frags: 2 };
    assert!(is_corrupt(&b.a.realloc_frags(Ino(2), run, 3, None, Reserve::Allowed)));
    for (old, new) in [(2, 2), (3, 2), (2, 9)] {
        let run = FragRun { at, frags: old };
        let got = b.a.realloc_frags(Ino(2), run, new, None, Reserve::Allowed);
        assert!(matches!(got, Err(Error::Invalid(_))));
    }
    assert!(matches!(b.alloc(None, 0), Err(Error::Invalid(_))));
    assert!(matches!(b.alloc(None, 9), Err(Error::Invalid(_))));
    b.audit();
}

#[test]
fn a_damaged_group_is_skipped_until_nothing_else_fits() {
    let b = Setup::ufs2().groups(3).make();
    let g = *b.g();
    let mut block = vec![0; g.cgsize as usize];
    let place = g.frag_to_byte(g.cgtod(CgNo(1)));
    b.dev.read_at(place, &mut block).unwrap();
    block[40] ^= 1;
    b.dev.write_at(place, &block).unwrap();
    while let Ok(at) = b.alloc(Some(g.cgdata(CgNo(1))), 8) {
        assert_ne!(g.dtog(at), CgNo(1));
    }
    assert!(is_corrupt(&b.alloc(None, 8)), "the check hash is wrong");
    assert!(is_corrupt(&b.free(g.cgdata(CgNo(1)), 8)));
    let parent = ParentDir { ino: Ino(g.ipg + 1), ..ROOT_DIR };
    let ino = b.a.alloc_inode(&parent, false).unwrap();
    assert_ne!(g.ino_to_cg(ino), CgNo(1));
    assert!(is_corrupt(&b.a.inode_initialised(Ino(g.ipg))));
}

/// After a crash under soft updates: the check hash is wrong, and the inode map newer than the
/// header.
#[test]
fn a_torn_group_is_used_where_a_crash_may_have_torn_it() {
    let torn = |possible| {
        let Bench { a, dev } = Setup::ufs2().groups(3).make();
        let b = Bench { a: a.with_torn_groups(possible), dev };
        let (g, c) = (*b.g(), CgNo(1));
        let mut block = vec![0; g.cgsize as usize];
        b.dev.read_at(g.frag_to_byte(g.cgtod(c)), &mut block).unwrap();
        let mut cg = CgMut::new(&g, &mut block);
        let (inited, data) = (cg.view().initediblk(), g.dblkno);
        assert!(inited < g.ipg);
        cg.set_inode_used(inited, true);
        cg.set_run_free(data, 3, false);
        b.dev.write_at(g.frag_to_byte(g.cgtod(c)), &block).unwrap();
        (b, g.cgbase(c).plus(data.into()), Ino(c.0 * g.ipg + inited))
    };
    let (b, data, _) = torn(Torn::Never);
    assert!(is_corrupt(&b.free(data, 3)));
    let (b, data, inode) = torn(Torn::Possible);
    b.free(data, 2).unwrap();
    assert!(is_corrupt(&b.a.free_inode(inode, false)), "it never came to be");
    assert_eq!(b.alloc(Some(data), 1).unwrap(), data);
    b.audit();
}

#[test]
fn metadata_marked_free_condemns_the_group() {
    let meta = |g: &Geometry| [g.sblkno, g.cblkno, g.iblkno, g.dblkno - 1];
    for i in 0..4 {
        let b = Setup::ufs2().groups(3).make();
        let f = meta(b.g())[i];
        tamper(&b, CgNo(2), |cg| cg.set_frag_free(f, true));
        let pref = Some(b.g().cgdata(CgNo(2)));
        assert_ne!(b.g().dtog(b.alloc(pref, 1).unwrap()), CgNo(2), "fragment {f}");
    }
    let b = Setup::ufs2().groups(3).make();
    let summary = b.g().csaddr.0 as u32;
    tamper(&b, CgNo(0), |cg| cg.set_frag_free(summary, true));
    assert_ne!(b.g().dtog(b.alloc(None, 1).unwrap()), CgNo(0));
    let b = Setup::ufs2().groups(3).make();
    tamper(&b, CgNo(0), |cg| cg.set_inode_used(2, false));
    assert_ne!(b.g().ino_to_cg(b.a.alloc_inode(&ROOT_DIR, false).unwrap()), CgNo(0));
}

/// The fragment and inode maps are authoritative; counts, rotors and the cluster map are not.
#[test]
fn wrong_counts_are_corrected() {
    for lie in 0..8 {
        let b = Setup::ufs2().groups(3).make();
        for c in b.groups() {
            tamper(&b, c, |cg| match lie {
                0 => cg.set_cs(Csum { ndir: -1, nbfree: 1 << 30, nifree: -5, nffree: 7 }),
                1 => (1..8).for_each(|n| cg.set_frsum(n, u32::MAX)),
                2 => (1..17).for_each(|k| cg.set_clustersum(k, i32::MIN)),
                3 => (0..9999).for_each(|k| cg.set_cluster_free(k, true)),
                4 => cg.set_rotor(u32::MAX),
                5 => cg.set_frotor(u32::MAX),
                6 => cg.set_irotor(u32::MAX),
                _ => cg.set_cs(Csum::default()),
            });
        }
        let at = b.alloc(None, 3).unwrap();
        let at = b.a.realloc_frags(Ino(2), FragRun { at, frags: 3 }, 7, None, Reserve::Denied);
        b.free(at.unwrap(), 7).unwrap();
        b.a.alloc_cluster(Ino(2), None, 5).unwrap().unwrap();
        let ino = b.a.alloc_inode(&ROOT_DIR, true).unwrap();
        b.a.free_inode(ino, true).unwrap();
        b.audit();
        b.a.edit(CgNo(0), |e| Ok(audit_group(b.g(), CgNo(0), e.cg.view()))).unwrap();
    }
}

#[test]
fn the_summary_area_is_not_believed() {
    for lie in [i64::from(i32::MIN), 0, i64::from(i32::MAX)] {
        let setup = Setup::ufs2().groups(3);
        let b = setup.make();
        let g = *b.g();
        let wrong = Csum { ndir: lie, nbfree: lie, nifree: lie, nffree: lie };
        let mut sum = super::super::summary::Summary::new(&g, vec![wrong; 2], b.a.optim());
        assert_eq!(sum.cs.len(), g.ncg as usize, "missing records");
        sum.count_contigdirs(CgNo(99), true);
        *b.a.sum.lock() = sum;
        if lie > 0 {
            b.alloc(None, 8).unwrap();
            b.a.alloc_inode(&ROOT_DIR, true).unwrap();
        } else {
            assert!(matches!(b.alloc(None, 8), Err(Error::NoSpace)));
        }
        b.audit();
        b.alloc(None, 8).unwrap();
    }
}

/// Random counts and maps after a valid header never cause a panic or an endless loop.
#[test]
fn random_maps_are_harmless() {
    let mut dice = ffs_testkit::rng::SplitMix64::new(5);
    for round in 0..40 {
        let b = Setup::ufs2().groups(3).make();
        let g = *b.g();
        for c in b.groups() {
            let at = g.frag_to_byte(g.cgtod(c));
            let mut block = vec![0; g.cgsize as usize];
            b.dev.read_at(at, &mut block).unwrap();
            let lay = cg::CgLayout::of(&g);
            let from =
                if round % 2 == 0 { lay.iusedoff } else { lay.freeoff + g.dblkno.div_ceil(8) };
            let end = lay.nextfreeoff.max(lay.clusteroff) as usize;
            dice.fill_bytes(&mut block[from as usize..end]);
            cg::rehash(&g, &mut block);
            b.dev.write_at(at, &block).unwrap();
        }
        let mut got = Vec::new();
        for _ in 0..60 {
            let frags = dice.between(1, 8) as u32;
            if let Ok(at) = b.alloc(None, frags) {
                got.push((at, frags));
            }
            let _ = b.a.alloc_inode(&ROOT_DIR, dice.one_in(2));
            let _ = b.a.alloc_cluster(Ino(2), None, 3);
            let _ = b.free(FragNo(dice.below(g.size)), frags);
        }
        assert!(round % 2 == 0 || !got.is_empty());
        for c in b.groups() {
            let _ = b.a.edit(c, |e| Ok(audit_group(&g, c, e.cg.view())));
        }
    }
}
