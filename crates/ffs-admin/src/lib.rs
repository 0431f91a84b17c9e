//! ffs-admin
