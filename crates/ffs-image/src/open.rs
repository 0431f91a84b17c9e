//! Opening an image from the text of a user, `IMAGE` or `IMAGE@N`: opens and locks it, and finds
//! its partition.
//!
//! **Invariants.**
//! 1. Before the image is locked, only its size is read.
//! 2. The lock lasts as long as the device.
//! 3. An error message includes what to do next.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::lock::{LockError, LockMode, LockWait};
use crate::partition::{self, Partition, Pick, Probe, Scheme, SelectError, Window};
use crate::{BlockDevice, DeviceError, FileDevice};

/// How to open an image.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenOptions {
    /// Open for changes, exclusively; otherwise for reading, together with other readers.
    pub write: bool,
    /// How long to wait for the lock.
    pub lock_wait: LockWait,
    /// Recognises the file system to find; without it only the partition types decide.
    pub probe: Option<Probe>,
    /// Without `@N`, use the whole disk and read no partition table: for creating a file system.
    pub whole_disk: bool,
    /// Allow the kernel to use the block device: for a `fuseblk` mount, where it does.
    pub kernel_may_use: bool,
}

/// An open image.
pub struct Opened {
    /// The file system's device: the partition, or the whole disk. Holds the lock.
    pub device: Arc<dyn BlockDevice>,
    /// The file or block device.
    pub path: PathBuf,
    /// The partition; `None` for the whole disk.
    pub partition: Option<Partition>,
    /// Problems of the partition table, as messages for users.
    pub notes: Vec<String>,
    /// The whole disk. Holds the lock.
    disk: Arc<FileDevice>,
}

impl Opened {
    /// Opens what `spec` names if it is on the same file or block device: another partition, or the
    /// same one. The result shares the device and the lock of this image; `options` only determines
    /// how the partition is found. `None` if `spec` names another file.
    ///
    /// # Errors
    /// The partition is missing or ambiguous, or the table cannot be read.
    pub fn beside(
        &self,
        spec: impl AsRef<OsStr>,
        options: &OpenOptions,
    ) -> Result<Option<Opened>, OpenError> {
        let (path, pick) = parse_spec(spec.as_ref());
        let place = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
        match (place(&self.path), place(&path)) {
            (Some(own), Some(other)) if own == other => {
                find(Arc::clone(&self.disk), path, &pick, options).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Makes a whole image file longer or shorter, under the lock that it has.
    ///
    /// # Errors
    /// `EINVAL` for a partition; as [`FileDevice::set_len`].
    pub fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        if self.partition.is_none() {
            return self.disk.set_len(len);
        }
        let name = self.path.display().to_string().into();
        let why = "a partition has the length that its table gives it";
        let why = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
        Err(DeviceError::new(&name, crate::Operation::Resize, why))
    }

    /// The range of the file system's device on the disk, bytes.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        match &self.partition {
            None => 0..self.disk.len_bytes(),
            Some(partition) => partition.start..partition.start + partition.len,
        }
    }
}

/// Why an image could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system reported an error.
    #[error("{source}{}", hint(.source, *.write))]
    Device {
        /// The error.
        source: DeviceError,
        /// Whether it was opened for changes.
        write: bool,
    },
    /// Another opener has locked it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The partition is missing or ambiguous.
    #[error("{image}: {source}")]
    Partition {
        /// The name of the image as the user gave it.
        image: String,
        /// The error.
        source: SelectError,
    },
    /// It is a disk image in an unsupported format.
    #[error(
        "{image} is not a raw image but {format}: make a raw one with `{command}` and use that"
    )]
    Format {
        /// The name of the image as the user gave it.
        image: String,
        /// The format.
        format: &'static str,
        /// A command that converts it into a raw image.
        command: String,
    },
}

impl OpenError {
    /// Whether it might be opened for reading, although not for changes.
    #[must_use]
    pub fn may_be_readable(&self) -> bool {
        let OpenError::Device { source, write: true } = self else { return false };
        let errno = Errno::from_raw_os_error(source.errno());
        matches!(errno, Errno::ACCESS | Errno::PERM | Errno::ROFS)
    }

    /// The error number for a system-call interface.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            OpenError::Device { source, .. } => source.errno(),
            OpenError::Lock(error) => error.errno(),
            OpenError::Partition { source: SelectError::Device(error), .. } => error.errno(),
            OpenError::Partition { .. } | OpenError::Format { .. } => Errno::INVAL.raw_os_error(),
        }
    }
}

/// The kind is that of the errno, as in [`std::fs`]; the source is this error.
impl From<OpenError> for std::io::Error {
    fn from(error: OpenError) -> std::io::Error {
        let kind = std::io::Error::from_raw_os_error(error.errno()).kind();
        std::io::Error::new(kind, error)
    }
}

fn hint(error: &DeviceError, write: bool) -> &'static str {
    match (Errno::from_raw_os_error(error.errno()), write) {
        (Errno::NOENT, _) => "; check the path",
        (Errno::ISDIR, _) => "; an image is a file or a block device",
        (Errno::PERM, true) => {
            "; if it is immutable or append-only (see lsattr), chattr changes that"
        }
        (Errno::ACCESS, true) => "; do it as a user who may write to it",
        (Errno::ACCESS | Errno::PERM, false) => "; do it as a user who may read it",
        (Errno::ROFS, _) => "; it can only be read where it is",
        _ => "",
    }
}

/// Opens the image that `spec` names and finds the file system's device in it: see [`open`].
///
/// # Errors
/// As [`open`].
pub fn open_image(
    spec: impl AsRef<OsStr>,
    options: &OpenOptions,
) -> Result<Arc<dyn BlockDevice>, OpenError> {
    open(spec, options).map(|opened| opened.device)
}

/// Opens and locks the image that `spec` names, and selects the partition (see
/// [`partition::select`]). `spec` is `IMAGE`, `IMAGE@N` with a partition's number (0 for the whole
/// disk) or `IMAGE@p2` with its name.
///
/// # Errors
/// The image cannot be opened or locked, is not a raw image, or its partition is missing or
/// ambiguous.
pub fn open(spec: impl AsRef<OsStr>, options: &OpenOptions) -> Result<Opened, OpenError> {
    let (path, pick) = parse_spec(spec.as_ref());
    let write = options.write;
    let failed = |source| OpenError::Device { source, write };
    let mut file = FileDevice::open(&path, write).map_err(failed)?;
    let mode = if write { LockMode::Exclusive } else { LockMode::Shared };
    file.lock(&path, mode, options.lock_wait, !options.kernel_may_use)?;
    find(Arc::new(file), path, &pick, options)
}

/// Selects the partition on an open disk.
fn find(
    disk: Arc<FileDevice>,
    path: PathBuf,
    pick: &Pick,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    let write = options.write;
    let failed = |source| OpenError::Device { source, write };
    if *pick == Pick::Whole || (*pick == Pick::Auto && options.whole_disk) {
        let device = Arc::clone(&disk);
        return Ok(Opened { device, path, partition: None, notes: Vec::new(), disk });
    }
    let image = path.display().to_string();
    let table = partition::scan(&disk).map_err(failed)?;
    if table.scheme == Scheme::Whole && !options.probe.is_some_and(|probe| probe(&disk)) {
        check_format(&disk, &image, write)?;
    }
    let partition = partition::select(&disk, &table, pick, options.probe)
        .map_err(|source| OpenError::Partition { image: image.clone(), source })?;
    let device: Arc<dyn BlockDevice> = match &partition {
        None => Arc::clone(&disk) as Arc<dyn BlockDevice>,
        Some(partition) => {
            Arc::new(Window::of(Arc::clone(&disk), partition, &image).map_err(failed)?)
        }
    };
    Ok(Opened { device, path, partition, notes: table.notes, disk })
}

/// Splits `IMAGE@N`. If a file with that whole name exists, the name is not split.
fn parse_spec(spec: &OsStr) -> (PathBuf, Pick) {
    let whole = (PathBuf::from(spec), Pick::Auto);
    let bytes = spec.as_bytes();
    let Some(at) = bytes.iter().rposition(|&byte| byte == b'@').filter(|&at| at > 0) else {
        return whole;
    };
    let suffix = match std::str::from_utf8(&bytes[at + 1..]) {
        Ok(suffix) if !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            suffix
        }
        _ => return whole,
    };
    if Path::new(spec).exists() {
        return whole;
    }
    let pick = match suffix.parse() {
        Ok(0) => Pick::Whole,
        Ok(number) => Pick::Number(number),
        Err(_) => Pick::Name(suffix.to_owned()),
    };
    (PathBuf::from(OsString::from_vec(bytes[..at].to_vec())), pick)
}

/// The first bytes of other image formats, and the command that converts each into a raw image.
const FORMATS: [(&[u8], &str, &str); 9] = [
    (b"QFI\xfb", "a qcow2 image", "qemu-img convert -O raw"),
    (b"KDMV", "a VMware disk", "qemu-img convert -O raw"),
    (b"# Disk DescriptorFile", "the description of a VMware disk", "qemu-img convert -O raw"),
    (b"conectix", "a VHD image", "qemu-img convert -O raw"),
    (b"vhdxfile", "a VHDX image", "qemu-img convert -O raw"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "zstd -d -o"),
    (b"\xfd7zXZ\0", "compressed with xz", "xz -dc"),
    (b"\x1f\x8b", "compressed with gzip", "gzip -dc"),
    (b"BZh", "compressed with bzip2", "bzip2 -dc"),
];

/// Rejects an image in a known format that is not raw.
fn check_format(disk: &dyn BlockDevice, image: &str, write: bool) -> Result<(), OpenError> {
    let mut start = [0; 32];
    let len = start.len().min(usize::try_from(disk.len_bytes()).unwrap_or(usize::MAX));
    disk.read_at(0, &mut start[..len]).map_err(|source| OpenError::Device { source, write })?;
    let Some((_, format, tool)) = FORMATS.iter().find(|(magic, ..)| start.starts_with(magic))
    else {
        return Ok(());
    };
    let command = match *tool {
        "zstd -d -o" => format!("{tool} RAW {image}"),
        "qemu-img convert -O raw" => format!("{tool} {image} RAW"),
        _ => format!("{tool} {image} > RAW"),
    };
    Err(OpenError::Format { image: image.to_owned(), format, command })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_testkit::fixtures;
    use std::fs;
    use std::time::Duration;

    fn write_image(bytes: &[u8]) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        fs::write(&path, bytes).unwrap();
        let path = path.into_os_string().into_string().unwrap();
        (dir, path)
    }

    fn magic_at_8192(device: &dyn BlockDevice) -> bool {
        let mut magic = [0; 4];
        device.read_at(8192 + 1372, &mut magic).is_ok() && u32::from_le_bytes(magic) == 0x0001_1954
    }

    fn message(result: Result<Opened, OpenError>) -> String {
        match result {
            Ok(opened) => panic!("opened {:?}", opened.partition),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn specs_are_split() {
        let (_dir, path) = write_image(b"");
        let numbered = format!("{path}@1");
        let split = |spec: &str| parse_spec(OsStr::new(spec));
        assert_eq!(split(&path), (path.clone().into(), Pick::Auto));
        assert_eq!(split(&numbered), (path.clone().into(), Pick::Number(1)));
        assert_eq!(split(&format!("{path}@s1a")), (path.clone().into(), Pick::Name("s1a".into())));
        assert_eq!(split(&format!("{path}@0")), (path.into(), Pick::Whole));
        for plain in ["@1", "a@", "user@host/disk", "a@-1"] {
            assert_eq!(split(plain), (plain.into(), Pick::Auto));
        }
        fs::write(&numbered, b"").unwrap();
        assert_eq!(
            split(&numbered),
            (numbered.into(), Pick::Auto),
            "an existing file of that name"
        );
    }

    #[test]
    fn opens_the_partition_and_keeps_the_lock() {
        let Some(image) = fixtures::load("part-mbr-bsd-ufs1-abs") else { return };
        let (_dir, path) = write_image(&image);
        let read = OpenOptions { probe: Some(magic_at_8192), ..OpenOptions::default() };
        let write = OpenOptions { write: true, ..read };
        let first = open(&path, &write).unwrap();
        assert_eq!(first.partition.as_ref().unwrap().name, "s1a");
        assert_eq!(first.device.len_bytes(), 8192 * 512);
        assert!(message(open(&path, &read)).contains("is in use by"));
        let waiting = OpenOptions { lock_wait: LockWait::UpTo(Duration::from_millis(20)), ..write };
        assert!(message(open(&path, &waiting)).contains("is in use by"));
        drop(first);
        // The child of another test may have a copy of the descriptor until its exec.
        let read = OpenOptions { lock_wait: LockWait::UpTo(Duration::from_secs(60)), ..read };
        let second = open(format!("{path}@s1a"), &read).unwrap();
        assert!(second.device.is_read_only());
        assert_eq!(open_image(format!("{path}@0"), &read).unwrap().len_bytes(), image.len() as u64);
        let whole = OpenOptions { whole_disk: true, ..read };
        assert_eq!(open_image(&path, &whole).unwrap().len_bytes(), image.len() as u64);
        assert_eq!(open_image(format!("{path}@3"), &whole).unwrap().len_bytes(), 1000 * 512);
        let error = message(open(format!("{path}@9"), &read));
        assert!(error.contains("disk.img: there is no partition @9; there are"), "{error}");
    }

    #[test]
    fn refusals_say_what_to_do() {
        let read = OpenOptions::default();
        let dir = tempfile::tempdir().unwrap();
        let missing = open(dir.path().join("none"), &read);
        assert!(message(missing).ends_with("; check the path"));
        let directory = message(open(dir.path(), &OpenOptions { write: true, ..read }));
        assert!(directory.ends_with("; an image is a file or a block device"), "{directory}");
        let (_dir, path) = write_image(b"QFI\xfb\0\0\0\x03");
        let error = message(open(&path, &read));
        assert!(
            error.ends_with(&format!("`qemu-img convert -O raw {path} RAW` and use that")),
            "{error}"
        );
        let (_dir, path) = write_image(b"\x28\xb5\x2f\xfd and so on");
        assert!(message(open(&path, &read)).contains(&format!("zstd -d -o RAW {path}")));
        let (_dir, empty) = write_image(b"");
        assert_eq!(
            open_image(&empty, &read).unwrap().len_bytes(),
            0,
            "newfs will report how much it needs"
        );
    }
}
