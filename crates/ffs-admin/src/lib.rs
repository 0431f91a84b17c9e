//! Tools for unmounted images: newfs, fsck, tunefs, growfs, dumpfs, quotacheck, inspection.
//!
//! **Purpose.** BSD's administration commands as functions on a [`ffs_device::BlockDevice`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use ffs_admin::fsck::{Fsck, FsckOptions};
//! use ffs_admin::newfs::{NewfsOptions, newfs};
//! use ffs_device::{BlockDevice, ManualClock, MemDevice, SplitMix64};
//!
//! let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(16 << 20));
//! let options = NewfsOptions::default();
//! newfs(&*device, &options, &ManualClock::default(), &SplitMix64::new(1), &mut |_, _| {})?;
//! assert!(Fsck::new(device, FsckOptions::no()).run().is_silent());
//! # Ok::<(), ffs_admin::AdminError>(())
//! ```
//!
//! **Invariants.**
//! 1. This crate shares no code with the mounted file system (allocator, directories, soft
//!    updates), so that each can detect errors of the other. Both use [`ffs_ondisk`] for the
//!    format.
//! 2. Nothing here reads a clock or a random number generator of its own: the caller passes both.
//! 3. Data from the device is not trusted until it has been validated.
//!
//! **Locking.** None. The caller ensures, by the image lock, that no other process writes the
//! device.

#[cfg(test)]
mod audit;
pub mod dumpfs;
mod error;
pub mod fsck;
pub mod growfs;
pub mod inspect;
pub mod newfs;
mod plural;
pub mod quotacheck;
pub mod rules;
pub mod tunefs;
pub mod volume;

pub use error::AdminError;
pub use plural::counted;
pub use volume::Volume;
