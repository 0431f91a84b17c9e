//! Disk images as block devices, from the text of a user: `IMAGE`, `IMAGE@N`, `nbd://HOST/EXPORT`.
//!
//! **Purpose.** [`open`] opens what a user names: it locks the file, recognises its format,
//! connects to a server, and finds the partition. The result is a [`ffs_device::BlockDevice`] of
//! the disk's size, so the rest of the program does not depend on the format.
//!
//! | format | read | write | by |
//! | --- | --- | --- | --- |
//! | raw file, block device | yes | yes | `ffs_device::FileDevice` |
//! | NBD export | yes | yes | [`nbd`] |
//! | qcow2, with backing files | yes | yes | `qcow2`, the crate imago; on BSD by `qemu` |
//! | VHD (fixed, dynamic), VDI | yes | yes | `blocks` |
//! | VMDK in one sparse file | yes | by `qemu` | `blocks` |
//! | other variants of these, VHDX | yes | yes | `qemu`: a `qemu-nbd` process |
//! | gzip, xz, zstd, bzip2 | yes | after [`expand`] | `compressed` |
//!
//! **Invariants.**
//! 1. No content of a file makes this crate panic, loop without end, or take memory without a
//!    bound.
//! 2. A flush of a device makes all that it needs durable in the file: blocks and tables.
//! 3. A file that an image names (a backing file) is opened for reading only.

mod blocks;
mod bytes;
mod chain;
mod compressed;
mod disk;
mod error;
mod image;
mod magic;
pub mod nbd;
mod open;
mod options;
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod qcow2;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod qcow2_by_qemu;
mod qemu;
mod spec;

pub use compressed::{Content, Progress, decompress, expand, expanded_name, is_compressed, spool};
pub use error::OpenError;
pub use image::DiskImage;
pub use magic::{Format, recognise};
pub use open::{Opened, open, open_image};
pub use options::OpenOptions;
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use qcow2::{write_empty_qcow2, write_qcow2};
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub use qcow2_by_qemu::{write_empty_qcow2, write_qcow2};
pub use spec::{is_uri, split_uri};
