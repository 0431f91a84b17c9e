//! Makes files in an image.
//!
//! **Invariants.**
//! 1. What is replaced is replaced by a rename of the complete file.
//! 2. A symbolic link that this copy made is not followed.
//! 3. Directories whose attributes are kept get them last, in [`Sink::finish`].

mod attributes;
mod nodes;

use std::collections::{BTreeMap, BTreeSet};

use ffs_admin::counted;
use ffs_core::{Cred, Error, Ffs, FileType, Ino, NodeKind, RenameMode, SetAttr, Vnode, WriteMode};

use super::policy::{DANGLING, JUST_MADE, LINK_JUST_MADE, SAME_FILE};
use super::{
    Entry, Existing, Kind, Meta, Policy, Sink, SinkError, SinkResult, Tally, left_over, split_last,
};
use crate::fail::{Failure, show};
use crate::namei::{Last, components, namei_from};
use crate::output::{human, kind_name};

/// Writes a tree below a directory of an image.
pub(crate) struct ImageSink<'a> {
    ffs: &'a Ffs,
    cred: &'a Cred,
    image: String,
    root: Vnode,
    policy: Policy,
    /// The directory worked in: its components below the root, and their files.
    stack: Vec<(Vec<u8>, Vnode)>,
    /// Directories with what is set last.
    directories: Vec<(Ino, Vec<u8>, Meta)>,
    /// Files with several names by the number their source gave them.
    identities: BTreeMap<u64, Ino>,
    /// Symbolic links that this copy made; with [`Policy::guard`] all its files but directories.
    made: BTreeSet<Ino>,
    open: Option<Open>,
    temporaries: u64,
}

/// The file that data is written to.
struct Open {
    file: Vnode,
    dir: Vnode,
    slot: Slot,
    size: u64,
    written: u64,
    meta: Meta,
}

/// How a file came by its name.
enum Slot {
    /// It is new and has this name.
    New(Vec<u8>),
    /// It is new and has the name `temporary` until it is complete and takes the name of `old`.
    Replacing { temporary: Vec<u8>, name: Vec<u8>, old: Vnode },
    /// It was there and is written over.
    Existing,
}

impl<'a> ImageSink<'a> {
    /// A sink for the directory `root`.
    pub(crate) fn new(
        ffs: &'a Ffs,
        cred: &'a Cred,
        image: &str,
        root: Vnode,
        policy: Policy,
    ) -> ImageSink<'a> {
        ImageSink {
            ffs,
            cred,
            image: image.to_owned(),
            root,
            policy,
            stack: Vec::new(),
            directories: Vec::new(),
            identities: BTreeMap::new(),
            made: BTreeSet::new(),
            open: None,
            temporaries: 0,
        }
    }

    /// Turns an error of the file system into what it means for the copy.
    fn error(&self, error: Error) -> SinkError {
        let full = || {
            let stat = self.ffs.statfs();
            // What an unfinished new file takes is given back.
            let new = self.open.as_ref().filter(|open| !matches!(open.slot, Slot::Existing));
            let own = new.map_or(0, |open| self.ffs.getattr(&open.file).blocks * 512);
            let free = stat.frags_free * u64::from(stat.fsize) + own;
            let free = format!("{} and {}", human(free), counted(stat.inodes_free, "inode"));
            let failure = Failure::new(&self.image, format!("{error} ({free} are free)"));
            SinkError::Stop(Failure { full: true, ..failure })
        };
        match error {
            Error::NoSpace | Error::NoInodes => full(),
            Error::Io(error) => SinkError::Stop(Failure::new(&self.image, error)),
            Error::ReadOnly(_) => SinkError::Stop(Failure::new(&self.image, error)),
            Error::NotPermitted => SinkError::Skip(format!(
                "{error}; a file flag such as schg forbids it (ffs ls -lo shows them, \
                 ffs chflags clears them)"
            )),
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
            let root = self.root.clone();
            self.keep_for_last(&root, entry);
            return Ok(());
        }
        let parent = self.directory(dir)?;
        let made = match self.ffs.mkdir(self.cred, &parent, name, entry.meta.perm) {
            Ok(made) => {
                if !self.policy.preserve {
                    self.set_new(&made, &parent, entry.meta.perm & 0o1777, None)?;
                }
                made
            }
            Err(Error::Exists) => {
                let there = self.ffs.lookup(self.cred, &parent, name);
                let there = there.map_err(|error| self.error(error))?;
                if self.ffs.getattr(&there).kind != FileType::Directory {
                    return Err(SinkError::Skip("is there and is not a directory".to_owned()));
                }
                there
            }
            Err(error) => return Err(self.error(error)),
        };
        self.keep_for_last(&made, entry);
        self.stack.push((name.to_vec(), made));
        Ok(())
    }

    /// Notes the attributes of a directory, to be set when nothing in it changes any more.
    fn keep_for_last(&mut self, dir: &Vnode, entry: &Entry) {
        if self.policy.preserve {
            let ino = self.ffs.getattr(dir).ino;
            self.directories.push((ino, entry.path.clone(), entry.meta.clone()));
        }
    }

    /// The file that has `name` already, if it may be written over or replaced.
    fn there(&self, dir: &Vnode, name: &[u8], meta: &Meta) -> Result<Vnode, SinkError> {
        let there = self.ffs.lookup(self.cred, dir, name).map_err(|error| self.error(error))?;
        let attr = self.ffs.getattr(&there);
        if attr.kind == FileType::Directory {
            return Err(SinkError::Skip("is there and is a directory".to_owned()));
        }
        if self.policy.existing == Existing::Keep {
            return Err(SinkError::Leave);
        }
        self.may_change(attr.ino, meta)?;
        Ok(there)
    }

    /// Refuses to change the source itself, and what another source of this copy became.
    fn may_change(&self, ino: Ino, meta: &Meta) -> SinkResult {
        if meta.source == Some(ino) {
            return Err(SinkError::Skip(SAME_FILE.to_owned()));
        }
        if self.policy.guard && self.made.contains(&ino) {
            return Err(SinkError::Skip(JUST_MADE.to_owned()));
        }
        Ok(())
    }

    /// Runs `make` with the name in the directory; where that is taken, with another that then
    /// replaces it.
    fn make(
        &mut self,
        dir: &Vnode,
        name: &[u8],
        meta: &Meta,
        mut make: impl FnMut(&Self, &[u8]) -> Result<Vnode, Error>,
    ) -> Result<(Vnode, Slot), SinkError> {
        match make(self, name) {
            Err(Error::Exists) => {}
            Ok(file) => return Ok((file, Slot::New(name.to_vec()))),
            Err(error) => return Err(self.error(error)),
        }
        let old = self.there(dir, name, meta)?;
        self.make_beside(name, old, make)
    }

    /// Runs `make` with a name that is nobody's.
    fn make_beside(
        &mut self,
        name: &[u8],
        old: Vnode,
        mut make: impl FnMut(&Self, &[u8]) -> Result<Vnode, Error>,
    ) -> Result<(Vnode, Slot), SinkError> {
        loop {
            let temporary = super::temporary_name(self.temporaries);
            self.temporaries += 1;
            match make(self, &temporary) {
                Err(Error::Exists) => {}
                Ok(file) => {
                    let name = name.to_vec();
                    return Ok((file, Slot::Replacing { temporary, name, old }));
                }
                Err(error) => return Err(self.error(error)),
            }
        }
    }

    /// Gives a complete file the name that is its own.
    fn rename(&self, dir: &Vnode, slot: &Slot) -> SinkResult {
        let Slot::Replacing { temporary, name, .. } = slot else { return Ok(()) };
        let (from, to) = ((dir, &temporary[..]), (dir, &name[..]));
        let renamed = self.ffs.rename(self.cred, from, to, RenameMode::Replace);
        renamed.map_err(|error| self.error(error))
    }

    /// Takes a new file away again.
    fn discard(&self, dir: &Vnode, slot: &Slot) {
        if let Slot::New(name) | Slot::Replacing { temporary: name, .. } = slot {
            // Best effort: what made it necessary is reported.
            let _ = self.ffs.unlink(self.cred, dir, name);
        }
    }

    /// Makes the regular file of `entry`, or empties the one that is there.
    fn open_file(&mut self, entry: &Entry, size: u64) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        let dir = self.directory(dir)?;
        let (cred, parent) = (self.cred, dir.clone());
        let create = |sink: &Self, name: &[u8]| {
            sink.ffs.create(cred, &parent, name, NodeKind::Regular, 0o600)
        };
        let (file, slot) = match create(self, name) {
            Ok(file) => (file, Slot::New(name.to_vec())),
            Err(Error::Exists) => {
                let old = self.there(&dir, name, &entry.meta)?;
                match self.emptied(&dir, name, &old, &entry.meta)? {
                    Some(file) => (file, Slot::Existing),
                    None => self.make_beside(name, old, create)?,
                }
            }
            Err(error) => return Err(self.error(error)),
        };
        let ino = self.ffs.getattr(&file).ino;
        if let Some(id) = entry.identity {
            self.identities.insert(id, ino);
        }
        if self.policy.guard {
            self.made.insert(ino);
        }
        self.open = Some(Open { file, dir, slot, size, written: 0, meta: entry.meta.clone() });
        Ok(())
    }

    /// The file `old`, or the one that it leads to, without its content; `None` if it is to be
    /// replaced.
    fn emptied(
        &self,
        dir: &Vnode,
        name: &[u8],
        old: &Vnode,
        meta: &Meta,
    ) -> Result<Option<Vnode>, SinkError> {
        if self.policy.existing == Existing::Replace {
            return Ok(None);
        }
        let file = match self.ffs.getattr(old) {
            attr if attr.kind != FileType::Symlink => old.clone(),
            attr if self.made.contains(&attr.ino) => {
                return Err(SinkError::Skip(LINK_JUST_MADE.to_owned()));
            }
            _ => namei_from(self.ffs, self.cred, dir.clone(), name, Last::Follow).map_err(
                |error| {
                    let dangling = error.is_not_found();
                    SinkError::Skip(if dangling { DANGLING.into() } else { error.to_string() })
                },
            )?,
        };
        let attr = self.ffs.getattr(&file);
        if attr.kind != FileType::Regular {
            let kind = kind_name(attr.kind);
            return Err(SinkError::Skip(format!("is a {kind} there; remove it first")));
        }
        self.may_change(attr.ino, meta)?;
        if self.policy.replaces(attr.nlink.into()) {
            return Ok(None);
        }
        let empty = SetAttr { size: Some(0), ..SetAttr::default() };
        self.ffs.setattr(self.cred, &file, &empty).map_err(|error| self.error(error))?;
        Ok(Some(file))
    }

    /// Sets the attributes of a file with its content, and gives it its name.
    fn complete(&self, open: &Open, tally: &mut Tally) -> SinkResult {
        let Open { file, dir, slot, meta, .. } = open;
        let size = (open.size > open.written).then_some(open.size);
        if self.policy.preserve {
            self.attributes(file, meta, size, tally)?;
            self.rename(dir, slot)?;
            return self.set_flags(file, meta.flags);
        }
        match slot {
            Slot::New(_) => self.set_new(file, dir, meta.perm & 0o777, size),
            Slot::Existing => self.set_owner_and_size(file, size),
            Slot::Replacing { old, .. } if self.ffs.getattr(old).kind == FileType::Regular => {
                self.take_over(old, file, size)?;
                self.rename(dir, slot)?;
                self.set_flags(file, self.ffs.getattr(old).flags)
            }
            Slot::Replacing { .. } => {
                self.set_new(file, dir, meta.perm & 0o777, size)?;
                self.rename(dir, slot)
            }
        }
    }
}

impl Sink for ImageSink<'_> {
    fn entry(&mut self, entry: &Entry, tally: &mut Tally) -> SinkResult {
        match &entry.kind {
            Kind::Directory => self.make_directory(entry),
            Kind::Link(first) => self.link(entry, first),
            Kind::File(size) => self.open_file(entry, *size),
            _ => self.node(entry, tally),
        }
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        let Some(open) = &mut self.open else { return Ok(()) };
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let mode = WriteMode::default();
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
        let done = self.complete(&open, tally);
        if done.is_err() {
            self.discard(&open.dir, &open.slot);
        }
        done
    }

    fn abandon(&mut self) -> Option<String> {
        let open = self.open.take()?;
        self.discard(&open.dir, &open.slot);
        matches!(open.slot, Slot::Existing).then(|| left_over(open.written, open.size))
    }

    fn finish(&mut self, tally: &mut Tally) -> SinkResult {
        self.stack.clear();
        for (ino, path, meta) in std::mem::take(&mut self.directories) {
            let dir = self.ffs.vget(ino, None).map_err(|error| self.error(error))?;
            self.attributes(&dir, &meta, None, tally)?;
            self.set_flags(&dir, meta.flags)?;
            tally.name_losses(&path);
        }
        Ok(())
    }
}
