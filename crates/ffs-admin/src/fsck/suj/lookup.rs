//! Entries and block pointers by the names that records give them.
//!
//! **Invariants.**
//! 1. A block pointer counts only below the size of the file, as in the kernel.
//! 2. An entry counts only if it is a record of its directory block, and not if the offset is
//!    inside another record.

use ffs_ondisk::bmap::{self, Named, Path, pointer};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{FragNo, Ino, Lbn, dir};

use super::super::inode::Inode;
use super::table::EntryPlace;
use super::{Recovery, Step, unusable};

/// An entry at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryAt {
    /// The inode that it names.
    pub(super) ino: u32,
    /// Its type.
    pub(super) dtype: u8,
}

/// Byte offset of `..` in a directory.
pub(super) const DOTDOT_OFFSET: u64 = 12;

/// Whether `place` is that of `.` or `..`.
pub(super) fn is_dot(place: EntryPlace) -> bool {
    place.1 <= DOTDOT_OFFSET
}

impl Recovery<'_> {
    /// The entry at `place`.
    pub(super) fn entry_at(&mut self, place: EntryPlace) -> Step<Option<EntryAt>> {
        let g = self.ck.g;
        let (parent, off) = place;
        let node = self.inode(Ino(parent))?;
        if !node.is_dir() || off.saturating_add(DOTDOT_OFFSET) > node.d.size {
            return Ok(None);
        }
        let lbn = g.lblkno(off).0 as i64;
        let Some((at, _)) = self.block_of(&node, lbn)? else { return Ok(None) };
        let (dirblk_size, fsize) = (DIRBLKSIZ as u64, u64::from(g.fsize));
        let begin = u64::from(g.blkoff(off)) / dirblk_size * dirblk_size;
        let frag = self.ck.disk.read(at.plus(begin / fsize), g.fsize as usize)?;
        let from = (begin % fsize) as usize;
        let dirblk = frag.get(from..from + DIRBLKSIZ).unwrap_or(&[]);
        let want = (off % dirblk_size) as usize;
        for rec in dir::records(self.ck.dir_format(), dirblk) {
            let Ok(rec) = rec else {
                return unusable(format!("directory {parent} is damaged at offset {off}"));
            };
            if rec.off == want {
                let live = rec.live() && rec.ino != Ino::WHITEOUT.0;
                return Ok(live.then_some(EntryAt { ino: rec.ino, dtype: rec.dtype }));
            }
        }
        Ok(None)
    }

    /// The fragments to which the block named `lbn` of `node` is mapped.
    pub(super) fn block_of(&mut self, node: &Inode, lbn: i64) -> Step<Option<(FragNo, u32)>> {
        let g = self.ck.g;
        let (raw, frags) = match bmap::parse_name(&g, lbn) {
            Some(Named::ExtAttr(i)) => {
                let begin = i as u64 * u64::from(g.bsize);
                let bytes = u64::from(node.d.extsize).saturating_sub(begin).min(g.bsize.into());
                (node.d.extb.get(i).copied().unwrap_or(0), g.numfrags_up(bytes))
            }
            Some(Named::Data(l)) if node.has_pointers() && l.0 < node.nblocks(&g) => {
                match bmap::path(&g, l) {
                    Some(Path::Direct(i)) => (node.d.db[i], g.blksize(node.d.size, l) / g.fsize),
                    Some(Path::Indirect { levels, index }) => {
                        (self.follow(node, levels, &index[..levels])?, g.frag)
                    }
                    None => (0, 0),
                }
            }
            Some(Named::Indirect { level, first }) if first.0 < node.nblocks(&g) => {
                match bmap::path(&g, first) {
                    Some(Path::Indirect { levels, index }) if node.has_pointers() => {
                        (self.follow(node, levels, &index[..levels - level])?, g.frag)
                    }
                    _ => (0, 0),
                }
            }
            _ => (0, 0),
        };
        if raw == 0 || frags == 0 {
            return Ok(None);
        }
        let at = FragNo(u64::try_from(raw).unwrap_or(0));
        match g.run_problem(at, frags) {
            None => Ok(Some((at, frags))),
            Some(why) => unusable(format!("inode {}: block pointer {raw} is {why}", node.ino)),
        }
    }

    /// The pointer that `index` leads to, from the pointer to an indirect block of `levels` on.
    fn follow(&mut self, node: &Inode, levels: usize, index: &[u32]) -> Step<i64> {
        let g = self.ck.g;
        let mut at = node.d.ib[levels - 1];
        for &slot in index {
            if at == 0 {
                break;
            }
            let frag = FragNo(u64::try_from(at).unwrap_or(0));
            if let Some(why) = g.run_problem(frag, g.frag) {
                return unusable(format!("inode {}: block pointer {at} is {why}", node.ino));
            }
            at = self.indirect_pointer(frag, slot)?;
        }
        Ok(at)
    }

    /// Pointer `slot` of the indirect block at `at`.
    fn indirect_pointer(&mut self, at: FragNo, slot: u32) -> Step<i64> {
        let g = self.ck.g;
        let kept = matches!(&self.indirect, Some((frag, _)) if *frag == at.0);
        if !kept {
            let block = self.ck.disk.read(at, g.bsize as usize)?;
            self.indirect = Some((at.0, block));
        }
        let block = self.indirect.as_ref().map_or(&[][..], |(_, block)| block);
        Ok(pointer(&g, block, slot as usize))
    }

    /// The last block of `node` below its size, if it is mapped.
    pub(super) fn last_block(&mut self, node: &Inode) -> Step<Option<(FragNo, u32)>> {
        match node.nblocks(&self.ck.g).checked_sub(1) {
            Some(last) => self.block_of(node, Lbn(last).0 as i64),
            None => Ok(None),
        }
    }
}
