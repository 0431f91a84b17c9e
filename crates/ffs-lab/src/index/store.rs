//! The blocks of an indexed directory: in a file of a mounted volume, or in memory.
//!
//! # Invariants
//! 1. A block beyond the end is an error.
//! 2. A new block is one behind the last. Directories never shrink.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ffs_core::{Cred, Ffs, SetAttr, Vnode, WriteMode};

use super::error::{IndexError, Result};

/// The blocks of a directory.
pub(super) trait Store: Send {
    /// Bytes of a block.
    fn block_size(&self) -> usize;

    /// The number of blocks.
    fn blocks(&self) -> u32;

    /// Fills `out` from byte `off` of a block.
    fn read(&mut self, block: u32, off: usize, out: &mut [u8]) -> Result<()>;

    /// Writes a part of a block.
    fn write(&mut self, block: u32, off: usize, bytes: &[u8]) -> Result<()>;

    /// Adds a block with this content. Returns its number.
    fn append(&mut self, bytes: &[u8]) -> Result<u32>;
}

/// Reads a whole block into `buf`.
pub(super) fn read_block(store: &mut dyn Store, block: u32, buf: &mut Vec<u8>) -> Result<()> {
    buf.resize(store.block_size(), 0);
    store.read(block, 0, buf)
}

/// Writes the bytes of a block in which `new` differs from `old`.
pub(super) fn write_changes(
    store: &mut dyn Store,
    block: u32,
    old: &[u8],
    new: &[u8],
) -> Result<()> {
    let differs = |at: &usize| old.get(*at) != new.get(*at);
    let Some(first) = (0..new.len()).find(differs) else { return Ok(()) };
    let last = (first..new.len()).rev().find(differs).unwrap_or(first);
    store.write(block, first, new.get(first..=last).unwrap_or(&[]))
}

fn beyond(block: u32, blocks: u32) -> IndexError {
    IndexError::damaged("block number", block, blocks, "a block before the end of the directory")
}

/// The blocks of a file on a mounted volume. They go through the volume's buffer cache.
///
/// The file is one block longer than the directory. So no write ends at the end of the file, and
/// the clustering of sequential writes, which directories do not have, never begins.
pub(super) struct FileStore {
    fs: Ffs,
    file: Vnode,
    cred: Cred,
    block: usize,
    blocks: u32,
}

impl FileStore {
    /// The directory in `file`.
    ///
    /// # Errors
    /// The file is larger than a directory may be.
    pub(super) fn open(fs: &Ffs, file: Vnode, block: usize) -> Result<FileStore> {
        let blocks = (fs.getattr(&file).size / block as u64).saturating_sub(1);
        let blocks = u32::try_from(blocks);
        let blocks = blocks.map_err(|_| IndexError::Store("the file is too large".to_owned()))?;
        Ok(FileStore { fs: fs.clone(), file, cred: Cred::root(), block, blocks })
    }

    fn at(&self, block: u32, off: usize) -> u64 {
        u64::from(block) * self.block as u64 + off as u64
    }

    fn put(&self, block: u32, off: usize, bytes: &[u8]) -> Result<()> {
        let mode = WriteMode::default();
        let wrote = self.fs.write(&self.cred, &self.file, self.at(block, off), bytes, mode);
        match wrote {
            Ok(n) if n == bytes.len() => Ok(()),
            Ok(_) => Err(IndexError::Store("no space on the volume".to_owned())),
            Err(error) => Err(IndexError::Store(error.to_string())),
        }
    }
}

impl Store for FileStore {
    fn block_size(&self) -> usize {
        self.block
    }

    fn blocks(&self) -> u32 {
        self.blocks
    }

    fn read(&mut self, block: u32, off: usize, out: &mut [u8]) -> Result<()> {
        if block >= self.blocks {
            return Err(beyond(block, self.blocks));
        }
        let read = self.fs.read(&self.file, self.at(block, off), out);
        match read {
            Ok(n) if n == out.len() => Ok(()),
            Ok(_) => Err(beyond(block, self.blocks)),
            Err(error) => Err(IndexError::Store(error.to_string())),
        }
    }

    fn write(&mut self, block: u32, off: usize, bytes: &[u8]) -> Result<()> {
        if block >= self.blocks {
            return Err(beyond(block, self.blocks));
        }
        self.put(block, off, bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<u32> {
        let block = self.blocks;
        let size = Some(self.at(block, 0) + 2 * self.block as u64);
        let grown =
            self.fs.setattr(&self.cred, &self.file, &SetAttr { size, ..SetAttr::default() });
        grown.map_err(|error| IndexError::Store(error.to_string()))?;
        self.put(block, 0, bytes)?;
        self.blocks += 1;
        Ok(block)
    }
}

/// The blocks of a directory in memory, and the order in which they were changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Image {
    /// The content of each block.
    pub(super) blocks: Vec<Vec<u8>>,
    /// The blocks that were changed, in the order of their first change. Appended blocks are among
    /// them.
    pub(super) changed: Vec<u32>,
}

/// A directory in memory. Clones share the blocks.
#[derive(Debug, Clone)]
pub(super) struct MemoryStore {
    block: usize,
    image: Arc<Mutex<Image>>,
}

impl MemoryStore {
    /// An empty directory.
    pub(super) fn new(block: usize) -> MemoryStore {
        MemoryStore::of(block, Image::default())
    }

    /// A directory with these blocks.
    pub(super) fn of(block: usize, image: Image) -> MemoryStore {
        MemoryStore { block, image: Arc::new(Mutex::new(image)) }
    }

    /// The blocks.
    pub(super) fn image(&self) -> MutexGuard<'_, Image> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn block_size(&self) -> usize {
        self.block
    }

    fn blocks(&self) -> u32 {
        self.image().blocks.len() as u32
    }

    fn read(&mut self, block: u32, off: usize, out: &mut [u8]) -> Result<()> {
        let image = self.image();
        let bytes = image.blocks.get(block as usize);
        let bytes = bytes.and_then(|bytes| bytes.get(off..off + out.len()));
        let bytes = bytes.ok_or_else(|| beyond(block, image.blocks.len() as u32))?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self, block: u32, off: usize, bytes: &[u8]) -> Result<()> {
        let mut image = self.image();
        let blocks = image.blocks.len() as u32;
        let to = image.blocks.get_mut(block as usize);
        let to = to.and_then(|to| to.get_mut(off..off + bytes.len()));
        to.ok_or_else(|| beyond(block, blocks))?.copy_from_slice(bytes);
        if !image.changed.contains(&block) {
            image.changed.push(block);
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<u32> {
        let mut image = self.image();
        let block = image.blocks.len() as u32;
        image.blocks.push(bytes.to_vec());
        image.changed.push(block);
        Ok(block)
    }
}
