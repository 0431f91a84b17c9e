//! Values with a copy for each thread. Threads that write them do not take cache lines from each
//! other.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of copies. With more threads some share one.
const COPIES: usize = 8;

/// A value with copies. It dereferences to the copy of the calling thread.
#[derive(Debug, Default)]
pub(crate) struct PerThread<T>([Padded<T>; COPIES]);

/// A value in cache lines of its own. Processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

impl<T> PerThread<T> {
    /// All copies.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &padded.0)
    }
}

impl<T> Deref for PerThread<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0[copy_of_thread()].0
    }
}

/// The number of the copy of the calling thread. New threads take the copies in turn.
fn copy_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % COPIES;
    }
    // A thread that ends may have dropped its number.
    MINE.try_with(|mine| *mine).unwrap_or(0)
}
