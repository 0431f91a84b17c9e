//! The on-disk formats UFS1 and UFS2: structures, arithmetic and validation, in both byte orders.
//!
//! A caller reads bytes from a device; this crate decodes them, validates them, and computes where
//! everything else is. It also encodes changed structures.
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/small.rs"));
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let made = superblock(ffs_ondisk::Format::Ufs2, 8192, 8, 4, 100);
//! # let mut disk = vec![0u8; made.f.size as usize * 1024];
//! # let bytes = made.encode();
//! # disk[65536..65536 + bytes.len()].copy_from_slice(&bytes);
//! use ffs_ondisk::{Ino, sbsearch};
//!
//! // `disk` is a volume in memory.
//! let read = |at: u64, len| Ok::<_, std::io::Error>(disk[at as usize..][..len].to_vec());
//! let found = sbsearch::find(read, Some(disk.len() as u64))?;
//! let g = &found.geometry;
//! println!("{:?}, {} groups of {} fragments", g.format, g.ncg, g.fpg);
//! let root_inode = g.frag_to_byte(g.ino_to_fsba(Ino::ROOT)) + g.ino_to_fsbo(Ino::ROOT) as u64;
//! assert!(root_inode < disk.len() as u64);
//! # Ok(())
//! # }
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | [`units`] | number types that must not be mixed: fragments, blocks, inodes, groups |
//! | [`wire`] | integers in the volume's byte order and the `layout!` table of a structure |
//! | [`superblock`] | the superblock: every field, decoding, encoding, check hash |
//! | [`sbcheck`] | validation of superblocks |
//! | [`sbsearch`] | finding superblocks and their backups |
//! | [`foreign`] | detection of related and unrelated formats |
//! | [`geometry`] | the validated constants of a volume and all address arithmetic |
//! | [`cg`] | cylinder groups: header, maps, cluster summary, validation |
//! | [`csum`] | the per-group summaries and their totals |
//! | [`dinode`] | inodes of both formats as one native structure |
//! | [`bmap`] | the pointers of logical blocks |
//! | [`dir`] | directory blocks and entries |
//! | [`exchange`] | names that record an exchange in progress |
//! | [`extattr`] | extended-attribute records |
//! | [`acl`] | access-control lists in extended attributes |
//! | [`journal`] | reading soft-updates journals |
//! | [`growth`] | the mark of an unfinished growfs |
//! | [`snapshot`] | the pointers and the block list of a snapshot file |
//! | [`quota`] | quota files |
//! | [`upkeep`] | what no part of ffs keeps right on a volume |
//! | [`rdev`] | device numbers |
//! | [`fields`] | the field tables of all structures |
//! | [`hash`] | CRC-32C check hashes |
//! | [`error`] | errors, with the structure, its location and the field |
//!
//! # Invariants
//! 1. The crate does no I/O, reads no clock and has no policy.
//! 2. No function panics, for any input bytes.
//! 3. A [`Geometry`] exists only if the superblock passed [`sbcheck`], so address arithmetic on
//!    in-range numbers cannot overflow.
//! 4. Encoding writes only known fields: the bytes of foreign or future fields are preserved.
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
pub mod growth;
pub mod hash;
pub mod journal;
mod other_content;
pub mod quota;
pub mod rdev;
pub mod sbcheck;
mod sbfields;
pub mod sbsearch;
pub mod snapshot;
pub mod superblock;
pub mod units;
pub mod upkeep;
pub mod variant;
pub mod wire;

pub use cg::{Cg, CgMut};
pub use csum::Csum;
pub use dinode::{Dinode, FileFlags, FileType, Timespec};
pub use error::{Corrupt, Error, Place, Structure};
pub use geometry::{Format, Geometry};
pub use superblock::Superblock;
pub use units::{CgNo, DirOff, FragNo, Ino, Lbn};
pub use variant::Variant;
pub use wire::Endian;

/// BSD's group *operator*, whose members make backups (`GID_OPERATOR`): of snapshots and of quota
/// files.
pub const GID_OPERATOR: u32 = 5;
