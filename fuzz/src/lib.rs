//! What a fuzzer plays with: a good image, a list of damages, a list of operations.
//!
//! Bytes fed in as a whole image never pass the superblock check. So the input names one of a few prepared images,
//! patches at places that mean something, and whether check hashes are put right afterwards.

pub mod base;
pub mod patch;
pub mod work;

use arbitrary::Arbitrary;

/// One input.
#[derive(Arbitrary, Debug)]
pub struct Input {
    /// Which prepared image.
    pub base: u8,
    /// Whether hashes are recomputed after the damage, so that it is not found by them.
    pub rehash: bool,
    /// The damages.
    pub patches: Vec<patch::Patch>,
    /// What is done with the volume.
    pub steps: Vec<work::Step>,
}

impl Input {
    /// The damaged image.
    pub fn image(&self) -> ffs_device::MemDevice {
        let (mut bytes, geo) = base::image(self.base);
        for p in self.patches.iter().take(16) {
            p.apply(&mut bytes, &geo);
        }
        if self.rehash {
            patch::rehash(&mut bytes, &geo);
        }
        ffs_device::MemDevice::from_bytes(&bytes)
    }
}
