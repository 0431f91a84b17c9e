//! Creating and freeing files.
//!
//! Reference: `spec/allocation.md` §2.2; `spec/soft-updates.md` §6.1, §6.12.

use super::quota::limits_of;
use super::table::Unlinked;
use super::{Inode, InodeTable, InodeView, LockedInode};
use crate::alloc::{ParentDir, Reserve};
use crate::error::{Error, Result};
use crate::ordering::{Event, FreeWhen, InodeChange};
use crate::quota::Amount;
use ffs_device::clock::Rng;
use ffs_ondisk::quota::counted_ids;
use ffs_ondisk::{Dinode, FileType, Format, Ino, Structure, dinode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The number of inodes wrongly marked free that one allocation skips.
const MAX_MISMARKED: u32 = 1024;

impl InodeTable {
    /// Allocates an inode for a new file in `parent`: type and permissions are `mode`, the link
    /// count is 1 (of a directory 2), the times are now, and the generation is a new one. The inode
    /// is set in memory only: the caller completes it and reports it with [`InodeChange::Init`].
    ///
    /// The inode has no user. A caller that fails before it entered a name holds the inode, sets
    /// `nlink` to 0, and releases the inode, which frees it.
    ///
    /// # Errors
    /// [`Error::Quota`]; the allocator's; the device's.
    pub(crate) fn create(
        &self,
        parent: &ParentDir,
        mode: u16,
        (uid, gid): (u32, u32),
        reserve: Reserve,
    ) -> Result<Arc<Inode>> {
        let is_dir = FileType::of_mode(mode) == Some(FileType::Directory);
        let ids = counted_ids(uid, gid);
        self.ump.charge_quota(ids, Amount::inode(), limits_of(reserve))?;
        let taken = self.take_free_inode(parent, is_dir);
        let (ino, old) = taken.inspect_err(|_| self.ump.quotas.release(ids, Amount::inode()))?;
        let now = self.ump.now();
        let d = Dinode {
            mode,
            nlink: if is_dir { 2 } else { 1 },
            uid,
            gid,
            atime: now,
            mtime: now,
            ctime: now,
            birthtime: if self.g().format == Format::Ufs2 { now } else { Default::default() },
            generation: self.next_generation(old),
            freelink: if is_dir { parent.depth.saturating_add(1) } else { 0 },
            ..Dinode::default()
        };
        Ok(self.enter(ino, d))
    }

    /// Allocates an inode that is free in its block too. Returns also its last generation.
    ///
    /// On a damaged image the bitmap may mark an inode free although its block has a file there.
    /// Such an inode is skipped, and stays marked used.
    fn take_free_inode(&self, parent: &ParentDir, is_dir: bool) -> Result<(Ino, u32)> {
        let mut in_use = None;
        for _ in 0..MAX_MISMARKED {
            let ino = match self.ump.alloc.alloc_inode(parent, is_dir) {
                Ok(ino) => ino,
                Err(e) => return Err(in_use.unwrap_or(e)),
            };
            match self.stored(ino) {
                Ok(old) if old.mode == 0 => return Ok((ino, old.generation)),
                Ok(old) => {
                    let (s, found) = (Structure::Inode, format!("{:#o}", old.mode));
                    let want = "0, as the cylinder group marks the inode free";
                    let e = Error::corrupt(s, place(ino), "mode", found, want);
                    in_use = Some(self.ump.cache.record_damage(e));
                }
                Err(e) => {
                    self.release_number(ino, is_dir)?;
                    return Err(e);
                }
            }
        }
        Err(in_use.unwrap_or(Error::NoInodes))
    }

    /// The inode as the buffer of its block has it, unchecked.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn stored(&self, ino: Ino) -> Result<Dinode> {
        let block = self.ump.inode_block(ino)?;
        let block = block.read();
        let bytes = block.bytes.get(self.g().ino_to_fsbo(ino)..).unwrap_or(&[]);
        Ok(Dinode::decode(self.g(), bytes))
    }

    /// A generation other than that of the last file with this number; never 0.
    fn next_generation(&self, old: u32) -> u32 {
        match old.wrapping_add(1) {
            0 | 1 => self.ump.alloc.rng.next_u32() | 1,
            next => next,
        }
    }

    /// Removes a user. The last user of a file without links frees the file. The caller holds no
    /// inode lock.
    ///
    /// # Errors
    /// An error of freeing. The inode is cleared in memory all the same, but some of its blocks may
    /// stay allocated.
    pub(crate) fn release(&self, ip: &Arc<Inode>) -> Result<()> {
        if self.unuse(ip) { self.inactive(ip) } else { Ok(()) }
    }

    /// Frees a file without links unless it has users again (`ufs_inactive`).
    ///
    /// # Errors
    /// As [`InodeTable::release`].
    pub(crate) fn inactive(&self, ip: &Inode) -> Result<()> {
        if self.ump.is_read_only() {
            return Ok(());
        }
        let mut file = ip.lock(&self.ump);
        if ip.refs.load(Ordering::Acquire) > 0 || file.d.nlink > 0 || !file.alive() {
            return Ok(());
        }
        if file.is_snapshot() {
            // It is never read again. On a full volume the removal needs no copies then.
            self.ump.snapshots.stop_copies(ip.ino);
        }
        if self.removal_pending(ip.ino) {
            let frags = file.d.blocks / Dinode::sectors(self.g(), 1).max(1);
            self.removed.lock().insert(ip.ino, frags);
            return Ok(());
        }
        self.free_file(&mut file)
    }

    /// Frees a file without links, unless it has users.
    ///
    /// # Errors
    /// As [`InodeTable::get`] and [`InodeTable::release`].
    pub(crate) fn free_unlinked(&self, ino: Ino) -> Result<()> {
        self.inactive(&*self.load(ino, Unlinked::Accept)?)
    }

    /// Whether the device may still show names of a file without links. Such a file is freed later,
    /// by [`crate::ordering::WorkItem::DropLinks`].
    pub(crate) fn removal_pending(&self, ino: Ino) -> bool {
        self.ump.ordering.nlink_delta(ino) > 0
    }

    /// Fragments and inodes that will be free.
    pub(crate) fn will_be_free(&self) -> (u64, u64) {
        let pending = self.ump.ordering.pending();
        let removed = self.removed.lock();
        (pending.frags + removed.frags(), pending.inodes + removed.inodes())
    }

    /// Frees the content and the inode. Remaining references see that it is not alive.
    fn free_file(&self, file: &mut LockedInode<'_>) -> Result<()> {
        let (ip, was_dir) = (file.ip, file.data.d.is_dir());
        self.removed.lock().remove(ip.ino);
        ip.dir.drop_index();
        if file.is_snapshot() {
            file.end_snapshot()?;
        }
        let emptied = file.discard_content();
        file.release_quota();
        file.data.d = Dinode { generation: file.data.d.generation, ..Dinode::default() };
        file.data.set_atime(Default::default());
        file.view().forget_blocks(i64::MIN..=i64::MAX);
        // If its block cannot be read, the inode on disk stays a file, so its number stays
        // allocated.
        file.update(InodeChange::Free)?;
        self.leave(ip);
        emptied.and(self.release_number(ip.ino, was_dir))
    }

    /// Marks an inode without a file free, at the time that the ordering mode permits.
    fn release_number(&self, ino: Ino, was_dir: bool) -> Result<()> {
        match self.ump.ordering.notify(Event::InodeReleased { ino, was_dir }).free {
            FreeWhen::Now => self.ump.alloc.free_inode(ino, was_dir),
            FreeWhen::Later => Ok(()),
        }
    }

    /// Frees the files without links that still have users, at unmount. The caller holds no inode
    /// lock.
    ///
    /// # Errors
    /// The first one. The call tries all files.
    pub(crate) fn purge(&self) -> Result<()> {
        let mut result = Ok(());
        for ip in self.select(|d| d.alive() && d.d.nlink == 0) {
            let mut file = ip.lock(&self.ump);
            if file.alive() && file.d.nlink == 0 && !self.removal_pending(ip.ino) {
                result = result.and(self.free_file(&mut file));
            }
        }
        result
    }
}

impl InodeView<'_> {
    /// The largest size of a file of this type.
    pub(super) fn size_limit(self) -> u64 {
        let g = self.g();
        match self.data.d.file_type() {
            Some(FileType::Regular) => g.maxfilesize,
            Some(FileType::Directory) => g.maxfilesize.min(dinode::MAXDIRSIZE),
            Some(FileType::Symlink) => g.bsize.into(),
            _ => 0,
        }
    }
}

/// The place of an error in inode `ino`.
pub(super) fn place(ino: Ino) -> ffs_ondisk::Place {
    ffs_ondisk::Place::Inode(ino)
}
