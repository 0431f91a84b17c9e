//! Hashes of the blocks of an image, by which a snapshot is compared with what it showed.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::raw::SnapshotImage;

/// A hash of each block of an image; `None` for zeros.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BlockHashes(Vec<Option<u64>>);

fn hash_block(lbn: u64, bytes: &[u8]) -> Option<u64> {
    let zeros = bytes.iter().all(|&byte| byte == 0);
    (!zeros).then(|| FixedState::with_seed(lbn).hash_one(bytes))
}

impl BlockHashes {
    /// Those of `image`, in blocks of `bsize` bytes.
    #[must_use]
    pub(crate) fn of(image: &[u8], bsize: u32) -> BlockHashes {
        let blocks = image.chunks(bsize.max(1) as usize);
        BlockHashes((0..).zip(blocks).map(|(lbn, bytes)| hash_block(lbn, bytes)).collect())
    }

    /// The first block that differs.
    #[must_use]
    pub(crate) fn first_difference(&self, other: &BlockHashes) -> Option<usize> {
        let differs = self.0.iter().zip(&other.0).position(|(a, b)| a != b);
        let length = (self.0.len() != other.0.len()).then_some(self.0.len().min(other.0.len()));
        differs.or(length)
    }

    /// The first block of `image` that differs.
    #[must_use]
    pub(crate) fn first_wrong(&self, image: &SnapshotImage<'_>) -> Option<u64> {
        let blocks = self.0.iter().zip(image.blocks());
        let mut numbered = (0..).zip(blocks);
        let wrong = numbered.find(|(lbn, (wanted, found))| {
            **wanted != found.as_deref().and_then(|bytes| hash_block(*lbn, bytes))
        });
        wrong.map(|(lbn, _)| lbn)
    }
}
