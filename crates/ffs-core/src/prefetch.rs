//! Memory asked for before it is needed.
//!
//! At millions of files what an operation touches lies in no cache of the processor. Where an address is known
//! while something else is still waited for, asking early lets both come at the same time.

use std::sync::Arc;

/// Has the cache line at the beginning of `place` fetched.
#[inline]
pub(crate) fn read<T>(place: &T) {
    line(std::ptr::from_ref(place).cast(), 0);
}

/// Has the counts of `shared` and about its first `bytes` fetched.
#[inline]
pub(crate) fn read_shared<T>(shared: &Arc<T>, bytes: usize) {
    // The two counts lie before the value; a guess is enough.
    let counts = 2 * size_of::<usize>();
    let first = Arc::as_ptr(shared).cast::<i8>().wrapping_sub(counts);
    // Nor does it begin with a line: the last bytes may be in one more.
    for offset in (0..=bytes + counts).step_by(64) {
        line(first, offset);
    }
}

/// Has the `bytes` at `address` fetched, if there is something at all.
#[inline]
pub(crate) fn read_at(address: usize, bytes: usize) {
    let first = std::ptr::without_provenance::<i8>(address & !63);
    for offset in (0..(address & 63) + bytes).step_by(64) {
        line(first, offset);
    }
}

/// Has the cache line `offset` bytes behind `first` fetched.
#[inline]
#[cfg_attr(target_arch = "x86_64", allow(unsafe_code))]
fn line(first: *const i8, offset: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is a hint; it neither reads nor faults as far as a program can tell, whatever
        // the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(offset)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (first, offset);
}
