//! Directory indexes side by side: one directory layer with the index as a switch.
//!
//! | module | content |
//! | --- | --- |
//! | [`linear`] | the control: UFS's directory without an index |
//! | [`chunk`], [`space`] | NetApp's chunk hash over the same blocks |
//! | [`htree`], [`hash`] | ext2's on-disk index |
//! | [`btree`] | a B+tree of hashes over data blocks, of the kind of XFS |
//! | [`store`], [`record`], [`bytes`] | blocks, directory records, numbers |
//! | [`layer`] | a directory on the simulated machine: an index and the library's inodes |
//! | [`plan`], [`run`] | the experiment |
//! | [`real`] | processor time of this computer |
//! | [`crash`] | what a crash between the writes of one operation leaves |
//! | [`table`], [`charts`] | the results as text and as charts |
//!
//! Linear search and dirhash are the library's own directories, on a volume with the switch on or
//! off. The others have the library's inodes, buffer cache and write policy; only the blocks of the
//! directory differ. Such volumes have the laboratory's own magic and exist in memory only.
//!
//! # Invariants
//! 1. Any bytes in a block give a result or an error, in bounded time, and never a panic.
//! 2. A listing of an unchanged directory has every name exactly once.
//! 3. The same request gives the same rows on every computer, but for measured processor time.
//!
//! Reference: `docs/spec/directories-and-caches.md` §8; `docs/spec/benchmarks.md` §4.9;
//! `docs/lab/indexes.md`.

mod btree;
mod bytes;
mod charts;
mod chunk;
mod crash;
mod error;
mod hash;
mod htree;
mod layer;
mod linear;
mod plan;
mod real;
mod record;
mod run;
mod space;
mod store;
mod table;
#[cfg(test)]
mod tests;

pub use crash::CrashRow;
pub use error::IndexError;
pub use plan::{Extent, IndexRequest, NameOrder};
pub use real::RealRow;
pub use run::{IndexResults, IndexRow};
pub use table::{Table, real_times};

use error::Result;
use hash::HashVersion;
use store::Store;

use crate::machine::SearchWork;

/// A directory's names, and the inode number of each.
trait Index: Send {
    /// The inode number of a name.
    fn lookup(&mut self, name: &[u8]) -> Result<Option<u32>>;

    /// Enters a name that does not exist. `ino` is not 0.
    fn insert(&mut self, name: &[u8], ino: u32) -> Result<()>;

    /// Removes a name. Returns its inode number.
    fn remove(&mut self, name: &[u8]) -> Result<Option<u32>>;

    /// Calls `each` with every name, in the order of a listing.
    fn list(&mut self, each: &mut dyn FnMut(&[u8], u32)) -> Result<()>;

    /// Checks every block.
    fn check(&mut self) -> Result<()>;

    /// Bytes of memory besides cached blocks.
    fn memory(&self) -> u64;

    /// The work since the directory was opened.
    fn work(&self) -> SearchWork;

    /// Bytes of the directory's blocks.
    fn bytes(&self) -> u64;
}

/// A kind of index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexKind {
    /// The library's directory without an index.
    Linear,
    /// The library's directory with dirhash.
    Dirhash,
    /// NetApp's chunk hash.
    Chunk,
    /// ext2's HTree.
    Htree,
    /// A B+tree of the kind of XFS.
    Btree,
    /// Linear search in the laboratory's frame: what the frame costs.
    Control,
}

impl IndexKind {
    /// Every kind. The control is last.
    pub const ALL: [IndexKind; 6] = [
        IndexKind::Linear,
        IndexKind::Dirhash,
        IndexKind::Chunk,
        IndexKind::Htree,
        IndexKind::Btree,
        IndexKind::Control,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Linear => "linear",
            IndexKind::Dirhash => "dirhash",
            IndexKind::Chunk => "chunk",
            IndexKind::Htree => "htree",
            IndexKind::Btree => "btree",
            IndexKind::Control => "control",
        }
    }

    /// Whether the directory is the library's own.
    #[must_use]
    pub(crate) fn is_own(self) -> bool {
        matches!(self, IndexKind::Linear | IndexKind::Dirhash)
    }

    /// Whether the directory's blocks are UFS's: an index, if there is one, is in memory.
    fn is_in_memory(self) -> bool {
        !matches!(self, IndexKind::Htree | IndexKind::Btree)
    }

    /// Opens the directory in `store`. The library's own kinds have the format of the control.
    fn open(self, store: Box<dyn Store>) -> Result<Box<dyn Index>> {
        self.open_with(store, HashVersion::HalfMd4)
    }

    /// Opens the directory in `store`, whose on-disk index has this hash.
    fn open_with(self, store: Box<dyn Store>, hash: HashVersion) -> Result<Box<dyn Index>> {
        Ok(match self {
            IndexKind::Linear | IndexKind::Dirhash | IndexKind::Control => {
                Box::new(linear::Linear::open(store))
            }
            IndexKind::Chunk => Box::new(chunk::ChunkHash::open(store)),
            IndexKind::Htree => Box::new(htree::Htree::open(store, hash)?),
            IndexKind::Btree => Box::new(btree::Btree::open(store, hash)?),
        })
    }
}
