//! Extended attributes of UFS2 inodes.
//!
//! A change writes the whole attribute area to new fragments, and the inode's pointers to them. The
//! old fragments are freed after that. If the ordering mode requires it, the new area is written
//! before the inode, as in FreeBSD, because a check cannot detect an area with wrong content.
//! So a call that fails leaves the old attributes. On a full volume attributes cannot be changed,
//! but the last one can be removed.
//!
//! The area is not rewritten in place: after a loss of power it could have sectors of both
//! versions, or a length other than `di_extsize`.
//!
//! Reference: `spec/on-disk-format.md` §10.1; `spec/soft-updates.md` §6.13.

use super::freeblks::Detached;
use super::lifecycle::place;
use super::{Inode, InodeView, LockedInode};
use crate::alloc::Reserve;
use crate::buf::{BufKey, BufKind, BufRef, DiskBlock, NewContent};
use crate::error::{Error, Result};
use crate::ordering::{BlockContent, Event, FragRun, InodeChange, PtrSlot};
use crate::types::{XattrNamespace, XattrSet};
use ffs_ondisk::dinode::ext_frags;
use ffs_ondisk::extattr::{self, BadRecord, Namespace, SetError};
use ffs_ondisk::{Dinode, Format, FragNo, Structure};

/// Blocks of the attribute area (`UFS_NXADDR`).
const BLOCKS: usize = 2;

fn on_disk(ns: XattrNamespace) -> Namespace {
    match ns {
        XattrNamespace::User => Namespace::User,
        XattrNamespace::System => Namespace::System,
    }
}

/// Buffer of block `i` of the area.
fn key(ip: &Inode, i: usize) -> BufKey {
    BufKey::File(ip.ino, -1 - i as i64)
}

/// Block `i` of the area, at `at`.
fn ext_block(ip: &Inode, i: usize, at: FragNo, len: usize) -> DiskBlock {
    DiskBlock { key: key(ip, i), kind: BufKind::Data, addr: at, len }
}

impl<'a> InodeView<'a> {
    /// The value of an attribute.
    ///
    /// # Errors
    /// [`Error::NoAttr`]; [`Error::NotSupported`] on UFS1; [`Error::Format`]; the device's.
    pub(crate) fn xattr_get(self, ns: XattrNamespace, name: &[u8]) -> Result<Vec<u8>> {
        let area = self.ext_area()?;
        let found = extattr::find(self.g().endian, &area, on_disk(ns), name);
        let found = found.map_err(|b| damaged(self.ip, &b))?;
        found.map(|a| a.value.to_vec()).ok_or(Error::NoAttr)
    }

    /// The names of all attributes, in the order in which they are stored.
    ///
    /// # Errors
    /// As [`InodeView::xattr_get`].
    pub(crate) fn xattr_list(self) -> Result<Vec<(XattrNamespace, Vec<u8>)>> {
        let area = self.ext_area()?;
        let mut all = Vec::new();
        for attr in extattr::records(self.g().endian, &area) {
            let attr = attr.map_err(|b| damaged(self.ip, &b))?;
            match attr.namespace {
                Namespace::User => all.push((XattrNamespace::User, attr.name.to_vec())),
                Namespace::System => all.push((XattrNamespace::System, attr.name.to_vec())),
                Namespace::Other(_) => {}
            }
        }
        Ok(all)
    }

    /// The content of the area.
    fn ext_area(self) -> Result<Vec<u8>> {
        let g = self.g();
        if g.format == Format::Ufs1 {
            return Err(Error::NotSupported("extended attributes"));
        }
        let mut area = Vec::with_capacity(self.data.d.extsize as usize);
        for (i, &p) in self.data.d.extb.iter().enumerate().take(BLOCKS) {
            let frags = ext_frags(self.g(), self.data.d.extsize, i as u64);
            if frags == 0 {
                break;
            }
            let Some(at) = self.checked_run(p, frags, Structure::ExtAttr)? else {
                let want = "the address of a block";
                let (s, place) = (Structure::ExtAttr, place(self.ip.ino));
                let e = Error::corrupt(s, place, "block pointer", p, want);
                return Err(self.ump.cache.record_damage(e));
            };
            let len = (frags * g.fsize) as usize;
            let buf = self.ump.cache.bread(ext_block(self.ip, i, at, len))?;
            area.extend_from_slice(&buf.read().bytes);
        }
        area.truncate(self.data.d.extsize as usize);
        Ok(area)
    }

    /// Writes the area to the runs `places`.
    fn write_ext(self, area: &[u8], places: &[FragRun]) -> Result<()> {
        let (mut result, what) = (Ok(()), BlockContent::ExtAttr);
        self.forget_blocks(-2..=-1);
        let parts = area.chunks(self.g().bsize as usize);
        for (i, (part, &run)) in parts.zip(places).enumerate() {
            let buf = self.fill_ext(i, part, run);
            let slot = PtrSlot::ExtAttr(self.ip.ino, i);
            let then = self
                .ump
                .ordering
                .notify(Event::PointerSet {
                    slot,
                    new: run,
                    old: None,
                    content: what,
                    block: buf.key,
                })
                .disposition;
            result = result.and(self.ump.cache.apply(&buf, then));
        }
        result
    }

    /// Cancels the pointers to new runs of the area, and frees the runs.
    fn unwrite_ext(self, places: &[FragRun]) {
        for (i, run) in places.iter().enumerate().rev() {
            self.ump.ordering.notify(Event::PointerCancelled {
                slot: PtrSlot::ExtAttr(self.ip.ino, i),
                new: *run,
            });
        }
        self.forget_blocks(-2..=-1);
        places.iter().for_each(|run| self.ump.free_quietly(*run));
    }

    /// The buffer of block `i` of the area, at `run`, with the content `part` and zeros.
    fn fill_ext(self, i: usize, part: &[u8], run: FragRun) -> BufRef {
        let len = (run.frags * self.g().fsize) as usize;
        let buf = self.ump.cache.getblk(ext_block(self.ip, i, run.at, len), NewContent::Zeroed);
        if let Some(to) = buf.write().bytes.get_mut(..part.len()) {
            to.copy_from_slice(part);
        }
        buf
    }

    /// Allocates the runs of an area of `size` bytes.
    fn alloc_ext(self, size: u32, reserve: Reserve) -> Result<Vec<FragRun>> {
        let mut places: Vec<FragRun> = Vec::new();
        for i in 0..BLOCKS as u64 {
            let frags = ext_frags(self.g(), size, i);
            if frags == 0 {
                break;
            }
            let pref = places.last().map(|r| r.at.plus(r.frags.into()));
            match self.ump.alloc.alloc_frags(self.ip.ino, pref, frags, reserve) {
                Ok(at) => places.push(FragRun { at, frags }),
                Err(e) => {
                    for run in places {
                        self.ump.free_quietly(run);
                    }
                    return Err(e);
                }
            }
        }
        Ok(places)
    }
}

impl<'a> LockedInode<'a> {
    /// Sets an attribute and `ctime`, and updates the inode.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NoAttr`] as `how` requires; [`Error::AttributesFull`] if the
    /// area would be larger than two blocks; else as [`InodeView::xattr_get`]. On an error nothing
    /// changes.
    pub(crate) fn xattr_set(
        &mut self,
        (ns, name): (XattrNamespace, &[u8]),
        value: &[u8],
        how: XattrSet,
        reserve: Reserve,
    ) -> Result<()> {
        let g = self.g();
        let area = self.view().ext_area()?;
        let found = extattr::find(g.endian, &area, on_disk(ns), name);
        let there = found.map_err(|b| damaged(self.ip, &b))?.is_some();
        match how {
            XattrSet::Create if there => return Err(Error::Exists),
            XattrSet::Replace if !there => return Err(Error::NoAttr),
            _ => {}
        }
        let limit = extattr::area_limit(g);
        let area = extattr::set(g.endian, &area, on_disk(ns), name, value, limit);
        let area = area.map_err(|e| match e {
            SetError::Damaged(b) => damaged(self.ip, &b),
            SetError::Name => Error::Invalid("attribute name"),
            SetError::NoSpace { limit, .. } => Error::AttributesFull(limit),
        })?;
        self.set_ext_area(&area, reserve)
    }

    /// Removes an attribute, sets `ctime`, and updates the inode.
    ///
    /// # Errors
    /// As [`InodeView::xattr_get`]. On an error nothing changes.
    pub(crate) fn xattr_remove(&mut self, ns: XattrNamespace, name: &[u8]) -> Result<()> {
        let area = self.view().ext_area()?;
        let left = extattr::remove(self.g().endian, &area, on_disk(ns), name);
        let left = left.map_err(|b| damaged(self.ip, &b))?.ok_or(Error::NoAttr)?;
        self.set_ext_area(&left, Reserve::Allowed)
    }

    /// Replaces the area.
    fn set_ext_area(&mut self, area: &[u8], reserve: Reserve) -> Result<()> {
        let size = u32::try_from(area.len()).map_err(|_| Error::NoSpace)?;
        let _inode_block = self.ump.inode_block(self.ip.ino)?;
        let frags = |size| (0..BLOCKS as u64).map(|i| ext_frags(self.g(), size, i)).sum::<u32>();
        let more = frags(size).saturating_sub(frags(self.data.d.extsize));
        let (held, hold) = (self.data.d.ext_sectors(self.g()), self.hold_quota(more, reserve)?);
        let places = self.view().alloc_ext(size, reserve)?;
        if let Err(e) = self.view().write_ext(area, &places) {
            self.view().unwrite_ext(&places);
            return Err(e);
        }
        self.ump.ordering.notify(Event::ExtAttrReplaced {
            ino: self.ip.ino,
            old: self.data.d.extb,
            old_size: self.data.d.extsize,
        });
        let old = self.detach_ext();
        let frags = self.set_ext_blocks(&places);
        drop(hold);
        let blocks = self.data.d.blocks.saturating_sub(held);
        self.set_blocks(blocks.saturating_add(Dinode::sectors(self.g(), frags)));
        self.data.d.extsize = size;
        self.touch_changed();
        // If this fails, the new attributes are set, and fsck has to free the old fragments.
        self.update(InodeChange::ExtAttr)?;
        self.view().free_all(&old)
    }

    /// Makes `places` the area's blocks, and returns the number of their fragments.
    fn set_ext_blocks(&mut self, places: &[FragRun]) -> u32 {
        for (p, run) in self.data.d.extb.iter_mut().zip(places) {
            *p = run.at.pointer();
        }
        places.iter().map(|run| run.frags).sum()
    }

    /// Clears the inode's pointers to the area, and returns them. The caller corrects the block
    /// count.
    pub(super) fn detach_ext(&mut self) -> Vec<Detached> {
        let g = self.g();
        let mut out = Vec::new();
        let size = self.data.d.extsize;
        for (i, p) in self.data.d.extb.iter_mut().enumerate() {
            let frags = ext_frags(g, size, i as u64);
            if *p != 0 && frags > 0 {
                out.push(Detached::data(*p, frags, -1 - i as i64));
            }
            *p = 0;
        }
        self.data.d.extsize = 0;
        out
    }
}

fn damaged(ip: &Inode, b: &BadRecord) -> Error {
    b.error(Structure::ExtAttr, place(ip.ino)).into()
}
