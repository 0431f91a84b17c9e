//! Hard links, and files without data: symbolic links, pipes, sockets, devices.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType};

use super::{HostSink, Target, c_name, discard, is_root, make_node, rename};
use crate::copy::entry::{Entry, EntryKind};
use crate::copy::error::{SinkError, SinkResult, SkipReason};
use crate::copy::host::FileId;
use crate::copy::path::split_last;
use crate::copy::report::{CopyReport, Loss};

impl HostSink {
    pub(super) fn link(&mut self, entry: &Entry, first: &[u8]) -> SinkResult {
        let (dir, first) = split_last(first);
        self.enter(dir)?;
        let from = self.top().try_clone_to_owned().map_err(SinkError::skip)?;
        let first = c_name(first)?;
        let (dir, name) = split_last(&entry.path);
        self.enter(dir)?;
        let file = rustix::fs::statat(&from, first.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
        let there = rustix::fs::statat(self.top(), name, AtFlags::SYMLINK_NOFOLLOW);
        if let (Ok(file), Ok(there)) = (file, there)
            && FileId::of(&file) == FileId::of(&there)
        {
            return Ok(());
        }
        let ((), target) = self.create(name, |dir, name| {
            rustix::fs::linkat(&from, first.as_c_str(), dir, name.as_c_str(), AtFlags::empty())
        })?;
        rename(self.top(), &target)
    }

    /// Whether a file of this kind has the name: a link with the same text, the same device.
    fn has_node(&self, name: &[u8], kind: &EntryKind) -> bool {
        let stat = rustix::fs::statat(self.top(), name, AtFlags::SYMLINK_NOFOLLOW);
        let Ok(stat) = stat else { return false };
        let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        let device = |number: &ffs_core::DeviceNumber| {
            (u64::from(number.major), u64::from(number.minor))
                == (u64::from(major), u64::from(minor))
        };
        match (FileType::from_raw_mode(stat.st_mode), kind) {
            (FileType::Symlink, EntryKind::Symlink(text)) => {
                let there = rustix::fs::readlinkat(self.top(), name, Vec::new());
                there.is_ok_and(|there| there.as_bytes() == text)
            }
            (FileType::CharacterDevice, EntryKind::Char(number))
            | (FileType::BlockDevice, EntryKind::Block(number)) => device(number),
            (FileType::Fifo, EntryKind::Fifo) | (FileType::Socket, EntryKind::Socket) => true,
            _ => false,
        }
    }

    /// Refuses to replace a file by a symbolic link to it, which would then lead to itself.
    fn check_loop(&self, name: &[u8], text: &[u8]) -> SinkResult {
        let there = rustix::fs::statat(self.top(), name, AtFlags::SYMLINK_NOFOLLOW);
        let target = rustix::fs::statat(self.top(), text, AtFlags::empty());
        match (there, target) {
            (Ok(there), Ok(target)) if FileId::of(&there) == FileId::of(&target) => {
                Err(SinkError::Skip(SkipReason::SameFile))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn node(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        self.enter(dir)?;
        if let EntryKind::Symlink(text) = &entry.kind {
            self.check_loop(name, text)?;
        }
        if self.options.resume && self.has_node(name, &entry.kind) {
            // An earlier copy created it.
            let name = c_name(name)?;
            return match self.options.preserve {
                true => self.node_attributes(&name, entry, report),
                false => Ok(()),
            };
        }
        let perm = if self.options.kept().mode { 0o600 } else { entry.meta.perm & 0o777 };
        let made = self.create(name, |dir, name| match &entry.kind {
            EntryKind::Symlink(text) => {
                rustix::fs::symlinkat(OsStr::from_bytes(text), dir, name.as_c_str())
            }
            kind => make_node(dir, name, kind, perm),
        });
        let target = match (made, &entry.kind) {
            (Ok(((), target)), _) => target,
            (Err(SinkError::Skip(_)), EntryKind::Char(_) | EntryKind::Block(_)) if !is_root() => {
                report.record_loss(Loss::Device);
                return Err(SinkError::Ignore);
            }
            (Err(SinkError::Skip(_)), EntryKind::Socket) => {
                report.record_loss(Loss::Socket);
                return Err(SinkError::Ignore);
            }
            (Err(error), _) => return Err(error),
        };
        let (Target::New(name) | Target::Replacing { temporary: name, .. }) = &target else {
            return Ok(());
        };
        if self.options.protect_created || matches!(entry.kind, EntryKind::Symlink(_)) {
            self.created.insert(FileId::of(&self.stat(name)?));
        }
        let set =
            if self.options.preserve { self.node_attributes(name, entry, report) } else { Ok(()) };
        if let Err(error) = set {
            discard(self.top(), &target);
            return Err(error);
        }
        rename(self.top(), &target)
    }
}
