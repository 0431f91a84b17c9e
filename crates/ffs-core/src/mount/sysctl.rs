//! The switches, counters and gauges of a mount by name, and what a changed switch sets in motion.

use super::Ffs;
use crate::buf::CacheStats;
use crate::counters::Gauge;
use crate::tunables::{Kind, Tunable, TunableError, TunableId, nearest};

/// What a name of [`Ffs::sysctl`] stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// A switch.
    Switch(Kind),
    /// Counts since the mount.
    Counter,
    /// How much there is now.
    Gauge,
}

/// A name, its value and its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysctl {
    /// BSD's name.
    pub name: &'static str,
    /// What it stands for.
    pub nature: Nature,
    /// Its value; a number or a word.
    pub value: String,
    /// One sentence.
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

    /// Sets a switch by its BSD name or mount option; tells it as it was.
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

    /// Why `name` is no switch.
    fn unknown(&self, name: String) -> TunableError {
        let all: Vec<&'static str> = self.sysctl().iter().map(|s| s.name).collect();
        match all.iter().find(|known| **known == name) {
            Some(known) => TunableError::ReadOnly(known),
            None => TunableError::Unknown { nearest: nearest(&name, all.into_iter()), name },
        }
    }

    /// Carries out what a changed switch asks of the rooms, beyond what they see by themselves.
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

    /// Forgets all names in memory, as unmounting and mounting would: for measurements.
    pub fn purge_names(&self) {
        self.0.table.names().purge_all();
    }

    /// Lookups and memory of the buffer cache, by kind of block.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.0.ump.cache.stats()
    }

    /// What there is at this moment: memory in use, numbers of entries.
    #[must_use]
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut all = self.cache_stats().gauges();
        all.extend(self.0.table.gauges());
        all.extend(self.0.ump.dirhash.gauges());
        let p = self.0.ump.ordering.pending();
        let row = |name, value, meaning| Gauge { name, value, meaning };
        all.extend([
            row("debug.softdep.total_records", p.deps, "Changes that are not durable yet."),
            row(
                "debug.softdep.mem",
                self.0.ump.ordering.memory(),
                "Bytes to keep track of changes that are not durable yet.",
            ),
            row(
                "debug.softdep.removals",
                p.removals,
                "Removed names that the device may still show.",
            ),
            row(
                "debug.softdep.steps",
                p.steps,
                "Changes and dependencies looked at since the mount.",
            ),
            row("debug.softdep.pending_frags", p.frags, "Fragments that will be free."),
            row("debug.softdep.pending_inodes", p.inodes, "Inodes that will be free."),
        ]);
        all
    }
}
