//! The states that a crash may leave of a window: their names, and which of them are examined.
//!
//! A state keeps some sectors of some writes of the window. If it keeps several writes of one
//! sector, the sector shows the one issued last. Every way to choose has a short name, by which one
//! state can be examined again:
//!
//! | name | kept |
//! | --- | --- |
//! | `p3` | the first three writes |
//! | `s1f` | the writes of the bits of this hexadecimal number |
//! | `o4`, `o4.7` | only write 4; only 4 and 7 |
//! | `a4`, `a4.7` | all but write 4; all but 4 and 7 |
//! | `r17` | a random half of the writes, number 17 |
//! | `t2.5n` | write 2 torn in the way 5; of the others none (`n`), all (`a`), or some (`r`) |
//! | `q17` | a random half of all sectors of all writes, number 17 |
//!
//! # Invariants
//! 1. A state follows from the window, the seed and its name.
//! 2. Two states of one window that differ in no byte are examined once.
//!
//! Reference: `spec/fsck-and-crash.md` §11.2.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use ffs_device::{Rng, SplitMix64};
use foldhash::fast::FixedState;

use super::history::{CrashPoint, SECTOR};
use super::overlay::{OverlayDevice, sector_hash};
use super::record::{Window, Write};

/// Windows of at most so many writes have every subset examined.
pub const ALL_SUBSETS: usize = 12;
/// Windows of at most so many writes have every pair left out, and kept alone.
const ALL_PAIRS: usize = 64;
/// Writes of at most so many sectors are torn between every two of them.
const ALL_TEARS: u32 = 16;
/// Random ways to tear a write.
const MASKS: u32 = 8;

/// What is kept of the writes that are not torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rest {
    /// Nothing.
    None,
    /// Everything.
    All,
    /// A random half.
    Random,
}

/// A state of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Choice {
    /// The first writes, as many as this number.
    Prefix(u32),
    /// The writes of these bits.
    Subset(u64),
    /// This write.
    Only(u32),
    /// These two writes.
    OnlyTwo(u32, u32),
    /// All but this write.
    AllBut(u32),
    /// All but these two writes.
    AllButTwo(u32, u32),
    /// A random half of the writes.
    Random(u32),
    /// One write torn.
    Torn {
        /// The write.
        write: u32,
        /// The way in which it is torn: at each point, at each point the other way round, by a
        /// random mask.
        how: u32,
        /// What is kept of the other writes.
        rest: Rest,
    },
    /// A random half of the sectors.
    Sectors(u32),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Choice::Prefix(n) => write!(f, "p{n}"),
            Choice::Subset(bits) => write!(f, "s{bits:x}"),
            Choice::Only(a) => write!(f, "o{a}"),
            Choice::OnlyTwo(a, b) => write!(f, "o{a}.{b}"),
            Choice::AllBut(a) => write!(f, "a{a}"),
            Choice::AllButTwo(a, b) => write!(f, "a{a}.{b}"),
            Choice::Random(n) => write!(f, "r{n}"),
            Choice::Torn { write, how, rest } => {
                let rest = match rest {
                    Rest::None => 'n',
                    Rest::All => 'a',
                    Rest::Random => 'r',
                };
                write!(f, "t{write}.{how}{rest}")
            }
            Choice::Sectors(n) => write!(f, "q{n}"),
        }
    }
}

impl FromStr for Choice {
    type Err = ();

    fn from_str(text: &str) -> Result<Choice, ()> {
        let kind = text.chars().next().filter(char::is_ascii).ok_or(())?;
        let rest = &text[1..];
        let number = |text: &str| text.parse::<u32>().map_err(|_| ());
        let pair = |text: &str| match text.split_once('.') {
            Some((a, b)) => Ok((number(a)?, Some(number(b)?))),
            None => Ok((number(text)?, None)),
        };
        match kind {
            'p' => Ok(Choice::Prefix(number(rest)?)),
            's' => u64::from_str_radix(rest, 16).map(Choice::Subset).map_err(|_| ()),
            'r' => Ok(Choice::Random(number(rest)?)),
            'q' => Ok(Choice::Sectors(number(rest)?)),
            'o' => pair(rest).map(|(a, b)| b.map_or(Choice::Only(a), |b| Choice::OnlyTwo(a, b))),
            'a' => {
                pair(rest).map(|(a, b)| b.map_or(Choice::AllBut(a), |b| Choice::AllButTwo(a, b)))
            }
            't' => {
                let (body, last) = rest.split_at_checked(rest.len().saturating_sub(1)).ok_or(())?;
                let others = match last {
                    "n" => Rest::None,
                    "a" => Rest::All,
                    "r" => Rest::Random,
                    _ => return Err(()),
                };
                let (write, how) = body.split_once('.').ok_or(())?;
                Ok(Choice::Torn { write: number(write)?, how: number(how)?, rest: others })
            }
            _ => Err(()),
        }
    }
}

/// How many states of a window are examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Random subsets of a window with more than [`ALL_SUBSETS`] writes.
    pub subsets: u32,
    /// Random subsets of a window's sectors.
    pub sectors: u32,
    /// Most states of a window. Further ones are left out at random, but never prefixes.
    pub window: u32,
}

/// The crash states of a window over its base.
pub(crate) struct WindowStates<'a> {
    window: &'a Window,
    seed: u64,
    /// The sectors that the window writes, ascending.
    slots: Vec<u32>,
    /// The hashes of these sectors in the base.
    base: Vec<u64>,
    /// For each write, for each of its sectors: the index in `slots`, and the hash of the content.
    parts: Vec<Vec<(u32, u64)>>,
}

/// A state, sector by sector: for each slot none, or the write and the sector of the write whose
/// content it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    seen: Vec<Option<(u32, u32)>>,
    /// The earliest position in the event log at which the device may show this state.
    pub crash: CrashPoint,
}

/// Whether write `w` keeps its sector `s`.
type Keeps<'a> = &'a mut dyn FnMut(usize, u32) -> bool;

fn sectors(write: &Write) -> u32 {
    // A write is far smaller than 2 TiB.
    (write.bytes.len() / SECTOR) as u32
}

impl<'a> WindowStates<'a> {
    /// The states of `window` over the base of `overlay`.
    #[must_use]
    pub(crate) fn new(window: &'a Window, overlay: &OverlayDevice, seed: u64) -> WindowStates<'a> {
        let first = |write: &Write| (write.offset / SECTOR as u64) as u32;
        let all = |write: &'a Write| (0..sectors(write)).map(move |s| first(write) + s);
        let mut slots: Vec<u32> = window.writes.iter().flat_map(all).collect();
        slots.sort_unstable();
        slots.dedup();
        let part = |write: &Write| {
            let chunks = write.bytes.chunks_exact(SECTOR);
            let number = |(s, bytes): (u32, &[u8])| {
                let sector = first(write) + s;
                // Every sector of the window has a slot.
                (slots.binary_search(&sector).unwrap_or(0) as u32, sector_hash(sector, bytes))
            };
            (0..).zip(chunks).map(number).collect()
        };
        let parts = window.writes.iter().map(part).collect();
        let base = overlay.with_base_bytes(|bytes| {
            let number = |&sector: &u32| {
                let from = sector as usize * SECTOR;
                bytes.get(from..from + SECTOR).map_or(0, |bytes| sector_hash(sector, bytes))
            };
            slots.iter().map(number).collect()
        });
        WindowStates { window, seed, slots, base, parts }
    }

    fn rng(&self, kind: u64, number: u64) -> SplitMix64 {
        let mix = SplitMix64::new(self.seed ^ self.window.begin.rotate_left(32));
        SplitMix64::new(mix.next_u64() ^ (kind << 56) ^ number)
    }

    /// Whether the window has the writes that `choice` names.
    #[must_use]
    pub(crate) fn has(&self, choice: Choice) -> bool {
        let n = self.window.writes.len() as u32;
        match choice {
            Choice::Prefix(k) => k <= n,
            Choice::Subset(bits) => n >= 64 || bits >> n == 0,
            Choice::Only(a) | Choice::AllBut(a) | Choice::Torn { write: a, .. } => a < n,
            Choice::OnlyTwo(a, b) | Choice::AllButTwo(a, b) => a < n && b < n,
            Choice::Random(_) | Choice::Sectors(_) => n > 0,
        }
    }

    /// The states to examine, prefixes first.
    #[must_use]
    pub(crate) fn choices(&self, effort: Effort) -> Vec<Choice> {
        let n = self.window.writes.len() as u32;
        let mut must: Vec<Choice> = (0..=n).map(Choice::Prefix).collect();
        if n < 2 && self.slots.len() < 2 {
            return must;
        }
        let mut may = Vec::new();
        if self.window.writes.len() <= ALL_SUBSETS {
            may.extend((0..1u64 << n).map(Choice::Subset));
        } else {
            must.extend((0..n).flat_map(|a| [Choice::Only(a), Choice::AllBut(a)]));
            may.extend((0..effort.subsets).map(Choice::Random));
            if self.window.writes.len() <= ALL_PAIRS {
                let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
                may.extend(
                    pairs.flat_map(|(a, b)| [Choice::OnlyTwo(a, b), Choice::AllButTwo(a, b)]),
                );
            }
        }
        for (write, part) in (0..).zip(&self.parts) {
            let ways = ways(part.len() as u32);
            let rests: &[Rest] =
                if n == 1 { &[Rest::None] } else { &[Rest::None, Rest::All, Rest::Random] };
            for how in 0..ways {
                may.extend(rests.iter().map(|&rest| Choice::Torn { write, how, rest }));
            }
        }
        may.extend((0..effort.sectors).map(Choice::Sectors));
        self.thin_out(&mut may, (effort.window as usize).saturating_sub(must.len()));
        must.extend(may);
        must
    }

    /// Keeps `most` of the choices, drawn at random, in their order.
    fn thin_out(&self, choices: &mut Vec<Choice>, most: usize) {
        if choices.len() <= most {
            return;
        }
        let rng = self.rng(5, 0);
        let (mut left, mut wanted) = (choices.len() as u64, most as u64);
        choices.retain(|_| {
            let keep = rng.below(left) < wanted;
            left -= 1;
            wanted -= u64::from(keep);
            keep
        });
    }

    /// Lays out the state `choice`.
    #[must_use]
    pub(crate) fn layout(&self, choice: Choice) -> Layout {
        match choice {
            Choice::Prefix(n) => self.layout_of(&mut |w, _| (w as u32) < n),
            Choice::Subset(bits) => self.layout_of(&mut |w, _| w < 64 && bits >> w & 1 != 0),
            Choice::Only(a) => self.layout_of(&mut |w, _| w as u32 == a),
            Choice::OnlyTwo(a, b) => self.layout_of(&mut |w, _| [a, b].contains(&(w as u32))),
            Choice::AllBut(a) => self.layout_of(&mut |w, _| w as u32 != a),
            Choice::AllButTwo(a, b) => self.layout_of(&mut |w, _| ![a, b].contains(&(w as u32))),
            Choice::Random(number) => {
                let some = self.some(self.rng(1, number.into()));
                self.layout_of(&mut |w, _| some.get(w) == Some(&true))
            }
            Choice::Torn { write, how, rest } => self.torn(write, how, rest),
            Choice::Sectors(number) => {
                let rng = self.rng(4, number.into());
                self.layout_of(&mut |_, _| rng.below(2) == 0)
            }
        }
    }

    /// A random half of the writes.
    fn some(&self, rng: SplitMix64) -> Vec<bool> {
        self.parts.iter().map(|_| rng.below(2) == 0).collect()
    }

    fn torn(&self, write: u32, how: u32, rest: Rest) -> Layout {
        let len = self.parts.get(write as usize).map_or(0, Vec::len) as u32;
        let number = u64::from(write) << 32 | u64::from(how);
        let others = match rest {
            Rest::None => vec![false; self.parts.len()],
            Rest::All => vec![true; self.parts.len()],
            Rest::Random => self.some(self.rng(2, number)),
        };
        let points = tear_points(len);
        let rng = self.rng(3, number);
        // If there are more points than can be tried, some are drawn.
        let at = |point: u32| {
            if len <= ALL_TEARS { point + 1 } else { 1 + rng.below(u64::from(len) - 1) as u32 }
        };
        let kept: Vec<bool> = if how < points {
            let point = at(how);
            (0..len).map(|s| s < point).collect()
        } else if how < 2 * points {
            let point = at(how - points);
            (0..len).map(|s| s >= point).collect()
        } else {
            (0..len).map(|_| rng.below(2) == 0).collect()
        };
        self.layout_of(&mut |w, s| {
            let keeps = if w as u32 == write { kept.get(s as usize) } else { others.get(w) };
            keeps == Some(&true)
        })
    }

    fn layout_of(&self, keeps: Keeps<'_>) -> Layout {
        let mut layout =
            Layout { seen: vec![None; self.slots.len()], crash: self.window.begin.into() };
        for (w, (part, write)) in self.parts.iter().zip(&self.window.writes).enumerate() {
            // Call `keeps` once for each sector: some states draw the answer.
            let kept: Vec<bool> = (0..part.len() as u32).map(|s| keeps(w, s)).collect();
            // A torn write had not ended, nor had anything that waited for it.
            let at = if kept.contains(&false) { write.at.min(self.window.end) } else { write.at };
            for ((s, &(slot, _)), keeps) in (0..).zip(part).zip(kept) {
                if keeps && let Some(seen) = layout.seen.get_mut(slot as usize) {
                    *seen = Some((w as u32, s));
                    layout.crash.seen = layout.crash.seen.max(at);
                    layout.crash.issued = layout.crash.issued.max(write.at);
                }
            }
        }
        layout
    }

    /// A hash of the state. Two states of the window have the same hash practically only if they
    /// have the same bytes.
    #[must_use]
    pub(crate) fn hash(&self, layout: &Layout) -> u64 {
        let differs = |(seen, base): (&Option<(u32, u32)>, &u64)| {
            let (w, s) = (*seen)?;
            let (_, content) = self.parts.get(w as usize)?.get(s as usize)?;
            (content != base).then_some(content ^ base)
        };
        layout.seen.iter().zip(&self.base).filter_map(differs).fold(0, |sum, part| sum ^ part)
    }

    /// Describes the part of a write that the state shows.
    #[must_use]
    pub(crate) fn kept(&self, layout: &Layout, write: usize) -> String {
        let all = self.parts.get(write).map_or(0, Vec::len);
        let seen = layout.seen.iter().flatten().filter(|(w, _)| *w as usize == write);
        let seen: Vec<String> = seen.map(|(_, sector)| sector.to_string()).collect();
        match seen.len() {
            0 => "not seen".to_owned(),
            n if n == all => "seen".to_owned(),
            _ => format!("of its sectors 0 to {} are seen: {}", all - 1, seen.join(" ")),
        }
    }

    /// Writes the state to `overlay`.
    pub(crate) fn apply_to(&self, layout: &Layout, overlay: &OverlayDevice) {
        for (seen, sector) in layout.seen.iter().zip(&self.slots) {
            let Some((w, s)) = *seen else { continue };
            let from = s as usize * SECTOR;
            let bytes = self.window.writes.get(w as usize);
            if let Some(bytes) = bytes.and_then(|write| write.bytes.get(from..from + SECTOR)) {
                overlay.write(u64::from(*sector) * SECTOR as u64, bytes);
            }
        }
    }

    /// The states to examine, each content once.
    #[must_use]
    pub(crate) fn distinct(&self, effort: Effort) -> Vec<(Choice, Layout)> {
        let mut known: HashSet<u64, FixedState> = HashSet::default();
        let layout = self.choices(effort).into_iter().map(|choice| (choice, self.layout(choice)));
        layout.filter(|(_, layout)| known.insert(self.hash(layout))).collect()
    }
}

/// Points at which a write of `sectors` sectors is torn.
fn tear_points(sectors: u32) -> u32 {
    sectors.saturating_sub(1).min(ALL_TEARS)
}

/// Ways to tear a write of `sectors` sectors.
fn ways(sectors: u32) -> u32 {
    let masks = if sectors > 2 { MASKS } else { 0 };
    2 * tear_points(sectors) + masks
}

#[cfg(test)]
mod tests;
