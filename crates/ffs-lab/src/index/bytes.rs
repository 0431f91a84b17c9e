//! Little-endian numbers in a block. A read beyond the end is 0; a write there does nothing.

pub(super) fn get16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u16::from_le_bytes(*b))
}

pub(super) fn get32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

pub(super) fn get64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(to) = bytes.get_mut(at..at + value.len()) {
        to.copy_from_slice(value);
    }
}

pub(super) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, &value.to_le_bytes());
}

pub(super) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, &value.to_le_bytes());
}

pub(super) fn put64(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, &value.to_le_bytes());
}
