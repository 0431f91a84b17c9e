//! Trees of the host.

mod sink;
mod source;
mod xattrs;

use rustix::fs::Stat;

pub use sink::HostSink;
pub use source::{HostSource, HostSourceOptions};
pub(crate) use source::{next_data, open_regular};
pub(crate) use xattrs::{loss_of_attribute, remove_xattr, xattr_names};

/// A file of the host by device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

impl From<&std::fs::Metadata> for FileId {
    fn from(found: &std::fs::Metadata) -> FileId {
        use std::os::unix::fs::MetadataExt;
        FileId { dev: found.dev(), ino: found.ino() }
    }
}

impl FileId {
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    fn of(stat: &Stat) -> FileId {
        FileId { dev: stat.st_dev as u64, ino: stat.st_ino as u64 }
    }
}

/// Removes the content of a file from the cache of the host, as far as it is on the disk.
pub fn drop_cached(fd: impl std::os::fd::AsFd) {
    #[cfg(target_os = "linux")]
    {
        // It is a request: after an error the content is read from the cache.
        let _ = rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::DontNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = fd;
}

/// Requests the content of a file, up to 1 MiB, without waiting for it.
pub(crate) fn will_need(fd: impl std::os::fd::AsFd) {
    #[cfg(target_os = "linux")]
    {
        // It is a request: after an error the content is read later.
        let len = std::num::NonZeroU64::new(1 << 20);
        let _ = rustix::fs::fadvise(fd, 0, len, rustix::fs::Advice::WillNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = fd;
}

/// Writes the file system of the open file to the disk, or on some systems all file systems.
///
/// # Errors
/// The system's.
pub fn sync_around(fd: impl std::os::fd::AsFd) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(fd)?;
    #[cfg(not(target_os = "linux"))]
    {
        let _ = fd;
        rustix::fs::sync();
    }
    Ok(())
}

/// Raises the limit of open descriptors: a copy holds one for each level of the tree.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If it fails, only very deep trees fail, with a message.
    let _ = setrlimit(Resource::Nofile, limit);
}
