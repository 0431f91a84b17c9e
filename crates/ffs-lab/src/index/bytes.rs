//! Little-endian numbers in a block. A read beyond the end is 0; a write there does nothing.

use ffs_ondisk::wire::{self, Endian, Wire};

pub(super) fn get<T: Wire>(bytes: &[u8], at: usize) -> T {
    wire::get(bytes, at, Endian::Little)
}

pub(super) fn put<T: Wire>(bytes: &mut [u8], at: usize, value: T) {
    wire::put(bytes, at, Endian::Little, value);
}
