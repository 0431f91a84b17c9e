//! Relative paths in a copy, the stack of open directories, and temporary names.

use ffs_core::Error;

use crate::namei::components;

/// The open directories from the root of a sink (exclusive) down to its current directory.
///
/// Invariant: the names on the stack, joined, are the path of the current directory.
pub(super) struct PathStack<T>(Vec<(Vec<u8>, T)>);

impl<T> PathStack<T> {
    pub(super) fn new() -> PathStack<T> {
        PathStack(Vec::new())
    }

    /// The current directory, or `None` for the root.
    pub(super) fn top(&self) -> Option<&T> {
        self.0.last().map(|(_, dir)| dir)
    }

    /// Enters the directory `name` of the current directory.
    pub(super) fn push(&mut self, name: &[u8], dir: T) {
        self.0.push((name.to_vec(), dir));
    }

    /// Leaves the directories that are not on `path`. Returns the names of `path` below the new
    /// current directory.
    pub(super) fn truncate_to<'p>(
        &mut self,
        path: &'p [u8],
    ) -> impl Iterator<Item = &'p [u8]> + use<'p, T> {
        let mut names = components(path).peekable();
        let mut shared = 0;
        while let Some((name, _)) = self.0.get(shared)
            && names.next_if(|next| next == name).is_some()
        {
            shared += 1;
        }
        self.0.truncate(shared);
        names
    }
}

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

/// Calls `create` with temporary names until one is unused. Returns the name and what was created.
/// `number` is that of the next name.
///
/// # Errors
/// `create` failed with another error than [`Error::Exists`].
pub fn create_under_temporary_name<T>(
    number: &mut u64,
    mut create: impl FnMut(&[u8]) -> Result<T, Error>,
) -> Result<(Vec<u8>, T), Error> {
    loop {
        let name = temporary_name(*number);
        *number += 1;
        match create(&name) {
            Err(Error::Exists) => {}
            created => return created.map(|file| (name, file)),
        }
    }
}

/// The first choice for the name of a new file until it is complete. It depends on the final name
/// alone, so that a later copy finds what this one leaves unfinished.
pub(super) fn unfinished_name(name: &[u8]) -> Vec<u8> {
    // FNV-1a. A collision costs nothing: the content is compared.
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!(".ffs-copy.{hash:016x}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::PathStack;

    fn enter<'p>(stack: &mut PathStack<usize>, path: &'p str) -> Vec<&'p str> {
        let names: Vec<_> = stack.truncate_to(path.as_bytes()).collect();
        for name in &names {
            stack.push(name, path.len());
        }
        names.into_iter().map(|name| std::str::from_utf8(name).unwrap()).collect()
    }

    #[test]
    fn keeps_the_shared_prefix_and_returns_the_rest() {
        let mut stack = PathStack::new();
        assert_eq!(enter(&mut stack, "a/b/c"), ["a", "b", "c"]);
        assert_eq!(enter(&mut stack, "a/b/c"), [""; 0]);
        assert_eq!(enter(&mut stack, "a/b"), [""; 0]);
        assert_eq!(stack.top(), Some(&5));
        assert_eq!(enter(&mut stack, "a/bc/c"), ["bc", "c"]);
        assert_eq!(enter(&mut stack, "b/bc/c"), ["b", "bc", "c"]);
        assert_eq!(enter(&mut stack, ""), [""; 0]);
        assert_eq!(stack.top(), None);
    }
}
