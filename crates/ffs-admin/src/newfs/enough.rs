//! What newfs says of a size that holds no file system: which one would.

use super::cut::first_not;
use super::options::NewfsOptions;
use crate::AdminError;

/// Options that make a file system at all make one of this size, bytes.
const MOST_TRIED: u64 = 1 << 32;

/// `error`, but where only the size is to blame with a size that would do; `works` tells of one.
pub(super) fn explain(
    error: AdminError,
    opts: &NewfsOptions,
    device_bytes: u64,
    works: impl Fn(&NewfsOptions, u64) -> bool,
) -> AdminError {
    let AdminError::Size(_) = error else { return error };
    let given = opts.size.unwrap_or(device_bytes.saturating_sub(opts.reserved));
    let alone = NewfsOptions { size: None, reserved: 0, ..opts.clone() };
    match smallest(given >> 10, |kib| works(&alone, kib << 10)) {
        Some(kib) => AdminError::Size(format!(
            "{given} bytes are too few for a file system with these options; {} bytes (-s {kib}k) are \
             enough",
            kib << 10
        )),
        None => error,
    }
}

/// A size above `low`, KiB, that works while the one before does not.
fn smallest(mut low: u64, works: impl Fn(u64) -> bool) -> Option<u64> {
    let mut high = (low + 1).next_power_of_two();
    while !works(high) {
        low = high;
        high = high.checked_mul(2).filter(|&kib| kib <= MOST_TRIED >> 10)?;
    }
    Some(first_not(low + 1, high, |kib| !works(kib)))
}
