//! A disk in an image file or behind a server: opening it in its format.

use std::path::Path;
use std::sync::Arc;

use ffs_device::lock::LockMode;
use ffs_device::partition::Probe;
use ffs_device::{BlockDevice, DeviceError, FileDevice};

use crate::error::OpenError;
use crate::image::{DiskImage, Refused};
use crate::magic::{self, Format};
use crate::options::OpenOptions;
#[cfg(any(target_os = "linux", target_os = "macos"))]
use crate::qcow2;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
use crate::qcow2_by_qemu as qcow2;
use crate::{blocks, chain, compressed, nbd, qemu, spec};

/// Why an image of version 1 is not read here, and what to do.
const QCOW: &str =
    "an old version of qcow2; convert it: qemu-img convert -f qcow -O qcow2 IMAGE NEW";

/// Opens and locks the disk that `path` names: a file, a block device, or the URI of an NBD export.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn DiskImage>, OpenError> {
    let write = options.write;
    let failed = |source| OpenError::Device { source, write };
    if spec::is_uri(path.as_os_str()) {
        return behind_server(path, options);
    }
    let mut file = FileDevice::open(path, write).map_err(failed)?;
    let mode = if write { LockMode::Exclusive } else { LockMode::Shared };
    file.lock(path, mode, options.lock_wait, !options.kernel_may_use)?;
    let format = format_of(&file, options.probe).map_err(failed)?;
    let file = Arc::new(file);
    let image = path.display().to_string();
    let refused = |refused| match refused {
        Refused::Device(source) => OpenError::Device { source, write },
        Refused::Damaged(why) => OpenError::Damaged { image: image.clone(), format, why },
        Refused::ReadOnly(why) => OpenError::ReadOnly { image: image.clone(), format, why },
        Refused::Unsupported(why) => {
            let why = if why.is_empty() { "only qemu-nbd reads it".to_owned() } else { why };
            OpenError::Unsupported { image: image.clone(), format, why }
        }
    };
    let opened = match format {
        Format::Raw | Format::Nbd => return Ok(file),
        Format::Gzip | Format::Xz | Format::Zstd | Format::Bzip2 => {
            if write {
                return Err(OpenError::Compressed { image, format });
            }
            return compressed::open(file, path, format).map_err(refused);
        }
        Format::Qcow2 => qcow2::open(&file, path, write),
        Format::Vhd | Format::Vdi | Format::Vmdk => blocks::open(&file, path, format),
        Format::Qcow if write => Err(Refused::ReadOnly(QCOW.to_owned())),
        Format::Qcow => Err(Refused::Unsupported(QCOW.to_owned())),
        Format::VmdkDescription | Format::Vhdx => Err(Refused::Unsupported(String::new())),
    };
    match opened {
        // What the own driver lacks, qemu-nbd may have.
        Err(Refused::Unsupported(why)) if !options.no_helper => chain::check(&*file, path, format)
            .and_then(|()| qemu::open(Some(&file), path, format, write, &why)),
        result => result,
    }
    .map_err(refused)
}

/// Opens the export that the URI `path` names. A compressed image behind the server is read in
/// place, and another format by `qemu-nbd`, which connects to the server itself.
fn behind_server(path: &Path, options: &OpenOptions) -> Result<Arc<dyn DiskImage>, OpenError> {
    let write = options.write;
    let device = nbd::NbdDevice::open(path.as_os_str(), write)?;
    let failed = |source| OpenError::Device { source, write };
    let format = match format_of(&device, options.probe).map_err(failed)? {
        // The disk is at the beginning, and the footer of a fixed VHD does no harm.
        Format::Vhd if !magic::starts_as(&device, Format::Vhd).map_err(failed)? => Format::Raw,
        format => format,
    };
    let image = path.display().to_string();
    let refused = |refused| match refused {
        Refused::Device(source) => OpenError::Device { source, write },
        Refused::Damaged(why) => OpenError::Damaged { image: image.clone(), format, why },
        Refused::ReadOnly(why) | Refused::Unsupported(why) => {
            OpenError::Unsupported { image: image.clone(), format, why }
        }
    };
    match format {
        Format::Raw | Format::Nbd => Ok(Arc::new(device)),
        Format::Gzip | Format::Xz | Format::Zstd | Format::Bzip2 if write => {
            Err(OpenError::Compressed { image, format })
        }
        Format::Gzip | Format::Xz | Format::Zstd | Format::Bzip2 => {
            compressed::open(Arc::new(device), path, format).map_err(refused)
        }
        // It would grow, and the export has a fixed size.
        _ if write => {
            let why = "behind an NBD server it can only be read".to_owned();
            Err(OpenError::ReadOnly { image, format, why })
        }
        Format::VmdkDescription => Err(refused(Refused::Unsupported(
            "the server exports the description of a disk, and not the files that it names"
                .to_owned(),
        ))),
        _ if options.no_helper => {
            Err(refused(Refused::Unsupported("only qemu-nbd reads it".to_owned())))
        }
        _ => {
            chain::check(&device, path, format).map_err(refused)?;
            // The server may allow one connection.
            drop(device);
            qemu::open(None, path, format, false, "").map_err(refused)
        }
    }
}

/// The format of `file`. A file that begins with a wanted file system is raw, also with the mark
/// of another format in its boot block.
fn format_of(file: &dyn BlockDevice, probe: Option<Probe>) -> Result<Format, DeviceError> {
    let format = magic::recognise(file)?;
    let raw = format != Format::Raw && probe.is_some_and(|probe| probe(file));
    // A fixed VHD begins with the disk itself.
    Ok(if raw && format != Format::Vhd { Format::Raw } else { format })
}
