//! ffs-testkit
