//! What all drivers have in common: a disk image, and why a driver does not open one.

use std::sync::Arc;

use ffs_device::{BlockDevice, DeviceError, FileDevice, Operation};

use crate::magic::Format;

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
    /// The image is sound, and no program writes this variant of the format.
    ReadOnly(String),
    /// The system's error.
    Device(DeviceError),
}

impl From<DeviceError> for Refused {
    fn from(error: DeviceError) -> Refused {
        Refused::Device(error)
    }
}
