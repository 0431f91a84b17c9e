//! Damaged tar archives, extracted into an empty volume, and specifications of mtree.
//!
//! An input has the number of a prepared volume, flags, and records of eight bytes. The volume is
//! archived; each record changes a byte of a header or any byte. Checksums of changed headers are
//! corrected unless a flag prevents it. With another flag the input is a specification.

use crate::base;
use crate::streams::{Quiet, Stream, damaged, into_empty_volume};
use bsdffs::build::{MtreeSpec, UserNames};
use bsdffs::copy::{
    CopyOptions, FileData, ImageRef, ImageSink, ImageSource, ImageSourceOptions, transfer,
};
use bsdffs::tar::{Input, TarSink, TarSource};
use ffs_core::{Cred, Ffs, MountOptions};
use std::io::Cursor;
use std::sync::{Arc, OnceLock};

/// Prepared volumes that are archived.
const BASES: u8 = 8;
/// Bytes of a header, and the place of its checksum.
const BLOCK: usize = 512;
const SUM: std::ops::Range<usize> = 148..156;

/// The archives of the prepared volumes, and the byte offsets of their headers.
fn archives() -> &'static [Stream] {
    static ARCHIVES: OnceLock<Vec<Stream>> = OnceLock::new();
    ARCHIVES.get_or_init(|| (0..BASES).filter_map(archive_of).collect())
}

fn archive_of(number: u8) -> Option<Stream> {
    let device = Arc::new(base::base(number).dev.snapshot());
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let fs = Ffs::mount(device, &options, base::env()).ok()?;
    let (cred, root) = (Cred::root(), fs.root().ok()?);
    let image = ImageRef { ffs: &fs, cred: &cred, name: "base" };
    let options = ImageSourceOptions {
        xattrs: true,
        identities: true,
        skip_snapshots: true,
        data: FileData::MapAndBytes,
        ..ImageSourceOptions::default()
    };
    let mut stream = Vec::new();
    let mut sink = TarSink::new(&mut stream, "archive", "./");
    transfer(ImageSource::new(image, root, b"", options), &mut sink, &mut Quiet).ok()?;
    drop(sink);
    let is_header = |at: &usize| stream[*at..].get(257..262) == Some(b"ustar");
    let headers = (0..stream.len()).step_by(BLOCK).filter(is_header).collect();
    Some((stream, headers))
}

fn seal(header: &mut [u8]) {
    header[SUM].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn set(header: &mut [u8], record: &[u8]) {
    let field = usize::from(record[1]) * 2 % (BLOCK - 4);
    header[field..field + 4].copy_from_slice(&record[4..8]);
}

/// Extracts a damaged archive, or parses a specification. Errors are expected; a damaged target, a
/// panic, an endless loop and unbounded memory are failures.
///
/// # Panics
/// On a failure.
pub fn extract(data: &[u8]) {
    let flags = data.get(1).copied().unwrap_or(0);
    if flags & 2 != 0 {
        let _ = MtreeSpec::parse(data.get(2..).unwrap_or(&[]), &UserNames::default());
        return;
    }
    let stream = damaged(archives(), data, BLOCK, set, seal);
    let Ok(input) = Input::from_stream(Cursor::new(stream)) else { return };
    into_empty_volume(|fs| {
        let (cred, Ok(root)) = (Cred::root(), fs.root()) else { return };
        let image = ImageRef { ffs: fs, cred: &cred, name: "target" };
        let options = CopyOptions { late_flags: flags & 4 != 0, ..CopyOptions::archive() };
        let mut sink = ImageSink::new(image, root, options);
        let source = TarSource::new(input, "archive").require_alone();
        let _ = transfer(source, &mut sink, &mut Quiet);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prepared_archives_are_extracted() {
        assert!(archives().len() > 4);
        assert!(archives().iter().all(|(_, headers)| headers.len() > 2));
        for number in 0..BASES {
            extract(&[number, 0]);
            extract(&[number, 4]);
        }
    }
}
