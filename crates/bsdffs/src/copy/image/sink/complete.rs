//! The end of a file: its attributes and its name, and the files that an earlier copy left.
//!
//! # Invariants
//! 1. With [`CopyOptions::safe_times`](crate::copy::CopyOptions::safe_times) a file gets its times
//!    and its flags after a sync that came after its content. So a file with the size and the time
//!    of its source has its content, also after a power failure.
//! 2. A new file has the mode 0 until it is complete, if root creates it. So a file that an earlier
//!    copy left unfinished differs from an existing file, which keeps its mode.

use ffs_core::{Error, FileFlags, FileType, Ino, SetAttr, SetTime, Timespec, Vnode};

use super::{ImageSink, OpenFile, Target};
use crate::copy::entry::{Entry, EntryKind};
use crate::copy::error::{SinkError, SinkResult};
use crate::copy::options::Attributes;
use crate::copy::path::split_last;
use crate::copy::report::CopyReport;
use crate::copy::resume::{OldContent, Resume};

/// Bytes and files between two syncs.
const SYNC_BYTES: u64 = 128 << 20;
const SYNC_FILES: usize = 8192;

/// Files whose times are set after the next sync.
#[derive(Default)]
pub(super) struct Unsynced {
    files: Vec<Times>,
    bytes: u64,
}

struct Times {
    ino: Ino,
    atime: Timespec,
    mtime: Timespec,
    flags: Option<FileFlags>,
}

/// The content of a file of an image.
pub(super) struct ImageContent<'a, 'b> {
    pub(super) sink: &'a ImageSink<'b>,
    pub(super) file: &'a Vnode,
    /// The time of the source.
    pub(super) mtime: Timespec,
}

impl OldContent for ImageContent<'_, '_> {
    fn read(&self, at: u64, buf: &mut [u8]) -> Result<usize, SinkError> {
        self.sink.ffs().read(self.file, at, buf).map_err(|error| self.sink.error(error))
    }

    fn next_data(&self, at: u64, end: u64) -> Result<Option<(u64, u64)>, SinkError> {
        let (ffs, file) = (self.sink.ffs(), self.file);
        let start = match ffs.seek_data(file, at) {
            Ok(start) if start < end => start,
            Ok(_) | Err(Error::NoData) => return Ok(None),
            Err(error) => return Err(self.sink.error(error)),
        };
        let stop = ffs.seek_hole(file, start).map_err(|error| self.sink.error(error))?;
        Ok((start < stop).then_some((start, stop)))
    }

    fn truncate(&self, size: u64) -> Result<(), SinkError> {
        self.sink.mark_changed(self.file, self.mtime)?;
        self.sink.set(self.file, &SetAttr { size: Some(size), ..SetAttr::default() })
    }
}

impl ImageSink<'_> {
    /// The mode of a new file until it is complete.
    pub(super) fn unfinished_perm(&self) -> u16 {
        if self.cred().is_root { 0 } else { 0o600 }
    }

    /// The target and the comparison of the existing file `file`, whose content stays.
    pub(super) fn resumed(&self, name: &[u8], file: &Vnode) -> (Target, Resume) {
        let attr = self.ffs().getattr(file);
        let target = match attr.perm {
            0 => Target::New(name.to_vec()),
            _ => Target::Existing,
        };
        (target, Resume::new(attr.size))
    }

    /// Makes a file that looks complete differ from its source, before its content changes.
    fn mark_changed(&self, file: &Vnode, mtime: Timespec) -> SinkResult {
        if self.ffs().getattr(file).mtime != mtime {
            return Ok(());
        }
        self.set(file, &SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() })?;
        self.ffs().fsync(file).map_err(|error| self.error(error))
    }

    /// Sets the attributes of a file with all of its data, and gives it its name.
    pub(super) fn complete(&mut self, open: &OpenFile, report: &mut CopyReport) -> SinkResult {
        let OpenFile { file, dir, target, meta, .. } = open;
        let mut size = (open.size > open.written).then_some(open.size);
        let mut kept = self.options.kept();
        let mut flags = kept.flags.then_some(meta.flags);
        if kept != Attributes::ALL {
            match target {
                Target::Existing => self.set_owner_and_size(file, size)?,
                Target::Replacing { old, .. }
                    if self.ffs().getattr(old).kind == FileType::Regular =>
                {
                    self.copy_old_attributes(old, file, size)?;
                    flags = flags.or(Some(self.ffs().getattr(old).flags));
                }
                Target::New(_) | Target::Replacing { .. } => {
                    self.set_new(file, dir, meta.perm & 0o777, size)?;
                }
            }
            size = None;
        }
        let late = self.options.safe_times && kept.timestamps;
        kept.timestamps &= !late;
        self.attributes(file, meta, size, kept, report)?;
        self.rename(dir, target)?;
        if !late {
            return flags.map_or(Ok(()), |flags| self.set_flags(file, flags));
        }
        let (ino, atime, mtime) = (file.ino(), meta.atime, meta.mtime);
        self.unsynced.files.push(Times { ino, atime, mtime, flags });
        self.unsynced.bytes += open.size;
        if self.unsynced.bytes >= SYNC_BYTES || self.unsynced.files.len() >= SYNC_FILES {
            self.sync_times()?;
        }
        Ok(())
    }

    /// Syncs the volume, and sets the times of the files that came before.
    pub(super) fn sync_times(&mut self) -> SinkResult {
        let files = std::mem::take(&mut self.unsynced).files;
        if files.is_empty() {
            return Ok(());
        }
        self.ffs().sync().map_err(|error| self.error(error))?;
        for Times { ino, atime, mtime, flags } in files {
            let file = self.ffs().vget(ino, None).map_err(|error| self.error(error))?;
            let (atime, mtime) = (Some(SetTime::To(atime)), Some(SetTime::To(mtime)));
            self.set(&file, &SetAttr { atime, mtime, ..SetAttr::default() })?;
            if let Some(flags) = flags {
                self.set_flags(&file, flags)?;
            }
        }
        Ok(())
    }

    /// Sets the attributes of an existing file that has the content of `entry`.
    pub(super) fn complete_unchanged(
        &mut self,
        entry: &Entry,
        report: &mut CopyReport,
    ) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        let dir = self.directory(dir)?;
        let found = self.ffs().lookup(self.cred(), &dir, name);
        let file = found.map_err(|error| self.error(error))?;
        let (attr, meta, kept) = (self.ffs().getattr(&file), &entry.meta, self.options.kept());
        self.note(entry, attr.ino);
        let owner = self.options.owner.unwrap_or((meta.uid, meta.gid));
        let same = (attr.perm == meta.perm || !kept.mode)
            && ((attr.uid, attr.gid) == owner || !kept.ownership)
            && (attr.flags == crate::flags::portable(meta.flags) || !kept.flags);
        if same {
            return Ok(());
        }
        if !attr.flags.is_empty() {
            // A flag such as schg forbids the rest.
            let bare = SetAttr { flags: Some(FileFlags::empty()), ..SetAttr::default() };
            self.set(&file, &bare)?;
        }
        self.attributes(&file, meta, None, kept, report)?;
        self.set_flags(&file, if kept.flags { meta.flags } else { attr.flags })
    }

    /// Notes that the file of `entry` has the inode number `ino`.
    pub(super) fn note(&mut self, entry: &Entry, ino: Ino) {
        if let Some(id) = entry.identity {
            self.identities.insert(id, ino);
        }
        if self.options.protect_created || matches!(entry.kind, EntryKind::Symlink(_)) {
            self.created.insert(ino);
        }
    }
}
