//! Damaged tar archives, extracted into an empty volume, and specifications of mtree.
//!
//! An input has the number of a prepared volume, flags, and records of eight bytes. The volume is
//! archived; each record changes a byte of a header or any byte. Checksums of changed headers are
//! corrected unless a flag prevents it. With another flag the input is a specification.

use crate::{RECORD, base};
use bsdffs::build::{MtreeSpec, UserNames};
use bsdffs::copy::{
    CopyOptions, FileData, ImageRef, ImageSink, ImageSource, ImageSourceOptions, Observer,
    SkippedFile, transfer,
};
use bsdffs::tar::{Input, TarSink, TarSource};
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{Cred, Ffs, MountOptions};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::{Endian, Format};
use std::io::Cursor;
use std::sync::{Arc, OnceLock};

/// Most changes of an input.
const MAX_CHANGES: usize = 32;
/// Prepared volumes that are archived.
const BASES: u8 = 8;
/// Bytes of a header, and the place of its checksum.
const BLOCK: usize = 512;
const SUM: std::ops::Range<usize> = 148..156;

struct Quiet;

impl Observer for Quiet {
    fn skipped(&mut self, _: &SkippedFile) {}
}

/// The archives of the prepared volumes, and the byte offsets of their headers.
fn archives() -> &'static [(Vec<u8>, Vec<usize>)] {
    static ARCHIVES: OnceLock<Vec<(Vec<u8>, Vec<usize>)>> = OnceLock::new();
    ARCHIVES.get_or_init(|| (0..BASES).filter_map(archive_of).collect())
}

fn archive_of(number: u8) -> Option<(Vec<u8>, Vec<usize>)> {
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

/// The archive that an input describes.
fn damaged(data: &[u8], flags: u8) -> Vec<u8> {
    let all = archives();
    let number = usize::from(data.first().copied().unwrap_or(0)) % all.len();
    let (mut stream, headers) = all[number].clone();
    let mut changed = Vec::new();
    for record in data.get(2..).unwrap_or(&[]).chunks_exact(RECORD).take(MAX_CHANGES) {
        let place = usize::from(u16::from_le_bytes([record[2], record[3]]));
        if record[0] % 2 == 0 {
            let at = headers[place % headers.len()];
            let field = usize::from(record[1]) * 2 % (BLOCK - 4);
            stream[at + field..at + field + 4].copy_from_slice(&record[4..8]);
            changed.push(at);
        } else {
            let at = (place * 256 + usize::from(record[1])) % stream.len();
            stream[at] = record[4];
        }
    }
    if flags & 1 == 0 {
        changed.iter().for_each(|&at| seal(&mut stream[at..at + BLOCK]));
    }
    stream
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
    let Ok(input) = Input::from_stream(Cursor::new(damaged(data, flags))) else { return };
    let device = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 4096, 1024, 8 << 20);
    let Ok(device) = device else { return };
    let device: Arc<MemDevice> = Arc::new(device);
    let fs = match Ffs::mount(device.clone(), &MountOptions::default(), base::env()) {
        Ok(fs) => fs,
        Err(error) => panic!("an empty volume does not mount: {error}"),
    };
    if let Ok(root) = fs.root() {
        let cred = Cred::root();
        let image = ImageRef { ffs: &fs, cred: &cred, name: "target" };
        let late_flags = flags & 4 != 0;
        let options = CopyOptions { late_flags, ..CopyOptions::archive() };
        let mut sink = ImageSink::new(image, root, options);
        let source = TarSource::new(input, "archive").require_alone();
        let _ = transfer(source, &mut sink, &mut Quiet);
    }
    fs.unmount().unwrap();
    drop(fs);
    let dev: Arc<dyn BlockDevice> = device;
    let report = Fsck::new(dev, FsckOptions::no().at(base::NOW)).run();
    assert!(report.is_silent(), "the target is damaged: {report:#?}");
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
