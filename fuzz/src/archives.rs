//! Damaged tar archives, extracted into a directory of a volume, and texts.
//!
//! An input has the number of a prepared volume or of a hostile archive, flags, and records of
//! eight bytes. The volume is archived; each record changes a byte of a header or any byte.
//! Checksums of changed headers are corrected unless a flag prevents it. With another flag the
//! input is a text: see [`crate::texts`].

use crate::hostile::{self, OUTSIDE};
use crate::streams::{Quiet, Stream, damaged, into_empty_volume};
use crate::{base, texts};
use bsdffs::copy::{
    CopyOptions, FileData, ImageRef, ImageSink, ImageSource, ImageSourceOptions, transfer,
};
use bsdffs::tar::{Input, TarSink, TarSource};
use ffs_core::{Cred, Error, Ffs, MountOptions, NodeKind, Vnode, WriteMode};
use std::io::Cursor;
use std::sync::{Arc, OnceLock};

/// Prepared volumes that are archived.
const BASES: u8 = 8;
/// Bytes of a header, and the place of its checksum.
const BLOCK: usize = 512;
const SUM: std::ops::Range<usize> = 148..156;

/// The archives of the prepared volumes, those with hostile names, and the byte offsets of their
/// headers.
fn archives() -> &'static [Stream] {
    static ARCHIVES: OnceLock<Vec<Stream>> = OnceLock::new();
    ARCHIVES.get_or_init(|| (0..BASES).filter_map(archive_of).chain(hostile::archives()).collect())
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

pub(crate) fn seal(header: &mut [u8]) {
    header[SUM].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn set(header: &mut [u8], record: &[u8]) {
    let field = usize::from(record[1]) * 2 % (BLOCK - 4);
    header[field..field + 4].copy_from_slice(&record[4..8]);
}

/// Extracts a damaged archive, or reads a text. Errors are expected; a damaged target, a change
/// outside of it, a panic, an endless loop and unbounded memory are failures.
///
/// # Panics
/// On a failure.
pub fn extract(data: &[u8]) {
    let flags = data.get(1).copied().unwrap_or(0);
    if flags & 2 != 0 {
        return texts::read(data[0], data.get(2..).unwrap_or(&[]));
    }
    let stream = damaged(archives(), data, BLOCK, set, seal);
    let Ok(input) = Input::from_stream(Cursor::new(stream)) else { return };
    into_empty_volume(|fs| {
        let place = Place::new(fs).unwrap();
        let before = place.outside(fs).unwrap();
        let image = ImageRef { ffs: fs, cred: &place.cred, name: "target" };
        let options = CopyOptions { late_flags: flags & 4 != 0, ..CopyOptions::archive() };
        let mut sink = ImageSink::new(image, place.target.clone(), options);
        let source = TarSource::new(input, "archive").require_alone();
        let _ = transfer(source, &mut sink, &mut Quiet);
        drop(sink);
        assert_eq!(place.outside(fs).unwrap(), before, "a change outside of the target");
    });
}

/// The directory that an archive is extracted into, and a file beside it.
struct Place {
    cred: Cred,
    root: Vnode,
    target: Vnode,
}

/// The names of a directory, the attributes of the file beside the target, and its content.
type Outside = (Vec<Vec<u8>>, Vec<Vec<u8>>, String, Vec<u8>);

impl Place {
    fn new(fs: &Ffs) -> Result<Place, Error> {
        let (cred, root) = (Cred::root(), fs.root()?);
        let target = fs.mkdir(&cred, &root, b"target", 0o755)?;
        let beside = fs.mkdir(&cred, &root, OUTSIDE.0, 0o755)?;
        let file = fs.create(&cred, &beside, OUTSIDE.1, NodeKind::Regular, 0o600)?;
        fs.write(&cred, &file, 0, OUTSIDE.2, WriteMode::default())?;
        Ok(Place { cred, root, target })
    }

    fn outside(&self, fs: &Ffs) -> Result<Outside, Error> {
        let beside = fs.lookup(&self.cred, &self.root, OUTSIDE.0)?;
        let file = fs.lookup(&self.cred, &beside, OUTSIDE.1)?;
        let mut content = vec![0; OUTSIDE.2.len() + 1];
        let len = fs.read(&file, 0, &mut content)?;
        content.truncate(len);
        // Reading changes the access time.
        let a = fs.getattr(&file);
        let attr = format!("{:?}", (a.ino, a.kind, a.perm, a.nlink, a.uid, a.gid, a.size, a.mtime));
        Ok((names(fs, &self.root)?, names(fs, &beside)?, attr, content))
    }
}

fn names(fs: &Ffs, dir: &Vnode) -> Result<Vec<Vec<u8>>, Error> {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    })?;
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prepared_archives_are_extracted() {
        assert!(archives().len() > 7);
        assert!(archives().iter().all(|(_, headers)| headers.len() > 2));
        for number in 0..BASES + 3 {
            extract(&[number, 0]);
            extract(&[number, 4]);
        }
    }
}
