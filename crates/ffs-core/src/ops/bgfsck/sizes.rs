//! Block counts and sizes (FreeBSD: `vfs.ffs.adjblkcnt`, `vfs.ffs.setsize`).

use super::{Adjusted, BackgroundCheck};
use crate::alloc::Reserve;
use crate::error::{Error, Result};
use crate::inode::LockedInode;
use crate::mount::Mount;
use crate::ops::Held;
use crate::ordering::InodeChange;
use crate::snapshot::PointerMap;
use ffs_ondisk::{FileType, Ino};

use Adjusted::{Done, Unneeded};

impl BackgroundCheck {
    /// Sets `di_blocks` of an inode to the number of its blocks, which is counted now.
    ///
    /// # Errors
    /// The device's.
    pub fn adjblkcnt(&self, ino: Ino, generation: u32) -> Result<Adjusted> {
        self.adjust(|mp| mp.with_file(ino, generation, Mount::recount))
    }

    /// Shortens a file that ends behind its last block to the end of that block, `size` or later,
    /// or drops the pointers of a directory beyond its size.
    ///
    /// # Errors
    /// The device's.
    pub fn setsize(&self, ino: Ino, generation: u32, size: u64) -> Result<Adjusted> {
        self.adjust(|mp| mp.with_file(ino, generation, |_, file| shorten(file, size)))
    }
}

impl Mount {
    /// Calls `change` with the inode, locked, if it still belongs to the file.
    fn with_file(
        &self,
        ino: Ino,
        generation: u32,
        change: impl FnOnce(&Mount, &mut LockedInode<'_>) -> Result<Adjusted>,
    ) -> Result<Adjusted> {
        let ip = match self.table.get(ino) {
            Ok(ip) => ip,
            // Without links, it is freed by another correction.
            Err(Error::Stale) => return Ok(Unneeded),
            Err(e) => return Err(e),
        };
        let held = Held::new(self, ip);
        let mut file = self.lock(&held.ip);
        if !file.alive() || file.d.generation != generation {
            return Ok(Unneeded);
        }
        change(self, &mut file)
    }

    fn recount(&self, file: &mut LockedInode<'_>) -> Result<Adjusted> {
        let blocks = match file.is_snapshot() {
            false => file.view().count_blocks()?,
            true => match self.count_snapshot(file) {
                Ok(Some(blocks)) => blocks,
                // The end of the check counts it, or it is none any more.
                Ok(None) | Err(Error::Format(_)) => return Ok(Unneeded),
                Err(e) => return Err(e),
            },
        };
        if blocks != file.d.blocks {
            file.correct_blocks(blocks);
            file.update(InodeChange::Attr)?;
        }
        Ok(Done)
    }

    /// The sectors of a snapshot whose removal a crash interrupted; `None` for an active one.
    fn count_snapshot(&self, file: &LockedInode<'_>) -> Result<Option<u64>> {
        let (ump, ino) = (&self.ump, file.ip.ino);
        if ump.snapshots.has(ino) {
            return Ok(None);
        }
        let mut map = PointerMap::load(ump.g(), &*ump.cache.dev, ino, &file.d)?;
        let own = map.count_sectors(&*ump.cache.dev)?;
        Ok(Some(own.saturating_add(file.d.ext_sectors(ump.g()))))
    }
}

fn shorten(file: &mut LockedInode<'_>, size: u64) -> Result<Adjusted> {
    if file.is_snapshot() {
        return Ok(Unneeded);
    }
    if file.d.is_dir() {
        return file.drop_past_end().map(|()| Done);
    }
    if file.d.file_type() != Some(FileType::Regular) {
        return Ok(Unneeded);
    }
    // A program may have written behind the old end since.
    let mut end = size;
    while end < file.d.size {
        match file.view().seek_data(end) {
            Ok(data) => end = file.view().seek_hole(data)?,
            Err(Error::NoData) => break,
            Err(e) => return Err(e),
        }
    }
    if end >= file.d.size {
        return Ok(Unneeded);
    }
    // The new size is the end of a block that the file has, so nothing is allocated.
    file.truncate(end, Reserve::Allowed).map(|()| Done)
}
