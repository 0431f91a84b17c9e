//! The memory of the engine: every container is counted. Trees are estimated
//! ([`super::heap::tree_bytes`]). `tests/softdep_memory.rs` compares the result with a counting
//! allocator: they differ by less than a tenth.

use super::dep::DepId;
use super::engine::Softdep;

impl Softdep {
    /// Bytes in use.
    pub(super) fn memory(&self) -> usize {
        self.graph.bytes()
            + self.writes.bytes()
            + self.bmsafemaps.bytes()
            + self.inodedeps.bytes()
            + self.indirdeps.bytes()
            + self.pagedeps.bytes()
            + self.nameorder.bytes()
            + self.inflight.bytes()
            + self.worklist.bytes()
            + self.written_entries.capacity() * size_of::<DepId>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{arena, dep, direntries, graph, inodedep, pagedep, writes};

    /// There are as many of them as of changes.
    #[test]
    fn small_values_stay_small() {
        assert_eq!(size_of::<dep::Requirement>(), 16);
        assert_eq!(size_of::<arena::ArenaSlot<graph::Dep>>(), 80);
        assert_eq!(size_of::<arena::ArenaSlot<inodedep::InodeDep>>(), 96);
        assert_eq!(size_of::<direntries::EntryVersions>(), 24);
        assert_eq!(size_of::<writes::Waiter>(), 16);
        assert_eq!(size_of::<(u64, pagedep::RemovedEntry)>(), 24);
    }
}
