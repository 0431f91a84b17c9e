//! BSD's dump format (`spec/on-disk-format.md` §24): writing a dump of an image, and restoring one.
//!
//! [`dump()`] writes the stream of an image that is mounted read-only. [`Restore`] reads a stream:
//! it lists the names, is a [`Source`](crate::copy::Source) of the files, which the sinks of
//! [`copy`](crate::copy) create on the host or in an image, and applies incremental dumps.
//!
//! # Invariants
//! 1. The fields of a stream are not trusted. Memory is bounded by the bytes of the stream that
//!    were read, and by the maps, which are kept only as far as the stream has them.
//! 2. A name with a slash or a NUL, `.` and `..` never become part of a path: a stream cannot make
//!    a restore write outside the target.
//! 3. The order of the files follows from the stream alone: directories in the order of their
//!    paths, then the other files by inode number.
//!
//! | module | content |
//! | --- | --- |
//! | `spcl` | [`Header`]: the record header, both byte orders |
//! | `inomap` | [`InodeMap`]: one bit for each inode |
//! | `observer` | [`DumpObserver`] |
//! | `output` | the records of a stream that is written |
//! | `traverse` | [`dump()`]: BSD's passes over the inodes |
//! | `dumpino` | one inode: its header, data, directory entries and extended attributes |
//! | `tape` | the records of a stream that is read |
//! | `contents` | the data of one inode in a stream |
//! | `attributes` | extended attributes and ACLs in a stream |
//! | `tree` | the directories of a stream as a tree of names |
//! | `restore` | [`Restore`]: an open stream; the names to restore |
//! | `source` | the files of a stream as a source |
//! | `target` | [`Target`]: the tree that an incremental restore changes |
//! | `incremental` | [`Incremental`]: removals and renames |
//! | `symtable` | [`SymTable`]: the file `restoresymtable` |

mod attributes;
mod contents;
mod dumpino;
mod error;
mod incremental;
mod inomap;
mod observer;
mod output;
mod restore;
mod source;
mod spcl;
mod symtable;
mod tape;
mod target;
mod traverse;
mod tree;

pub use error::{DumpError, StreamError};
pub use incremental::Incremental;
pub use inomap::InodeMap;
pub use observer::DumpObserver;
pub use restore::{ListedName, Restore, RestoreOptions};
pub use source::StreamSource;
pub use spcl::Header;
pub use symtable::SymTable;
pub use target::{HostTarget, ImageTarget, Target};
pub use traverse::{DumpOptions, DumpReport, dump, estimate};

/// Size of a record, bytes.
pub const TP_BSIZE: usize = 1024;
/// Records that are written at a time: the length of a stream is a multiple of it.
pub const NTREC: u32 = 10;
