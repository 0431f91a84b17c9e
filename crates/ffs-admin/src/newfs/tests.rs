//! newfs compared with FreeBSD's results, and with itself.

mod plan;

use super::*;
use crate::Volume;
use crate::audit::audit;
use ffs_device::Rng;
use ffs_device::record::{Level, Recorder};
use ffs_testkit::fixtures;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq};
use proptest::{prop_oneof, proptest};
use std::sync::Arc;

fn silent() -> impl FnMut(u32, u32) {
    |_, _| {}
}

fn clock() -> ManualClock {
    ManualClock::new(Timestamp::new(1_700_000_000, 5))
}

/// `newfs -R` of FreeBSD 10.4 with the group "operator" of the machine that made the fixtures.
fn freebsd10(format: Format, sizes: Option<(u32, u32)>) -> NewfsOptions {
    NewfsOptions {
        release: Release::Freebsd10,
        format: Some(format),
        bsize: sizes.map(|s| s.0),
        fsize: sizes.map(|s| s.1),
        reproducible: true,
        operator_gid: 37,
        ..NewfsOptions::default()
    }
}

fn equals_fixture(name: &str, opts: &NewfsOptions) {
    let Some(want) = fixtures::load(name) else { return };
    let dev = MemDevice::new(want.len() as u64);
    newfs(&dev, opts, &clock(), &SplitMix64::new(1), &mut silent()).unwrap();
    let have = dev.to_vec();
    if let Some(at) = have.iter().zip(&want).position(|(a, b)| a != b) {
        let range = at..(at + 32).min(want.len());
        panic!(
            "{name}: byte {at} differs: {:x?} instead of {:x?}",
            &have[range.clone()],
            &want[range]
        );
    }
    audit(&dev);
}

#[test]
fn ufs1_volumes_equal_freebsds_byte_for_byte() {
    for (size, name) in [
        ((4096, 512), "newfs10-ufs1-4k512-8m"),
        ((8192, 1024), "newfs10-ufs1-8k1k-64m"),
        ((16384, 2048), "newfs10-ufs1-16k2k-256m"),
    ] {
        equals_fixture(name, &freebsd10(Format::Ufs1, Some(size)));
    }
}

#[test]
fn ufs2_volumes_equal_freebsds_byte_for_byte() {
    let plain = |b, f| freebsd10(Format::Ufs2, Some((b, f)));
    let soft = NewfsOptions { soft_updates: true, ..freebsd10(Format::Ufs2, None) };
    equals_fixture("newfs10-ufs2-32k4k-64m", &soft);
    equals_fixture("newfs10-ufs2-4k512-16m", &plain(4096, 512));
    equals_fixture("newfs10-ufs2-8k8k-32m", &plain(8192, 8192));
    let flags = NewfsOptions {
        trim: true,
        multilabel: true,
        gjournal: true,
        label: Some("lab_1".into()),
        minfree: 5,
        optim: Some(Optim::Space),
        no_snap: true,
        ..soft
    };
    equals_fixture("newfs10-ufs2-flags-16m", &flags);
}

/// Random numbers of FreeBSD 14, read from the volume it made.
#[derive(Debug)]
struct Replay(std::sync::Mutex<std::vec::IntoIter<u32>>);

impl Rng for Replay {
    fn next_u64(&self) -> u64 {
        u64::from(self.0.lock().unwrap().next().unwrap()) << 32
    }
}

#[test]
fn todays_volume_equals_freebsd_14s() {
    const NAME: &str = "freebsd14-ufs2-le-64m-new";
    let Some(mut want) = fixtures::load(NAME) else { return };
    let from = MemDevice::from_bytes(&want);
    let vol = Volume::open(&from).unwrap();
    let (g, sb) = (vol.geo, vol.sb.clone());
    let mut drawn = vec![sb.f.id[1] as u32];
    for c in (0..g.ncg).map(CgNo) {
        let mut inodes = vec![0; 2 * g.bsize as usize];
        vol.read(g.cgimin(c), &mut inodes).unwrap();
        let number = |raw: &[u8]| ffs_ondisk::Dinode::decode(&g, raw).generation.max(1);
        drawn.extend(inodes.chunks_exact(256).map(number));
    }
    let dev = MemDevice::new(want.len() as u64);
    let rng = Replay(std::sync::Mutex::new(drawn.into_iter()));
    let opts = NewfsOptions::default();
    let numbers = GenNumbers::Random(&rng);
    let inputs = Inputs { now: sb.f.time, numbers, unused_space: UnusedSpace::Residue };
    make(&dev, &opts, inputs, &mut silent()).unwrap();
    audit(&dev);
    let mut have = dev.to_vec();
    // The kernel that mounted it changed the superblock and the root's generation.
    let ours = Superblock::decode(&have[65536..], 65536).unwrap();
    let mut theirs = sb.f.clone();
    theirs.mtime = 0;
    theirs.ckhash = ours.f.ckhash;
    assert_eq!(ours.f, theirs);
    let root = 40 * 4096 + 2 * 256;
    for volume in [&mut have, &mut want] {
        volume[65536..65536 + 8192].fill(0);
        volume[root + 80..root + 84].fill(0);
        volume[root + 244..root + 248].fill(0);
        for c in (0..g.ncg).map(CgNo) {
            // After the bytes of a group, its block holds earlier content.
            let block = g.frag_to_byte(g.cgtod(c)) as usize;
            volume[block + g.cgsize as usize..block + g.bsize as usize].fill(0);
        }
    }
    let differs = |range: std::ops::Range<usize>| {
        range.clone().find(|&at| have[at] != want[at]).map(|at| (at, range))
    };
    // The rest holds data of earlier volumes in the same file.
    let bytes = |f| g.frag_to_byte(f) as usize;
    assert_eq!(differs(0..bytes(g.cgsblock(CgNo(0)))), None);
    for c in (0..g.ncg).map(CgNo) {
        let inodes = g.cgimin(c).plus(2 * u64::from(g.frag));
        assert_eq!(differs(bytes(g.cgsblock(c))..bytes(inodes)), None);
    }
    let data = g.csaddr;
    assert_eq!(differs(bytes(data)..bytes(data.plus(1))), None, "summary area");
    assert_eq!(differs(bytes(data.plus(8))..bytes(data.plus(9))), None, "root");
    assert_eq!(differs(bytes(data.plus(16))..bytes(data.plus(17))), None, ".snap");
    assert_eq!(differs(want.len() - 512..want.len()), None);
}

#[test]
fn every_geometry_is_in_order() {
    let sizes =
        [(4096, 512), (4096, 4096), (8192, 1024), (16384, 2048), (32768, 4096), (65536, 8192)];
    // Whole numbers of groups, and lengths that end inside a group, a block and a fragment.
    let lengths = [4 << 20, (5 << 20) + 512, 20_975_104, 33_333_333];
    for (bsize, fsize) in sizes {
        for format in [Format::Ufs1, Format::Ufs2] {
            for endian in [Endian::Little, Endian::Big] {
                for bytes in lengths {
                    let dev = quick(endian, format, bsize, fsize, bytes).unwrap();
                    let g = audit(&dev);
                    assert_eq!((g.bsize, g.fsize, g.endian), (bsize, fsize, endian));
                    assert_eq!(g.size, bytes / u64::from(fsize));
                }
            }
        }
    }
}

#[test]
fn byte_order_changes_nothing_but_byte_order() {
    let of = |endian| {
        let dev = quick(endian, Format::Ufs2, 8192, 1024, 8 << 20).unwrap();
        let vol = Volume::open(&dev).unwrap();
        let block = vol.read_cg(CgNo(1)).unwrap();
        let maps = block[168..].to_vec();
        let clusters = ffs_ondisk::cg::CgLayout::of(&vol.geo).clustersumoff as usize - 168;
        let header = ffs_ondisk::cg::CgFields::decode(&block, endian);
        (vol.sb.f.clone(), header, maps[..clusters].to_vec())
    };
    let (mut sb, mut header, maps) = of(Endian::Little);
    let big = of(Endian::Big);
    sb.ckhash = big.0.ckhash;
    header.ckhash = big.1.ckhash;
    assert_eq!((sb, header, maps), big);
}

#[test]
fn a_dry_run_writes_nothing_and_prints_the_same() {
    let dev = MemDevice::new(64 << 20);
    let opts = NewfsOptions { dry_run: true, reproducible: true, ..NewfsOptions::default() };
    let dry = newfs(&dev, &opts, &clock(), &SplitMix64::new(1), &mut silent()).unwrap();
    assert_eq!(dev.allocated_bytes(), 0);
    let opts = NewfsOptions { dry_run: false, ..opts };
    let wet = newfs(&dev, &opts, &clock(), &SplitMix64::new(1), &mut silent()).unwrap();
    assert_eq!(dry.plan, wet.plan);
    assert_eq!(dry.superblock, wet.superblock);
    let backups: Vec<u64> = wet.backup_sectors().collect();
    assert_eq!(backups, [192, 33024, 65856, 98688]);
}

#[test]
fn nothing_is_written_beyond_the_requested_size() {
    for (size, reserved) in [(Some(4 << 20), 0), (None, 4 << 20), (Some(7 << 20), 4 << 20)] {
        let dev = MemDevice::from_bytes(&[0x5a; 8 << 20]);
        let opts = NewfsOptions { size, reserved, ..NewfsOptions::default() };
        let report = newfs(&dev, &opts, &clock(), &SplitMix64::new(1), &mut silent()).unwrap();
        assert_eq!(audit(&dev).size, 1024);
        assert_eq!(report.superblock.f.providersize, 2048);
        assert!(dev.to_vec()[4 << 20..].iter().all(|&b| b == 0x5a));
    }
}

#[test]
fn seeds_decide_everything() {
    let make = |seed| {
        let dev = MemDevice::new(4 << 20);
        let opts = NewfsOptions::default();
        newfs(&dev, &opts, &clock(), &SplitMix64::new(seed), &mut silent()).unwrap();
        dev.to_vec()
    };
    assert!(make(7) == make(7));
    assert!(make(7) != make(8));
}

/// A hole of a sparse file stays one where a group has zeros or free inodes; data there is
/// overwritten.
#[test]
fn holes_stay_holes_and_old_content_does_not() {
    use crate::fsck::quick_check;
    let opts = |keep_holes| NewfsOptions {
        keep_holes,
        bsize: Some(32768),
        fsize: Some(4096),
        ..NewfsOptions::default()
    };
    let make = |dev: &Arc<dyn BlockDevice>, keep_holes| {
        let before = quick_check(dev).len();
        newfs(dev, &opts(keep_holes), &clock(), &SplitMix64::new(7), &mut silent()).unwrap();
        assert_eq!(quick_check(dev), [], "{before} findings before");
    };
    let counting = || Arc::new(Recorder::with_level(MemDevice::new(4 << 30), Level::Count));
    let (whole, holes, old) = (counting(), counting(), counting());
    make(&(whole.clone() as Arc<dyn BlockDevice>), false);
    make(&(holes.clone() as Arc<dyn BlockDevice>), true);
    let g = audit(&*holes);
    assert!(g.ncg >= 4, "{} groups", g.ncg);
    // Of each group: one page of the superblock, the block, and no inodes except the root's.
    let group = 4096 + u64::from(g.cgsize);
    let limit = u64::from(g.ncg) * group + (256 << 10);
    let (few, all) = (holes.counters().written_bytes, whole.counters().written_bytes);
    assert!(few <= limit && all > 2 * few, "{few} of {all} bytes, limit {limit}");

    // Where something else was, every byte is written.
    for c in (0..g.ncg).map(CgNo) {
        old.write_at(g.frag_to_byte(g.cgsblock(c)), &vec![0xa5; 200 << 10]).unwrap();
    }
    make(&(old.clone() as Arc<dyn BlockDevice>), true);
    for c in (0..g.ncg).map(CgNo) {
        // The superblock copy; the group's block and two inode blocks.
        let group = g.frag_to_byte(g.cgtod(c));
        for (at, len) in [(g.frag_to_byte(g.cgsblock(c)), 8192), (group, 3 * 32768)] {
            let [new, over] = [&whole, &old].map(|dev| {
                let mut bytes = vec![0; len];
                dev.read_at(at, &mut bytes).unwrap();
                bytes
            });
            assert!(new == over, "group {c}, byte {at}");
        }
    }
}

#[test]
fn an_old_superblock_is_not_found_again() {
    use ffs_ondisk::superblock::magic_of;
    let ours = |format| NewfsOptions { format: Some(format), ..NewfsOptions::default() };
    let small = |format| NewfsOptions { bsize: Some(4096), fsize: Some(512), ..ours(format) };
    for (first, second) in [(Format::Ufs1, Format::Ufs2), (Format::Ufs2, Format::Ufs1)] {
        let dev = MemDevice::new(16 << 20);
        let rng = SplitMix64::new(3);
        newfs(&dev, &small(first), &clock(), &rng, &mut silent()).unwrap();
        let old = audit(&dev);
        // With so few inodes, the locations of the old superblocks are data now.
        let opts = NewfsOptions { density: Some(1 << 20), ..small(second) };
        newfs(&dev, &opts, &clock(), &rng, &mut silent()).unwrap();
        assert_eq!(audit(&dev).format, second);
        if first == Format::Ufs1 {
            for c in (0..old.ncg).map(CgNo) {
                let mut bytes = vec![0; 8192];
                dev.read_at(old.frag_to_byte(old.cgsblock(c)), &mut bytes).unwrap();
                let format = magic_of(&bytes).and_then(|(_, format)| format);
                assert_ne!(format, Some(Format::Ufs1), "backup of group {c}");
            }
        }
    }
}

#[test]
fn an_interrupted_newfs_is_recognised() {
    use ffs_device::{Fault, FaultInjector, Operation, Rule};
    let old = quick(Endian::Little, Format::Ufs2, 8192, 1024, 4 << 20).unwrap();
    let opts = NewfsOptions { reproducible: true, ..NewfsOptions::default() };
    let run = |dev: &dyn BlockDevice| {
        newfs(dev, &opts, &clock(), &SplitMix64::new(1), &mut silent()).map(drop)
    };
    let whole = FaultInjector::new(old.snapshot(), vec![]);
    run(&whole).unwrap();
    let (writes, flushes) = (whole.counts().writes, whole.counts().flushes);
    assert!(writes > 10 && flushes == 3, "{writes} {flushes}");
    for n in 1..=writes {
        let rule = Rule::new(Operation::Write, Fault::Errno(ffs_device::fault::EIO)).nth(n);
        let dev = FaultInjector::new(old.snapshot(), vec![rule]);
        assert!(matches!(run(&dev), Err(AdminError::Device(_))), "write {n}");
        dev.heal();
        match Volume::open(&dev) {
            Ok(vol) => assert!(n <= 2 && vol.geo.bsize == 8192, "write {n}"),
            Err(AdminError::Format(ffs_ondisk::Error::NewfsUnfinished(65536))) => {}
            Err(e) => panic!("write {n}: {e}"),
        }
    }
}

#[test]
fn impossible_wishes_are_refused_before_anything_is_written() {
    let d = NewfsOptions::default;
    let wishes: Vec<(u64, NewfsOptions, &str)> = vec![
        (0, d(), "too few"),
        (100_000, d(), "too few"),
        (4 << 20, NewfsOptions { bsize: Some(12345), ..d() }, "-b: 12345 is not a power of two"),
        (4 << 20, NewfsOptions { fsize: Some(0), ..d() }, "-f: 0 is not a power of two"),
        (4 << 20, NewfsOptions { fsize: Some(3000), ..d() }, "-f: 3000 is not a power of two"),
        (4 << 20, NewfsOptions { minfree: 100, ..d() }, "-m"),
        (4 << 20, NewfsOptions { density: Some(0), ..d() }, "-i"),
        (4 << 20, NewfsOptions { maxbpg: Some(0), ..d() }, "-e"),
        (4 << 20, NewfsOptions { avgfilesize: 0, ..d() }, "-g"),
        (4 << 20, NewfsOptions { label: Some("a b".into()), ..d() }, "-L"),
        (4 << 20, NewfsOptions { label: Some("x".repeat(32)), ..d() }, "-L"),
        (4 << 20, NewfsOptions { size: Some(5 << 20), ..d() }, "-s"),
        (4 << 20, NewfsOptions { reserved: 4 << 20, ..d() }, "-r: 4194304 bytes are all"),
        (4 << 20, NewfsOptions { reserved: (4 << 20) - 512, ..d() }, "too few"),
    ];
    for (bytes, opts, want) in wishes {
        let dev = MemDevice::new(bytes);
        let error = newfs(&dev, &opts, &clock(), &SplitMix64::new(1), &mut silent()).unwrap_err();
        assert!(error.to_string().contains(want), "{error} ({want})");
        assert_eq!(dev.allocated_bytes(), 0);
    }
    let huge = NewfsOptions { dry_run: true, ..d() };
    let ufs1 = NewfsOptions { format: Some(Format::Ufs1), fsize: Some(4096), ..huge.clone() };
    let dev = MemDevice::new(1 << 44);
    let error = newfs(&dev, &ufs1, &clock(), &SplitMix64::new(1), &mut silent()).unwrap_err();
    assert!(error.to_string().contains("more than UFS1 can address"), "{error}");
    // The summary area of so many small groups does not fit into the first of them.
    let tiny = NewfsOptions { bsize: Some(4096), fsize: Some(512), ..huge };
    let dev = MemDevice::new(7_696_581_394_432);
    let error = newfs(&dev, &tiny, &clock(), &SplitMix64::new(1), &mut silent()).unwrap_err();
    assert!(error.to_string().contains("csaddr"), "{error}");
}

#[test]
fn a_terabyte_takes_little_memory_and_time() {
    let dev = MemDevice::new(1 << 40);
    let opts = NewfsOptions { density: Some(1 << 22), ..NewfsOptions::default() };
    let mut heard = 0;
    let report =
        newfs(&dev, &opts, &clock(), &SplitMix64::new(1), &mut |done, _| heard = done).unwrap();
    assert_eq!(heard, report.geometry.ncg);
    assert!(dev.allocated_bytes() < 400 << 20, "{}", dev.allocated_bytes());
    assert_eq!(Volume::open(&dev).unwrap().geo, report.geometry);
}

fn any_options() -> impl Strategy<Value = (NewfsOptions, u64, u32)> {
    let power = |low: u32, high: u32| (low..=high).prop_map(|n| 1u32 << n);
    let sizes = (
        prop::option::of(power(11, 17)),
        prop::option::of(power(9, 17)),
        prop::option::of(prop_oneof![1u32..200_000, Just(1 << 22)]),
        prop::option::of(power(12, 21)),
        prop::option::of(1u32..70_000),
        prop::option::of(0u32..3000),
    );
    let policy = (
        0u32..100,
        prop::option::of(1u32..=256),
        prop::option::of(1u32..5000),
        1u32..1_000_000,
        1u32..1000,
        any::<[bool; 7]>(),
    );
    let volume = (
        0u64..24_000_000,
        prop_oneof![4 => Just(512u32), 1 => Just(4096)],
        prop_oneof![Just(Release::Freebsd4), Just(Release::Freebsd10), Just(Release::Current)],
        any::<bool>(),
        any::<bool>(),
    );
    (sizes, policy, volume).prop_map(|(sizes, policy, volume)| {
        let (bsize, fsize, density, max_extent, max_group, metaspace) = sizes;
        let (minfree, maxcontig, maxbpg, avgfilesize, avgfpdir, on) = policy;
        let (bytes, sector, release, ufs1, big) = volume;
        let ufs1 = ufs1 || release == Release::Freebsd4;
        let opts = NewfsOptions {
            release,
            endian: if big { Endian::Big } else { Endian::Little },
            format: Some(if ufs1 { Format::Ufs1 } else { Format::Ufs2 }),
            bsize,
            fsize,
            density,
            max_extent,
            max_group,
            metaspace,
            minfree,
            maxcontig,
            maxbpg,
            avgfilesize,
            avgfpdir,
            soft_updates: on[0],
            gjournal: on[1],
            multilabel: on[2],
            trim: on[3],
            no_snap: on[4],
            erase: on[5],
            reproducible: on[6],
            ..NewfsOptions::default()
        };
        (opts, bytes, sector)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_clear_error_or_a_volume_in_order((opts, bytes, sector) in any_options()) {
        // The earlier content must not remain visible.
        let dev = MemDevice::new(bytes).with_sector_size(sector);
        for at in (0..bytes.saturating_sub(4096)).step_by(1 << 16) {
            dev.write_at(at, &[0xa5; 4096]).unwrap();
        }
        let before = dev.snapshot();
        match newfs(&dev, &opts, &clock(), &SplitMix64::new(9), &mut silent()) {
            Ok(report) => {
                let g = audit(&dev);
                prop_assert_eq!(g, report.geometry);
                prop_assert!(g.fsize >= sector);
            }
            Err(error) => {
                prop_assert!(matches!(error, AdminError::Size(_)), "{error}");
                prop_assert!(dev.to_vec() == before.to_vec());
            }
        }
    }
}
