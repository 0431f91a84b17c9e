//! How to open an image.

use ffs_device::lock::LockWait;
use ffs_device::partition::Probe;

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
    /// Start no other program (`qemu-nbd`) for a format that this crate does not read itself.
    pub no_helper: bool,
}
