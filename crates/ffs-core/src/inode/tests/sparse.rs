//! The largest offsets of the format, and the last free blocks of a volume.

use super::*;
use crate::Error;
use ffs_ondisk::bmap;

/// The first offsets below the single, the double and the triple indirect block.
fn reaches(g: &Geometry) -> [u64; 3] {
    [0, 1, 2].map(|i| g.lblktosize(bmap::first_of_root(g, i)))
}

#[test]
fn sparse_files_reach_to_the_largest_size() {
    for shape in SHAPES {
        let b = Bench::new(shape, 24 << 20);
        let g = b.g();
        let before = b.t.ump.alloc.totals();
        let ip = b.file("a");
        let max = g.maxfilesize;
        let mut places = vec![5];
        places.extend(reaches(&g).map(|r| r + 17).iter().filter(|&&p| p < max - 100));
        places.push(max - 10);
        for &p in places.iter().rev() {
            assert_eq!(b.write(&ip, p, b"0123456789").unwrap(), 10, "{shape:?} at {p}");
        }
        assert_eq!(ip.read().d.size, max);
        // Five data blocks, one, two and three levels, and two more of another branch.
        assert!(ip.read().d.blocks * 512 <= 13 * u64::from(g.bsize), "{shape:?}");
        for &p in &places {
            assert_eq!(b.read(&ip, p - 2, 12).unwrap(), b"\0\x000123456789", "{shape:?} at {p}");
            assert_eq!(
                b.view(&ip, &ip.read()).seek_data(p - 5).unwrap(),
                (p - 5).max(p / u64::from(g.bsize) * u64::from(g.bsize))
            );
        }
        let hole = b.view(&ip, &ip.read()).seek_hole(5).unwrap();
        assert_eq!(hole, u64::from(g.bsize));
        assert!(matches!(b.write(&ip, max, b"x"), Err(Error::TooBig)));
        assert!(matches!(b.write(&ip, max - 1, b"xy"), Err(Error::TooBig)));
        assert!(matches!(b.write(&ip, u64::MAX - 1, b"xyz"), Err(Error::TooBig)));
        assert!(matches!(b.truncate(&ip, max + 1), Err(Error::TooBig)));
        b.check("sparse");
        // Truncates the file in the middle of each level.
        for &p in places.iter().rev() {
            b.truncate(&ip, p + 3).unwrap();
            assert_eq!(b.read(&ip, p, 99).unwrap(), b"012", "{shape:?} truncated at {p}");
            b.check("truncated");
        }
        b.truncate(&ip, 0).unwrap();
        assert_eq!(b.t.ump.alloc.totals().nbfree, before.nbfree);
    }
}

#[test]
fn truncating_to_any_size_and_growing_again_shows_zeros() {
    let shape = (Format::Ufs2, Endian::Little, 4096, 8);
    let b = Bench::new(shape, 24 << 20);
    let ip = b.file("a");
    let triple = reaches(&b.g())[2];
    let sizes = [1, 511, 512, 4096, 12 * 4096, 12 * 4096 + 1, triple - 4097, triple, triple + 9000];
    for &size in sizes.iter().rev() {
        let dense = vec![0xab; 3 * 4096 + 100];
        for start in [0, 11 * 4096, triple - 8192, triple + 4096] {
            b.write(&ip, start, &dense).unwrap();
        }
        b.truncate(&ip, size).unwrap();
        b.check("truncated");
        b.truncate(&ip, size + 20_000).unwrap();
        let tail = b.read(&ip, size, 30_000).unwrap();
        assert_eq!(tail.len(), 20_000);
        assert!(tail.iter().all(|&x| x == 0), "truncated at {size}");
        b.check("grown");
    }
}

#[test]
fn holes_of_any_size_are_punched() {
    let shape = (Format::Ufs2, Endian::Big, 4096, 8);
    let b = Bench::new(shape, 24 << 20);
    let ip = b.file("a");
    let triple = reaches(&b.g())[2];
    let dense = vec![0xab; 9 * 4096];
    b.write(&ip, triple - 4 * 4096, &dense).unwrap();
    b.write(&ip, 10 * 4096, &dense).unwrap();
    let blocks = ip.read().d.blocks;
    let punch = |off, len| b.lock(&ip).punch_hole(off, len).unwrap();
    punch(triple - 4096, 2 * 4096);
    assert_eq!(ip.read().d.blocks, blocks - 16);
    b.check("a block on either side");
    punch(11 * 4096 + 1, 4096);
    assert_eq!(ip.read().d.blocks, blocks - 16, "no whole block in it");
    punch(0, triple);
    b.check("all but the triple indirect");
    assert_eq!(b.view(&ip, &ip.read()).seek_data(0).unwrap(), triple + 4096);
    let size = ip.read().d.size;
    punch(0, u64::MAX);
    let d = ip.read().d.clone();
    assert_eq!((d.blocks, d.size), (4 * 8, size), "the last block and the way to it");
    assert_eq!(b.view(&ip, &ip.read()).seek_data(0).unwrap(), size - 4096);
    assert!(b.read(&ip, size - 9999, 9999).unwrap().iter().all(|&x| x == 0));
    b.check("nothing left");
}

#[test]
fn no_space_in_the_middle_of_a_chain_changes_nothing() {
    for shape in SHAPES {
        let b = Bench::new(shape, 24 << 20);
        let g = b.g();
        let ip = b.file("a");
        b.write(&ip, 0, &[1; 100]).unwrap();
        let far = reaches(&g)[2].min(g.maxfilesize - 1);
        // The last block needs a block too if it is a fragment run now.
        let grow = i64::from(g.frag > 1);
        for leave in 0..4 + grow {
            let taken = b.fill(leave);
            let before = (b.t.ump.alloc.totals(), ip.read().d.clone());
            let result = b.write(&ip, far, b"x");
            assert!(matches!(result, Err(Error::NoSpace)), "{shape:?}, {leave}: {result:?}");
            let after = ip.read().d.clone();
            // The run may have moved to a block of its own and back.
            assert_eq!(after.blocks, before.1.blocks, "{shape:?}, {leave}");
            assert_eq!((after.size, after.ib), (100, [0; 3]), "{shape:?}, {leave}");
            let (t, was) = (b.t.ump.alloc.totals(), before.0);
            let frags = |c: Csum| c.nbfree * i64::from(g.frag) + c.nffree;
            assert_eq!(frags(t), frags(was), "{shape:?}, {leave}");
            assert_eq!(b.all(&ip), [1; 100]);
            b.unfill(&taken);
            b.check("after the failure");
        }
        let taken = b.fill(4 + grow);
        assert_eq!(b.write(&ip, far, b"x").unwrap(), 1, "{shape:?}: just enough");
        b.unfill(&taken);
        b.check("just enough");
    }
}

#[test]
fn a_write_that_runs_out_of_space_is_short() {
    let b = Bench::new((Format::Ufs2, Endian::Little, 4096, 8), 8 << 20);
    let ip = b.file("a");
    let taken = b.fill(5);
    b.clock.advance(std::time::Duration::from_secs(100));
    let n = b.write(&ip, 0, &[3; 10 * 4096]).unwrap();
    assert_eq!(n, 5 * 4096);
    let d = ip.read().d.clone();
    assert_eq!((d.size, d.blocks), (5 * 4096, 40));
    assert_eq!(d.mtime.secs, 1_700_000_100);
    assert!(matches!(b.write(&ip, 5 * 4096, b"x"), Err(Error::NoSpace)));
    assert_eq!(b.write(&ip, 4096, &[4; 4096]).unwrap(), 4096, "overwriting needs no space");
    b.clock.advance(std::time::Duration::from_secs(100));
    let modified = || ip.read().d.mtime.secs;
    let result = b.lock(&ip).allocate_range(0, 99_999, Growth::Allowed, Reserve::Allowed);
    assert!(matches!(result, Err(Error::NoSpace)));
    let result = b.lock(&ip).zero_range(20_480, 99_999, Reserve::Allowed);
    assert!(matches!(result, Err(Error::NoSpace)));
    assert_eq!(modified(), 1_700_000_100, "no reader sees a difference");
    let result = b.lock(&ip).zero_range(20_000, 99_999, Reserve::Allowed);
    assert!(matches!(result, Err(Error::NoSpace)));
    assert_eq!(modified(), 1_700_000_200, "the end is zeroed");
    assert_eq!(ip.read().d.size, 5 * 4096);
    assert!(matches!(b.truncate(&ip, 6 * 4096), Err(Error::NoSpace)));
    b.unfill(&taken);
    b.check("short");
}
