//! ffs-device
