//! Relative paths in a copy, and temporary names.

/// Splits a relative path into its directory and its last name.
pub(crate) fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// The name of a new file until it replaces an existing one. `number` differs for each file.
pub(super) fn temporary_name(number: u64) -> Vec<u8> {
    format!(".ffs-copy.{}.{number}", std::process::id()).into_bytes()
}
