//! The switches, counters and gauges of a mount by name, and what a changed switch sets in motion.

use super::Ffs;
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
    #[allow(clippy::unused_self, reason = "rooms that have to be told come with their switches")]
    fn changed(&self, _id: TunableId) {}

    /// What there is at this moment: memory in use, numbers of entries.
    #[must_use]
    pub fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}
