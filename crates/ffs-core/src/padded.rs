//! Values in cache lines of their own.

use std::ops::Deref;

/// A value that shares no cache line with others, so that a processor that writes it takes no other
/// value away. Processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
