//! A tree with every kind of file, and what a volume shows of it.

use bsdffs::namei::Last;
use bsdffs::{OpenOptions, Volume};
use ffs_admin::newfs::NewfsOptions;
use ffs_core::{NodeKind, SetAttr, SetTime, Timespec};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{MemDevice, SplitMix64};
use ffs_ondisk::{Endian, FileType, Format};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// What a volume shows of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) ino: u64,
    pub(crate) mode: u32,
    pub(crate) nlink: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u64,
    pub(crate) mtime: (i64, i32),
    pub(crate) rdev: u64,
    /// The bytes of a file, the text of a link.
    pub(crate) content: Vec<u8>,
}

/// Files, links, devices and directories of all sizes.
fn fill(volume: &Volume) {
    let noise = |seed: u8, len: usize| -> Vec<u8> {
        (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
    };
    volume.create_dir_all("/many/below").unwrap();
    for (n, len) in [0, 1, 511, 512, 4095, 4096, 40_000, 49_152, 49_153, 120_000].iter().enumerate()
    {
        volume.write(format!("/file{n}"), noise(n as u8, *len)).unwrap();
    }
    // Through a double indirect block, with a hole before it.
    let sparse = OpenOptions::new().create(true).write(true).open(volume, "/sparse").unwrap();
    sparse.write_at(&noise(7, 9000), (12 + 1024 + 5) * 4096).unwrap();
    for n in 0..150 {
        let name = format!("/many/{}{n}", "name".repeat(1 + n % 9));
        volume.write(name, [n as u8]).unwrap();
    }
    volume.create_dir("/many/below/deep").unwrap();
    volume.hard_link("/file3", "/many/below/deep/link").unwrap();
    for len in [1, 4, 55, 56, 57, 59, 60, 61, 300] {
        volume.symlink("t".repeat(len), format!("/to{len}")).unwrap();
    }
    let root = volume.fs().root().unwrap();
    let node =
        |name: &str, kind| volume.fs().create(volume.cred(), &root, name.as_bytes(), kind, 0o640);
    node("fifo", NodeKind::Fifo).unwrap();
    node("socket", NodeKind::Socket).unwrap();
    node("tty", NodeKind::Char(0x0503)).unwrap();
    node("disk", NodeKind::Block(0x0003_2003)).unwrap();
    for (name, uid, gid) in [
        ("/file1", 1000, 100),
        ("/file2", 65534, 65533),
        ("/file3", 65535, 65536),
        ("/file4", 100_000, 7),
    ] {
        volume.chown(name, Some(uid), Some(gid)).unwrap();
    }
    let times = SetAttr {
        mtime: Some(SetTime::To(Timespec { secs: 600_000_000, nsec: 123_456_789 })),
        ..SetAttr::default()
    };
    volume.set_attributes("/file5", Last::Follow, &times).unwrap();
}

/// The bytes of a volume, and what is in it.
pub(crate) type Made = (Vec<u8>, BTreeMap<PathBuf, Seen>);

/// A volume of UFS1 with several groups, and what is in it.
pub(crate) fn volume(endian: Endian) -> Made {
    static MADE: [OnceLock<Made>; 2] = [OnceLock::new(), OnceLock::new()];
    MADE[usize::from(endian == Endian::Big)].get_or_init(|| make(endian)).clone()
}

fn make(endian: Endian) -> Made {
    let device = Arc::new(MemDevice::new(6 << 20));
    let options = NewfsOptions {
        endian,
        format: Some(Format::Ufs1),
        bsize: Some(4096),
        fsize: Some(512),
        // Groups of 1 MiB and of few inodes, as those of 4.2BSD were.
        max_group: Some(256),
        density: Some(8192),
        ..NewfsOptions::default()
    };
    let clock = ManualClock::new(Timestamp::new(600_000_000, 0));
    ffs_admin::newfs::newfs(&*device, &options, &clock, &SplitMix64::new(1), &mut |_, _| {})
        .unwrap();
    let volume = Volume::options().write(true).mount(device.clone()).unwrap();
    fill(&volume);
    let seen = listing(&volume);
    volume.close().unwrap();
    (device.to_vec(), seen)
}

/// Every file of a volume.
pub(crate) fn listing(volume: &Volume) -> BTreeMap<PathBuf, Seen> {
    let all = volume.walk("/").unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let attr = volume.symlink_metadata(&path).unwrap();
        let a = attr.attr();
        let content = match a.kind {
            FileType::Regular => volume.read(&path).unwrap(),
            FileType::Symlink => {
                volume.read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            }
            _ => Vec::new(),
        };
        let seen = Seen {
            ino: attr.ino(),
            mode: attr.mode(),
            nlink: attr.nlink(),
            uid: a.uid,
            gid: a.gid,
            size: a.size,
            mtime: (a.mtime.secs, a.mtime.nsec),
            rdev: a.rdev,
            content,
        };
        (path, seen)
    });
    all.collect()
}
