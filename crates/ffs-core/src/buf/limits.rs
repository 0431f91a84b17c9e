//! How much the cache may hold.

use crate::tunables::{Limit, Tunables};

/// Smallest cache that can hold what one operation touches, bytes.
const MIN_CACHE: u64 = 2 << 20;
/// Bytes of buffers a header is meant for, where the number of headers is left to us.
const BYTES_PER_HEADER: u64 = 8192;
/// Fewest headers, where their number is left to us.
const MIN_HEADERS: u64 = 64;
/// Blocks that may be dirty besides a quarter of the headers, as in BSD.
const DIRTY_HEADERS: u64 = 20;

/// How much the cache may hold. Reference: `spec/directories-and-caches.md` §7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheLimits {
    /// Bytes of pages.
    pub(super) pages: usize,
    /// Blocks in tier 1.
    pub(super) headers: usize,
    /// Bytes in tier 1.
    pub(super) bufspace: usize,
    /// Bytes of small private buffers.
    pub(super) mallocspace: usize,
    /// Dirty bytes; beyond them, who changes things has to write ([`super::BufCache::too_dirty`]).
    pub(super) dirty: usize,
    /// Dirty blocks, likewise.
    pub(super) dirty_blocks: usize,
    /// Directory blocks are backed by pages.
    pub(super) vmiodir: bool,
}

impl CacheLimits {
    /// As the switches of the mount have it. Where they say `auto`: half of the cache may have headers, one for
    /// 8 KB; a twentieth of that may be small private buffers.
    pub(crate) fn of(t: &Tunables) -> CacheLimits {
        let cache = t.cache().max(MIN_CACHE);
        let bufspace = t.hibufspace().or(|| cache / 2);
        let headers = t.nbuf().or(|| (bufspace / BYTES_PER_HEADER).max(MIN_HEADERS));
        let mallocspace = t.maxbufmallocspace().or(|| bufspace / 20);
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        // Dirty blocks keep their headers: where somebody sets how many headers or bytes of them there may
        // be, what waits to be written must not make that a lie (`hidirtybuffers`).
        let dirty = t.hibufspace().or(|| cache).min(cache / 2);
        let dirty_blocks = match t.nbuf() {
            Limit::Auto => u64::MAX,
            Limit::Of(n) => n / 4 + DIRTY_HEADERS,
        };
        CacheLimits {
            pages: size(cache),
            headers: size(headers),
            bufspace: size(bufspace),
            mallocspace: size(mallocspace),
            dirty: size(dirty),
            dirty_blocks: size(dirty_blocks),
            vmiodir: t.vmiodirenable(),
        }
    }

    /// A cache of `total` bytes, all of it with headers.
    #[cfg(test)]
    pub(crate) fn simple(total: usize, dirty: usize) -> CacheLimits {
        CacheLimits {
            pages: total,
            headers: total,
            bufspace: total,
            mallocspace: 0,
            dirty,
            dirty_blocks: usize::MAX,
            vmiodir: true,
        }
    }
}
