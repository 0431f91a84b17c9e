//! The limits of the cache.

use crate::tunables::{Limit, Tunables};

/// Smallest cache that can hold the blocks of one operation, bytes.
const MIN_CACHE: u64 = 2 << 20;
/// Bytes of buffers for each header, if `kern.nbuf` is `auto`.
const BYTES_PER_HEADER: u64 = 8192;
/// Fewest headers, if `kern.nbuf` is `auto`.
const MIN_HEADERS: u64 = 64;
/// Dirty blocks allowed on top of a quarter of the headers (FreeBSD's `hidirtybuffers`).
const DIRTY_HEADERS: u64 = 20;

/// The limits of the cache. Reference: `spec/directories-and-caches.md` §7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheLimits {
    /// Bytes of pages.
    pub(super) pages: usize,
    /// Blocks in tier 1 (`nbuf`).
    pub(super) headers: usize,
    /// Bytes in tier 1 (`hibufspace`).
    pub(super) bufspace: usize,
    /// Bytes of small private blocks (`maxbufmallocspace`).
    pub(super) mallocspace: usize,
    /// Dirty bytes; beyond them operations have to write (`BufCache::is_too_dirty`).
    pub(super) dirty: usize,
    /// Dirty blocks; beyond them operations have to write.
    pub(super) dirty_blocks: usize,
    /// Whether directory blocks are backed by pages (`vmiodirenable`).
    pub(super) vmiodir: bool,
}

impl CacheLimits {
    /// The limits that the mount's switches set. With `auto`, half of the cache may have headers,
    /// one for 8 KB; a twentieth of that may be small private blocks.
    pub(crate) fn of(t: &Tunables) -> CacheLimits {
        let cache = t.cache().max(MIN_CACHE);
        let bufspace = t.hibufspace().or(|| cache / 2);
        let headers = t.nbuf().or(|| (bufspace / BYTES_PER_HEADER).max(MIN_HEADERS));
        let mallocspace = t.maxbufmallocspace().or(|| bufspace / 20);
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        // Dirty blocks keep their headers. If the number or bytes of headers are limited, dirty
        // blocks must be limited too, or they would exceed that limit.
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

    /// Limits of a cache of `total` bytes, all with headers.
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
