//! The checksum of plans, machine descriptions and lines of a results file.

use ffs_ondisk::hash::check_hash_parts;

/// A checksum as eight hexadecimal digits.
pub(super) fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", check_hash_parts(&[bytes]))
}
