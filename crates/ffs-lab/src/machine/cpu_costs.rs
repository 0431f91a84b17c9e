//! The costs of the processor's work.
//!
//! A call has a fixed cost. The work in the file system is measured by its work counters, and each
//! count has a cost. No cost depends on the workload.
//!
//! # Invariants
//! 1. Costs are sums of whole picoseconds, so the order of counting does not matter.
//!
//! Reference: `docs/spec/benchmarks.md` §6.5.

use ffs_core::CounterValues;

use super::parameters::CpuPreset;

/// A call of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Stat,
    Create,
    Open,
    Close,
    Remove,
    Rename,
    Mkdir,
    Rmdir,
    Link,
    /// With the number of bytes.
    Read(usize),
    /// With the number of bytes.
    Write(usize),
    SetAttributes,
    List,
    /// With the number of names.
    Entries(u64),
    Fsync,
}

/// The work of a directory index of the laboratory, in the units in which the library's own
/// directories are charged. No unit has a price of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SearchWork {
    /// Names searched without an index.
    pub(crate) linear_lookups: u64,
    /// Names searched by their hash.
    pub(crate) hash_lookups: u64,
    /// Chunks of 512 bytes searched, with any number of records.
    pub(crate) chunks: u64,
    /// Records inspected one after the other, and steps of binary searches.
    pub(crate) records: u64,
    /// Places in a directory or index that an index referred to.
    pub(crate) references: u64,
    /// Entries hashed and put in order, when an index is built or a block is split.
    pub(crate) built: u64,
    /// Bytes moved within or between blocks.
    pub(crate) moved: u64,
}

impl SearchWork {
    /// The work since `was`.
    #[must_use]
    pub(crate) fn since(&self, was: &SearchWork) -> SearchWork {
        SearchWork {
            linear_lookups: self.linear_lookups - was.linear_lookups,
            hash_lookups: self.hash_lookups - was.hash_lookups,
            chunks: self.chunks - was.chunks,
            records: self.records - was.records,
            references: self.references - was.references,
            built: self.built - was.built,
            moved: self.moved - was.moved,
        }
    }
}

/// The size of a directory chunk in bytes (`DIRBLKSIZ`).
const CHUNK: u64 = 512;

/// The costs, which its functions return in picoseconds.
#[derive(Debug, Clone)]
pub(crate) struct CpuCosts {
    us: CpuPreset,
    near: u64,
}

fn ps(us: f64) -> u64 {
    (us * 1e6) as u64
}

impl CpuCosts {
    pub(crate) fn new(us: &CpuPreset) -> CpuCosts {
        CpuCosts { us: us.clone(), near: (us.near_directory_kb * 1024.0) as u64 }
    }

    /// The fixed cost of a call.
    pub(crate) fn call(&self, call: Call) -> u64 {
        let us = &self.us;
        let copied = |bytes: usize| ps(us.kb_copied) * bytes as u64 / 1024;
        match call {
            Call::Stat => ps(us.stat),
            Call::Create => ps(us.create),
            Call::Open => ps(us.open),
            Call::Close => ps(us.close),
            Call::Remove => ps(us.remove),
            Call::Rename => ps(us.rename),
            Call::Mkdir => ps(us.mkdir),
            Call::Rmdir => ps(us.rmdir),
            Call::Link => ps(us.link),
            Call::Read(bytes) => ps(us.read) + copied(bytes),
            Call::Write(bytes) => ps(us.write) + copied(bytes),
            Call::SetAttributes => ps(us.set_attributes),
            Call::List => ps(us.list),
            Call::Entries(names) => ps(us.list_entry) * names,
            Call::Fsync => ps(us.fsync),
        }
    }

    /// The cost of the counts between `was` and `is` that are no searches.
    pub(crate) fn work(&self, was: &CounterValues, is: &CounterValues) -> u64 {
        let us = &self.us;
        let found = |c: &CounterValues| c.cache_numposhits + c.cache_numneghits;
        ps(us.buffer_found) * (is.buf_hits - was.buf_hits)
            + ps(us.buffer_filled) * (is.buf_misses - was.buf_misses)
            + ps(us.name_found) * (found(is) - found(was))
            + ps(us.inode_loaded) * (is.inodes_loaded - was.inodes_loaded)
            + ps(us.inode_recycled) * (is.inodes_recycled - was.inodes_recycled)
            + ps(us.dependency_undone) * (is.writes_rolled_back - was.writes_rolled_back)
    }

    /// The cost of the searches between `was` and `is` in a directory of `directory` bytes, as
    /// FreeBSD's `ufs_lookup` makes them: with a hash or without, and building the hash.
    pub(crate) fn lookups(&self, was: &CounterValues, is: &CounterValues, directory: u64) -> u64 {
        let us = &self.us;
        let hashed = |c: &CounterValues| c.dirhash_hits + c.dirhash_misses;
        let names = |c: &CounterValues| c.cache_nummiss + c.cache_nummisszap;
        let hashes = hashed(is) - hashed(was);
        let linear = (names(is) - names(was)).saturating_sub(hashes);
        let records = is.dir_records_scanned - was.dir_records_scanned;
        let chunks = (is.dir_bytes_scanned - was.dir_bytes_scanned).div_ceil(CHUNK);
        let (chunk, entry) = if directory > self.near {
            (us.chunk_scanned_far, us.entry_scanned_far)
        } else {
            (us.chunk_scanned, us.entry_scanned)
        };
        ps(us.hash_lookup) * hashes
            + ps(us.linear_lookup) * linear
            + ps(entry) * records
            + ps(chunk) * chunks
            + ps(us.hash_entry_inspected) * (is.dirhash_inspected - was.dirhash_inspected)
            + ps(us.hash_entry_built) * (is.dirhash_build_entries - was.dirhash_build_entries)
    }

    /// The cost of the work of an index in a directory of `bytes`.
    pub(crate) fn search(&self, work: &SearchWork, bytes: u64) -> u64 {
        let us = &self.us;
        let (chunk, entry) = if bytes > self.near {
            (us.chunk_scanned_far, us.entry_scanned_far)
        } else {
            (us.chunk_scanned, us.entry_scanned)
        };
        ps(us.linear_lookup) * work.linear_lookups
            + ps(us.hash_lookup) * work.hash_lookups
            + ps(chunk) * work.chunks
            + ps(entry) * work.records
            + ps(us.hash_entry_inspected) * work.references
            + ps(us.hash_entry_built) * work.built
            + ps(us.kb_copied) * work.moved / 1024
    }

    /// The cost of blocks that got a header again.
    pub(crate) fn page_headers(&self, blocks: u64) -> u64 {
        ps(self.us.buffer_from_pages) * blocks
    }
}
