//! A disk in an image file or behind a server: opening it in its format.

use std::path::Path;
use std::sync::Arc;

use ffs_device::lock::LockMode;
use ffs_device::partition::Probe;
use ffs_device::{DeviceError, FileDevice};

use crate::error::OpenError;
use crate::image::{DiskImage, Refused};
use crate::magic::{self, Format};
use crate::options::OpenOptions;
#[cfg(any(target_os = "linux", target_os = "macos"))]
use crate::qcow2;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
use crate::qcow2_by_qemu as qcow2;
use crate::{blocks, compressed, nbd, qemu, spec};

/// Opens and locks the disk that `path` names: a file, a block device, or the URI of an NBD export.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn DiskImage>, OpenError> {
    let write = options.write;
    let failed = |source| OpenError::Device { source, write };
    if spec::is_uri(path.as_os_str()) {
        let device = nbd::NbdDevice::open(path.as_os_str(), write)?;
        return Ok(Arc::new(device));
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
    if matches!(format, Format::Vmdk | Format::VmdkDescription) {
        blocks::check_names(&file, path).map_err(refused)?;
    }
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
        Format::VmdkDescription | Format::Vhdx => Err(Refused::Unsupported(String::new())),
    };
    match opened {
        // What the own driver lacks, qemu-nbd may have.
        Err(Refused::Unsupported(why)) if !options.no_helper => {
            qemu::open(&file, path, format, write, &why)
        }
        result => result,
    }
    .map_err(refused)
}

/// The format of `file`. A file that begins with a wanted file system is raw, also with the mark
/// of another format in its boot block.
fn format_of(file: &FileDevice, probe: Option<Probe>) -> Result<Format, DeviceError> {
    let format = magic::recognise(file)?;
    let raw = format != Format::Raw && probe.is_some_and(|probe| probe(file));
    // A fixed VHD begins with the disk itself.
    Ok(if raw && format != Format::Vhd { Format::Raw } else { format })
}
