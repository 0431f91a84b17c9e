//! Creating and recognising file systems.

use std::io;
use std::path::Path;

use ffs_admin::newfs::{NewfsOptions, NewfsReport, newfs};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_device::{BlockDevice, SplitMix64, SystemClock};
use ffs_ondisk::sbsearch::{self, SBLOCKSEARCH};

/// Makes an empty UFS2 file system of `size` bytes in the file `image`, which must not exist, with
/// soft updates and the defaults of `ffs newfs`. For other formats see [`format_with`].
///
/// # Errors
/// The file exists or cannot be written; the size is too small. No file is left then.
pub fn format(image: impl AsRef<Path>, size: u64) -> io::Result<()> {
    let options = NewfsOptions { size: Some(size), soft_updates: true, ..NewfsOptions::default() };
    format_with(image, &options).map(|_| ())
}

/// Makes an empty file system in the file `image`, which must not exist. `options.size` is its size
/// in bytes. A journal is made as by `ffs newfs -j`, and needs soft updates.
///
/// ```
/// use ffs_admin::newfs::NewfsOptions;
/// # fn main() -> std::io::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let image = dir.path().join("disk.img");
/// let options = NewfsOptions {
///     size: Some(16 << 20),
///     label: Some("home".to_owned()),
///     ..NewfsOptions::default()
/// };
/// bsdffs::format_with(&image, &options)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The file exists or cannot be written; no size is given; the options do not fit each other or the
/// size. No file is left then.
pub fn format_with(image: impl AsRef<Path>, options: &NewfsOptions) -> io::Result<NewfsReport> {
    let image = image.as_ref();
    let Some(size) = options.size else {
        return Err(invalid("the file system needs a size"));
    };
    let file = std::fs::File::options().write(true).create_new(true).open(image)?;
    let made =
        file.set_len(size.saturating_add(options.reserved)).and_then(|()| fill(image, options));
    if made.is_err() {
        // The error that is on its way matters more.
        let _ = std::fs::remove_file(image);
    }
    made
}

fn fill(image: &Path, options: &NewfsOptions) -> io::Result<NewfsReport> {
    let open = ffs_image::OpenOptions {
        write: true,
        whole_disk: true,
        ..ffs_image::OpenOptions::default()
    };
    let device = ffs_image::open(image, &open)?.device;
    let (clock, random) = (SystemClock, SplitMix64::from_system());
    let report = newfs(&*device, options, &clock, &random, &mut |_, _| {}).map_err(invalid)?;
    if options.journal {
        let now = report.superblock.f.time;
        let journal = TunefsOptions { journal: Some(true), now, ..TunefsOptions::default() };
        tunefs(&*device, &journal).map_err(invalid)?;
    }
    device.flush()?;
    Ok(report)
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
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
