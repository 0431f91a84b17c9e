//! UFS1 and UFS2 images (the Berkeley Fast File System), with an API like [`std::fs`].
//!
//! A [`Volume`] is an open file system. Its methods take paths and have the names of [`std::fs`];
//! they return [`std::io::Result`]. A [`File`] reads, writes and seeks.
//!
//! ```
//! use bsdffs::Volume;
//! use std::io::Write;
//!
//! # fn main() -> std::io::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let image = dir.path().join("disk.img");
//! bsdffs::format(&image, 16 << 20)?;
//! let volume = Volume::options().write(true).open(&image)?;
//! volume.create_dir("/etc")?;
//! volume.create_file("/etc/motd")?.write_all(b"Welcome\n")?;
//! assert_eq!(volume.read_to_string("/etc/motd")?, "Welcome\n");
//! for entry in volume.read_dir("/etc")? {
//!     println!("{}", entry?.path().display());
//! }
//! volume.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | `volume` | [`Volume`], [`VolumeOptions`]: images and the operations on paths |
//! | `format` | [`format()`], [`format_with`], [`holds_ufs`]: making and recognising volumes |
//! | `file` | [`File`], [`OpenOptions`]: reading and writing |
//! | `dir` | [`ReadDir`], [`Walk`]: listing one directory, or a tree |
//! | `metadata` | [`Metadata`], [`Permissions`] |
//! | [`copy`] | copies of whole trees, between the host and images |
//! | [`diff`] | comparing two trees, in images or on the host |
//! | [`build`] | building an image from a directory or an archive |
//! | [`disk`] | building the image of a whole disk, with partitions |
//! | [`snapshot`] | snapshots as volumes, and their list |
//! | [`bgfsck`] | checking a mounted volume in the background |
//! | [`tar`] | reading and writing archives |
//! | [`dump`] | BSD's dump format: writing and restoring |
//! | [`flags`] | the names of file flags |
//! | [`xattr`] | the names of extended attributes |
//! | `errno` | [`errno()`]: the errno of an error |
//! | [`namei`] | path lookup in a mounted file system of [`ffs_core`] |
//! | [`text`] | escaped names and sizes for messages |
//!
//! # Durability
//!
//! Changes are in memory until [`Volume::sync`], [`File::sync_all`] or [`Volume::close`] returns.
//! An image that was made with soft updates (`ffs newfs -U`) is consistent at every moment: after a
//! crash `fsck -p` repairs it without loss. Other images need a full check after a crash.
//!
//! # Errors
//!
//! Every error is an [`std::io::Error`] of the kind that [`std::fs`] reports, and its source is a
//! [`ffs_core::Error`]. Errors of a damaged image name the structure, its place, the field and what
//! was expected.

pub mod bgfsck;
pub mod build;
pub mod copy;
pub mod diff;
mod dir;
pub mod disk;
pub mod dump;
mod errno;
mod file;
pub mod flags;
mod format;
mod metadata;
pub mod namei;
pub mod snapshot;
pub mod tar;
pub mod text;
mod volume;
pub mod xattr;

pub use dir::{DirEntry, ReadDir, Walk, WalkEntry, sorted_entries};
pub use errno::errno;
pub use ffs_core::{FileFlags, FileType, StatFs};
pub use file::{File, OpenOptions};
pub use format::{format, format_with, holds_ufs};
pub use metadata::{Metadata, Permissions};
pub use volume::{Volume, VolumeOptions};
