//! The smallest size that would hold a file system, for the error message.

use super::groupsize::partition_point;
use super::options::NewfsOptions;
use crate::AdminError;

/// Limit on the sizes tried, bytes; possible options make a file system of this size.
const MOST_TRIED: u64 = 1 << 32;

/// Adds to a size error the smallest size that is possible according to `is_possible`.
pub(super) fn explain(
    error: AdminError,
    opts: &NewfsOptions,
    device_bytes: u64,
    is_possible: impl Fn(&NewfsOptions, u64) -> bool,
) -> AdminError {
    let AdminError::Size(_) = error else { return error };
    let given = opts.size.unwrap_or(device_bytes.saturating_sub(opts.reserved));
    let alone = NewfsOptions { size: None, reserved: 0, ..opts.clone() };
    match smallest(given >> 10, |kib| is_possible(&alone, kib << 10)) {
        Some(kib) => AdminError::Size(format!(
            "{given} bytes are too few for a file system with {}; {} bytes (-s {kib}k) are enough",
            if opts.journal { "a journal" } else { "these options" },
            kib << 10
        )),
        None => error,
    }
}

/// The smallest size above `low`, KiB, that is possible although the one before it is not.
fn smallest(mut low: u64, is_possible: impl Fn(u64) -> bool) -> Option<u64> {
    let mut high = (low + 1).next_power_of_two();
    while !is_possible(high) {
        low = high;
        high = high.checked_mul(2).filter(|&kib| kib <= MOST_TRIED >> 10)?;
    }
    Some(partition_point(low + 1, high, |kib| !is_possible(kib)))
}
