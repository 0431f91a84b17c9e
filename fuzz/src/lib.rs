//! Fuzzing inputs: a prepared volume, damages, operations.
//!
//! **Purpose.** Random bytes as a whole image never pass the superblock check. So an input selects
//! one of the prepared volumes ([`base`]), damages to relevant fields ([`patch`]), whether check
//! hashes are corrected afterwards, and operations ([`work`]). [`targets`] has the fuzz targets.
//! Inputs of damaged dumps and of disk images have other forms: see [`dumps`], [`containers`].
//!
//! **Invariants.**
//! 1. Every sequence of bytes is an input. A record has [`RECORD`] bytes and is self-contained, so
//!    that the fuzzer can remove, duplicate and move records.
//! 2. The same bytes have the same effect in every run: time and random numbers are fixed.
//!
//! References: spec/known-failures.md §3.

pub mod archives;
pub mod base;
pub mod containers;
#[allow(dead_code, reason = "the tests of other crates use the rest")]
#[path = "../../crates/ffs-testkit/shared/variants.rs"]
mod convert;
pub mod disks;
pub mod dumps;
#[path = "../../crates/ffs-testkit/shared/edit.rs"]
mod edit;
pub mod extra;
mod hostile;
pub mod mutate;
#[allow(dead_code, reason = "the command uses the rest")]
#[path = "../../crates/ffs-cli/src/parse/mod.rs"]
mod parse;
pub mod parsers;
pub mod patch;
mod streams;
pub mod targets;
mod texts;
mod variants;
pub mod walk;
mod words;
pub mod work;

use ffs_device::MemDevice;

/// Size of a damage or an operation, bytes.
pub const RECORD: usize = 8;
/// Most damages of an input.
const MAX_PATCHES: usize = 16;
/// Most operations of an input.
const MAX_STEPS: usize = 64;

/// One input.
#[derive(Debug)]
pub struct Input<'a> {
    /// The number of the prepared volume.
    pub base: u8,
    /// Bit 0: leave the check hashes wrong. The other bits select how the volume is used.
    pub flags: u8,
    /// The damages.
    pub patches: Vec<patch::Patch>,
    /// The operations on the volume.
    pub steps: Vec<work::Step>,
    /// The first record of kind 255, and the raw bytes after it.
    pub raw: Option<(patch::Patch, &'a [u8])>,
}

impl<'a> Input<'a> {
    /// Decodes an input.
    #[must_use]
    pub fn of(data: &'a [u8]) -> Input<'a> {
        let byte = |n: usize| data.get(n).copied().unwrap_or(0);
        let mut input = Input {
            base: byte(0),
            flags: byte(1),
            patches: Vec::new(),
            steps: Vec::new(),
            raw: None,
        };
        let mut rest = data.get(2..).unwrap_or(&[]);
        while let Some((record, more)) = rest.split_first_chunk::<RECORD>() {
            rest = more;
            match record[0] {
                255 => {
                    input.raw = Some((patch::Patch::of(record), rest));
                    break;
                }
                kind if kind % 2 == 0 && input.patches.len() < MAX_PATCHES => {
                    input.patches.push(patch::Patch::of(record));
                }
                kind if kind % 2 == 1 && input.steps.len() < MAX_STEPS => {
                    input.steps.push(work::Step::of(record));
                }
                _ => {}
            }
        }
        input
    }

    /// The damaged volume.
    #[must_use]
    pub fn image(&self) -> MemDevice {
        let base = base::base(self.base);
        let dev = base.dev.snapshot();
        for p in &self.patches {
            p.apply(&dev, base);
        }
        if let Some((place, bytes)) = &self.raw {
            place.write_raw(&dev, base, bytes);
        }
        if self.flags & 1 == 0 && !base.foreign {
            for p in &self.patches {
                p.rehash(&dev, base);
            }
        }
        dev
    }
}
