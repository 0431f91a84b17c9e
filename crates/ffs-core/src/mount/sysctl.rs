//! The switches, counters and gauges of a mount by name, and the effects of a changed switch.

use super::Ffs;
use crate::buf::CacheStats;
use crate::counters::Gauge;
use crate::tunables::{Kind, Tunable, TunableError, TunableId, nearest};

/// The kind of a name of [`Ffs::sysctl`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// A switch.
    Switch(Kind),
    /// A count since the mount.
    Counter,
    /// A present quantity.
    Gauge,
}

/// A name, its value and its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysctl {
    /// BSD's name.
    pub name: &'static str,
    /// Its kind.
    pub nature: Nature,
    /// Its value: a number or a word.
    pub value: String,
    /// A description, one sentence.
    pub meaning: &'static str,
}

impl Ffs {
    /// Every switch with its value.
    #[must_use]
    pub fn tunables(&self) -> Vec<Tunable> {
        self.0.ump.tunables.list()
    }

    /// Every switch, counter and gauge under its BSD name, sorted.
    #[must_use]
    pub fn sysctl(&self) -> Vec<Sysctl> {
        let switch = |t: Tunable| Sysctl {
            name: t.name,
            nature: Nature::Switch(t.kind),
            value: t.value,
            meaning: t.meaning,
        };
        let number = |nature| {
            move |Gauge { name, value, meaning }| Sysctl {
                name,
                nature,
                value: value.to_string(),
                meaning,
            }
        };
        let counters = self.counters().all().into_iter().chain(self.cache_stats().counters());
        let mut all: Vec<Sysctl> = self.tunables().into_iter().map(switch).collect();
        all.extend(counters.map(number(Nature::Counter)));
        all.extend(self.gauges().into_iter().map(number(Nature::Gauge)));
        all.sort_by_key(|s| s.name);
        all
    }

    /// Sets a switch by its BSD name or mount option. Returns the switch with its former value.
    ///
    /// # Errors
    /// See [`TunableError`].
    pub fn set_tunable(&self, name: &str, value: &str) -> Result<Tunable, TunableError> {
        let refusal = |e| match e {
            TunableError::Unknown { name, .. } => self.unknown(name),
            e => e,
        };
        let before = self.0.ump.tunables.set(name, value).map_err(refusal)?;
        self.changed(before.id);
        Ok(before)
    }

    /// The error for `name`, which is no switch.
    fn unknown(&self, name: String) -> TunableError {
        let all: Vec<&'static str> = self.sysctl().iter().map(|s| s.name).collect();
        match all.iter().find(|other| **other == name) {
            Some(other) => TunableError::ReadOnly(other),
            None => TunableError::Unknown { nearest: nearest(&name, all.into_iter()), name },
        }
    }

    /// Applies a changed switch to the modules that do not read it at each use.
    fn changed(&self, id: TunableId) {
        use TunableId as Id;
        let ump = &self.0.ump;
        match id {
            Id::vmiodirenable | Id::cache | Id::nbuf | Id::hibufspace | Id::maxbufmallocspace => {
                ump.cache.retune(&ump.tunables);
                // `dirhash_maxmem=auto` follows the cache.
                self.0.ump.dirhash.shrink_to_limit();
            }
            Id::minvnodes | Id::maxvnodes | Id::wantfreevnodes | Id::vfscache => {
                self.0.table.tunables_changed();
            }
            Id::dirhash_maxmem => self.0.ump.dirhash.shrink_to_limit(),
            _ => {}
        }
    }

    /// Removes all names from memory, as unmount and mount do. For measurements.
    pub fn purge_names(&self) {
        self.0.table.names().purge_all();
    }

    /// Lookups and memory of the buffer cache, by kind of block.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.0.ump.cache.stats()
    }

    /// The present quantities: memory in use, numbers of entries.
    #[must_use]
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut all = self.cache_stats().gauges();
        all.extend(self.0.table.gauges());
        all.extend(self.0.ump.dirhash.gauges());
        all.extend(self.check_gauges());
        all.extend(self.journal_gauges());
        let p = self.0.ump.ordering.pending();
        all.extend([
            Gauge::new(
                "debug.softdep.total_records",
                p.deps,
                "Dependencies that are not durable yet.",
            ),
            Gauge::new(
                "debug.softdep.mem",
                self.0.ump.ordering.memory(),
                "Bytes of memory for dependencies that are not durable yet.",
            ),
            Gauge::new(
                "debug.softdep.removals",
                p.removals,
                "Removed names that the device may still show.",
            ),
            Gauge::new(
                "debug.softdep.steps",
                p.steps,
                "Dependencies and changes inspected since the mount.",
            ),
            Gauge::new("debug.softdep.pending_frags", p.frags, "Fragments with a pending free."),
            Gauge::new("debug.softdep.pending_inodes", p.inodes, "Inodes with a pending free."),
        ]);
        all
    }
}
