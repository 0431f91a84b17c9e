//! Trees of the host.

mod sink;
mod source;
mod xattrs;

use rustix::fs::Stat;

pub use sink::HostSink;
pub use source::{HostSource, HostSourceOptions};
pub(crate) use source::{next_data, open_regular};
pub(crate) use xattrs::loss_of_attribute;

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

/// Raises the limit of open descriptors: a copy holds one for each level of the tree.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If it fails, only very deep trees fail, with a message.
    let _ = setrlimit(Resource::Nofile, limit);
}
