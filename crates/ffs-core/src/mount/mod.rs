//! wip
use crate::*;
use ffs_device::BlockDevice;
use ffs_device::clock::Clock;
use ffs_ondisk::{Geometry, Ino};
use std::sync::Arc;

/// What the core takes from outside.
#[derive(Clone)]
pub struct Env {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Seeds generation numbers and random placement; same seed, same choices.
    pub seed: u64,
}

/// A mounted file system. Cheap to clone; all clones are the same mount.
#[derive(Clone)]
pub struct Ffs {}

#[allow(unused_variables, missing_docs)]
impl Ffs {
    pub fn mount(dev: Arc<dyn BlockDevice>, opts: &MountOptions, env: Env) -> Result<Ffs> {
        Err(Error::NotSupported("wip"))
    }
    /// Writes everything, marks the volume clean; later calls fail with EIO-like Stale. Open unlinked files are freed.
    pub fn unmount(&self) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    /// Changes between read-only and read-write.
    pub fn remount(&self, read_only: bool) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    pub fn is_read_only(&self) -> bool {
        true
    }
    /// Why the mount is read-only though read-write was asked (dirty, snapshots, old format...), if so.
    pub fn read_only_reason(&self) -> Option<&'static str> {
        None
    }
    pub fn geometry(&self) -> &Geometry {
        unimplemented!()
    }
    pub fn statfs(&self) -> StatFs {
        unimplemented!()
    }
    pub fn sync(&self) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    /// Work of the background syncer: writes what has been dirty too long. Called once a second by whoever drives time.
    pub fn tick(&self) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    pub fn counters(&self) -> CounterValues {
        unimplemented!()
    }
    pub fn root(&self) -> Result<Vnode> {
        Err(Error::NotSupported("wip"))
    }
    /// The file with number `ino`; with `generation` given, only if it is still that file (ESTALE).
    pub fn vget(&self, ino: Ino, generation: Option<u32>) -> Result<Vnode> {
        Err(Error::NotSupported("wip"))
    }
    pub fn lookup(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<Vnode> {
        Err(Error::NotSupported("wip"))
    }
    /// Follows `path` from `from` (no symlinks followed), components separated by '/'.
    pub fn create(
        &self,
        cred: &Cred,
        dir: &Vnode,
        name: &[u8],
        kind: NodeKind,
        perm: u16,
    ) -> Result<Vnode> {
        Err(Error::NotSupported("wip"))
    }
    pub fn mkdir(&self, cred: &Cred, dir: &Vnode, name: &[u8], perm: u16) -> Result<Vnode> {
        Err(Error::NotSupported("wip"))
    }
    pub fn symlink(&self, cred: &Cred, dir: &Vnode, name: &[u8], target: &[u8]) -> Result<Vnode> {
        Err(Error::NotSupported("wip"))
    }
    pub fn link(&self, cred: &Cred, file: &Vnode, dir: &Vnode, name: &[u8]) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    pub fn unlink(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    pub fn rmdir(&self, cred: &Cred, dir: &Vnode, name: &[u8]) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    pub fn rename(
        &self,
        cred: &Cred,
        from: (&Vnode, &[u8]),
        to: (&Vnode, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    /// Entries from position `at` (0 = start) on, "." and ".." included, until `each` returns false.
    pub fn readdir(
        &self,
        dir: &Vnode,
        at: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    pub fn readlink(&self, link: &Vnode) -> Result<Vec<u8>> {
        Err(Error::NotSupported("wip"))
    }
    pub fn getattr(&self, file: &Vnode) -> Attr {
        unimplemented!()
    }
    pub fn setattr(&self, cred: &Cred, file: &Vnode, set: &SetAttr) -> Result<Attr> {
        Err(Error::NotSupported("wip"))
    }
    pub fn access(&self, cred: &Cred, file: &Vnode, want: Access) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    /// Bytes read; fewer than asked only at the end of the file.
    pub fn read(&self, file: &Vnode, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Err(Error::NotSupported("wip"))
    }
    /// Bytes written; a short write where space ran out in the middle, an error where nothing could be written.
    pub fn write(
        &self,
        cred: &Cred,
        file: &Vnode,
        offset: u64,
        data: &[u8],
        mode: WriteMode,
    ) -> Result<usize> {
        Err(Error::NotSupported("wip"))
    }
    pub fn fallocate(
        &self,
        cred: &Cred,
        file: &Vnode,
        offset: u64,
        len: u64,
        how: Fallocate,
    ) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    /// First offset >= `offset` with data (ENXIO if none).
    pub fn seek_data(&self, file: &Vnode, offset: u64) -> Result<u64> {
        Err(Error::NotSupported("wip"))
    }
    pub fn seek_hole(&self, file: &Vnode, offset: u64) -> Result<u64> {
        Err(Error::NotSupported("wip"))
    }
    pub fn fsync(&self, file: &Vnode, data_only: bool) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    pub fn getxattr(
        &self,
        cred: &Cred,
        file: &Vnode,
        ns: XattrNamespace,
        name: &[u8],
    ) -> Result<Vec<u8>> {
        Err(Error::NotSupported("wip"))
    }
    pub fn setxattr(
        &self,
        cred: &Cred,
        file: &Vnode,
        ns: XattrNamespace,
        name: &[u8],
        value: &[u8],
        how: XattrSet,
    ) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    pub fn removexattr(
        &self,
        cred: &Cred,
        file: &Vnode,
        ns: XattrNamespace,
        name: &[u8],
    ) -> Result<()> {
        Err(Error::NotSupported("wip"))
    }
    pub fn listxattr(&self, cred: &Cred, file: &Vnode) -> Result<Vec<(XattrNamespace, Vec<u8>)>> {
        Err(Error::NotSupported("wip"))
    }
}
