//! Whether a mount can keep up a listed snapshot: the mount and fsck decide it with the same
//! function, so a volume that fsck marks clean can be mounted read-write.
//!
//! # Invariants
//! 1. Each address of an indirect block passed [`Geometry::check_run`], and none occurs twice.
//! 2. The work is bounded by the size of the volume: a file with more blocks than an image and its
//!    list is refused before a block is read.
//!
//! Reference: `spec/snapshots.md` §2, §8.

use super::{LIST_WORD, bad, image_blocks, image_bytes, is_snapshot, list_bytes};
use crate::bmap::{first_of_root, path, pointer};
use crate::dinode::Dinode;
use crate::error::{Error, Place, Structure};
use crate::geometry::{Geometry, NDADDR, NIADDR};
use crate::units::{FragNo, Ino, Lbn};

/// The indirect blocks of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndirectBlocks {
    /// Those whose pointers lead to content, in the order of the content.
    pub leaves: Vec<FragNo>,
    /// The other ones, whose pointers lead to indirect blocks.
    pub above: Vec<FragNo>,
}

/// What a read-write mount does with an inode that the superblock lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedState {
    /// A complete snapshot, which the mount keeps up.
    Complete(IndirectBlocks),
    /// Not a snapshot, or one whose creation was interrupted: it leaves the list.
    Dropped,
}

/// The number of leaves of a file of `blocks` blocks.
#[must_use]
pub fn leaf_count(g: &Geometry, blocks: u64) -> u64 {
    blocks.saturating_sub(NDADDR as u64).div_ceil(g.nindir.into())
}

/// Decides what a mount does with the listed inode `ino`, which is `d`. `read` returns the block at
/// an address.
///
/// # Errors
/// [`Error::Corrupt`] if the snapshot is damaged, so that it cannot be kept up: its size is not
/// that of a snapshot, an indirect block is missing or impossible, or a direct pointer is 0; those
/// of `read`.
pub fn listed_state<E: From<Error>>(
    g: &Geometry,
    ino: Ino,
    d: &Dinode,
    read: impl FnMut(FragNo) -> Result<Vec<u8>, E>,
) -> Result<ListedState, E> {
    let empty = d.size == 0 && d.db == [0; NDADDR] && d.ib == [0; NIADDR];
    if !is_snapshot(d) || empty || d.size == image_bytes(g) {
        return Ok(ListedState::Dropped);
    }
    let blocks = indirect_blocks(g, ino, d, read)?;
    if (0..image_blocks(g)).zip(&d.db).any(|(_, pointer)| *pointer == 0) {
        return Err(bad(ino, "direct pointers", "0".into(), "copies of all direct blocks").into());
    }
    Ok(ListedState::Complete(blocks))
}

/// The indirect blocks of snapshot `ino`, whose inode is `d`. `read` returns the block at an
/// address; the leaves are not read.
///
/// # Errors
/// [`Error::Corrupt`] if the inode does not have the size of a snapshot, or if an indirect block is
/// missing or at an impossible place; those of `read`.
pub fn indirect_blocks<E: From<Error>>(
    g: &Geometry,
    ino: Ino,
    d: &Dinode,
    read: impl FnMut(FragNo) -> Result<Vec<u8>, E>,
) -> Result<IndirectBlocks, E> {
    list_bytes(g, ino, d.size)?;
    let blocks = d.size.div_ceil(g.bsize.into());
    let size = |want: &str| bad(ino, "size", d.size.to_string(), want);
    if path(g, Lbn(blocks.saturating_sub(1))).is_none() {
        return Err(size("a size that the block map can address").into());
    }
    // A word of the list for each block of the volume, at most.
    let image = image_blocks(g);
    let list = (image + 1).saturating_mul(LIST_WORD).div_ceil(g.bsize.into());
    if blocks > image.saturating_add(2 * list + 8) {
        return Err(size("an image and a block list").into());
    }
    let want = leaf_count(g, blocks);
    let mut walk = Walk { g, ino, want, read, found: IndirectBlocks::default() };
    for (root, &raw) in d.ib.iter().enumerate() {
        if first_of_root(g, root).0 >= blocks {
            break;
        }
        walk.collect(raw, root)?;
    }
    let found = walk.found;
    let mut all: Vec<FragNo> = found.leaves.iter().chain(&found.above).copied().collect();
    all.sort_unstable();
    match all.iter().zip(all.iter().skip(1)).find(|(a, b)| a == b) {
        Some((twice, _)) => {
            Err(bad(ino, "indirect block", twice.to_string(), "a block of its own").into())
        }
        None => Ok(found),
    }
}

/// A walk over the indirect blocks of a snapshot.
struct Walk<'g, R> {
    g: &'g Geometry,
    ino: Ino,
    /// The number of leaves that the size requires.
    want: u64,
    read: R,
    found: IndirectBlocks,
}

impl<E: From<Error>, R: FnMut(FragNo) -> Result<Vec<u8>, E>> Walk<'_, R> {
    /// Appends the leaves below the indirect block at `raw`, which is `above` levels over them.
    fn collect(&mut self, raw: i64, above: usize) -> Result<(), E> {
        if self.is_complete() {
            return Ok(());
        }
        let (s, p) = (Structure::Snapshot, Place::Inode(self.ino));
        let at = self.g.check_run(raw, self.g.frag, s, p)?;
        let missing = || bad(self.ino, "indirect block", "0".into(), "an allocated block");
        let at = at.ok_or_else(missing)?;
        if above == 0 {
            self.found.leaves.push(at);
            return Ok(());
        }
        self.found.above.push(at);
        let bytes = (self.read)(at)?;
        for k in 0..self.g.nindir as usize {
            if self.is_complete() {
                break;
            }
            self.collect(pointer(self.g, &bytes, k), above - 1)?;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.found.leaves.len() as u64 >= self.want
    }
}
