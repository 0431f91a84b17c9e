//! Damaged dumps: listed, and restored into an empty volume.
//!
//! An input has the number of a prepared volume, flags, and records of eight bytes. The volume is
//! dumped; each record changes a field of a header or a byte of the stream. Checksums of changed
//! headers are corrected unless a flag prevents it.
//!
//! References: spec/on-disk-format.md §24.

use crate::base;
use crate::streams::{Quiet, Stream, damaged, into_empty_volume};
use bsdffs::copy::{CopyOptions, ImageRef, ImageSink, transfer};
use bsdffs::dump::{
    DumpOptions, ImageTarget, Incremental, Restore, RestoreOptions, TP_BSIZE, dump,
};
use bsdffs::tar::Input;
use ffs_core::{Cred, Ffs, MountOptions};
use ffs_ondisk::Endian;
use ffs_ondisk::wire::{get, put};
use std::io::Cursor;
use std::sync::{Arc, OnceLock};

/// Prepared volumes that are dumped.
const BASES: u8 = 8;
/// Byte offsets of the fields of a header that a reader uses.
const FIELDS: [usize; 26] = [
    0, 4, 8, 12, 16, 20, 24, 32, 40, 44, 48, 56, 72, 104, 132, 144, 148, 160, 164, 168, 692, 888,
    896, 904, 912, 1020,
];

/// The dumps of the prepared volumes, and the byte offsets of their headers.
fn streams() -> &'static [Stream] {
    static STREAMS: OnceLock<Vec<Stream>> = OnceLock::new();
    STREAMS.get_or_init(|| (0..BASES).filter_map(stream_of).collect())
}

fn stream_of(number: u8) -> Option<Stream> {
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

fn set(header: &mut [u8], record: &[u8]) {
    let field = FIELDS[usize::from(record[1]) % FIELDS.len()];
    header[field..field + 4].copy_from_slice(&record[4..8]);
}

/// Restores a damaged dump. Errors are expected; a name outside the target, a damaged target, a
/// panic, an endless loop and unbounded memory are failures.
///
/// # Panics
/// On a failure.
pub fn restore(data: &[u8]) {
    let flags = data.get(1).copied().unwrap_or(0);
    let stream = damaged(streams(), data, TP_BSIZE, set, seal);
    let Ok(input) = Input::from_stream(Cursor::new(stream)) else { return };
    let options = RestoreOptions { number: 1, skip_damage: flags & 2 != 0 };
    let Ok(mut restore) = Restore::open(input, "dump", options) else { return };
    let _ = restore.take_notes();
    for name in restore.names().skip(1) {
        let inside = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
        assert!(name.path.split(|&byte| byte == b'/').all(inside), "{:?}", name.path);
    }
    into_empty_volume(|fs| into_volume(fs, restore, flags & 4 != 0));
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
