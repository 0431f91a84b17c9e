//! Random allocation, growth, moves and frees, for every geometry.

use super::*;
use ffs_testkit::rng::SplitMix64 as Dice;

/// The runs and inodes that are allocated.
struct Model {
    free: Vec<bool>,
    runs: Vec<FragRun>,
    inodes: Vec<(Ino, bool)>,
}

impl Model {
    fn take(&mut self, g: &Geometry, run: FragRun) {
        assert_eq!(g.run_problem(run.at, run.frags), None, "{run:?}");
        for f in 0..u64::from(run.frags) {
            let slot = &mut self.free[(run.at.0 + f) as usize];
            assert!(*slot, "{run:?} overlaps something");
            *slot = false;
        }
    }

    fn give(&mut self, run: FragRun) {
        for f in 0..u64::from(run.frags) {
            self.free[(run.at.0 + f) as usize] = true;
        }
    }

    fn pick(&self, dice: &mut Dice) -> Option<usize> {
        (!self.runs.is_empty()).then(|| dice.below(self.runs.len() as u64) as usize)
    }
}

fn step(b: &Bench, m: &mut Model, dice: &mut Dice) {
    let g = *b.g();
    let pref = (!dice.one_in(3)).then(|| FragNo(dice.below(g.size + 100)));
    match dice.below(100) {
        0..35 => {
            let frags = dice.between(1, g.frag.into()) as u32;
            if let Ok(at) = b.a.alloc_frags(Ino(2), pref, frags, Reserve::Denied) {
                let run = FragRun { at, frags };
                m.take(&g, run);
                m.runs.push(run);
            }
        }
        35..55 => grow(b, m, dice, pref),
        55..60 => {
            let len = dice.between(1, u64::from(g.contigsumsize) + 1) as u32;
            if let Some(at) = b.a.alloc_cluster(Ino(2), pref, len).unwrap() {
                for i in 0..len {
                    let run = FragRun { at: at.plus((i * g.frag).into()), frags: g.frag };
                    m.take(&g, run);
                    m.runs.push(run);
                }
            }
        }
        60..85 => {
            if let Some(i) = m.pick(dice) {
                free_some(b, m, dice, i);
            }
        }
        85..93 => {
            let is_dir = dice.one_in(3);
            let parent = ParentDir { ino: Ino(dice.below(g.inodes().into()) as u32), ..ROOT_DIR };
            if let Ok(ino) = b.a.alloc_inode(&parent, is_dir) {
                assert!(m.inodes.iter().all(|(i, _)| *i != ino), "{ino:?} given out twice");
                assert!(b.a.inode_initialised(ino).unwrap(), "{ino:?}");
                m.inodes.push((ino, is_dir));
            }
        }
        _ if !m.inodes.is_empty() => {
            let i = dice.below(m.inodes.len() as u64) as usize;
            let (ino, is_dir) = m.inodes.swap_remove(i);
            b.a.free_inode(ino, is_dir).unwrap();
        }
        _ => {}
    }
}

fn grow(b: &Bench, m: &mut Model, dice: &mut Dice, pref: Option<FragNo>) {
    let g = *b.g();
    let Some(i) = m.pick(dice).filter(|i| m.runs[*i].frags < g.frag) else { return };
    let old = m.runs[i];
    let new = dice.between((old.frags + 1).into(), g.frag.into()) as u32;
    let Ok(at) = b.a.realloc_frags(Ino(2), old, new, pref, Reserve::Denied) else { return };
    if at == old.at {
        m.take(&g, FragRun { at: at.plus(old.frags.into()), frags: new - old.frags });
    } else {
        m.take(&g, FragRun { at, frags: new });
        b.free(old.at, old.frags).unwrap();
        m.give(old);
    }
    m.runs[i] = FragRun { at, frags: new };
}

/// Frees a run, or the end of a run.
fn free_some(b: &Bench, m: &mut Model, dice: &mut Dice, i: usize) {
    let run = m.runs[i];
    let keep = if dice.one_in(3) { dice.below(run.frags.into()) as u32 } else { 0 };
    let tail = FragRun { at: run.at.plus(keep.into()), frags: run.frags - keep };
    b.a.free_frags(tail).unwrap();
    m.give(tail);
    if keep == 0 {
        m.runs.swap_remove(i);
    } else {
        m.runs[i].frags = keep;
    }
}

fn run(setup: &Setup, seed: u64) {
    println!("seed {seed}: {setup:?}");
    let b = setup.make();
    let mut dice = Dice::new(seed);
    let before = b.a.totals();
    let empty = b.free_map();
    let mut m = Model { free: empty.clone(), runs: Vec::new(), inodes: Vec::new() };
    for round in 0..6 {
        for _ in 0..400 {
            step(&b, &mut m, &mut dice);
        }
        assert_eq!(b.free_map(), m.free, "round {round}");
        b.audit();
    }
    b.audit_device();
    for run in m.runs.drain(..) {
        b.a.free_frags(run).unwrap();
    }
    for (ino, is_dir) in m.inodes.drain(..) {
        b.a.free_inode(ino, is_dir).unwrap();
    }
    b.audit();
    b.audit_device();
    assert_eq!((b.free_map(), b.a.totals()), (empty, before), "everything is free again");
}

#[test]
fn counts_follow_the_maps_for_every_geometry() {
    let mut seed = 1;
    for format in [Format::Ufs1, Format::Ufs2] {
        for endian in [Endian::Little, Endian::Big] {
            for frag in [1, 2, 4, 8] {
                for policy in [AllocPolicy::Y2001, AllocPolicy::Y2013] {
                    let mut setup = Setup::new(format, endian, 4096, frag).groups(5);
                    setup.bytes = 4 << 20;
                    setup.policy = policy;
                    run(&setup.groups(5), seed);
                    seed += 1;
                }
            }
        }
    }
}

#[test]
fn counts_follow_the_maps_when_the_volume_ends_inside_a_block() {
    let mut setup = Setup::ufs2();
    setup.bytes = (4 << 20) + 3 * 512;
    setup.newfs.optim = Some(ffs_admin::newfs::Optim::Space);
    run(&setup.groups(3), 100);
}

#[test]
fn threads_share_the_groups() {
    let b = Setup::ufs2().groups(6).make();
    let before = b.a.totals();
    std::thread::scope(|s| {
        for t in 0..4u64 {
            let b = &b;
            s.spawn(move || {
                let mut dice = Dice::new(t);
                let mut mine = Vec::new();
                for _ in 0..800 {
                    let frags = dice.between(1, 8) as u32;
                    mine.push((b.alloc(None, frags).unwrap(), frags));
                    let ino = b.a.alloc_inode(&ROOT_DIR, dice.one_in(4)).unwrap();
                    b.a.free_inode(ino, false).unwrap();
                }
                for (at, frags) in mine {
                    b.free(at, frags).unwrap();
                }
            });
        }
    });
    b.audit();
    let after = b.a.totals();
    assert_eq!((before.nbfree, before.nffree), (after.nbfree, after.nffree));
    assert_eq!(before.nifree, after.nifree);
}
