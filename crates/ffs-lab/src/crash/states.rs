//! What a power cut may leave of a window: which states there are, by name, and which are looked at.
//!
//! A state keeps some sectors of some writes of the window; of the writes that it keeps of one sector
//! the last one issued is seen. Every way to choose has a short name, so that one state can be asked
//! for again:
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
//! 2. Two states of one window that differ in no byte are looked at once.
//!
//! Reference: `spec/fsck-and-crash.md` §11.2.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use ffs_device::{Rng, SplitMix64};
use foldhash::fast::FixedState;

use super::history::CrashPoint;
use super::overlay::{OverlayDevice, sector_hash};
use super::record::{Window, Write};
use super::tag::SECTOR;

/// Most writes of a window of which every subset is looked at.
pub const ALL_SUBSETS: usize = 12;
/// Most writes of a window of which every pair is left out, and kept alone.
const ALL_PAIRS: usize = 64;
/// Most sectors of a write that is torn between every two of them.
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
    /// So many writes, from the first.
    Prefix(u32),
    /// The writes of these bits.
    Subset(u64),
    /// This write.
    Only(u32),
    /// These two writes.
    OnlyTwo(u32, u32),
    /// All but this write.
    AllBut(u32),
    /// All but these two.
    AllButTwo(u32, u32),
    /// A random half of the writes.
    Random(u32),
    /// One write torn.
    Torn {
        /// The write.
        write: u32,
        /// In which way: the cuts, the cuts the other way round, the random masks.
        how: u32,
        /// The others.
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

/// How many states are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Random subsets of a window with more than [`ALL_SUBSETS`] writes.
    pub subsets: u32,
    /// Random subsets of a window's sectors.
    pub sectors: u32,
    /// Most states of a window; those beyond are left out at random, prefixes never.
    pub window: u32,
}

/// A window over its base, ready to be layout out state by state.
pub struct WindowStates<'a> {
    window: &'a Window,
    seed: u64,
    /// The sectors that the window writes, ascending.
    slots: Vec<u32>,
    /// What the base holds there, as a number.
    base: Vec<u64>,
    /// For each write, for each of its sectors: which slot, and its content as a number.
    parts: Vec<Vec<(u32, u64)>>,
}

/// A state layout out: for each slot nothing, or one more than the write and the sector of the write that
/// is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    seen: Vec<Option<(u32, u32)>>,
    /// Events of the log the device must have seen at least.
    pub crash: CrashPoint,
}

/// Whether write `w` keeps its sector `s`.
type Keeps<'a> = &'a mut dyn FnMut(usize, u32) -> bool;

fn sectors(write: &Write) -> u32 {
    // A write is far below 2 TiB.
    (write.bytes.len() / SECTOR) as u32
}

impl<'a> WindowStates<'a> {
    /// `window` over what `overlay` has as its base.
    #[must_use]
    pub fn new(window: &'a Window, overlay: &OverlayDevice, seed: u64) -> WindowStates<'a> {
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

    /// Whether the window has the writes that the choice is about.
    #[must_use]
    pub fn has(&self, choice: Choice) -> bool {
        let n = self.window.writes.len() as u32;
        match choice {
            Choice::Prefix(k) => k <= n,
            Choice::Subset(bits) => n >= 64 || bits >> n == 0,
            Choice::Only(a) | Choice::AllBut(a) | Choice::Torn { write: a, .. } => a < n,
            Choice::OnlyTwo(a, b) | Choice::AllButTwo(a, b) => a < n && b < n,
            Choice::Random(_) | Choice::Sectors(_) => n > 0,
        }
    }

    /// The states to look at, prefixes first.
    #[must_use]
    pub fn choices(&self, effort: Effort) -> Vec<Choice> {
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

    /// Leaves `most` of them, chosen at random, in their order.
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

    /// Lays the state out.
    #[must_use]
    pub fn layout(&self, choice: Choice) -> Layout {
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
        // Where there are too many places to cut, some are drawn.
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
            // Asked once: of some states the answer is drawn.
            let kept: Vec<bool> = (0..part.len() as u32).map(|s| keeps(w, s)).collect();
            // A torn write was not over, nor was anything that waited for it.
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

    /// A number that two states of the window share if, and practically only if, they are the same bytes.
    #[must_use]
    pub fn hash(&self, layout: &Layout) -> u64 {
        let differs = |(seen, base): (&Option<(u32, u32)>, &u64)| {
            let (w, s) = (*seen)?;
            let (_, content) = self.parts.get(w as usize)?.get(s as usize)?;
            (content != base).then_some(content ^ base)
        };
        layout.seen.iter().zip(&self.base).filter_map(differs).fold(0, |sum, part| sum ^ part)
    }

    /// What the state shows of a write, in words.
    #[must_use]
    pub fn kept(&self, layout: &Layout, write: usize) -> String {
        let all = self.parts.get(write).map_or(0, Vec::len);
        let seen = layout.seen.iter().flatten().filter(|(w, _)| *w as usize == write);
        let seen: Vec<String> = seen.map(|(_, sector)| sector.to_string()).collect();
        match seen.len() {
            0 => "not seen".to_owned(),
            n if n == all => "seen".to_owned(),
            _ => format!("of its sectors 0 to {} are seen: {}", all - 1, seen.join(" ")),
        }
    }

    /// Paints the state on the overlay.
    pub fn apply_to(&self, layout: &Layout, overlay: &OverlayDevice) {
        for (seen, sector) in layout.seen.iter().zip(&self.slots) {
            let Some((w, s)) = *seen else { continue };
            let from = s as usize * SECTOR;
            let bytes = self.window.writes.get(w as usize);
            if let Some(bytes) = bytes.and_then(|write| write.bytes.get(from..from + SECTOR)) {
                overlay.write(u64::from(*sector) * SECTOR as u64, bytes);
            }
        }
    }

    /// The states to look at, each content once.
    #[must_use]
    pub fn distinct(&self, effort: Effort) -> Vec<(Choice, Layout)> {
        let mut known: HashSet<u64, FixedState> = HashSet::default();
        let layout = self.choices(effort).into_iter().map(|choice| (choice, self.layout(choice)));
        layout.filter(|(_, layout)| known.insert(self.hash(layout))).collect()
    }
}

/// Places to cut a write of so many sectors in two.
fn tear_points(sectors: u32) -> u32 {
    sectors.saturating_sub(1).min(ALL_TEARS)
}

/// Ways to tear it.
fn ways(sectors: u32) -> u32 {
    let masks = if sectors > 2 { MASKS } else { 0 };
    2 * tear_points(sectors) + masks
}

#[cfg(test)]
mod tests;
