//! A sink that makes nothing: it compares what it is told with what an image holds.

use std::collections::BTreeMap;

use ffs_core::{Attr, Cred, DeviceNumber, Ffs, FileType, Ino, Vnode};

use crate::copy::{Entry, Kind, Meta, Sink, SinkError, SinkResult, Tally};
use crate::namei::{Last, namei};

/// Compares with the tree of an image.
pub(crate) struct Compare<'a> {
    ffs: &'a Ffs,
    cred: &'a Cred,
    open: Option<Vnode>,
    buf: Vec<u8>,
    identities: BTreeMap<u64, Ino>,
}

impl<'a> Compare<'a> {
    /// With the tree of `ffs`.
    pub(crate) fn new(ffs: &'a Ffs, cred: &'a Cred) -> Compare<'a> {
        Compare { ffs, cred, open: None, buf: Vec::new(), identities: BTreeMap::new() }
    }

    fn kind(&mut self, entry: &Entry, file: &Vnode, attr: &Attr) -> Result<bool, SinkError> {
        let skip = |error: ffs_core::Error| SinkError::Skip(error.to_string());
        let device = DeviceNumber::from_disk(attr.rdev);
        Ok(match &entry.kind {
            Kind::Directory => attr.kind == FileType::Directory,
            Kind::File(size) => {
                self.open = Some(file.clone());
                attr.kind == FileType::Regular && attr.size == *size
            }
            Kind::Symlink(text) => {
                attr.kind == FileType::Symlink && self.ffs.readlink(file).map_err(skip)? == *text
            }
            Kind::Fifo => attr.kind == FileType::Fifo,
            Kind::Socket => attr.kind == FileType::Socket,
            Kind::Char(dev) => attr.kind == FileType::Char && device == *dev,
            Kind::Block(dev) => attr.kind == FileType::Block && device == *dev,
            Kind::Link(_) => {
                let first = entry.identity.and_then(|id| self.identities.get(&id));
                first == Some(&attr.ino)
            }
        })
    }

    fn xattrs(&self, file: &Vnode, meta: &Meta) -> Result<bool, SinkError> {
        for attr in &meta.xattrs {
            let value = self.ffs.getxattr(self.cred, file, attr.namespace, &attr.name);
            if value.map_err(|error| SinkError::Skip(error.to_string()))? != attr.value {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn differs(what: &str) -> SinkResult {
    Err(SinkError::Skip(format!("{what} differs")))
}

impl Sink for Compare<'_> {
    fn entry(&mut self, entry: &Entry, _: &mut Tally) -> SinkResult {
        let found = namei(self.ffs, self.cred, &entry.path, Last::Keep);
        let file = found.map_err(|error| SinkError::Skip(error.to_string()))?;
        let attr = self.ffs.getattr(&file);
        if let Some(id) = entry.identity
            && !matches!(entry.kind, Kind::Link(_))
        {
            self.identities.insert(id, attr.ino);
        }
        let meta = &entry.meta;
        if !self.kind(entry, &file, &attr)? {
            return differs("the kind or the size");
        }
        let kept = self.ffs.acls() || self.ffs.nfs4_acls();
        let perm = if kept { meta.perm } else { meta.lists.mode_without(meta.perm) };
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
        let len = read.map_err(|error| SinkError::Skip(error.to_string()))?;
        if self.buf[..len] != *bytes { differs("the content") } else { Ok(()) }
    }

    fn end(&mut self, _: &mut Tally) -> SinkResult {
        self.open = None;
        Ok(())
    }

    fn abandon(&mut self) -> Option<String> {
        self.open = None;
        None
    }

    fn finish(&mut self, _: &mut Tally) -> SinkResult {
        Ok(())
    }
}
