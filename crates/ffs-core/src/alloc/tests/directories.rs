//! Directory placement: golden sequences over artificial summaries, and real groups.

use super::super::dirpref::{Expected, View};
use super::*;
use ffs_device::Rng;

const USUAL: Expected = Expected { avgfilesize: 16384, avgfpdir: 64 };

/// Groups of 8 MiB with 2000 inodes, 8K/1K: the third example of the specification.
fn small_groups(ncg: u32) -> Geometry {
    let mut g = *Setup::new(Format::Ufs1, Endian::Little, 8192, 8).make().g();
    g.ncg = ncg;
    g.fpg = 8192;
    g.ipg = 2000;
    g
}

/// A disk of equal, empty groups, and directories created in it by a policy.
struct Disk {
    g: Geometry,
    cs: Vec<Csum>,
    row: Vec<u8>,
    rng: SplitMix64,
}

impl Disk {
    fn new(ncg: u32) -> Disk {
        let g = small_groups(ncg);
        let empty = Csum { ndir: 0, nbfree: 900, nifree: 2000, nffree: 0 };
        let n = ncg as usize;
        Disk { g, cs: vec![empty; n], row: vec![0; n], rng: SplitMix64::new(11) }
    }

    fn choose(&self, variant: DirPref, parent: &ParentDir) -> u32 {
        let mut totals = Csum::default();
        self.cs.iter().for_each(|cs| totals.add(cs));
        let view = View { g: &self.g, cs: &self.cs, totals, contigdirs: &self.row };
        view.choose(variant, USUAL, parent, &self.rng).0
    }

    /// Creates a directory: an inode and a block.
    fn mkdir(&mut self, variant: DirPref, parent: &ParentDir) -> u32 {
        let c = self.choose(variant, parent);
        let cs = &mut self.cs[c as usize];
        cs.ndir += 1;
        cs.nifree -= 1;
        cs.nbfree -= 1;
        self.row[c as usize] = self.row[c as usize].saturating_add(1);
        c
    }

    fn parent_in(&self, group: u32, depth: u32) -> ParentDir {
        ParentDir { ino: Ino(group * self.g.ipg + 5), depth, nlink: 2 }
    }
}

#[test]
fn old_deals_directories_out() {
    let mut d = Disk::new(4);
    let p = d.parent_in(2, 1);
    let got: Vec<u32> = (0..10).map(|_| d.mkdir(DirPref::Old, &p)).collect();
    // Each directory lowers the free inodes of its group below the average, until all groups have
    // one.
    assert_eq!(got, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
    d.cs[2].nifree = 10;
    let got: Vec<u32> = (0..4).map(|_| d.mkdir(DirPref::Old, &p)).collect();
    assert_eq!(got, [3, 0, 1, 3], "group 2 is short of inodes");
    d.cs.iter_mut().for_each(|cs| cs.ndir = 2000);
    assert_eq!(d.choose(DirPref::Old, &p), 0, "none qualifies");
}

#[test]
fn first_level_directories_start_at_a_random_group() {
    for variant in [DirPref::New, DirPref::New10] {
        let mut d = Disk::new(7);
        let root = ParentDir { ino: Ino::ROOT, depth: 0, nlink: 2 };
        let first = SplitMix64::new(11).below(7) as u32;
        let same_seed = SplitMix64::new(11);
        let got: Vec<u32> = (0..7).map(|_| d.mkdir(variant, &root)).collect();
        assert_eq!(got[0], first, "{variant:?}");
        let mut sorted = got.clone();
        sorted.sort();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6], "one each: {got:?}");
        d.cs.iter_mut().for_each(|cs| cs.ndir = 2000);
        let eighth = (0..8).map(|_| SplitMix64::below(&same_seed, 7) as u32).last();
        assert_eq!(Some(d.choose(variant, &root)), eighth, "none qualifies: the random one");
    }
}

/// The example of the specification: 8 MiB groups, S = 1 MiB, 2000 inodes: 8 in a row.
#[test]
fn near_the_parent_until_k_in_a_row() {
    let mut d = Disk::new(5);
    let p = d.parent_in(3, 1);
    let got: Vec<u32> = (0..20).map(|_| d.mkdir(DirPref::New, &p)).collect();
    let want = [[3; 8].as_slice(), &[4; 8], &[0; 4]].concat();
    assert_eq!(got, want);
    // The present limit uses free space: 900 blocks of 8K / 1 MiB = 7.
    let mut d = Disk::new(5);
    let got: Vec<u32> = (0..16).map(|_| d.mkdir(DirPref::New10, &p)).collect();
    assert_eq!(got, [[3; 7].as_slice(), &[4; 7], &[0; 2]].concat());
}

#[test]
fn limits_of_new_and_new10_differ() {
    let mut d = Disk::new(4);
    let p = d.parent_in(1, 1);
    let mut both = |nifree, nbfree| {
        d.cs[1] = Csum { nifree, nbfree, ..d.cs[2] };
        (d.choose(DirPref::New, &p), d.choose(DirPref::New10, &p))
    };
    // Average 1835 inodes: at least 1835 - 2000 / 4 = 1335, or 1835 - 1835 / 4 = 1377.
    assert_eq!(both(1340, 900), (1, 2));
    assert_eq!(both(1300, 900), (2, 2));
    assert_eq!(both(1400, 900), (1, 1));
    // Average 825 blocks: at least 825 - 1024 / 4 = 569, or 825 - 825 / 4 = 619.
    assert_eq!(both(2000, 600), (1, 2));
    assert_eq!(both(2000, 500), (2, 2));
    assert_eq!(both(2000, 640), (1, 1));
}

#[test]
fn space_short_everywhere_falls_back_to_inodes() {
    for variant in [DirPref::New, DirPref::New10, DirPref::Depth] {
        let mut d = Disk::new(4);
        d.row = vec![255; 4];
        d.cs[1].nifree = 1000;
        let p = d.parent_in(1, 1);
        let p = ParentDir { nlink: 2, ..p };
        let got = d.choose(variant, &p);
        assert!(got != 1, "{variant:?}: the parent's group has fewer inodes than the average");
        d.cs.iter_mut().for_each(|cs| *cs = Csum::default());
        assert!(d.choose(variant, &p) < 4);
    }
}

#[test]
fn depth_probes_halves_quarters_and_eighths() {
    let d = Disk::new(64);
    let root = |nlink| ParentDir { ino: Ino::ROOT, depth: 0, nlink };
    let got: Vec<u32> = (2..9).map(|n| d.choose(DirPref::Depth, &root(n))).collect();
    // Around group 0, range 64: -32 + 64 x (1/2, 1/4, 3/4, 1/8, 3/8, 5/8, 7/8), modulo the groups.
    assert_eq!(got, [0, 48, 16, 40, 56, 8, 24]);
    let child = |nlink| ParentDir { nlink, ..d.parent_in(10, 2) };
    let got: Vec<u32> = (2..6).map(|n| d.choose(DirPref::Depth, &child(n))).collect();
    assert_eq!(got, [10, 6, 14, 4], "range 16 around group 10");
    assert_eq!(d.choose(DirPref::Depth, &d.parent_in(10, 0)), 10, "depth unknown");
    for depth in [6, 7, 31, 32, 63, u32::MAX] {
        for nlink in [0, 1, 2, 3, u16::MAX] {
            let p = ParentDir { nlink, ..d.parent_in(10, depth) };
            let want = if depth == 6 { 9..=11 } else { 10..=10 };
            assert!(want.contains(&d.choose(DirPref::Depth, &p)), "depth {depth}, {nlink} links");
        }
    }
    let p = ParentDir { ino: Ino(u32::MAX), depth: 0, nlink: 0 };
    assert!(d.choose(DirPref::Depth, &p) < 64);
}

#[test]
fn huge_numbers_do_not_overflow() {
    let mut d = Disk::new(3);
    d.g.fpg = !7;
    d.g.bsize = 65536;
    d.g.fsize = 8192;
    let most = Csum { ndir: 1, nbfree: i64::from(i32::MAX), nifree: 2000, nffree: 0 };
    d.cs = vec![most; 3];
    let mut totals = Csum::default();
    d.cs.iter().for_each(|cs| totals.add(cs));
    for variant in [DirPref::Old, DirPref::New, DirPref::New10, DirPref::Depth] {
        for (avgfilesize, avgfpdir) in [(u32::MAX, u32::MAX), (1 << 31, 2), (0, 0), (0, 9), (9, 0)]
        {
            let view = View { g: &d.g, cs: &d.cs, totals, contigdirs: &d.row };
            let e = Expected { avgfilesize, avgfpdir };
            assert!(view.choose(variant, e, &d.parent_in(2, 3), &d.rng).0 < 3);
        }
    }
    // avgfilesize x avgfpdir of 2^62: one directory, then the next group.
    let e = Expected { avgfilesize: 1 << 31, avgfpdir: 1 << 31 };
    for row in [0u8, 1] {
        let rows = [0, 0, row];
        let view = View { g: &d.g, cs: &d.cs, totals, contigdirs: &rows };
        let got = view.choose(DirPref::New, e, &d.parent_in(2, 1), &d.rng).0;
        assert_eq!(got, if row == 0 { 2 } else { 0 });
    }
}

/// The groups of 400 directories in one parent, with `files` files in each.
fn mkdirs(variant: DirPref, files: usize) -> Vec<u32> {
    let mut setup = Setup::new(Format::Ufs2, Endian::Little, 8192, 8);
    setup.bytes = 64 << 20;
    setup.newfs.density = Some(4096);
    setup.dirpref = variant;
    let b = setup.groups(8).make();
    let parent = ParentDir { ino: Ino(3), depth: 1, nlink: 2 };
    let mut out = Vec::new();
    for _ in 0..400 {
        let ino = b.a.alloc_inode(&parent, true).unwrap();
        let own = ParentDir { ino, depth: 2, nlink: 2 };
        for _ in 0..files {
            b.a.alloc_inode(&own, false).unwrap();
        }
        out.push(b.g().ino_to_cg(ino).0);
    }
    b.audit();
    out
}

#[test]
fn directories_without_files_spill_and_with_files_stay() {
    let alone = mkdirs(DirPref::New, 0);
    let k = alone.iter().take_while(|c| **c == 0).count();
    // 8 MiB groups, 16384 x 64 bytes a directory: 8 in a row.
    assert_eq!(k, 8, "{alone:?}");
    assert!(alone[8..16].iter().all(|c| *c == 1), "{alone:?}");
    assert_eq!(alone[16], 2);
    let with_files = mkdirs(DirPref::New, 2);
    assert!(with_files[..100].iter().all(|c| *c == 0), "{with_files:?}");
}

/// A tree of 400 directories: `old` scatters it, `new` keeps it together.
#[test]
fn a_tree_stays_together_under_the_new_policies() {
    let share = |variant| {
        let near = mkdirs(variant, 2).iter().filter(|c| **c == 0).count();
        near as f64 / 400.0
    };
    assert!(share(DirPref::Old) < 0.2);
    for variant in [DirPref::New, DirPref::New10] {
        assert!(share(variant) > 0.25, "{variant:?}: {}", share(variant));
    }
}
