//! ffs-core
