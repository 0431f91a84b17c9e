//! qcow2 images by `qemu-nbd`, on systems for which the crate imago is not written.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use ffs_device::FileDevice;

use crate::image::{DiskImage, Refused};
use crate::magic::Format;
use crate::qemu;

/// Opens the image `path`, which is locked by `file`.
pub(crate) fn open(
    file: &Arc<FileDevice>,
    path: &Path,
    write: bool,
) -> Result<Arc<dyn DiskImage>, Refused> {
    qemu::open(file, path, Format::Qcow2, write, "")
}

/// Writes a qcow2 image on Linux and macOS.
///
/// # Errors
/// This system is another.
pub fn write_qcow2(_: &File, _: &File, _: &dyn Fn() -> bool) -> io::Result<()> {
    Err(unsupported())
}

/// Writes an empty qcow2 image on Linux and macOS.
///
/// # Errors
/// This system is another.
pub fn write_empty_qcow2(_: &File, _: u64) -> io::Result<()> {
    Err(unsupported())
}

fn unsupported() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "ffs writes qcow2 on Linux and macOS only; make a raw image, then convert it: qemu-img \
         convert -O qcow2 RAW IMAGE",
    )
}
