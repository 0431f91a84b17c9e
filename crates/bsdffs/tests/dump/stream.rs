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

/// Calls `each` with the offset of every header, and with the range of the data of a directory
/// after it.
fn each_header(stream: &[u8], mut each: impl FnMut(usize, std::ops::Range<usize>)) {
    let all = headers(stream);
    for (n, &at) in all.iter().enumerate() {
        let mode: u16 = get(stream, at + 32, Endian::Little);
        let directory = matches!(stream[at], 2 | 4) && mode & 0o170_000 == 0o040_000;
        let next = all.get(n + 1).copied().unwrap_or(stream.len());
        each(at, if directory { at + TP_BSIZE..next } else { at..at });
    }
}

/// The stream as a system before FreeBSD 5 writes it: old magic number, no 64-bit times.
pub(crate) fn with_old_headers(stream: &[u8]) -> Vec<u8> {
    let mut out = stream.to_vec();
    each_header(stream, |at, _| {
        let record = &mut out[at..at + TP_BSIZE];
        put(record, 24, Endian::Little, 60012i32);
        record[76..108].fill(0);
        record[896..928].fill(0);
        seal(record, Endian::Little);
    });
    out
}

/// The stream as a big-endian machine writes it. Extended attributes are not converted.
pub(crate) fn big_endian(stream: &[u8]) -> Vec<u8> {
    let mut out = stream.to_vec();
    each_header(stream, |at, directory| {
        let record = &mut out[at..at + TP_BSIZE];
        for half in [32, 36, 38] {
            record[half..half + 2].reverse();
        }
        for long in [40, 80, 88, 96, 896, 904, 912, 920] {
            record[long..long + 8].reverse();
        }
        let words = (0..32).chain(48..80).chain(104..164).chain(692..696).chain(888..896);
        for word in words.step_by(4) {
            record[word..word + 4].reverse();
        }
        seal(record, Endian::Big);
        let mut entry = directory.start;
        while entry < directory.end {
            let reclen: u16 = get(stream, entry + 4, Endian::Little);
            if reclen == 0 {
                break;
            }
            out[entry..entry + 4].reverse();
            out[entry + 4..entry + 6].reverse();
            entry += usize::from(reclen);
        }
    });
    out
}
