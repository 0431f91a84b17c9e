//! Signatures, to be replaced by the rooms' modules.

use super::*;
use crate::alloc::{ParentDir, Reserve};
use crate::error::{Error, Result};
use crate::ordering::InodeChange;
use crate::types::{Attr, XattrNamespace, XattrSet};
use ffs_ondisk::{FragNo, Lbn, Timespec};

const WIP: Error = Error::NotSupported("wip");

impl InodeData {
    /// A file: neither freed nor never made. A holder that finds it dead answers `ESTALE`.
    pub(crate) fn alive(&self) -> bool {
        self.d.mode != 0
    }
    /// Time of the last access, lazily noted ones included.
    pub(crate) fn atime(&self) -> Timespec {
        self.d.atime
    }
    pub(crate) fn set_atime(&mut self, t: Timespec) {}
}

impl InodeTable {
    pub(crate) fn new(
        alloc: Arc<Alloc>,
        maxvnodes: usize,
        atime: Atime,
        read_only: Arc<AtomicBool>,
    ) -> InodeTable {
        InodeTable { alloc, atime, read_only, maxvnodes, held: AtomicUsize::new(0) }
    }
    pub(crate) fn alloc(&self) -> &Alloc {
        &self.alloc
    }
    /// From memory or disk, not yet held: call [`InodeTable::hold`] for as long as it is used
    /// beyond the call. [`Error::Stale`] if the inode is free, EIO if it is damaged.
    pub(crate) fn get(&self, ino: Ino) -> Result<Arc<Inode>> {
        Err(WIP)
    }
    /// One more user.
    pub(crate) fn hold(&self, ip: &Arc<Inode>) {}
    /// One user less; the last user of a file without links frees it. No inode lock may be held.
    pub(crate) fn release(&self, ip: &Arc<Inode>) -> Result<()> {
        Err(WIP)
    }
    /// A new inode: type and permissions `mode`, link count 1 (directory: 2), times now, depth,
    /// generation. In memory only: the caller reports it with `update(.., InodeChange::Init)`.
    /// If the caller then fails before a name exists it sets `nlink` to 0 and the inode is freed by
    /// `hold` + `release`. Not held.
    pub(crate) fn create(
        &self,
        parent: &ParentDir,
        mode: u16,
        uid: u32,
        gid: u32,
    ) -> Result<Arc<Inode>> {
        Err(WIP)
    }
    /// The inode into its block's buffer, and the buffer to the device if the ordering policy wants
    /// it there.
    pub(crate) fn update(&self, ip: &Inode, data: &mut InodeData, why: InodeChange) -> Result<()> {
        Err(WIP)
    }
    /// The present.
    pub(crate) fn now(&self) -> Timespec {
        Timespec::default()
    }
    /// Content changed: `mtime`, `ctime` and change counter, in memory.
    pub(crate) fn touch_modified(&self, data: &mut InodeData) {}
    /// Attributes changed: `ctime` and change counter, in memory.
    pub(crate) fn touch_changed(&self, data: &mut InodeData) {}
    /// Notes an access (lazily, by the mount's policy).
    pub(crate) fn touch_accessed(&self, ip: &Inode, data: &InodeData) {}
    pub(crate) fn attr(&self, ip: &Inode, data: &InodeData) -> Attr {
        unimplemented!()
    }

    /// Address of a logical block; `None` for a hole.
    pub(crate) fn bmap(&self, ip: &Inode, data: &InodeData, lbn: Lbn) -> Result<Option<FragNo>> {
        Err(WIP)
    }
    /// Run of contiguous blocks, or of holes, starting at `lbn`: address and number of blocks,
    /// 1 to `max_blocks`.
    pub(crate) fn extent(
        &self,
        ip: &Inode,
        data: &InodeData,
        lbn: Lbn,
        max_blocks: u64,
    ) -> Result<(Option<FragNo>, u64)> {
        Err(WIP)
    }
    /// Makes sure that the first `size_in_block` bytes of block `lbn` have a place: allocates,
    /// extends fragments, allocates indirect blocks, first grows the previous last fragment to a
    /// block where needed. Raises `d.size` to cover them if it was less, and counts `d.blocks`;
    /// neither is written: the caller does `update(Grow)` (or `InitDirectory`, ...).
    ///
    /// With `keep_content` the buffer holds the block's content, zeros where there was none;
    /// without, the caller must overwrite the whole buffer at once. On failure nothing changed.
    pub(crate) fn balloc(
        &self,
        ip: &Inode,
        data: &mut InodeData,
        lbn: Lbn,
        size_in_block: u32,
        keep_content: bool,
        reserve: Reserve,
    ) -> Result<Granted> {
        Err(WIP)
    }
    /// The block's buffer (whole block, or the fragments there are); `None` for a hole and beyond
    /// the end.
    pub(crate) fn read_block(
        &self,
        ip: &Inode,
        data: &InodeData,
        lbn: Lbn,
    ) -> Result<Option<BufRef>> {
        Err(WIP)
    }

    /// Bytes read: fewer than asked only at the end. Notes the access.
    pub(crate) fn read_at(
        &self,
        ip: &Inode,
        data: &InodeData,
        off: u64,
        buf: &mut [u8],
    ) -> Result<usize> {
        Err(WIP)
    }
    /// Bytes written; fewer than given if space or the device ended in the middle. Sets times,
    /// updates the inode (`Grow`). Set-id bits are the caller's.
    pub(crate) fn write_at(
        &self,
        ip: &Inode,
        data: &mut InodeData,
        off: u64,
        bytes: &[u8],
        reserve: Reserve,
    ) -> Result<usize> {
        Err(WIP)
    }
    /// Sets the size, and times, and updates the inode.
    pub(crate) fn truncate(
        &self,
        ip: &Inode,
        data: &mut InodeData,
        new_size: u64,
        reserve: Reserve,
    ) -> Result<()> {
        Err(WIP)
    }
    /// Frees the whole blocks of the range and zeros the rest of it; the size stays.
    pub(crate) fn punch_hole(
        &self,
        ip: &Inode,
        data: &mut InodeData,
        off: u64,
        len: u64,
    ) -> Result<()> {
        Err(WIP)
    }
    /// Zeros, allocated; grows the file to the end of the range.
    pub(crate) fn zero_range(
        &self,
        ip: &Inode,
        data: &mut InodeData,
        off: u64,
        len: u64,
        reserve: Reserve,
    ) -> Result<()> {
        Err(WIP)
    }
    /// Fills the holes of the range with blocks of zeros; without `keep_size` grows the file, with
    /// it leaves what lies beyond the end alone.
    pub(crate) fn allocate_range(
        &self,
        ip: &Inode,
        data: &mut InodeData,
        off: u64,
        len: u64,
        keep_size: bool,
        reserve: Reserve,
    ) -> Result<()> {
        Err(WIP)
    }
    /// First offset from `off` on that has data; [`Error::NoData`] if none.
    pub(crate) fn seek_data(&self, ip: &Inode, data: &InodeData, off: u64) -> Result<u64> {
        Err(WIP)
    }
    /// First offset from `off` on in a hole, or the size; [`Error::NoData`] beyond it.
    pub(crate) fn seek_hole(&self, ip: &Inode, data: &InodeData, off: u64) -> Result<u64> {
        Err(WIP)
    }
    /// Makes the file durable. No inode lock may be held.
    pub(crate) fn fsync(&self, ip: &Inode, data_only: bool) -> Result<()> {
        Err(WIP)
    }
    pub(crate) fn readlink(&self, ip: &Inode, data: &InodeData) -> Result<Vec<u8>> {
        Err(WIP)
    }
    /// Gives a new link its text: in the inode, or in a block. The caller does the `Init` update
    /// first for a long link, after it for a short one.
    pub(crate) fn set_symlink(
        &self,
        ip: &Inode,
        data: &mut InodeData,
        target: &[u8],
        reserve: Reserve,
    ) -> Result<()> {
        Err(WIP)
    }
    pub(crate) fn xattr_get(
        &self,
        ip: &Inode,
        data: &InodeData,
        ns: XattrNamespace,
        name: &[u8],
    ) -> Result<Vec<u8>> {
        Err(WIP)
    }
    pub(crate) fn xattr_set(
        &self,
        ip: &Inode,
        data: &mut InodeData,
        (ns, name): (XattrNamespace, &[u8]),
        value: &[u8],
        how: XattrSet,
        reserve: Reserve,
    ) -> Result<()> {
        Err(WIP)
    }
    pub(crate) fn xattr_remove(
        &self,
        ip: &Inode,
        data: &mut InodeData,
        ns: XattrNamespace,
        name: &[u8],
    ) -> Result<()> {
        Err(WIP)
    }
    pub(crate) fn xattr_list(
        &self,
        ip: &Inode,
        data: &InodeData,
    ) -> Result<Vec<(XattrNamespace, Vec<u8>)>> {
        Err(WIP)
    }
    /// Lazily noted accesses into the inode blocks' buffers. No inode lock may be held.
    pub(crate) fn flush_times(&self) -> Result<()> {
        Err(WIP)
    }
    /// At unmount: frees the files without links that are still held.
    pub(crate) fn purge(&self) -> Result<()> {
        Err(WIP)
    }
}
