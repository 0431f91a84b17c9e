//! Phase 1, the short way: inodes nothing has to be said about.
//!
//! **Purpose.** Nearly every inode of a volume is a sound file or directory of at most twelve blocks. Whether it is
//! can be seen from a few fields, without a visitor, and without a copy of the inode.
//!
//! **Invariants.**
//! 1. The short way does what the long way would have done, or nothing: whatever is out of the ordinary is left to
//!    the long way, which finds the same state as if the short way had not been tried.
//! 2. A fragment of metadata is marked used before phase 1 looks at inodes, so that a run of unused fragments inside
//!    one block of the volume is a good pointer.

use ffs_ondisk::dinode::{MAXDIRSIZE, Outline};
use ffs_ondisk::geometry::{DEV_BSIZE, NDADDR};
use ffs_ondisk::{FileFlags, FileType, Ino, dinode};

use super::Checker;
use super::tables::{Dir, Rec, State};

impl Checker<'_> {
    /// Takes the allocated inode `ino` in if nothing is wrong with it; `false` if it has to be looked at closely.
    pub(super) fn take_in_ordinary(&mut self, ino: Ino, raw: &[u8]) -> bool {
        let Some(outline) = Outline::read(&self.g, raw) else { return false };
        let g = &self.g;
        let is_dir = outline.kind == FileType::Directory;
        let limit = if is_dir { g.maxfilesize.min(MAXDIRSIZE) } else { g.maxfilesize };
        let odd = outline.size > limit.min(NDADDR as u64 * u64::from(g.bsize))
            || (is_dir && outline.size == 0)
            || outline.flags.contains(FileFlags::SF_SNAPSHOT)
            || self.sujfree
            || !self.adopting.is_empty();
        if odd || !dinode::hash_ok(g, raw) || !self.claim_direct(&outline, is_dir) {
            return false;
        }
        let (dtype, nlink) = (outline.kind.dirent(), outline.nlink);
        self.inodes.set(ino, Rec { state: State::Used, dtype, nlink, remaining: nlink.into() });
        if is_dir {
            let first = u64::try_from(outline.pointer(&self.g, 0)).unwrap_or(0);
            self.dirs.insert(Dir::new(ino, first, outline.size));
        }
        true
    }

    /// Claims the direct blocks; `false`, and nothing claimed, if anything about them is not as it should be.
    fn claim_direct(&mut self, outline: &Outline<'_>, is_dir: bool) -> bool {
        let (bsize, fsize, frag) = (u64::from(self.g.bsize), u64::from(self.g.fsize), self.g.frag);
        // Sizes are powers of two.
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
            if hole || (at > 0 && one_block && self.used.take(at, frags)) {
                total += if hole { 0 } else { frags.into() };
                continue;
            }
            self.unclaim_direct(outline, i);
            return false;
        }
        if total * (fsize / DEV_BSIZE) != outline.blocks {
            self.unclaim_direct(outline, blocks);
            return false;
        }
        true
    }

    /// Takes back the claims of the first `blocks` direct pointers.
    fn unclaim_direct(&mut self, outline: &Outline<'_>, blocks: usize) {
        let mut left = outline.size;
        for i in 0..blocks {
            let bytes = left.min(self.g.bsize.into());
            left -= bytes;
            let at = outline.pointer(&self.g, i);
            if at > 0 {
                self.used.give_back(at as u64, self.g.numfrags_up(bytes));
            }
        }
    }
}
