//! Whole disks from streams: a compressed image as a raw one beside it, and an image from a pipe.
//!
//! **Invariants.**
//! 1. The new file has holes where the disk has zeros.
//! 2. An expanded image gets its name when it is complete and durable. No file is replaced.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ffs_device::lock::{LockMode, LockWait};
use ffs_device::{BlockDevice, DeviceError, FileDevice, Operation};

use super::{Content, HOLE, PIECE, Source, decompress};
use crate::error::OpenError;
use crate::spec;

/// Called with the bytes of the disk that are written, and those of the compressed file that are
/// read; false ends the work with [`io::ErrorKind::Interrupted`].
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// The name that a compressed image gets when it is expanded: without the ending of its
/// compression. `None` if the name has no such ending.
#[must_use]
pub fn expanded_name(path: &Path) -> Option<PathBuf> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let known = ["gz", "xz", "zst", "zstd", "bz2"].contains(&&*ending);
    known.then(|| path.with_extension(""))
}

/// Expands the compressed image that `spec` names into a raw one beside it. `spec` may name a
/// partition. Returns the name of the raw image, with that partition.
///
/// # Errors
/// The name has no ending of a compression, the file without it exists, the image cannot be read
/// or locked or is damaged, or the new file cannot be written.
pub fn expand(spec: &OsStr, progress: Progress<'_>) -> Result<OsString, OpenError> {
    let (path, _) = spec::parse(spec);
    let partition = spec.as_encoded_bytes().get(path.as_os_str().len()..).unwrap_or(&[]);
    let fail = |name: &Path, operation, error| OpenError::Device {
        source: DeviceError::new(&Arc::from(name.to_string_lossy()), operation, error),
        write: true,
    };
    if spec::is_uri(spec) {
        let why = "the export of a server is not expanded; copy it to a file first, such as with \
                   nbdcopy";
        return Err(fail(&path, Operation::Open, io::Error::other(why)));
    }
    let Some(to) = expanded_name(&path) else {
        let why = "the name does not end in .gz, .xz, .zst or .bz2, so that the expanded image has \
                   no name; rename the file";
        return Err(fail(&path, Operation::Open, io::Error::other(why)));
    };
    if to.symlink_metadata().is_ok() {
        let why = format!("it exists already; use it in place of {}, or remove it", path.display());
        return Err(fail(&to, Operation::Open, io::Error::other(why)));
    }
    let read = |source| OpenError::Device { source, write: false };
    let mut file = FileDevice::open(&path, false).map_err(read)?;
    file.lock(&path, LockMode::Shared, LockWait::default(), true)?;
    let mode = file.file().metadata().map_err(|error| fail(&path, Operation::Open, error))?;
    let mode = mode.permissions().mode() & 0o7777 | 0o200;
    write_beside(Arc::new(file), &to, mode, progress)
        .map_err(|error| fail(&to, Operation::Open, error))?;
    let mut name = to.into_os_string();
    name.push(OsStr::from_bytes(partition));
    Ok(name)
}

/// Writes the disk in `file` to the new file `to`.
fn write_beside(
    file: Arc<FileDevice>,
    to: &Path,
    mode: u32,
    progress: Progress<'_>,
) -> io::Result<()> {
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = tempfile::Builder::new().prefix(".ffs-expand.").tempfile_in(dir)?;
    let file: Arc<dyn BlockDevice> = file;
    let source = Source::new(&file, 0, file.len_bytes());
    spool(source, new.as_file(), progress)?;
    new.as_file().set_permissions(Permissions::from_mode(mode))?;
    new.as_file().sync_all()?;
    new.persist_noclobber(to).map(drop).map_err(|error| error.error)
}

/// Copies a whole disk to the empty `file`: all of `source`, decompressed if it is compressed.
///
/// # Errors
/// The source is damaged, or the system's error of either file.
pub fn spool(
    source: impl Read + Send + 'static,
    file: &File,
    progress: Progress<'_>,
) -> io::Result<()> {
    let packed = Arc::new(AtomicU64::new(0));
    let source = Counted { source, count: Arc::clone(&packed) };
    let mut content: Box<dyn Read> = match decompress(BufReader::with_capacity(PIECE, source))? {
        Content::Plain(source) => Box::new(source),
        Content::Decompressed(source) => source,
    };
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    loop {
        // Whole pieces, so that zeros are found where blocks of the file begin.
        let mut have = 0;
        while have < PIECE {
            match content.read(&mut buffer[have..])? {
                0 => break,
                more => have += more,
            }
        }
        if have == 0 {
            break;
        }
        write_sparse(file, &buffer[..have], at)?;
        at += have as u64;
        if !progress(at, packed.load(Ordering::Relaxed)) {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    file.set_len(at)
}

/// Writes `bytes` at `at` of a file that has a hole there, except zeros.
pub(super) fn write_sparse(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let mut start = 0;
    let mut end = 0;
    for piece in bytes.chunks(HOLE) {
        if piece.iter().any(|&byte| byte != 0) {
            end += piece.len();
            continue;
        }
        file.write_all_at(&bytes[start..end], at + start as u64)?;
        end += piece.len();
        start = end;
    }
    file.write_all_at(&bytes[start..end], at + start as u64)
}

/// Counts the bytes that are read.
struct Counted<R> {
    source: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let have = self.source.read(buf)?;
        self.count.fetch_add(have as u64, Ordering::Relaxed);
        Ok(have)
    }
}
