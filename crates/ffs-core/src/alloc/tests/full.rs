//! A volume filled to the last block and the last inode; the reserve.

use super::*;
use crate::Error;

#[test]
fn the_last_block_and_the_last_fragment_are_found() {
    for policy in [AllocPolicy::Y2001, AllocPolicy::Y2013] {
        let mut setup = Setup::ufs2();
        setup.policy = policy;
        let b = setup.groups(9).make();
        let mut blocks = Vec::new();
        while let Ok(at) = b.alloc(None, 8) {
            blocks.push(at);
        }
        assert_eq!(b.a.totals().nbfree, 0);
        let mut frags = 0;
        while b.alloc(None, 1).is_ok() {
            frags += 1;
        }
        assert!(frags > 0, "newfs leaves partly used blocks");
        assert_eq!(b.a.totals().nffree, 0);
        b.audit();
        // The only free block is found from every starting point.
        for at in blocks.iter().step_by(blocks.len() / 40) {
            b.free(*at, 8).unwrap();
            for from in b.groups() {
                let got = b.alloc(Some(b.g().cgbase(from).plus(9)), 8).unwrap();
                assert_eq!(got, *at);
                b.free(got, 8).unwrap();
            }
            assert_eq!(b.alloc(None, 3).unwrap(), *at, "broken for a part");
            assert_eq!(b.a.totals().nffree, 5);
            b.free(*at, 3).unwrap();
            b.alloc(None, 8).unwrap();
        }
        b.audit();
    }
}

#[test]
fn the_last_inode_is_found() {
    for format in [Format::Ufs1, Format::Ufs2] {
        let mut setup = Setup::new(format, Endian::Big, 4096, 8);
        setup.newfs.density = Some(64 << 10);
        let b = setup.groups(6).make();
        let free = b.a.totals().nifree;
        let mut taken = Vec::new();
        for _ in 0..free {
            taken.push(b.a.alloc_inode(&ROOT_DIR, false).unwrap());
        }
        assert!(matches!(b.a.alloc_inode(&ROOT_DIR, false), Err(Error::NoInodes)));
        assert!(matches!(b.a.alloc_inode(&ROOT_DIR, true), Err(Error::NoInodes)));
        b.audit();
        for ino in taken.iter().rev().step_by(17) {
            b.a.free_inode(*ino, false).unwrap();
            assert_eq!(b.a.alloc_inode(&ROOT_DIR, true).unwrap(), *ino);
            b.a.free_inode(*ino, true).unwrap();
            assert_eq!(b.a.alloc_inode(&ROOT_DIR, false).unwrap(), *ino);
        }
        let unique: std::collections::BTreeSet<_> = taken.iter().collect();
        assert_eq!(unique.len(), taken.len());
        assert!(taken.iter().all(|i| i.0 > 2 && i.0 < b.g().inodes()));
        b.audit();
    }
}

#[test]
fn users_stop_at_the_reserve_and_root_goes_on() {
    let b = Setup::ufs2().groups(4).make();
    let user = |n| b.a.alloc_frags(Ino(2), None, n, Reserve::Denied);
    while user(8).is_ok() {}
    while user(1).is_ok() {}
    assert_eq!(b.a.freespace(8), 0, "to the last fragment outside the reserve");
    let last = b.alloc(None, 4).unwrap();
    let grow =
        |reserve| b.a.realloc_frags(Ino(2), FragRun { at: last, frags: 4 }, 5, None, reserve);
    assert!(matches!(grow(Reserve::Denied), Err(Error::NoSpace)));
    grow(Reserve::Allowed).unwrap();
    while b.alloc(None, 8).is_ok() {}
    while b.alloc(None, 1).is_ok() {}
    assert_eq!((b.a.totals().nbfree, b.a.totals().nffree), (0, 0));
    b.audit();
}

/// Without whole blocks, a run must still be able to move into another partly used block, with
/// either optimisation.
#[test]
fn a_run_grows_while_any_run_is_free() {
    let b = Setup::ufs2().make();
    let first = b.alloc(None, 2).unwrap();
    let second = b.alloc(None, 2).unwrap();
    assert_eq!(second, first.plus(2));
    let target = b.alloc(None, 8).unwrap();
    while b.alloc(None, 8).is_ok() {}
    while b.alloc(None, 1).is_ok() {}
    b.free(target, 3).unwrap();
    let old = FragRun { at: first, frags: 2 };
    let at = b.a.realloc_frags(Ino(2), old, 3, None, Reserve::Allowed).unwrap();
    assert_eq!(at, target);
    let full = b.a.realloc_frags(Ino(2), FragRun { at, frags: 3 }, 4, None, Reserve::Allowed);
    assert!(matches!(full, Err(Error::NoSpace)));
    b.audit();
}

#[test]
fn fresh_inode_blocks_are_written_before_they_count() {
    let b = Setup::ufs2().make();
    let g = *b.g();
    let inited = 2 * g.inopb;
    assert!(inited < g.ipg && !b.a.inode_initialised(Ino(inited)).unwrap());
    let junk = vec![0xa5; g.bsize as usize];
    let at = g.ino_to_fsba(Ino(inited));
    b.dev.write_at(g.frag_to_byte(at), &junk).unwrap();
    for _ in 0..inited {
        let ino = b.a.alloc_inode(&ROOT_DIR, false).unwrap();
        let now = b.a.edit(CgNo(0), |e| Ok(e.cg.view().initediblk())).unwrap();
        assert!(ino.0 + g.inopb <= now, "{ino:?}: a block ahead, {now} initialised");
        let written = b.a.cache.counters.values().writes_sync;
        let blocks = u64::from((now - inited) / g.inopb);
        assert_eq!(written, 2 * blocks, "each once, then its group, waited for");
        assert_eq!(b.a.inode_initialised(Ino(now - 1)).ok(), Some(true));
        assert_eq!(b.a.inode_initialised(Ino(now)).ok(), Some(false));
    }
    let mut block = vec![0; g.bsize as usize];
    b.dev.read_at(g.frag_to_byte(at), &mut block).unwrap();
    for slot in block.chunks_exact(256) {
        let d = ffs_ondisk::dinode::Dinode2::decode(slot, g.endian);
        assert!(d.gen_ != 0 && d.mode == 0 && d.db == [0; 12] && d.size == 0, "{d:?}");
    }
    b.audit_device();
}
