//! The drive: arm, platters, read-ahead buffer and write cache; overlapping tracks
//! ([`super::smr`]); or flash memory ([`super::flash`]).
//!
//! The drive gets a command and returns the time of its completion. Only flash memory gets one
//! while another is in progress.
//!
//! # Invariants
//! 1. Commands come in the order of time. The drive computes its own work (reading ahead, emptying
//!    its write cache, cleaning bands) when the next command comes.
//! 2. Reading ahead ends with the next command that needs the arm. A write invalidates its sectors
//!    in the read buffer.
//! 3. A write that the cache accepts is complete, although it is not durable. Drives of the time
//!    did the same.
//! 4. Cleaning in idle time delays no command: a band that is not written when the next command
//!    comes is cleaned later.
//!
//! Reference: `docs/spec/benchmarks.md` §6.2.

use std::collections::VecDeque;

use super::flash::Flash;
use super::geometry::{Extent, Geometry, SECTOR};
use super::parameters::{DiskPreset, WriteCache};
use super::smr::Smr;

/// Whether a request reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(crate) fn is_write(self) -> bool {
        self == Direction::Write
    }
}

/// Reading ahead. The head began to read `next` at time `since`; the sectors from `first` to `next`
/// are in the buffer.
#[derive(Debug, Clone, Copy)]
struct ReadAhead {
    first: u64,
    next: u64,
    since: u64,
    /// The sector at which the segment is full.
    limit: u64,
}

/// The counters of the drive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DriveCounters {
    pub(crate) seeks: u64,
    pub(crate) hits: u64,
    pub(crate) cached_writes: u64,
    pub(crate) cleaned_bands: u64,
}

/// A drive.
#[derive(Debug)]
pub(crate) struct Drive {
    geometry: Geometry,
    /// The angle of the platters at time 0, in nanoseconds.
    phase: u64,
    /// Cylinder and head.
    arm: (u64, u64),
    /// When the arm has finished its last access.
    free: u64,
    stream: Option<ReadAhead>,
    segments: VecDeque<Extent>,
    /// Writes in the cache, with the times at which it accepted them.
    cached: VecDeque<(Extent, u64)>,
    cached_sectors: u64,
    costs: DriveTimes,
    /// The medium, if it has no platters.
    flash: Option<Flash>,
    /// The bands, if tracks overlap. Extents below are then of the platters, not of the host.
    smr: Option<Smr>,
    /// When the last command was complete.
    last: u64,
    pub(crate) work: DriveCounters,
}

/// Fixed times and sizes, nanoseconds and sectors.
#[derive(Debug)]
struct DriveTimes {
    read: u64,
    hit: u64,
    write: u64,
    settle: u64,
    /// Nanoseconds to transfer a sector over the interface.
    bus: u64,
    segments: usize,
    segment: u64,
    cache: WriteCache,
    cache_sectors: u64,
    cache_writes: usize,
}

impl Drive {
    /// A drive whose platters are `phase` nanoseconds after the index mark at time 0.
    pub(crate) fn new(d: &DiskPreset, phase: u64) -> Drive {
        let ns = |ms: f64| (ms * 1e6) as u64;
        let costs = DriveTimes {
            read: ns(d.read_overhead_ms),
            hit: ns(d.hit_overhead_ms),
            write: ns(d.write_overhead_ms),
            settle: ns(d.write_settle_ms),
            bus: (SECTOR as f64 * 1e3 / d.bus_mb_s) as u64,
            segments: d.segments as usize,
            segment: u64::from(d.segment_kb) * 1024 / SECTOR,
            cache: d.write_cache,
            cache_sectors: u64::from(d.buffer_kb) * 1024 / SECTOR,
            cache_writes: d.write_cache_segments as usize,
        };
        let geometry = Geometry::new(d);
        Drive {
            phase: phase % geometry.turn,
            geometry,
            arm: (0, 0),
            free: 0,
            stream: None,
            segments: VecDeque::new(),
            cached: VecDeque::new(),
            cached_sectors: 0,
            costs,
            flash: d.flash.as_ref().map(|flash| Flash::new(flash, d.buffer_kb, d.bus_mb_s)),
            smr: d.smr.as_ref().map(Smr::new),
            last: 0,
            work: DriveCounters::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn sectors(&self) -> u64 {
        self.geometry.sectors()
    }

    /// Moves the arm and transfers, from time `at` on. Returns the time of completion.
    fn access(&mut self, at: u64, extent: Extent, direction: Direction) -> u64 {
        let place = self.geometry.place(extent.lba);
        let mut travel = self.geometry.travel(self.arm, place);
        if place.cylinder != self.arm.0 {
            self.work.seeks += 1;
            if direction.is_write() {
                travel += self.costs.settle;
            }
        }
        let there = at + travel;
        let wait = self.geometry.wait(there + self.phase, self.geometry.angle(place));
        let done = there + wait + self.geometry.transfer(extent.lba, extent.sectors);
        self.rest_at(extent.end() - 1);
        done
    }

    fn rest_at(&mut self, lba: u64) {
        let last = self.geometry.place(lba);
        self.arm = (last.cylinder, last.head);
    }

    /// Ends reading ahead at time `at`. The sectors that were read stay in a segment.
    fn end_stream(&mut self, at: u64) {
        let Some(s) = self.stream.take() else { return };
        let ahead = s.limit.saturating_sub(s.next);
        let read = self.geometry.passed(s.next, at.saturating_sub(s.since), ahead);
        let end = s.next + read;
        if read > 0 {
            self.rest_at(end - 1);
        }
        let first = s.first.max(end.saturating_sub(self.costs.segment));
        self.keep(Extent { lba: first, sectors: end - first });
    }

    fn keep(&mut self, segment: Extent) {
        if self.costs.segments == 0 || segment.sectors == 0 {
            return;
        }
        if self.segments.len() >= self.costs.segments {
            self.segments.pop_front();
        }
        self.segments.push_back(segment);
    }

    /// A read that is requested at time `at`. Returns the time of completion.
    pub(crate) fn read(&mut self, at: u64, extent: Extent) -> u64 {
        if let Some(flash) = &mut self.flash {
            return flash.read(at, extent.sectors);
        }
        self.work_until(at);
        let Some(smr) = &self.smr else { return self.read_place(at, extent) };
        let extent = smr.home(extent);
        let is_cached = self.cached.iter().any(|(held, _)| held.contains(extent));
        let places = if is_cached { vec![extent] } else { smr.locate(extent) };
        self.last = places.into_iter().fold(at, |at, place| self.read_place(at, place));
        self.last
    }

    /// A read of adjacent sectors. Returns the time of completion.
    fn read_place(&mut self, at: u64, extent: Extent) -> u64 {
        let from_buffer = at + self.costs.hit + extent.sectors * self.costs.bus;
        if let Some(done) = self.read_on(at, extent) {
            self.work.hits += 1;
            return done.max(from_buffer);
        }
        let cached = |(held, _): &(Extent, u64)| held.contains(extent);
        if self.segments.iter().any(|s| s.contains(extent)) || self.cached.iter().any(cached) {
            self.work.hits += 1;
            return from_buffer;
        }
        self.end_stream(at);
        let done = self.access(at.max(self.free) + self.costs.read, extent, Direction::Read);
        self.free = done;
        let next = extent.end();
        if self.costs.segments > 0 && next < self.geometry.sectors() {
            let limit = (next + self.costs.segment).min(self.geometry.sectors());
            self.stream = Some(ReadAhead { first: extent.lba, next, since: done, limit });
        }
        done
    }

    /// A read from the stream that is read ahead. Returns the time at which its last sector is in
    /// the buffer; `None` if it is outside of the stream.
    fn read_on(&mut self, at: u64, extent: Extent) -> Option<u64> {
        let s = self.stream?;
        let end = extent.end();
        if extent.lba < s.first || extent.lba > s.limit || end > self.geometry.sectors() {
            return None;
        }
        if end <= s.next {
            return Some(at);
        }
        // Reading stops when the buffer is full, and resumes when the next sector passes again.
        let full = s.since + self.geometry.transfer(s.next, s.limit - s.next);
        let (next, since) = if at > full && s.limit < self.geometry.sectors() {
            let angle = self.geometry.angle(self.geometry.place(s.limit));
            (s.limit, at + self.geometry.wait(at + self.phase, angle))
        } else {
            (s.next, s.since)
        };
        let (next, since, ready) = if end > next {
            let ready = since + self.geometry.transfer(next, end - next);
            (end, ready, ready)
        } else {
            (next, since, at)
        };
        let limit = (end + self.costs.segment).max(s.limit).min(self.geometry.sectors());
        let first = s.first.max(end.saturating_sub(self.costs.segment)).min(extent.lba);
        self.stream = Some(ReadAhead { first, next, since, limit });
        Some(ready)
    }

    /// A write that is requested at time `at`. Returns the time at which the drive reports
    /// completion.
    pub(crate) fn write(&mut self, at: u64, extent: Extent) -> u64 {
        if let Some(flash) = &mut self.flash {
            return flash.write(at, extent.sectors);
        }
        self.work_until(at);
        let extent = self.smr.as_ref().map_or(extent, |smr| smr.home(extent));
        self.last = self.take(at, extent);
        self.last
    }

    /// Takes a write into the cache, or writes it if there is none. Returns the time of completion.
    fn take(&mut self, at: u64, extent: Extent) -> u64 {
        self.end_stream(at);
        self.segments.retain(|s| !s.overlaps(extent));
        let taken = at + self.costs.write;
        if self.costs.cache == WriteCache::Off {
            self.free = self.put(taken.max(self.free), extent);
            return self.free;
        }
        let mut taken = taken + extent.sectors * self.costs.bus;
        if self.absorb(extent) {
            self.work.cached_writes += 1;
            return taken;
        }
        while !self.cached.is_empty() && self.is_full(extent.sectors) {
            self.destage();
            taken = taken.max(self.free);
        }
        self.cached.push_back((extent, taken));
        self.cached_sectors += extent.sectors;
        taken
    }

    /// A flush that is requested at time `at`, after all writes. Returns the time of completion.
    /// The disks of 2002 got no such command.
    pub(crate) fn flush(&self, at: u64) -> u64 {
        self.flash.as_ref().map_or(at, |flash| flash.flush(at))
    }

    fn is_full(&self, more: u64) -> bool {
        self.cached.len() >= self.costs.cache_writes
            || self.cached_sectors + more > self.costs.cache_sectors
    }

    /// Merges a write into a cached one, if the cache does that.
    fn absorb(&mut self, extent: Extent) -> bool {
        if self.costs.cache != WriteCache::Merge {
            return false;
        }
        let space = self.costs.cache_sectors - self.cached_sectors.min(self.costs.cache_sectors);
        for (held, _) in &mut self.cached {
            if held.contains(extent) {
                return true;
            }
            if held.end() == extent.lba && extent.sectors <= space {
                held.sectors += extent.sectors;
                self.cached_sectors += extent.sectors;
                return true;
            }
        }
        false
    }

    /// Writes cached writes to the platters as far as the time until `at` allows.
    fn empty_until(&mut self, at: u64) {
        while let Some(&(_, since)) = self.cached.front() {
            if self.free.max(since) >= at {
                break;
            }
            self.destage();
        }
    }

    /// Writes one cached write to the platters.
    fn destage(&mut self) {
        let next = match self.costs.cache {
            WriteCache::Merge => {
                // In ascending order from the arm, then from the start.
                let now = self.geometry.place_lba(self.arm);
                let key = |e: &Extent| (e.lba < now, e.lba);
                let each = self.cached.iter().enumerate();
                each.min_by_key(|(_, (e, _))| key(e)).map_or(0, |(at, _)| at)
            }
            WriteCache::Off | WriteCache::Fifo => 0,
        };
        let Some((extent, since)) = self.cached.remove(next) else { return };
        self.cached_sectors -= extent.sectors;
        self.end_stream(self.free.max(since));
        self.free = self.put(self.free.max(since), extent);
    }

    /// Writes an extent to its place, or to the log of a drive with overlapping tracks. Returns the
    /// time of completion.
    fn put(&mut self, at: u64, extent: Extent) -> u64 {
        let Some(mut smr) = self.smr.take() else {
            return self.access(at, extent, Direction::Write);
        };
        let mut now = at;
        while smr.is_full(extent.sectors)
            && let Some(band) = smr.oldest_band()
        {
            now = self.clean(now, &smr, band);
            smr.cleaned(band);
            self.work.cleaned_bands += 1;
        }
        for place in smr.append(extent) {
            self.segments.retain(|s| !s.overlaps(place));
            now = self.access(now, place, Direction::Write);
        }
        self.smr = Some(smr);
        now
    }

    /// Reads a band and its cached sectors, and writes the band. Returns the time of completion.
    fn clean(&mut self, at: u64, smr: &Smr, band: Extent) -> u64 {
        let sectors = band.sectors.min(self.geometry.sectors() - band.lba);
        let band = Extent { sectors, ..band };
        let mut cached = smr.locate(band);
        cached.retain(|place| !band.contains(*place));
        // The log is read in one direction.
        cached.sort_by_key(|place| place.lba);
        let mut now = self.access(at, band, Direction::Read);
        for place in cached {
            now = self.access(now, place, Direction::Read);
        }
        self.segments.retain(|s| !s.overlaps(band));
        self.access(now, band, Direction::Write)
    }

    /// The drive's own work until the command at time `at`.
    fn work_until(&mut self, at: u64) {
        self.empty_until(at);
        let Some(mut smr) = self.smr.take() else { return };
        while let Some(band) = smr.oldest_band().filter(|_| self.cached.is_empty()) {
            let begin = self.free.max(self.last + smr.idle);
            if begin >= at {
                break;
            }
            self.end_stream(begin);
            let (arm, work) = (self.arm, self.work);
            let end = self.clean(begin, &smr, band);
            if end > at {
                (self.arm, self.work) = (arm, work);
                break;
            }
            self.free = end;
            smr.cleaned(band);
            self.work.cleaned_bands += 1;
        }
        self.smr = Some(smr);
    }
}
