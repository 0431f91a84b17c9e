//! A regular file or a block device of the host.
//!
//! The device of real images and disks.
//!
//! **Invariants.**
//! 1. The size is determined at open; only [`FileDevice::set_len`] changes it. If a file shrinks
//!    otherwise, reads fail. A transfer never makes the file longer.
//! 2. After a flush has failed, every later flush fails with the same error number. The kernel
//!    reports a lost write only once, so a later success would be wrong.
//! 3. The lock on the image is released only when the device is dropped.
//!
//! **Locking.** None: positioned transfers need none.

use std::fs::{File, FileType};
use std::io::{self, IoSlice, IoSliceMut, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{check_range, check_writable, total_len};
use crate::lock::{self, LockError, LockMode, LockWait};
use crate::{BlockDevice, DeviceError, Durability, FailedFlush, HostRange, Operation};

/// Most buffers of one vectored system call (`IOV_MAX` of all common systems).
const MAX_BUFFERS: usize = 1024;

/// A regular file or block device.
#[derive(Debug)]
pub struct FileDevice {
    name: Arc<str>,
    file: File,
    len: AtomicU64,
    sector_size: u32,
    read_only: bool,
    /// Flushes are left to the system: see [`FileDevice::scratch`].
    scratch: bool,
    /// Keeps the kernel from mounting a block device that is open for writing.
    exclusive: Option<File>,
    failed_flush: FailedFlush,
}

impl FileDevice {
    /// For a file that is useless until it is complete, such as an image being built: flushes do
    /// nothing, and the system writes the file at any time.
    #[must_use]
    pub fn scratch(mut self) -> Self {
        self.scratch = true;
        self
    }

    /// Opens the file or block device `path`, for writing too if `write`. Does not lock it: see
    /// [`crate::lock`].
    ///
    /// # Errors
    /// The system's error; `EINVAL` if `path` is neither a regular file nor a block device; `EROFS`
    /// if a block device that is to be written is write-protected.
    pub fn open(path: &Path, write: bool) -> Result<Self, DeviceError> {
        let name = name_of(path);
        open_file(path, write)
            .and_then(|file| Self::measure(Arc::clone(&name), file, !write))
            .map_err(|source| DeviceError::new(&name, Operation::Open, source))
    }

    /// Creates the sparse file `path` of `len` bytes and opens it for writing.
    ///
    /// # Errors
    /// `EEXIST` if the file exists, or the system's error; the file is then removed.
    pub fn create_sparse(path: &Path, len: u64) -> Result<Self, DeviceError> {
        let name = name_of(path);
        let failed = |source| DeviceError::new(&name, Operation::Open, source);
        let file =
            File::options().read(true).write(true).create_new(true).open(path).map_err(failed)?;
        if let Err(source) = file.set_len(len) {
            // The size was rejected; an empty file would hide that.
            let _ = std::fs::remove_file(path);
            return Err(failed(source));
        }
        Self::measure(Arc::clone(&name), file, false).map_err(failed)
    }

    fn measure(name: Arc<str>, mut file: File, read_only: bool) -> io::Result<Self> {
        let found = file.metadata()?;
        let kind = found.file_type();
        check_kind(kind)?;
        if !read_only && kind.is_block_device() && is_write_protected(found.rdev()) {
            let message = "it is write-protected (`blockdev --setrw` may change that)";
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, message));
        }
        // Seeking to the end also works for block devices, for which stat reports no size.
        let len = file.seek(SeekFrom::End(0))?;
        let sector_size = if kind.is_block_device() { logical_sector_size(&file) } else { 512 };
        let failed_flush = FailedFlush::default();
        let (scratch, exclusive) = (false, None);
        let len = AtomicU64::new(len);
        Ok(Self { name, file, len, sector_size, read_only, scratch, exclusive, failed_flush })
    }

    /// Locks the image, whose name for messages is `path`, for the lifetime of the device. A writer
    /// checks that the kernel does not use a block device, and with `exclusive` prevents that it
    /// begins to.
    ///
    /// # Errors
    /// Another process has locked it, or it cannot be locked.
    pub fn lock(
        &mut self,
        path: &Path,
        mode: LockMode,
        wait: LockWait,
        exclusive: bool,
    ) -> Result<(), LockError> {
        lock::lock(&self.file, path, mode, wait)?;
        if mode == LockMode::Exclusive {
            self.exclusive = lock::open_exclusive(&self.file, path)?.filter(|_| exclusive);
        }
        Ok(())
    }

    /// Makes the file longer, with zeros, or shorter. A block device has a fixed length.
    ///
    /// # Errors
    /// `EROFS` if the device is open for reading, or the system's error.
    pub fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        check_writable(&self.name, self.read_only, Operation::Resize, 0, 0)?;
        let done = self.file.set_len(len);
        done.map_err(|source| self.failed(Operation::Resize, 0, 0, source))?;
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    /// The open file, for locks and queries.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    fn failed(
        &self,
        operation: Operation,
        offset: u64,
        length: u64,
        source: io::Error,
    ) -> DeviceError {
        let source = match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::other("the file has become shorter since it was opened")
            }
            _ => source,
        };
        DeviceError::at(&self.name, operation, offset, length, source)
    }
}

/// Opens a regular file or a block device. Another file is not opened: the open of a pipe waits for
/// its other end.
fn open_file(path: &Path, write: bool) -> io::Result<File> {
    let kind = std::fs::metadata(path)?.file_type();
    check_kind(kind)?;
    let mut how = File::options();
    how.read(true).write(write);
    if kind.is_file() {
        // A pipe may have taken the name since. Drives with removable media need the usual open.
        how.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    how.open(path)
}

fn check_kind(kind: FileType) -> io::Result<()> {
    if kind.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    if !kind.is_file() && !kind.is_block_device() {
        let message = "not a regular file or a block device";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

/// Whether the kernel refuses writes to the block device. Linux opens such a device for writing,
/// too, and only the first write would fail.
#[cfg(target_os = "linux")]
fn is_write_protected(device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let flag = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro"));
    flag.is_ok_and(|flag| flag.trim() == "1")
}

#[cfg(not(target_os = "linux"))]
fn is_write_protected(_device: u64) -> bool {
    false
}

fn name_of(path: &Path) -> Arc<str> {
    Arc::from(path.to_string_lossy())
}

#[cfg(target_os = "linux")]
fn logical_sector_size(file: &File) -> u32 {
    match rustix::fs::ioctl_blksszget(file) {
        Ok(size) if size >= 4096 => 4096,
        _ => 512,
    }
}

#[cfg(not(target_os = "linux"))]
fn logical_sector_size(_file: &File) -> u32 {
    512
}

#[cfg(target_os = "linux")]
fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len) {
        // A file system or disk that cannot discard ignores the hint.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn punch_hole(_file: &File, _offset: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

/// Whether the first data from `offset` on is not before `end`.
#[cfg(target_os = "linux")]
fn no_data(file: &File, offset: u64, end: u64) -> bool {
    // The position of the file, which this changes, is not used.
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(data) => data >= end,
        // No data up to the end of the file. A block device refuses with `EINVAL`.
        Err(errno) => errno == rustix::io::Errno::NXIO,
    }
}

#[cfg(not(target_os = "linux"))]
fn no_data(_file: &File, _offset: u64, _end: u64) -> bool {
    false
}

impl BlockDevice for FileDevice {
    fn len_bytes(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn sector_size(&self) -> u32 {
        self.sector_size
    }

    fn durability(&self) -> Durability {
        if self.scratch { Durability::OnCompletion } else { Durability::OnFlush }
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn host_range(&self, offset: u64, length: u64) -> Option<HostRange<'_>> {
        check_range(&self.name, self.len_bytes(), Operation::Read, offset, length).ok()?;
        Some(HostRange { file: self.file.as_fd(), offset, length })
    }

    fn write_in_place(
        &self,
        offset: u64,
        length: u64,
        put: &mut dyn FnMut(HostRange<'_>) -> io::Result<()>,
    ) -> Option<Result<(), DeviceError>> {
        let checked = check_writable(&self.name, self.read_only, Operation::Write, offset, length)
            .and_then(|()| {
                check_range(&self.name, self.len_bytes(), Operation::Write, offset, length)
            });
        Some(checked.and_then(|()| {
            put(HostRange { file: self.file.as_fd(), offset, length })
                .map_err(|source| self.failed(Operation::Write, offset, length, source))
        }))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let length = buf.len() as u64;
        check_range(&self.name, self.len_bytes(), Operation::Read, offset, length)?;
        self.file
            .read_exact_at(buf, offset)
            .map_err(|source| self.failed(Operation::Read, offset, length, source))
    }

    fn read_vectored_at(
        &self,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        let length = total_len(bufs.iter().map(|buf| buf.len()));
        check_range(&self.name, self.len_bytes(), Operation::Read, offset, length)?;
        let mut at = offset;
        for group in bufs.chunks_mut(MAX_BUFFERS) {
            let mut done = retry(|| rustix::io::preadv(&self.file, group, at))
                .map_err(|source| self.failed(Operation::Read, at, length, source))?;
            for buf in group {
                let have = done.min(buf.len());
                done -= have;
                if have < buf.len() {
                    self.read_at(at + have as u64, &mut buf[have..])?;
                }
                at += buf.len() as u64;
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let length = buf.len() as u64;
        check_writable(&self.name, self.read_only, Operation::Write, offset, length)?;
        check_range(&self.name, self.len_bytes(), Operation::Write, offset, length)?;
        self.file
            .write_all_at(buf, offset)
            .map_err(|source| self.failed(Operation::Write, offset, length, source))
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        let length = total_len(bufs.iter().map(|buf| buf.len()));
        check_writable(&self.name, self.read_only, Operation::Write, offset, length)?;
        check_range(&self.name, self.len_bytes(), Operation::Write, offset, length)?;
        let mut at = offset;
        for group in bufs.chunks(MAX_BUFFERS) {
            let mut done = retry(|| rustix::io::pwritev(&self.file, group, at))
                .map_err(|source| self.failed(Operation::Write, at, length, source))?;
            for buf in group {
                let have = done.min(buf.len());
                done -= have;
                if have < buf.len() {
                    self.write_at(at + have as u64, &buf[have..])?;
                }
                at += buf.len() as u64;
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.failed_flush.guard(&self.name, || {
            if self.read_only || self.scratch {
                return Ok(());
            }
            let synced = self.file.sync_data();
            synced.map_err(|source| self.failed(Operation::Flush, 0, 0, source))
        })
    }

    fn is_hole(&self, offset: u64, len: u64) -> bool {
        let regular = || self.file.metadata().is_ok_and(|data| data.is_file());
        let inside = check_range(&self.name, self.len_bytes(), Operation::Read, offset, len);
        inside.is_ok() && regular() && no_data(&self.file, offset, offset + len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_writable(&self.name, self.read_only, Operation::Discard, offset, len)?;
        check_range(&self.name, self.len_bytes(), Operation::Discard, offset, len)?;
        if len == 0 {
            return Ok(());
        }
        punch_hole(&self.file, offset, len)
            .map_err(|source| self.failed(Operation::Discard, offset, len, source))
    }
}

/// Repeats a system call that a signal interrupted.
fn retry(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    rustix::io::retry_on_intr(&mut call).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn device(len: u64) -> (tempfile::TempDir, FileDevice) {
        let dir = tempfile::tempdir().unwrap();
        let device = FileDevice::create_sparse(&dir.path().join("disk.img"), len).unwrap();
        (dir, device)
    }

    #[test]
    fn reads_back_what_was_written_and_stops_at_the_end() {
        let (dir, device) = device(1 << 20);
        device.write_at(4093, b"abcdef").unwrap();
        device.flush().unwrap();
        assert_eq!(device.write_at((1 << 20) - 1, b"ab").unwrap_err().errno(), 22);
        let again = FileDevice::open(&dir.path().join("disk.img"), false).unwrap();
        let mut buf = [0; 8];
        again.read_at(4092, &mut buf).unwrap();
        assert_eq!(&buf, b"\0abcdef\0");
        assert!(again.is_read_only());
        assert_eq!(again.write_at(0, b"x").unwrap_err().errno(), 30);
        assert!(again.read_at((1 << 20) - 7, &mut buf).is_err());
        assert_eq!(again.len_bytes(), 1 << 20);
    }

    #[test]
    fn vectors_longer_than_one_system_call_are_whole() {
        let (_dir, device) = device(1 << 20);
        let parts: Vec<Vec<u8>> = (0..2500usize).map(|i| vec![(i % 251) as u8; i % 7]).collect();
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        device.write_vectored_at(100, &slices).unwrap();
        let mut back: Vec<Vec<u8>> = parts.iter().map(|part| vec![0; part.len()]).collect();
        let mut targets: Vec<IoSliceMut<'_>> =
            back.iter_mut().map(|part| IoSliceMut::new(part)).collect();
        device.read_vectored_at(100, &mut targets).unwrap();
        assert_eq!(back, parts);
        let mut flat = vec![0; parts.concat().len()];
        device.read_at(100, &mut flat).unwrap();
        assert_eq!(flat, parts.concat());
    }

    #[test]
    fn only_a_change_of_the_length_moves_the_end() {
        let (dir, device) = device(1 << 20);
        device.set_len(2 << 20).unwrap();
        assert_eq!(device.len_bytes(), 2 << 20);
        device.write_at((2 << 20) - 1, b"x").unwrap();
        device.set_len(1 << 20).unwrap();
        assert_eq!(device.write_at(1 << 20, b"x").unwrap_err().errno(), 22);
        let reader = FileDevice::open(&dir.path().join("disk.img"), false).unwrap();
        assert_eq!((reader.len_bytes(), reader.set_len(0).unwrap_err().errno()), (1 << 20, 30));
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_not_zeros() {
        let (_dir, device) = device(8192);
        device.file().set_len(4096).unwrap();
        let error = device.read_at(4000, &mut [0; 200]).unwrap_err();
        assert_eq!(error.errno(), 5);
        assert!(error.to_string().contains("shorter"), "{error}");
        let (mut a, mut b) = ([1; 100], [1; 100]);
        let mut targets = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
        assert!(device.read_vectored_at(4000, &mut targets).is_err());
    }

    #[test]
    fn a_failed_flush_stays_failed() {
        let (_dir, device) = device(8192);
        device.flush().unwrap();
        let lost = io::Error::from_raw_os_error(5);
        let failed = device.failed(Operation::Flush, 0, 0, lost);
        device.failed_flush.guard(&device.name, || Err(failed)).unwrap_err();
        assert_eq!(device.flush().unwrap_err().errno(), 5);
        assert_eq!(device.flush().unwrap_err().errno(), 5);
    }

    #[test]
    fn discard_gives_the_space_back_but_not_the_length() {
        let (_dir, device) = device(1 << 20);
        device.write_at(0, &[1; 1 << 20]).unwrap();
        device.discard(4096, 8192).unwrap();
        assert_eq!(device.file().metadata().unwrap().len(), 1 << 20);
        let mut edge = [0; 1];
        device.read_at(4095, &mut edge).unwrap();
        assert_eq!(edge, [1]);
        assert!(!device.is_hole(4095, 2) && !device.is_hole(0, 1));
        assert!(!device.is_hole(1 << 20, 1), "nothing beyond the end");
        // Not every file system has holes; where it has, this is one.
        let hole = device.file().metadata().unwrap().blocks() * 512 < 1 << 20;
        assert_eq!(device.is_hole(4096, 8192), hole);
        assert!(device.discard(1 << 20, 1).is_err());
    }

    #[test]
    fn what_cannot_be_a_disk_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = FileDevice::open(dir.path(), false).unwrap_err();
        assert_eq!(error.errno(), 21, "{error}");
        let error = FileDevice::open(std::path::Path::new("/dev/null"), false).unwrap_err();
        assert_eq!(error.errno(), 22, "{error}");
        let missing = dir.path().join("missing");
        assert_eq!(FileDevice::open(&missing, false).unwrap_err().errno(), 2);
        let (_dir, taken) = device(512);
        drop(taken);
        assert_eq!(
            FileDevice::create_sparse(&_dir.path().join("disk.img"), 9).unwrap_err().errno(),
            17
        );
    }
}
