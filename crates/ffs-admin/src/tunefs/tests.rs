//! tunefs changes the requested fields and nothing else.

use super::*;
use crate::audit::audit;
use crate::newfs::quick;
use ffs_device::MemDevice;
use ffs_ondisk::{Endian, Format};
use ffs_testkit::fixtures;

fn fresh(format: Format) -> MemDevice {
    quick(Endian::Little, format, 8192, 1024, 8 << 20).unwrap()
}

/// Offsets of the bytes that `opts` change on `dev`.
fn changed(dev: &MemDevice, opts: &TunefsOptions) -> (TunefsReport, Vec<usize>) {
    let before = dev.to_vec();
    let report = tunefs(dev, opts).unwrap();
    let after = dev.to_vec();
    (report, (0..before.len()).filter(|&i| before[i] != after[i]).collect())
}

fn inside(offsets: &[usize], base: usize, fields: &[std::ops::Range<usize>]) {
    for at in offsets {
        let in_sb = at.checked_sub(base);
        let ok = in_sb.is_some_and(|at| fields.iter().any(|f| f.contains(&at)));
        assert!(ok, "byte {at} changed; wanted {fields:?} from {base}");
    }
    for field in fields {
        assert!(
            offsets.iter().any(|&at| at >= base && field.contains(&(at - base))),
            "{field:?} did not change"
        );
    }
}

#[test]
fn each_setting_changes_its_own_field() {
    let d = TunefsOptions::default;
    let cases: Vec<(TunefsOptions, std::ops::Range<usize>)> = vec![
        (TunefsOptions { acls: Some(true), ..d() }, 1312..1316),
        (TunefsOptions { nfs4acls: Some(true), ..d() }, 1312..1316),
        (TunefsOptions { multilabel: Some(true), ..d() }, 1312..1316),
        (TunefsOptions { soft_updates: Some(true), ..d() }, 1312..1316),
        (TunefsOptions { gjournal: Some(true), ..d() }, 1312..1316),
        (TunefsOptions { trim: Some(true), ..d() }, 1312..1316),
        (TunefsOptions { maxbpg: Some(77), ..d() }, 92..96),
        (TunefsOptions { avgfilesize: Some(77), ..d() }, 1196..1200),
        (TunefsOptions { avgfpdir: Some(77), ..d() }, 1200..1204),
        (TunefsOptions { metaspace: Some(16), ..d() }, 880..888),
        (TunefsOptions { minfree: Some(20), ..d() }, 60..64),
        (TunefsOptions { optim: Some(Optim::Space), ..d() }, 128..132),
        (TunefsOptions { label: Some("data".into()), ..d() }, 680..712),
    ];
    for (opts, field) in cases {
        let dev = fresh(Format::Ufs2);
        let (report, offsets) = changed(&dev, &opts);
        inside(&offsets, 65536, &[field, 1304..1308]);
        assert_eq!(report.changes.len(), 1, "{opts:?}");
        assert_ne!(report.changes[0].from, report.changes[0].to);
        audit(&dev);
        let (report, offsets) = changed(&dev, &opts);
        assert!(offsets.is_empty(), "{opts:?}: {offsets:?}");
        assert!(report.changes[0].to_string().contains("remains unchanged"));
    }
}

#[test]
fn writing_what_was_there_changes_no_byte_of_any_fixture() {
    for name in fixtures::image_names() {
        let whole = ["freebsd", "nb-", "newfs10", "makefs", "suj"];
        if !whole.iter().any(|p| name.starts_with(p)) || name.ends_with("head-1m") {
            continue;
        }
        let Some(image) = fixtures::load(&name) else { return };
        let dev = MemDevice::from_bytes(&image);
        let sb = Volume::open(&dev).unwrap().sb;
        let same = TunefsOptions { minfree: Some(sb.f.minfree as u32), ..TunefsOptions::default() };
        tunefs(&dev, &same).unwrap();
        let after = dev.to_vec();
        let at: Vec<usize> = (0..image.len()).filter(|&i| image[i] != after[i]).collect();
        // NetBSD does not update the old totals of UFS1; every write of the superblock here does.
        let ufs1 = Volume::open(&dev).unwrap().geo.format == Format::Ufs1;
        assert!(
            at.is_empty() || ufs1 && at.iter().all(|at| (8192 + 32..8192 + 208).contains(at)),
            "{name}: {at:?}"
        );
    }
}

#[test]
fn every_copy_is_written_on_request() {
    for endian in [Endian::Little, Endian::Big] {
        for format in [Format::Ufs1, Format::Ufs2] {
            let dev = quick(endian, format, 8192, 1024, 8 << 20).unwrap();
            let opts = TunefsOptions {
                all_copies: true,
                label: Some("copies".into()),
                soft_updates: Some(true),
                ..TunefsOptions::default()
            };
            tunefs(&dev, &opts).unwrap();
            let g = audit(&dev);
            for c in 0..g.ncg {
                let at = g.frag_to_byte(g.cgsblock(CgNo(c)));
                let vol = Volume::open_at(&dev, at).unwrap();
                assert_eq!(vol.sb.volname(), b"copies");
                assert!(vol.sb.flags().contains(FsFlags::DOSOFTDEP));
            }
        }
    }
}

#[test]
fn wishes_that_cannot_be_granted_change_nothing() {
    let d = TunefsOptions::default;
    let clean = fresh(Format::Ufs2);
    let dirty = fresh(Format::Ufs2);
    let mut vol = Volume::open(&dirty).unwrap();
    vol.sb.f.clean = 0;
    vol.write_superblock().unwrap();
    let both = TunefsOptions { acls: Some(true), nfs4acls: Some(true), ..d() };
    let label = TunefsOptions { minfree: Some(12), label: Some("a/b".into()), ..d() };
    for (dev, opts, want) in [
        (&clean, both, "mutually exclusive"),
        (&clean, label, "-L"),
        (&clean, TunefsOptions { minfree: Some(100), ..d() }, "-m: from 0 to 99"),
        (&clean, TunefsOptions { maxbpg: Some(0), ..d() }, "-e: from 1"),
        (&dirty, TunefsOptions { journal: Some(true), ..d() }, "until fsck is run"),
        (&dirty, TunefsOptions { soft_updates: Some(true), ..d() }, "until fsck is run"),
    ] {
        let before = dev.to_vec();
        let error = tunefs(dev, &opts).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
        assert!(dev.to_vec() == before);
    }
    tunefs(&dirty, &TunefsOptions { minfree: Some(9), ..d() }).unwrap();
}

#[test]
fn a_damaged_superblock_is_left_to_fsck() {
    let dev = fresh(Format::Ufs2);
    dev.write_at(65536 + 48, &[0; 4]).unwrap();
    let opts = TunefsOptions { minfree: Some(9), ..TunefsOptions::default() };
    let error = tunefs(&dev, &opts).unwrap_err().to_string();
    assert!(error.contains("run fsck"), "{error}");
}

#[test]
fn a_very_old_volume_keeps_settings_for_which_it_has_no_field() {
    let Some(image) = fixtures::load("openbsd28-ufs1-floppy") else { return };
    let dev = MemDevice::from_bytes(&image);
    let label = TunefsOptions { label: Some("x".into()), ..TunefsOptions::default() };
    assert!(tunefs(&dev, &label).unwrap_err().to_string().contains("older"));
    let minfree =
        TunefsOptions { minfree: Some(15), soft_updates: Some(false), ..TunefsOptions::default() };
    let (_, offsets) = changed(&dev, &minfree);
    inside(&offsets, 8192, std::slice::from_ref(&(60..64)));
}

#[test]
fn space_kept_and_optimisation_are_compared() {
    let dev = fresh(Format::Ufs2);
    let notes = |opts| tunefs(&dev, &opts).unwrap().notes.join("\n");
    let d = TunefsOptions::default;
    let low = notes(TunefsOptions { minfree: Some(5), ..d() });
    assert_eq!(low, "should optimize for space with minfree < 8%");
    assert_eq!(notes(TunefsOptions { optim: Some(Optim::Space), ..d() }), "");
    let high = notes(TunefsOptions { minfree: Some(8), ..d() });
    assert_eq!(high, "should optimize for time with minfree >= 8%");
}

#[test]
fn metadata_space_is_whole_blocks_of_half_a_group_at_most() {
    let dev = fresh(Format::Ufs2);
    let g = Volume::open(&dev).unwrap().geo;
    for (requested, want) in [(21, 16), (7, 0), (1 << 30, g.fpg / 2 / 8 * 8)] {
        let opts = TunefsOptions { metaspace: Some(requested), ..TunefsOptions::default() };
        tunefs(&dev, &opts).unwrap();
        assert_eq!(Volume::open(&dev).unwrap().sb.f.metaspace, i64::from(want));
    }
}

#[test]
fn a_journal_is_disabled_as_freebsd_does() {
    for (name, base, flags_at, root_inodes) in [
        ("suj-ufs2-64m", 65536, 88, 40 * 4096 + 4 * 256),
        ("suj-ufs1-64m", 8192, 100, 24 * 2048 + 4 * 128),
    ] {
        let Some(image) = fixtures::load(name) else { return };
        let dev = MemDevice::from_bytes(&image);
        let off = TunefsOptions { soft_updates: Some(false), ..TunefsOptions::default() };
        assert!(tunefs(&dev, &off).unwrap_err().to_string().contains("-j"));
        let opts = TunefsOptions { journal: Some(false), ..TunefsOptions::default() };
        let (report, offsets) = changed(&dev, &opts);
        assert_eq!(
            report.changes[0].to_string(),
            "soft updates journaling changes from enabled to disabled"
        );
        assert!(report.notes.iter().any(|n| n.contains("inode 4")), "{report:?}");
        let (inode, sb): (Vec<usize>, Vec<usize>) =
            offsets.into_iter().partition(|at| *at >= root_inodes);
        inside(&inode, root_inodes, std::slice::from_ref(&(flags_at..flags_at + 4)));
        assert!(sb.contains(&(base + 1312)), "{sb:?}");
        assert!(
            sb.iter().all(|at| [1312, 1313].contains(&(at - base)) || at - base < 208),
            "{sb:?}"
        );
        let vol = Volume::open(&dev).unwrap();
        assert!(!vol.sb.flags().contains(FsFlags::SUJ));
        assert!(vol.sb.flags().contains(FsFlags::DOSOFTDEP));
        assert!(!vol.sb.flags().contains(FsFlags::NEEDSFSCK));
        assert!(tunefs(&dev, &off).is_ok());
    }
}

#[test]
fn the_journal_of_a_dirty_volume_is_given_up_with_a_check() {
    let Some(image) = fixtures::load("suj-ufs2-64m") else { return };
    let dev = MemDevice::from_bytes(&image);
    let mut vol = Volume::open(&dev).unwrap();
    vol.sb.f.clean = 0;
    vol.sb.f.sujfree = 5;
    vol.write_superblock().unwrap();
    let opts = TunefsOptions { journal: Some(false), ..TunefsOptions::default() };
    tunefs(&dev, &opts).unwrap();
    let vol = Volume::open(&dev).unwrap();
    assert!(vol.sb.flags().contains(FsFlags::NEEDSFSCK));
    assert_eq!((vol.sb.f.clean, vol.sb.f.sujfree), (0, 0));
}

#[test]
fn the_listing_shows_every_setting() {
    let dev = fresh(Format::Ufs2);
    let listing: Vec<String> =
        settings(&Volume::open(&dev).unwrap().sb).iter().map(Setting::to_string).collect();
    insta::assert_snapshot!(listing.join("\n"), @r"
    POSIX.1e ACLs: (-a)                                  disabled
    NFSv4 ACLs: (-N)                                     disabled
    MAC multilabel: (-l)                                 disabled
    soft updates: (-n)                                   disabled
    soft updates journaling: (-j)                        disabled
    gjournal: (-J)                                       disabled
    trim: (-t)                                           disabled
    maximum blocks per file in a cylinder group: (-e)    1024
    average file size: (-f)                              16384
    average number of files in a directory: (-s)         64
    minimum percentage of free space: (-m)               8%
    space to hold for metadata blocks: (-k)              80
    optimization preference: (-o)                        time
    volume label: (-L)
    ");
}

/// An explicit setting overrides the flag that a mount with soft updates was to restore.
#[test]
fn a_decision_about_soft_updates_is_for_good() {
    for (want, flags) in [(true, FsFlags::DOSOFTDEP), (false, FsFlags::empty())] {
        let dev = fresh(Format::Ufs2);
        let mut vol = Volume::open(&dev).unwrap();
        let temporary = FsFlags::DOSOFTDEP | FsFlags::SOFTDEP_TEMPORARY;
        vol.sb.set_flags(vol.sb.flags() | temporary);
        vol.write_superblock().unwrap();
        let opts = TunefsOptions { soft_updates: Some(want), ..TunefsOptions::default() };
        tunefs(&dev, &opts).unwrap();
        let now = Volume::open(&dev).unwrap().sb.flags();
        assert_eq!(now & temporary, flags);
    }
}
