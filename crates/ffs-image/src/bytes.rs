//! Numbers in headers. Beyond the end of the bytes they are 0.

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(bytes, at))
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// The `N` bytes at `at`; zeros beyond the end.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = at.checked_add(N).and_then(|end| bytes.get(at..end));
    found.and_then(|slice| slice.try_into().ok()).unwrap_or([0; N])
}
