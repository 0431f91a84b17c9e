//! What the targets of dumps and of archives share: damage to a stream with headers, and the empty
//! volume that a damaged stream fills.

use crate::{RECORD, base};
use bsdffs::copy::{Observer, SkippedFile};
use bsdffs::dump::DumpObserver;
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{Ffs, MountOptions};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::{Endian, Format};
use std::sync::Arc;

/// Most changes of an input.
const MAX_CHANGES: usize = 32;

/// Ignores what is reported.
pub(crate) struct Quiet;

impl DumpObserver for Quiet {
    fn problem(&mut self, _: &str) {}
}

impl Observer for Quiet {
    fn skipped(&mut self, _: &SkippedFile) {}
}

/// A stream, and the byte offsets of its headers.
pub(crate) type Stream = (Vec<u8>, Vec<usize>);

/// The stream that an input describes: that of its number in `all`, with a change for each record
/// of eight bytes. `set` changes the header at an offset: the number of the field is the second
/// byte of the record, the value the last four. Then `seal` corrects the checksum of a changed
/// header, of `header` bytes, unless the lowest flag prevents it.
pub(crate) fn damaged(
    all: &[Stream],
    data: &[u8],
    header: usize,
    set: impl Fn(&mut [u8], &[u8]),
    seal: impl Fn(&mut [u8]),
) -> Vec<u8> {
    let byte = |at: usize| data.get(at).copied().unwrap_or(0);
    let (mut stream, headers) = all[usize::from(byte(0)) % all.len()].clone();
    let mut changed = Vec::new();
    for record in data.get(2..).unwrap_or(&[]).chunks_exact(RECORD).take(MAX_CHANGES) {
        let place = usize::from(u16::from_le_bytes([record[2], record[3]]));
        if record[0] % 2 == 0 {
            let at = headers[place % headers.len()];
            set(&mut stream[at..at + header], record);
            changed.push(at);
        } else {
            let at = (place * 256 + usize::from(record[1])) % stream.len();
            stream[at] = record[4];
        }
    }
    if byte(1) & 1 == 0 {
        changed.iter().for_each(|&at| seal(&mut stream[at..at + header]));
    }
    stream
}

/// Calls `fill` with an empty volume, which is sound afterwards.
///
/// # Panics
/// It is not.
pub(crate) fn into_empty_volume(fill: impl FnOnce(&Ffs)) {
    let device = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 4096, 1024, 8 << 20);
    let Ok(device) = device else { return };
    let device: Arc<MemDevice> = Arc::new(device);
    let fs = match Ffs::mount(device.clone(), &MountOptions::default(), base::env()) {
        Ok(fs) => fs,
        Err(error) => panic!("an empty volume does not mount: {error}"),
    };
    fill(&fs);
    fs.unmount().unwrap();
    drop(fs);
    let dev: Arc<dyn BlockDevice> = device;
    let report = Fsck::new(dev, FsckOptions::no().at(base::NOW)).run();
    assert!(report.is_silent(), "the target is damaged: {report:#?}");
}
