//! A counting allocator, per thread, so that a test can bound the memory of a call.
#![allow(unsafe_code, reason = "an allocator is unsafe by nature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: isize) {
    // The variable is already destroyed while the thread ends.
    let _ = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now.get())));
    });
}

fn size(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

// SAFETY: every call is forwarded to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(size(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(size(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-size(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        count(size(new) - size(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, new) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The result of `f`, and the peak increase of this thread's memory, bytes.
pub(crate) fn peak<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.get();
    let outer = PEAK.replace(before);
    let out = f();
    let most = PEAK.get() - before;
    PEAK.set(outer.max(PEAK.get()));
    (out, usize::try_from(most).unwrap_or(0))
}

#[test]
fn the_counter_counts() {
    let (v, most) = peak(|| {
        drop(vec![1u8; 1 << 20]);
        vec![1u8; 1 << 10]
    });
    assert!((1 << 20..2 << 20).contains(&most), "{most} {}", v.len());
}
