//! Memory asked for before it is needed.
//!
//! At millions of files what an operation touches lies in no cache of the processor. Where a place is known while
//! something else is still waited for, asking early lets both come at the same time. A hint changes nothing but
//! time: everything here may do nothing, and does on processors that the library does not know.

/// Bytes that come together.
const LINE: usize = 64;

/// Has the cache line in which `place` begins fetched, without waiting for it.
#[inline]
pub(crate) fn line<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(place);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Has all of `bytes` fetched.
#[inline]
pub(crate) fn bytes(bytes: &[u8]) {
    bytes.iter().step_by(LINE).chain(bytes.last()).for_each(line);
}
