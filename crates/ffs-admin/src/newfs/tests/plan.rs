//! Plans compared with those of FreeBSD's newfs.

use super::*;

/// One row of the table of FreeBSD's results.
struct Golden {
    opts: NewfsOptions,
    bytes: u64,
    want: [u64; 11],
    today: [u64; 3],
}

fn golden() -> Vec<Golden> {
    let table = fixtures::raw_file("newfs-golden.tsv").unwrap_or_default();
    let text = String::from_utf8(table).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let n = |i: usize| cells[i].parse::<u64>().unwrap();
        assert_eq!(cells[5], "ok");
        let mut today = cells[17].split('/').map(|c| c.parse().unwrap());
        let (bsize, fsize) = (n(1) as u32, n(2) as u32);
        Golden {
            opts: NewfsOptions {
                release: Release::Freebsd10,
                format: Some(if n(0) == 1 { Format::Ufs1 } else { Format::Ufs2 }),
                bsize: Some(bsize),
                fsize: Some(fsize),
                density: Some(n(4) as u32).filter(|&d| d > 0),
                // The whole table is for transfers of 128 KiB.
                maxcontig: Some(131_072 / bsize),
                ..NewfsOptions::default()
            },
            bytes: n(3),
            want: std::array::from_fn(|i| n(6 + i)),
            today: std::array::from_fn(|_| today.next().unwrap()),
        }
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn plans_equal_freebsds() {
    let rows = golden();
    for Golden { opts, bytes, want, today } in &rows {
        let p = plan(opts, *bytes, 512).unwrap();
        let have = [
            p.ncg,
            p.fpg,
            p.ipg,
            p.sblkno,
            p.cblkno,
            p.iblkno,
            p.dblkno,
            p.cgsize,
            p.cssize,
            p.metaspace,
            p.dsize,
        ];
        assert_eq!(have, *want, "{opts:?} {bytes}");
        let opts = NewfsOptions { release: Release::Current, ..opts.clone() };
        let p = plan(&opts, *bytes, 512).unwrap();
        assert_eq!([p.ncg, p.fpg, p.ipg], *today, "{opts:?} {bytes}");
    }
    assert!(rows.is_empty() || rows.len() == 126);
}

#[test]
fn plans_of_freebsd_4_follow_its_formulas() {
    const EIGHT_GIB: u64 = 8 << 30;
    let four = |bsize, fsize, max_group| NewfsOptions {
        release: Release::Freebsd4,
        bsize: Some(bsize),
        fsize: Some(fsize),
        max_group,
        ..NewfsOptions::default()
    };
    for (opts, want) in [
        (four(16384, 2048, None), [91136, 22016, 47, 1400, 16384 / 4]),
        (four(8192, 1024, None), [45056, 10880, 187, 1392, 8192 / 4]),
        (four(8192, 1024, Some(16)), [32768, 7936, 256, 1024, 8192 / 4]),
    ] {
        let p = plan(&opts, EIGHT_GIB, 512).unwrap();
        assert_eq!([p.fpg, p.ipg, p.ncg, p.dblkno, p.maxbpg.into()], want, "{opts:?}");
    }
    let p = plan(&four(8192, 1024, None), EIGHT_GIB, 512).unwrap();
    assert_eq!((p.maxcontig, p.metaspace), (15, 0));
    let defaults = NewfsOptions { release: Release::Freebsd4, ..NewfsOptions::default() };
    let p = plan(&defaults, EIGHT_GIB, 512).unwrap();
    assert_eq!((p.format, p.bsize, p.fsize), (Format::Ufs1, 16384, 2048));
    for bytes in [2 << 20, 5 << 20, 50_000_000] {
        let dev = MemDevice::new(bytes);
        newfs(&dev, &defaults, &clock(), &SplitMix64::new(4), &mut silent()).unwrap();
        assert!(audit(&dev).ncg > 0);
    }
}

/// Sizes that no volume has, on a volume with so many fragments that they are doubled.
#[test]
fn absurd_sizes_are_doubled_without_overflow() {
    for (bsize, fsize) in [(4096, u32::MAX), (u32::MAX, u32::MAX), (1, 1 << 31), (u32::MAX, 1)] {
        for bytes in [1 << 30, 1 << 46, 1 << 62] {
            let opts = NewfsOptions {
                bsize: Some(bsize),
                fsize: Some(fsize),
                density: Some(1),
                ..NewfsOptions::default()
            };
            // Either result is allowed.
            drop(plan(&opts, bytes, 512));
        }
    }
}

/// A fragment has at least one sector, the superblock fills one, and an impossible sector is
/// refused.
#[test]
fn sectors_have_the_size_that_is_given() {
    let plan_of = |sector, device| {
        let opts = NewfsOptions { sector_size: Some(sector), ..NewfsOptions::default() };
        plan(&opts, 64 << 20, device)
    };
    for (sector, fsize, bsize, sbsize) in [
        (512, 4096, 32768, 4096),
        (4096, 4096, 32768, 4096),
        (8192, 8192, 32768, 8192),
        (65536, 65536, 65536, 8192),
    ] {
        let p = plan_of(sector, 512).unwrap();
        assert_eq!((p.fsize, p.bsize, p.sbsize), (fsize, bsize, sbsize), "{sector}");
    }
    for (sector, device, why) in [
        (256, 512, "power of two"),
        (1000, 512, "power of two"),
        (131_072, 512, "power of two"),
        (512, 4096, "sectors of 4096 bytes"),
    ] {
        let error = plan_of(sector, device).unwrap_err().to_string();
        assert!(error.contains("-S") && error.contains(why), "{error}");
    }
    // The size is a whole number of sectors.
    let opts = NewfsOptions { sector_size: Some(65536), ..NewfsOptions::default() };
    assert_eq!(plan(&opts, (64 << 20) + 65535, 512).unwrap().bytes, 64 << 20);
}
