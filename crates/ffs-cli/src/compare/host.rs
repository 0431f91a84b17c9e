//! A sink that compares a tree with a directory of the host and creates nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use bsdffs::copy::{
    CopyReport, Entry, EntryKind, FileId, PartialFile, Sink, SinkError, SinkResult,
};
use ffs_core::DeviceNumber;

use super::differs;

/// Compares files with those of a directory. It does not follow a symbolic link at the end of a
/// path.
pub(crate) struct HostCompare {
    root: PathBuf,
    open: Option<File>,
    buf: Vec<u8>,
    identities: BTreeMap<u64, FileId>,
}

impl HostCompare {
    /// Compares with the directory `root`.
    pub(crate) fn new(root: PathBuf) -> HostCompare {
        HostCompare { root, open: None, buf: Vec::new(), identities: BTreeMap::new() }
    }

    fn kind(&mut self, entry: &Entry, path: &PathBuf, found: &Metadata) -> Result<bool, SinkError> {
        let kind = found.file_type();
        let device = DeviceNumber::from_linux(found.rdev());
        Ok(match &entry.kind {
            EntryKind::Directory => kind.is_dir(),
            EntryKind::File(size) => {
                let same = kind.is_file() && found.len() == *size;
                if same {
                    self.open = Some(File::open(path).map_err(SinkError::skip)?);
                }
                same
            }
            EntryKind::Symlink(text) => {
                kind.is_symlink()
                    && fs::read_link(path).map_err(SinkError::skip)?.as_os_str().as_bytes() == text
            }
            EntryKind::Fifo => kind.is_fifo(),
            EntryKind::Socket => kind.is_socket(),
            EntryKind::Char(dev) => kind.is_char_device() && device == *dev,
            EntryKind::Block(dev) => kind.is_block_device() && device == *dev,
            EntryKind::Link(_) => {
                let first = entry.identity.and_then(|id| self.identities.get(&id));
                first == Some(&FileId::from(found))
            }
        })
    }
}

/// Whether the file is a snapshot on an ffs mount.
fn is_snapshot(path: &Path) -> bool {
    ffs_fuse::is_snapshot(path).unwrap_or(false)
}

impl Sink for HostCompare {
    fn entry(&mut self, entry: &Entry, _: &mut CopyReport) -> SinkResult {
        let path = self.root.join(OsStr::from_bytes(&entry.path));
        let found = fs::symlink_metadata(&path).map_err(SinkError::skip)?;
        if let Some(id) = entry.identity
            && !matches!(entry.kind, EntryKind::Link(_))
        {
            self.identities.insert(id, FileId::from(&found));
        }
        // A dump has snapshots as empty files.
        let empty = matches!(entry.kind, EntryKind::File(0));
        if empty && found.is_file() && found.len() > 0 && is_snapshot(&path) {
            return Ok(());
        }
        if !self.kind(entry, &path, &found)? {
            return differs("the kind or the size");
        }
        let meta = &entry.meta;
        let link = found.is_symlink();
        if !link && (found.mode() & 0o7777) as u16 != meta.perm {
            return differs("the mode");
        }
        if (found.uid(), found.gid()) != (meta.uid, meta.gid) {
            return differs("the owner");
        }
        let mtime = (found.mtime(), found.mtime_nsec());
        // The table of an incremental restore has changed the root directory.
        if mtime != (meta.mtime.secs, meta.mtime.nsec.into()) && !entry.path.is_empty() {
            return differs("the time");
        }
        Ok(())
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        let Some(file) = &self.open else { return Ok(()) };
        self.buf.resize(bytes.len(), 0);
        file.read_exact_at(&mut self.buf, offset).map_err(SinkError::skip)?;
        if self.buf != bytes { differs("the content") } else { Ok(()) }
    }

    fn end(&mut self, _: &mut CopyReport) -> SinkResult {
        self.open = None;
        Ok(())
    }

    fn abort(&mut self) -> Option<PartialFile> {
        self.open = None;
        None
    }
}
