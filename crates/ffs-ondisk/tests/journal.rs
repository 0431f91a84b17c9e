//! The journal of SU+J: segments and records.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use ffs_ondisk::{Dinode, Endian, FileFlags, Format, Geometry, journal, sbcheck};
use proptest::prelude::*;

include!("common/small.rs");

/// The geometry of a volume as newfs creates it.
fn geometry(format: Format, bsize: i32, frag: i32, groups: u32, blocks: i32) -> Geometry {
    let sb = superblock(format, bsize, frag, groups, blocks);
    assert_eq!(sbcheck::problems(&sb, None), []);
    sbcheck::geometry(&sb, None).unwrap()
}

/// A journal of `segments`: (sequence, oldest, sectors, records).
fn journal_of(mtime: i64, segments: &[(u64, u64, u16, u16)]) -> Vec<u8> {
    let mut out = Vec::new();
    for &(seq, oldest, blocks, cnt) in segments {
        let header = journal::SegHeader { seq, oldest, cnt, blocks, crc: 0, time: mtime };
        let mut left = cnt;
        for _ in 0..blocks {
            let mut sector = vec![0; 512];
            header.encode(&mut sector, Endian::Little);
            for slot in sector.chunks_mut(32).skip(1) {
                if left > 0 {
                    let r = journal::Ref { op: 1, ino: 5, parent: 2, ..Default::default() };
                    r.encode(slot, Endian::Little);
                    left -= 1;
                }
            }
            out.extend(sector);
        }
    }
    out
}

#[test]
fn journal_segments_are_ordered_and_end_at_gaps() {
    let seqs = |b: &[u8]| -> Vec<u64> {
        let live = journal::scan(Endian::Little, b, 512, 77).unwrap();
        live.iter().map(|s| s.header.seq).collect()
    };
    // A ring that wrapped: 5 and 6 precede 3 and 4; 1 and 2 are no longer needed.
    let b = journal_of(
        77,
        &[(5, 3, 1, 2), (6, 3, 2, 20), (1, 0, 1, 1), (2, 1, 1, 1), (3, 1, 1, 1), (4, 3, 1, 1)],
    );
    assert_eq!(seqs(&b), [3, 4, 5, 6]);
    assert_eq!(seqs(&journal_of(77, &[(3, 3, 1, 1), (4, 3, 1, 1), (6, 3, 1, 1)])), [3, 4]);
    assert_eq!(seqs(&journal_of(76, &[(3, 3, 1, 1)])), [], "another mount");
    assert_eq!(seqs(&journal_of(77, &[(3, 3, 1, 0)])), [], "no records");
    let mut torn = journal_of(77, &[(3, 3, 1, 1), (4, 3, 3, 40), (5, 3, 1, 1)]);
    torn[1024] = 9;
    assert_eq!(seqs(&torn), [3], "one sector of 4 is of another segment");
    assert_eq!(seqs(&torn[..100]), []);
    assert_eq!(journal::scan(Endian::Little, &b, 0, 77), Ok(Vec::new()));
}

#[test]
fn impossible_sequences_are_refused() {
    use journal::SequenceError::{Disordered, Missing, OtherSectors, Repeated};
    let scan = |segments: &[(u64, u64, u16, u16)]| {
        journal::scan(Endian::Little, &journal_of(77, segments), 512, 77).unwrap_err()
    };
    assert_eq!(scan(&[(4, 3, 1, 1), (5, 3, 1, 1)]), Missing(3));
    assert_eq!(scan(&[(3, 3, 1, 1), (4, 3, 1, 1), (4, 3, 1, 1)]), Repeated(4));
    assert_eq!(scan(&[(5, 3, 1, 1), (4, 3, 1, 1), (3, 3, 1, 1)]), Disordered(5));
    assert_eq!(scan(&[(3, 3, 1, 1), (5, 3, 1, 1), (4, 3, 1, 1)]), Disordered(5), "beyond a lap");
    assert_eq!(scan(&[(3, 3, 1, 1), (4, 9, 1, 1)]), Missing(9));
    assert_eq!(scan(&[(3, 3, 1, 1), (4, 3, 1, 16)]), OtherSectors(4), "more than fit");
}

#[test]
fn journal_records_are_checked_against_the_volume() {
    let g = geometry(Format::Ufs2, 8192, 8, 3, 100);
    let data = i64::from(g.dblkno) + 8;
    let blk = journal::Blk { op: 3, ino: 5, blkno: data, lbn: 12, frags: 8, ..Default::default() };
    let trunc = journal::Trunc { op: 6, ino: 5, size: 100, ..Default::default() };
    let mv =
        journal::Move { op: 5, ino: 5, parent: 2, oldoff: 24, newoff: 12, ..Default::default() };
    let read = |write: &dyn Fn(&mut [u8])| {
        let mut b = journal_of(1, &[(0, 0, 1, 1)]);
        write(&mut b[32..64]);
        let live = journal::scan(Endian::Little, &b, 512, 1).unwrap();
        let mut recs = journal::records(&g, &b, &live[0], 512).collect::<Vec<_>>();
        assert_eq!(recs.len(), 1);
        recs.remove(0)
    };
    let e = Endian::Little;
    assert_eq!(read(&|b| blk.encode(b, e)), Ok(journal::Record::NewBlk(blk.clone())));
    assert_eq!(read(&|b| trunc.encode(b, e)), Ok(journal::Record::Trunc(trunc.clone())));
    assert_eq!(read(&|b| mv.encode(b, e)), Ok(journal::Record::MoveRef(mv.clone())));
    let field = |write: &dyn Fn(&mut [u8])| read(write).unwrap_err().field;
    let bad = |b: journal::Blk| field(&|w| b.encode(w, e));
    assert_eq!(bad(journal::Blk { ino: 1, ..blk.clone() }), "inode number");
    assert_eq!(bad(journal::Blk { ino: g.inodes(), ..blk.clone() }), "inode number");
    assert_eq!(bad(journal::Blk { op: 8, ..blk.clone() }), "operation");
    assert_eq!(bad(journal::Blk { blkno: 1, ..blk.clone() }), "block");
    assert_eq!(bad(journal::Blk { frags: 9, ..blk.clone() }), "block");
    assert_eq!(bad(journal::Blk { lbn: -7, ..blk.clone() }), "logical block");
    assert_eq!(field(&|b| journal::Trunc { size: -1, ..trunc.clone() }.encode(b, e)), "size");
    assert_eq!(
        field(&|b| journal::Move { newoff: 512, ..mv.clone() }.encode(b, e)),
        "entry offset"
    );
    assert_eq!(field(&|b| journal::Move { parent: 0, ..mv.clone() }.encode(b, e)), "directory");
}

#[test]
fn journal_inodes_are_recognised() {
    let g = geometry(Format::Ufs2, 8192, 8, 3, 400);
    let good = Dinode {
        mode: 0o100_400,
        nlink: 1,
        flags: FileFlags::SF_IMMUTABLE | FileFlags::SF_NOUNLINK | FileFlags::UF_NODUMP,
        size: 4 << 20,
        ..Dinode::default()
    };
    assert_eq!(journal::inode_problem(&g, &good), None);
    let bad = [
        Dinode { mode: 0o100_600, ..good.clone() },
        Dinode { nlink: 2, ..good.clone() },
        Dinode { flags: FileFlags::empty(), ..good.clone() },
        Dinode { size: 4 << 19, ..good.clone() },
        Dinode { size: (4 << 20) + 1, ..good.clone() },
    ];
    for d in bad {
        assert!(journal::inode_problem(&g, &d).is_some());
    }
}

proptest! {
    #[test]
    fn journal_scan_ends_on_any_bytes(
        b in prop::collection::vec(any::<u8>(), 0..9000), sector in 0usize..2000
    ) {
        let g = geometry(Format::Ufs1, 4096, 8, 2, 60);
        for s in journal::scan(Endian::Big, &b, sector, 0).unwrap_or_default() {
            prop_assert!(s.offset + s.len <= b.len());
            let _ = journal::records(&g, &b, &s, sector).count();
        }
    }

    #[test]
    fn a_segment_is_read_as_it_was_written(
        picks in prop::collection::vec((0usize..7, 3u32..40, 0i64..12, 1u16..8), 1..300),
        seq in 1u64..1 << 60, sector in prop::sample::select(vec![512usize, 4096]), big: bool,
    ) {
        let endian = if big { Endian::Big } else { Endian::Little };
        let g = Geometry { endian, ..geometry(Format::Ufs2, 8192, 8, 3, 100) };
        let data = i64::from(g.dblkno) + 8;
        let records: Vec<_> = picks.iter().map(|&p| record_of(p, data)).collect();
        let header = journal::SegHeader { seq, oldest: seq, time: 9, ..Default::default() };
        let b = journal::segment(endian, sector, &header, &records).unwrap();
        let found = journal::scan(endian, &b, sector, 9).unwrap();
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(found[0].len, b.len());
        let back: Result<Vec<_>, _> = journal::records(&g, &b, &found[0], sector).collect();
        prop_assert_eq!(back.unwrap(), records);
        // A segment with a check hash in which a byte changed is refused or absent.
        let mut torn = b.clone();
        let at = (seq as usize) % torn.len();
        torn[at] ^= 0x10;
        let left = journal::scan(endian, &torn, sector, 9).unwrap_or_default();
        prop_assert!(left.is_empty() || (CRC.contains(&(at % sector))), "byte {}", at);
    }
}

/// Bytes of a sector that hold the check hash, which counts as zero in itself.
const CRC: std::ops::Range<usize> = 20..24;

/// A record of one of the seven kinds.
fn record_of(pick: (usize, u32, i64, u16), data: i64) -> journal::Record {
    use journal::{Blk, Move, Record, Ref, Trunc};
    let (kind, ino, n, frags) = pick;
    let entry = Ref { ino, parent: 2, nlink: 1, mode: 0o100_644, diroff: n * 4, ..Ref::default() };
    let blk = Blk { ino, blkno: data, lbn: n, frags, ..Blk::default() };
    let trunc = Trunc { ino, size: n, ..Trunc::default() };
    let (oldoff, newoff) = (n * 4, n * 4 + 12);
    match kind {
        0 => Record::AddRef(Ref { op: 1, ..entry }),
        1 => Record::RemRef(Ref { op: 2, ..entry }),
        2 => Record::NewBlk(Blk { op: 3, ..blk }),
        3 => Record::FreeBlk(Blk { op: 4, ..blk }),
        4 => Record::MoveRef(Move { op: 5, ino, parent: 2, oldoff, newoff, ..Move::default() }),
        5 => Record::Trunc(Trunc { op: 6, ..trunc }),
        _ => Record::Sync(Trunc { op: 7, ..trunc }),
    }
}
