//! Phase 1, fast path: inodes without problems.
//!
//! **Purpose.** Nearly every inode of a volume is a valid file or directory of at most twelve
//! blocks. A few fields suffice to establish this, without a visitor and without a copy of the
//! inode.
//!
//! **Invariants.**
//! 1. The fast path has the effect of the general path or none. It leaves every irregular inode to
//!    the general path, which then works on unchanged state.
//! 2. Metadata fragments are marked used before phase 1 scans inodes. Therefore a pointer to a run
//!    of unused fragments inside one block is valid.

use ffs_ondisk::dinode::{MAXDIRSIZE, Outline};
use ffs_ondisk::geometry::{DEV_BSIZE, NDADDR};
use ffs_ondisk::{FileFlags, FileType, Ino, dinode};

use super::checker::Checker;
use super::inoinfo::{InoInfo, InoStat, State};

impl Checker<'_> {
    /// Records the allocated inode `ino` if it has no problem; `false` if the general path must
    /// check it. `hash_ok`: its check hash is known to be right.
    pub(super) fn check_inode_fast(&mut self, ino: Ino, raw: &[u8], hash_ok: bool) -> bool {
        let Some(outline) = Outline::read(&self.g, raw) else { return false };
        let g = &self.g;
        let is_dir = outline.kind == FileType::Directory;
        let limit = if is_dir { g.maxfilesize.min(MAXDIRSIZE) } else { g.maxfilesize };
        let odd = outline.size > limit.min(NDADDR as u64 * u64::from(g.bsize))
            || (is_dir && outline.size == 0)
            || outline.flags.contains(FileFlags::SF_SNAPSHOT)
            || self.sujfree
            || !self.adopting.is_empty();
        let hash_ok = hash_ok || dinode::hash_ok(g, raw);
        if odd || !hash_ok || !self.mark_direct_blocks(&outline, is_dir) {
            return false;
        }
        let (dtype, nlink) = (outline.kind.dirent(), outline.nlink);
        self.inodes
            .set(ino, InoStat { state: State::Used, dtype, nlink, unaccounted: nlink.into() });
        if is_dir {
            let first = u64::try_from(outline.pointer(&self.g, 0)).unwrap_or(0);
            self.dirs.insert(InoInfo::new(ino, first, outline.size));
        }
        true
    }

    /// Marks the fragments of the direct blocks used; `false`, with no change, if there is any
    /// problem.
    fn mark_direct_blocks(&mut self, outline: &Outline<'_>, is_dir: bool) -> bool {
        let (bsize, fsize, frag) = (u64::from(self.g.bsize), u64::from(self.g.fsize), self.g.frag);
        // Block and fragment sizes are powers of two.
        let blocks = ((outline.size + bsize - 1) >> bsize.trailing_zeros()) as usize;
        if !outline.ends_at(&self.g, blocks) {
            return false;
        }
        let (mut left, mut total) = (outline.size, 0u64);
        for i in 0..blocks {
            let bytes = left.min(bsize);
            left -= bytes;
            let frags = ((bytes + fsize - 1) >> fsize.trailing_zeros()) as u32;
            let at = u64::try_from(outline.pointer(&self.g, i)).unwrap_or(u64::MAX);
            let hole = at == 0 && !is_dir;
            let one_block = (at & u64::from(frag - 1)) + u64::from(frags) <= frag.into();
            if hole || (at > 0 && one_block && self.used.set_run(at, frags)) {
                total += if hole { 0 } else { frags.into() };
                continue;
            }
            self.unmark_direct_blocks(outline, i);
            return false;
        }
        if total * (fsize / DEV_BSIZE) != outline.blocks {
            self.unmark_direct_blocks(outline, blocks);
            return false;
        }
        true
    }

    /// Clears the marks of the first `blocks` direct pointers.
    fn unmark_direct_blocks(&mut self, outline: &Outline<'_>, blocks: usize) {
        let mut left = outline.size;
        for i in 0..blocks {
            let bytes = left.min(self.g.bsize.into());
            left -= bytes;
            let at = outline.pointer(&self.g, i);
            if at > 0 {
                self.used.clear_run(at as u64, self.g.numfrags_up(bytes));
            }
        }
    }
}
