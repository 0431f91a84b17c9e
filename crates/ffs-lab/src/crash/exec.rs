//! Performs operations on a mounted volume and keeps the tree that they should have produced.
//!
//! # Invariants
//! 1. The expected tree changes only when a call succeeds, so paths mean the same in both.
//! 2. After a call nothing stays in use but the files of [`Op::Open`]: the inode of a removed file
//!    is freed when the call returns.

pub(super) mod snapshots;
mod space;
mod xattrs;

use std::collections::BTreeMap;

use ffs_core::{
    Cred, Error, Ffs, NodeKind, RenameMode, SetAttr, SetTime, Timespec, Vnode, WriteMode,
};

use super::history::{Action, Attrs, Life, Name, ObjId, ObjKind, ROOT};
use super::op::{Op, Path};
use super::tag;

/// The tree that the workload expects.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    names: BTreeMap<Name, ObjId>,
    /// Mode, owner, group and set times of each object, by number; the root's first.
    attrs: Vec<Attrs>,
    version: u32,
    /// The numbers that one of several threads gives to new objects: those that leave the first
    /// value as remainder when divided by the second.
    lane: (usize, usize),
}

impl Default for Tree {
    fn default() -> Tree {
        let root = Attrs { mode: 0o755, uid: 0, gid: 0, mtime: None };
        Tree { names: BTreeMap::new(), attrs: vec![root], version: 0, lane: (0, 1) }
    }
}

impl Tree {
    /// Whether the path exists.
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

    /// The path of a directory.
    fn path_of(&self, dir: ObjId) -> Option<Vec<String>> {
        if dir == ROOT {
            return Some(Vec::new());
        }
        let (name, _) = self.names.iter().find(|(_, obj)| **obj == dir)?;
        let mut path = self.path_of(name.dir)?;
        path.push(String::from_utf8_lossy(&name.name).into_owned());
        Some(path)
    }

    fn make(&mut self, attrs: Attrs) -> ObjId {
        let obj = self.next();
        self.attrs.resize(obj.0 as usize + 1, attrs);
        obj
    }

    /// The number of the next object.
    fn next(&self) -> ObjId {
        let ((rest, of), count) = (self.lane, self.attrs.len());
        let more = (rest + of - count % of) % of;
        ObjId((count + more) as u32)
    }

    /// The tree of thread `rest` of `of` threads that continue from here at the same time.
    #[cfg(feature = "schedule")]
    pub(super) fn lane(&self, rest: usize, of: usize) -> Tree {
        Tree { lane: (rest, of), ..self.clone() }
    }

    /// Sets names and attributes; object numbers are not reused.
    pub(super) fn replace(&mut self, names: BTreeMap<Name, ObjId>, attrs: &BTreeMap<ObjId, Attrs>) {
        self.names = names;
        for (obj, attrs) in attrs {
            if let Some(known) = self.attrs.get_mut(obj.0 as usize) {
                *known = *attrs;
            }
        }
    }

    /// Forgets the modification time, because a call or the clock moved it.
    fn moved(&mut self, obj: ObjId) {
        if let Some(attrs) = self.attrs.get_mut(obj.0 as usize) {
            attrs.mtime = None;
        }
    }
}

/// The kind of object to create.
enum New<'a> {
    Node(NodeKind, u16, ObjKind),
    Directory,
    Symlink(&'a [u8]),
}

/// The guarantees that a mount with `stable` adds: names and attributes are durable when the call
/// returns.
fn stable_guarantees(done: &[Action]) -> Vec<Action> {
    let objects = done.iter().flat_map(|what| match what {
        Action::NameAdded { name, obj } => vec![*obj, name.dir],
        Action::NameRemoved { name, .. } => vec![name.dir],
        Action::Renamed { from, to, .. } => vec![to.dir, from.dir],
        Action::Exchanged { one, other, .. } => vec![other.dir, one.dir],
        Action::AttrsChanged { obj, .. }
        | Action::XattrChanged { obj, .. }
        | Action::Resized { obj, .. } => vec![*obj],
        Action::Created { .. }
        | Action::Wrote { .. }
        | Action::ContentFound { .. }
        | Action::Zeroed { .. }
        | Action::Fsynced { .. }
        | Action::Synced => Vec::new(),
    });
    objects.map(|obj| Action::Fsynced { obj, data_only: false }).collect()
}

/// A mounted volume, and the user who performs operations on it.
pub(super) struct Executor {
    pub(super) fs: Ffs,
    pub(super) tree: Tree,
    /// Names and attributes are durable when a call returns.
    pub(super) stable: bool,
    cred: Cred,
    open: Vec<Vnode>,
    /// The tree is not tracked: every path that the volume resolves may be used.
    untracked: bool,
    /// The snapshots, by object, with the hashes of their blocks.
    snapshots: snapshots::Known,
}

type ActionResult = Result<Vec<Action>, Error>;

impl Executor {
    pub(super) fn new(fs: Ffs, tree: Tree) -> Executor {
        Executor {
            fs,
            tree,
            stable: false,
            cred: Cred::root(),
            open: Vec::new(),
            untracked: false,
            snapshots: snapshots::Known::default(),
        }
    }

    /// An executor on a volume whose tree is not tracked. Its actions are no history.
    pub(super) fn untracked(fs: Ffs) -> Executor {
        Executor { untracked: true, ..Executor::new(fs, Tree::default()) }
    }

    /// Closes all files in use.
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

    /// The object that `path` leads to in the expected tree.
    fn obj(&self, path: &Path) -> Result<ObjId, Error> {
        let known = self.tree.obj(path);
        known.or(self.untracked.then_some(ObjId(u32::MAX))).ok_or(Error::NotFound)
    }

    fn name(&self, path: &Path) -> Result<Name, Error> {
        self.tree.name(path).ok_or(Error::NotFound)
    }

    /// Performs `op` and returns its actions.
    pub(super) fn perform(&mut self, op: &Op) -> ActionResult {
        let mut done = self.act(op)?;
        if self.stable {
            done.extend(stable_guarantees(&done));
        }
        Ok(done)
    }

    fn act(&mut self, op: &Op) -> ActionResult {
        match op {
            Op::Create(p) => self.make(p, &New::Node(NodeKind::Regular, 0o644, ObjKind::File)),
            Op::Mkfifo(p) => self.make(p, &New::Node(NodeKind::Fifo, 0o600, ObjKind::Fifo)),
            Op::Mkdir(p) => self.make(p, &New::Directory),
            Op::Symlink(p, target) => self.make(p, &New::Symlink(target.as_bytes())),
            Op::Link(old, new) => self.link(old, new),
            Op::Unlink(p) => self.remove(p, |w, dir, name| w.fs.unlink(&w.cred, dir, name)),
            Op::Rmdir(p) => self.remove(p, |w, dir, name| w.fs.rmdir(&w.cred, dir, name)),
            Op::Rename(old, new) => self.rename(old, new),
            Op::Whiteout(old, new) => self.whiteout(old, new),
            Op::Tmpfile(p, len) => self.tmpfile(p, *len),
            Op::Exchange(one, other) => self.exchange(one, other),
            Op::Write { at, offset, len, sync } => self.write(at, Some(*offset), *len, *sync),
            Op::Append(p, len) => self.write(p, None, *len, false),
            Op::Fill(p, left) => self.fill(p, *left),
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
            Op::SetAcl(p, list, user, perm) => self.set_acl(p, *list, Some((*user, *perm))),
            Op::RemoveAcl(p, list) => self.set_acl(p, *list, None),
            Op::Fsync(p) => self.fsync(p, false),
            Op::Fdatasync(p) => self.fsync(p, true),
            Op::Sync => {
                self.fs.sync()?;
                Ok(vec![Action::Synced])
            }
            Op::Remount { read_only } => {
                self.fs.remount(*read_only)?;
                Ok(if *read_only { vec![Action::Synced] } else { Vec::new() })
            }
            // The recording handles time and faults.
            Op::Wait(_) | Op::Fault { .. } => Ok(Vec::new()),
            Op::User(user) => {
                self.cred = if *user == 0 { Cred::root() } else { Cred::user(*user, *user) };
                Ok(Vec::new())
            }
            Op::Open(p) => {
                let file = self.file(p)?;
                self.open.push(file);
                Ok(Vec::new())
            }
            Op::Close => {
                self.close();
                Ok(Vec::new())
            }
            Op::Snapshot(p) => self.snapshot(p),
            Op::Compare(p) => self.compare(p),
        }
    }

    fn make(&mut self, path: &Path, new: &New<'_>) -> ActionResult {
        let (dir, last) = self.dir(path)?;
        let (fs, cred) = (&self.fs, &self.cred);
        let (made, kind) = match new {
            New::Node(node, perm, kind) => {
                (fs.create(cred, &dir, last, *node, *perm)?, kind.clone())
            }
            New::Directory => (fs.mkdir(cred, &dir, last, 0o755)?, ObjKind::Directory),
            New::Symlink(target) => {
                (fs.symlink(cred, &dir, last, target)?, ObjKind::Symlink(target.to_vec()))
            }
        };
        self.record_creation(path, kind, &made)
    }

    fn link(&mut self, old: &Path, new: &Path) -> ActionResult {
        let file = self.file(old)?;
        let (dir, last) = self.dir(new)?;
        self.fs.link(&self.cred, &file, &dir, last)?;
        let (obj, name) = (self.obj(old)?, self.name(new)?);
        self.tree.names.insert(name.clone(), obj);
        Ok(vec![Action::NameAdded { name, obj }])
    }

    fn remove(
        &mut self,
        path: &Path,
        call: impl FnOnce(&Executor, &Vnode, &[u8]) -> Result<(), Error>,
    ) -> ActionResult {
        let (dir, last) = self.dir(path)?;
        call(self, &dir, last)?;
        let (name, obj) = (self.name(path)?, self.obj(path)?);
        self.tree.names.remove(&name);
        Ok(vec![Action::NameRemoved { name, obj }])
    }

    fn rename(&mut self, old: &Path, new: &Path) -> ActionResult {
        self.rename_in(old, new, RenameMode::Replace)
    }

    fn rename_in(&mut self, old: &Path, new: &Path, mode: RenameMode) -> ActionResult {
        let (from_dir, from) = self.dir(old)?;
        let (to_dir, to) = self.dir(new)?;
        let (source, target) = ((&from_dir, from), (&to_dir, to));
        self.fs.rename(&self.cred, source, target, mode)?;
        let (from, to, obj) = (self.name(old)?, self.name(new)?, self.obj(old)?);
        let replaced = self.tree.names.get(&to).copied();
        if replaced == Some(obj) {
            // For two names of one file rename does nothing (POSIX).
            return Ok(Vec::new());
        }
        self.tree.names.remove(&from);
        self.tree.names.insert(to.clone(), obj);
        Ok(vec![Action::Renamed { from, to, obj, replaced }])
    }

    fn whiteout(&mut self, old: &Path, new: &Path) -> ActionResult {
        let mut done = self.rename_in(old, new, RenameMode::Whiteout { replace: true })?;
        if !done.is_empty() {
            let left = self.file(old)?;
            done.extend(self.record_creation(old, ObjKind::Whiteout, &left)?);
        }
        Ok(done)
    }

    /// Records that a new object has the name `path`.
    fn record_creation(&mut self, path: &Path, kind: ObjKind, made: &Vnode) -> ActionResult {
        let extended = self.extended(made)?;
        let attr = self.fs.getattr(made);
        let attrs = Attrs { mode: attr.perm, uid: attr.uid, gid: attr.gid, mtime: None };
        let life = Life { ino: attr.ino, generation: attr.generation };
        let name = self.name(path)?;
        let obj = self.tree.make(attrs);
        self.tree.names.insert(name.clone(), obj);
        let made = Action::Created { obj, kind, attrs, life, extended };
        Ok(vec![made, Action::NameAdded { name, obj }])
    }

    /// The name is added last, so it guarantees the content written before.
    fn tmpfile(&mut self, path: &Path, len: u64) -> ActionResult {
        let (dir, last) = self.dir(path)?;
        let made = self.fs.create_unnamed(&self.cred, &dir, 0o644, true)?;
        self.tree.version += 1;
        let (version, obj) = (self.tree.version, self.tree.next());
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        tag::fill(obj, version, 0, &mut bytes);
        let wrote = self.fs.write(&self.cred, &made, 0, &bytes, WriteMode::default())?;
        self.fs.link(&self.cred, &made, &dir, last)?;
        let mut done = self.record_creation(path, ObjKind::File, &made)?;
        let wrote = Action::Wrote { obj, bytes: 0..wrote as u64, version, whole: true };
        // Before the name.
        done.insert(1, wrote);
        Ok(done)
    }

    fn exchange(&mut self, one: &Path, other: &Path) -> ActionResult {
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
        Ok(vec![Action::Exchanged { one, other, moved, away }])
    }

    fn write(&mut self, path: &Path, offset: Option<u64>, len: u64, sync: bool) -> ActionResult {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        let offset = offset.unwrap_or_else(|| self.fs.getattr(&file).size);
        self.tree.version += 1;
        self.tree.moved(obj);
        let version = self.tree.version;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        tag::fill(obj, version, offset, &mut bytes);
        let mode = WriteMode { sync, ..WriteMode::default() };
        let wrote =
            |len: u64, whole| Action::Wrote { obj, bytes: offset..offset + len, version, whole };
        match self.fs.write(&self.cred, &file, offset, &bytes, mode) {
            Ok(0) => Ok(Vec::new()),
            Ok(done) => {
                let mut all = vec![wrote(done as u64, true)];
                all.extend(sync.then_some(Action::Fsynced { obj, data_only: false }));
                Ok(all)
            }
            // Nothing was written and no size guaranteed; blocks may have been allocated and freed.
            Err(Error::NoSpace) => Err(Error::NoSpace),
            Err(Error::Io(_)) => Ok(vec![wrote(len, false)]),
            Err(error) => Err(error),
        }
    }

    fn truncate(&mut self, path: &Path, size: u64) -> ActionResult {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        self.fs.setattr(&self.cred, &file, &SetAttr { size: Some(size), ..SetAttr::default() })?;
        self.tree.moved(obj);
        Ok(vec![Action::Resized { obj, size }])
    }

    fn set_attr(&mut self, path: &Path, set: SetAttr) -> ActionResult {
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
        Ok(vec![Action::AttrsChanged { obj, attrs }])
    }

    fn fsync(&mut self, path: &Path, data_only: bool) -> ActionResult {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        if data_only {
            self.fs.fdatasync(&file)?
        } else {
            self.fs.fsync(&file)?
        }
        Ok(vec![Action::Fsynced { obj, data_only }])
    }
}
