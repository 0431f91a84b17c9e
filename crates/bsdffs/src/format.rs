//! Creating and recognising file systems.

use std::io;
use std::path::Path;

use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_device::{BlockDevice, SplitMix64, SystemClock};
use ffs_ondisk::sbsearch::{self, SBLOCKSEARCH};

/// Makes an empty UFS2 file system of `size` bytes in the file `image`, which must not exist, with
/// soft updates and the defaults of `ffs newfs`. For other formats see [`ffs_admin::newfs`].
///
/// # Errors
/// The file exists or cannot be written; the size is too small. No file is left then.
pub fn format(image: impl AsRef<Path>, size: u64) -> io::Result<()> {
    let image = image.as_ref();
    std::fs::File::options().write(true).create_new(true).open(image)?.set_len(size)?;
    let made = fill(image, size);
    if made.is_err() {
        // The error that is on its way matters more.
        let _ = std::fs::remove_file(image);
    }
    made
}

fn fill(image: &Path, size: u64) -> io::Result<()> {
    let open = ffs_image::OpenOptions {
        write: true,
        whole_disk: true,
        ..ffs_image::OpenOptions::default()
    };
    let device = ffs_image::open(image, &open)?.device;
    let options = NewfsOptions { size: Some(size), soft_updates: true, ..NewfsOptions::default() };
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    newfs(&*device, &options, &SystemClock, &SplitMix64::from_system(), &mut |_, _| {})
        .map_err(invalid)?;
    Ok(device.flush()?)
}

/// Whether a device holds a UFS superblock at one of the places where they are looked for.
#[must_use]
pub fn holds_ufs(device: &dyn BlockDevice) -> bool {
    SBLOCKSEARCH.iter().any(|&at| {
        let read = |at: u64, len: usize| -> Result<Vec<u8>, ffs_device::DeviceError> {
            let left = device.len_bytes().saturating_sub(at);
            let mut bytes = vec![0; len.min(usize::try_from(left).unwrap_or(len))];
            device.read_at(at, &mut bytes)?;
            Ok(bytes)
        };
        sbsearch::at(read, at, None).is_ok()
    })
}
