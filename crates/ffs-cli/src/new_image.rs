//! The format of an image that a command makes, and the file of an empty one.
//!
//! The end of its name decides: people and other programs take `disk.vmdk` for a VMDK image.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bsdffs::build::ImageFormat;
use ffs_device::{DeviceError, FileDevice, Operation};
use ffs_image::write_empty_qcow2;

use crate::fail::{Failure, shell_word, show};

/// The format of the new image at `path`.
///
/// # Errors
/// Its name ends like those of images in a format that `ffs` reads and does not make.
pub(crate) fn format(path: &Path) -> Result<ImageFormat, Failure> {
    ImageFormat::of_name(path).map_err(|error| {
        let format = error.0;
        let (name, raw) = (show(path.as_os_str().as_bytes()), raw_name(path));
        let raw = show(raw.as_os_str().as_bytes());
        let (raw, word) = (shell_word(&raw), shell_word(&name));
        let next = match (format.decompressor(), format.qemu_name()) {
            (Some(program), _) => {
                format!("{} -c {raw} > {word}", program.trim_end_matches(" -dc"))
            }
            // Without the option the disk becomes larger than its partition table.
            (None, Some(qemu @ "vpc")) => convert(&format!("{qemu} -o force_size=on"), &raw, &word),
            (None, qemu) => convert(qemu.unwrap_or("raw"), &raw, &word),
        };
        Failure::new(name, error).hint(format!("make {raw}, then {next}"))
    })
}

/// Makes the file of an image of `len` zeros.
///
/// # Errors
/// A file has the name, or the system's error; then no file was made.
pub(crate) fn create(path: &Path, format: ImageFormat, len: u64) -> Result<(), DeviceError> {
    match format {
        ImageFormat::Raw => FileDevice::create_sparse(path, len).map(drop),
        ImageFormat::Qcow2 => create_qcow2(path, len),
    }
}

fn create_qcow2(path: &Path, len: u64) -> Result<(), DeviceError> {
    let name = path.display().to_string();
    let failed = |error| DeviceError::new(&name.as_str().into(), Operation::Open, error);
    let file = fs::File::options().read(true).write(true).create_new(true).open(path);
    write_empty_qcow2(&file.map_err(failed)?, len).map_err(|error| {
        let _ = fs::remove_file(path);
        failed(error)
    })
}

fn convert(to: &str, raw: &str, image: &str) -> String {
    format!("qemu-img convert -f raw -O {to} {raw} {image}")
}

/// The name of a raw image from which the image at `path` is made: that without the endings of
/// other formats.
fn raw_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    while let (Err(_), Some(stem)) =
        (ImageFormat::of_name(Path::new(&name)), Path::new(&name).file_stem())
    {
        name = stem.to_owned();
    }
    if Path::new(&name).extension().is_none() {
        name.push(".img");
    }
    path.parent().unwrap_or(Path::new("")).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_names_have_no_other_ending() {
        for (name, raw) in [
            ("a.vmdk", "a.img"),
            ("d.d/a.img.XZ", "d.d/a.img"),
            ("a.vmdk.xz", "a.img"),
            ("a.img.vmdk", "a.img"),
            ("a.qcow2.gz", "a.qcow2"),
            ("..xz", "..img"),
        ] {
            assert_eq!(raw_name(Path::new(name)), Path::new(raw), "{name}");
        }
    }
}
