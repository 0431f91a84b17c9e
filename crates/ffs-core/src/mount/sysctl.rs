//! The switches, counters and gauges of a mount by name, and what a changed switch sets in motion.

use super::Ffs;
use crate::buf::CacheStats;
use crate::counters::Gauge;
use crate::tunables::{Tunable, TunableError, TunableId};

impl Ffs {
    /// Every switch with its value.
    #[must_use]
    pub fn tunables(&self) -> Vec<Tunable> {
        self.0.table.alloc().tunables.list()
    }

    /// Sets a switch by its BSD name or mount option; tells it as it was.
    ///
    /// # Errors
    /// See [`TunableError`].
    pub fn set_tunable(&self, name: &str, value: &str) -> Result<Tunable, TunableError> {
        let before = self.0.table.alloc().tunables.set(name, value)?;
        self.changed(before.id);
        Ok(before)
    }

    /// Carries out what a changed switch asks of the rooms, beyond what they see by themselves.
    fn changed(&self, id: TunableId) {
        use TunableId as Id;
        let alloc = self.0.table.alloc();
        match id {
            Id::vmiodirenable | Id::cache | Id::nbuf | Id::hibufspace | Id::maxbufmallocspace => {
                alloc.cache.retune(&alloc.tunables);
            }
            Id::minvnodes | Id::maxvnodes | Id::wantfreevnodes | Id::vfscache => {
                self.0.table.tunables_changed();
            }
            Id::dirhash_maxmem => self.0.table.dirhash().settle(),
            _ => {}
        }
    }

    /// Forgets all names in memory, as unmounting and mounting would: for measurements.
    pub fn purge_names(&self) {
        self.0.table.purge_names();
    }

    /// Lookups and memory of the buffer cache, by kind of block.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.0.table.alloc().cache.stats()
    }

    /// What there is at this moment: memory in use, numbers of entries.
    #[must_use]
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut all = self.cache_stats().gauges();
        all.extend(self.0.table.gauges());
        all.extend(self.0.table.dirhash().gauges());
        all
    }
}
