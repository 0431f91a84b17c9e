//! The pointers of one snapshot.
//!
//! Every pointer but the 12 in the inode is in an indirect block. All indirect blocks of a snapshot
//! were allocated when it was made, so only their content changes. They are read and written past
//! the buffer cache, because copy-on-write must know what is durable.
//!
//! # Invariants
//! 1. The addresses of the indirect blocks come from [`snapshot::indirect_blocks`], which checks
//!    them, or from the allocator.
//! 2. At most [`MAX_CLEAN`] unchanged indirect blocks are in memory. Of every indirect block that
//!    was read, one bit for each pointer is kept: whether it is 0.
//!
//! Reference: `spec/snapshots.md` §2, §3.

use crate::error::{Error, Result};
use ffs_device::BlockDevice;
use ffs_ondisk::bmap::{pointer, set_pointer};
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::snapshot::{IndirectBlocks, ListedState};
use ffs_ondisk::{Dinode, FragNo, Geometry, Ino, Lbn, Place, Structure, snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Unchanged indirect blocks that are kept in memory.
const MAX_CLEAN: usize = 64;
/// Bits in a word of [`PointerMap::copied`].
const WORD: usize = u64::BITS as usize;

/// The pointers of a snapshot.
#[derive(Debug)]
pub(crate) struct PointerMap {
    ino: Ino,
    g: Geometry,
    /// Blocks of the file: image and block list.
    blocks: u64,
    direct: [i64; NDADDR],
    /// The addresses of the indirect blocks whose pointers lead to content, in order.
    leaves: Vec<FragNo>,
    /// The addresses of the other indirect blocks.
    above: Vec<FragNo>,
    cached: BTreeMap<usize, Vec<u8>>,
    changed: BTreeSet<usize>,
    /// Blocks that the snapshot took over since its pointers were written. The device may show
    /// parts of them free.
    unmarked: Vec<FragNo>,
    /// For each leaf that was read: a bit for each pointer that is not 0.
    copied: Vec<Option<Box<[u64]>>>,
}

/// The index of the leaf with the pointer of `lbn`, and the pointer's index in it; `None`: it is in
/// the inode.
fn leaf_of(g: &Geometry, lbn: Lbn) -> Option<(usize, usize)> {
    let behind = usize::try_from(lbn.0.checked_sub(NDADDR as u64)?).ok()?;
    let n = g.nindir as usize;
    Some((behind / n, behind % n))
}

/// The blocks whose pointers leaf `index` has, within a file of `blocks` blocks.
pub(super) fn blocks_of_leaf(g: &Geometry, index: u64, blocks: u64) -> std::ops::Range<u64> {
    let n = u64::from(g.nindir);
    let first = (NDADDR as u64).saturating_add(index.saturating_mul(n));
    first..first.saturating_add(n).min(blocks)
}

impl PointerMap {
    /// The map of snapshot `ino`, whose inode is `d`. Reads the indirect blocks that lead to
    /// others.
    ///
    /// # Errors
    /// [`Error::Format`] if the inode does not have the size of a snapshot, or if an indirect block
    /// is missing or at an impossible place; the device's.
    pub(crate) fn load(
        g: &Geometry,
        dev: &dyn BlockDevice,
        ino: Ino,
        d: &Dinode,
    ) -> Result<PointerMap> {
        let found = snapshot::indirect_blocks(g, ino, d, |at| read_block(g, dev, at))?;
        Ok(PointerMap::of(g, ino, d, found))
    }

    /// The map of snapshot `ino`, whose inode is `d` and whose indirect blocks are `found`.
    fn of(g: &Geometry, ino: Ino, d: &Dinode, found: IndirectBlocks) -> PointerMap {
        let blocks = d.size.div_ceil(g.bsize.into());
        PointerMap::new(g, ino, blocks, d.db, (found.leaves, found.above))
    }

    /// The map of the inode `ino`, which the superblock lists and which is `d`. `None`: it leaves
    /// the list.
    ///
    /// # Errors
    /// [`Error::Format`] if the snapshot cannot be kept up; the device's.
    pub(crate) fn of_listed(
        g: &Geometry,
        dev: &dyn BlockDevice,
        ino: Ino,
        d: &Dinode,
    ) -> Result<Option<PointerMap>> {
        let listed = snapshot::listed_state(g, ino, d, |at| read_block(g, dev, at))?;
        Ok(match listed {
            ListedState::Complete(found) => Some(PointerMap::of(g, ino, d, found)),
            ListedState::Dropped => None,
        })
    }

    /// The map of a new snapshot: its direct pointers, the indirect blocks whose pointers lead to
    /// content, and the other ones.
    pub(super) fn new(
        g: &Geometry,
        ino: Ino,
        blocks: u64,
        direct: [i64; NDADDR],
        (leaves, above): (Vec<FragNo>, Vec<FragNo>),
    ) -> PointerMap {
        let mut copied = Vec::new();
        copied.resize_with(leaves.len(), || None);
        PointerMap {
            ino,
            g: *g,
            blocks,
            direct,
            leaves,
            above,
            cached: BTreeMap::new(),
            changed: BTreeSet::new(),
            unmarked: Vec::new(),
            copied,
        }
    }

    pub(crate) fn ino(&self) -> Ino {
        self.ino
    }

    /// Blocks of the file: image and block list.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) fn direct(&self) -> [i64; NDADDR] {
        self.direct
    }

    pub(super) fn leaves(&self) -> &[FragNo] {
        &self.leaves
    }

    /// All indirect blocks.
    pub(super) fn indirect_blocks(&self) -> impl Iterator<Item = FragNo> {
        self.leaves.iter().chain(&self.above).copied()
    }

    /// The pointer of block `lbn`; 0 beyond the end.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn pointer(&mut self, dev: &dyn BlockDevice, lbn: Lbn) -> Result<i64> {
        let Some((leaf, k)) = leaf_of(&self.g, lbn) else {
            return Ok(self.direct.get(lbn.0 as usize).copied().unwrap_or(0));
        };
        if lbn.0 >= self.blocks {
            return Ok(0);
        }
        let g = self.g;
        Ok(pointer(&g, self.leaf(dev, leaf)?, k))
    }

    /// Whether the pointer of block `lbn` is 0: the block has to be copied before it is
    /// overwritten.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn is_uncopied(&mut self, dev: &dyn BlockDevice, lbn: Lbn) -> Result<bool> {
        if lbn.0 >= snapshot::image_blocks(&self.g) {
            return Ok(false);
        }
        let Some((leaf, k)) = leaf_of(&self.g, lbn) else {
            return Ok(self.direct.get(lbn.0 as usize).is_some_and(|&p| p == 0));
        };
        if self.copied.get(leaf).is_none_or(Option::is_none) {
            self.leaf(dev, leaf)?;
        }
        let bits = self.copied.get(leaf).and_then(Option::as_ref);
        let word = bits.and_then(|bits| bits.get(k / WORD)).copied().unwrap_or(u64::MAX);
        Ok(word >> (k % WORD) & 1 == 0)
    }

    /// Sets the pointer of block `lbn`, in memory.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn set(&mut self, dev: &dyn BlockDevice, lbn: Lbn, to: i64) -> Result<()> {
        let Some((leaf, k)) = leaf_of(&self.g, lbn) else {
            if let Some(p) = self.direct.get_mut(lbn.0 as usize) {
                *p = to;
            }
            return Ok(());
        };
        let g = self.g;
        set_pointer(&g, self.leaf(dev, leaf)?, k, to);
        self.changed.insert(leaf);
        if let Some(word) = self.copied.get_mut(leaf).and_then(Option::as_mut)
            && let Some(word) = word.get_mut(k / WORD)
        {
            let bit = 1 << (k % WORD);
            *word = if to == 0 { *word & !bit } else { *word | bit };
        }
        Ok(())
    }

    /// Sets the pointer of block `lbn`, in memory, to its place on the volume: the snapshot owns
    /// the block now. Returns the place.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn take_over(&mut self, dev: &dyn BlockDevice, lbn: Lbn) -> Result<FragNo> {
        let own = self.g.blkstofrags(lbn);
        self.set(dev, lbn, own.pointer())?;
        self.unmarked.push(own);
        Ok(own)
    }

    /// Blocks that must be marked used on the device before [`PointerMap::write`].
    pub(super) fn unmarked(&self) -> &[FragNo] {
        &self.unmarked
    }

    /// The sectors of all blocks of the snapshot.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn count_sectors(&mut self, dev: &dyn BlockDevice) -> Result<u64> {
        let mut blocks = self.indirect_blocks().count() as u64;
        for lbn in 0..self.blocks {
            let raw = self.pointer(dev, Lbn(lbn))?;
            blocks += u64::from(raw > 0 && !snapshot::is_mark(&self.g, raw));
        }
        Ok(Dinode::sectors(&self.g, self.g.frag).saturating_mul(blocks))
    }

    /// The number of indirect blocks that changed since they were written.
    pub(super) fn changed(&self) -> usize {
        self.changed.len()
    }

    /// Writes the indirect blocks that changed, without making them durable. The blocks of
    /// [`PointerMap::unmarked`] are marked used on the device.
    ///
    /// # Errors
    /// The device's. Blocks that were not written stay changed.
    pub(super) fn write(&mut self, dev: &dyn BlockDevice) -> Result<()> {
        while let Some(&leaf) = self.changed.first() {
            if let (Some(&at), Some(bytes)) = (self.leaves.get(leaf), self.cached.get(&leaf)) {
                dev.write_at(self.g.frag_to_byte(at), bytes)?;
            }
            self.changed.remove(&leaf);
        }
        self.unmarked.clear();
        Ok(())
    }

    /// Notes which pointers of leaf `leaf`, whose content is `bytes`, are not 0.
    fn note_leaf(&mut self, leaf: usize, bytes: &[u8]) {
        let n = self.g.nindir as usize;
        let mut bits = vec![0u64; n.div_ceil(WORD)].into_boxed_slice();
        for k in 0..n {
            if pointer(&self.g, bytes, k) != 0 {
                bits[k / WORD] |= 1 << (k % WORD);
            }
        }
        if let Some(slot) = self.copied.get_mut(leaf) {
            *slot = Some(bits);
        }
    }

    fn leaf(&mut self, dev: &dyn BlockDevice, leaf: usize) -> Result<&mut Vec<u8>> {
        if !self.cached.contains_key(&leaf) {
            self.make_space(dev)?;
            let Some(&at) = self.leaves.get(leaf) else {
                return Err(bad(self.ino, "block", leaf, "a block of the snapshot"));
            };
            let bytes = read_block(&self.g, dev, at)?;
            self.note_leaf(leaf, &bytes);
            self.cached.insert(leaf, bytes);
        }
        self.cached.get_mut(&leaf).ok_or(Error::Stale)
    }

    /// Drops leaves until one more may be in memory.
    fn make_space(&mut self, dev: &dyn BlockDevice) -> Result<()> {
        if self.cached.len() < MAX_CLEAN {
            return Ok(());
        }
        // Pointers to unmarked blocks are written only by the caller that marks the blocks.
        if self.changed.len() >= MAX_CLEAN && self.unmarked.is_empty() {
            self.write(dev)?;
        }
        let changed = &self.changed;
        self.cached.retain(|leaf, _| changed.contains(leaf));
        Ok(())
    }
}

fn read_block(g: &Geometry, dev: &dyn BlockDevice, at: FragNo) -> Result<Vec<u8>> {
    let mut bytes = vec![0; g.bsize as usize];
    dev.read_at(g.frag_to_byte(at), &mut bytes)?;
    Ok(bytes)
}

fn bad(ino: Ino, field: &'static str, found: impl std::fmt::Display, want: &str) -> Error {
    Error::corrupt(Structure::Snapshot, Place::Inode(ino), field, found, want)
}
