//! The limits that FreeBSD 4.5 derives from the size of the memory.
//!
//! The formulas are those of its `machdep.c`, `vfs_bio.c`, `vfs_subr.c` and `param.c`. The memory
//! that is left for pages is an estimate: 8 MB and a share go to the kernel and to programs.
//!
//! # Invariants
//! 1. With 256 MB the limits are those of the preset `p4-1600`, to a few percent.
//!
//! Reference: `docs/spec/benchmarks.md` §6.6.

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes of address space of a buffer (`BKVASIZE`).
const BKVASIZE: u64 = 16384;
/// The largest block (`MAXBSIZE`).
const MAXBSIZE: u64 = 65536;
/// The smallest and the largest memory with known limits, bytes.
pub(crate) const MEMORY: std::ops::RangeInclusive<u64> = 16 << 20..=4 << 30;

/// The limits of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelLimits {
    /// Buffer headers.
    pub(crate) nbuf: u64,
    /// Bytes of blocks with a header (`hibufspace`).
    pub(crate) hibufspace: u64,
    /// Bytes of metadata outside of pages, without vmiodir (`maxbufmallocspace`).
    pub(crate) maxbufmallocspace: u64,
    /// Dirty buffers at which a writer waits (`hidirtybuffers`).
    pub(crate) hidirtybuffers: u64,
    /// Vnodes (`kern.maxvnodes`).
    pub(crate) maxvnodes: u64,
    /// Vnodes that are made before any is used again (`kern.minvnodes`).
    pub(crate) minvnodes: u64,
    /// Bytes of pages for blocks.
    pub(crate) cache: u64,
}

impl KernelLimits {
    /// The limits with `memory` bytes, a value of [`MEMORY`].
    pub(crate) fn of(memory: u64) -> KernelLimits {
        // The loader and the kernel's text take 0.8 % before memory is counted.
        let pages = memory / PAGE * 992 / 1000;
        let factor = 4 * BKVASIZE / PAGE;
        let few = (pages.saturating_sub(1024) / factor).min(16384 / factor);
        let nbuf = 50 + few + pages.saturating_sub(16384) * 2 / (factor * 5);
        let maxbufspace = nbuf * BKVASIZE;
        let hibufspace = (maxbufspace * 3 / 4).max(maxbufspace.saturating_sub(MAXBSIZE * 10));
        let maxusers = (pages * PAGE / (2 << 20)).clamp(32, 384);
        let maxproc = 20 + 16 * maxusers;
        let maxvnodes = maxproc + pages * 971 / 1000 / 4;
        KernelLimits {
            nbuf,
            hibufspace,
            maxbufmallocspace: hibufspace / 20,
            hidirtybuffers: nbuf / 4 + 20,
            maxvnodes,
            minvnodes: maxvnodes / 4,
            cache: memory - (8 << 20) - memory * 227 / 1000,
        }
    }

    /// The limits as switches of a mount.
    pub(crate) fn switches(&self) -> [String; 6] {
        [
            format!("nbuf={}", self.nbuf),
            format!("hibufspace={}", self.hibufspace),
            format!("maxbufmallocspace={}", self.maxbufmallocspace),
            format!("maxvnodes={}", self.maxvnodes),
            format!("minvnodes={}", self.minvnodes),
            format!("cache={}", self.cache),
        ]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::machine::Preset;

    #[test]
    fn with_256_mb_they_are_those_of_the_paper() {
        let (limits, paper) = (KernelLimits::of(256 << 20), Preset::paper().unwrap());
        for word in limits.switches() {
            let (name, value) = word.split_once('=').unwrap();
            let value: f64 = value.parse().unwrap();
            let (_, set) = paper.switches.iter().find(|(known, _)| known == name).unwrap();
            let set = ffs_core::size(set).unwrap() as f64;
            assert!((value / set - 1.0).abs() < 0.03, "{name} is {value}, the preset has {set}");
        }
        let dirty = f64::from(paper.host.dirty_buffers);
        assert!((limits.hidirtybuffers as f64 / dirty - 1.0).abs() < 0.03);
    }

    #[test]
    fn more_memory_lowers_no_limit() {
        let sizes = [16, 17, 24, 32, 64, 128, 256, 512, 1024, 4096].map(|mb: u64| mb << 20);
        assert_eq!((sizes[0], sizes[9]), (*MEMORY.start(), *MEMORY.end()));
        for pair in sizes.map(KernelLimits::of).windows(2) {
            let (less, more) = (pair[0], pair[1]);
            assert!(less.nbuf <= more.nbuf && less.hibufspace <= more.hibufspace);
            assert!(less.maxvnodes <= more.maxvnodes && less.minvnodes <= more.minvnodes);
            assert!(less.cache < more.cache && less.cache > less.hibufspace);
        }
    }
}
