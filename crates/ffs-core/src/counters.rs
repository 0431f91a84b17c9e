//! Plain counters of work done: the first currency of tests, benchmarks and `ffs stat`.
//!
//! Counting is relaxed and costs a nanosecond; nothing in the core reads a counter to decide.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number to be told under a BSD name: a counter's, or how much there is of something now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauge {
    /// BSD's name.
    pub name: &'static str,
    /// How much.
    pub value: u64,
    /// One sentence.
    pub meaning: &'static str,
}

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
    ($($name:ident $(= $bsd:literal)?: $what:literal,)*) => {
        /// Counters of one mount.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// The values of `Counters` at one moment.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct CounterValues {
            $(#[doc = $what] pub $name: u64,)*
        }

        impl Counters {
            /// Reads every counter.
            #[must_use]
            pub(crate) fn values(&self) -> CounterValues {
                CounterValues { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl CounterValues {
            /// Name, value and meaning of every counter, in a fixed order.
            #[must_use]
            pub fn list(&self) -> Vec<(&'static str, u64, &'static str)> {
                vec![$((stringify!($name), self.$name, $what),)*]
            }

            /// The counters under BSD's names; those that BSD does not have are `vfs.ffs.`*name*.
            #[must_use]
            pub fn gauges(&self) -> Vec<Gauge> {
                vec![$(Gauge {
                    name: bsd_name!($name $($bsd)?),
                    value: self.$name,
                    meaning: $what,
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
    writes_rolled_back = "debug.softdep.undone": "Write images with changes rolled back.",
    epochs = "debug.softdep.epochs": "Passes that wrote and flushed what was ready.",
    work_done = "debug.softdep.worklist_done": "Links dropped and space freed once the device allowed it.",
    space_requests = "debug.softdep.space_requests":
        "Operations that waited for outstanding frees, as the volume was full.",
    space_found = "debug.softdep.space_found": "Operations that waited for pending frees and then found space.",
    softdep_waits = "debug.softdep.limit_waits": "Operations that waited because too much was outstanding.",
    bytes_written: "Bytes written to the device.",
    flushes: "Device cache flushes.",
    dir_bytes_scanned: "Directory bytes looked at by the linear code.",
    dir_records_scanned: "Directory records looked at by the linear code.",
    dir_chunks_compacted: "Directory chunks compacted for an insert.",
    lookup_two_pass: "Linear lookups started at the remembered offset (2passes).",
    lookup_pass_two: "Of those, found without starting over (pass2).",
    dir_trimmed: "Directories cut after a removal (dir_truncate=create+delete).",
    dirhash_builds: "Directory hashes built.",
    dirhash_build_entries: "Entries entered by building.",
    dirhash_gone_full: "Hashes dropped with three quarters of the slots in use.",
    dirhash_gone_outgrown: "Hashes dropped because the directory outgrew them.",
    dirhash_gone_shrunk: "Hashes dropped because the directory became small.",
    dirhash_gone_doubt: "Hashes dropped because the directory disagreed.",
    dirhash_recycled: "Hashes whose memory was taken.",
    dirhash_refused_large: "Builds refused: more than half of the pool.",
    dirhash_refused_memory: "Builds refused: the pool is full.",
    dirhash_refused_damaged: "Directories without a hash: malformed, with holes or duplicate names.",
    dirhash_hits: "Names found by a hash.",
    dirhash_misses: "Names a hash called absent.",
    dirhash_probes: "Slots looked at.",
    dirhash_probes_1: "Hash lookups with 1 probe.",
    dirhash_probes_2: "Hash lookups with 2 probes.",
    dirhash_probes_4: "Hash lookups with 3 or 4 probes.",
    dirhash_probes_8: "Hash lookups with 5 to 8 probes.",
    dirhash_probes_16: "Hash lookups with 9 to 16 probes.",
    dirhash_probes_more: "Hash lookups with more probes.",
    dirhash_inspected: "Directory records looked at by hash lookups.",
    dirhash_blocks_read: "Directory blocks fetched by hash lookups.",
    dirhash_seq_hits: "Sequential predictions that were right.",
    dirhash_seq_misses: "Sequential predictions that were wrong.",
    dirhash_findfree: "Searches for room by a hash.",
    dirhash_findfree_new: "Of those, answered with a new chunk.",
    dirhash_check_failures: "Chunks that disagreed with their hash (dirhash_docheck).",
    dirhash_lowmem = "vfs.ufs.dirhash_lowmemcount": "Times memory was short.",
    groups_searched: "Cylinder groups tried by the allocators.",
    frag_extends: "Fragment runs grown in place.",
    frag_moves: "Fragment runs moved to grow.",
    optim_switches: "Changes between time and space optimisation.",
    clusters_moved: "Clusters moved to a contiguous place.",
    frees_failed: "Fragments that could not be given back: fsck will find them.",
    inodes_loaded: "Inodes read from their block.",
    inodes_recycled: "Cached inodes evicted for new ones.",
    cache_dothits = "vfs.cache.dothits": "Lookups of '.'.",
    cache_dotdothits = "vfs.cache.dotdothits": "Lookups of '..' answered from memory.",
    cache_numchecks = "vfs.cache.numchecks": "Names in memory compared with the one looked up.",
    cache_nummiss = "vfs.cache.nummiss": "Names looked up that were not in memory.",
    cache_nummisszap = "vfs.cache.nummisszap": "Names changed that were not in memory.",
    cache_numposzaps = "vfs.cache.numposzaps": "Names forgotten because they are changed.",
    cache_numposhits = "vfs.cache.numposhits": "Names found in memory.",
    cache_numnegzaps = "vfs.cache.numnegzaps": "Absences forgotten because the name is made.",
    cache_numneghits = "vfs.cache.numneghits": "Names known not to exist.",
    cache_numnegevicted = "vfs.cache.numnegevicted": "Absences forgotten to keep them few.",
    cache_numpurged = "vfs.cache.numpurged": "Names forgotten with an inode, or on request.",
    cache_refused = "vfs.cache.numrefused": "Names not kept because there are too many.",
}

impl CounterValues {
    /// Names looked up (`vfs.cache.numcalls`).
    #[must_use]
    pub fn cache_numcalls(&self) -> u64 {
        let [good, negative, bad, _, missed, ..] = self.nchstats();
        self.cache_dothits + self.cache_dotdothits + good + negative + bad + missed
    }

    /// Every counter under its BSD name, the sums among them, too.
    #[must_use]
    pub fn all(&self) -> Vec<Gauge> {
        let mut all = self.gauges();
        let mut row = |name, value, meaning| all.push(Gauge { name, value, meaning });
        row("vfs.cache.numcalls", self.cache_numcalls(), "Names looked up.");
        let [good, negative, bad, falsehits, miss, long, pass2, two_passes] = self.nchstats();
        row("vfs.cache.nchstats.goodhits", good, "Names found in memory.");
        row("vfs.cache.nchstats.neghits", negative, "Names known not to exist.");
        row("vfs.cache.nchstats.badhits", bad, "Names found in memory that had to be forgotten.");
        row("vfs.cache.nchstats.falsehits", falsehits, "Names found whose inode was another's.");
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

    /// `vfs.cache.nchstats`: goodhits, neghits, badhits, falsehits, miss, long, pass2, 2passes. No name is
    /// too long, and no entry outlives what it names.
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

/// Adds one to a counter that only holders of one lock change: a load and a store.
pub(crate) fn bump_alone(c: &AtomicU64) {
    c.store(c.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Adds one.
pub(crate) fn bump(c: &AtomicU64) {
    c.fetch_add(1, Ordering::Relaxed);
}

/// Adds `n`.
pub(crate) fn add(c: &AtomicU64, n: u64) {
    c.fetch_add(n, Ordering::Relaxed);
}
