//! Damage to every field of every structure: no panic, no wrong geometry (`spec/known-failures.md`
//! §2).
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]

mod common;

use common::{Volume, small_volumes, volume};
use ffs_ondisk::cg::{self, CgFields, CgLayout};
use ffs_ondisk::dinode::{self, Dinode1, Dinode2};
use ffs_ondisk::fields::TABLES;
use ffs_ondisk::wire::Field;
use ffs_ondisk::{
    Cg, CgMut, CgNo, Csum, Dinode, Endian, Format, FragNo, Geometry, Ino, Lbn, Place, Structure,
    Superblock, bmap, extattr, journal, sbcheck, snapshot,
};
use ffs_testkit::rng::SplitMix64;

/// The values that a field is set to (as in XFS's field tests).
fn damages(old: i128, bits: usize, rng: &mut SplitMix64) -> Vec<i128> {
    let flip = |b: usize| old ^ (1i128 << b);
    let r = i128::from(rng.next_u64());
    vec![0, -1, old + 1, old - 1, flip(bits - 1), flip(bits / 2), flip(0), r, old << 1, old >> 1]
}

/// Calls `test` with `bytes` for every damage of every element of `fields`.
fn each_damage(
    fields: &[Field],
    bytes: &[u8],
    e: Endian,
    rng: &mut SplitMix64,
    mut test: impl FnMut(&str, &[u8], &mut SplitMix64),
) {
    let mut b = bytes.to_vec();
    for f in fields {
        for n in 0..f.count().min(24) {
            let old = f.value(bytes, n, e);
            for v in damages(old, 8 * f.elem, rng) {
                f.set(&mut b, n, e, v);
                test(&format!("{}[{n}] {old} -> {v}", f.name), &b, rng);
            }
            f.set(&mut b, n, e, old);
        }
    }
    assert_eq!(b, bytes);
}

fn some(rng: &mut SplitMix64, end: u64) -> [u64; 4] {
    [0, end.saturating_sub(1), rng.below(end), rng.next_u64()]
}

/// Calls every function of an accepted geometry with numbers in and out of range.
fn exercise(what: &str, g: &Geometry, rng: &mut SplitMix64) {
    assert!(g.frag_to_byte(FragNo(g.size)) < u64::MAX, "{what}");
    assert!(CgLayout::of(g).nextfreeoff <= g.cgsize && g.cgsize <= g.bsize, "{what}");
    for c in some(rng, g.ncg.into()) {
        let c = CgNo(c as u32);
        let ends = [g.cgbase(c), g.cgsblock(c), g.cgtod(c), g.cgimin(c), g.cgdmin(c)];
        assert!(ends.is_sorted(), "{what}: {c} {ends:?}");
        if c.0 < g.ncg {
            assert!(g.cgdmin(c) <= g.cgbase(c).plus(g.cg_frags(c).into()), "{what}: {c}");
            assert!(g.cgbase(c).0 + u64::from(g.cg_frags(c)) <= g.size, "{what}: {c}");
        }
        let _ = (g.cgmeta(c), g.cgdata(c), g.cgstart(c), g.blocks_per_group());
    }
    for i in some(rng, g.inodes().into()) {
        let i = Ino(i as u32);
        let block = g.ino_to_fsba(i);
        if i.0 < g.inodes() {
            let c = g.ino_to_cg(i);
            assert!(block >= g.cgimin(c) && block < g.cgdmin(c), "{what}: {i}");
            assert!(g.in_metadata(c, block), "{what}: {i}");
        }
        assert!(g.ino_to_fsbo(i) + g.format.dinode_size() <= g.bsize as usize, "{what}");
        let _ = g.check_ino(i.0, Structure::Inode, Place::Unknown);
    }
    for d in some(rng, g.size) {
        let n = (d % 11) as u32;
        let d = FragNo(d);
        let _ = (g.dtog(d), g.dtogd(d), g.fragnum(d), g.blknum(d), g.frag_to_byte(d));
        let _ = (g.run_problem(d, n), g.in_metadata(g.dtog(d), d));
        let _ = (g.fragstoblks(d), g.blkstofrags(Lbn(d.0)), snapshot::is_mark(g, d.0 as i64));
        let _ = g.check_run(d.0 as i64, n, Structure::Inode, Place::Unknown);
        let _ = snapshot::classify(g, Ino(5), Lbn(d.0), d.0 as i64);
        let _ = (snapshot::block_frags(g, Lbn(d.0)), snapshot::list_bytes(g, Ino(5), d.0));
    }
    for x in some(rng, g.maxfilesize) {
        let l = g.lblkno(x);
        let _ = (g.blkoff(x), g.lblktosize(l), g.fragroundup(x), g.numfrags_up(x));
        let _ = (g.blksize(x, l), g.blksize(x, Lbn(x)), g.frags_to_sectors(x));
        let path = bmap::path(g, l);
        assert!(path.is_some() || x >= g.maxfilesize, "{what}: offset {x}");
        let _ = (bmap::path(g, Lbn(x)), bmap::parse_name(g, x as i64));
        let total = Csum { ndir: 1, nbfree: x as i64, nifree: 1, nffree: x as i64 };
        let _ = g.freespace(&total, (x % 101) as u32);
    }
    for level in 0..5 {
        let _ = (bmap::blocks_per_pointer(g, level), bmap::first_of_root(g, level));
    }
}

/// Whether the superblock was accepted.
fn try_superblock(what: &str, bytes: &[u8], at: u64, dev: u64, rng: &mut SplitMix64) -> bool {
    let Ok(sb) = Superblock::decode(bytes, at) else { return false };
    let mut accepted = false;
    for device in [None, Some(dev)] {
        let problems = sbcheck::problems(&sb, device);
        let geometry = sbcheck::geometry_ignoring_hash(&sb, device);
        let fatal = problems.iter().any(|p| p.fatal && p.field != "ckhash");
        assert_eq!(geometry.is_err(), fatal, "{what}: {problems:?}");
        if let Ok(g) = geometry {
            exercise(what, &g, rng);
            accepted = true;
        }
    }
    let _ = (sb.encode(), sb.hash_ok(), sb.cstotal(), sb.csaddr(), sb.standard_location());
    let _ = (snapshot::active(&sb), sb.volname().len(), sb.fsmnt().len(), sbcheck::sizes_ok(&sb));
    accepted
}

fn superblock_bytes(v: &Volume) -> (u64, Vec<u8>) {
    let at = v.found().sb.location;
    (at, v.bytes[at as usize..][..8192].to_vec())
}

#[test]
fn kf2_01_hostile_superblock_values() {
    let mut rng = SplitMix64::new(201);
    let mut accepted = [0u32; 2];
    for v in small_volumes() {
        let e = v.found().geometry.endian;
        let (at, bytes) = superblock_bytes(&v);
        for table in TABLES.iter().filter(|t| t.name.starts_with("superblock")) {
            each_damage(table.fields, &bytes, e, &mut rng, |what, b, rng| {
                let what = format!("{}: {what}", v.name);
                let ok = try_superblock(&what, b, at, v.bytes.len() as u64, rng);
                accepted[usize::from(ok)] += 1;
            });
        }
    }
    println!("{} refused, {} accepted", accepted[0], accepted[1]);
    assert!(accepted[0].min(accepted[1]) > 1000 || accepted == [0, 0]);
}

/// Damage to several fields at once reaches cases that a single one does not.
#[test]
fn kf2_02_sums_and_products_of_hostile_values_do_not_overflow() {
    let seed = 202;
    let mut rng = SplitMix64::new(seed);
    let mut accepted = 0;
    let fields = TABLES[0].fields;
    assert_eq!(TABLES[0].name, "superblock");
    for v in small_volumes() {
        let e = v.found().geometry.endian;
        let (at, bytes) = superblock_bytes(&v);
        for round in 0..3000 {
            let mut b = bytes.clone();
            let mut what = format!("{} seed {seed} round {round}:", v.name);
            for _ in 0..rng.between(2, 6) {
                let f = fields[rng.below(fields.len() as u64) as usize];
                let n = rng.below(f.count() as u64) as usize;
                let old = f.value(&b, n, e);
                let value = *rng.pick(&damages(old, 8 * f.elem, &mut rng.clone())).unwrap();
                what += &format!(" {}[{n}]={value}", f.name);
                f.set(&mut b, n, e, value);
            }
            let ok = try_superblock(&what, &b, at, v.bytes.len() as u64, &mut rng);
            accepted += u32::from(ok);
        }
        assert!(accepted > 100, "{}: {accepted}", v.name);
        // Noise in bytes 839 to 960 crashed FreeBSD's fsck.
        for _ in 0..200 {
            let mut b = bytes.clone();
            rng.fill_bytes(&mut b[839..960]);
            try_superblock(&v.name, &b, at, v.bytes.len() as u64, &mut rng);
        }
    }
}

/// The field that the error names after a change of one field.
fn first_problem(v: &Volume, field: &str, value: i128) -> Option<&'static str> {
    let found = v.found();
    let (at, mut b) = superblock_bytes(v);
    let f = TABLES[0].fields.iter().find(|f| f.name == field).unwrap();
    f.set(&mut b, 0, found.geometry.endian, value);
    let sb = Superblock::decode(&b, at).unwrap();
    let problems = sbcheck::problems(&sb, Some(v.bytes.len() as u64));
    problems.into_iter().find(|p| p.field != "ckhash").map(|p| p.field)
}

#[test]
fn kf2_01_the_wrong_field_is_named() {
    let Some(v) = volume("freebsd14-ufs2-le-4m") else { return };
    let cases: &[(&str, i128, &str)] = &[
        ("bsize", 2048, "bsize"),
        ("bsize", 131_072, "bsize"),
        ("bsize", 0, "bsize"),
        ("fsize", 256, "fsize"),
        ("fsize", 5000, "fsize"),
        ("frag", 16, "frag"),
        ("frag", 4, "fsize * frag"),
        ("bmask", 0, "bmask"),
        ("fmask", 0, "fmask"),
        ("qbmask", 0, "qbmask"),
        ("qfmask", 0, "qfmask"),
        ("bshift", 14, "bshift"),
        ("fshift", 33, "fshift"),
        ("fragshift", 0, "fragshift"),
        ("fsbtodb", 40, "fsbtodb"),
        ("nindir", 0, "nindir"),
        ("inopb", 0, "inopb"),
        ("maxsymlinklen", 60, "maxsymlinklen"),
        ("sbsize", 1375, "sbsize"),
        ("sbsize", 8704, "sbsize"),
        ("fpg", 16, "fpg"),
        ("fpg", 265, "fpg"),
        ("ncg", 0, "ncg"),
        ("ipg", 0, "ipg"),
        ("ipg", 257, "ipg"),
        ("sblkno", 16, "sblkno"),
        ("cblkno", 40, "cblkno"),
        ("iblkno", 32, "iblkno"),
        ("dblkno", 48, "dblkno"),
        ("cgsize", 0, "cgsize"),
        ("cgsize", 65536, "cgsize"),
        ("cgsize", 4000, "cgsize"),
        ("size", 0, "size"),
        ("size", 1057, "size"),
        ("size", 792, "size"),
        ("size", 820, "size"),
        ("csaddr", 55, "csaddr"),
        ("csaddr", -1, "csaddr"),
        ("cssize", 8192, "cssize"),
        ("maxbsize", 16384, "maxbsize"),
        ("maxbsize", 1 << 31, "maxbsize"),
        ("sblockloc", 12345, "sblockloc"),
        ("contigsumsize", 1 << 30, "contigsumsize"),
        // Only warnings:
        ("minfree", 100, "minfree"),
        ("metaspace", 133, "metaspace"),
        ("maxfilesize", 7, "maxfilesize"),
    ];
    for (field, value, want) in cases {
        assert_eq!(first_problem(&v, field, *value), Some(*want), "{field} = {value}");
    }
    assert_eq!(first_problem(&v, "maxbsize", 0), None);
    assert_eq!(first_problem(&v, "minfree", 0), None);
}

/// FreeBSD bug 271351: a summary area at the end of the volume or across groups.
#[test]
fn kf2_01_summary_area_past_the_end() {
    let Some(v) = volume("freebsd14-ufs2-le-4m") else { return };
    for (csaddr, ok) in [(1023, true), (1024, false), (263, true), (1 << 40, false), (300, false)] {
        let found = first_problem(&v, "csaddr", csaddr);
        assert_eq!(found.is_none(), ok, "{csaddr}: {found:?}");
    }
}

#[test]
fn kf2_01_rotation_stays_inside_the_group() {
    let Some(v) = volume("openbsd28-ufs1-floppy") else { return };
    assert_eq!(v.found().geometry.cgoffset, 24);
    for (field, value) in [("old_cgoffset", -1), ("old_cgoffset", 1 << 29), ("fpg", 64)] {
        assert!(first_problem(&v, field, value).is_some(), "{field} {value}");
    }
}

#[test]
fn kf2_05_hostile_group_headers() {
    let mut rng = SplitMix64::new(205);
    for v in small_volumes() {
        let g = v.found().geometry;
        let clean = v.cg_block(&g, 0);
        each_damage(CgFields::FIELDS, clean, g.endian, &mut rng, |what, b, rng| {
            let mut b = b.to_vec();
            cg::rehash(&g, &mut b);
            let _ = cg::validate(&g, CgNo(0), &b);
            // Even without validation no view accesses bytes outside the block.
            use_group(&g, &mut b, rng);
            assert_eq!(b.len(), g.bsize as usize, "{what}");
        });
        for _ in 0..50 {
            let mut b = rng.bytes(g.bsize as usize);
            assert!(cg::validate(&g, CgNo(0), &b).is_err());
            use_group(&g, &mut b, &mut rng);
        }
        assert!(cg::validate(&g, CgNo(0), &clean[..100]).is_err(), "short block");
        assert!(cg::validate(&g, CgNo(1), clean).is_err(), "wrong group");
    }
}

fn use_group(g: &Geometry, b: &mut [u8], rng: &mut SplitMix64) {
    let view = Cg::new(g, b);
    let _ = (view.header(), view.cs(), view.rotor(), view.frotor(), view.irotor(), view.cgx());
    let counts = view.recount();
    assert!(counts.cs.nbfree <= i64::from(g.blocks_per_group()));
    let mut view = CgMut::new(g, b);
    for n in [0, 1, 7, 8, rng.next_u64() as u32, u32::MAX] {
        let v = view.view();
        let _ = (v.inode_used(n), v.frag_free(n), v.block_pattern(n), v.block_free(n));
        let _ = (v.frsum(n), v.clustersum(n), v.initediblk());
        let _ = (cg::bit(v.clustersfree(), n), cg::bit(v.inosused(), n));
        view.set_inode_used(n, true);
        view.set_frag_free(n, true);
        view.set_block_free(n, false);
        view.set_cluster_free(n, true);
        view.add_frsum(n, i32::MIN);
        view.add_clustersum(n, i32::MAX);
    }
    view.set_cs(Csum { ndir: i64::MAX, nbfree: i64::MIN, nifree: 0, nffree: -1 });
    view.seal(i64::MAX);
}

#[test]
fn kf2_05_and_kf2_12_hostile_inodes() {
    let mut rng = SplitMix64::new(212);
    for v in small_volumes() {
        let g = v.found().geometry;
        let fields = match g.format {
            Format::Ufs1 => Dinode1::FIELDS,
            Format::Ufs2 => Dinode2::FIELDS,
        };
        for ino in v.used_inodes(&g).into_iter().take(40) {
            let clean = v.inode_bytes(&g, ino);
            each_damage(fields, clean, g.endian, &mut rng, |what, b, _| {
                let what = format!("{} {ino} {what}", v.name);
                let mut b = b.to_vec();
                dinode::rehash(&g, &mut b);
                use_inode(&what, &g, ino, &b);
            });
        }
        for _ in 0..500 {
            let b = rng.bytes(g.format.dinode_size());
            use_inode(&v.name, &g, Ino(7), &b);
        }
    }
}

fn use_inode(what: &str, g: &Geometry, ino: Ino, b: &[u8]) {
    let d = Dinode::decode(g, b);
    let mut again = b.to_vec();
    d.encode(g, &mut again);
    if dinode::hash_ok(g, b) {
        assert_eq!(again, b, "{what}");
    }
    let _ = (d.rdev(), d.has_pointers(g), d.short.text(d.size).len());
    let _ = (journal::inode_problem(g, &d), snapshot::is_snapshot(&d));
    if let Ok(d) = dinode::check(g, ino, b) {
        assert!(d.size <= g.maxfilesize, "{what}");
        assert!(d.extsize as usize <= 2 * g.bsize as usize, "{what}");
        assert!(d.file_type().is_some());
    }
}

#[test]
fn kf2_12_an_inode_error_names_inode_and_field() {
    let Some(v) = volume("freebsd14-ufs2-le-4m") else { return };
    let g = v.found().geometry;
    let root = v.inode_bytes(&g, Ino::ROOT);
    let error = |change: &dyn Fn(&mut [u8])| {
        let mut b = root.to_vec();
        change(&mut b);
        dinode::check(&g, Ino::ROOT, &b).unwrap_err().to_string()
    };
    let text = error(&|b| b[0] ^= 1);
    assert!(text.starts_with("inode 2: ckhash is 0x"), "{text}");
    let sized = |size: u64| {
        error(&|b| {
            b[16..24].copy_from_slice(&size.to_le_bytes());
            dinode::rehash(&g, b);
        })
    };
    assert_eq!(sized(513), "inode 2: size is 513, expected a multiple of 512");
    assert!(sized(u64::MAX).contains("at most 2147483647"), "{}", sized(u64::MAX));
    let typeless = error(&|b| {
        b[1] = 0xf0;
        dinode::rehash(&g, b);
    });
    assert!(typeless.contains("mode is 0o17"), "{typeless}");
}

#[test]
fn kf2_05_pointers_into_metadata_and_beyond_are_refused() {
    for v in small_volumes() {
        let g = v.found().geometry;
        let refused = |raw: i64, n: u32| {
            let r = g.check_run(raw, n, Structure::Inode, Place::Inode(Ino(9)));
            r.is_err()
        };
        let frag = g.frag;
        for c in [0, g.ncg - 1].map(CgNo) {
            for d in [g.cgsblock(c), g.cgtod(c), g.cgimin(c)] {
                assert!(refused(d.0 as i64, 1), "{}: {d}", v.name);
            }
            assert!(refused(g.cgdmin(c).0 as i64 - 1, 1));
        }
        assert!(refused(g.csaddr.0 as i64, 1));
        assert!(refused(1, 1) && refused(-1, 1) && refused(i64::MIN, 1));
        assert!(refused(g.size as i64, 1) && refused(i64::MAX, 1));
        assert!(refused(g.size as i64 - 1, 2));
        let last = g.cgbase(CgNo(g.ncg - 1)).0 + u64::from(g.cg_frags(CgNo(g.ncg - 1))) - 1;
        let last_block = last - last % u64::from(frag);
        assert!(!refused(last as i64, 1), "{}: the last fragment is data", v.name);
        assert!(refused(last_block as i64, frag + 1));
        if frag > 1 {
            assert!(refused(last_block as i64 - 1, 2), "across blocks");
        }
        assert_eq!(g.check_run(0, 1, Structure::Inode, Place::Unknown), Ok(None));
    }
}

#[test]
fn kf2_12_hostile_attribute_areas() {
    let seed = 12;
    let mut rng = SplitMix64::new(seed);
    let e = Endian::Little;
    let mut area = Vec::new();
    for n in 0..20u8 {
        let name = vec![b'a' + n; 1 + usize::from(n)];
        let value = rng.bytes(usize::from(n) * 3);
        area = extattr::set(e, &area, extattr::Namespace::User, &name, &value, 65536).unwrap();
    }
    assert_eq!(extattr::records(e, &area).filter(|r| r.is_ok()).count(), 20);
    for round in 0..20_000 {
        let mut b = area.clone();
        for _ in 0..rng.between(1, 4) {
            let at = rng.below(b.len() as u64) as usize;
            b[at] = rng.next_u64() as u8;
        }
        b.truncate(rng.between(1, b.len() as u64) as usize);
        let steps: Vec<_> = extattr::records(e, &b).collect();
        assert!(steps.len() <= b.len().div_ceil(8), "round {round}");
        let bad = steps.iter().filter(|r| r.is_err()).count();
        assert!(bad <= 1 && steps.iter().rev().skip(1).all(Result::is_ok));
        let changed = extattr::set(e, &b, extattr::Namespace::System, b"x", b"y", 65536);
        assert_eq!(changed.is_ok(), bad == 0, "seed {seed} round {round}");
        let removed = extattr::remove(e, &b, extattr::Namespace::User, b"b");
        assert_eq!(removed.is_ok(), bad == 0);
    }
    for len in 0..64u32 {
        let mut b = vec![0; 64];
        b[..4].copy_from_slice(&len.to_le_bytes());
        b[6] = 1;
        b[7] = b'n';
        let good = extattr::read(e, &b, 0).is_ok();
        assert_eq!(good, len >= 8 && len % 8 == 0, "record length {len}");
    }
}
