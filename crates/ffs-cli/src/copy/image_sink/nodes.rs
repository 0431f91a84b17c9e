//! Names of files made before, and files without content: links, pipes, sockets, devices.

use ffs_core::{DeviceNumber, Error, FileFlags, FileType, NodeKind, SetAttr, Vnode};

use super::ImageSink;
use crate::copy::policy::SAME_FILE;
use crate::copy::{Entry, Kind, SinkError, SinkResult, Tally, split_last};
use crate::fail::show;
use crate::namei::{Last, namei_from};

impl ImageSink<'_> {
    /// Another name of a file made before.
    pub(super) fn link(&mut self, entry: &Entry, first: &[u8]) -> SinkResult {
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
        let attr = self.ffs.getattr(&file);
        if attr.kind == FileType::Directory {
            let first = show(first);
            return Err(SinkError::Skip(format!(
                "is a hard link to the directory {first}; only other files can have several names"
            )));
        }
        // A flag such as schg forbids more names: it is taken off and put back.
        let bare = SetAttr { flags: Some(FileFlags::empty()), ..SetAttr::default() };
        if !attr.flags.is_empty() {
            self.ffs.setattr(cred, &file, &bare).map_err(|error| self.error(error))?;
        }
        let target = dir.clone();
        let made = self.make(&dir, name, &entry.meta, |sink, name| {
            sink.ffs.link(cred, &file, &target, name).map(|()| file.clone())
        });
        if !attr.flags.is_empty() {
            let back = SetAttr { flags: Some(attr.flags), ..SetAttr::default() };
            self.ffs.setattr(cred, &file, &back).map_err(|error| self.error(error))?;
        }
        let (_, slot) = made?;
        let renamed = self.rename(&dir, &slot);
        if renamed.is_err() {
            self.discard(&dir, &slot);
        }
        renamed
    }

    /// What is neither a directory, nor a regular file, nor a link to one.
    pub(super) fn node(&mut self, entry: &Entry, tally: &mut Tally) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        let dir = self.directory(dir)?;
        let (cred, parent, perm) = (self.cred, dir.clone(), entry.meta.perm);
        let make = |sink: &Self, name: &[u8]| match &entry.kind {
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
        };
        if let Kind::Symlink(text) = &entry.kind {
            self.check_loop(&dir, name, text)?;
        }
        let (file, slot) = self.make(&dir, name, &entry.meta, make)?;
        let ino = self.ffs.getattr(&file).ino;
        if let Some(id) = entry.identity {
            self.identities.insert(id, ino);
        }
        if self.policy.guard || matches!(entry.kind, Kind::Symlink(_)) {
            self.made.insert(ino);
        }
        let set = if self.policy.preserve {
            self.attributes(&file, &entry.meta, None, tally)
        } else if let Kind::Symlink(_) = entry.kind {
            self.set_owner(&file)
        } else {
            self.set_new(&file, &dir, perm & 0o777, None)
        };
        let done = set.and_then(|()| self.rename(&dir, &slot));
        if let Err(error) = done {
            self.discard(&dir, &slot);
            return Err(error);
        }
        if self.policy.preserve { self.set_flags(&file, entry.meta.flags) } else { Ok(()) }
    }

    /// Refuses to replace a file by a symbolic link that led to it, and would lead to itself.
    fn check_loop(&self, dir: &Vnode, name: &[u8], text: &[u8]) -> SinkResult {
        let from = if text.starts_with(b"/") { self.ffs.root() } else { Ok(dir.clone()) };
        let from = from.map_err(|error| self.error(error))?;
        let (ffs, cred) = (self.ffs, self.cred);
        let there = ffs.lookup(cred, dir, name);
        let target = namei_from(ffs, cred, from, text, Last::Follow);
        match (there, target) {
            (Ok(there), Ok(target)) if ffs.getattr(&there).ino == ffs.getattr(&target).ino => {
                Err(SinkError::Skip(SAME_FILE.to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn device(&self, number: DeviceNumber) -> Result<u64, Error> {
        let encoded = number.to_disk(self.ffs.geometry().format);
        encoded.ok_or(Error::Invalid("UFS1 has no room for this device number"))
    }
}
