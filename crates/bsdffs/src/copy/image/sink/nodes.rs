//! Hard links, and files without data: symbolic links, pipes, sockets, devices.

use ffs_core::{DeviceNumber, Error, FileFlags, FileType, NodeKind, SetAttr, Vnode};

use super::{ImageSink, Target};
use crate::copy::entry::{Entry, EntryKind};
use crate::copy::error::{SinkError, SinkResult, SkipReason};
use crate::copy::options::Attributes;
use crate::copy::path::split_last;
use crate::copy::report::CopyReport;
use crate::namei::{Last, namei_from};
use crate::text::escape;

impl ImageSink<'_> {
    /// Creates a hard link to a file of this copy.
    pub(super) fn link(&mut self, entry: &Entry, first: &[u8]) -> SinkResult {
        let known = entry.identity.and_then(|id| self.identities.get(&id));
        let missing = |error: Error| SinkError::skip(format!("link to {}: {error}", escape(first)));
        let file = match known {
            Some(&ino) => self.ffs().vget(ino, None).map_err(missing)?,
            None => self.find_first(first).map_err(missing)?,
        };
        let (dir, name) = split_last(&entry.path);
        let dir = self.directory(dir)?;
        let cred = self.cred();
        if let Ok(there) = self.ffs().lookup(cred, &dir, name)
            && self.ffs().getattr(&there).ino == self.ffs().getattr(&file).ino
        {
            return Ok(());
        }
        let attr = self.ffs().getattr(&file);
        if attr.kind == FileType::Directory {
            let first = escape(first);
            return Err(SinkError::skip(format!(
                "is a hard link to the directory {first}; directories cannot have several names"
            )));
        }
        // A file flag such as schg forbids further links: it is cleared and set again.
        let bare = SetAttr { flags: Some(FileFlags::empty()), ..SetAttr::default() };
        if !attr.flags.is_empty() {
            self.ffs().setattr(cred, &file, &bare).map_err(|error| self.error(error))?;
        }
        let target = dir.clone();
        let made = self.create(&dir, name, &entry.meta, |sink, name| {
            sink.ffs().link(cred, &file, &target, name).map(|()| file.clone())
        });
        if !attr.flags.is_empty() {
            let back = SetAttr { flags: Some(attr.flags), ..SetAttr::default() };
            self.ffs().setattr(cred, &file, &back).map_err(|error| self.error(error))?;
        }
        let (_, target) = made?;
        let renamed = self.rename(&dir, &target);
        if renamed.is_err() {
            self.discard(&dir, &target);
        }
        renamed
    }

    /// The file at `path`, which no symbolic link is followed to.
    fn find_first(&self, path: &[u8]) -> Result<Vnode, Error> {
        let mut names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        names.try_fold(self.root.clone(), |dir, name| self.ffs().lookup(self.cred(), &dir, name))
    }

    /// Creates a symbolic link, pipe, socket or device.
    pub(super) fn node(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        let dir = self.directory(dir)?;
        let (cred, parent, perm) = (self.cred(), dir.clone(), entry.meta.perm);
        let create = |sink: &Self, name: &[u8]| match &entry.kind {
            EntryKind::Symlink(text) => sink.ffs().symlink(cred, &parent, name, text),
            EntryKind::Socket => sink.ffs().create(cred, &parent, name, NodeKind::Socket, perm),
            EntryKind::Char(dev) => {
                let kind = NodeKind::Char(sink.device(*dev)?);
                sink.ffs().create(cred, &parent, name, kind, perm)
            }
            EntryKind::Block(dev) => {
                let kind = NodeKind::Block(sink.device(*dev)?);
                sink.ffs().create(cred, &parent, name, kind, perm)
            }
            _ => sink.ffs().create(cred, &parent, name, NodeKind::Fifo, perm),
        };
        if let EntryKind::Symlink(text) = &entry.kind {
            self.check_loop(&dir, name, text)?;
        }
        let (file, target) = match self.existing_node(&dir, name, &entry.kind) {
            Some(file) => (file, Target::Existing),
            None => self.create(&dir, name, &entry.meta, create)?,
        };
        self.note(entry, file.ino());
        let kept = self.options.kept();
        let own = if kept == Attributes::ALL || matches!(target, Target::Existing) {
            Ok(())
        } else if let EntryKind::Symlink(_) = entry.kind {
            self.set_owner(&file)
        } else {
            self.set_new(&file, &dir, perm & 0o777, None)
        };
        let set = own.and_then(|()| self.attributes(&file, &entry.meta, None, kept, report));
        let done = set.and_then(|()| self.rename(&dir, &target));
        if let Err(error) = done {
            self.discard(&dir, &target);
            return Err(error);
        }
        if kept.flags { self.set_flags(&file, entry.meta.flags) } else { Ok(()) }
    }

    /// With [`CopyOptions::resume`](crate::copy::CopyOptions::resume) a file of this kind that has
    /// the name: a link with the same text, the same device.
    fn existing_node(&self, dir: &Vnode, name: &[u8], kind: &EntryKind) -> Option<Vnode> {
        if !self.options.resume {
            return None;
        }
        let file = self.ffs().lookup(self.cred(), dir, name).ok()?;
        let attr = self.ffs().getattr(&file);
        let same = Some(attr.kind) == kind.file_type()
            && kind.device().is_none_or(|number| DeviceNumber::from_disk(attr.rdev) == number)
            && match kind {
                EntryKind::Symlink(text) => self.ffs().readlink(&file).is_ok_and(|t| t == *text),
                _ => true,
            };
        same.then_some(file)
    }

    /// Refuses to replace a file by a symbolic link to it, which would then lead to itself.
    fn check_loop(&self, dir: &Vnode, name: &[u8], text: &[u8]) -> SinkResult {
        let from = if text.starts_with(b"/") { self.ffs().root() } else { Ok(dir.clone()) };
        let from = from.map_err(|error| self.error(error))?;
        let (ffs, cred) = (self.ffs(), self.cred());
        let there = ffs.lookup(cred, dir, name);
        let target = namei_from(ffs, cred, from, text, Last::Follow);
        match (there, target) {
            (Ok(there), Ok(target)) if ffs.getattr(&there).ino == ffs.getattr(&target).ino => {
                Err(SinkError::Skip(SkipReason::SameFile))
            }
            _ => Ok(()),
        }
    }

    fn device(&self, number: DeviceNumber) -> Result<u64, Error> {
        let encoded = number.to_disk(self.ffs().geometry().format);
        encoded.ok_or(Error::Invalid("UFS1 cannot store this device number"))
    }
}
