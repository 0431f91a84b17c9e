//! Makes files in an image.
//!
//! **Invariants.**
//! 1. What is replaced is replaced by a rename of the complete file.
//! 2. Directories get their times and flags last, in [`Sink::finish`].

use std::collections::BTreeMap;

use ffs_admin::counted;
use ffs_core::{
    Cred, DeviceNumber, Error, Ffs, FileFlags, FileType, Ino, NodeKind, RenameMode, SetAttr,
    SetIdBits, SetTime, Vnode, WriteMode, XattrSet,
};

use super::{Entry, Kind, Loss, Meta, Sink, SinkError, SinkResult, Tally, flags, split_last};
use crate::fail::{Failure, show};
use crate::namei::components;
use crate::output::human;

/// Writes a tree below a directory of an image.
pub(crate) struct ImageSink<'a> {
    ffs: &'a Ffs,
    cred: &'a Cred,
    image: String,
    root: Vnode,
    /// The directory worked in: its components below the root, and their files.
    stack: Vec<(Vec<u8>, Vnode)>,
    /// Directories with what is set last.
    directories: Vec<(Ino, Vec<u8>, Meta)>,
    /// Files with several names by the number their source gave them.
    identities: BTreeMap<u64, Ino>,
    open: Option<Open>,
    temporaries: u64,
}

/// The file that data is written to.
struct Open {
    file: Vnode,
    dir: Vnode,
    /// Name it has now, and the name it is renamed to when complete.
    name: Vec<u8>,
    replaces: Option<Vec<u8>>,
    size: u64,
    written: u64,
    meta: Meta,
}

/// A new file, the name it was made under, and the name it is to replace.
type Made = (Vnode, Vec<u8>, Option<Vec<u8>>);

impl<'a> ImageSink<'a> {
    /// A sink for the directory `root`.
    pub(crate) fn new(ffs: &'a Ffs, cred: &'a Cred, image: &str, root: Vnode) -> ImageSink<'a> {
        ImageSink {
            ffs,
            cred,
            image: image.to_owned(),
            root,
            stack: Vec::new(),
            directories: Vec::new(),
            identities: BTreeMap::new(),
            open: None,
            temporaries: 0,
        }
    }

    /// Turns an error of the file system into what it means for the copy.
    fn error(&self, error: Error) -> SinkError {
        let full = |full: bool| {
            let stat = self.ffs.statfs();
            // What the unfinished file takes is given back.
            let own =
                self.open.as_ref().map_or(0, |open| self.ffs.getattr(&open.file).blocks * 512);
            let free = stat.frags_free * u64::from(stat.fsize) + own;
            let free = format!("{} and {}", human(free), counted(stat.inodes_free, "inode"));
            let failure = Failure::new(&self.image, format!("{error} ({free} are free)"));
            let hint = "what was copied before stays; make a larger image with `ffs build --size`";
            SinkError::Stop(Failure { full, ..failure.hint(hint) })
        };
        match error {
            Error::NoSpace => full(true),
            Error::NoInodes => full(false),
            Error::Io(error) => SinkError::Stop(Failure::new(&self.image, error)),
            Error::ReadOnly(_) => SinkError::Stop(Failure::new(&self.image, error)),
            other => SinkError::Skip(other.to_string()),
        }
    }

    /// The directory at `path`, made if it is not there.
    fn directory(&mut self, path: &[u8]) -> Result<Vnode, SinkError> {
        let mut depth = 0;
        let mut names = components(path);
        let mut next = names.next();
        while let (Some(name), Some((have, _))) = (next, self.stack.get(depth)) {
            if name != have {
                break;
            }
            depth += 1;
            next = names.next();
        }
        self.stack.truncate(depth);
        while let Some(name) = next {
            let dir = self.top();
            let below = match self.ffs.lookup(self.cred, &dir, name) {
                Ok(below) => below,
                Err(Error::NotFound) => {
                    let made = self.ffs.mkdir(self.cred, &dir, name, 0o755);
                    made.map_err(|error| self.error(error))?
                }
                Err(error) => return Err(self.error(error)),
            };
            if self.ffs.getattr(&below).kind != FileType::Directory {
                let name = show(name);
                return Err(SinkError::Skip(format!("{name} is there and is not a directory")));
            }
            self.stack.push((name.to_vec(), below));
            next = names.next();
        }
        Ok(self.top())
    }

    fn top(&self) -> Vnode {
        self.stack.last().map_or_else(|| self.root.clone(), |(_, dir)| dir.clone())
    }

    fn make_directory(&mut self, entry: &Entry) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        if name.is_empty() {
            let root = self.ffs.getattr(&self.root).ino;
            self.directories.push((root, Vec::new(), entry.meta.clone()));
            return Ok(());
        }
        let parent = self.directory(dir)?;
        let made = match self.ffs.mkdir(self.cred, &parent, name, entry.meta.perm) {
            Err(Error::Exists) => {
                let there = self.ffs.lookup(self.cred, &parent, name);
                let there = there.map_err(|error| self.error(error))?;
                if self.ffs.getattr(&there).kind != FileType::Directory {
                    return Err(SinkError::Skip("is there and is not a directory".to_owned()));
                }
                there
            }
            other => other.map_err(|error| self.error(error))?,
        };
        let ino = self.ffs.getattr(&made).ino;
        self.directories.push((ino, entry.path.clone(), entry.meta.clone()));
        self.stack.push((name.to_vec(), made));
        Ok(())
    }

    /// Runs `make` with the name in the directory; where that is taken, with another that then
    /// replaces it.
    fn make(
        &mut self,
        dir: &Vnode,
        name: &[u8],
        mut make: impl FnMut(&Self, &[u8]) -> Result<Vnode, Error>,
    ) -> Result<Made, SinkError> {
        match make(self, name) {
            Err(Error::Exists) => {}
            Ok(file) => return Ok((file, name.to_vec(), None)),
            Err(error) => return Err(self.error(error)),
        }
        let there = self.ffs.lookup(self.cred, dir, name).map_err(|error| self.error(error))?;
        if self.ffs.getattr(&there).kind == FileType::Directory {
            return Err(SinkError::Skip("is there and is a directory".to_owned()));
        }
        loop {
            let temporary = super::temporary_name(self.temporaries);
            self.temporaries += 1;
            match make(self, &temporary) {
                Err(Error::Exists) => {}
                Ok(file) => return Ok((file, temporary, Some(name.to_vec()))),
                Err(error) => return Err(self.error(error)),
            }
        }
    }

    fn rename(&self, dir: &Vnode, from: &[u8], to: Option<&[u8]>) -> SinkResult {
        let Some(to) = to else { return Ok(()) };
        let renamed = self.ffs.rename(self.cred, (dir, from), (dir, to), RenameMode::Replace);
        renamed.map_err(|error| {
            // The old file stays; the new one has no name it could keep.
            let _ = self.ffs.unlink(self.cred, dir, from);
            self.error(error)
        })
    }

    /// Another name of a file made before.
    fn link(&mut self, entry: &Entry, first: &[u8]) -> SinkResult {
        let known = entry.identity.and_then(|id| self.identities.get(&id));
        let gone = |error: Error| SinkError::Skip(format!("link to {}: {error}", show(first)));
        let file = match known {
            Some(&ino) => self.ffs.vget(ino, None).map_err(gone)?,
            None => {
                let (dir, name) = split_last(first);
                let dir = self.directory(dir)?;
                self.ffs.lookup(self.cred, &dir, name).map_err(gone)?
            }
        };
        let (dir, name) = split_last(&entry.path);
        let dir = self.directory(dir)?;
        let cred = self.cred;
        if let Ok(there) = self.ffs.lookup(cred, &dir, name)
            && self.ffs.getattr(&there).ino == self.ffs.getattr(&file).ino
        {
            return Ok(());
        }
        // A flag such as schg forbids more names: it is taken off and put back.
        let attr = self.ffs.getattr(&file);
        let bare = SetAttr { flags: Some(FileFlags::empty()), ..SetAttr::default() };
        if !attr.flags.is_empty() {
            self.ffs.setattr(cred, &file, &bare).map_err(|error| self.error(error))?;
        }
        let target = dir.clone();
        let made = self.make(&dir, name, |sink, name| {
            sink.ffs.link(cred, &file, &target, name).map(|()| file.clone())
        });
        if !attr.flags.is_empty() {
            let back = SetAttr { flags: Some(attr.flags), ..SetAttr::default() };
            self.ffs.setattr(cred, &file, &back).map_err(|error| self.error(error))?;
        }
        let (_, name, replaces) = made?;
        self.rename(&dir, &name, replaces.as_deref())
    }

    /// What is neither a directory, nor a regular file, nor a link to one.
    fn node(&mut self, entry: &Entry, tally: &mut Tally) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        let dir = self.directory(dir)?;
        let (cred, parent, perm) = (self.cred, dir.clone(), entry.meta.perm);
        let (file, name, replaces) = self.make(&dir, name, |sink, name| match &entry.kind {
            Kind::Symlink(text) => sink.ffs.symlink(cred, &parent, name, text),
            Kind::Socket => sink.ffs.create(cred, &parent, name, NodeKind::Socket, perm),
            Kind::Char(dev) => {
                let kind = NodeKind::Char(sink.device(*dev)?);
                sink.ffs.create(cred, &parent, name, kind, perm)
            }
            Kind::Block(dev) => {
                let kind = NodeKind::Block(sink.device(*dev)?);
                sink.ffs.create(cred, &parent, name, kind, perm)
            }
            _ => sink.ffs.create(cred, &parent, name, NodeKind::Fifo, perm),
        })?;
        if let Some(id) = entry.identity {
            self.identities.insert(id, self.ffs.getattr(&file).ino);
        }
        self.rename(&dir, &name, replaces.as_deref())?;
        self.attributes(&file, &entry.meta, None, tally)
    }

    fn device(&self, number: DeviceNumber) -> Result<u64, Error> {
        let encoded = number.to_disk(self.ffs.geometry().format);
        encoded.ok_or(Error::Invalid("UFS1 has no room for this device number"))
    }

    /// Sets everything about a file; its flags at last, as they may forbid the rest.
    fn attributes(
        &self,
        file: &Vnode,
        meta: &Meta,
        size: Option<u64>,
        tally: &mut Tally,
    ) -> SinkResult {
        let set = SetAttr {
            perm: Some(meta.perm),
            uid: Some(meta.uid),
            gid: Some(meta.gid),
            size,
            atime: Some(SetTime::To(meta.atime)),
            mtime: Some(SetTime::To(meta.mtime)),
            birthtime: Some(meta.birthtime),
            flags: None,
            // They are what is copied.
            set_id: SetIdBits::Keep,
        };
        for attr in &meta.xattrs {
            let (namespace, name) = (attr.namespace, &attr.name);
            let how = XattrSet::Any;
            match self.ffs.setxattr(self.cred, file, namespace, name, &attr.value, how) {
                Ok(()) => {}
                Err(Error::NotSupported(_)) => tally.lose(Loss::Xattr),
                Err(error @ (Error::NoSpace | Error::Io(_))) => return Err(self.error(error)),
                Err(error) => {
                    let name = show(name);
                    return Err(SinkError::Skip(format!("attribute {name}: {error}")));
                }
            }
        }
        self.ffs.setattr(self.cred, file, &set).map_err(|error| self.error(error))?;
        let flags = flags::portable(meta.flags);
        if flags.is_empty() {
            return Ok(());
        }
        let set = SetAttr { flags: Some(flags), ..SetAttr::default() };
        self.ffs.setattr(self.cred, file, &set).map_err(|error| self.error(error))?;
        Ok(())
    }
}

impl Sink for ImageSink<'_> {
    fn entry(&mut self, entry: &Entry, tally: &mut Tally) -> SinkResult {
        match &entry.kind {
            Kind::Directory => self.make_directory(entry),
            Kind::Link(first) => self.link(entry, first),
            Kind::File(size) => {
                let (dir, name) = split_last(&entry.path);
                let dir = self.directory(dir)?;
                let (cred, parent) = (self.cred, dir.clone());
                let (file, name, replaces) = self.make(&dir, name, |sink, name| {
                    sink.ffs.create(cred, &parent, name, NodeKind::Regular, 0o600)
                })?;
                if let Some(id) = entry.identity {
                    self.identities.insert(id, self.ffs.getattr(&file).ino);
                }
                let (size, meta) = (*size, entry.meta.clone());
                self.open = Some(Open { file, dir, name, replaces, size, written: 0, meta });
                Ok(())
            }
            _ => self.node(entry, tally),
        }
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        let Some(open) = &mut self.open else { return Ok(()) };
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let mode = WriteMode { set_id: SetIdBits::Keep, ..WriteMode::default() };
            match self.ffs.write(self.cred, &open.file, at, rest, mode) {
                Ok(0) => return Err(self.error(Error::NoSpace)),
                Ok(len) => {
                    at += len as u64;
                    rest = &rest[len.min(rest.len())..];
                }
                Err(error) => return Err(self.error(error)),
            }
        }
        open.written = open.written.max(at);
        Ok(())
    }

    fn end(&mut self, tally: &mut Tally) -> SinkResult {
        let Some(open) = self.open.take() else { return Ok(()) };
        let size = (open.size > open.written).then_some(open.size);
        self.rename(&open.dir, &open.name, open.replaces.as_deref())?;
        self.attributes(&open.file, &open.meta, size, tally)
    }

    fn abandon(&mut self) {
        if let Some(open) = self.open.take() {
            // Best effort: what made it necessary is reported.
            let _ = self.ffs.unlink(self.cred, &open.dir, &open.name);
        }
    }

    fn finish(&mut self, tally: &mut Tally) -> SinkResult {
        self.stack.clear();
        for (ino, path, meta) in std::mem::take(&mut self.directories) {
            let dir = self.ffs.vget(ino, None).map_err(|error| self.error(error))?;
            self.attributes(&dir, &meta, None, tally)?;
            tally.name_losses(&path);
        }
        Ok(())
    }
}
