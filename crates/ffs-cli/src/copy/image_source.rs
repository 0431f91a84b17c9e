//! A tree inside an image, told file by file.
//!
//! **Invariants.**
//! 1. A directory is walked once: loops and second names of a directory, which only a damaged image
//!    has, are reported.
//! 2. Files are reached by inode number, not by name: large directories cost no searching.
//! 3. Names that would lead elsewhere on the host (with a slash) are reported, not told.

use std::collections::{BTreeMap, BTreeSet};

use ffs_core::{
    Attr, Cred, DeviceNumber, Error, Ffs, FileFlags, FileType, Ino, Vnode, XattrNamespace,
};
use ffs_ondisk::acl;

use super::{
    AccessList, CHUNK, Deaf, Emit, Entry, Event, Kind, Lists, Loss, Meta, Nfs4List, SMALL, Said,
    Xattr, flags,
};
use crate::fail::show;
use crate::namei::join;

/// What of the tree is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Several names of one file are told as such.
    pub links: bool,
    /// Extended attributes too.
    pub attributes: bool,
}

/// Walks trees of an image.
pub(crate) struct ImageSource<'a> {
    ffs: &'a Ffs,
    cred: &'a Cred,
    /// `IMAGE:`, for messages.
    image: String,
    emit: &'a mut Emit,
    wanted: Wanted,
    firsts: BTreeMap<Ino, (u64, Vec<u8>)>,
    walked: BTreeSet<Ino>,
}

struct Frame {
    path: Vec<u8>,
    shown: Vec<u8>,
    /// Names still to go, the next one last.
    todo: Vec<(Vec<u8>, Ino)>,
}

impl<'a> ImageSource<'a> {
    /// A walker that tells `emit`.
    pub(crate) fn new(
        ffs: &'a Ffs,
        cred: &'a Cred,
        image: &str,
        wanted: Wanted,
        emit: &'a mut Emit,
    ) -> ImageSource<'a> {
        let image = format!("{image}:");
        let (firsts, walked) = (BTreeMap::new(), BTreeSet::new());
        ImageSource { ffs, cred, image, emit, wanted, firsts, walked }
    }

    /// Tells the tree at `root`, which is `shown` in the image, as `to`.
    pub(crate) fn walk(&mut self, root: &Vnode, shown: &[u8], to: &[u8]) -> Said {
        let mut stack = Vec::new();
        self.file(root, to.to_vec(), shown.to_vec(), &mut stack)?;
        while let Some(frame) = stack.last_mut() {
            let Some((name, ino)) = frame.todo.pop() else {
                stack.pop();
                continue;
            };
            let (path, shown) = (join(&frame.path, &name), join(&frame.shown, &name));
            if name.contains(&b'/') || name.is_empty() {
                self.failed(&shown, "the name has a slash in it; the image is damaged")?;
                continue;
            }
            match self.ffs.vget(ino, None) {
                Ok(file) => self.file(&file, path, shown, &mut stack)?,
                Err(error) => self.failed(&shown, error)?,
            }
        }
        Ok(())
    }

    fn failed(&mut self, shown: &[u8], why: impl std::fmt::Display) -> Said {
        let what = format!("{}{}", self.image, show(shown));
        self.emit.send(Event::Failed(format!("{what}: {why}")))
    }

    fn file(
        &mut self,
        file: &Vnode,
        path: Vec<u8>,
        shown: Vec<u8>,
        stack: &mut Vec<Frame>,
    ) -> Said {
        let attr = self.ffs.getattr(file);
        if attr.kind == FileType::Directory {
            return self.directory(file, &attr, path, shown, stack);
        }
        let mut identity = None;
        if self.wanted.links && attr.nlink > 1 {
            if let Some((number, first)) = self.firsts.get(&attr.ino) {
                let (kind, identity) = (Kind::Link(first.clone()), Some(*number));
                return self.emit.entry(Entry { path, kind, meta: meta(&attr), identity });
            }
            let number = self.firsts.len() as u64;
            self.firsts.insert(attr.ino, (number, path.clone()));
            identity = Some(number);
        }
        let kind = match attr.kind {
            FileType::Symlink => match self.ffs.readlink(file) {
                Ok(text) => Kind::Symlink(text),
                Err(error) => return self.failed(&shown, error),
            },
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::Char => Kind::Char(DeviceNumber::from_disk(attr.rdev)),
            FileType::Block => Kind::Block(DeviceNumber::from_disk(attr.rdev)),
            FileType::Regular | FileType::Directory => {
                return self.regular(file, &attr, path, shown, identity);
            }
        };
        let meta = self.meta(file, &attr, &shown)?;
        self.emit.entry(Entry { path, kind, meta, identity })
    }

    fn directory(
        &mut self,
        dir: &Vnode,
        attr: &Attr,
        path: Vec<u8>,
        shown: Vec<u8>,
        stack: &mut Vec<Frame>,
    ) -> Said {
        if !self.walked.insert(attr.ino) {
            return self.failed(&shown, "a second name of a directory; the image is damaged");
        }
        let meta = self.meta(dir, attr, &shown)?;
        let kind = Kind::Directory;
        self.emit.entry(Entry { path: path.clone(), kind, meta, identity: None })?;
        let (mut todo, error) = names_in(self.ffs, dir);
        if let Some(error) = error {
            self.failed(&shown, error)?;
        }
        todo.reverse();
        stack.push(Frame { path, shown, todo });
        Ok(())
    }

    fn regular(
        &mut self,
        file: &Vnode,
        attr: &Attr,
        path: Vec<u8>,
        shown: Vec<u8>,
        identity: Option<u64>,
    ) -> Said {
        let meta = self.meta(file, attr, &shown)?;
        let size = attr.size;
        let snapshot = attr.flags.contains(FileFlags::SF_SNAPSHOT);
        if size <= SMALL && attr.blocks * 512 >= size && !snapshot {
            return match self.ffs.read(file, 0, self.emit.room(size as usize)) {
                Ok(len) => {
                    self.emit.whole(Entry { path, kind: Kind::File(size), meta, identity }, len)
                }
                Err(error) => self.failed(&shown, error),
            };
        }
        let kind = Kind::File(size);
        self.emit.entry(Entry { path, kind, meta, identity })?;
        let mut at = 0;
        loop {
            let (start, end) = match self.next_data(file, at, size) {
                Ok(Some(range)) => range,
                Ok(None) => return self.emit.send(Event::End),
                Err(error) => return self.broken(&shown, error),
            };
            at = start;
            while at < end {
                // Pieces end at whole chunks, and so at whole blocks.
                let len = (end - at).min(CHUNK as u64 - at % CHUNK as u64);
                match self.ffs.read(file, at, self.emit.room(len as usize)) {
                    Ok(got) => self.emit.data(at, got)?,
                    Err(error) => return self.broken(&shown, error),
                }
                at += len;
            }
        }
    }

    fn broken(&mut self, shown: &[u8], error: Error) -> Said {
        self.failed(shown, error)?;
        self.emit.send(Event::Broken)
    }

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

    /// Adds the access list that is the attribute `name` to `lists`, if the volume heeds it.
    fn list(
        &mut self,
        file: &Vnode,
        name: &[u8],
        shown: &[u8],
        lists: &mut Lists,
    ) -> Result<(), Deaf> {
        let ffs = self.ffs;
        let heeded = if name == acl::NFS4_NAME { ffs.nfs4_acls() } else { ffs.acls() };
        if !heeded {
            return self.emit.send(Event::Lost(Loss::IdleList, shown.to_vec()));
        }
        if name == acl::NFS4_NAME {
            let bytes = ffs.getxattr(self.cred, file, XattrNamespace::System, name);
            let list = bytes.map(|bytes| Nfs4List::from_disk(ffs.geometry().endian, &bytes));
            lists.nfs4 = Some(match list {
                Ok(list) => list,
                Err(error) => {
                    self.failed(shown, format!("access list: {error}"))?;
                    Nfs4List::Unclear
                }
            });
            return Ok(());
        }
        let default = name == acl::DEFAULT_NAME;
        let list = if default { ffs.default_acl(file) } else { ffs.access_acl(file) };
        let list = match list {
            Ok(list) => list.map(|list| AccessList::Entries(list.entries().to_vec())),
            Err(error) => {
                self.failed(shown, format!("access list: {error}"))?;
                Some(AccessList::Unclear)
            }
        };
        *(if default { &mut lists.default } else { &mut lists.access }) = list;
        Ok(())
    }

    fn meta(&mut self, file: &Vnode, attr: &Attr, shown: &[u8]) -> Result<Meta, super::Deaf> {
        let mut meta = meta(attr);
        if !self.wanted.attributes {
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
            if is_list(namespace, &name) {
                self.list(file, &name, shown, &mut meta.lists)?;
                continue;
            }
            match self.ffs.getxattr(self.cred, file, namespace, &name) {
                Ok(value) => meta.xattrs.push(Xattr { namespace, name, value }),
                Err(error) => self.failed(shown, format!("extended attributes: {error}"))?,
            }
        }
        super::host_xattrs::sort_xattrs(&mut meta);
        Ok(meta)
    }
}

/// Whether an attribute is an access list.
fn is_list(namespace: XattrNamespace, name: &[u8]) -> bool {
    namespace == XattrNamespace::System
        && [acl::ACCESS_NAME, acl::DEFAULT_NAME, acl::NFS4_NAME].contains(&name)
}

fn meta(attr: &Attr) -> Meta {
    Meta {
        perm: attr.perm,
        uid: attr.uid,
        gid: attr.gid,
        atime: attr.atime,
        mtime: attr.mtime,
        birthtime: attr.birthtime,
        flags: flags::portable(attr.flags),
        xattrs: Vec::new(),
        lists: Lists::default(),
        source: Some(attr.ino),
    }
}

/// Names and inode numbers in a directory, sorted, without `.` and `..`; and what ended the reading
/// early, if something did.
pub(crate) fn names_in(ffs: &Ffs, dir: &Vnode) -> (Vec<(Vec<u8>, Ino)>, Option<Error>) {
    let mut names = Vec::new();
    let result = ffs.readdir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            names.push((entry.name.to_vec(), entry.ino));
        }
        true
    });
    names.sort_unstable();
    (names, result.err())
}
