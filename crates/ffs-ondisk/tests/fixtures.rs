//! Every structure of every fixture decodes, validates, and encodes to the same bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]

mod common;

use common::{Volume, find, volume, volumes};
use ffs_ondisk::cg::CgFields;
use ffs_ondisk::dir::{self, DirFormat};
use ffs_ondisk::rdev::DeviceNumber;
use ffs_ondisk::sbsearch::Source;
use ffs_ondisk::snapshot::{self, Content};
use ffs_ondisk::superblock::{CkHash, FsFlags, SbFields};
use ffs_ondisk::{
    CgNo, Csum, Dinode, FileFlags, FileType, FragNo, Geometry, Ino, Lbn, Superblock, cg, dinode,
    extattr, journal, sbcheck, wire,
};
use ffs_testkit::fixtures;

/// Asserts equality and reports the first difference.
fn same_bytes(what: &str, got: &[u8], want: &[u8]) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!(g == w, "{what}: byte {i} is {g:#x}, was {w:#x}");
    }
}

#[test]
fn superblocks_are_found_sane_and_encode_to_the_same_bytes() {
    for v in volumes() {
        let found = v.found();
        let (sb, g) = (&found.sb, &found.geometry);
        assert_eq!(found.source, Source::Primary, "{}", v.name);
        assert_eq!(found.warnings, [], "{}", v.name);
        assert!(sb.hash_ok());
        assert_eq!(sb.location, sb.standard_location(), "{}", v.name);
        let len = sb.f.sbsize as usize;
        let at = sb.location as usize;
        same_bytes(&v.name, &sb.encode(), &v.bytes[at..at + len]);
        for c in 0..g.ncg {
            backup_is_sound(&v, sb, g, c);
        }
        println!("{}: {} groups, clean {}", v.name, g.ncg, sb.f.clean);
    }
}

fn backup_is_sound(v: &Volume, sb: &Superblock, g: &Geometry, c: u32) {
    let what = format!("{}: backup of group {c}", v.name);
    let at = g.frag_to_byte(g.cgsblock(CgNo(c)));
    let bytes = &v.bytes[at as usize..][..8192];
    let copy = Superblock::decode(bytes, at).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(copy.differing_field(sb), None, "{what}");
    assert_eq!(copy.standard_location(), sb.location, "{what}");
    let problems = sbcheck::problems(&copy, Some(v.bytes.len() as u64));
    assert_eq!(problems, [], "{what}");
    let len = sb.f.sbsize as usize;
    same_bytes(&what, &copy.encode(), &bytes[..len]);
}

#[test]
fn the_truncated_volume_is_refused_for_its_size_only() {
    let Some(v) = volume("freebsd8-ufs2-head-1m") else { return };
    let err = find(&v.bytes).unwrap_err().to_string();
    assert!(err.contains("only 1048576 are here"), "{err}");
    let found = ffs_ondisk::sbsearch::find(common::reader(&v.bytes), None).unwrap();
    assert_eq!(found.warnings, []);
    let g = &found.geometry;
    assert_eq!(cg::validate(g, CgNo(0), v.cg_block(g, 0)), Ok(()));
}

#[test]
fn groups_validate_and_their_counts_follow_from_the_maps() {
    for v in volumes() {
        let found = v.found();
        let g = &found.geometry;
        let crashed = v.name == "nb-ufs2-crash";
        let mut total = Csum::default();
        for c in 0..g.ncg {
            let what = format!("{}: group {c}", v.name);
            let block = v.cg_block(g, c);
            cg::validate(g, CgNo(c), block).unwrap_or_else(|e| panic!("{what}: {e}"));
            let mut again = block.to_vec();
            CgFields::decode(block, g.endian).encode(&mut again, g.endian);
            cg::rehash(g, &mut again);
            same_bytes(&what, &again, block);
            if !crashed {
                maps_agree(&what, g, &v, c);
            }
            let cs = v.cg(g, c).cs();
            total.add(&cs);
            let csum = v.at(g, g.csaddr, g.cssize as usize);
            if found.sb.is_clean() && !crashed {
                assert_eq!(Csum::decode(csum, 16 * c as usize, g.endian), cs, "{what}");
            }
        }
        if found.sb.is_clean() && !crashed {
            assert_eq!(total, found.sb.cstotal(), "{}", v.name);
        }
    }
}

fn maps_agree(what: &str, g: &Geometry, v: &Volume, c: u32) {
    let cg = v.cg(g, c);
    let counts = cg.recount();
    let cs = cg.cs();
    assert_eq!(counts.cs, Csum { ndir: 0, ..cs }, "{what}");
    let stored: Vec<u32> = (0..g.frag).map(|n| cg.frsum(n)).collect();
    assert_eq!(stored, counts.frsum[..g.frag as usize], "{what}");
    for blk in 0..cg.nblocks() {
        let bit = cg::bit(cg.clustersfree(), blk);
        let want = (g.contigsumsize > 0).then(|| cg.block_free(blk));
        assert_eq!(bit, want, "{what}: cluster {blk}");
    }
    for k in 1..=g.contigsumsize {
        assert_eq!(cg.clustersum(k), counts.clustersum[k as usize] as i32, "{what}");
        assert_eq!(cg.clustersum(k), naive_clustersum(&cg, g, k), "{what}: clustersum {k}");
    }
}

fn naive_clustersum(cg: &ffs_ondisk::Cg<'_>, g: &Geometry, k: u32) -> i32 {
    let map: String = (0..cg.nblocks()).map(|b| if cg.block_free(b) { 'x' } else { ' ' }).collect();
    let long = |n: usize| n == k as usize || (k == g.contigsumsize && n > k as usize);
    map.split(' ').filter(|run| long(run.len())).count() as i32
}

#[test]
fn inodes_pass_their_check_and_encode_to_the_same_bytes() {
    for v in volumes() {
        let found = v.found();
        let g = &found.geometry;
        for ino in v.used_inodes(g) {
            let what = format!("{}: inode {ino}", v.name);
            let raw = v.inode_bytes(g, ino);
            if v.name == "nb-ufs2-crash" && raw[..2] == [0, 0] {
                // Marked as used, but a loss of power prevented the write of the inode.
                continue;
            }
            let d = dinode::check(g, ino, raw).unwrap_or_else(|e| panic!("{what}: {e}"));
            let mut fresh = vec![0; raw.len()];
            d.encode(g, &mut fresh);
            same_bytes(&what, &fresh, raw);
            pointers_are_sound(&what, g, &d);
        }
        // Free but initialised inodes have no check hash and must be preserved.
        for c in 0..g.ncg {
            let cg = v.cg(g, c);
            for i in (0..cg.initediblk()).filter(|&i| !cg.inode_used(i)) {
                let ino = Ino(c * g.ipg + i);
                let raw = v.inode_bytes(g, ino);
                let mut again = raw.to_vec();
                Dinode::decode(g, raw).encode(g, &mut again);
                same_bytes(&format!("{}: free inode {ino}", v.name), &again, raw);
            }
        }
    }
}

fn pointers_are_sound(what: &str, g: &Geometry, d: &Dinode) {
    if !d.has_pointers(g) || d.flags.contains(FileFlags::SF_SNAPSHOT) {
        return;
    }
    for (n, p) in d.db.iter().chain(&d.ib).enumerate() {
        let size = if n < 12 { g.blksize(d.size, Lbn(n as u64)) } else { g.bsize };
        let frags = (size / g.fsize).max(1);
        let place = ffs_ondisk::Place::Unknown;
        let run = g.check_run(*p, frags, ffs_ondisk::Structure::Inode, place);
        assert!(run.is_ok(), "{what}: pointer {n}: {run:?}");
    }
}

#[test]
fn directories_read_and_their_records_write_back() {
    for v in volumes() {
        let found = v.found();
        let g = &found.geometry;
        let fmt = DirFormat::of(g);
        let mut entries = 0;
        for ino in v.used_inodes(g) {
            let d = Dinode::decode(g, v.inode_bytes(g, ino));
            if !d.is_dir() {
                continue;
            }
            for chunk in v.content(g, &d).chunks(512) {
                let what = format!("{}: directory {ino}", v.name);
                let mut again = vec![0; 512];
                for rec in dir::records(fmt, chunk) {
                    let rec = rec.unwrap_or_else(|e| panic!("{what}: {e:?}"));
                    dir::write(fmt, &mut again, &rec);
                    let live = rec.live() as usize;
                    entries += live;
                    if live == 1 {
                        // Writers from before 2019 leak memory into the padding
                        // (`spec/known-failures.md` §2.9).
                        let end = rec.off + dir::HEADER + rec.name.len() + 1;
                        same_bytes(&what, &again[rec.off..end], &chunk[rec.off..end]);
                    }
                }
            }
        }
        assert!(entries >= 2, "{}: {entries} entries", v.name);
        entry_count_is_expected(&v.name, entries);
    }
}

/// Every path but the root has one entry; every directory has two more.
fn entry_count_is_expected(name: &str, entries: usize) {
    if name == "nb-ufs2-crash" {
        return;
    }
    let Some(rows) = fixtures::expected(name) else { return };
    let dirs = rows.iter().filter(|r| r.kind == fixtures::ExpectedKind::Dir).count();
    assert_eq!(entries, rows.len() - 1 + 2 * dirs, "{name}");
}

#[test]
fn expected_rows_agree_with_the_inodes() {
    for v in volumes() {
        let found = v.found();
        let g = &found.geometry;
        rows_agree(&v, g);
    }
}

fn rows_agree(v: &Volume, g: &Geometry) {
    for row in fixtures::expected(&v.name).unwrap_or_default() {
        let what = format!("{}: {}", v.name, row.path.escape_ascii());
        let d = Dinode::decode(g, v.inode_bytes(g, Ino(row.inode as u32)));
        assert_eq!(d.size, row.size, "{what}");
        assert_eq!(u32::from(d.mode & 0o7777), row.mode, "{what}");
        assert_eq!((d.uid, d.gid), (row.uid, row.gid), "{what}");
        assert_eq!(u32::from(d.nlink), row.nlink, "{what}");
        assert_eq!((d.mtime.secs, d.mtime.nsec), (row.mtime, row.mtime_nsec as i32), "{what}");
        assert_eq!(d.flags.bits(), row.flags, "{what}");
        if d.file_type() == Some(FileType::Symlink) {
            let text = if d.is_short_symlink(g) {
                d.short.text(d.size).to_vec()
            } else {
                v.content(g, &d)
            };
            assert_eq!(text, row.target, "{what}");
        }
    }
}

/// The volume inside a snapshot file, assembled from its pointers.
fn view_of(v: &Volume, g: &Geometry, ino: Ino) -> Vec<u8> {
    let d = dinode::check(g, ino, v.inode_bytes(g, ino)).unwrap();
    assert!(snapshot::is_snapshot(&d));
    let mut out = Vec::new();
    let mut kinds = [0; 4];
    for l in (0..snapshot::image_blocks(g)).map(Lbn) {
        let content = snapshot::classify(g, ino, l, v.bmap(g, &d, l)).unwrap();
        let frags = snapshot::block_frags(g, l) as usize * g.fsize as usize;
        match content {
            Content::Zeros => out.resize(out.len() + frags, 0),
            Content::Volume(at) | Content::Copy(at) | Content::TakenOver(at) => {
                out.extend_from_slice(v.at(g, at, frags));
            }
        }
        kinds[match content {
            Content::Volume(_) => 0,
            Content::Zeros => 1,
            Content::Copy(_) => 2,
            Content::TakenOver(_) => 3,
        }] += 1;
    }
    println!("inode {ino}: {kinds:?} blocks unchanged, zero, copied, taken over");
    // The list of blocks copied at creation has blocks with private copies.
    let first = snapshot::image_blocks(g);
    let list = v.at(g, FragNo(v.bmap(g, &d, Lbn(first)) as u64), g.bsize as usize);
    let words = snapshot::list_words(g, ino, d.size, wire::get(list, 0, g.endian)).unwrap();
    let raw: Vec<i64> = (1..words as usize).map(|n| wire::get(list, 8 * n, g.endian)).collect();
    let listed = snapshot::check_list(g, ino, d.size, &raw).unwrap();
    assert!(listed.len() > 4 && listed.contains(&g.lblkno(65536)), "the superblock's is listed");
    out
}

#[test]
fn snapshots_show_the_volume_as_it_was() {
    let Some(v) = volume("nb-ufs2-snap") else { return };
    let found = v.found();
    let g = &found.geometry;
    let active = snapshot::active(&found.sb);
    let rows = fixtures::expected(&v.name).unwrap();
    let ino = |p: &[u8]| Ino(rows.iter().find(|r| r.path == p).unwrap().inode as u32);
    assert_eq!(active, [ino(b"/.snap/s1"), ino(b"/.snap/s2")]);
    for (n, &ino) in active.iter().enumerate() {
        let name = format!("nb-ufs2-snap.view-s{}", n + 1);
        let view = Volume { name, bytes: view_of(&v, g, ino) };
        let inside = view.found();
        assert_eq!(inside.source, Source::Primary);
        assert_eq!(inside.geometry, *g);
        assert_eq!(snapshot::active(&inside.sb), active[..n], "older ones stay listed");
        for c in 0..g.ncg {
            assert_eq!(cg::validate(g, CgNo(c), view.cg_block(g, c)), Ok(()));
            maps_agree(&format!("{} group {c}", view.name), g, &view, c);
        }
        rows_agree(&view, g);
    }
}

#[test]
fn soft_updates_journals_are_recognised() {
    for name in ["suj-ufs1-64m", "suj-ufs2-64m"] {
        let Some(v) = volume(name) else { return };
        let found = v.found();
        let g = &found.geometry;
        let mut journals = 0;
        for ino in v.used_inodes(g) {
            let d = Dinode::decode(g, v.inode_bytes(g, ino));
            if journal::inode_problem(g, &d).is_none() {
                journals += 1;
                assert_eq!(journal::journal_usable(&found.sb, g, &d), d.modrev == 0);
                let content = v.content(g, &d);
                let segments = journal::scan(g.endian, &content, 512, found.sb.f.mtime);
                assert_eq!(segments, Ok(Vec::new()));
            }
        }
        assert_eq!(journals, 1, "{name}");
        assert!(found.sb.flags().contains(FsFlags::SUJ), "{name}");
    }
}

#[test]
fn device_numbers_are_those_expected() {
    let (Some(v), Some(rows)) =
        (volume("nb-ufs2-16k2k-le"), fixtures::expected("nb-ufs2-16k2k-le"))
    else {
        return;
    };
    let found = v.found();
    let devices: Vec<_> = rows
        .iter()
        .filter(|r| matches!(r.kind, fixtures::ExpectedKind::Chr | fixtures::ExpectedKind::Blk))
        .map(|r| {
            Dinode::decode(&found.geometry, v.inode_bytes(&found.geometry, Ino(r.inode as u32)))
        })
        .map(|d| DeviceNumber::from_disk(d.rdev()))
        .collect();
    assert_eq!(devices, [DeviceNumber { major: 0x12, minor: 0x34 }]);
}

#[test]
fn extended_attributes_are_those_expected() {
    use sha2::Digest;
    for name in ["freebsd14-ufs2-le-4m", "freebsd14-ufs2-be-4m"] {
        let (Some(v), Some(rows)) = (volume(name), fixtures::xattrs(name)) else { return };
        let found = v.found();
        let g = &found.geometry;
        let inodes = fixtures::expected(name).unwrap();
        for row in &rows {
            let ino = inodes.iter().find(|r| r.path == row.path).unwrap().inode;
            let area = ext_area(&v, g, Ino(ino as u32));
            let space = extattr::Namespace::from_raw(row.namespace);
            let attr = extattr::find(g.endian, &area, space, &row.name).unwrap().unwrap();
            assert_eq!(attr.value.len() as u64, row.length);
            assert_eq!(sha2::Sha256::digest(attr.value)[..], row.sha256);
        }
        let mut seen = 0;
        for ino in v.used_inodes(g) {
            let area = ext_area(&v, g, ino);
            let mut again = Vec::new();
            for attr in extattr::records(g.endian, &area) {
                let a = attr.unwrap();
                seen += 1;
                let limit = extattr::area_limit(g);
                again =
                    extattr::set(g.endian, &again, a.namespace, a.name, a.value, limit).unwrap();
            }
            assert_eq!(again, area, "{name}: building the area anew gives the same bytes");
        }
        assert_eq!(seen, rows.len());
    }
}

fn ext_area(v: &Volume, g: &Geometry, ino: Ino) -> Vec<u8> {
    let d = Dinode::decode(g, v.inode_bytes(g, ino));
    let mut area = Vec::new();
    for (n, &p) in d.extb.iter().enumerate() {
        let len = g.blksize(d.extsize.into(), Lbn(n as u64)) as usize;
        if p != 0 {
            area.extend_from_slice(v.at(g, FragNo(p as u64), len));
        }
    }
    area.truncate(d.extsize as usize);
    assert_eq!(area.len(), d.extsize as usize, "{}: inode {ino}", v.name);
    area
}

/// `spec/on-disk-format.md` §21.
#[test]
fn worked_example() {
    let Some(v) = volume("freebsd14-ufs2-le-4m") else { return };
    let found = v.found();
    let (f, g) = (&found.sb.f, &found.geometry);
    assert_eq!((f.bsize, f.fsize, f.frag), (32768, 4096, 8));
    assert_eq!((f.ncg, f.fpg, f.ipg), (4, 264, 256));
    assert_eq!((f.sblkno, f.cblkno, f.iblkno, f.dblkno), (24, 32, 40, 56));
    assert_eq!((f.size, f.dsize), (1024, 871));
    assert_eq!((f.csaddr, f.cssize, f.cgsize, f.sbsize), (56, 4096, 4096, 4096));
    assert_eq!((f.metaspace, f.maxbpg, f.maxcontig, f.contigsumsize), (8, 4096, 32, 16));
    assert_eq!((f.flags, f.metackhash, f.ckhash), (0x202, 7, 0x5ee0_619e));
    assert_eq!(found.sb.ckhashes(), CkHash::all());
    let backups: Vec<_> = (0..4).map(|c| g.frag_to_byte(g.cgsblock(CgNo(c)))).collect();
    assert_eq!(backups, [98304, 1_179_648, 2_260_992, 3_342_336]);
    assert_eq!(v.cg(g, 3).ndblk(), 232);
    let h = v.cg(g, 0).header();
    let offsets = [h.iusedoff, h.freeoff, h.clustersumoff, h.clusteroff, h.nextfreeoff];
    assert_eq!(offsets, [168, 200, 232, 300, 305]);
    assert_eq!(h.ckhash, 0x1c45_c8af);
    let ino = |path: &str| {
        let rows = fixtures::expected("freebsd14-ufs2-le-4m").unwrap();
        Ino(rows.iter().find(|r| r.path == path.as_bytes()).unwrap().inode as u32)
    };
    let sparse = Dinode::decode(g, v.inode_bytes(g, ino("/sparse")));
    assert_eq!((sparse.size, sparse.blocks), (134_643_712, 320));
    assert_eq!(sparse.ib[1], 400);
    let xattrs = Dinode::decode(g, v.inode_bytes(g, ino("/xattrs2")));
    assert_eq!(xattrs.extsize, 65512);
    assert_eq!(extattr::records(g.endian, &ext_area(&v, g, ino("/xattrs2"))).count(), 2297);
}

/// Fields may not overlap, and none may be missing from the tables.
#[test]
fn field_tables_are_in_order_without_overlap() {
    let tables = [
        (SbFields::FIELDS, SbFields::SIZE),
        (CgFields::FIELDS, CgFields::SIZE),
        (dinode::Dinode1::FIELDS, 128),
        (dinode::Dinode2::FIELDS, 256),
    ];
    for (fields, size) in tables {
        let mut end = 0;
        for f in fields {
            assert!(f.offset >= end, "{} overlaps", f.name);
            end = f.offset + f.size;
        }
        assert!(end <= size);
    }
    let gaps = |fields: &[ffs_ondisk::wire::Field], size: usize| {
        size - fields.iter().map(|f| f.size).sum::<usize>()
    };
    assert_eq!(gaps(dinode::Dinode1::FIELDS, 128), 0);
    assert_eq!(gaps(dinode::Dinode2::FIELDS, 256), 0);
}
