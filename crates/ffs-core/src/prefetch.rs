//! Hints to the processor to load memory before it is needed.
//!
//! With millions of files, the memory that an operation uses is in no cache of the processor. If an
//! address is known early, a hint loads it while the operation waits for other memory. A hint
//! affects only time. On processors other than x86-64 these functions do nothing.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Starts to load the cache line in which `place` begins, and does not wait for it.
#[inline]
pub(crate) fn line<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(place);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Starts to load all cache lines of `bytes`.
#[inline]
pub(crate) fn bytes(bytes: &[u8]) {
    bytes.iter().step_by(LINE).chain(bytes.last()).for_each(line);
}
