//! UFS1 and UFS2 as they lie on disk: structures, arithmetic and validation, in both byte orders.
//!
//! | module | holds |
//! | --- | --- |
//! | [`units`] | the number types that must not mix: fragments, blocks, inodes, groups |
//! | [`wire`] | integers in the volume's byte order and the `layout!` table of a structure |
//! | [`superblock`] | the superblock: every field, decoding, encoding, check hash |
//! | [`sbcheck`] | what makes a superblock acceptable, problem by problem |
//! | [`sbsearch`] | where superblocks and their backups are looked for |
//! | [`foreign`] | relatives of the format, told apart |
//! | [`geometry`] | the validated constants of a volume and all address arithmetic |
//! | [`cg`] | cylinder groups: header, maps, cluster summary, validation |
//! | [`csum`] | the per-group summaries and their totals |
//! | [`dinode`] | inodes of both formats as one native structure |
//! | [`bmap`] | which pointer at which level names a logical block |
//! | [`dir`] | directory chunks and entries |
//! | [`extattr`] | extended-attribute records |
//! | [`acl`] | access-control lists inside attributes |
//! | [`journal`] | recognising soft-updates journals |
//! | [`snapshot`] | what the pointers and the list of a snapshot file mean |
//! | [`rdev`] | device numbers |
//! | [`fields`] | the field tables of all structures |
//! | [`hash`] | the CRC-32C check hashes |
//!
//! # Invariants
//! 1. Nothing here does I/O, keeps time or decides policy.
//! 2. No function panics, whatever bytes it is given.
//! 3. [`Geometry`] exists only if the superblock passed [`sbcheck`]; with it in hand, address
//!    arithmetic on in-range numbers cannot overflow.
//! 4. Encoding writes only the fields it knows: bytes of foreign or future fields survive.
//!
//! Reference: `spec/on-disk-format.md`, whose sections the modules cite.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod acl;
pub mod bmap;
pub mod cg;
pub mod csum;
pub mod dinode;
pub mod dir;
pub mod error;
pub mod exchange;
pub mod extattr;
pub mod fields;
pub mod foreign;
pub mod geometry;
pub mod hash;
pub mod journal;
pub mod rdev;
pub mod sbcheck;
mod sbfields;
pub mod sbsearch;
pub mod snapshot;
pub mod superblock;
pub mod units;
pub mod wire;

pub use cg::{Cg, CgMut};
pub use csum::Csum;
pub use dinode::{Dinode, FileFlags, FileType, Timespec};
pub use error::{Corrupt, Error, Place, Structure};
pub use geometry::{Format, Geometry};
pub use superblock::Superblock;
pub use units::{CgNo, DirOff, FragNo, Ino, Lbn};
pub use wire::Endian;
