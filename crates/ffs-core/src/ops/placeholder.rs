//! Operations still to be written: helper `ops` replaces this file.
use crate::*;
use ffs_ondisk::Ino;

#[allow(unused_variables, missing_docs)]
impl Ffs {
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
