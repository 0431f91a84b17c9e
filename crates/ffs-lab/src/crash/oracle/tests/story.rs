//! A history together with the volume on which it happens.
//!
//! A method named after a call performs it and records it. A method named `record_...` only records
//! a step, and one named `hidden_...` only changes the volume: both make trees that no crash may
//! leave. Any image can be compared with any part of the history.

use std::collections::BTreeMap;
use std::sync::Arc;

use ffs_admin::newfs;
use ffs_core::{
    Cred, Env, Ffs, MountOptions, NodeKind, RenameMode, SetAttr, Vnode, WriteMode, XattrNamespace,
    XattrSet,
};
use ffs_device::{ManualClock, MemDevice, Timestamp};
use ffs_ondisk::{Endian, Format};

use crate::crash::history::{
    Action, Attrs, Extended, History, Life, Name, ObjId, ObjKind, ROOT, Step,
};
use crate::crash::oracle::{Condition, Expectation, FsyncScope, Promise, SoftUpdateOptions};
use crate::crash::raw::Checker;
use crate::crash::tag;

/// The weakest guarantees that the mount options of soft updates allow.
pub(in crate::crash::oracle) const SOFT: Promise =
    Promise::SoftUpdates(SoftUpdateOptions { fsync: FsyncScope::File, replace_order: false });

pub(in crate::crash::oracle) struct Story {
    pub(in crate::crash::oracle) fs: Ffs,
    dev: Arc<MemDevice>,
    pub(in crate::crash::oracle) history: History,
    pub(in crate::crash::oracle) cred: Cred,
    vnodes: BTreeMap<ObjId, Vnode>,
    version: u32,
}

impl Story {
    pub(in crate::crash::oracle) fn new() -> Story {
        let dev = newfs::quick(Endian::Little, Format::Ufs2, 4096, 512, 2 << 20).unwrap();
        let dev = Arc::new(dev);
        let clock = Arc::new(ManualClock::new(Timestamp::new(1_000_000_000, 0)));
        let fs = Ffs::mount(dev.clone(), &MountOptions::default(), Env::seeded(clock, 1)).unwrap();
        let vnodes = BTreeMap::from([(ROOT, fs.root().unwrap())]);
        let mut story =
            Story { fs, dev, history: History::default(), cred: Cred::root(), vnodes, version: 0 };
        story.synced();
        story
    }

    /// Events so far; a step takes one event.
    pub(in crate::crash::oracle) fn now(&self) -> u64 {
        self.history.steps.last().map_or(0, |step| step.at)
    }

    pub(in crate::crash::oracle) fn record(&mut self, what: Vec<Action>) {
        let began = self.now();
        let step = |what| Step { began, at: began + 1, op: None, what };
        self.history.steps.extend(what.into_iter().map(step));
    }

    pub(in crate::crash::oracle) fn vnode(&self, obj: ObjId) -> Vnode {
        self.vnodes[&obj].clone()
    }

    fn name(dir: ObjId, name: &str) -> Name {
        Name { dir, name: name.as_bytes().to_vec() }
    }

    fn born(&mut self, dir: ObjId, name: &str, kind: ObjKind, vnode: Vnode) -> ObjId {
        let obj = ObjId(self.vnodes.len() as u32);
        let attr = self.fs.getattr(&vnode);
        let attrs = Attrs { mode: attr.perm, uid: attr.uid, gid: attr.gid, mtime: None };
        let life = Life { ino: attr.ino, generation: attr.generation };
        self.vnodes.insert(obj, vnode);
        let name = Story::name(dir, name);
        self.record(vec![
            Action::Created { obj, kind, attrs, life, extended: Extended::new() },
            Action::NameAdded { name, obj },
        ]);
        obj
    }

    /// A file whose history has an extended attribute of the system's name space. `there`: the
    /// volume has it, too.
    pub(in crate::crash::oracle) fn file_with(&mut self, name: &str, there: bool) -> ObjId {
        let obj = self.file(ROOT, name);
        let key = (2, b"k".to_vec());
        for step in self.history.steps.iter_mut().rev().take(2) {
            if let Action::Created { extended, .. } = &mut step.what {
                extended.insert(key.clone(), b"v".to_vec());
            }
        }
        if there {
            let (file, space) = (self.vnode(obj), XattrNamespace::System);
            self.fs.setxattr(&self.cred, &file, space, b"k", b"v", XattrSet::Any).unwrap();
        }
        obj
    }

    pub(in crate::crash::oracle) fn file(&mut self, dir: ObjId, name: &str) -> ObjId {
        let (at, kind) = (self.vnode(dir), NodeKind::Regular);
        let made = self.fs.create(&self.cred, &at, name.as_bytes(), kind, 0o644).unwrap();
        self.born(dir, name, ObjKind::File, made)
    }

    pub(in crate::crash::oracle) fn mkdir(&mut self, dir: ObjId, name: &str) -> ObjId {
        let made = self.fs.mkdir(&self.cred, &self.vnode(dir), name.as_bytes(), 0o755).unwrap();
        self.born(dir, name, ObjKind::Directory, made)
    }

    /// A symbolic link to `target`; the history records `recorded`.
    pub(in crate::crash::oracle) fn symlink(
        &mut self,
        dir: ObjId,
        name: &str,
        target: &str,
        recorded: &str,
    ) -> ObjId {
        let (at, name_, text) = (self.vnode(dir), name.as_bytes(), target.as_bytes());
        let made = self.fs.symlink(&self.cred, &at, name_, text).unwrap();
        self.born(dir, name, ObjKind::Symlink(recorded.as_bytes().to_vec()), made)
    }

    pub(in crate::crash::oracle) fn link(&mut self, obj: ObjId, dir: ObjId, name: &str) {
        let (file, at) = (self.vnode(obj), self.vnode(dir));
        self.fs.link(&self.cred, &file, &at, name.as_bytes()).unwrap();
        let name = Story::name(dir, name);
        self.record(vec![Action::NameAdded { name, obj }]);
    }

    pub(in crate::crash::oracle) fn unlink(&mut self, dir: ObjId, name: &str, obj: ObjId) {
        self.fs.unlink(&self.cred, &self.vnode(dir), name.as_bytes()).unwrap();
        let name = Story::name(dir, name);
        self.record(vec![Action::NameRemoved { name, obj }]);
    }

    /// Records the removal of a name in the root that the volume does not have any more.
    pub(in crate::crash::oracle) fn record_removal(&mut self, name: &str, obj: ObjId) {
        let name = Story::name(ROOT, name);
        self.record(vec![Action::NameRemoved { name, obj }]);
    }

    pub(in crate::crash::oracle) fn rmdir(&mut self, dir: ObjId, name: &str, obj: ObjId) {
        self.fs.rmdir(&self.cred, &self.vnode(dir), name.as_bytes()).unwrap();
        let name = Story::name(dir, name);
        self.record(vec![Action::NameRemoved { name, obj }]);
    }

    /// Moves a name on the volume only.
    pub(in crate::crash::oracle) fn hidden_rename(&self, from: (ObjId, &str), to: (ObjId, &str)) {
        let (a, b) = (self.vnode(from.0), self.vnode(to.0));
        let (from, to) = ((&a, from.1.as_bytes()), (&b, to.1.as_bytes()));
        self.fs.rename(&self.cred, from, to, RenameMode::Replace).unwrap();
    }

    pub(in crate::crash::oracle) fn rename(
        &mut self,
        obj: ObjId,
        from: (ObjId, &str),
        to: (ObjId, &str),
        replaced: Option<ObjId>,
    ) {
        self.hidden_rename(from, to);
        self.record_rename(obj, from, to, replaced);
    }

    /// Records a rename that the volume does not see.
    pub(in crate::crash::oracle) fn record_rename(
        &mut self,
        obj: ObjId,
        from: (ObjId, &str),
        to: (ObjId, &str),
        replaced: Option<ObjId>,
    ) {
        let (from, to) = (Story::name(from.0, from.1), Story::name(to.0, to.1));
        self.record(vec![Action::Renamed { from, to, obj, replaced }]);
    }

    /// Records an exchange that the volume does not see.
    pub(in crate::crash::oracle) fn record_exchange(
        &mut self,
        one: (ObjId, &str),
        other: (ObjId, &str),
        moved: ObjId,
        away: ObjId,
    ) {
        let (one, other) = (Story::name(one.0, one.1), Story::name(other.0, other.1));
        self.record(vec![Action::Exchanged { one, other, moved, away }]);
    }

    /// Removes a name on the volume only.
    pub(in crate::crash::oracle) fn hidden_unlink(&self, dir: ObjId, name: &str) {
        self.fs.unlink(&self.cred, &self.vnode(dir), name.as_bytes()).unwrap();
    }

    /// Writes on the volume only.
    pub(in crate::crash::oracle) fn hidden_write(&self, obj: ObjId, offset: u64, bytes: &[u8]) {
        let file = self.vnode(obj);
        self.fs.write(&self.cred, &file, offset, bytes, WriteMode::default()).unwrap();
    }

    /// Sets the size on the volume only.
    pub(in crate::crash::oracle) fn hidden_truncate(&self, obj: ObjId, size: u64) {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.fs.setattr(&self.cred, &self.vnode(obj), &set).unwrap();
    }

    pub(in crate::crash::oracle) fn record_write(
        &mut self,
        obj: ObjId,
        offset: u64,
        len: u64,
    ) -> Vec<u8> {
        self.version += 1;
        let version = self.version;
        let mut bytes = vec![0; len as usize];
        tag::fill(obj, version, offset, &mut bytes);
        self.record(vec![Action::Wrote { obj, bytes: offset..offset + len, version, whole: true }]);
        bytes
    }

    pub(in crate::crash::oracle) fn write(&mut self, obj: ObjId, offset: u64, len: u64) -> Vec<u8> {
        let bytes = self.record_write(obj, offset, len);
        self.hidden_write(obj, offset, &bytes);
        bytes
    }

    pub(in crate::crash::oracle) fn truncate(&mut self, obj: ObjId, size: u64) {
        self.hidden_truncate(obj, size);
        self.record(vec![Action::Resized { obj, size }]);
    }

    pub(in crate::crash::oracle) fn chmod(&mut self, obj: ObjId, perm: u16, uid: u32) {
        let set = SetAttr { perm: Some(perm), uid: Some(uid), ..SetAttr::default() };
        let attr = self.fs.setattr(&self.cred, &self.vnode(obj), &set).unwrap();
        let attrs = Attrs { mode: attr.perm, uid, gid: attr.gid, mtime: None };
        self.record(vec![Action::AttrsChanged { obj, attrs }]);
    }

    pub(in crate::crash::oracle) fn set_xattr(&mut self, obj: ObjId, name: &str, value: &[u8]) {
        let (file, user) = (self.vnode(obj), XattrNamespace::User);
        self.fs.setxattr(&self.cred, &file, user, name.as_bytes(), value, XattrSet::Any).unwrap();
        let (name, value) = (name.as_bytes().to_vec(), Some(value.to_vec()));
        self.record(vec![Action::XattrChanged { obj, namespace: 1, name, value }]);
    }

    pub(in crate::crash::oracle) fn synced(&mut self) {
        self.record(vec![Action::Synced]);
    }

    pub(in crate::crash::oracle) fn fsynced(&mut self, obj: ObjId) {
        self.record(vec![Action::Fsynced { obj, data_only: false }]);
    }

    pub(in crate::crash::oracle) fn fdatasynced(&mut self, obj: ObjId) {
        self.record(vec![Action::Fsynced { obj, data_only: true }]);
    }

    /// The volume as it is now.
    pub(in crate::crash::oracle) fn image(&self) -> Vec<u8> {
        self.fs.sync().unwrap();
        self.dev.to_vec()
    }

    /// The rules that `image` breaks after a crash and a check.
    pub(in crate::crash::oracle) fn broken_at(
        &self,
        image: &[u8],
        crash: u64,
        promise: Promise,
    ) -> Vec<String> {
        self.broken_in(image, crash, promise, Condition::Recovered)
    }

    /// The rules that `image` breaks after a crash.
    pub(in crate::crash::oracle) fn broken_in(
        &self,
        image: &[u8],
        crash: u64,
        promise: Promise,
        condition: Condition,
    ) -> Vec<String> {
        let mut checker = Checker::new();
        let found = checker.check(&image);
        assert_eq!(found.violations, [], "the tree itself is sound");
        let mut out = Vec::new();
        let expectation = Expectation::new(&self.history, crash, promise);
        expectation.judge(&image, found, condition, &mut out);
        out.sort();
        out.into_iter().map(|violation| violation.rule).collect()
    }

    /// The rules that `image` breaks after a crash now, under soft updates.
    pub(in crate::crash::oracle) fn broken(&self, image: &[u8]) -> Vec<String> {
        self.broken_at(image, self.now(), SOFT)
    }
}

pub(in crate::crash::oracle) const GOOD: [&str; 0] = [];
