//! Growing fragment runs: moves and extensions, and when the optimisation changes.

use super::*;
use crate::alloc::Optim;

/// Grows two files alternately, fragment by fragment, to `blocks` blocks each; returns the moves.
fn grow_files(b: &Bench, blocks: u64) -> u64 {
    let moves = || b.a.cache.counters.values().frag_moves;
    let before = moves();
    let mut prev = [None; 2];
    for lbn in 0..blocks {
        let query = |prev| b.a.blkpref(&data_block(Ino(3), lbn, lbn as usize, prev));
        let prefs = prev.map(query);
        let mut runs = prefs.map(|p| FragRun { at: b.alloc(p, 1).unwrap(), frags: 1 });
        for frags in 2..=b.g().frag {
            for (run, pref) in runs.iter_mut().zip(prefs) {
                let at = b.a.realloc_frags(Ino(3), *run, frags, pref, Reserve::Denied).unwrap();
                if at != run.at {
                    b.free(run.at, run.frags).unwrap();
                }
                *run = FragRun { at, frags };
            }
        }
        prev = runs.map(|r| Some(r.at));
    }
    b.audit();
    moves() - before
}

#[test]
fn time_moves_once_a_block_and_space_more_often() {
    let mut setup = Setup::ufs2();
    let time = grow_files(&setup.make(), 12);
    setup.newfs.optim = Some(ffs_admin::newfs::Optim::Space);
    setup.newfs.minfree = 5;
    let space = grow_files(&setup.make(), 12);
    println!("{time} moves for time, {space} for space");
    assert!(time <= 2 * 12 && space > time && space <= 2 * 12 * 7);
}

#[test]
fn growth_is_in_place_where_the_next_fragment_is_free() {
    let b = Setup::ufs2().make();
    let at = b.alloc(None, 8).unwrap();
    b.free(at.plus(1), 7).unwrap();
    for frags in 2..=8 {
        let old = FragRun { at, frags: frags - 1 };
        let got = b.a.realloc_frags(Ino(3), old, frags, None, Reserve::Denied).unwrap();
        assert_eq!(got, at);
    }
    let v = b.a.cache.counters.values();
    assert_eq!((v.frag_extends, v.frag_moves), (7, 0));
    b.audit();
}

/// Breaks free blocks, leaving `left` fragments of each free, until `frags` fragments are free in
/// partly used blocks.
fn fragment(b: &Bench, frags: i64) {
    while b.a.totals().nffree < frags {
        let at = b.alloc(Some(b.g().cgdata(CgNo(0))), 8).unwrap();
        b.free(at.plus(1), 6).unwrap();
    }
}

/// Forces a move of a run in a block whose next fragment is taken.
fn move_one(b: &Bench) -> FragNo {
    let at = b.alloc(None, 8).unwrap();
    b.free(at.plus(1), 6).unwrap();
    let got = b.a.realloc_frags(Ino(3), FragRun { at, frags: 1 }, 8, None, Reserve::Allowed);
    b.free(at, 1).unwrap();
    got.unwrap()
}

#[test]
fn the_optimisation_switches_at_the_documented_fractions() {
    let b = Setup::ufs2().make();
    let dsize = b.g().dsize as i64;
    assert_eq!(b.a.optim(), Optim::Time);
    fragment(&b, dsize * 6 / 100 - 40);
    move_one(&b);
    assert_eq!(b.a.optim(), Optim::Time, "below minfree - 2 percent");
    fragment(&b, dsize * 6 / 100);
    move_one(&b);
    assert_eq!(b.a.optim(), Optim::Space);
    move_one(&b);
    assert_eq!(b.a.optim(), Optim::Space, "still above minfree / 2 percent");
    // Fill the partly used blocks again.
    while b.a.totals().nffree > dsize * 4 / 100 {
        b.alloc(None, 6).unwrap();
    }
    while b.a.totals().nffree > dsize * 4 / 100 - 20 {
        b.alloc(None, 1).unwrap();
    }
    move_one(&b);
    assert_eq!(b.a.optim(), Optim::Time);
    assert_eq!(b.a.cache.counters.values().optim_switches, 2);
    b.audit();
}

#[test]
fn five_percent_or_less_stays_with_space() {
    let mut setup = Setup::ufs2();
    setup.newfs.minfree = 5;
    setup.newfs.optim = Some(ffs_admin::newfs::Optim::Space);
    let b = setup.make();
    move_one(&b);
    assert_eq!((b.a.optim(), b.a.cache.counters.values().optim_switches), (Optim::Space, 0));
}

#[test]
fn tunables_are_made_sane() {
    let b = Setup::ufs2().make();
    let mut block = vec![0; 8192];
    b.dev.read_at(65536, &mut block).unwrap();
    let mut sb = Superblock::decode(&block, 65536).unwrap();
    sb.f.minfree = -3;
    sb.f.maxbpg = 0;
    sb.f.maxcontig = i32::MIN;
    sb.f.avgfilesize = 0;
    sb.f.avgfpdir = u32::MAX;
    sb.f.optim = 77;
    let p = AllocParams::of(&sb, b.g());
    let want = AllocParams {
        minfree: 0,
        optim: Optim::Time,
        maxbpg: 512,
        maxcontig: 1,
        avgfilesize: 16384,
        avgfpdir: 64,
    };
    assert_eq!(p, want);
    sb.f.minfree = 1000;
    assert_eq!(AllocParams::of(&sb, b.g()).minfree, 99);
}
