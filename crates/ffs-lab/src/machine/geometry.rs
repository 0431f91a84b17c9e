//! The position of each sector, and the time at which it passes under the head.
//!
//! # Invariants
//! 1. Sectors are numbered from the outer edge inwards, cylinder by cylinder, head by head. All
//!    tracks of a zone have the same number of sectors.
//! 2. Angles are nanoseconds after the index mark. The first sector of a track is skewed against
//!    that of the track before it by the time of the switch between them, so that a long transfer
//!    loses only the time of the switch.
//! 3. Arithmetic uses integers, except for the square root of the seek curve, which IEEE 754
//!    defines to the last bit.
//!
//! Reference: `docs/spec/benchmarks.md` §6.2.

use super::parameters::DiskPreset;

/// Bytes in a sector.
pub(crate) const SECTOR: u64 = 512;

/// The sectors of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) lba: u64,
    pub(crate) sectors: u64,
}

impl Extent {
    pub(crate) fn end(self) -> u64 {
        self.lba + self.sectors
    }

    pub(super) fn contains(self, other: Extent) -> bool {
        self.lba <= other.lba && other.end() <= self.end()
    }

    pub(super) fn overlaps(self, other: Extent) -> bool {
        self.lba < other.end() && other.lba < self.end()
    }
}

/// The head does not miss a sector by this many nanoseconds or fewer, because angles are rounded
/// down.
const SLACK: u64 = 2_000;

/// Cylinders with the same number of sectors on a track.
#[derive(Debug, Clone, Copy)]
struct Zone {
    lba: u64,
    cylinder: u64,
    sectors: u64,
    /// Sectors that pass during a switch to the next head.
    head_skew: u64,
    /// Sectors that pass during a switch to the next cylinder.
    cylinder_skew: u64,
}

/// The platters.
#[derive(Debug, Clone)]
pub(crate) struct Geometry {
    /// Nanoseconds of a revolution.
    pub(crate) turn: u64,
    heads: u64,
    cylinders: u64,
    head_switch: u64,
    cylinder_switch: u64,
    zones: Vec<Zone>,
    sectors: u64,
    seek_least: f64,
    seek_span: f64,
}

/// The position of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SectorPosition {
    pub(crate) cylinder: u64,
    pub(crate) head: u64,
    sector: u64,
    zone: usize,
}

impl Geometry {
    pub(crate) fn new(d: &DiskPreset) -> Geometry {
        let turn = 60_000_000_000 / u64::from(d.turns_per_minute);
        let ns = |ms: f64| (ms * 1e6) as u64;
        let (head_switch, cylinder_switch) = (ns(d.head_switch_ms), ns(d.cylinder_switch_ms));
        let (heads, cylinders) = (u64::from(d.heads), u64::from(d.cylinders));
        let count = u64::from(d.zones);
        let (mut zones, mut lba) = (Vec::new(), 0);
        for z in 0..count {
            // Linear from the outer edge to the inner edge, rounded to the nearest integer.
            let (outer, inner) = (u64::from(d.outer_sectors), u64::from(d.inner_sectors));
            let steps = (count - 1).max(1);
            let sectors = outer - ((outer - inner) * z * 2 + steps) / (2 * steps);
            let cylinder = cylinders * z / count;
            let skew = |switch: u64| (switch * sectors).div_ceil(turn);
            let (head_skew, cylinder_skew) = (skew(head_switch), skew(cylinder_switch));
            zones.push(Zone { lba, cylinder, sectors, head_skew, cylinder_skew });
            lba += (cylinders * (z + 1) / count - cylinder) * heads * sectors;
        }
        // The mean of the square root over random pairs of positions is 8/15.
        let seek_span = (d.full_seek_ms - d.average_seek_ms) / (7.0 / 15.0);
        let seek_least = d.full_seek_ms - seek_span;
        let sectors = lba;
        Geometry {
            turn,
            heads,
            cylinders,
            head_switch,
            cylinder_switch,
            zones,
            sectors,
            seek_least: seek_least * 1e6,
            seek_span: seek_span * 1e6,
        }
    }

    /// Sectors of the whole disk.
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The position of sector `lba`.
    pub(crate) fn place(&self, lba: u64) -> SectorPosition {
        let zone = self.zones.partition_point(|z| z.lba <= lba).saturating_sub(1);
        let z = &self.zones[zone];
        let within = lba - z.lba;
        let track = within / z.sectors;
        SectorPosition {
            cylinder: z.cylinder + track / self.heads,
            head: track % self.heads,
            sector: within % z.sectors,
            zone,
        }
    }

    /// The first sector of a track.
    pub(crate) fn place_lba(&self, (cylinder, head): (u64, u64)) -> u64 {
        let zone = self.zones.partition_point(|z| z.cylinder <= cylinder).saturating_sub(1);
        let z = &self.zones[zone];
        z.lba + ((cylinder - z.cylinder) * self.heads + head) * z.sectors
    }

    /// Nanoseconds to move the arm over `cylinders` cylinders.
    pub(crate) fn seek(&self, cylinders: u64) -> u64 {
        if cylinders == 0 {
            return 0;
        }
        let part = cylinders as f64 / self.cylinders as f64;
        (self.seek_least + self.seek_span * part.sqrt()) as u64
    }

    /// Nanoseconds to get from one track to another.
    pub(crate) fn travel(&self, from: (u64, u64), to: SectorPosition) -> u64 {
        let (cylinder, head) = from;
        match to.cylinder.abs_diff(cylinder) {
            0 if head == to.head => 0,
            0 => self.head_switch,
            d => self.seek(d).max(self.head_switch),
        }
    }

    /// The angle at which a sector begins.
    pub(crate) fn angle(&self, place: SectorPosition) -> u64 {
        let z = &self.zones[place.zone];
        let around = (self.heads - 1) * z.head_skew + z.cylinder_skew;
        let skew = (place.cylinder - z.cylinder) * around + place.head * z.head_skew;
        (place.sector + skew) % z.sectors * self.turn / z.sectors
    }

    /// Nanoseconds from angle `now` until `angle` passes.
    pub(crate) fn wait(&self, now: u64, angle: u64) -> u64 {
        let wait = (angle + self.turn - now % self.turn) % self.turn;
        if wait > self.turn - SLACK { 0 } else { wait }
    }

    /// Nanoseconds that `n` sectors from `lba` on take to pass.
    pub(crate) fn transfer(&self, lba: u64, n: u64) -> u64 {
        let (mut time, mut lba, mut left) = (0, lba, n);
        let mut place = self.place(lba);
        let start = self.angle(place);
        loop {
            let sectors = self.zones[place.zone].sectors;
            let here = left.min(sectors - place.sector);
            time += here * self.turn / sectors;
            (lba, left) = (lba + here, left - here);
            if left == 0 {
                return time;
            }
            let next = self.place(lba);
            let switch = if next.cylinder == place.cylinder {
                self.head_switch
            } else {
                self.cylinder_switch
            };
            time += switch;
            time += self.wait(start + time, self.angle(next));
            place = next;
        }
    }

    /// The number of sectors from `lba` on that pass in `time` nanoseconds, at most `most`.
    pub(crate) fn passed(&self, lba: u64, time: u64, most: u64) -> u64 {
        let (mut low, mut high) = (0, most.min(self.sectors.saturating_sub(lba)));
        while low < high {
            let middle = (low + high).div_ceil(2);
            if self.transfer(lba, middle) <= time { low = middle } else { high = middle - 1 }
        }
        low
    }
}
