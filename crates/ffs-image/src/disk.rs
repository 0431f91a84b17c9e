//! A disk in an image file or behind a server: opening it in its format.

use std::path::Path;
use std::sync::Arc;

use ffs_device::lock::LockMode;
use ffs_device::partition::Probe;
use ffs_device::{BlockDevice, DeviceError, FileDevice, Operation};

use crate::open::{OpenError, OpenOptions};
use crate::{Format, blocks, compressed, magic, nbd, qcow2, qemu};

/// A disk image: a block device, and what can be done with its container.
pub trait DiskImage: BlockDevice {
    /// The format.
    fn format(&self) -> Format;

    /// What a user should know about this image, as messages.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether [`DiskImage::set_len`] can change the size of the disk.
    fn can_resize(&self) -> bool {
        false
    }

    /// Makes the disk longer, with zeros, or shorter.
    ///
    /// # Errors
    /// The format does not allow it, or the system's error.
    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        let _ = len;
        let why = format!("the size of {} images cannot be changed here", self.format().name());
        let why = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
        Err(DeviceError::new(&Arc::from("image"), Operation::Resize, why))
    }
}

impl DiskImage for FileDevice {
    fn format(&self) -> Format {
        Format::Raw
    }

    fn can_resize(&self) -> bool {
        self.file().metadata().is_ok_and(|file| file.is_file())
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        FileDevice::set_len(self, len)
    }
}

/// Why a driver does not open an image.
pub(crate) enum Refused {
    /// The image is damaged, or names a file that is not there; for users.
    Damaged(String),
    /// The image is sound, as far as it was read, and has a feature that the driver lacks.
    Unsupported(String),
    /// The system's error.
    Device(DeviceError),
}

impl From<DeviceError> for Refused {
    fn from(error: DeviceError) -> Refused {
        Refused::Device(error)
    }
}

/// Opens and locks the disk that `path` names: a file, a block device, or the URI of an NBD export.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Arc<dyn DiskImage>, OpenError> {
    let write = options.write;
    let failed = |source| OpenError::Device { source, write };
    if crate::is_uri(path.as_os_str()) {
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

/// The format of `file`. A file that begins with a wanted file system is raw, whatever is in its
/// boot block.
fn format_of(file: &FileDevice, probe: Option<Probe>) -> Result<Format, DeviceError> {
    let format = magic::recognise(file)?;
    let raw = format != Format::Raw && probe.is_some_and(|probe| probe(file));
    // A fixed VHD begins with the disk itself.
    Ok(if raw && format != Format::Vhd { Format::Raw } else { format })
}
