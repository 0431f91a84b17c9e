//! Does operations on a mounted volume, and keeps in mind what should be there.
//!
//! # Invariants
//! 1. The tree in mind changes only by calls that succeeded: paths mean the same here and there.
//! 2. Nothing stays in use after a call but what [`Op::Open`] took: a removed file is gone when the
//!    call returns.

use std::collections::BTreeMap;

use ffs_core::{
    Cred, Error, Fallocate, Ffs, NodeKind, RenameMode, SetAttr, SetTime, Timespec, Vnode,
    WriteMode, XattrNamespace, XattrSet,
};

use super::history::{Attrs, Happening, Life, Name, ObjId, ObjKind, ROOT};
use super::op::{Op, Path, Space};
use super::tag;

/// What the workload believes is there.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    names: BTreeMap<Name, ObjId>,
    /// Mode, owner, group and set times of each object, by number; the root's first.
    attrs: Vec<Attrs>,
    version: u32,
}

impl Default for Tree {
    fn default() -> Tree {
        let root = Attrs { mode: 0o755, uid: 0, gid: 0, mtime: None };
        Tree { names: BTreeMap::new(), attrs: vec![root], version: 0 }
    }
}

impl Tree {
    /// Whether there is something of that name.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.obj(path).is_some()
    }

    fn walk(&self, parts: &[String]) -> Option<ObjId> {
        parts.iter().try_fold(ROOT, |dir, part| {
            self.names.get(&Name { dir, name: part.as_bytes().to_vec() }).copied()
        })
    }

    fn obj(&self, path: &Path) -> Option<ObjId> {
        self.walk(path.components())
    }

    /// The name that `path` spells, whether it exists or not.
    fn name(&self, path: &Path) -> Option<Name> {
        let (dir, last) = path.split()?;
        Some(Name { dir: self.walk(dir)?, name: last.as_bytes().to_vec() })
    }

    fn make(&mut self, attrs: Attrs) -> ObjId {
        self.attrs.push(attrs);
        ObjId(self.attrs.len() as u32 - 1)
    }

    /// A call or time moved the modification time.
    fn moved(&mut self, obj: ObjId) {
        if let Some(attrs) = self.attrs.get_mut(obj.0 as usize) {
            attrs.mtime = None;
        }
    }
}

/// A mounted volume and somebody who uses it.
pub(super) struct World {
    pub(super) fs: Ffs,
    pub(super) tree: Tree,
    cred: Cred,
    open: Vec<Vnode>,
    /// What is there is not known: whatever a path names may be worked on.
    blind: bool,
}

type Done = Result<Vec<Happening>, Error>;

/// The value an extended attribute of that length gets in a version.
fn xattr_value(version: u32, len: u32) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(7) ^ version.wrapping_mul(31)) as u8).collect()
}

impl World {
    pub(super) fn new(fs: Ffs, tree: Tree) -> World {
        World { fs, tree, cred: Cred::root(), open: Vec::new(), blind: false }
    }

    /// On a volume of which nothing is known; what happens there is no history.
    pub(super) fn blind(fs: Ffs) -> World {
        World { blind: true, ..World::new(fs, Tree::default()) }
    }

    /// Gives up everything in use.
    pub(super) fn close(&mut self) {
        self.open.clear();
    }

    fn lookup(&self, parts: &[String]) -> Result<Vnode, Error> {
        let root = self.fs.root()?;
        parts.iter().try_fold(root, |dir, part| self.fs.lookup(&self.cred, &dir, part.as_bytes()))
    }

    fn file(&self, path: &Path) -> Result<Vnode, Error> {
        self.lookup(path.components())
    }

    fn dir<'a>(&self, path: &'a Path) -> Result<(Vnode, &'a [u8]), Error> {
        let (dir, last) = path.split().ok_or(Error::Invalid("the root"))?;
        Ok((self.lookup(dir)?, last.as_bytes()))
    }

    /// The object that `path` names in mind.
    fn obj(&self, path: &Path) -> Result<ObjId, Error> {
        let known = self.tree.obj(path);
        known.or(self.blind.then_some(ObjId(u32::MAX))).ok_or(Error::NotFound)
    }

    fn name(&self, path: &Path) -> Result<Name, Error> {
        self.tree.name(path).ok_or(Error::NotFound)
    }

    /// Does `op`; what happened, or why it did not.
    pub(super) fn perform(&mut self, op: &Op) -> Done {
        match op {
            Op::Create(p) => self.make(p, |w, dir, name| {
                w.fs.create(&w.cred, dir, name, NodeKind::Regular, 0o644)
                    .map(|v| (v, ObjKind::File))
            }),
            Op::Mkfifo(p) => self.make(p, |w, dir, name| {
                w.fs.create(&w.cred, dir, name, NodeKind::Fifo, 0o600).map(|v| (v, ObjKind::Fifo))
            }),
            Op::Mkdir(p) => self.make(p, |w, dir, name| {
                w.fs.mkdir(&w.cred, dir, name, 0o755).map(|v| (v, ObjKind::Directory))
            }),
            Op::Symlink(p, target) => self.make(p, |w, dir, name| {
                let target = target.as_bytes();
                let made = w.fs.symlink(&w.cred, dir, name, target)?;
                Ok((made, ObjKind::Symlink(target.to_vec())))
            }),
            Op::Link(old, new) => self.link(old, new),
            Op::Unlink(p) => self.remove(p, |w, dir, name| w.fs.unlink(&w.cred, dir, name)),
            Op::Rmdir(p) => self.remove(p, |w, dir, name| w.fs.rmdir(&w.cred, dir, name)),
            Op::Rename(old, new) => self.rename(old, new),
            Op::Exchange(one, other) => self.exchange(one, other),
            Op::Write { at, offset, len, sync } => self.write(at, Some(*offset), *len, *sync),
            Op::Append(p, len) => self.write(p, None, *len, false),
            Op::Truncate(p, size) => self.truncate(p, *size),
            Op::Space(how, p, offset, len) => self.space(*how, p, *offset, *len),
            Op::Chmod(p, mode) => {
                self.set_attr(p, SetAttr { perm: Some(*mode), ..SetAttr::default() })
            }
            Op::Chown(p, uid, gid) => {
                self.set_attr(p, SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() })
            }
            Op::Utimes(p, secs) => {
                let to = SetTime::To(Timespec { secs: *secs, nsec: 0 });
                self.set_attr(p, SetAttr { atime: Some(to), mtime: Some(to), ..SetAttr::default() })
            }
            Op::SetXattr(p, name, len) => self.set_xattr(p, name, Some(*len)),
            Op::RemoveXattr(p, name) => self.set_xattr(p, name, None),
            Op::Fsync(p) => self.fsync(p, false),
            Op::Fdatasync(p) => self.fsync(p, true),
            Op::Sync => {
                self.fs.sync()?;
                Ok(vec![Happening::Synced])
            }
            Op::Wait(_) => Ok(Vec::new()),
            Op::Open(p) => {
                let file = self.file(p)?;
                self.open.push(file);
                Ok(Vec::new())
            }
            Op::Close => {
                self.close();
                Ok(Vec::new())
            }
        }
    }

    fn make(
        &mut self,
        path: &Path,
        call: impl FnOnce(&World, &Vnode, &[u8]) -> Result<(Vnode, ObjKind), Error>,
    ) -> Done {
        let (dir, last) = self.dir(path)?;
        let (made, kind) = call(self, &dir, last)?;
        let attr = self.fs.getattr(&made);
        let attrs = Attrs { mode: attr.perm, uid: attr.uid, gid: attr.gid, mtime: None };
        let life = Life { ino: attr.ino, generation: attr.generation };
        let name = self.name(path)?;
        let obj = self.tree.make(attrs);
        self.tree.names.insert(name.clone(), obj);
        Ok(vec![Happening::Made { obj, kind, attrs, life }, Happening::NameSet { name, obj }])
    }

    fn link(&mut self, old: &Path, new: &Path) -> Done {
        let file = self.file(old)?;
        let (dir, last) = self.dir(new)?;
        self.fs.link(&self.cred, &file, &dir, last)?;
        let (obj, name) = (self.obj(old)?, self.name(new)?);
        self.tree.names.insert(name.clone(), obj);
        Ok(vec![Happening::NameSet { name, obj }])
    }

    fn remove(
        &mut self,
        path: &Path,
        call: impl FnOnce(&World, &Vnode, &[u8]) -> Result<(), Error>,
    ) -> Done {
        let (dir, last) = self.dir(path)?;
        call(self, &dir, last)?;
        let (name, obj) = (self.name(path)?, self.obj(path)?);
        self.tree.names.remove(&name);
        Ok(vec![Happening::NameGone { name, obj }])
    }

    fn rename(&mut self, old: &Path, new: &Path) -> Done {
        let (from_dir, from) = self.dir(old)?;
        let (to_dir, to) = self.dir(new)?;
        let (source, target) = ((&from_dir, from), (&to_dir, to));
        self.fs.rename(&self.cred, source, target, RenameMode::Replace)?;
        let (from, to, obj) = (self.name(old)?, self.name(new)?, self.obj(old)?);
        let replaced = self.tree.names.get(&to).copied();
        if replaced == Some(obj) {
            // Two names of one file: POSIX has rename do nothing.
            return Ok(Vec::new());
        }
        self.tree.names.remove(&from);
        self.tree.names.insert(to.clone(), obj);
        Ok(vec![Happening::Renamed { from, to, obj, replaced }])
    }

    fn exchange(&mut self, one: &Path, other: &Path) -> Done {
        let (one_dir, first) = self.dir(one)?;
        let (other_dir, second) = self.dir(other)?;
        let (a, b) = ((&one_dir, first), (&other_dir, second));
        self.fs.rename(&self.cred, a, b, RenameMode::Exchange)?;
        let (one, other, moved, away) =
            (self.name(one)?, self.name(other)?, self.obj(one)?, self.obj(other)?);
        if moved == away {
            return Ok(Vec::new());
        }
        self.tree.names.insert(one.clone(), away);
        self.tree.names.insert(other.clone(), moved);
        Ok(vec![Happening::Exchanged { one, other, moved, away }])
    }

    fn space(&mut self, how: Space, path: &Path, offset: u64, len: u64) -> Done {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        let size = self.fs.getattr(&file).size;
        let mode = match how {
            Space::Allocate => Fallocate::Allocate,
            Space::Punch => Fallocate::PunchHole,
            Space::Zero => Fallocate::ZeroRange,
        };
        self.tree.moved(obj);
        let done = self.fs.fallocate(&self.cred, &file, offset, len, mode);
        let end = offset.saturating_add(len);
        let zeroed = |end: u64| Happening::Zeroed { obj, bytes: offset..end.max(offset) };
        match (how, done) {
            (Space::Allocate, done) => {
                done?;
                let grown = Happening::Resized { obj, size: end };
                Ok(if end > size { vec![grown] } else { Vec::new() })
            }
            (Space::Punch, done) => done.map(|()| vec![zeroed(end.min(size))]),
            (Space::Zero, Ok(())) => Ok(vec![zeroed(end)]),
            // What lies inside the old size may have been zeroed, block by block from the front.
            (Space::Zero, Err(Error::NoSpace)) => {
                let inside = end.min(size).saturating_sub(offset);
                let mut bytes = vec![0; usize::try_from(inside).unwrap_or(0)];
                let read = self.fs.read(&file, offset, &mut bytes)?;
                let zeros = bytes.iter().take(read).take_while(|&&byte| byte == 0).count();
                Ok(vec![zeroed(offset + zeros as u64)])
            }
            (Space::Zero, Err(error)) => Err(error),
        }
    }

    fn write(&mut self, path: &Path, offset: Option<u64>, len: u64, sync: bool) -> Done {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        let offset = offset.unwrap_or_else(|| self.fs.getattr(&file).size);
        self.tree.version += 1;
        self.tree.moved(obj);
        let version = self.tree.version;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        tag::fill(obj, version, offset, &mut bytes);
        let mode = WriteMode { sync, ..WriteMode::default() };
        let wrote =
            |len: u64, whole| Happening::Wrote { obj, bytes: offset..offset + len, version, whole };
        match self.fs.write(&self.cred, &file, offset, &bytes, mode) {
            Ok(0) => Ok(Vec::new()),
            Ok(done) => {
                let mut all = vec![wrote(done as u64, true)];
                all.extend(sync.then_some(Happening::Fsynced { obj, data_only: false }));
                Ok(all)
            }
            // Nothing was written, and no size promised; blocks may have come and gone.
            Err(Error::NoSpace) => Err(Error::NoSpace),
            Err(Error::Io(_)) => Ok(vec![wrote(len, false)]),
            Err(error) => Err(error),
        }
    }

    fn truncate(&mut self, path: &Path, size: u64) -> Done {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        self.fs.setattr(&self.cred, &file, &SetAttr { size: Some(size), ..SetAttr::default() })?;
        self.tree.moved(obj);
        Ok(vec![Happening::Resized { obj, size }])
    }

    fn set_attr(&mut self, path: &Path, set: SetAttr) -> Done {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        let attr = self.fs.setattr(&self.cred, &file, &set)?;
        let at = obj.0 as usize;
        let before = self.tree.attrs.get(at).and_then(|attrs| attrs.mtime);
        let mtime = match set.mtime {
            Some(SetTime::To(to)) => Some(to.secs),
            _ => before,
        };
        let attrs = Attrs { mode: attr.perm, uid: attr.uid, gid: attr.gid, mtime };
        if let Some(slot) = self.tree.attrs.get_mut(at) {
            *slot = attrs;
        }
        Ok(vec![Happening::Attr { obj, attrs }])
    }

    fn set_xattr(&mut self, path: &Path, name: &str, len: Option<u32>) -> Done {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        let (user, key) = (XattrNamespace::User, name.as_bytes());
        let value = len.map(|len| {
            self.tree.version += 1;
            xattr_value(self.tree.version, len)
        });
        match &value {
            Some(value) => self.fs.setxattr(&self.cred, &file, user, key, value, XattrSet::Any)?,
            None => self.fs.removexattr(&self.cred, &file, user, key)?,
        }
        Ok(vec![Happening::Xattr { obj, name: key.to_vec(), value }])
    }

    fn fsync(&mut self, path: &Path, data_only: bool) -> Done {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        self.fs.fsync(&file, data_only)?;
        Ok(vec![Happening::Fsynced { obj, data_only }])
    }
}
