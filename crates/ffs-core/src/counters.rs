//! Counters of the work of a mount, for tests, benchmarks and `ffs stat`.
//!
//! A counter is a relaxed atomic and costs a few nanoseconds. Threads count in different cells, so
//! that they do not take each other's cache lines; a value is the sum of the cells. No decision of
//! the core depends on a counter.

use crate::per_thread::PerThread;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number with a BSD name: a count since the mount, or a present quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauge {
    /// BSD's name.
    pub name: &'static str,
    /// The number, in the unit that `meaning` gives.
    pub value: u64,
    /// A description, one sentence.
    pub meaning: &'static str,
}

impl Gauge {
    /// A number by its name, with its meaning.
    pub(crate) fn new(name: &'static str, value: u64, meaning: &'static str) -> Gauge {
        Gauge { name, value, meaning }
    }
}

/// Counters of one mount. They dereference to the cells of the calling thread.
pub(crate) type Counters = PerThread<Cells>;

macro_rules! bsd_name {
    ($name:ident $bsd:literal) => {
        $bsd
    };
    ($name:ident) => {
        concat!("vfs.ffs.", stringify!($name))
    };
}

// A counter is `field: "meaning"`, or `field = "bsd.name": "meaning"`.
macro_rules! counters {
    ($($name:ident $(= $bsd:literal)?: $meaning:literal,)*) => {
        /// The cells of some threads.
        #[derive(Debug, Default)]
        pub(crate) struct Cells {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// The values of `Counters` at one moment.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct CounterValues {
            $(#[doc = $meaning] pub $name: u64,)*
        }

        impl PerThread<Cells> {
            /// Reads every counter.
            #[must_use]
            pub(crate) fn values(&self) -> CounterValues {
                let mut all = CounterValues::default();
                for cells in self.all() {
                    $(all.$name = all.$name.wrapping_add(cells.$name.load(Ordering::Relaxed));)*
                }
                all
            }
        }

        impl CounterValues {
            /// Name, value and meaning of every counter, in a fixed order.
            #[must_use]
            pub fn list(&self) -> Vec<(&'static str, u64, &'static str)> {
                vec![$((stringify!($name), self.$name, $meaning),)*]
            }

            /// The counters under BSD's names. A counter that BSD does not have is
            /// `vfs.ffs.`*name*.
            #[must_use]
            pub fn gauges(&self) -> Vec<Gauge> {
                vec![$(Gauge {
                    name: bsd_name!($name $($bsd)?),
                    value: self.$name,
                    meaning: $meaning,
                },)*]
            }
        }
    };
}

counters! {
    buf_hits: "Buffer lookups answered from memory.",
    buf_misses: "Buffer lookups that read the device.",
    buf_evictions: "Clean buffers evicted for new ones.",
    blocks_copied: "Buffers copied into an image to be written.",
    reads: "Device reads.",
    bytes_read: "Bytes read from the device.",
    writes_sync: "Buffer images written and waited for.",
    writes_async: "Buffer images started without waiting for durability.",
    writes_delayed: "Delayed buffer images written by the syncer, a flush or a full cache.",
    writes_data: "File-data images among the above.",
    writes_rolled_back = "debug.softdep.undone":
        "Write images with changes rolled back, or of blocks that changed during the write.",
    passes = "debug.softdep.epochs": "Passes that wrote ready buffers and flushed the device.",
    work_done = "debug.softdep.worklist_done": "Items of the worklist done.",
    space_requests = "debug.softdep.space_requests":
        "Operations that waited for pending frees because the volume was full.",
    space_found = "debug.softdep.space_found":
        "Operations that waited for pending frees and then found space.",
    softdep_waits = "debug.softdep.limit_waits":
        "Operations that waited because of too many dependencies.",
    bytes_written: "Bytes written to the device.",
    flushes: "Device cache flushes.",
    dir_bytes_scanned: "Directory bytes inspected by linear searches.",
    dir_records_scanned: "Directory records inspected by linear searches.",
    dir_chunks_compacted: "Directory chunks compacted for an insert.",
    lookup_two_pass: "Linear lookups started at the remembered offset (2passes).",
    lookup_pass_two: "Of those, found without starting over (pass2).",
    dir_trimmed: "Directories truncated after a removal (dir_truncate=create+delete).",
    dirhash_builds: "Directory hashes built.",
    dirhash_build_entries: "Entries inserted when directory hashes were built.",
    dirhash_gone_full: "Hashes dropped with three quarters of the slots in use.",
    dirhash_gone_outgrown: "Hashes dropped because the directory outgrew them.",
    dirhash_gone_shrunk: "Hashes dropped because the directory became small.",
    dirhash_gone_doubt: "Hashes dropped because they disagreed with the directory.",
    dirhash_recycled: "Hashes dropped to reuse their memory.",
    dirhash_refused_large: "Builds refused: more than half of the pool.",
    dirhash_refused_memory: "Builds refused: the pool is full.",
    dirhash_refused_damaged:
        "Builds refused: the directory is malformed, or has holes or duplicate names.",
    dirhash_hits: "Names found by a hash.",
    dirhash_misses: "Lookups that a hash answered with no such name.",
    dirhash_probes: "Hash slots inspected.",
    dirhash_probes_1: "Hash lookups with 1 probe.",
    dirhash_probes_2: "Hash lookups with 2 probes.",
    dirhash_probes_4: "Hash lookups with 3 or 4 probes.",
    dirhash_probes_8: "Hash lookups with 5 to 8 probes.",
    dirhash_probes_16: "Hash lookups with 9 to 16 probes.",
    dirhash_probes_more: "Hash lookups with more probes.",
    dirhash_inspected: "Directory records inspected by hash lookups.",
    dirhash_blocks_read: "Directory blocks fetched by hash lookups.",
    dirhash_seq_hits: "Sequential predictions that were right.",
    dirhash_seq_misses: "Sequential predictions that were wrong.",
    dirhash_findfree: "Searches for free space with a hash.",
    dirhash_findfree_new: "Of those, ended with a new chunk.",
    dirhash_check_failures: "Chunks that disagreed with their hash (dirhash_docheck).",
    dirhash_lowmem = "vfs.ufs.dirhash_lowmemcount": "Requests to free memory.",
    groups_searched: "Cylinder groups tried by the allocators.",
    frag_extends: "Fragment runs grown in place.",
    frag_moves: "Fragment runs moved to grow.",
    optim_switches: "Changes between time and space optimisation.",
    blocks_in_place: "Blocks of files written past the buffer cache.",
    clusters_moved: "Clusters moved to a contiguous place.",
    snapshot_copies: "Blocks copied for snapshots before they were overwritten or freed in part.",
    snapshot_takeovers: "Freed blocks that snapshots took over.",
    bgfsck_corrections = "vfs.ffs.bgfsck.corrections":
        "Corrections of the check in the background that were made.",
    bgfsck_refusals = "vfs.ffs.bgfsck.refusals":
        "Corrections of the check in the background that did not fit the volume any more.",
    frees_failed: "Fragments that could not be freed and stay allocated until fsck.",
    inodes_loaded: "Inodes read from their block.",
    inodes_recycled: "Cached inodes evicted for new ones.",
    cache_dothits = "vfs.cache.dothits": "Lookups of '.'.",
    cache_dotdothits = "vfs.cache.dotdothits": "Lookups of '..' answered from memory.",
    cache_numchecks = "vfs.cache.numchecks": "Cached names compared with the name looked up.",
    cache_nummiss = "vfs.cache.nummiss": "Lookups of names not in memory.",
    cache_nummisszap = "vfs.cache.nummisszap": "Changes of names not in memory.",
    cache_numposzaps = "vfs.cache.numposzaps": "Names removed from memory because they changed.",
    cache_numposhits = "vfs.cache.numposhits": "Names found in memory.",
    cache_numnegzaps = "vfs.cache.numnegzaps": "Negative entries of names that were created.",
    cache_numneghits = "vfs.cache.numneghits": "Lookups answered by a negative entry.",
    cache_numnegevicted = "vfs.cache.numnegevicted": "Negative entries removed by their limit.",
    cache_numpurged = "vfs.cache.numpurged": "Names removed with an inode, or on request.",
    cache_refused = "vfs.cache.numrefused": "Names not kept because of the limit.",
}

impl CounterValues {
    /// Names looked up (`vfs.cache.numcalls`).
    #[must_use]
    pub fn cache_numcalls(&self) -> u64 {
        let [good, negative, bad, _, missed, ..] = self.nchstats();
        self.cache_dothits + self.cache_dotdothits + good + negative + bad + missed
    }

    /// Every counter under its BSD name, including those that are sums of others.
    #[must_use]
    pub fn all(&self) -> Vec<Gauge> {
        let mut all = self.gauges();
        let mut row = |name, value, meaning| all.push(Gauge::new(name, value, meaning));
        row("vfs.cache.numcalls", self.cache_numcalls(), "Names looked up.");
        let [good, negative, bad, falsehits, miss, long, pass2, two_passes] = self.nchstats();
        row("vfs.cache.nchstats.goodhits", good, "Names found in memory.");
        row("vfs.cache.nchstats.neghits", negative, "Lookups answered by a negative entry.");
        row("vfs.cache.nchstats.badhits", bad, "Names found in memory and removed from it.");
        row(
            "vfs.cache.nchstats.falsehits",
            falsehits,
            "Names found with the inode of another file.",
        );
        row("vfs.cache.nchstats.miss", miss, "Names not in memory.");
        row("vfs.cache.nchstats.long", long, "Names too long to be kept.");
        row("vfs.cache.nchstats.pass2", pass2, "Linear lookups found where the last one ended.");
        row(
            "vfs.cache.nchstats.2passes",
            two_passes,
            "Linear lookups begun where the last one ended.",
        );
        all
    }

    /// `vfs.cache.nchstats`: goodhits, neghits, badhits, falsehits, miss, long, pass2, 2passes.
    ///
    /// `long` is 0, because names of every length are kept. `falsehits` is 0, because an entry does
    /// not outlive its inode.
    #[must_use]
    pub fn nchstats(&self) -> [u64; 8] {
        [
            self.cache_numposhits,
            self.cache_numneghits,
            self.cache_numposzaps + self.cache_numnegzaps,
            0,
            self.cache_nummiss + self.cache_nummisszap,
            0,
            self.lookup_pass_two,
            self.lookup_two_pass,
        ]
    }
}

/// Adds one.
pub(crate) fn bump(c: &AtomicU64) {
    c.fetch_add(1, Ordering::Relaxed);
}

/// Adds `n`.
pub(crate) fn add(c: &AtomicU64, n: u64) {
    c.fetch_add(n, Ordering::Relaxed);
}
