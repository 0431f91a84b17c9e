//! Streams that tests build by hand or change.

use bsdffs::dump::TP_BSIZE;
use ffs_ondisk::Endian;
use ffs_ondisk::wire::{get, put};

/// Gives the header in `record` the right checksum again.
pub(crate) fn seal(record: &mut [u8], endian: Endian) {
    put(record, 28, endian, 0i32);
    let sum =
        (0..TP_BSIZE).step_by(4).fold(0i32, |sum, at| sum.wrapping_add(get(record, at, endian)));
    put(record, 28, endian, 84446i32.wrapping_sub(sum));
}

/// Byte offsets of all headers of a little-endian stream.
pub(crate) fn headers(stream: &[u8]) -> Vec<usize> {
    let (mut at, mut all) = (0, Vec::new());
    while at < stream.len() {
        let record = &stream[at..at + TP_BSIZE];
        let (kind, count): (i32, i32) =
            (get(record, 0, Endian::Little), get(record, 160, Endian::Little));
        all.push(at);
        let data = match kind {
            3 | 6 => count as usize,
            2 | 4 => record[164..164 + count as usize].iter().filter(|byte| **byte != 0).count(),
            _ => 0,
        };
        at += (1 + data) * TP_BSIZE;
    }
    all
}
