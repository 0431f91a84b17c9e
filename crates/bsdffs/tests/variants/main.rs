//! UFS1 of other systems: FreeBSD 4, 4.3BSD, 4.2BSD, SunOS and Solaris. Volumes of newfs are turned
//! into theirs field by field, and every file is read back (`spec/on-disk-format.md` §20.1).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "../../../ffs-testkit/shared/variants.rs"]
mod convert;
mod damage;
mod foreign;
mod tree;

use convert::{Image, System};
use ffs_device::MemDevice;
use ffs_ondisk::foreign::NetBsd;
use ffs_ondisk::{Endian, Variant};
use std::io::ErrorKind;
use std::sync::Arc;
use tree::{Seen, listing, volume};

const ALL: [System; 6] =
    [System::FreeBsd4, System::Bsd43, System::Bsd42, System::SunOs, System::Solaris, System::Mtb];

pub(crate) fn open(image: &Image) -> std::io::Result<bsdffs::Volume> {
    let device = MemDevice::from_bytes(&image.bytes).into_read_only();
    bsdffs::Volume::options().mount(Arc::new(device))
}

fn variant(image: &Image) -> (Variant, Vec<String>) {
    let device = MemDevice::from_bytes(&image.bytes);
    let volume = ffs_admin::Volume::open(&device).unwrap();
    // The tables of old systems are where NetBSD has its journal and quotas.
    assert_eq!(volume.sb.netbsd, NetBsd::default());
    (volume.geo.variant, volume.warnings.iter().map(ToString::to_string).collect())
}

/// What a volume of `system` shows of a file: it stores less of the time, and no flags.
fn as_stored(seen: &Seen, system: System) -> Seen {
    let mut seen = seen.clone();
    seen.mtime.1 = match system {
        System::FreeBsd4 => seen.mtime.1,
        System::Bsd42 | System::Bsd43 => 0,
        _ => seen.mtime.1 / 1000 * 1000,
    };
    if matches!(system, System::Bsd42 | System::Bsd43) {
        (seen.uid, seen.gid) = (seen.uid.min(65535), seen.gid.min(65535));
    }
    seen
}

#[test]
fn every_file_of_every_variant_is_read() {
    for endian in [Endian::Little, Endian::Big] {
        let (made, want) = volume(endian);
        for system in ALL {
            for turn in [None, Some((16, 0xffff_fffc_u32))] {
                let mut image = Image::new(made.clone());
                if let Some((step, mask)) = turn {
                    image.rotate(step, mask);
                }
                image.convert(system);
                let have = listing(&open(&image).unwrap());
                assert_eq!(have.len(), want.len(), "{system:?} {endian:?} {turn:?}");
                for (path, seen) in &want {
                    let name = path.display();
                    let stored = as_stored(seen, system);
                    assert_eq!(have[path], stored, "{system:?} {endian:?} {turn:?} {name}");
                }
                let (is, warnings) = variant(&image);
                let expected = match system {
                    System::FreeBsd4 => Variant::Bsd44,
                    System::Bsd42 | System::Bsd43 => Variant::Bsd43,
                    System::SunOs | System::Solaris => Variant::Sun,
                    System::Mtb => Variant::SunMtb,
                };
                assert_eq!((is, warnings), (expected, Vec::new()), "{system:?} {endian:?}");
            }
        }
    }
}

#[test]
fn the_groups_of_every_variant_are_read() {
    let (made, _) = volume(Endian::Big);
    let free = |image: &Image| {
        let device = MemDevice::from_bytes(&image.bytes);
        let dump = ffs_admin::dumpfs::Dump::open(&device).unwrap();
        let groups: Vec<_> = dump.groups().map(Result::unwrap).collect();
        let spans = groups.iter().flat_map(|g| g.free.iter().map(|s| (g.number, s.first, s.last)));
        (groups.len(), spans.collect::<Vec<_>>())
    };
    let mut plain = Image::new(made.clone());
    plain.convert(System::Bsd43);
    let (number, spans) = free(&plain);
    assert!(number >= 4 && !spans.is_empty());
    for system in [System::Bsd42, System::Solaris, System::Mtb, System::SunOs] {
        let mut image = Image::new(made.clone());
        image.convert(system);
        assert_eq!(free(&image), (number, spans.clone()), "{system:?}");
    }
}

#[test]
fn a_variant_is_not_written_and_the_reason_names_it() {
    let (made, _) = volume(Endian::Little);
    for (system, name) in [
        (System::FreeBsd4, "its superblock is from before FreeBSD 5"),
        (System::Bsd43, "it is a 4.3BSD volume: ffs reads it but does not write it"),
        (System::Bsd42, "it is a 4.3BSD volume: ffs reads it but does not write it"),
        (System::Solaris, "it is a Solaris volume: ffs reads it but does not write it"),
        (System::Mtb, "it is a Solaris volume: ffs reads it but does not write it"),
    ] {
        let mut image = Image::new(made.clone());
        image.convert(system);
        let device = Arc::new(MemDevice::from_bytes(&image.bytes));
        for force in [false, true] {
            let mount = ffs_core::MountOptions { force, ..ffs_core::MountOptions::default() };
            let options = bsdffs::Volume::options().write(true).mount_options(mount);
            let error = options.mount(device.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
            assert!(error.to_string().contains(name), "{system:?}: {error}");
        }
        if system != System::FreeBsd4 {
            let label = ffs_admin::tunefs::TunefsOptions {
                label: Some("x".into()),
                ..ffs_admin::tunefs::TunefsOptions::default()
            };
            let error = ffs_admin::tunefs::tunefs(&*device, &label).unwrap_err().to_string();
            assert!(error.contains(name), "{system:?}: {error}");
        }
        assert!(device.to_vec() == image.bytes, "{system:?}: nothing was written");
    }
}

#[test]
fn a_log_with_changes_is_a_warning() {
    let (made, _) = volume(Endian::Big);
    let mut image = Image::new(made);
    image.convert(System::Solaris);
    image.put(8192 + 1324, 4, 4096);
    for (clean, rolled, stale) in
        [(0xfd, 1, false), (0xfd, 2, true), (1, 2, true), (0xfd, 0, true), (1, 0, false)]
    {
        image.bytes[8192 + 209] = clean;
        image.set_sb(4, rolled);
        let (_, warnings) = variant(&image);
        assert_eq!(warnings.iter().any(|w| w.contains("the log of this Solaris")), stale);
    }
}

/// Without a right `fs_state`, as after a crash, the log or the clean flag decides.
#[test]
fn a_crashed_volume_of_solaris_is_recognised() {
    for endian in [Endian::Little, Endian::Big] {
        let (made, _) = volume(endian);
        let mut image = Image::new(made);
        image.convert(System::Solaris);
        image.set_sb(32, 1);
        assert_eq!(variant(&image).0, Variant::Bsd43, "no mark");
        image.bytes[8192 + 209] = 0xff;
        assert_eq!(variant(&image).0, Variant::Sun);
        image.bytes[8192 + 209] = 0;
        image.set_sb(1324, 4096);
        assert_eq!(variant(&image).0, Variant::Sun);
    }
}

#[test]
fn a_default_volume_of_today_is_no_variant() {
    for endian in [Endian::Little, Endian::Big] {
        let (made, _) = volume(endian);
        let mut image = Image::new(made);
        // Its place for the state of Solaris has any value, the right one included.
        let state = 0x7c26_9d38_u32.wrapping_sub(image.sb(32) as u32);
        for off in [0, 132, 1352] {
            image.set_sb(off, state.into());
        }
        assert_eq!(variant(&image).0, Variant::Bsd44);
    }
}
