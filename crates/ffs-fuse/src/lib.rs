//! ffs-fuse
