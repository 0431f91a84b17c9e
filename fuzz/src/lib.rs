//! What a fuzzer plays with: a prepared volume, damages, operations.
//!
//! **Purpose.** Bytes fed in as a whole image never pass the superblock check. So an input names
//! one of the prepared volumes ([`base`]), damages at places that mean something ([`patch`]),
//! whether check hashes are put right afterwards, and operations ([`work`]). [`targets`] holds what
//! is done with it.
//!
//! **Invariants.**
//! 1. Every sequence of bytes is an input; a record has [`RECORD`] bytes and stands for itself, so
//!    that what the fuzzer cuts out, doubles or moves keeps its meaning.
//! 2. The same bytes do the same in every run: time and random numbers are fixed.
//!
//! References: spec/known-failures.md §3.

pub mod base;
pub mod disks;
pub mod extra;
pub mod mutate;
pub mod parsers;
pub mod patch;
pub mod targets;
pub mod walk;
pub mod work;

use ffs_device::MemDevice;

/// Bytes of a damage or an operation.
pub const RECORD: usize = 8;
/// Most damages of an input.
const MAX_PATCHES: usize = 16;
/// Most operations of an input.
const MAX_STEPS: usize = 64;

/// One input.
#[derive(Debug)]
pub struct Input<'a> {
    /// Which prepared volume.
    pub base: u8,
    /// Bit 0: leave the check hashes wrong. The others choose how the volume is used.
    pub flags: u8,
    /// The damages.
    pub patches: Vec<patch::Patch>,
    /// What is done with the volume.
    pub steps: Vec<work::Step>,
    /// What follows the first record of kind 255: raw bytes, and where they go.
    pub raw: Option<(patch::Patch, &'a [u8])>,
}

impl<'a> Input<'a> {
    /// Reads an input.
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
        if self.flags & 1 == 0 {
            for p in &self.patches {
                p.rehash(&dev, base);
            }
        }
        dev
    }
}
