//! The resources that a target has used.

use serde::{Deserialize, Serialize};

/// Totals since [`super::Target::begin`]; zero where a target does not count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time, nanoseconds.
    pub cpu_ns: u64,
    /// Of it, the time of searches of directories (FreeBSD's `ufs_lookup`), nanoseconds.
    #[serde(default)]
    pub search_ns: u64,
    /// Time in which the disk was busy, nanoseconds.
    pub disk_busy_ns: u64,
    /// Reads of the disk.
    pub reads: u64,
    /// Writes of the disk.
    pub writes: u64,
    /// Sectors of 512 bytes read and written.
    pub sectors: u64,
    /// Requests that did not begin where the one before ended.
    pub seeks: u64,
}

impl Usage {
    /// The difference from `before`.
    #[must_use]
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            search_ns: self.search_ns.saturating_sub(before.search_ns),
            disk_busy_ns: self.disk_busy_ns.saturating_sub(before.disk_busy_ns),
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            sectors: self.sectors.saturating_sub(before.sectors),
            seeks: self.seeks.saturating_sub(before.seeks),
        }
    }
}
