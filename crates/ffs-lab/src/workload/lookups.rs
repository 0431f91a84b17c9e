//! How the lookups of a run were answered, and what they cost the processor.
//!
//! # Invariants
//! A share whose whole was not counted is omitted. It is never zero instead.

use super::outcome::PhaseResult;

/// Shares of one phase or of several, percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LookupShares {
    /// Lookups that the name cache answered, of all.
    pub name_cache: Option<f64>,
    /// The time during which the processor worked, of the time of the phases.
    pub processor: Option<f64>,
    /// Searches of directories, of the processor's time.
    pub search: Option<f64>,
}

/// The seconds from which shares are computed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookupTimes {
    /// The phases.
    pub(crate) elapsed: f64,
    /// The processor.
    pub(crate) cpu: f64,
    /// Of that, searches of directories.
    pub(crate) search: f64,
}

impl LookupShares {
    /// The shares of a phase.
    #[must_use]
    pub fn of(phase: &PhaseResult) -> LookupShares {
        let count = |name: &str| phase.counters.get(name).copied().unwrap_or(0) as f64;
        let search = phase.usage.search_ns as f64 / 1e9;
        let times = LookupTimes { elapsed: phase.elapsed, cpu: phase.cpu, search };
        LookupShares::from_sums(count, times)
    }

    /// The shares, with the work counters from `count`.
    #[must_use]
    pub(crate) fn from_sums(count: impl Fn(&str) -> f64, times: LookupTimes) -> LookupShares {
        let hits = count("cache_numposhits") + count("cache_numneghits");
        let misses = count("cache_nummiss") + count("cache_nummisszap");
        let LookupTimes { elapsed, cpu, search } = times;
        LookupShares {
            name_cache: percent(hits, hits + misses),
            processor: percent(cpu, elapsed),
            // Only a simulated processor counts its searches.
            search: percent(search, cpu).filter(|_| search > 0.0),
        }
    }
}

fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::Usage;

    #[test]
    fn shares_are_percent_of_what_was_counted() {
        let phase = |counters: &[(&str, u64)], search_ns| PhaseResult {
            phase: "transactions".to_owned(),
            elapsed: 10.0,
            cpu: 8.0,
            work: 1.0,
            usage: Usage { search_ns, ..Usage::default() },
            counters: counters.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            notes: Vec::new(),
        };
        let counted = [("cache_numposhits", 20), ("cache_numneghits", 10), ("cache_nummiss", 70)];
        let phases = [phase(&counted, 6_000_000_000), phase(&[], 0)];
        let found = phases.map(|phase| LookupShares::of(&phase));
        assert_eq!(found[0].name_cache, Some(30.0));
        assert_eq!((found[0].processor, found[0].search), (Some(80.0), Some(75.0)));
        assert_eq!((found[1].name_cache, found[1].search), (None, None));
        assert_eq!(found[1].processor, Some(80.0));
    }
}
