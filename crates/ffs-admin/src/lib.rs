//! Tools that work on an unmounted image: newfs, fsck, tunefs, dumpfs.
//!
//! **Purpose.** What BSD's administrator has under these names, as functions on a
//! [`ffs_device::BlockDevice`].
//!
//! **Invariants.**
//! 1. This room shares no code with the mounted file system (allocator, directories, soft updates): what
//!    one of them gets wrong the other can find. Both know the format only through [`ffs_ondisk`].
//! 2. Nothing here reads a clock or draws a random number: callers pass both in.
//! 3. Everything read from the device is hostile until validated.
//!
//! **Locking.** None. The caller makes sure (image lock) that nobody else writes the device.

#[cfg(test)]
mod audit;
pub mod dumpfs;
mod error;
pub mod fsck;
pub mod newfs;
mod plural;
pub mod tunefs;
pub mod volume;

pub use error::AdminError;
pub use plural::counted;
pub use volume::Volume;
