//! Overlapping tracks that the drive manages itself: drive-managed shingled magnetic recording
//! (SMR).
//!
//! Tracks of a band overlap, so a band is only written as a whole. Writes are appended to a log on
//! the platters, the persistent cache, and a map has the place of each cached sector. Cleaning
//! merges the cached sectors of a band into it: it reads the band and its cached sectors, and
//! writes the band.
//!
//! This module has the map and the log. The drive ([`super::drive`]) moves the arm.
//!
//! # Invariants
//! 1. The sectors of the map do not overlap. Each is in the log between its tail and its head.
//! 2. A cleaned band has no sector in the map.
//! 3. Bands are cleaned in the order of their oldest sectors in the log, so the tail always moves
//!    on.
//!
//! The persistent cache is at the outer edge. Addresses of the host begin after it; an address here
//! is one of the platters.
//!
//! Not modelled: the drive's map on the platters, and streams of writes that fill whole bands and
//! need no log.
//!
//! Reference: Aghayev and Desnoyers, *Skylight - A Window on Shingled Disk Operation*, FAST 2015.

use std::collections::{BTreeMap, VecDeque};

use super::geometry::{Extent, SECTOR};
use super::parameters::SmrPreset;

/// The persistent cache and the bands.
#[derive(Debug)]
pub(super) struct Smr {
    /// Sectors of the log.
    size: u64,
    /// Sectors of a band.
    band: u64,
    /// The most extents of the map.
    most: usize,
    /// Nanoseconds without a command after which cleaning begins.
    pub(super) idle: u64,
    /// The cached extents by their first sector: number of sectors, and position in the log.
    map: BTreeMap<u64, Cached>,
    /// The appended extents from the tail to the head, with their positions.
    log: VecDeque<(u64, Extent)>,
    /// The position of the next append. It grows for ever; modulo `size` it is a sector.
    head: u64,
}

/// The cached copy of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cached {
    sectors: u64,
    position: u64,
}

impl Smr {
    pub(super) fn new(preset: &SmrPreset) -> Smr {
        let sectors = |mb: u32| (u64::from(mb) << 20) / SECTOR;
        Smr {
            size: sectors(preset.persistent_cache_mb),
            band: sectors(preset.band_mb),
            most: preset.map_entries as usize,
            idle: (preset.idle_ms * 1e6) as u64,
            map: BTreeMap::new(),
            log: VecDeque::new(),
            head: 0,
        }
    }

    /// The place on the platters of an extent of the host, outside of the log.
    pub(super) fn home(&self, host: Extent) -> Extent {
        Extent { lba: host.lba + self.size, sectors: host.sectors }
    }

    /// The places that hold `extent`, in its order.
    pub(super) fn locate(&self, extent: Extent) -> Vec<Extent> {
        let mut places = Vec::new();
        let mut at = extent.lba;
        for (first, cached) in self.overlapping(extent) {
            let (from, to) = (first.max(at), (first + cached.sectors).min(extent.end()));
            if from > at {
                places.push(Extent { lba: at, sectors: from - at });
            }
            places.extend(self.in_log(cached.position + (from - first), to - from));
            at = to;
        }
        if at < extent.end() {
            places.push(Extent { lba: at, sectors: extent.end() - at });
        }
        places
    }

    /// The cached extents that overlap `extent`, in ascending order.
    fn overlapping(&self, extent: Extent) -> impl Iterator<Item = (u64, Cached)> + '_ {
        let before = self.map.range(..extent.lba).next_back();
        let before = before.filter(|(first, cached)| *first + cached.sectors > extent.lba);
        let rest = self.map.range(extent.lba..extent.end());
        before.into_iter().chain(rest).map(|(first, cached)| (*first, *cached))
    }

    /// The sectors of the log at a position. They are two extents where the log begins again.
    fn in_log(&self, position: u64, sectors: u64) -> impl Iterator<Item = Extent> + use<> {
        let first = position % self.size;
        let here = sectors.min(self.size - first);
        let places =
            [Extent { lba: first, sectors: here }, Extent { lba: 0, sectors: sectors - here }];
        places.into_iter().filter(|place| place.sectors > 0)
    }

    /// Whether a write of so many sectors needs a band to be cleaned first.
    pub(super) fn is_full(&self, sectors: u64) -> bool {
        let tail = self.log.front().map_or(self.head, |(position, _)| *position);
        // A write splits at most one cached extent, and so adds two.
        let entries = self.map.len() + 2 > self.most;
        !self.map.is_empty() && (entries || self.head + sectors - tail > self.size)
    }

    /// Appends an extent of the platters to the log. Returns its places there.
    pub(super) fn append(&mut self, extent: Extent) -> impl Iterator<Item = Extent> + use<> {
        self.forget(extent);
        let position = self.head;
        self.map.insert(extent.lba, Cached { sectors: extent.sectors, position });
        self.log.push_back((position, extent));
        self.head += extent.sectors;
        self.trim();
        self.in_log(position, extent.sectors)
    }

    /// The band that is cleaned next: that of the oldest cached sector.
    pub(super) fn oldest_band(&self) -> Option<Extent> {
        let (_, extent) = self.log.front()?;
        let cached = self.overlapping(*extent).find(|(_, c)| c.position < self.log_end())?;
        let first = cached.0.max(extent.lba);
        let lba = self.size + (first - self.size) / self.band * self.band;
        Some(Extent { lba, sectors: self.band })
    }

    /// The position after the oldest entry of the log.
    fn log_end(&self) -> u64 {
        self.log.front().map_or(self.head, |(position, extent)| position + extent.sectors)
    }

    /// Records that a band was written with its cached sectors.
    pub(super) fn cleaned(&mut self, band: Extent) {
        self.forget(band);
        self.trim();
    }

    /// Removes sectors from the map.
    fn forget(&mut self, extent: Extent) {
        let found: Vec<(u64, Cached)> = self.overlapping(extent).collect();
        for (first, cached) in found {
            self.map.remove(&first);
            if first < extent.lba {
                let before = Cached { sectors: extent.lba - first, ..cached };
                self.map.insert(first, before);
            }
            let end = first + cached.sectors;
            if end > extent.end() {
                let removed = extent.end() - first;
                let after =
                    Cached { sectors: end - extent.end(), position: cached.position + removed };
                self.map.insert(extent.end(), after);
            }
        }
    }

    /// Moves the tail over entries of the log of which no sector is in the map.
    fn trim(&mut self) {
        while let Some((position, extent)) = self.log.front() {
            let end = position + extent.sectors;
            let is_of_entry = |c: Cached| (*position..end).contains(&c.position);
            if self.overlapping(*extent).any(|(_, cached)| is_of_entry(cached)) {
                break;
            }
            self.log.pop_front();
        }
    }

    /// The number of cached extents.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.map.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use ffs_device::{Rng, SplitMix64};

    fn at(lba: u64, sectors: u64) -> Extent {
        Extent { lba, sectors }
    }

    /// A log of 2 MB (4096 sectors) and bands of 1 MB (2048 sectors).
    fn small(map_entries: u32) -> Smr {
        Smr::new(&SmrPreset { persistent_cache_mb: 2, band_mb: 1, map_entries, idle_ms: 1.0 })
    }

    #[test]
    fn the_newest_copy_of_each_sector_is_found_across_overlaps_and_the_end_of_the_log() {
        let mut smr = small(100_000);
        let rng = SplitMix64::new(1);
        // The place of each sector, kept sector by sector.
        let space = 8 * 2048;
        let mut truth: Vec<u64> = (0..space).map(|lba| lba + 4096).collect();
        for _ in 0..4000 {
            let extent = smr.home(at(rng.below(space - 64), 1 + rng.below(64)));
            while smr.is_full(extent.sectors) {
                let band = smr.oldest_band().unwrap();
                smr.cleaned(band);
                for lba in band.lba..band.end() {
                    truth[(lba - 4096) as usize] = lba;
                }
            }
            let places = smr.append(extent).flat_map(|place| place.lba..place.end());
            for (lba, place) in (extent.lba..extent.end()).zip(places) {
                truth[(lba - 4096) as usize] = place;
            }
            let read = smr.home(at(rng.below(space - 300), 300));
            let found: Vec<u64> =
                smr.locate(read).iter().flat_map(|place| place.lba..place.end()).collect();
            let from = (read.lba - 4096) as usize;
            assert_eq!(found, truth[from..from + 300]);
        }
    }

    #[test]
    fn a_sector_that_is_written_again_and_again_needs_no_cleaning() {
        let mut smr = small(10);
        for _ in 0..10_000 {
            assert!(!smr.is_full(64));
            drop(smr.append(smr.home(at(500, 64))));
        }
        assert_eq!(smr.entries(), 1);
    }

    #[test]
    fn the_log_and_the_map_are_full_at_their_limits() {
        // Each write is in a band of its own: 64 of 64 sectors fill the log.
        let fill = |entries: u32| {
            let mut smr = small(entries);
            let mut count = 0;
            while !smr.is_full(64) {
                drop(smr.append(smr.home(at(count * 2048, 64))));
                count += 1;
            }
            let band = smr.oldest_band().unwrap();
            assert_eq!(band, smr.home(at(0, 2048)), "the oldest first");
            smr.cleaned(band);
            assert!(!smr.is_full(64), "a cleaned band makes space");
            count
        };
        assert_eq!(fill(1000), 64);
        assert_eq!(fill(20), 19);
    }
}
