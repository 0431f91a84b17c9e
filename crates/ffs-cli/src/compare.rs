//! Sinks that compare a tree with an image or with a directory, and create nothing.

mod host;

use std::collections::BTreeMap;

use bsdffs::copy::{
    CopyReport, Entry, EntryKind, EntryMeta, PartialFile, Sink, SinkError, SinkResult,
};
use bsdffs::namei::join;
use ffs_core::{Attr, Cred, DeviceNumber, Ffs, FileFlags, FileType, Ino, Vnode};

use crate::namei::{Last, namei};

pub(crate) use host::HostCompare;

/// Compares files with those of an image.
pub(crate) struct Compare<'a> {
    ffs: &'a Ffs,
    cred: &'a Cred,
    /// The directory to compare with.
    below: Vec<u8>,
    open: Option<Vnode>,
    /// Attributes of the open file that came after its data.
    late: Option<EntryMeta>,
    buf: Vec<u8>,
    identities: BTreeMap<u64, Ino>,
}

impl<'a> Compare<'a> {
    /// Compares with the image that is mounted as `ffs`.
    pub(crate) fn new(ffs: &'a Ffs, cred: &'a Cred) -> Compare<'a> {
        let (below, buf, identities) = (Vec::new(), Vec::new(), BTreeMap::new());
        Compare { ffs, cred, below, open: None, late: None, buf, identities }
    }

    /// Compares with the directory at `path`.
    pub(crate) fn below(self, path: &[u8]) -> Compare<'a> {
        Compare { below: path.to_vec(), ..self }
    }

    fn kind(&mut self, entry: &Entry, file: &Vnode, attr: &Attr) -> Result<bool, SinkError> {
        let skip = |error: ffs_core::Error| SinkError::skip(error);
        let device = DeviceNumber::from_disk(attr.rdev);
        Ok(match &entry.kind {
            EntryKind::Directory => attr.kind == FileType::Directory,
            EntryKind::File(size) => {
                self.open = Some(file.clone());
                attr.kind == FileType::Regular && attr.size == *size
            }
            EntryKind::Symlink(text) => {
                attr.kind == FileType::Symlink && self.ffs.readlink(file).map_err(skip)? == *text
            }
            EntryKind::Fifo => attr.kind == FileType::Fifo,
            EntryKind::Socket => attr.kind == FileType::Socket,
            EntryKind::Char(dev) => attr.kind == FileType::Char && device == *dev,
            EntryKind::Block(dev) => attr.kind == FileType::Block && device == *dev,
            EntryKind::Link(_) => {
                let first = entry.identity.and_then(|id| self.identities.get(&id));
                first == Some(&attr.ino)
            }
        })
    }

    fn xattrs(&self, file: &Vnode, meta: &EntryMeta) -> Result<bool, SinkError> {
        for attr in &meta.xattrs {
            let value = self.ffs.getxattr(self.cred, file, attr.namespace, &attr.name);
            if value.map_err(SinkError::skip)? != attr.value {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn differs(what: &str) -> SinkResult {
    Err(SinkError::skip(format!("{what} differs")))
}

impl Sink for Compare<'_> {
    fn entry(&mut self, entry: &Entry, _: &mut CopyReport) -> SinkResult {
        let found = namei(self.ffs, self.cred, &join(&self.below, &entry.path), Last::Keep);
        let file = found.map_err(SinkError::skip)?;
        let attr = self.ffs.getattr(&file);
        if let Some(id) = entry.identity
            && !matches!(entry.kind, EntryKind::Link(_))
        {
            self.identities.insert(id, attr.ino);
        }
        // A dump has snapshots as empty files.
        let snapshot = attr.flags.contains(FileFlags::SF_SNAPSHOT);
        if snapshot && matches!(entry.kind, EntryKind::File(0)) {
            return Ok(());
        }
        let meta = &entry.meta;
        if !self.kind(entry, &file, &attr)? {
            return differs("the kind or the size");
        }
        let kept = self.ffs.acls() || self.ffs.nfs4_acls();
        let perm = if kept { meta.perm } else { meta.acls.mode_without(meta.perm) };
        if attr.perm != perm {
            return differs("the mode");
        }
        if (attr.uid, attr.gid) != (meta.uid, meta.gid) {
            return differs("the owner");
        }
        // A file written through the mount has changed its root directory.
        if attr.mtime != meta.mtime && !entry.path.is_empty() {
            return differs("the time");
        }
        if !self.xattrs(&file, meta)? {
            return differs("an extended attribute");
        }
        Ok(())
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        let Some(file) = &self.open else { return Ok(()) };
        self.buf.resize(bytes.len(), 0);
        let read = self.ffs.read(file, offset, &mut self.buf);
        let len = read.map_err(SinkError::skip)?;
        if self.buf[..len] != *bytes { differs("the content") } else { Ok(()) }
    }

    fn late_attributes(&mut self, meta: EntryMeta) {
        self.late = Some(meta);
    }

    fn end(&mut self, _: &mut CopyReport) -> SinkResult {
        match (self.open.take(), self.late.take()) {
            (Some(file), Some(meta)) if !self.xattrs(&file, &meta)? => {
                differs("an extended attribute")
            }
            _ => Ok(()),
        }
    }

    fn abort(&mut self) -> Option<PartialFile> {
        (self.open, self.late) = (None, None);
        None
    }
}
