//! ffs-ondisk
