use super::*;
use crate::newfs::plan;
use proptest::prelude::*;

/// The groups found by trying one size after another, as newfs does.
fn by_trying(f: &BaseSizes, opts: &NewfsOptions, wanted: u64) -> Option<(u64, u64, u64)> {
    let (header, spare) = if opts.release == Release::Current { (168, 8) } else { (176, 0) };
    let capacity = f.bsize - spare;
    let cg = |fpg, ipg| f.cg_bytes(header, f.cylinders(), fpg, ipg);
    let min_fpi = 1 + f.size / ((1u64 << 32) - f.inopb);
    let least = min_fpi * wanted;
    let default = u64::from(opts.frags_per_inode()).max(min_fpi) * wanted;
    let mut density = opts.density.map_or(default, |d| u64::from(d).max(least));
    let (fpi, mut fpg, mut ipg) = loop {
        let fpi = (density / f.fsize).max(1);
        let (fpg, ipg) = smallest_group(f, fpi);
        if fpi < min_fpi {
            return None;
        }
        if cg(fpg, ipg) < capacity {
            break (fpi, fpg, ipg);
        }
        density = density.checked_sub(f.fsize).filter(|&d| d > 0)?;
    };
    let ipg_of = |fpg: u64| fpg.div_ceil(fpi).next_multiple_of(f.inopb);
    while fpg < u64::from(opts.max_group.unwrap_or(i32::MAX as u32)) {
        ipg = ipg_of(fpg);
        let few = f.format == Format::Ufs2 || ipg <= UFS1_MAXIPG;
        if few && f.size / fpg < MINCYLGRPS {
            break;
        }
        match cg(fpg, ipg).cmp(&capacity) {
            Ordering::Less if few => fpg += f.frag,
            Ordering::Equal if few => break,
            _ => {
                fpg -= f.frag;
                ipg = ipg_of(fpg);
                break;
            }
        }
    }
    fit_last_group(f, &mut fpg, &mut ipg, ipg_of).ok()?;
    Some((density, fpg, ipg))
}

fn any_frame() -> impl Strategy<Value = (NewfsOptions, (u32, u32), u64)> {
    let density = prop_oneof![Just(None), (1u32..200_000).prop_map(Some), Just(Some(1 << 24))];
    let max_group = prop::option::of(1u32..70_000);
    let bytes = prop_oneof![0u64..24_000_000, 0u64..1 << 33, 0u64..1 << 50];
    (12u32..=16, 0u32..=3, density, max_group, bytes, any::<[bool; 2]>()).prop_map(
        |(b, frag, density, max_group, bytes, [ufs1, today])| {
            let opts = NewfsOptions {
                release: if today { Release::Current } else { Release::Freebsd10 },
                format: Some(if ufs1 { Format::Ufs1 } else { Format::Ufs2 }),
                density,
                max_group,
                ..NewfsOptions::default()
            };
            (opts, (1 << b, 1 << (b - frag)), bytes)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn the_groups_are_those_that_trying_finds((opts, sizes, bytes) in any_frame()) {
        let f = BaseSizes::new(&opts, sizes, bytes, 512, &mut Vec::new()).unwrap();
        let found = size_groups(&f, &opts, sizes.1, &mut Vec::new()).ok().flatten();
        let found = found.map(|c| (c.density, c.fpg, c.ipg));
        prop_assert_eq!(found, by_trying(&f, &opts, f.fsize));
    }
}

/// Two thousand plans, each of which would take four million steps to find by trying.
#[test]
fn a_nonsensical_density_takes_no_longer_than_a_sensible_one() {
    for n in 0..2000 {
        let opts = NewfsOptions {
            bsize: Some(4096),
            fsize: Some(512),
            density: Some(i32::MAX as u32 - n),
            ..NewfsOptions::default()
        };
        let plan = plan(&opts, 1 << 40, 512).unwrap();
        assert!(plan.density < 1 << 20, "{}", plan.density);
    }
}
