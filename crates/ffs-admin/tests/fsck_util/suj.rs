//! Volumes with a journal, as a mount that kept it leaves them when it crashes.

use std::sync::Arc;

use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport, Mode};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_device::BlockDevice;
use ffs_ondisk::journal::{self, Record, SegHeader};
use ffs_ondisk::{FragNo, Superblock, sbsearch};

use super::{Img, KINDS, Kind};

/// The time of the mount that wrote the journal, seconds.
pub const MOUNT: i64 = 1_600_000_000;

pub fn on() -> TunefsOptions {
    TunefsOptions { journal: Some(true), now: MOUNT - 100, ..TunefsOptions::default() }
}

/// The kinds of volumes, large enough for a journal.
pub fn kinds() -> impl Iterator<Item = Kind> {
    KINDS.into_iter().map(|(endian, format, bsize, fsize, bytes)| {
        (endian, format, bsize, fsize, bytes.max(16 << 20))
    })
}

pub fn superblock(img: &Img) -> Superblock {
    let get = |at: u64, len: usize| Ok::<_, ffs_device::DeviceError>(img.read(at, len));
    sbsearch::find(get, Some(img.dev_len())).unwrap().sb
}

pub fn edit_superblock(img: &Img, change: impl FnOnce(&mut Superblock)) {
    let mut sb = superblock(img);
    change(&mut sb);
    img.write(sb.location, &sb.encode());
}

/// A volume with a tree and a journal, as if a mount with it had crashed. No records yet.
pub fn crashed(kind: Kind) -> Img {
    let img = Img::with_tree(kind);
    tunefs(&*img.dev, &on()).unwrap();
    img.silent();
    edit_superblock(&img, |sb| {
        sb.f.clean = 0;
        sb.f.mtime = MOUNT;
    });
    let ino = img.ino(".sujournal");
    img.edit(ino, |d| d.modrev = MOUNT as u64);
    img
}

/// Writes `records` to the journal, in one segment.
pub fn record(img: &Img, records: &[Record]) {
    let header = SegHeader { seq: 7, oldest: 7, time: MOUNT, ..SegHeader::default() };
    let bytes = journal::segment(img.g.endian, 512, &header, records).unwrap();
    let d = img.inode(img.ino(".sujournal"));
    img.write(img.g.frag_to_byte(FragNo(d.db[0] as u64)) + 1024, &bytes);
}

pub fn preen(img: &Img) -> FsckReport {
    let options = FsckOptions { mode: Mode::Preen, ..FsckOptions::default() };
    Fsck::new(img.dev.clone() as Arc<dyn BlockDevice>, options.at(MOUNT + 999)).run()
}
