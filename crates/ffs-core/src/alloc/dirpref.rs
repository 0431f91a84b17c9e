//! The group of a new directory, by one of four policies (`spec/allocation.md` §3).
//!
//! | variant | policy |
//! | --- | --- |
//! | `old` | spread directories over the whole disk (4.2BSD) |
//! | `new` | near the parent, while the group has its share of free space and inodes (Orlov 2001) |
//! | `new10` | the same with tighter limits (FreeBSD 10) |
//! | `depth` | the deeper the directory, the nearer to its parent (FreeBSD since 2023) |
//!
//! # Invariants
//! 1. Pure: the result depends on the summaries, the parent and, for first-level directories of
//!    `new` and `new10`, on one random number.
//! 2. The result is a group of the volume for any counts (they come from disk).

use super::ParentDir;
use crate::tunables::DirPref;
use ffs_device::clock::Rng;
use ffs_ondisk::{CgNo, Csum, Geometry, Ino};

/// Most directories in a row that are counted.
const MAX_IN_A_ROW: i64 = 255;

/// The expected properties of a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// Average file size, bytes.
    pub(super) avgfilesize: u32,
    /// Files per directory.
    pub(super) avgfpdir: u32,
}

/// The input of the choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// The volume's constants.
    pub(super) g: &'a Geometry,
    /// Counts, one per group.
    pub(super) cs: &'a [Csum],
    /// Their sum.
    pub(super) totals: Csum,
    /// Directories in a row, one per group.
    pub(super) contigdirs: &'a [u8],
}

/// The limits that a group must meet to take a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limits {
    /// Fewer directories than this.
    maxndir: i64,
    /// At least so many free inodes.
    minifree: i64,
    /// At least so many free blocks.
    minbfree: i64,
    /// Fewer directories in a row than this.
    maxcontigdirs: i64,
}

impl View<'_> {
    /// The group for a new directory in `parent`.
    pub(super) fn choose(
        &self,
        variant: DirPref,
        expected: Expected,
        parent: &ParentDir,
        rng: &impl Rng,
    ) -> CgNo {
        let home = self.home(parent);
        let in_root = parent.ino == Ino::ROOT;
        match variant {
            DirPref::Old => self.fewest_directories(0, |cs| cs.nifree >= self.average().nifree),
            DirPref::New | DirPref::New10 if in_root => {
                let average = self.average();
                let start = rng.below(self.g.ncg.into()) as u32;
                self.fewest_directories(start, |cs| {
                    cs.nifree >= average.nifree && cs.nbfree >= average.nbfree
                })
            }
            DirPref::New => self.near(home, &self.limits_2001(expected)),
            DirPref::New10 => self.near(home, &self.limits_10(expected, self.spread())),
            DirPref::Depth => {
                let more = 1i64 << parent.depth.min(31);
                self.near(self.probe(home, parent), &self.limits_10(expected, more))
            }
        }
    }

    fn home(&self, parent: &ParentDir) -> u32 {
        let c = self.g.ino_to_cg(parent.ino).0;
        if c < self.g.ncg { c } else { 0 }
    }

    /// Integer averages per group.
    fn average(&self) -> Csum {
        let (n, t) = (i64::from(self.g.ncg).max(1), self.totals);
        Csum { ndir: t.ndir / n, nbfree: t.nbfree / n, nifree: t.nifree / n, nffree: t.nffree / n }
    }

    /// The groups from `start` on, around the end, with their counts.
    fn from(&self, start: u32) -> impl Iterator<Item = (u32, &Csum)> {
        let all = || (0..self.g.ncg).zip(self.cs);
        all().skip(start as usize).chain(all().take(start as usize))
    }

    /// The group with the fewest directories among those that `qualify`; among equals the first
    /// from `start` on. `start` itself if no group qualifies.
    fn fewest_directories(&self, start: u32, qualifies: impl Fn(&Csum) -> bool) -> CgNo {
        let mut best = (i64::from(self.g.ipg), start);
        for (c, cs) in self.from(start) {
            if cs.ndir < best.0 && qualifies(cs) {
                best = (cs.ndir, c);
            }
        }
        CgNo(best.1)
    }

    /// The first group from `start` on within the limits. If there is none, the first with an
    /// average number of free inodes; else `start`.
    fn near(&self, start: u32, lim: &Limits) -> CgNo {
        let fits = |c: u32, cs: &Csum| {
            let row = self.contigdirs.get(c as usize).map_or(0, |n| i64::from(*n));
            cs.ndir < lim.maxndir
                && cs.nifree >= lim.minifree
                && cs.nbfree >= lim.minbfree
                && row < lim.maxcontigdirs
        };
        let average = self.average().nifree;
        let found = self.from(start).find(|(c, cs)| fits(*c, cs));
        let backstop = || self.from(start).find(|(_, cs)| cs.nifree >= average);
        CgNo(found.or_else(backstop).map_or(start, |(c, _)| c))
    }

    /// Directories that a group may have in excess of the average.
    fn spread(&self) -> i64 {
        i64::from(self.g.ipg / 16)
    }

    fn limits_2001(&self, expected: Expected) -> Limits {
        let (a, ipg) = (self.average(), i64::from(self.g.ipg));
        let blocks = i64::from(self.g.blocks_per_group());
        Limits {
            maxndir: (a.ndir + self.spread()).min(ipg),
            minifree: (a.nifree - ipg / 4).max(0),
            minbfree: (a.nbfree - blocks / 4).max(0),
            maxcontigdirs: self.in_a_row(self.group_bytes(), expected),
        }
    }

    fn limits_10(&self, expected: Expected, more_directories: i64) -> Limits {
        let a = self.average();
        let free = a.nbfree.saturating_mul(self.g.bsize.into());
        Limits {
            maxndir: (a.ndir + more_directories).min(self.g.ipg.into()),
            minifree: (a.nifree - a.nifree / 4).max(1),
            minbfree: (a.nbfree - a.nbfree / 4).max(1),
            maxcontigdirs: self.in_a_row(free, expected),
        }
    }

    fn group_bytes(&self) -> i64 {
        i64::from(self.g.fpg) * i64::from(self.g.fsize)
    }

    /// How many directories in a row `bytes` of free space suffice for: the space of a directory is
    /// that of its expected files, or the average of the existing directories if that is more.
    fn in_a_row(&self, bytes: i64, expected: Expected) -> i64 {
        let a = self.average();
        let used = self.group_bytes() - a.nbfree.saturating_mul(self.g.bsize.into());
        let cost = if a.ndir > 0 { used / a.ndir } else { 0 };
        let expect = i64::from(expected.avgfilesize).checked_mul(expected.avgfpdir.into());
        let in_a_row = match expect.map(|e| e.max(cost)) {
            Some(size) if size > 0 => (bytes / size).min(MAX_IN_A_ROW),
            _ => 0,
        };
        let inodes = match expected.avgfpdir {
            0 => in_a_row,
            n => in_a_row.min(i64::from(self.g.ipg / n)),
        };
        inodes.max(1)
    }

    /// The group where the search for a subdirectory starts under `depth`: at 1/2, 1/4, 3/4, 1/8,
    /// ... of a range around the parent's group. The range halves with every level.
    fn probe(&self, home: u32, parent: &ParentDir) -> u32 {
        if parent.depth == 0 && parent.ino != Ino::ROOT {
            return home;
        }
        let ncg = i64::from(self.g.ncg);
        let range = i64::from(self.g.ncg.checked_shr(parent.depth).unwrap_or(0));
        let nth = u32::from(parent.nlink.saturating_sub(1).max(1));
        let bits = u32::BITS - nth.leading_zeros();
        let numerator = 2 * i64::from(nth & !(1 << (bits - 1))) + 1;
        let at = i64::from(home) - range / 2 + range * numerator / (1i64 << bits);
        at.rem_euclid(ncg.max(1)) as u32
    }
}
