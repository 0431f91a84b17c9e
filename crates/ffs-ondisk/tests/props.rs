//! Properties: arithmetic compared with naive implementations, and parsers that end for any bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]

use ffs_ondisk::bmap::{self, Named, Path};
use ffs_ondisk::dir::{self, DirFormat, Record};
use ffs_ondisk::superblock::CkHash;
use ffs_ondisk::{
    Cg, CgMut, CgNo, Csum, Endian, Format, FragNo, Geometry, Ino, Lbn, cg, extattr, sbcheck,
    snapshot,
};
use proptest::prelude::*;

include!("common/small.rs");

/// The geometry of a volume as newfs creates it.
fn geometry(format: Format, bsize: i32, frag: i32, groups: u32, blocks: i32) -> Geometry {
    let sb = superblock(format, bsize, frag, groups, blocks);
    assert_eq!(sbcheck::problems(&sb, None), []);
    sbcheck::geometry(&sb, None).unwrap()
}

fn geometries() -> impl Strategy<Value = Geometry> {
    let format = prop_oneof![Just(Format::Ufs1), Just(Format::Ufs2)];
    (format, 12u32..=16, 0u32..=3, 1u32..20, 50i32..900).prop_map(
        |(format, shift, frag, groups, blocks)| {
            geometry(format, 1 << shift, 1 << frag, groups, blocks)
        },
    )
}

/// Every block size of both formats.
fn all_sizes() -> Vec<Geometry> {
    let formats = [Format::Ufs1, Format::Ufs2].into_iter();
    formats.flat_map(|f| (12..=16).map(move |b| geometry(f, 1 << b, 8, 1, 100))).collect()
}

/// First logical block that the format cannot address.
fn end_of(g: &Geometry) -> u64 {
    let n = u64::from(g.nindir);
    12 + n + n * n + n * n * n
}

/// The logical block of a path, by counting.
fn follow(g: &Geometry, p: &Path) -> u64 {
    let n = u64::from(g.nindir);
    match p {
        Path::Direct(i) => *i as u64,
        Path::Indirect { levels, index } => {
            let before: u64 = (1..*levels as u32).map(|k| n.pow(k)).sum();
            let inside = index[..*levels].iter().fold(0, |acc, &i| acc * n + u64::from(i));
            12 + before + inside
        }
    }
}

#[test]
fn block_paths_at_every_boundary() {
    for g in all_sizes() {
        let n = u64::from(g.nindir);
        let edges = [0, 12, 12 + n, 12 + n + n * n, end_of(&g)];
        for l in edges.into_iter().flat_map(|e| [e.wrapping_sub(1), e, e + 1]) {
            let path = bmap::path(&g, Lbn(l));
            assert_eq!(path.is_some(), l < end_of(&g), "{l} with {n} pointers");
            if let Some(p) = path {
                assert_eq!(follow(&g, &p), l);
            }
        }
        for (i, edge) in edges[1..4].iter().enumerate() {
            assert_eq!(bmap::first_of_root(&g, i), Lbn(*edge));
            assert_eq!(bmap::blocks_per_pointer(&g, i + 1), n.pow(i as u32));
        }
        assert_eq!(bmap::path(&g, Lbn(u64::MAX)), None);
        assert!(bmap::path(&g, g.lblkno(g.maxfilesize)).is_some());
    }
}

/// The names of all blocks of a small tree are different and parse back.
#[test]
fn indirect_names_are_unique_and_parse() {
    for g in all_sizes() {
        let n = u64::from(g.nindir);
        let double = bmap::first_of_root(&g, 1);
        let triple = bmap::first_of_root(&g, 2);
        let mut seen = std::collections::BTreeSet::new();
        let mut check = |first: Lbn, level: usize| {
            let name = bmap::indirect_name(first, level);
            assert!(name < -2 && seen.insert(name), "{name}");
            assert_eq!(bmap::parse_name(&g, name), Some(Named::Indirect { level, first }));
        };
        check(Lbn(12), 1);
        check(double, 2);
        check(triple, 3);
        for i in [0, 1, n / 2, n - 1] {
            check(double.plus(i * n), 1);
            check(triple.plus(i * n * n), 2);
            check(triple.plus(i * n * n + i * n), 1.max(if i == 0 { 1 } else { 0 }));
        }
        assert_eq!(bmap::parse_name(&g, -1), Some(Named::ExtAttr(0)));
        assert_eq!(bmap::parse_name(&g, -2), Some(Named::ExtAttr(1)));
        for bad in [-3, -10, -11, -13, -15, -(end_of(&g) as i64), i64::MIN, i64::MAX] {
            assert_eq!(bmap::parse_name(&g, bad), None, "{bad}");
        }
    }
}

/// Records with the given names that fill a chunk.
fn chunk_of(fmt: DirFormat, names: &[(u32, u8, Vec<u8>)]) -> Vec<u8> {
    let mut chunk = vec![0xa5; 512];
    let sizes: Vec<_> = names.iter().map(|n| dir::dirsiz(n.2.len())).collect();
    let mut off = 0;
    for (i, (ino, dtype, name)) in names.iter().enumerate() {
        let reclen = if i + 1 == names.len() { 512 - off } else { sizes[i] };
        let (ino, dtype) = (*ino, *dtype);
        dir::write(fmt, &mut chunk, &Record { off, ino, reclen, dtype, name });
        off += reclen;
    }
    chunk
}

fn dir_formats() -> impl Strategy<Value = DirFormat> {
    let endian = prop_oneof![Just(Endian::Little), Just(Endian::Big)];
    (endian, any::<bool>()).prop_map(|(endian, old)| DirFormat { endian, old })
}

fn names() -> impl Strategy<Value = Vec<(u32, u8, Vec<u8>)>> {
    let byte = (1u8..=255).prop_filter("slash", |b| *b != b'/');
    let name = prop::collection::vec(byte, 1..60);
    let types = prop::sample::select(vec![1u8, 2, 4, 6, 8, 10, 12]);
    prop::collection::vec((1u32.., types, name), 1..7)
}

proptest! {
    #[test]
    fn block_paths_are_a_bijection(g in geometries(), x: u64) {
        let l = x % end_of(&g);
        let path = bmap::path(&g, Lbn(l)).unwrap();
        prop_assert_eq!(follow(&g, &path), l);
        if let Path::Indirect { levels, index } = path {
            prop_assert!((1..=3).contains(&levels));
            prop_assert!(index[..levels].iter().all(|&i| i < g.nindir));
        }
    }

    #[test]
    fn any_block_name_parses_to_itself_or_to_nothing(
        g in geometries(), name: i64, near in -70000i64..0
    ) {
        for name in [name, near, name % (1 << 40)] {
            match bmap::parse_name(&g, name) {
                Some(Named::Data(l)) => prop_assert_eq!(l.0, name as u64),
                Some(Named::ExtAttr(n)) => prop_assert_eq!(-1 - n as i64, name),
                Some(Named::Indirect { level, first }) => {
                    prop_assert_eq!(bmap::indirect_name(first, level), name);
                }
                None => {}
            }
        }
    }

    /// Inode numbers and fragments map to groups and back.
    #[test]
    fn addresses_are_consistent(g in geometries(), x: u64, y: u64) {
        let i = Ino((x % u64::from(g.inodes())) as u32);
        let c = g.ino_to_cg(i);
        prop_assert_eq!(c.0 * g.ipg + g.ino_to_cgi(i), i.0);
        let byte = g.frag_to_byte(g.ino_to_fsba(i)) + g.ino_to_fsbo(i) as u64;
        let base = g.frag_to_byte(g.cgimin(c));
        let nth = u64::from(g.ino_to_cgi(i)) * g.format.dinode_size() as u64;
        prop_assert_eq!(byte, base + nth);
        let d = FragNo(y % g.size);
        prop_assert_eq!(g.cgbase(g.dtog(d)).0 + u64::from(g.dtogd(d)), d.0);
        prop_assert_eq!(g.blknum(d).0 + u64::from(g.fragnum(d)), d.0);
        prop_assert_eq!(g.blkstofrags(g.fragstoblks(d)), g.blknum(d));
        let whole: u64 = (0..g.ncg).map(|c| u64::from(g.cg_frags(CgNo(c)))).sum();
        prop_assert_eq!(whole, g.size);
    }

    /// The blocks of a file sum to its size rounded up, and only its last one may be short.
    #[test]
    fn block_sizes_cover_a_file(g in geometries(), size in 0u64..5_000_000) {
        let blocks = size.div_ceil(g.bsize.into());
        let sum: u64 = (0..blocks).map(|l| u64::from(g.blksize(size, Lbn(l)))).sum();
        let want = if size > 12 * u64::from(g.bsize) {
            blocks * u64::from(g.bsize)
        } else {
            g.fragroundup(size)
        };
        prop_assert_eq!(sum, want);
        for l in 0..blocks.saturating_sub(1) {
            prop_assert_eq!(g.blksize(size, Lbn(l)), g.bsize);
        }
    }

    /// A run is rejected exactly if one of its fragments is metadata or it is not within one block.
    #[test]
    fn runs_against_a_naive_check(g in geometries(), x: u64, n in 1u32..9, shift in 0u64..8) {
        let d = x % (g.size + 3);
        let g = Geometry { csaddr: g.csaddr.plus(shift), ..g };
        let frags: Vec<u64> = (d..d + u64::from(n)).collect();
        let metadata = |f: u64| {
            let c = f / u64::from(g.fpg);
            let off = (f % u64::from(g.fpg)) as u32;
            let csum = g.csaddr.0..g.csaddr.0 + u64::from(g.cssize / g.fsize);
            let low = if c == 0 { 0 } else { g.sblkno };
            (low..g.dblkno).contains(&off) || csum.contains(&f)
        };
        let frag = u64::from(g.frag);
        let bad = frags.iter().any(|&f| f >= g.size || metadata(f))
            || frags.first().unwrap() / frag != frags.last().unwrap() / frag;
        prop_assert_eq!(g.run_problem(FragNo(d), n).is_some(), bad);
    }

    #[test]
    fn free_runs_against_a_naive_count(
        pattern: u8, frag in prop::sample::select(vec![1u32, 2, 4, 8])
    ) {
        let bit = |b| if pattern >> b & 1 == 1 { 'x' } else { ' ' };
        let bits: String = (0..frag).map(bit).collect();
        let mut want = [0u8; 9];
        bits.split(' ').filter(|r| !r.is_empty()).for_each(|r| want[r.len()] += 1);
        prop_assert_eq!(cg::runs(pattern, frag), want);
    }

    /// Maps compared with a vector of booleans, and their counts with naive ones.
    #[test]
    fn group_maps_against_vectors(
        g in geometries(),
        steps in prop::collection::vec((any::<u32>(), any::<bool>()), 0..300),
    ) {
        let mut block = vec![0u8; g.bsize as usize];
        let mut frags = vec![false; g.fpg as usize];
        let mut inodes = vec![false; g.ipg as usize];
        let mut m = CgMut::new(&g, &mut block);
        m.set_header(&cg::CgFields { ndblk: g.fpg, ..cg::CgFields::default() });
        for (x, on) in steps {
            let (f, i) = (x % g.fpg, x % g.ipg);
            m.set_frag_free(f, on);
            frags[f as usize] = on;
            m.set_inode_used(i, on);
            inodes[i as usize] = on;
            if x % 3 == 0 {
                let blk = f / g.frag;
                m.set_block_free(blk, true);
                frags[(blk * g.frag) as usize..][..g.frag as usize].fill(true);
            }
        }
        let view = Cg::new(&g, &block);
        for (f, &free) in frags.iter().enumerate() {
            prop_assert_eq!(view.frag_free(f as u32), free);
        }
        let counts = view.recount();
        let blocks: Vec<_> = frags.chunks(g.frag as usize).collect();
        let full = |b: &&&[bool]| b.iter().all(|&f| f);
        let nbfree = blocks.iter().filter(full).count() as i64;
        let free = frags.iter().filter(|&&f| f).count() as i64;
        let nifree = inodes.iter().filter(|&&u| !u).count() as i64;
        let nffree = free - nbfree * i64::from(g.frag);
        prop_assert_eq!(counts.cs, Csum { ndir: 0, nbfree, nifree, nffree });
        let row: String = blocks.iter().map(|b| if full(&b) { 'x' } else { ' ' }).collect();
        for k in 1..=16usize {
            let fits = |r: &&str| r.len() == k || (k == 16 && r.len() > 16);
            let want = row.split(' ').filter(fits).count() as u32;
            prop_assert_eq!(counts.clustersum[k], want, "{} runs of {}", want, k);
        }
    }

    #[test]
    fn kf2_10_directory_records_end_on_any_bytes(
        fmt in dir_formats(),
        chunk in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let recs: Vec<_> = dir::records(fmt, &chunk).collect();
        prop_assert!(recs.len() <= 512 / 4 + 1);
        let mut end = 0;
        for r in recs.iter().flatten() {
            prop_assert_eq!(r.off, end);
            end += r.reclen;
            prop_assert!(end <= chunk.len().min(512));
            if r.live() {
                prop_assert!(dir::name_ok(r.name));
                prop_assert!(dir::dirsiz(r.name.len()) <= r.reclen);
                prop_assert_eq!(r.slack(), r.reclen - dir::dirsiz(r.name.len()));
            }
        }
        prop_assert!(recs.iter().rev().skip(1).all(Result::is_ok));
        prop_assert!(end == chunk.len().min(512) || recs.last().unwrap().is_err());
    }

    /// Written records read back, and their padding is zero. After damage no other name is
    /// returned, and no record is shortened without an error.
    #[test]
    fn kf2_09_and_kf2_10_directory_records_round_trip(
        fmt in dir_formats(),
        names in names(),
        at in 0usize..512,
        v: u8,
    ) {
        let mut chunk = chunk_of(fmt, &names);
        let recs: Vec<_> = dir::records(fmt, &chunk).map(|r| r.unwrap()).collect();
        prop_assert_eq!(recs.len(), names.len());
        for (r, (ino, dtype, name)) in recs.iter().zip(&names) {
            prop_assert_eq!(r.ino, *ino);
            prop_assert_eq!(r.name, &name[..]);
            prop_assert_eq!(r.dtype, if fmt.old { 0 } else { *dtype });
            let pad = &chunk[r.off + 8 + name.len()..r.off + dir::dirsiz(name.len())];
            prop_assert!(pad.iter().all(|&b| b == 0), "padding {:?}", pad);
        }
        chunk[at] = v;
        prop_assert!(dir::records(fmt, &chunk).count() <= 129);
    }

    /// The quick test of a record agrees with the whole one, also after damage.
    #[test]
    fn packed_records_are_sound_live_and_without_slack(
        fmt in dir_formats(),
        names in names(),
        damage in prop::collection::vec((0usize..512, any::<u8>()), 0..40),
    ) {
        let mut chunk = chunk_of(fmt, &names);
        damage.into_iter().for_each(|(at, v)| chunk[at] = v);
        let is_quick = !fmt.old && fmt.endian == Endian::Little;
        for off in (0..520).step_by(4) {
            let header = dir::header(fmt, &chunk, off).ok();
            let whole = header.filter(|h| is_quick && h.live() && h.slack() == 0);
            let lengths = |p: dir::Packed| (p.reclen(), p.namlen());
            let packed = dir::packed(fmt, &chunk, off);
            prop_assert_eq!(packed.map(lengths), whole.map(|h| (h.reclen, h.namlen)));
            let Some(packed) = packed else { continue };
            for at in (0..520).step_by(4) {
                let is_same = dir::packed(fmt, &chunk, at) == Some(packed);
                prop_assert_eq!(packed.is_also_at(&chunk, at), is_same, "{} and {}", off, at);
            }
        }
    }

    #[test]
    fn attributes_against_a_list(
        ops in prop::collection::vec((any::<bool>(), 0u8..6, 1u8..3, 0usize..200), 0..60)
    ) {
        let e = Endian::Big;
        let mut area = Vec::new();
        let mut want: Vec<(extattr::Namespace, Vec<u8>, Vec<u8>)> = Vec::new();
        for (add, name, space, len) in ops {
            let name = vec![b'n'; usize::from(name) + 1];
            let space = extattr::Namespace::from_raw(space);
            let old = want.iter().position(|w| w.0 == space && w.1 == name);
            if add {
                let value = vec![len as u8; len];
                let new = extattr::set(e, &area, space, &name, &value, 2048);
                let size: usize = want.iter().enumerate().filter(|(i, _)| Some(*i) != old)
                    .map(|(_, w)| extattr::record_len(w.1.len(), w.2.len())).sum::<usize>()
                    + extattr::record_len(name.len(), len);
                prop_assert_eq!(new.is_ok(), size <= 2048);
                let Ok(new) = new else { continue };
                prop_assert_eq!(new.len(), size);
                area = new;
                match old {
                    Some(i) => want[i].2 = value,
                    None => want.push((space, name, value)),
                }
            } else {
                let new = extattr::remove(e, &area, space, &name).unwrap();
                prop_assert_eq!(new.is_some(), old.is_some());
                if let (Some(new), Some(i)) = (new, old) {
                    area = new;
                    want.remove(i);
                }
            }
            let got: Vec<_> = extattr::records(e, &area).map(|r| r.unwrap())
                .map(|a| (a.namespace, a.name.to_vec(), a.value.to_vec())).collect();
            prop_assert_eq!(&got, &want);
        }
    }

    #[test]
    fn snapshot_pointers_are_classified(g in geometries(), x: u64) {
        let l = Lbn(x % snapshot::image_blocks(&g));
        let own = l.0 * u64::from(g.frag);
        use snapshot::Content;
        let class = |raw: i64| snapshot::classify(&g, Ino(4), l, raw);
        prop_assert_eq!(class(0).unwrap(), Content::Volume(FragNo(own)));
        prop_assert_eq!(class(1).unwrap(), Content::Zeros);
        prop_assert_eq!(class(2).unwrap(), Content::Zeros);
        if own > 2 {
            prop_assert_eq!(class(own as i64).unwrap(), Content::TakenOver(FragNo(own)));
        }
        prop_assert!(class(-1).is_err() && class(g.size as i64).is_err());
        let raw = (x % g.size) as i64;
        if let Ok(Content::Copy(d)) = class(raw) {
            prop_assert!(g.run_problem(d, g.frag).is_none());
        }
    }
}

#[test]
fn snapshot_sizes_and_lists_are_bounded() {
    let g = geometry(Format::Ufs2, 8192, 8, 3, 100);
    let ino = Ino(9);
    let image = snapshot::image_bytes(&g);
    assert_eq!(image, g.size / 8 * 8192);
    assert!(snapshot::list_bytes(&g, ino, image - 1).is_err());
    assert_eq!(snapshot::list_bytes(&g, ino, image), Ok(0), "the old format");
    assert_eq!(snapshot::list_words(&g, ino, image + 80, 10), Ok(10));
    for bad in [0, -1, 11, i64::MAX] {
        assert!(snapshot::list_words(&g, ino, image + 80, bad).is_err(), "{bad}");
    }
    let blocks = snapshot::check_list(&g, ino, image, &[0, 5, 7]).unwrap();
    assert_eq!(blocks, [Lbn(0), Lbn(5), Lbn(7)]);
    for bad in [&[5i64, 5][..], &[7, 5], &[-1], &[(g.size / 8) as i64]] {
        assert!(snapshot::check_list(&g, ino, image, bad).is_err(), "{bad:?}");
    }
    let short = Geometry { size: g.size - 3, ..g };
    let last = Lbn(snapshot::image_blocks(&short) - 1);
    assert_eq!(snapshot::block_frags(&short, last), 5);
    assert_eq!(snapshot::block_frags(&short, Lbn(0)), 8);
}

#[test]
fn check_hash_bits_need_their_flag() {
    let g = geometry(Format::Ufs2, 8192, 8, 3, 100);
    assert_eq!(g.ckhash, CkHash::empty());
}
