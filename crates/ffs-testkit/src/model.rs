//! A model of a file system with the behaviour that POSIX requires.
//!
//! **Purpose.** The reference of the model tests: every operation runs on the real file system and
//! on the model, and results, errnos and the resulting trees must be equal. The model is simple
//! rather than fast.
//!
//! **Invariants.**
//! 1. An operation that returns an error changes nothing.
//! 2. The model has unlimited space: a caller that received `ENOSPC` from the real file system does
//!    not run the operation on the model.
//! 3. All operations are the super-user's; other tests cover permissions.

use std::collections::BTreeMap;

/// Error numbers (Linux).
pub mod errno {
    /// No such file.
    pub const ENOENT: i32 = 2;
    /// File exists.
    pub const EEXIST: i32 = 17;
    /// Not a directory.
    pub const ENOTDIR: i32 = 20;
    /// Is a directory.
    pub const EISDIR: i32 = 21;
    /// Invalid argument.
    pub const EINVAL: i32 = 22;
    /// Too large.
    pub const EFBIG: i32 = 27;
    /// Name too long.
    pub const ENAMETOOLONG: i32 = 36;
    /// Directory not empty.
    pub const ENOTEMPTY: i32 = 39;
    /// Operation not permitted.
    pub const EPERM: i32 = 1;
    /// No such device or address.
    pub const ENXIO: i32 = 6;
    /// No such attribute.
    pub const ENODATA: i32 = 61;
}
use errno::*;

/// Number of a node of the model; never used twice.
pub type NodeId = u64;

/// Type and content of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Directory: names.
    Dir(BTreeMap<Vec<u8>, NodeId>),
    /// Regular file: content.
    File(Vec<u8>),
    /// Symbolic link: target.
    Symlink(Vec<u8>),
    /// Fifo.
    Fifo,
    /// Whiteout: a character device 0:0.
    Whiteout,
}

/// A file of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its type and content.
    pub body: Body,
    /// Names, and for directories `.` and the children's `..`.
    pub nlink: u32,
    /// Low 12 bits of the mode.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Parent, of directories.
    pub parent: NodeId,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// How a rename treats its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rename {
    /// Replace.
    Replace,
    /// Fail if it exists.
    NoReplace,
    /// Swap.
    Exchange,
    /// Replace, and leave a whiteout at the old name.
    Whiteout,
    /// As `Whiteout`, but fail if the target exists.
    WhiteoutNoReplace,
}

/// The reference file system.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: BTreeMap<NodeId, Node>,
    next: NodeId,
    /// Largest file, bytes.
    pub max_file_size: u64,
}

/// Result of a model operation: an errno on failure.
pub type Res<T> = Result<T, i32>;

impl Model {
    /// The root directory.
    pub const ROOT: NodeId = 1;

    /// An empty file system.
    #[must_use]
    pub fn new(max_file_size: u64) -> Model {
        let mut nodes = BTreeMap::new();
        nodes.insert(Self::ROOT, Self::fresh(Body::Dir(BTreeMap::new()), 0o755, Self::ROOT, 2));
        Model { nodes, next: 2, max_file_size }
    }

    fn fresh(body: Body, perm: u16, parent: NodeId, nlink: u32) -> Node {
        Node { body, nlink, perm, uid: 0, gid: 0, parent, xattrs: BTreeMap::new() }
    }

    /// A node; `None` if it was removed.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// Changes attributes that have no rules here.
    pub fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(&id)
    }

    /// All nodes by number.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(k, v)| (*k, v))
    }

    fn names(&self, dir: NodeId) -> Res<&BTreeMap<Vec<u8>, NodeId>> {
        match &self.nodes.get(&dir).ok_or(ENOENT)?.body {
            Body::Dir(names) => Ok(names),
            _ => Err(ENOTDIR),
        }
    }

    fn names_mut(&mut self, dir: NodeId) -> Option<&mut BTreeMap<Vec<u8>, NodeId>> {
        match &mut self.nodes.get_mut(&dir)?.body {
            Body::Dir(names) => Some(names),
            _ => None,
        }
    }

    fn is_dir(&self, id: NodeId) -> bool {
        matches!(self.nodes.get(&id), Some(Node { body: Body::Dir(_), .. }))
    }

    fn check_name(name: &[u8]) -> Res<()> {
        if name.len() > 255 {
            return Err(ENAMETOOLONG);
        }
        if name.is_empty() || name.iter().any(|&b| b == 0 || b == b'/') {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// The node that `name` in `dir` names.
    ///
    /// # Errors
    /// An errno.
    pub fn lookup(&self, dir: NodeId, name: &[u8]) -> Res<NodeId> {
        let names = self.names(dir)?;
        match name {
            b"." => Ok(dir),
            b".." => Ok(self.nodes.get(&dir).map_or(dir, |n| n.parent)),
            _ => {
                Self::check_name(name)?;
                names.get(name).copied().ok_or(ENOENT)
            }
        }
    }

    /// Enters a new node.
    ///
    /// # Errors
    /// An errno.
    pub fn make(&mut self, dir: NodeId, name: &[u8], body: Body, perm: u16) -> Res<NodeId> {
        let names = self.names(dir)?;
        if name == b"." || name == b".." {
            return Err(EEXIST);
        }
        Self::check_name(name)?;
        if names.contains_key(name) {
            return Err(EEXIST);
        }
        let id = self.next;
        self.next += 1;
        let is_dir = matches!(body, Body::Dir(_));
        let perm = if matches!(body, Body::Symlink(_)) { 0o777 } else { perm };
        self.nodes.insert(id, Self::fresh(body, perm, dir, if is_dir { 2 } else { 1 }));
        if is_dir {
            self.bump(dir, 1);
        }
        self.names_mut(dir).map(|n| n.insert(name.to_vec(), id));
        Ok(id)
    }

    fn bump(&mut self, id: NodeId, by: i32) {
        if let Some(n) = self.nodes.get_mut(&id) {
            n.nlink = n.nlink.saturating_add_signed(by);
        }
    }

    /// Another name for a file.
    ///
    /// # Errors
    /// An errno.
    pub fn link(&mut self, file: NodeId, dir: NodeId, name: &[u8]) -> Res<()> {
        let names = self.names(dir)?;
        if self.is_dir(file) {
            return Err(EPERM);
        }
        if name == b"." || name == b".." {
            return Err(EEXIST);
        }
        Self::check_name(name)?;
        if names.contains_key(name) {
            return Err(EEXIST);
        }
        self.bump(file, 1);
        self.names_mut(dir).map(|n| n.insert(name.to_vec(), file));
        Ok(())
    }

    /// Removes a name of a file.
    ///
    /// # Errors
    /// An errno.
    pub fn unlink(&mut self, dir: NodeId, name: &[u8]) -> Res<()> {
        self.names(dir)?;
        if name == b"." || name == b".." {
            return Err(EISDIR);
        }
        let id = self.lookup(dir, name)?;
        if self.is_dir(id) {
            return Err(EISDIR);
        }
        self.names_mut(dir).map(|n| n.remove(name));
        self.drop_link(id);
        Ok(())
    }

    fn drop_link(&mut self, id: NodeId) {
        self.bump(id, -1);
        if self.nodes.get(&id).is_some_and(|n| n.nlink == 0) {
            self.nodes.remove(&id);
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// An errno.
    pub fn rmdir(&mut self, dir: NodeId, name: &[u8]) -> Res<()> {
        self.names(dir)?;
        match name {
            b"." => return Err(EINVAL),
            b".." => return Err(ENOTEMPTY),
            _ => {}
        }
        let id = self.lookup(dir, name)?;
        if !self.names(id)?.is_empty() {
            return Err(ENOTEMPTY);
        }
        self.names_mut(dir).map(|n| n.remove(name));
        self.nodes.remove(&id);
        self.bump(dir, -1);
        Ok(())
    }

    /// Whether `id` is `below` or inside it.
    fn inside(&self, mut id: NodeId, below: NodeId) -> bool {
        loop {
            if id == below {
                return true;
            }
            let up = self.nodes.get(&id).map_or(Self::ROOT, |n| n.parent);
            if up == id {
                return false;
            }
            id = up;
        }
    }

    /// Renames.
    ///
    /// # Errors
    /// An errno.
    pub fn rename(&mut self, from: (NodeId, &[u8]), to: (NodeId, &[u8]), mode: Rename) -> Res<()> {
        let dot = |n: &[u8]| n == b"." || n == b"..";
        self.names(from.0)?;
        self.names(to.0)?;
        if dot(from.1) || dot(to.1) {
            return Err(EINVAL);
        }
        Self::check_name(from.1)?;
        Self::check_name(to.1)?;
        let src = self.lookup(from.0, from.1)?;
        let dst = match self.lookup(to.0, to.1) {
            Ok(id) => Some(id),
            Err(ENOENT) => None,
            Err(e) => return Err(e),
        };
        let exclusive = matches!(mode, Rename::NoReplace | Rename::WhiteoutNoReplace);
        if exclusive && dst.is_some() {
            return Err(EEXIST);
        }
        if self.is_dir(src) && self.inside(to.0, src) {
            return Err(EINVAL);
        }
        match (mode, dst) {
            (Rename::Exchange, None) => Err(ENOENT),
            (Rename::Exchange, Some(d)) => self.exchange(from, src, to, d),
            (_, Some(d)) if d == src => Ok(()),
            (_, d) => {
                self.replace(from, src, to, d)?;
                if matches!(mode, Rename::Whiteout | Rename::WhiteoutNoReplace) {
                    self.make(from.0, from.1, Body::Whiteout, 0)?;
                }
                Ok(())
            }
        }
    }

    fn exchange(
        &mut self,
        from: (NodeId, &[u8]),
        src: NodeId,
        to: (NodeId, &[u8]),
        dst: NodeId,
    ) -> Res<()> {
        if self.is_dir(dst) && self.inside(from.0, dst) {
            return Err(EINVAL);
        }
        self.names_mut(from.0).map(|n| n.insert(from.1.to_vec(), dst));
        self.names_mut(to.0).map(|n| n.insert(to.1.to_vec(), src));
        self.reparent(src, from.0, to.0);
        self.reparent(dst, to.0, from.0);
        Ok(())
    }

    fn reparent(&mut self, id: NodeId, old: NodeId, new: NodeId) {
        if self.is_dir(id) && old != new {
            self.bump(old, -1);
            self.bump(new, 1);
            if let Some(n) = self.nodes.get_mut(&id) {
                n.parent = new;
            }
        }
    }

    fn replace(
        &mut self,
        from: (NodeId, &[u8]),
        src: NodeId,
        to: (NodeId, &[u8]),
        dst: Option<NodeId>,
    ) -> Res<()> {
        if let Some(d) = dst {
            match (self.is_dir(src), self.is_dir(d)) {
                (true, false) => return Err(ENOTDIR),
                (false, true) => return Err(EISDIR),
                (true, true) if self.inside(from.0, d) => return Err(ENOTEMPTY),
                (true, true) if !self.names(d)?.is_empty() => return Err(ENOTEMPTY),
                (true, true) => {
                    self.nodes.remove(&d);
                    self.bump(to.0, -1);
                }
                (false, false) => self.drop_link(d),
            }
        }
        self.names_mut(from.0).map(|n| n.remove(from.1));
        self.names_mut(to.0).map(|n| n.insert(to.1.to_vec(), src));
        self.reparent(src, from.0, to.0);
        Ok(())
    }

    fn content(&self, file: NodeId) -> Res<&Vec<u8>> {
        match &self.nodes.get(&file).ok_or(ENOENT)?.body {
            Body::File(c) => Ok(c),
            Body::Dir(_) => Err(EISDIR),
            _ => Err(EINVAL),
        }
    }

    fn content_mut(&mut self, file: NodeId) -> Res<&mut Vec<u8>> {
        self.content(file)?;
        match &mut self.nodes.get_mut(&file).ok_or(ENOENT)?.body {
            Body::File(c) => Ok(c),
            _ => Err(EINVAL),
        }
    }

    /// Reads up to `len` bytes at `at`.
    ///
    /// # Errors
    /// An errno.
    pub fn read(&self, file: NodeId, at: usize, len: usize) -> Res<&[u8]> {
        let c = self.content(file)?;
        let from = at.min(c.len());
        Ok(&c[from..(from + len).min(c.len())])
    }

    /// Writes at `at`, filling a gap with zeros.
    ///
    /// # Errors
    /// An errno.
    pub fn write(&mut self, file: NodeId, at: usize, data: &[u8]) -> Res<()> {
        let limit = self.max_file_size;
        let c = self.content_mut(file)?;
        if (at + data.len()) as u64 > limit {
            return Err(EFBIG);
        }
        if data.is_empty() {
            return Ok(());
        }
        if c.len() < at + data.len() {
            c.resize(at + data.len(), 0);
        }
        c[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    /// Sets the size.
    ///
    /// # Errors
    /// An errno.
    pub fn truncate(&mut self, file: NodeId, size: usize) -> Res<()> {
        let limit = self.max_file_size;
        let c = self.content_mut(file)?;
        if size as u64 > limit {
            return Err(EFBIG);
        }
        c.resize(size, 0);
        Ok(())
    }

    /// Zeros a range inside the file; the size stays.
    ///
    /// # Errors
    /// An errno.
    pub fn punch(&mut self, file: NodeId, at: usize, len: usize) -> Res<()> {
        let c = self.content_mut(file)?;
        let from = at.min(c.len());
        let to = (at + len).min(c.len());
        c[from..to].fill(0);
        Ok(())
    }
}
