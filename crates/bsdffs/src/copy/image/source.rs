//! A tree in an image as a source.
//!
//! # Invariants
//! 1. Each directory is walked once. A loop or a second name of a directory, which only a damaged
//!    image has, is reported.
//! 2. Files are opened by inode number, not by name: large directories need no search.
//! 3. The journal of the volume is sent only if it is the top: it is no part of the tree.
//! 4. A name with a slash, which only a damaged image has, is reported and not sent: on the host it
//!    would lead out of its directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use ffs_core::{
    Attr, Cred, DeviceNumber, Error, Ffs, FileFlags, FileType, Ino, Vnode, XattrNamespace,
};
use ffs_ondisk::acl;

use super::ImageRef;
use crate::copy::acl::{Acls, Nfs4Acl, PosixAcl};
use crate::copy::emitter::{CopyEnded, Emitter, Event, READ_SIZE, SMALL_FILE};
use crate::copy::entry::{Entry, EntryKind, EntryMeta, Xattr};
use crate::copy::report::Loss;
use crate::copy::sink::Source;
use crate::dir::{is_journal, sorted_entries};
use crate::flags;
use crate::namei::{Last, PathError, join, namei_from};
use crate::text::escape;

/// Options of an [`ImageSource`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageSourceOptions {
    /// Send further names of a file as hard links.
    pub hard_links: bool,
    /// Follow symbolic links below the top. A link to a directory above it is reported.
    pub follow_all: bool,
    /// Send extended attributes and ACLs.
    pub xattrs: bool,
    /// Send each name of a file as a file, with the number of the file as [`Entry::identity`].
    pub identities: bool,
    /// Leave out snapshots, as [`Loss::Snapshot`].
    pub skip_snapshots: bool,
    /// What to send of the data of regular files.
    pub data: FileData,
}

/// What an [`ImageSource`] sends of the data of a regular file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileData {
    /// The data.
    #[default]
    Bytes,
    /// The data. Of a file with holes first the ranges that contain data, and an empty range at its
    /// end.
    MapAndBytes,
    /// Nothing.
    Nothing,
}

/// A tree in an image.
pub struct ImageSource<'a> {
    image: ImageRef<'a>,
    top: Vnode,
    shown: Vec<u8>,
    target: Vec<u8>,
    options: ImageSourceOptions,
}

impl<'a> ImageSource<'a> {
    /// The file or tree `top`, which has the path `shown` in messages.
    #[must_use]
    pub fn new(
        image: ImageRef<'a>,
        top: Vnode,
        shown: &[u8],
        options: ImageSourceOptions,
    ) -> ImageSource<'a> {
        ImageSource { image, top, shown: shown.to_vec(), target: Vec::new(), options }
    }

    /// Copies to the relative path `target`, by default the top of the copy.
    #[must_use]
    pub fn target(mut self, target: impl Into<Vec<u8>>) -> ImageSource<'a> {
        self.target = target.into();
        self
    }
}

impl Source for ImageSource<'_> {
    fn send(self, emitter: &mut Emitter) -> Result<(), CopyEnded> {
        let top_len = self.target.len();
        let mut walk = ImageWalk {
            top_len,
            ffs: self.image.ffs,
            cred: self.image.cred,
            image: format!("{}:", self.image.name),
            emitter,
            options: self.options,
            first_paths: BTreeMap::new(),
            walked: BTreeSet::new(),
            open: Vec::new(),
        };
        walk.tree(&self.top, Paths { target: self.target, shown: self.shown })
    }
}

/// The walk of a tree.
struct ImageWalk<'a> {
    ffs: &'a Ffs,
    cred: &'a Cred,
    /// Length of the target path of the top.
    top_len: usize,
    /// `IMAGE:`, for messages.
    image: String,
    emitter: &'a mut Emitter,
    options: ImageSourceOptions,
    /// Identity and first path of each file with several names.
    first_paths: BTreeMap<Ino, (u64, Vec<u8>)>,
    /// Directories that were sent.
    walked: BTreeSet<Ino>,
    /// Directories from the top to the current one.
    open: Vec<OpenDirectory>,
}

/// The paths of a file.
struct Paths {
    /// Relative path in the copy.
    target: Vec<u8>,
    /// Path in the image, for messages.
    shown: Vec<u8>,
}

/// A directory during the walk.
struct OpenDirectory {
    paths: Paths,
    ino: Ino,
    /// Names that remain, the next one last.
    remaining: Vec<(Vec<u8>, Ino)>,
}

impl ImageWalk<'_> {
    /// Sends the file `top` and everything below it.
    fn tree(&mut self, top: &Vnode, paths: Paths) -> Result<(), CopyEnded> {
        self.file(top, paths)?;
        while let Some(open) = self.open.last_mut() {
            let Some((name, ino)) = open.remaining.pop() else {
                self.open.pop();
                continue;
            };
            let target = join(&open.paths.target, &name);
            let shown = join(&open.paths.shown, &name);
            if name.contains(&b'/') || name.is_empty() {
                self.failed(&shown, "the name has a slash in it; the image is damaged")?;
                continue;
            }
            let below = target.get(self.top_len..).unwrap_or_default();
            if self.emitter.excludes(below.strip_prefix(b"/").unwrap_or(below)) {
                continue;
            }
            let dir = open.ino;
            match self.ffs.vget(ino, None) {
                Ok(file) if is_journal(self.ffs, dir, &name, &file) => {}
                Ok(file) => match self.followed(dir, &name, file) {
                    Ok(file) => self.file(&file, Paths { target, shown })?,
                    Err(error) => self.failed(&shown, error)?,
                },
                Err(error) => self.failed(&shown, error)?,
            }
        }
        Ok(())
    }

    /// The file that the entry `name` of `dir` leads to: `file`, or with
    /// [`ImageSourceOptions::follow_all`] the file at the end of the symbolic link.
    fn followed(&self, dir: Ino, name: &[u8], file: Vnode) -> Result<Vnode, PathError> {
        if !self.options.follow_all || self.ffs.getattr(&file).kind != FileType::Symlink {
            return Ok(file);
        }
        let dir = self.ffs.vget(dir, None)?;
        namei_from(self.ffs, self.cred, dir, name, Last::Follow)
    }

    fn failed(&mut self, shown: &[u8], why: impl Display) -> Result<(), CopyEnded> {
        let name = format!("{}{}", self.image, escape(shown));
        self.emitter.send(Event::Failed { name, why: why.to_string() })
    }

    /// Sends one file.
    fn file(&mut self, file: &Vnode, paths: Paths) -> Result<(), CopyEnded> {
        let attr = self.ffs.getattr(file);
        if attr.kind == FileType::Directory {
            let below = paths.target.get(self.top_len..).unwrap_or_default();
            if self.emitter.excludes_directory(below.strip_prefix(b"/").unwrap_or(below)) {
                return Ok(());
            }
            return self.directory(file, &attr, paths);
        }
        if self.options.skip_snapshots && attr.flags.contains(FileFlags::SF_SNAPSHOT) {
            return self.emitter.send(Event::Lost(Loss::Snapshot, paths.target));
        }
        let (identity, link) = self.identity(&attr, &paths);
        if let Some(kind) = link {
            let meta = meta(&attr);
            return self.emitter.entry(Entry { path: paths.target, kind, meta, identity });
        }
        let kind = match attr.kind {
            FileType::Symlink => match self.ffs.readlink(file) {
                Ok(text) => EntryKind::Symlink(text),
                Err(error) => return self.failed(&paths.shown, error),
            },
            FileType::Fifo => EntryKind::Fifo,
            FileType::Socket => EntryKind::Socket,
            FileType::Char => EntryKind::Char(DeviceNumber::from_disk(attr.rdev)),
            FileType::Block => EntryKind::Block(DeviceNumber::from_disk(attr.rdev)),
            FileType::Regular | FileType::Directory => {
                return self.regular(file, &attr, paths, identity);
            }
        };
        let meta = self.meta(file, &attr, &paths.shown)?;
        self.emitter.entry(Entry { path: paths.target, kind, meta, identity })
    }

    /// The identity of a file with several names, and the kind of a hard link if an earlier name
    /// was sent.
    fn identity(&mut self, attr: &Attr, paths: &Paths) -> (Option<u64>, Option<EntryKind>) {
        let ImageSourceOptions { hard_links, identities, .. } = self.options;
        // A file that symbolic links lead to is met under several names, too.
        if !(hard_links || identities) || attr.nlink <= 1 && !self.options.follow_all {
            return (None, None);
        }
        if let Some((number, first)) = self.first_paths.get(&attr.ino) {
            let link = (!identities).then(|| EntryKind::Link(first.clone()));
            return (Some(*number), link);
        }
        let number = self.first_paths.len() as u64;
        self.first_paths.insert(attr.ino, (number, paths.target.clone()));
        (Some(number), None)
    }

    fn directory(&mut self, dir: &Vnode, attr: &Attr, paths: Paths) -> Result<(), CopyEnded> {
        if self.options.follow_all {
            if self.open.iter().any(|above| above.ino == attr.ino) {
                let why = "a symbolic link leads to a directory above it";
                return self.failed(&paths.shown, why);
            }
        } else if !self.walked.insert(attr.ino) {
            let why = "a second name of a directory; the image is damaged";
            return self.failed(&paths.shown, why);
        }
        let meta = self.meta(dir, attr, &paths.shown)?;
        let (path, kind) = (paths.target.clone(), EntryKind::Directory);
        self.emitter.entry(Entry { path, kind, meta, identity: None })?;
        let (mut remaining, error) = sorted_entries(self.ffs, dir);
        if let Some(error) = error {
            self.failed(&paths.shown, error)?;
        }
        remaining.reverse();
        self.open.push(OpenDirectory { paths, ino: attr.ino, remaining });
        Ok(())
    }

    fn regular(
        &mut self,
        file: &Vnode,
        attr: &Attr,
        Paths { target: path, shown }: Paths,
        identity: Option<u64>,
    ) -> Result<(), CopyEnded> {
        let meta = self.meta(file, attr, &shown)?;
        let size = attr.size;
        let entry = Entry { path, kind: EntryKind::File(size), meta, identity };
        let Some(entry) = self.emitter.offer(entry)? else { return Ok(()) };
        let snapshot = attr.flags.contains(FileFlags::SF_SNAPSHOT);
        let sparse = attr.blocks * 512 < size || snapshot;
        if self.options.data == FileData::Nothing {
            self.emitter.open(entry)?;
            return self.emitter.send(Event::End);
        }
        if size <= SMALL_FILE && !sparse {
            return match self.ffs.read(file, 0, self.emitter.buffer(size as usize)) {
                Ok(len) => self.emitter.small_file(entry, len),
                Err(error) => self.failed(&shown, error),
            };
        }
        self.emitter.open(entry)?;
        let map = sparse && self.options.data == FileData::MapAndBytes;
        let sent = if map { self.map(file, size)? } else { Ok(()) };
        match sent {
            Ok(()) => self.data(file, size, &shown),
            Err(error) => self.abort(&shown, error),
        }
    }

    /// Sends the ranges of a file that contain data, and an empty range at its end.
    fn map(&mut self, file: &Vnode, size: u64) -> Result<Result<(), Error>, CopyEnded> {
        let mut at = 0;
        loop {
            match self.next_data(file, at, size) {
                Ok(Some((start, end))) => {
                    self.emitter.send(Event::Extent(start, end))?;
                    at = end;
                }
                Ok(None) => break,
                Err(error) => return Ok(Err(error)),
            }
        }
        self.emitter.send(Event::Extent(size, size))?;
        Ok(Ok(()))
    }

    /// Sends the data of a file.
    fn data(&mut self, file: &Vnode, size: u64, shown: &[u8]) -> Result<(), CopyEnded> {
        let mut at = 0;
        loop {
            let (start, end) = match self.next_data(file, at, size) {
                Ok(Some(range)) => range,
                Ok(None) => return self.emitter.send(Event::End),
                Err(error) => return self.abort(shown, error),
            };
            at = start;
            while at < end {
                // Reads end at multiples of READ_SIZE, and so at multiples of the block size.
                let len = (end - at).min(READ_SIZE as u64 - at % READ_SIZE as u64);
                match self.ffs.read(file, at, self.emitter.buffer(len as usize)) {
                    Ok(got) => self.emitter.data(at, got)?,
                    Err(error) => return self.abort(shown, error),
                }
                at += len;
            }
        }
    }

    fn abort(&mut self, shown: &[u8], error: Error) -> Result<(), CopyEnded> {
        self.failed(shown, error)?;
        self.emitter.send(Event::Abort)
    }

    /// The next range with data at or after `at`, bytes.
    fn next_data(&self, file: &Vnode, at: u64, size: u64) -> Result<Option<(u64, u64)>, Error> {
        if at >= size {
            return Ok(None);
        }
        let start = match self.ffs.seek_data(file, at) {
            Ok(start) => start,
            Err(Error::NoData) => return Ok(None),
            Err(error) => return Err(error),
        };
        let end = self.ffs.seek_hole(file, start)?.clamp(start, size.max(start));
        Ok((start < end).then_some((start, end)))
    }

    /// Adds the ACL in the attribute `name` to `acls`, if the volume applies ACLs of its kind.
    fn add_acl(
        &mut self,
        file: &Vnode,
        name: &[u8],
        shown: &[u8],
        acls: &mut Acls,
    ) -> Result<(), CopyEnded> {
        let ffs = self.ffs;
        let applied = if name == acl::NFS4_NAME { ffs.nfs4_acls() } else { ffs.acls() };
        if !applied {
            return self.emitter.send(Event::Lost(Loss::UnusedAcl, shown.to_vec()));
        }
        if name == acl::NFS4_NAME {
            let bytes = ffs.getxattr(self.cred, file, XattrNamespace::System, name);
            let acl = bytes.map(|bytes| Nfs4Acl::from_disk(ffs.geometry().endian, &bytes));
            acls.nfs4 = Some(match acl {
                Ok(acl) => acl,
                Err(error) => {
                    self.failed(shown, format!("access list: {error}"))?;
                    Nfs4Acl::Invalid
                }
            });
            return Ok(());
        }
        let default = name == acl::DEFAULT_NAME;
        let acl = if default { ffs.default_acl(file) } else { ffs.access_acl(file) };
        let acl = match acl {
            Ok(acl) => acl.map(|acl| PosixAcl::Entries(acl.entries().to_vec())),
            Err(error) => {
                self.failed(shown, format!("access list: {error}"))?;
                Some(PosixAcl::Invalid)
            }
        };
        *(if default { &mut acls.default } else { &mut acls.access }) = acl;
        Ok(())
    }

    /// The attributes of a file, with extended attributes and ACLs if the options ask for them.
    fn meta(&mut self, file: &Vnode, attr: &Attr, shown: &[u8]) -> Result<EntryMeta, CopyEnded> {
        let mut meta = meta(attr);
        if !self.options.xattrs {
            return Ok(meta);
        }
        let names = match self.ffs.listxattr(self.cred, file) {
            Ok(names) => names,
            // UFS1 has none.
            Err(Error::NotSupported(_)) => return Ok(meta),
            Err(error) => {
                self.failed(shown, format!("extended attributes: {error}"))?;
                return Ok(meta);
            }
        };
        for (namespace, name) in names {
            if is_acl(namespace, &name) {
                self.add_acl(file, &name, shown, &mut meta.acls)?;
                continue;
            }
            match self.ffs.getxattr(self.cred, file, namespace, &name) {
                Ok(value) => meta.xattrs.push(Xattr { namespace, name, value }),
                Err(error) => self.failed(shown, format!("extended attributes: {error}"))?,
            }
        }
        meta.sort_xattrs();
        Ok(meta)
    }
}

/// Whether an attribute is an ACL.
fn is_acl(namespace: XattrNamespace, name: &[u8]) -> bool {
    namespace == XattrNamespace::System
        && [acl::ACCESS_NAME, acl::DEFAULT_NAME, acl::NFS4_NAME].contains(&name)
}

fn meta(attr: &Attr) -> EntryMeta {
    EntryMeta {
        perm: attr.perm,
        uid: attr.uid,
        gid: attr.gid,
        atime: attr.atime,
        mtime: attr.mtime,
        birthtime: attr.birthtime,
        flags: flags::portable(attr.flags),
        xattrs: Vec::new(),
        acls: Acls::default(),
        nlink: attr.nlink.into(),
        source: Some(attr.ino),
    }
}
