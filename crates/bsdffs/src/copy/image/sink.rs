//! A directory of an image as a sink.
//!
//! # Invariants
//! 1. A file is replaced by renaming a complete new file to its name.
//! 2. A symbolic link that this copy created is not followed.
//! 3. Directories get the attributes to preserve last, in [`Sink::finish`].

mod attributes;
mod complete;
mod nodes;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use ffs_admin::counted;
use ffs_core::{
    Cred, Error, Ffs, FileFlags, FileType, Ino, NodeKind, RenameMode, SetAttr, Vnode, WriteMode,
};

use super::ImageRef;
use crate::copy::entry::{Entry, EntryKind, EntryMeta};
use crate::copy::error::{CopyError, PartialFile, SinkError, SinkResult, SkipReason};
use crate::copy::options::{Attributes, CopyOptions, Existing};
use crate::copy::path::{PathStack, create_under_temporary_name, split_last};
use crate::copy::report::CopyReport;
use crate::copy::resume::Resume;
use crate::copy::sink::{Sink, SkippedPath};
use crate::namei::{Last, namei_from};
use crate::text::{escape, human_size};
use complete::{ImageContent, Unsynced};

/// Creates a tree below a directory of an image.
pub struct ImageSink<'a> {
    image: ImageRef<'a>,
    root: Vnode,
    options: CopyOptions,
    /// The directories below the root.
    stack: PathStack<Vnode>,
    /// Directories that get their attributes last.
    directories: Vec<(Ino, Vec<u8>, EntryMeta)>,
    /// With [`CopyOptions::safe_times`] the files that get their times after a sync.
    unsynced: Unsynced,
    /// Files with several names, by [`Entry::identity`].
    identities: BTreeMap<u64, Ino>,
    /// Symbolic links that this copy created; with [`CopyOptions::protect_created`] all files
    /// except directories.
    created: BTreeSet<Ino>,
    /// With [`CopyOptions::late_flags`] the flags of files, which they get at the end.
    late_flags: RefCell<BTreeMap<Ino, FileFlags>>,
    open: Option<OpenFile>,
    /// Temporary names used so far.
    temporaries: u64,
}

/// The file that receives data.
struct OpenFile {
    file: Vnode,
    dir: Vnode,
    target: Target,
    /// Bytes.
    size: u64,
    /// End of the data written last, bytes.
    written: u64,
    meta: EntryMeta,
    /// The old content is compared with that of the source.
    resume: Option<Resume>,
}

/// How a file gets its name.
enum Target {
    /// It is new and has its name.
    New(Vec<u8>),
    /// It is new and has the name `temporary` until it is complete. Then it is renamed to `name`,
    /// and replaces `old`.
    Replacing { temporary: Vec<u8>, name: Vec<u8>, old: Vnode },
    /// It existed, and its content is overwritten.
    Existing,
}

impl<'a> ImageSink<'a> {
    /// A sink for the directory `root` of `image`.
    #[must_use]
    pub fn new(image: ImageRef<'a>, root: Vnode, options: CopyOptions) -> ImageSink<'a> {
        ImageSink {
            image,
            root,
            options,
            stack: PathStack::new(),
            directories: Vec::new(),
            unsynced: Unsynced::default(),
            identities: BTreeMap::new(),
            created: BTreeSet::new(),
            late_flags: RefCell::default(),
            open: None,
            temporaries: 0,
        }
    }

    /// The error of the copy after `error` of the file system.
    fn error(&self, error: Error) -> SinkError {
        match error {
            Error::NoSpace | Error::NoInodes => SinkError::Stop(self.full(&error)),
            Error::Io(_) | Error::ReadOnly(_) => {
                SinkError::Stop(CopyError::at(self.image.name, error))
            }
            Error::NotPermitted => SinkError::Skip(SkipReason::FileFlag(error)),
            other => SinkError::skip(other),
        }
    }

    /// The error of a full volume, with the space that is free after the copy.
    fn full(&self, error: &Error) -> CopyError {
        let stat = self.ffs().statfs();
        // The space of an unfinished new file is freed.
        let new = self.open.as_ref().filter(|open| !matches!(open.target, Target::Existing));
        let own = new.map_or(0, |open| self.ffs().getattr(&open.file).blocks * 512);
        let free = stat.frags_free * u64::from(stat.fsize) + own;
        let free = format!("{} and {}", human_size(free), counted(stat.inodes_free, "inode"));
        let text = format!("{}: {error} ({free} are free)", self.image.name);
        CopyError::new(io::ErrorKind::StorageFull, text)
    }

    fn ffs(&self) -> &'a Ffs {
        self.image.ffs
    }

    fn cred(&self) -> &'a Cred {
        self.image.cred
    }

    /// The directory at `path`, created if it does not exist.
    fn directory(&mut self, path: &[u8]) -> Result<Vnode, SinkError> {
        for name in self.stack.truncate_to(path) {
            let dir = self.top();
            let below = match self.ffs().lookup(self.cred(), &dir, name) {
                Ok(below) => below,
                Err(Error::NotFound) => {
                    let made = self.ffs().mkdir(self.cred(), &dir, name, 0o755);
                    made.map_err(|error| self.error(error))?
                }
                Err(error) => return Err(self.error(error)),
            };
            if self.ffs().getattr(&below).kind != FileType::Directory {
                let why = format!("{} exists and is not a directory", escape(name));
                return Err(SinkError::Skip(SkipReason::Other(why)));
            }
            self.stack.push(name, below);
        }
        Ok(self.top())
    }

    fn top(&self) -> Vnode {
        self.stack.top().unwrap_or(&self.root).clone()
    }

    fn make_directory(&mut self, entry: &Entry) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        if name.is_empty() {
            let root = self.root.clone();
            self.defer_attributes(&root, entry);
            return Ok(());
        }
        let parent = self.directory(dir)?;
        let made = match self.ffs().mkdir(self.cred(), &parent, name, entry.meta.perm) {
            Ok(made) => {
                if self.options.kept() != Attributes::ALL {
                    self.set_new(&made, &parent, entry.meta.perm & 0o1777, None)?;
                }
                made
            }
            Err(Error::Exists) => {
                let there = self.ffs().lookup(self.cred(), &parent, name);
                let there = there.map_err(|error| self.error(error))?;
                if self.ffs().getattr(&there).kind != FileType::Directory {
                    return Err(SinkError::skip("exists and is not a directory"));
                }
                there
            }
            Err(error) => return Err(self.error(error)),
        };
        self.defer_attributes(&made, entry);
        self.stack.push(name, made);
        Ok(())
    }

    /// Stores the attributes of a directory until all of its entries are created.
    fn defer_attributes(&mut self, dir: &Vnode, entry: &Entry) {
        if self.options.preserve {
            let ino = self.ffs().getattr(dir).ino;
            self.directories.push((ino, entry.path.clone(), entry.meta.clone()));
        }
    }

    /// The existing file `name`, if it may be overwritten or replaced.
    fn existing(&self, dir: &Vnode, name: &[u8], meta: &EntryMeta) -> Result<Vnode, SinkError> {
        let found = self.ffs().lookup(self.cred(), dir, name).map_err(|error| self.error(error))?;
        let attr = self.ffs().getattr(&found);
        if attr.kind == FileType::Directory {
            return Err(SinkError::skip("exists and is a directory"));
        }
        if self.options.existing == Existing::Keep {
            return Err(SinkError::Keep);
        }
        self.may_change(attr.ino, meta)?;
        Ok(found)
    }

    /// Refuses to change the source itself, and a file that this copy created.
    fn may_change(&self, ino: Ino, meta: &EntryMeta) -> SinkResult {
        if meta.source == Some(ino) {
            return Err(SinkError::Skip(SkipReason::SameFile));
        }
        if self.options.protect_created && self.created.contains(&ino) {
            return Err(SinkError::Skip(SkipReason::CreatedByThisCopy));
        }
        Ok(())
    }

    /// Calls `create` with the name; if that exists, with a temporary name.
    fn create(
        &mut self,
        dir: &Vnode,
        name: &[u8],
        meta: &EntryMeta,
        mut create: impl FnMut(&Self, &[u8]) -> Result<Vnode, Error>,
    ) -> Result<(Vnode, Target), SinkError> {
        match create(self, name) {
            Err(Error::Exists) => {}
            Ok(file) => return Ok((file, Target::New(name.to_vec()))),
            Err(error) => return Err(self.error(error)),
        }
        let old = self.existing(dir, name, meta)?;
        self.create_temporary(name, old, create)
    }

    /// Calls `create` with an unused temporary name.
    fn create_temporary(
        &mut self,
        name: &[u8],
        old: Vnode,
        mut create: impl FnMut(&Self, &[u8]) -> Result<Vnode, Error>,
    ) -> Result<(Vnode, Target), SinkError> {
        let mut number = self.temporaries;
        let created = create_under_temporary_name(&mut number, |name| create(self, name));
        self.temporaries = number;
        let (temporary, file) = created.map_err(|error| self.error(error))?;
        Ok((file, Target::Replacing { temporary, name: name.to_vec(), old }))
    }

    /// Renames a complete file from its temporary name.
    fn rename(&self, dir: &Vnode, target: &Target) -> SinkResult {
        let Target::Replacing { temporary, name, .. } = target else { return Ok(()) };
        let (from, to) = ((dir, &temporary[..]), (dir, &name[..]));
        let renamed = self.ffs().rename(self.cred(), from, to, RenameMode::Replace);
        renamed.map_err(|error| self.error(error))
    }

    /// Removes a new file.
    fn discard(&self, dir: &Vnode, target: &Target) {
        if let Target::New(name) | Target::Replacing { temporary: name, .. } = target {
            // The error that made it necessary is reported.
            let _ = self.ffs().unlink(self.cred(), dir, name);
        }
    }

    /// Creates the regular file of `entry`, or opens the existing one.
    fn open_file(&mut self, entry: &Entry, size: u64) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        let dir = self.directory(dir)?;
        let (cred, parent, perm) = (self.cred(), dir.clone(), self.unfinished_perm());
        let create = |sink: &Self, name: &[u8]| {
            sink.ffs().create(cred, &parent, name, NodeKind::Regular, perm)
        };
        let mut resume = None;
        let (file, target) = match create(self, name) {
            Ok(file) => (file, Target::New(name.to_vec())),
            Err(Error::Exists) => {
                let old = self.existing(&dir, name, &entry.meta)?;
                match self.existing_to_write(&dir, name, &old, &entry.meta)? {
                    Some(file) if self.options.resume => {
                        let (target, comparison) = self.resumed(name, &file);
                        resume = Some(comparison);
                        (file, target)
                    }
                    Some(file) => (file, Target::Existing),
                    None => self.create_temporary(name, old, create)?,
                }
            }
            Err(error) => return Err(self.error(error)),
        };
        self.note(entry, file.ino());
        let (written, meta) = (resume.as_ref().map_or(0, Resume::size), entry.meta.clone());
        self.open = Some(OpenFile { file, dir, target, size, written, meta, resume });
        Ok(())
    }

    /// Truncates the existing file `old`; follows a symbolic link. With [`CopyOptions::resume`] the
    /// content stays. `None` if the file is to be replaced.
    fn existing_to_write(
        &self,
        dir: &Vnode,
        name: &[u8],
        old: &Vnode,
        meta: &EntryMeta,
    ) -> Result<Option<Vnode>, SinkError> {
        if self.options.existing == Existing::Replace {
            return Ok(None);
        }
        let file = match self.ffs().getattr(old) {
            attr if attr.kind != FileType::Symlink => old.clone(),
            attr if self.created.contains(&attr.ino) => {
                return Err(SinkError::Skip(SkipReason::LinkCreatedByThisCopy));
            }
            _ => namei_from(self.ffs(), self.cred(), dir.clone(), name, Last::Follow).map_err(
                |error| match error.is_not_found() {
                    true => SinkError::Skip(SkipReason::DanglingLink),
                    false => SinkError::skip(error),
                },
            )?,
        };
        let attr = self.ffs().getattr(&file);
        if attr.kind != FileType::Regular {
            let why = "exists and is not a regular file; remove it first";
            return Err(SinkError::skip(why));
        }
        self.may_change(attr.ino, meta)?;
        if self.options.replaces(attr.nlink.into()) {
            return Ok(None);
        }
        if self.options.resume {
            return Ok(Some(file));
        }
        let empty = SetAttr { size: Some(0), ..SetAttr::default() };
        self.ffs().setattr(self.cred(), &file, &empty).map_err(|error| self.error(error))?;
        Ok(Some(file))
    }

    /// How many of `bytes` at `offset` the open file has already, if it is compared.
    fn compare(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, SinkError> {
        let taken = self.open.as_mut().and_then(|open| {
            let resume = open.resume.take()?;
            Some((resume, open.file.clone(), open.meta.mtime))
        });
        let Some((mut resume, file, mtime)) = taken else { return Ok(0) };
        let content = ImageContent { sink: self, file: &file, mtime };
        let same = resume.matching(&content, offset, bytes);
        let Some(open) = &mut self.open else { return same };
        open.written = resume.size();
        // After the first difference everything is written.
        if same.is_err() || !resume.is_writing() {
            open.resume = Some(resume);
        }
        same
    }
}

impl Sink for ImageSink<'_> {
    fn entry(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        match &entry.kind {
            EntryKind::Directory => self.make_directory(entry),
            EntryKind::Link(first) => self.link(entry, first),
            EntryKind::File(size) => self.open_file(entry, *size),
            _ => self.node(entry, report),
        }
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        let (ffs, cred) = (self.ffs(), self.cred());
        let same = self.compare(offset, bytes)?;
        let Some(open) = &mut self.open else { return Ok(()) };
        let (mut at, mut rest) = (offset + same as u64, &bytes[same..]);
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let mode = WriteMode::default();
            match ffs.write(cred, &open.file, at, rest, mode) {
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

    fn late_attributes(&mut self, meta: EntryMeta) {
        if let Some(open) = &mut self.open {
            open.meta = meta;
        }
    }

    fn end(&mut self, report: &mut CopyReport) -> SinkResult {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if let Some(mut resume) = open.resume.take() {
            let (file, mtime) = (&open.file, open.meta.mtime);
            let content = ImageContent { sink: self, file, mtime };
            if resume.end(&content, open.size)? {
                report.count_unchanged();
            }
            open.written = open.written.max(resume.size());
        }
        let done = self.complete(&open, report);
        if done.is_err() && !self.options.resume {
            self.discard(&open.dir, &open.target);
        }
        done
    }

    fn abort(&mut self) -> Option<PartialFile> {
        let open = self.open.take()?;
        if !self.options.resume {
            self.discard(&open.dir, &open.target);
        }
        if open.resume.as_ref().is_some_and(|resume| !resume.is_writing()) {
            // It is as it was.
            return None;
        }
        matches!(open.target, Target::Existing)
            .then_some(PartialFile { written: open.written, size: open.size })
    }

    fn unchanged(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        self.complete_unchanged(entry, report)
    }

    fn stopped(&mut self) {
        // The copy has an error to report, and these files are compared by the next one.
        let _ = self.sync_times();
    }

    fn finish(&mut self, report: &mut CopyReport) -> Result<Vec<SkippedPath>, SinkError> {
        self.stack = PathStack::new();
        self.sync_times()?;
        for (ino, path, meta) in std::mem::take(&mut self.directories) {
            let dir = self.ffs().vget(ino, None).map_err(|error| self.error(error))?;
            let kept = self.options.kept();
            self.attributes(&dir, &meta, None, kept, report)?;
            if kept.flags {
                self.set_flags(&dir, meta.flags)?;
            }
            report.set_path_of_losses(&path);
        }
        for (ino, flags) in self.late_flags.take() {
            // A file that was replaced does not exist, unless it has a second name.
            let Ok(file) = self.ffs().vget(ino, None) else { continue };
            self.set(&file, &SetAttr { flags: Some(flags), ..SetAttr::default() })?;
        }
        Ok(Vec::new())
    }
}
