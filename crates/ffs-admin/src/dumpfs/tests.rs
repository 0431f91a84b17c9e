//! dumpfs on real and damaged volumes, and compared with newfs.

use super::*;
use crate::newfs::{NewfsOptions, newfs, quick};
use ffs_device::{ManualClock, MemDevice, SplitMix64};
use ffs_ondisk::{Endian, Format};
use ffs_testkit::fixtures;

fn text(dev: &MemDevice) -> String {
    let mut out = Vec::new();
    Dump::open(dev).unwrap().write_text(&mut out, Scope::All).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_volume_of_freebsd_reads_like_this() {
    let Some(image) = fixtures::load("newfs10-ufs2-flags-16m") else { return };
    insta::assert_snapshot!(text(&MemDevice::from_bytes(&image)));
}

#[test]
fn every_whole_fixture_is_shown_without_problems() {
    for name in fixtures::image_names() {
        let whole = ["freebsd", "nb-", "newfs10", "makefs", "suj", "openbsd"];
        if !whole.iter().any(|p| name.starts_with(p)) || name.ends_with("head-1m") {
            continue;
        }
        let Some(image) = fixtures::load(&name) else { return };
        let dev = MemDevice::from_bytes(&image);
        let dump = Dump::open(&dev).unwrap();
        assert_eq!(dump.superblock.problems, Vec::<String>::new(), "{name}");
        let mut totals = Counts { ndir: 0, nbfree: 0, nifree: 0, nffree: 0 };
        for group in dump.groups() {
            let group = group.unwrap();
            if name != "nb-ufs2-crash" {
                assert_eq!(group.problems, Vec::<String>::new(), "{name} {}", group.number);
            }
            totals.ndir += group.counts.ndir;
            totals.nbfree += group.counts.nbfree;
            totals.nifree += group.counts.nifree;
            totals.nffree += group.counts.nffree;
            let free: u64 = group.free.iter().map(|s| s.last - s.first + 1).sum();
            let counted = group.counts.nbfree * i64::from(dump.superblock.fields.frag);
            if dump.superblock.clean {
                assert_eq!(free as i64, counted + group.counts.nffree, "{name} {}", group.number);
            }
        }
        if dump.superblock.clean {
            assert_eq!(totals, dump.superblock.totals, "{name}");
        }
    }
}

#[test]
fn json_holds_the_same() {
    let dev = quick(Endian::Big, Format::Ufs2, 8192, 1024, 8 << 20).unwrap();
    let mut out = Vec::new();
    let dump = Dump::open(&dev).unwrap();
    dump.write_json(&mut out, Scope::All).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(json["superblock"]["fields"]["bsize"], 8192);
    assert_eq!(json["superblock"]["byte_order"], "big");
    let groups = json["groups"].as_array().unwrap();
    assert_eq!(groups.len() as u64, json["superblock"]["fields"]["ncg"].as_u64().unwrap());
    assert_eq!(groups[0]["inodes_used"][0]["last"], 3);
    out.clear();
    dump.write_json(&mut out, Scope::Superblock).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert!(json.get("groups").is_none());
}

#[test]
fn the_free_list_is_what_the_groups_say() {
    let dev = quick(Endian::Little, Format::Ufs1, 4096, 512, 4 << 20).unwrap();
    let dump = Dump::open(&dev).unwrap();
    let mut out = Vec::new();
    dump.write_free(&mut out).unwrap();
    let number = |s: &str| s.parse::<u64>().unwrap();
    let runs: Vec<(u64, u64)> = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|line| line.split_once('-').unwrap_or((line, line)))
        .map(|(first, last)| (number(first), number(last)))
        .collect();
    let free: u64 = runs.iter().map(|(a, b)| b - a + 1).sum();
    let t = dump.superblock.totals;
    assert_eq!(free as i64, t.nbfree * 8 + t.nffree);
    assert!(runs.windows(2).all(|w| w[0].1 < w[1].0));
    assert!(runs.last().unwrap().1 < dump.superblock.fields.size as u64);
}

#[test]
fn damage_is_shown_and_reported() {
    let dev = quick(Endian::Little, Format::Ufs2, 8192, 1024, 8 << 20).unwrap();
    let g = Volume::open(&dev).unwrap().geo;
    // A group with a wrong header, and a wrong summary record.
    dev.write_at(g.frag_to_byte(g.cgtod(CgNo(1))) + 20, &[9; 4]).unwrap();
    dev.write_at(g.frag_to_byte(g.csaddr) + 32, &[1]).unwrap();
    let groups: Vec<GroupDump> = Dump::open(&dev).unwrap().groups().map(|c| c.unwrap()).collect();
    assert!(groups[1].problems[0].contains("ndblk"), "{:?}", groups[1].problems);
    assert!(groups[2].problems[0].contains("summary area"), "{:?}", groups[2].problems);
    assert!(groups[0].problems.is_empty());
    // A wrong superblock: a backup is shown.
    dev.write_at(65536 + 184, &[0xff; 4]).unwrap();
    let dump = Dump::open(&dev).unwrap();
    assert!(dump.superblock.source.contains("backup"), "{}", dump.superblock.source);
    assert!(dump.superblock.problems[0].contains("ipg"), "{:?}", dump.superblock.problems);
    assert_eq!(dump.groups().count() as u32, g.ncg);
    assert!(text(&dev).contains("problem: superblock at byte 65536"));
    // No backup either: the damaged superblock is shown.
    for c in 0..g.ncg {
        dev.write_at(g.frag_to_byte(g.cgsblock(CgNo(c))), &[0; 2048]).unwrap();
    }
    let dump = Dump::open(&dev).unwrap();
    assert_eq!(dump.superblock.source, "damaged");
    assert_eq!((dump.superblock.fields.ipg, dump.groups().count()), (u32::MAX, 0));
    assert!(text(&dev).contains("problem: ipg"), "{}", text(&dev));
}

#[test]
fn a_device_without_a_volume_is_an_error() {
    assert!(Dump::open(&MemDevice::new(1 << 20)).is_err());
    let dev = quick(Endian::Little, Format::Ufs2, 8192, 1024, 8 << 20).unwrap();
    let backup = Dump::open_at(&dev, 72 * 1024).unwrap();
    assert!(backup.superblock.source.contains("backup at byte 73728"));
}

#[test]
fn text_from_the_disk_cannot_control_the_terminal() {
    let dev = quick(Endian::Little, Format::Ufs1, 8192, 1024, 8 << 20).unwrap();
    dev.write_at(8192 + 680, b"\x1b[2Jx\ny").unwrap();
    let shown = text(&dev);
    assert!(!shown.contains('\x1b') && shown.contains("[2Jx\\ny"), "{shown}");
}

#[test]
fn newfs_follows_the_command_to_the_same_volume() {
    let clock = ManualClock::default();
    for name in fixtures::image_names().iter().filter(|n| n.starts_with("newfs10")) {
        let Some(image) = fixtures::load(name) else { return };
        let dev = MemDevice::from_bytes(&image);
        let dump = Dump::open(&dev).unwrap();
        let how = dump.recreate();
        assert!(how.exact && how.notes.is_empty(), "{name}: {how:?}");
        let again = MemDevice::new(image.len() as u64);
        let opts = NewfsOptions { no_snap: true, ..how.options };
        newfs(&again, &opts, &clock, &SplitMix64::new(1), &mut |_, _| {}).unwrap();
        let (old, new) = (dump.superblock.fields, Dump::open(&again).unwrap().superblock.fields);
        let policy = |f: &SuperblockFields| {
            let sizes = (f.ncg, f.fpg, f.ipg, f.size, f.dsize, f.dblkno, f.cgsize);
            let rates = (f.minfree, f.optim, f.maxbpg, f.maxcontig, f.metaspace, f.flags);
            (sizes, rates)
        };
        assert_eq!(policy(&old), policy(&new), "{name}");
    }
}

#[test]
fn the_command_has_bsds_letters() {
    let dev = MemDevice::new(64 << 20);
    let opts = NewfsOptions {
        label: Some("data".into()),
        soft_updates: true,
        density: Some(65536),
        ..NewfsOptions::default()
    };
    newfs(&dev, &opts, &ManualClock::default(), &SplitMix64::new(1), &mut |_, _| {}).unwrap();
    let how = Dump::open(&dev).unwrap().recreate();
    assert!(how.exact);
    // Not the requested density, but one that leads to the same groups.
    assert_eq!(
        how.command("ad0"),
        "newfs -O 2 -a 32 -b 32768 -e 4096 -f 4096 -g 16384 -h 64 -i 45056 -k 160 -m 8 \
         -s 131072 -U -o time -L data ad0"
    );
}

/// Offsets to patch: the structures that are read, and a few random bytes.
fn places(g: &ffs_ondisk::Geometry) -> Vec<u64> {
    let mut places = vec![65536, g.frag_to_byte(g.csaddr), g.frag_to_byte(g.cgimin(CgNo(0)))];
    for c in (0..g.ncg).map(CgNo) {
        places.extend([g.frag_to_byte(g.cgsblock(c)), g.frag_to_byte(g.cgtod(c))]);
    }
    places
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(150))]
    #[test]
    fn no_damage_stops_the_tools(seed in 0u64..u64::MAX) {
        let mut rng = ffs_testkit::rng::SplitMix64::new(seed);
        let dev = quick(Endian::Little, Format::Ufs2, 4096, 512, 4 << 20).unwrap();
        let g = Volume::open(&dev).unwrap().geo;
        // Without check hashes more of the damage reaches the decoder.
        let mut vol = Volume::open(&dev).unwrap();
        vol.sb.f.flags = 0;
        vol.sb.f.metackhash = 0;
        vol.write_superblock().unwrap();
        for _ in 0..rng.between(1, 6) {
            let base = *rng.pick(&places(&g)).unwrap();
            let span = if rng.one_in(3) { 4096 } else { 1376 };
            let at = base + rng.below(span) / 4 * 4;
            let bytes = match rng.below(4) {
                0 => vec![0; 4],
                1 => vec![0xff; 4],
                2 => vec![rng.below(16) as u8, 0, 0, 0],
                _ => rng.bytes(4),
            };
            dev.write_at(at, &bytes).unwrap();
        }
        if let Ok(dump) = Dump::open(&dev) {
            let mut out = Vec::new();
            dump.write_text(&mut out, Scope::All).unwrap();
            dump.write_json(&mut out, Scope::All).unwrap();
            dump.write_free(&mut out).unwrap();
            assert!(out.len() < 4 << 20, "{}", out.len());
            let _ = dump.recreate().command("x");
        }
        let opts = crate::tunefs::TunefsOptions {
            minfree: Some(9),
            journal: Some(false),
            all_copies: true,
            ..Default::default()
        };
        let _ = crate::tunefs::tunefs(&dev, &opts);
    }
}
