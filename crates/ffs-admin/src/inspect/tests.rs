//! Volumes with files, names and remains that the tests write byte by byte.

use std::io::Cursor;

use ffs_device::{BlockDevice, ManualClock, MemDevice, SplitMix64};
use ffs_ondisk::cg::CgMut;
use ffs_ondisk::dir::{self, DirFormat, Record, dirsiz};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{CgNo, Dinode, Endian, Format, FragNo, Geometry, Ino, Lbn, bmap};

use super::records::chunk_records;
use super::{BlockKind, InodeState, Inspector, Owner, RawRecord, RecordState};
use crate::AdminError;
use crate::newfs::{NewfsOptions, newfs};

const FILE: Ino = Ino(20);

struct Rig {
    dev: MemDevice,
    g: Geometry,
}

impl Rig {
    fn new(format: Format, endian: Endian) -> Rig {
        let dev = MemDevice::new(16 << 20);
        let options = NewfsOptions { format: Some(format), endian, ..NewfsOptions::default() };
        let (clock, rng) = (ManualClock::default(), SplitMix64::new(7));
        let g = newfs(&dev, &options, &clock, &rng, &mut |_, _| {}).unwrap().geometry;
        Rig { dev, g }
    }

    fn store(&self, ino: Ino, d: &Dinode) {
        let mut bytes = vec![0; self.g.format.dinode_size()];
        d.encode(&self.g, &mut bytes);
        let at = self.g.frag_to_byte(self.g.ino_to_fsba(ino)) + self.g.ino_to_fsbo(ino) as u64;
        self.dev.write_at(at, &bytes).unwrap();
    }

    fn change_group(&self, c: CgNo, change: impl FnOnce(&mut CgMut<'_>)) {
        let mut bytes = vec![0; self.g.cgsize as usize];
        let at = self.g.frag_to_byte(self.g.cgtod(c));
        self.dev.read_at(at, &mut bytes).unwrap();
        let mut group = CgMut::new(&self.g, &mut bytes);
        change(&mut group);
        group.seal(0);
        self.dev.write_at(at, &bytes).unwrap();
    }

    /// The `n`th block of the data area.
    fn block(&self, n: u64) -> FragNo {
        FragNo(self.g.blknum(self.g.cgdmin(CgNo(0))).0 + (100 + n) * u64::from(self.g.frag))
    }

    fn fill(&self, at: FragNo, byte: u8) {
        let bytes = vec![byte; self.g.bsize as usize];
        self.dev.write_at(self.g.frag_to_byte(at), &bytes).unwrap();
    }

    fn inspect(&self) -> Inspector<'_> {
        Inspector::open(&self.dev).unwrap()
    }
}

fn formats() -> [(Format, Endian); 3] {
    [(Format::Ufs1, Endian::Little), (Format::Ufs1, Endian::Big), (Format::Ufs2, Endian::Little)]
}

/// A file of two direct blocks, a hole, and a block and a fragment behind an indirect one.
fn file(rig: &Rig) -> Dinode {
    let g = &rig.g;
    let mut d = Dinode { mode: 0o100_644, nlink: 1, ..Dinode::default() };
    d.db[0] = rig.block(0).pointer();
    d.db[1] = rig.block(1).pointer();
    d.ib[0] = rig.block(2).pointer();
    let mut pointers = vec![0; g.bsize as usize];
    bmap::set_pointer(g, &mut pointers, 3, rig.block(3).pointer());
    rig.dev.write_at(g.frag_to_byte(rig.block(2)), &pointers).unwrap();
    [(0, 1), (1, 2), (3, 3)].into_iter().for_each(|(n, byte)| rig.fill(rig.block(n), byte));
    d.size = g.lblktosize(Lbn(15)) + 100;
    d
}

#[test]
fn the_blocks_of_a_file_are_listed_in_order_with_their_owner() {
    for (format, endian) in formats() {
        let rig = Rig::new(format, endian);
        rig.store(FILE, &file(&rig));
        let inspector = rig.inspect();
        let mut found = Vec::new();
        let inode = inspector.inode(FILE).unwrap();
        inspector
            .blocks(&inode.dinode, |block| -> Result<bool, AdminError> {
                assert_eq!(block.problem, None);
                found.push((block.kind, block.lbn, block.at));
                Ok(true)
            })
            .unwrap();
        let want = [
            (BlockKind::Data, Lbn(0), rig.block(0)),
            (BlockKind::Data, Lbn(1), rig.block(1)),
            (BlockKind::Indirect(1), Lbn(12), rig.block(2)),
            (BlockKind::Data, Lbn(15), rig.block(3)),
        ];
        assert_eq!(found, want);
        // In the middle of a block, the group's maps, an inode block, a free block.
        let inodes = rig.g.ino_to_fsba(FILE);
        let frags = [rig.block(3).plus(1), rig.g.cgtod(CgNo(0)), inodes, rig.block(9)];
        let mut seen = 0;
        let uses = inspector.owners(&frags, &mut |done| seen = done).unwrap();
        assert!(seen > 0);
        let owners = |frag: FragNo| {
            let found = uses.iter().find(|found| found.frag == frag).unwrap();
            found.owners.clone()
        };
        let [Owner::File(ino, block)] = owners(frags[0])[..] else { panic!("{uses:?}") };
        assert_eq!((ino, block.lbn), (FILE, Lbn(15)));
        assert_eq!(owners(frags[1]), [Owner::Group(CgNo(0))]);
        assert!(matches!(owners(frags[2])[..], [Owner::Inodes(first)] if first <= FILE));
        assert_eq!(owners(frags[3]), []);
        assert!(uses.iter().all(|found| found.is_free == (found.frag >= rig.block(0))));
        assert!(inspector.owners(&[FragNo(rig.g.size)], &mut |_| {}).is_err());
    }
}

#[test]
fn damaged_pointers_are_reported_and_passed_over() {
    let rig = Rig::new(Format::Ufs2, Endian::Little);
    let mut d = file(&rig);
    d.db[1] = 1 << 40;
    d.ib[0] = -5;
    // Leads back to itself.
    let mut pointers = vec![0; rig.g.bsize as usize];
    for n in 0..rig.g.nindir as usize {
        bmap::set_pointer(&rig.g, &mut pointers, n, rig.block(2).pointer());
    }
    rig.dev.write_at(rig.g.frag_to_byte(rig.block(2)), &pointers).unwrap();
    d.ib[1] = rig.block(2).pointer();
    rig.store(FILE, &d);
    let inspector = rig.inspect();
    let (mut all, mut bad) = (0_u64, 0);
    inspector
        .blocks(&d, |block| -> Result<bool, AdminError> {
            all += 1;
            bad += u64::from(block.problem.is_some());
            Ok(true)
        })
        .unwrap();
    assert_eq!(bad, 2);
    assert!(all <= rig.g.size, "{all} of {} fragments", rig.g.size);
}

#[test]
fn inodes_with_content_and_without_a_name_are_found_and_read() {
    for (format, endian) in formats() {
        let rig = Rig::new(format, endian);
        let d = file(&rig);
        let unlinked = Dinode { nlink: 0, ..d.clone() };
        rig.store(FILE, &unlinked);
        rig.store(Ino(21), &d);
        // The system stopped before its link count was written.
        rig.store(Ino(22), &Dinode { mode: 0o100_600, nlink: 1, ..Dinode::default() });
        for ino in [FILE.0, 22] {
            rig.change_group(CgNo(0), |group| group.set_inode_used(ino, true));
        }
        // A block of the second file has another owner since.
        let reused = rig.g.dtogd(rig.block(1));
        rig.change_group(CgNo(0), |group| group.set_frag_free(reused, false));
        let inspector = rig.inspect();
        let mut found = Vec::new();
        inspector
            .removed_inodes(|removed| -> Result<(), AdminError> {
                found.push((removed.inode.ino, removed.state));
                Ok(())
            })
            .unwrap();
        let [unlinked, left] = [InodeState::Unlinked, InodeState::Left];
        assert_eq!(found, [(FILE, unlinked), (Ino(21), left), (Ino(22), unlinked)]);
        let root = inspector.inode(Ino::ROOT).unwrap();
        assert_eq!(inspector.state_of(&root).unwrap(), InodeState::InUse);
        let bsize = rig.g.bsize as usize;
        let mut want = vec![0; bsize * 15 + 100];
        want[..bsize].fill(1);
        want[bsize..2 * bsize].fill(2);
        want[15 * bsize..].fill(3);
        for (ino, reused) in [(FILE, 0), (Ino(21), 1)] {
            let mut out = Cursor::new(Vec::new());
            let done = inspector.content(&inspector.inode(ino).unwrap(), &mut out).unwrap();
            assert_eq!((done.blocks, done.reused, done.bad), (3, reused, 0), "{ino:?}");
            assert!(out.into_inner() == want, "{ino:?}");
        }
        assert_eq!(inspector.inode(Ino(23)).unwrap().dinode.mode, 0);
        assert!(inspector.inode(Ino(rig.g.inodes())).is_err());
    }
}

fn put(fmt: DirFormat, chunk: &mut [u8], off: usize, reclen: usize, ino: u32, name: &[u8]) {
    dir::write(fmt, chunk, &Record { off, ino, reclen, dtype: 8, name });
}

/// State, inode, length and name.
fn brief(records: &[RawRecord]) -> Vec<(RecordState, u32, usize, &[u8])> {
    records.iter().map(|r| (r.state, r.ino, r.reclen, &r.name[..])).collect()
}

#[test]
fn removed_names_are_found_in_the_slack_of_their_neighbour() {
    use RecordState::{Bad, Free, Live, Stale};
    for endian in [Endian::Little, Endian::Big] {
        let fmt = DirFormat { endian, old: false };
        let mut chunk = vec![0; DIRBLKSIZ];
        let names: [&[u8]; 4] = [b"first", b"second", b"third", b"last"];
        let mut off = 0;
        for (n, name) in names.into_iter().enumerate() {
            let last = n + 1 == names.len();
            let reclen = if last { DIRBLKSIZ - off } else { dirsiz(name.len()) };
            put(fmt, &mut chunk, off, reclen, 10 + n as u32, name);
            off += reclen;
        }
        assert_eq!(chunk_records(fmt, &chunk).len(), 4);
        // As BSD removes: the record before takes the bytes, the first one loses its number.
        let sizes = names.map(|name| dirsiz(name.len()));
        dir::set_reclen(fmt, &mut chunk, sizes[0], sizes[1] + sizes[2]);
        assert_eq!(
            brief(&chunk_records(fmt, &chunk)),
            [
                (Live, 10, sizes[0], names[0]),
                (Live, 11, sizes[1] + sizes[2], names[1]),
                (Stale, 12, sizes[2], names[2]),
                (Live, 13, DIRBLKSIZ - sizes[0] - sizes[1] - sizes[2], names[3]),
            ]
        );
        dir::set_ino(fmt, &mut chunk, 0, 0);
        let records = chunk_records(fmt, &chunk);
        let start = brief(&records)[..2].to_vec();
        assert_eq!(start, [(Free, 0, sizes[0], &b""[..]), (Stale, 0, sizes[0], names[0])]);
        // Damage: what comes before it is shown.
        dir::set_reclen(fmt, &mut chunk, sizes[0], 6);
        let records = chunk_records(fmt, &chunk);
        assert_eq!(records.last().map(|r| r.state), Some(Bad));
        assert_eq!(records.len(), 3);
    }
}

#[test]
fn any_bytes_in_a_chunk_end_in_records_that_lie_within_it() {
    let rng = SplitMix64::new(3);
    let random = |n: u64| ffs_device::Rng::below(&rng, n);
    for round in 0..3000_u64 {
        let fmt = DirFormat { endian: Endian::Little, old: round % 2 == 0 };
        let mut chunk = vec![0; DIRBLKSIZ];
        put(fmt, &mut chunk, 0, DIRBLKSIZ, 9, b"name");
        for _ in 0..random(200) {
            let (at, byte) = (random(DIRBLKSIZ as u64) as usize, random(256) as u8);
            chunk[at] = if random(2) == 0 { byte } else { byte & 15 };
        }
        for record in chunk_records(fmt, &chunk) {
            assert!(record.off.0 as usize + record.reclen <= DIRBLKSIZ, "{record:?}");
            assert!(record.state != RecordState::Stale || dir::name_ok(&record.name));
        }
    }
}
