//! Making and freeing files.
//!
//! Reference: `spec/allocation.md` §2.2; `spec/soft-updates.md` §6.1, §6.12.

use super::table::Unlinked;
use super::{Inode, InodeTable, InodeView, LockedInode};
use crate::alloc::ParentDir;
use crate::error::{Error, Result};
use crate::ordering::{Event, FreeWhen, InodeChange};
use ffs_device::clock::Rng;
use ffs_ondisk::{Dinode, FileType, Format, Ino, Structure, dinode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Inodes wrongly marked free that one allocation passes over.
const MAX_MISMARKED: u32 = 1024;

impl InodeTable {
    /// A new file in `parent`: type and permissions `mode`, one link (a directory two), times now,
    /// depth, a generation of its own. Only in memory: the caller completes it and reports it with
    /// [`InodeChange::Init`].
    ///
    /// Not held. A caller that fails before it could enter a name holds it, sets `nlink` to 0 and
    /// releases it: that frees it.
    ///
    /// # Errors
    /// Of the allocator; the device's.
    pub(crate) fn create(
        &self,
        parent: &ParentDir,
        mode: u16,
        uid: u32,
        gid: u32,
    ) -> Result<Arc<Inode>> {
        let is_dir = FileType::of_mode(mode) == Some(FileType::Directory);
        let (ino, old) = self.take_free_inode(parent, is_dir)?;
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

    /// Takes an inode that is free on disk too, and the generation it had.
    ///
    /// A map may call free what its inode block shows to be a file. Such an inode is passed over and
    /// stays marked used, which it is.
    fn take_free_inode(&self, parent: &ParentDir, is_dir: bool) -> Result<(Ino, u32)> {
        let mut in_use = None;
        for _ in 0..MAX_MISMARKED {
            let ino = match self.ump.alloc.alloc_inode(parent, is_dir) {
                Ok(ino) => ino,
                Err(e) => return Err(in_use.unwrap_or(e)),
            };
            match self.last_dinode(ino) {
                Ok(old) if old.mode == 0 => return Ok((ino, old.generation)),
                Ok(old) => {
                    let (s, found) = (Structure::Inode, format!("{:#o}", old.mode));
                    let want = "0, as the cylinder group marks the inode free";
                    let e = Error::corrupt(s, place(ino), "mode", found, want);
                    in_use = Some(self.ump.cache.record_damage(e));
                }
                Err(e) => {
                    self.ump.alloc.free_inode(ino, is_dir)?;
                    return Err(e);
                }
            }
        }
        Err(in_use.unwrap_or(Error::NoInodes))
    }

    /// What an inode's block says of it, unchecked.
    fn last_dinode(&self, ino: Ino) -> Result<Dinode> {
        let block = self.ump.inode_block(ino)?;
        let block = block.read();
        let bytes = block.bytes.get(self.g().ino_to_fsbo(ino)..).unwrap_or(&[]);
        Ok(Dinode::decode(self.g(), bytes))
    }

    /// A generation that the number's last file did not have; never 0.
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

    /// Frees content and inode. Whoever still holds the inode finds it dead.
    fn free_file(&self, file: &mut LockedInode<'_>) -> Result<()> {
        let (ip, was_dir) = (file.ip, file.data.d.is_dir());
        self.removed.lock().remove(ip.ino);
        ip.dir.drop_index();
        let emptied = file.discard_content();
        file.data.d = Dinode { generation: file.data.d.generation, ..Dinode::default() };
        file.data.set_atime(Default::default());
        file.view().forget_blocks(i64::MIN..=i64::MAX);
        // If its block cannot be read the inode stays allocated on disk: so must its number.
        file.update(InodeChange::Free)?;
        self.leave(ip);
        let freed =
            match self.ump.ordering.notify(Event::InodeReleased { ino: ip.ino, was_dir }).free {
                FreeWhen::Now => self.ump.alloc.free_inode(ip.ino, was_dir),
                FreeWhen::Later => Ok(()),
            };
        emptied.and(freed)
    }

    /// At unmount: frees the files without links that somebody still holds. The caller holds no
    /// inode lock.
    ///
    /// # Errors
    /// The first; all files are tried.
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
    /// Largest size that a file of this type may have.
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

/// The number as the first field of an error's place.
pub(super) fn place(ino: Ino) -> ffs_ondisk::Place {
    ffs_ondisk::Place::Inode(ino)
}
