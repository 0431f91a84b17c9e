//! Damaged dumps: listed, and restored into an empty volume.
//!
//! An input has the number of a prepared volume, flags, and records of eight bytes. The volume is
//! dumped; each record changes a field of a header or a byte of the stream. Checksums of changed
//! headers are corrected unless a flag prevents it.
//!
//! References: spec/on-disk-format.md §24.

use crate::{RECORD, base};
use bsdffs::copy::{CopyOptions, ImageRef, ImageSink, Observer, SkippedFile, transfer};
use bsdffs::dump::{
    DumpObserver, DumpOptions, ImageTarget, Incremental, Restore, RestoreOptions, TP_BSIZE, dump,
};
use bsdffs::tar::Input;
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{Cred, Ffs, MountOptions};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::wire::{get, put};
use ffs_ondisk::{Endian, Format};
use std::io::Cursor;
use std::sync::{Arc, OnceLock};

/// Most changes of an input.
const MAX_CHANGES: usize = 32;
/// Prepared volumes that are dumped.
const BASES: u8 = 8;
/// Byte offsets of the fields of a header that a reader uses.
const FIELDS: [usize; 26] = [
    0, 4, 8, 12, 16, 20, 24, 32, 40, 44, 48, 56, 72, 104, 132, 144, 148, 160, 164, 168, 692, 888,
    896, 904, 912, 1020,
];

struct Quiet;

impl DumpObserver for Quiet {
    fn problem(&mut self, _: &str) {}
}

impl Observer for Quiet {
    fn skipped(&mut self, _: &SkippedFile) {}
}

/// The dumps of the prepared volumes, and the byte offsets of their headers.
fn streams() -> &'static [(Vec<u8>, Vec<usize>)] {
    static STREAMS: OnceLock<Vec<(Vec<u8>, Vec<usize>)>> = OnceLock::new();
    STREAMS.get_or_init(|| (0..BASES).filter_map(stream_of).collect())
}

fn stream_of(number: u8) -> Option<(Vec<u8>, Vec<usize>)> {
    let device = Arc::new(base::base(number).dev.snapshot());
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let fs = Ffs::mount(device.clone(), &options, base::env()).ok()?;
    let options = DumpOptions { date: base::NOW, ..DumpOptions::default() };
    let mut stream = Vec::new();
    dump(&*device, &fs, &options, &mut stream, &mut Quiet).ok()?;
    let is_header =
        |at: &usize| matches!(get::<i32>(&stream, at + 24, Endian::Little), 0x1954_0119);
    let headers = (0..stream.len()).step_by(TP_BSIZE).filter(is_header).collect();
    Some((stream, headers))
}

fn seal(record: &mut [u8]) {
    put(record, 28, Endian::Little, 0i32);
    let word = |at| get::<i32>(record, at, Endian::Little);
    let sum = (0..TP_BSIZE).step_by(4).fold(0i32, |sum, at| sum.wrapping_add(word(at)));
    put(record, 28, Endian::Little, 84446i32.wrapping_sub(sum));
}

/// The stream that an input describes.
fn damaged(data: &[u8], flags: u8) -> Vec<u8> {
    let all = streams();
    let number = usize::from(data.first().copied().unwrap_or(0)) % all.len();
    let (mut stream, headers) = all[number].clone();
    let mut changed = Vec::new();
    for record in data.get(2..).unwrap_or(&[]).chunks_exact(RECORD).take(MAX_CHANGES) {
        let place = usize::from(u16::from_le_bytes([record[2], record[3]]));
        let value = i32::from_le_bytes([record[4], record[5], record[6], record[7]]);
        if record[0] % 2 == 0 {
            let at = headers[place % headers.len()];
            let field = FIELDS[usize::from(record[1]) % FIELDS.len()];
            put(&mut stream, at + field, Endian::Little, value);
            changed.push(at);
        } else {
            let at = (place * 256 + usize::from(record[1])) % stream.len();
            stream[at] = record[4];
        }
    }
    if flags & 1 == 0 {
        changed.iter().for_each(|&at| seal(&mut stream[at..at + TP_BSIZE]));
    }
    stream
}

/// Restores a damaged dump. Errors are expected; a name outside the target, a damaged target, a
/// panic, an endless loop and unbounded memory are failures.
///
/// # Panics
/// On a failure.
pub fn restore(data: &[u8]) {
    let flags = data.get(1).copied().unwrap_or(0);
    let stream = damaged(data, flags);
    let Ok(input) = Input::from_stream(Cursor::new(stream)) else { return };
    let options = RestoreOptions { number: 1, skip_damage: flags & 2 != 0 };
    let Ok(mut restore) = Restore::open(input, "dump", options) else { return };
    let _ = restore.take_notes();
    for name in restore.names().skip(1) {
        let inside = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
        assert!(name.path.split(|&byte| byte == b'/').all(inside), "{:?}", name.path);
    }
    let device = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 4096, 1024, 8 << 20);
    let Ok(device) = device else { return };
    let device: Arc<MemDevice> = Arc::new(device);
    let fs = match Ffs::mount(device.clone(), &MountOptions::default(), base::env()) {
        Ok(fs) => fs,
        Err(error) => panic!("an empty volume does not mount: {error}"),
    };
    into_volume(&fs, restore, flags & 4 != 0);
    fs.unmount().unwrap();
    drop(fs);
    let dev: Arc<dyn BlockDevice> = device;
    let report = Fsck::new(dev, FsckOptions::no().at(base::NOW)).run();
    assert!(report.is_silent(), "the target is damaged: {report:#?}");
}

/// Restores single files, or the whole file system.
fn into_volume(fs: &Ffs, restore: Restore, whole: bool) {
    let Ok(root) = fs.root() else { return };
    let cred = Cred::root();
    let image = ImageRef { ffs: fs, cred: &cred, name: "target" };
    let source = if whole {
        let Ok(mut incremental) = Incremental::new(restore, None) else { return };
        let mut names = ImageTarget::new(image, root.clone());
        let _ = incremental.change_names(&mut names, &mut |_| {});
        incremental.into_source().0
    } else {
        restore.source(false)
    };
    let mut sink = ImageSink::new(image, root, CopyOptions::archive());
    let _ = transfer(source, &mut sink, &mut Quiet);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prepared_dumps_are_restored() {
        assert!(streams().len() > 4);
        for number in 0..BASES {
            restore(&[number, 0]);
            restore(&[number, 4]);
        }
    }
}
