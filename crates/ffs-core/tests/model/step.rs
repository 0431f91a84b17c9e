//! One random operation, on the file system and on the model.

use crate::world::{EIO, World};
use ffs_core::{
    Cred, Error, Fallocate, NodeKind, RenameMode, SetAttr, WriteMode, XattrNamespace, XattrSet,
};
use ffs_ondisk::geometry::Format;
use ffs_testkit::model::{Body, Model, NodeId, Rename, errno};
use ffs_testkit::rng::fill;

/// `ENOSPC`.
const ENOSPC: i32 = 28;

/// The prefix of attribute names in the system's name space.
const SYSTEM: &str = "security.";

/// The name space of an attribute.
pub(crate) fn space_of(name: &[u8]) -> XattrNamespace {
    let system = name.starts_with(SYSTEM.as_bytes());
    if system { XattrNamespace::System } else { XattrNamespace::User }
}

impl World {
    /// A random directory.
    fn some_dir(&mut self) -> NodeId {
        self.some(|b| matches!(b, Body::Dir(_))).unwrap_or(Model::ROOT)
    }

    /// A random regular file, if there is one.
    fn some_file(&mut self) -> Option<NodeId> {
        self.some(|b| matches!(b, Body::File(_)))
    }

    fn some(&mut self, of: impl Fn(&Body) -> bool) -> Option<NodeId> {
        let ids: Vec<NodeId> =
            self.model.nodes().filter(|(_, n)| of(&n.body)).map(|(id, _)| id).collect();
        let at = self.below(ids.len() as u64) as usize;
        ids.get(at).copied()
    }

    /// A name: one of a few, of all lengths, sometimes invalid.
    fn some_name(&mut self) -> Vec<u8> {
        let which = self.below(40);
        match which {
            0 => vec![b'n'; 255],
            1 => vec![b'm'; 256],
            2 => b".".to_vec(),
            3 => b"..".to_vec(),
            4 => "größe".into(),
            5 => b"a/b".to_vec(),
            6 => b"nul\0nul".to_vec(),
            n => {
                let len = 1 + (n * 7) % 60;
                let mut name = format!("f{}", self.below(12)).into_bytes();
                name.resize(name.len().max(len as usize), b'x');
                name
            }
        }
    }

    /// A name that usually exists in `dir`.
    fn name_in(&mut self, dir: NodeId) -> Vec<u8> {
        let names: Vec<Vec<u8>> = match self.model.node(dir).map(|n| &n.body) {
            Some(Body::Dir(names)) => names.keys().cloned().collect(),
            _ => Vec::new(),
        };
        let at = self.below(names.len() as u64 + 1) as usize;
        names.get(at).cloned().unwrap_or_else(|| self.some_name())
    }

    /// Compares the results of both sides; they must agree unless space ran out.
    pub(crate) fn agree<T>(
        &mut self,
        what: String,
        real: Result<T, Error>,
        model: impl FnOnce(&mut Model) -> Result<(), i32>,
    ) {
        match real {
            Err(e) if e.errno() == ENOSPC => self.log.push(format!("{what}: no space")),
            Err(e) if e.errno() == EIO && self.faulty => {
                self.log.push(format!("{what}: {e}"));
                self.troubled = true;
            }
            real => {
                let real = real.map(|_| ()).map_err(|e| e.errno());
                let expected = model(&mut self.model);
                self.log.push(format!("{what}: {real:?}"));
                if real != expected {
                    self.fail(&format!("the model has {expected:?}"));
                }
            }
        }
    }

    /// One random operation.
    pub(crate) fn step(&mut self) {
        self.touched.clear();
        match self.below(100) {
            0..=11 => self.do_make(),
            12..=13 => self.do_unnamed(),
            14..=17 => self.do_link(),
            18..=24 => self.do_unlink(),
            25..=28 => self.do_rmdir(),
            29..=39 => self.do_rename(),
            40..=64 => self.do_write(),
            65..=72 => self.do_truncate(),
            73..=76 => self.do_fallocate(),
            77..=84 => self.do_read(),
            85..=88 => self.do_chmod(),
            89..=93 => self.do_xattr(),
            94..=95 => self.do_fsync(),
            96 => self.compare(),
            97 => self.remount(),
            _ => self.do_lookup(),
        }
    }

    fn do_make(&mut self) {
        let dir = self.some_dir();
        let name = self.some_name();
        let kind = self.below(10);
        let Some(parent) = self.vnode(dir) else { return };
        let root = Cred::root();
        let what = format!("make kind {kind} in {dir} {:?}", String::from_utf8_lossy(&name));
        let (real, body) = match kind {
            0..=2 => (self.fs.mkdir(&root, &parent, &name, 0o755), Body::Dir(Default::default())),
            3 => {
                let len = [1, 59, 60, 61, 119, 120, 121, 700][self.below(8) as usize];
                let target = vec![b't'; len];
                (self.fs.symlink(&root, &parent, &name, &target), Body::Symlink(target))
            }
            4 => (self.fs.create(&root, &parent, &name, NodeKind::Fifo, 0o600), Body::Fifo),
            _ => (
                self.fs.create(&root, &parent, &name, NodeKind::Regular, 0o644),
                Body::File(Vec::new()),
            ),
        };
        let perm = match kind {
            0..=2 => 0o755,
            4 => 0o600,
            _ => 0o644,
        };
        self.agree(what, real, |m| m.make(dir, &name, body, perm).map(|_| ()));
    }

    /// A file without a name, written, sometimes synced; then it gets a name, if it may, or is
    /// freed.
    fn do_unnamed(&mut self) {
        let (dir, linkable) = (self.some_dir(), self.below(4) > 0);
        let (root, name) = (Cred::root(), self.some_name());
        let Some(parent) = self.vnode(dir) else { return };
        let file = match self.fs.create_unnamed(&root, &parent, 0o640, linkable) {
            Ok(file) => file,
            failed => return self.agree(format!("make unnamed in {dir}"), failed, |_| Ok(())),
        };
        let len = self.some_len() as usize;
        let mut data = fill(len, self.rng.next_u64(), 0);
        match self.fs.write(&root, &file, 0, &data, WriteMode::default()) {
            Ok(n) => data.truncate(n),
            failed => return self.agree("write unnamed".into(), failed, |_| Ok(())),
        }
        if self.below(3) == 0 {
            let real = self.fs.fsync(&file);
            self.agree("fsync unnamed".into(), real, |_| Ok(()));
        }
        if self.below(4) == 0 {
            // Freed with its only user.
            return;
        }
        let real = self.fs.link(&root, &file, &parent, &name);
        let what = format!("name unnamed in {dir} {:?}", String::from_utf8_lossy(&name));
        self.agree(what, real, |m| {
            // Errors of the name have precedence.
            let mut with = m.clone();
            with.make(dir, &name, Body::File(data), 0o640)?;
            if !linkable {
                return Err(errno::ENOENT);
            }
            *m = with;
            Ok(())
        });
    }

    fn do_link(&mut self) {
        let Some(file) = self.some(|_| true) else { return };
        let dir = self.some_dir();
        let name = self.some_name();
        let (Some(f), Some(d)) = (self.vnode(file), self.vnode(dir)) else { return };
        let real = self.fs.link(&Cred::root(), &f, &d, &name);
        let what = format!("link {file} to {dir} {:?}", String::from_utf8_lossy(&name));
        self.agree(what, real, |m| m.link(file, dir, &name));
    }

    fn do_unlink(&mut self) {
        let dir = self.some_dir();
        let name = self.name_in(dir);
        let Some(d) = self.vnode(dir) else { return };
        let real = self.fs.unlink(&Cred::root(), &d, &name);
        let what = format!("unlink {dir} {:?}", String::from_utf8_lossy(&name));
        self.agree(what, real, |m| m.unlink(dir, &name));
    }

    fn do_rmdir(&mut self) {
        let dir = self.some_dir();
        let name = self.name_in(dir);
        let Some(d) = self.vnode(dir) else { return };
        let real = self.fs.rmdir(&Cred::root(), &d, &name);
        let what = format!("rmdir {dir} {:?}", String::from_utf8_lossy(&name));
        self.agree(what, real, |m| m.rmdir(dir, &name));
    }

    fn do_rename(&mut self) {
        let (from, to) = (self.some_dir(), self.some_dir());
        let from_name = self.name_in(from);
        let to_name = if self.below(2) == 0 { self.name_in(to) } else { self.some_name() };
        let (real_mode, mode) = match self.below(10) {
            0 => (RenameMode::NoReplace, Rename::NoReplace),
            1 => (RenameMode::Exchange, Rename::Exchange),
            2 => (RenameMode::Whiteout { replace: true }, Rename::Whiteout),
            3 => (RenameMode::Whiteout { replace: false }, Rename::WhiteoutNoReplace),
            _ => (RenameMode::Replace, Rename::Replace),
        };
        let (Some(f), Some(t)) = (self.vnode(from), self.vnode(to)) else { return };
        let real = self.fs.rename(&Cred::root(), (&f, &from_name), (&t, &to_name), real_mode);
        let what = format!(
            "rename {mode:?} {from} {:?} to {to} {:?}",
            String::from_utf8_lossy(&from_name),
            String::from_utf8_lossy(&to_name)
        );
        self.agree(what, real, |m| m.rename((from, &from_name), (to, &to_name), mode));
    }

    /// An offset near a boundary.
    fn some_offset(&mut self, size: u64) -> u64 {
        let (b, f) = (u64::from(self.config.bsize), u64::from(self.config.fsize));
        let edge = match self.below(7) {
            0 => 0,
            1 => size,
            2 => f * self.below(10),
            3 => b * self.below(14),
            4 => 12 * b,
            5 => b * (12 + self.below(3)),
            _ => self.below(size + 1),
        };
        (edge + self.below(3)).saturating_sub(self.below(3))
    }

    fn some_len(&mut self) -> u64 {
        let (b, f) = (u64::from(self.config.bsize), u64::from(self.config.fsize));
        match self.below(5) {
            0 => self.below(20),
            1 => self.below(2 * f),
            2 => b,
            3 => f * self.below(9),
            _ => self.below(3 * b),
        }
    }

    fn size_of(&self, file: NodeId) -> u64 {
        match self.model.node(file).map(|n| &n.body) {
            Some(Body::File(c)) => c.len() as u64,
            _ => 0,
        }
    }

    fn do_write(&mut self) {
        let Some(file) = self.some_file() else { return };
        let offset = self.some_offset(self.size_of(file));
        let len = self.some_len() as usize;
        let append = self.below(5) == 0;
        let data = fill(len, self.rng.next_u64(), 0);
        let Some(f) = self.vnode(file) else { return };
        let mode = WriteMode { append, ..WriteMode::default() };
        let what = format!("write {file} at {offset} {len} bytes, append {append}");
        let at = if append { self.size_of(file) } else { offset } as usize;
        match self.fs.write(&Cred::root(), &f, offset, &data, mode) {
            // Space may run out in the middle.
            Ok(n) if n < len => {
                self.log.push(format!("{what}: short, {n}"));
                self.model.write(file, at, &data[..n]).unwrap();
            }
            real => self.agree(what, real, |m| m.write(file, at, &data)),
        }
        let size = self.fs.getattr(&f).size;
        if !self.troubled && size != self.size_of(file) {
            self.fail(&format!("size is {size}, not {}", self.size_of(file)));
        }
    }

    fn do_truncate(&mut self) {
        let Some(file) = self.some_file() else { return };
        let size = self.some_offset(self.size_of(file));
        let Some(f) = self.vnode(file) else { return };
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        let real = self.fs.setattr(&Cred::root(), &f, &set);
        let what = format!("truncate {file} to {size}");
        self.agree(what, real, |m| m.truncate(file, size as usize));
    }

    fn do_fallocate(&mut self) {
        let Some(file) = self.some_file() else { return };
        let offset = self.some_offset(self.size_of(file));
        let len = self.some_len().max(1);
        let Some(f) = self.vnode(file) else { return };
        let how = match self.below(4) {
            0 => Fallocate::Allocate,
            1 => Fallocate::AllocateKeepSize,
            2 => Fallocate::ZeroRange,
            _ => Fallocate::PunchHole,
        };
        let real = self.fs.fallocate(&Cred::root(), &f, offset, len, how);
        let what = format!("fallocate {how:?} {file} at {offset} {len} bytes");
        let end = (offset + len) as usize;
        let grow = end.max(self.size_of(file) as usize);
        // If space ran out, zeroing or growing may be partly done.
        if matches!(&real, Err(e) if e.errno() == ENOSPC) {
            let size = self.fs.getattr(&f).size as usize;
            self.model.truncate(file, size).unwrap();
            if how == Fallocate::ZeroRange {
                let mut now = vec![0; size];
                self.fs.read(&f, 0, &mut now).unwrap();
                self.model.write(file, 0, &now).unwrap();
            }
        }
        self.agree(what, real, |m| match how {
            Fallocate::AllocateKeepSize => Ok(()),
            Fallocate::Allocate => m.truncate(file, grow),
            Fallocate::PunchHole => m.punch(file, offset as usize, len as usize),
            Fallocate::ZeroRange => {
                m.truncate(file, grow)?;
                m.punch(file, offset as usize, len as usize)
            }
        });
    }

    fn do_read(&mut self) {
        let Some(file) = self.some_file() else { return };
        let offset = self.some_offset(self.size_of(file));
        let len = self.some_len() as usize;
        let Some(f) = self.vnode(file) else { return };
        let mut buf = vec![0xee; len];
        let read = self.fs.read(&f, offset, &mut buf);
        let Some(n) = self.certain("read", read) else { return };
        let want = self.model.read(file, offset as usize, len).unwrap();
        if buf[..n] != *want {
            self.fail(&format!("read {file} at {offset} {len} bytes differs"));
        }
        self.check_holes(file, &f);
    }

    /// `SEEK_DATA` and `SEEK_HOLE` may be coarse, but a hole contains only zeros.
    fn check_holes(&mut self, file: NodeId, f: &ffs_core::Vnode) {
        let size = self.size_of(file);
        let mut at = 0;
        while at < size {
            let data = match self.fs.seek_data(f, at) {
                Ok(d) => d,
                Err(e) if e.errno() == errno::ENXIO => size,
                Err(e) => {
                    self.certain::<()>("seek_data", Err(e));
                    return;
                }
            };
            let hole = self.model.read(file, at as usize, (data - at) as usize).unwrap();
            if hole.iter().any(|&b| b != 0) {
                self.fail(&format!("file {file}: data in the hole {at}..{data}"));
            }
            if data >= size {
                break;
            }
            let hole = self.fs.seek_hole(f, data);
            let Some(next) = self.certain("seek_hole", hole) else { return };
            at = next;
            if at <= data {
                self.fail(&format!("file {file}: seek_hole({data}) = {at}"));
            }
        }
    }

    fn do_chmod(&mut self) {
        let Some(id) = self.some(|b| !matches!(b, Body::Symlink(_))) else { return };
        let perm = self.below(0o1000) as u16;
        let (uid, gid) = (self.below(5) as u32, self.below(70_000) as u32);
        let Some(f) = self.vnode(id) else { return };
        let set =
            SetAttr { perm: Some(perm), uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
        let real = self.fs.setattr(&Cred::root(), &f, &set);
        self.agree(format!("chmod {id} {perm:o}"), real, |m| {
            if let Some(n) = m.node_mut(id) {
                (n.perm, n.uid, n.gid) = (perm, uid, gid);
            }
            Ok(())
        });
    }

    fn do_xattr(&mut self) {
        if self.config.format == Format::Ufs1 {
            return;
        }
        let Some(id) = self.some(|_| true) else { return };
        let Some(f) = self.vnode(id) else { return };
        let space = if self.below(3) == 0 { SYSTEM } else { "" };
        let name = format!("{space}attr{}", self.below(4)).into_bytes();
        let (root, ns) = (Cred::root(), space_of(&name));
        if self.below(3) == 0 {
            let real = self.fs.removexattr(&root, &f, ns, &name);
            let what = format!("removexattr {id}");
            self.agree(what, real, |m| {
                let removed = m.node_mut(id).and_then(|n| n.xattrs.remove(&name));
                removed.map(|_| ()).ok_or(errno::ENODATA)
            });
            return;
        }
        let len = self.below(3000) as usize;
        let value = fill(len, self.rng.next_u64(), 0);
        let how = [XattrSet::Any, XattrSet::Create, XattrSet::Replace][self.below(3) as usize];
        let real = self.fs.setxattr(&root, &f, ns, &name, &value, how);
        let what = format!("setxattr {how:?} {id} {len} bytes");
        self.agree(what, real, |m| {
            let n = m.node_mut(id).ok_or(errno::ENOENT)?;
            match how {
                XattrSet::Create if n.xattrs.contains_key(&name) => Err(errno::EEXIST),
                XattrSet::Replace if !n.xattrs.contains_key(&name) => Err(errno::ENODATA),
                _ => {
                    n.xattrs.insert(name, value);
                    Ok(())
                }
            }
        });
    }

    fn do_fsync(&mut self) {
        let real = match self.some_file() {
            Some(file) if self.below(3) > 0 => {
                let Some(f) = self.vnode(file) else { return };
                if self.rng.below(2) == 0 { self.fs.fdatasync(&f) } else { self.fs.fsync(&f) }
            }
            _ => self.fs.sync(),
        };
        self.agree("fsync".into(), real, |_| Ok(()));
    }

    fn do_lookup(&mut self) {
        let dir = self.some_dir();
        let name = if self.below(2) == 0 { self.name_in(dir) } else { self.some_name() };
        let Some(d) = self.vnode(dir) else { return };
        let real = self.fs.lookup(&Cred::root(), &d, &name);
        let what = format!("lookup {dir} {:?}", String::from_utf8_lossy(&name));
        self.agree(what, real, |m| m.lookup(dir, &name).map(|_| ()));
    }
}
