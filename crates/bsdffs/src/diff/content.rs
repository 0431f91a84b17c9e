//! Reading two files side by side.

use super::Side;
use crate::copy::{Content, READ_SIZE};

/// Two buffers.
pub(super) struct Buffers(Vec<u8>, Vec<u8>);

impl Buffers {
    pub(super) fn new() -> Buffers {
        Buffers(vec![0; READ_SIZE], vec![0; READ_SIZE])
    }
}

/// The offset of the first byte in which two files of `size` bytes differ. `progress` receives the
/// bytes compared, and returns whether to continue.
pub(super) fn first_difference(
    old: &Content<'_>,
    new: &Content<'_>,
    size: u64,
    buffers: &mut Buffers,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Option<u64>, (Side, String)> {
    let mut at = 0;
    while at < size {
        let start = old.next_data(at, size).map_err(|why| (Side::Old, why))?;
        at = new.next_data(at, size).map_err(|why| (Side::New, why))?.min(start);
        // Reads end at multiples of READ_SIZE, and so at multiples of the block size.
        let len = (size - at).min(READ_SIZE as u64 - at % READ_SIZE as u64) as usize;
        let (a, b) = (&mut buffers.0[..len], &mut buffers.1[..len]);
        old.read(at, a).map_err(|why| (Side::Old, why))?;
        new.read(at, b).map_err(|why| (Side::New, why))?;
        if a != b {
            let place = a.iter().zip(&*b).position(|(a, b)| a != b).unwrap_or(0);
            return Ok(Some(at + place as u64));
        }
        at += len as u64;
        if !progress(len as u64) {
            break;
        }
    }
    Ok(None)
}
