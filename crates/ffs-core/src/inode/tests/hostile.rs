//! Invalid pointers, and other damage of inodes.

use super::*;
use crate::Error;
use ffs_ondisk::bmap::set_pointer;

/// A volume with a file of 40 blocks, all of them written.
fn bench() -> (Bench, Arc<Inode>) {
    let b = Bench::new((Format::Ufs2, Endian::Little, 4096, 8), 16 << 20);
    let ip = b.file("a");
    b.write(&ip, 0, &[1; 40 * 4096]).unwrap();
    b.sync();
    (b, ip)
}

/// A copy of the volume on another device.
fn copy(b: &Bench) -> Bench {
    let mut bytes = vec![0; b.dev.len_bytes() as usize];
    b.dev.read_at(0, &mut bytes).unwrap();
    Bench::open(Arc::new(ffs_device::MemDevice::from_bytes(&bytes)))
}

/// Values that no pointer may have.
fn bad_pointers(g: &Geometry) -> Vec<i64> {
    let cg = g.cgtod(CgNo(0)).0 as i64;
    let block = g.cgdmin(CgNo(0)).0 as i64;
    vec![-1, i64::MIN, i64::MAX, g.size as i64, g.size as i64 - 1, 1, cg, block + 1]
}

/// Opens the volume again after a change of the file's inode on the device.
fn damaged(b: &Bench, ino: Ino, damage: impl FnOnce(&mut Dinode)) -> (Bench, Arc<Inode>) {
    let g = b.g();
    let at = g.frag_to_byte(g.ino_to_fsba(ino));
    let mut block = vec![0; g.bsize as usize];
    b.dev.read_at(at, &mut block).unwrap();
    let place = &mut block[g.ino_to_fsbo(ino)..];
    let mut d = Dinode::decode(&g, place);
    damage(&mut d);
    d.encode(&g, place);
    b.dev.write_at(at, &block).unwrap();
    let b = Bench::open(b.dev.clone());
    let ip = b.t.get(ino).unwrap();
    b.t.hold(&ip);
    (b, ip)
}

fn is_format<T: std::fmt::Debug>(r: crate::Result<T>) {
    assert!(matches!(r, Err(Error::Format(_))), "{r:?}");
}

#[test]
fn bad_pointers_of_an_inode_are_errors_and_the_rest_is_freed() {
    let (b, ip) = bench();
    for bad in bad_pointers(&b.g()) {
        let (h, f) = damaged(&copy(&b), ip.ino, |d| d.db[3] = bad);
        is_format(h.read(&f, 3 * 4096, 10));
        is_format(h.read(&f, 0, 99_999));
        assert_eq!(h.read(&f, 0, 3 * 4096).unwrap(), [1; 3 * 4096], "the blocks before");
        is_format(h.write(&f, 3 * 4096, b"x"));
        is_format(h.view(&f, &f.read()).seek_data(3 * 4096));
        let free = h.t.ump.alloc.totals().nbfree;
        is_format(h.truncate(&f, 0));
        assert_eq!(h.t.ump.alloc.totals().nbfree, free + 40, "39 blocks and the indirect block");
        assert_eq!((f.read().d.size, f.read().d.blocks), (0, 0));
        let (h, f) = damaged(&copy(&b), ip.ino, |d| d.ib[0] = bad);
        is_format(h.read(&f, 12 * 4096, 10));
        is_format(h.write(&f, 12 * 4096, b"x"));
        is_format(h.truncate(&f, 13 * 4096));
        assert_eq!(f.read().d.size, 40 * 4096, "nothing changed");
        is_format(h.truncate(&f, 0));
    }
}

#[test]
fn a_pointer_beyond_the_end_is_not_used() {
    let (b, ip) = bench();
    let (h, f) = damaged(&b, ip.ino, |d| d.size = 4096);
    assert_eq!(h.all(&f), vec![1; 4096]);
    is_format(h.write(&f, 4096, b"x"));
    is_format(h.truncate(&f, 8192));
    is_format(h.truncate(&f, 0));
    // Their sizes are unknown. The pointers are cleared, and fsck frees the blocks.
    assert_eq!(f.read().d.db, [0; 12]);
}

#[test]
fn a_tree_tied_into_a_knot_is_freed_in_bounded_time() {
    let (b, ip) = bench();
    let g = b.g();
    let knot = ip.read().d.ib[0];
    let mut block = vec![0; g.bsize as usize];
    for k in 0..g.nindir as usize {
        set_pointer(&g, &mut block, k, knot);
    }
    b.dev.write_at(g.frag_to_byte(ffs_ondisk::FragNo(knot as u64)), &block).unwrap();
    let (h, f) = damaged(&b, ip.ino, |d| {
        d.ib = [knot; 3];
        d.size = g.maxfilesize;
    });
    let triple = g.lblktosize(ffs_ondisk::bmap::first_of_root(&g, 2));
    assert_eq!(h.read(&f, triple + 12345, 10).unwrap().len(), 10);
    is_format(h.view(&f, &f.read()).seek_hole(0).map(|_| ()).and_then(|()| h.truncate(&f, triple)));
    is_format(h.truncate(&f, 0));
    f.write().d.nlink = 0;
    let _ = h.t.release(&f);
    assert!(matches!(h.t.get(ip.ino), Err(Error::Stale)));
}

#[test]
fn an_empty_knot_is_searched_in_bounded_time() {
    let (b, ip) = bench();
    let g = b.g();
    let knot = ip.read().d.ib[0];
    let spare = ip.read().d.db[5];
    let at = |p: i64| g.frag_to_byte(ffs_ondisk::FragNo(p as u64));
    b.dev.write_at(at(spare), &vec![0; g.bsize as usize]).unwrap();
    let mut block = vec![0; g.bsize as usize];
    for k in 0..g.nindir as usize {
        set_pointer(&g, &mut block, k, spare);
    }
    b.dev.write_at(at(knot), &block).unwrap();
    let (h, f) = damaged(&b, ip.ino, |d| {
        d.db = [0; 12];
        d.ib = [spare, knot, 0];
        d.size = g.maxfilesize;
    });
    let r = h.view(&f, &f.read()).seek_data(0);
    assert!(matches!(r, Err(Error::NoData | Error::Format(_))), "{r:?}");
}

#[test]
fn free_inodes_and_numbers_out_of_range_are_stale() {
    let (b, ip) = bench();
    let g = b.g();
    let next = Ino(ip.ino.0 + 1);
    for ino in [Ino(0), Ino(1), next, Ino(g.ipg - 1), Ino(g.inodes()), Ino(u32::MAX)] {
        assert!(matches!(b.t.get(ino), Err(Error::Stale)), "{ino:?}");
    }
    let (h, _) = damaged(&b, ip.ino, |d| d.nlink = 7);
    drop(h);
    let at = g.frag_to_byte(g.ino_to_fsba(ip.ino)) + g.ino_to_fsbo(ip.ino) as u64;
    b.dev.write_at(at + 100, &[0x5a]).unwrap();
    is_format(Bench::open(b.dev.clone()).t.get(ip.ino).map(|_| ()));
}
