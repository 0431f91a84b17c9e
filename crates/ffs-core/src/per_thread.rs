//! Values of which several threads have their own, so that a processor that writes one does not
//! take a cache line away from the others.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of values. Threads beyond it share them.
const SETS: usize = 8;

/// A value for each thread. It dereferences to that of the calling thread.
#[derive(Debug, Default)]
pub(crate) struct PerThread<T>([Padded<T>; SETS]);

/// A value in cache lines of its own. Processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

impl<T> PerThread<T> {
    /// The values of all threads.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &padded.0)
    }
}

impl<T> Deref for PerThread<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0[set_of_thread()].0
    }
}

/// The number of the value of the calling thread: threads take them in turn.
fn set_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SETS;
    }
    // A thread that ends has no such number any more.
    MINE.try_with(|mine| *mine).unwrap_or(0)
}
