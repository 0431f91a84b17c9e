//! The image that a snapshot shows, read without mounting the volume.
//!
//! References: `spec/snapshots.md` §2, §3.

use std::borrow::Cow;

use ffs_ondisk::Ino;

use super::super::image::ImageBytes;
use super::inodes::{SF_SNAPSHOT, pointer};
use super::tree::{Inode, REGULAR, Tree};
use super::volume::{NDADDR, NIADDR, Volume};

impl Tree {
    /// The inodes that the superblock lists as snapshots, oldest first.
    pub(crate) fn listed_snapshots(&self) -> impl Iterator<Item = Ino> {
        self.volume.snapshots.into_iter().take_while(|&ino| ino != 0).map(Ino)
    }

    /// Whether an inode is marked as a snapshot.
    #[must_use]
    pub(crate) fn is_snapshot(&self, inode: &Inode) -> bool {
        inode.flags & SF_SNAPSHOT != 0 && inode.mode >> 12 == REGULAR
    }
}

/// The image that a snapshot shows.
pub(crate) struct SnapshotImage<'a> {
    image: &'a dyn ImageBytes,
    /// For each block the byte of the volume where its content is; `None`: zeros.
    blocks: Vec<Option<u64>>,
    bsize: u64,
    len: u64,
}

impl<'a> SnapshotImage<'a> {
    /// The image in the snapshot `inode` of the volume that `tree` was read from; `None` if a block
    /// of pointers is outside of the volume.
    #[must_use]
    pub(crate) fn of(
        image: &'a dyn ImageBytes,
        tree: &Tree,
        inode: &Inode,
    ) -> Option<SnapshotImage<'a>> {
        let v = tree.volume;
        let count = v.size.div_ceil(v.frag);
        let pointers = Pointers { image, v: &v, count: count as usize };
        let raw = pointers.all(inode.text)?;
        let place = |(lbn, raw): (u64, u64)| match raw {
            0 => Some(Some(lbn * v.bsize)),
            // Addresses in the first block are marks of blocks that were free.
            raw if raw < v.frag.max(3) => Some(None),
            raw if raw < v.size => Some(Some(raw * v.fsize)),
            _ => None,
        };
        let blocks = (0..count).zip(raw).map(place).collect::<Option<Vec<_>>>()?;
        Some(SnapshotImage { image, blocks, bsize: v.bsize, len: v.size * v.fsize })
    }

    /// The blocks of the image, the last one perhaps in part; `None` for zeros.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Option<Cow<'_, [u8]>>> {
        self.blocks.iter().zip(0..).map(move |(at, lbn)| {
            let len = (self.len - lbn * self.bsize).min(self.bsize) as usize;
            at.and_then(|at| self.image.read(at, len))
        })
    }

    /// All bytes of the image.
    #[must_use]
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len as usize);
        for (block, lbn) in self.blocks().zip(1..) {
            all.extend_from_slice(block.as_deref().unwrap_or(&[]));
            all.resize((self.bsize * lbn).min(self.len) as usize, 0);
        }
        all
    }
}

/// The pointers of a file, as they are on the device.
struct Pointers<'a> {
    image: &'a dyn ImageBytes,
    v: &'a Volume,
    /// Pointers that are read.
    count: usize,
}

impl Pointers<'_> {
    /// The pointers of the inode whose pointers begin at byte `at`.
    fn all(&self, at: u64) -> Option<Vec<u64>> {
        let mut found = Vec::with_capacity(self.count);
        let width = self.v.pointer();
        let words = self.image.read(at, (NDADDR + NIADDR) * width as usize)?;
        let word = |i: usize| pointer(self.v, &words, i * width as usize);
        found.extend((0..NDADDR.min(self.count)).map(word));
        for level in 0..NIADDR {
            self.below(word(NDADDR + level), level, &mut found)?;
        }
        Some(found)
    }

    /// Appends the pointers below the indirect block `at`, which has `above` levels below it.
    fn below(&self, at: u64, above: usize, found: &mut Vec<u64>) -> Option<()> {
        if found.len() >= self.count {
            return Some(());
        }
        let v = self.v;
        if !v.holds_data(at, v.frag) {
            return None;
        }
        let bytes = self.image.read(at * v.fsize, v.bsize as usize)?;
        for i in 0..v.nindir {
            if found.len() >= self.count {
                break;
            }
            let entry = pointer(v, &bytes, (i * v.pointer()) as usize);
            match above {
                0 => found.push(entry),
                _ => self.below(entry, above - 1, found)?,
            }
        }
        Some(())
    }
}
