//! The maps of the groups: free fragments and inodes in use.
//!
//! References: `spec/on-disk-format.md` §5.

use super::super::history::{Allowed, Violation};
use super::super::image::ImageBytes;
use super::volume::Volume;

/// Most inodes of a block: 64 KiB of 128 bytes.
const MOST_INODES: usize = 512;

/// The numbers of a group, and the position of its maps among all maps.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    used: usize,
    free: usize,
    /// Initialised inodes; on UFS2 higher ones were never written.
    initialised: u32,
}

/// The first of the constant fields of a group's header that has a wrong value.
fn wrong_field(cg: &[u8], v: &Volume, number: u32) -> Option<usize> {
    let fragments = v.fragments(number) as u32;
    let (cpg, positions) = v.cylinders;
    let (totals, rotational) = if v.ufs2 { (0, 0) } else { (168, 168 + 4 * cpg) };
    let iused = if v.ufs2 { 168 } else { rotational + 2 * cpg * positions };
    let free = iused + v.ipg.div_ceil(8);
    let end = free + (v.fpg as u32).div_ceil(8);
    let clusters = v.contigsumsize > 0;
    let sums = end.next_multiple_of(4) - 4;
    let map = sums + 4 * (v.contigsumsize + 1);
    let maps_end = map + (v.fpg / v.frag).div_ceil(8) as u32;
    let with = |yes: bool, value: u32| if yes { value } else { 0 };
    let right = [
        (4, 0x0009_0255),
        (12, number),
        (20, fragments),
        (84, totals),
        (88, rotational),
        (92, iused),
        (96, free),
        (100, if clusters { maps_end } else { end }),
        (104, with(clusters, sums)),
        (108, with(clusters, map)),
        (112, with(clusters, fragments / v.frag as u32)),
        (116, with(v.ufs2, v.ipg)),
    ];
    right.into_iter().find(|&(at, value)| v.order.u32(cg, at) != value).map(|(at, _)| at)
}

/// The maps of all groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    maps: Vec<u8>,
    /// Fragments marked in use.
    pub(super) fragments_used: u64,
}

impl Groups {
    /// Reads all groups. Notes wrong counts as A7, and torn groups as A16.
    pub(super) fn read(
        &mut self,
        image: &dyn ImageBytes,
        v: &Volume,
        seen: &mut Allowed,
        wrong: &mut Vec<Violation>,
    ) {
        self.groups.clear();
        self.maps.clear();
        self.fragments_used = 0;
        let mut totals = [0u64; 4];
        for cg in 0..v.ncg {
            match image.read(v.header(cg), v.cgsize) {
                Some(bytes) => {
                    if let Some(field) = wrong_field(&bytes, v, cg) {
                        let what = format!("group {cg} has a wrong constant at byte {field}");
                        wrong.push(Violation::new("CG", what));
                    }
                    self.add(&bytes, v, cg, seen, &mut totals);
                }
                None => self.groups.push(Group::default()),
            }
        }
        if totals != v.totals {
            seen.saw(7);
        }
    }

    fn add(&mut self, cg: &[u8], v: &Volume, number: u32, seen: &mut Allowed, sum: &mut [u64; 4]) {
        let word = |at| v.order.u32(cg, at);
        let (iusedoff, freeoff) = (word(92) as usize, word(96) as usize);
        let group = Group {
            used: self.maps.len(),
            free: self.maps.len() + v.ipg.div_ceil(8) as usize,
            initialised: if v.ufs2 { word(120).min(v.ipg) } else { v.ipg },
        };
        self.groups.push(group);
        self.copy(cg, iusedoff, v.ipg.div_ceil(8) as usize);
        self.copy(cg, freeoff, v.fpg.div_ceil(8) as usize);
        let fragments = v.fragments(number);
        let free = self.count(group.free, fragments);
        let inodes = self.count(group.used, u64::from(v.ipg));
        self.fragments_used += fragments - free;
        let counts = [24, 28, 32, 36].map(|at| u64::from(word(at)));
        for (total, count) in sum.iter_mut().zip(counts) {
            *total += count;
        }
        let [_, nbfree, nifree, nffree] = counts;
        if nbfree * v.frag + nffree != free || nifree != u64::from(v.ipg) - inodes {
            seen.saw(7);
        }
        if v.cg_hashes && word(132) != ffs_ondisk::hash::check_hash(cg, 132) {
            seen.saw(16);
        }
    }

    /// Keeps `len` bytes of the group's block; bytes outside of it are zeros.
    fn copy(&mut self, cg: &[u8], from: usize, len: usize) {
        let end = self.maps.len() + len;
        self.maps.extend_from_slice(cg.get(from..from.saturating_add(len)).unwrap_or(&[]));
        self.maps.resize(end, 0);
    }

    /// Bits set among the first `bits` of the map at `at`.
    fn count(&self, at: usize, bits: u64) -> u64 {
        let whole = at + (bits / 8) as usize;
        let full = self.maps.get(at..whole).unwrap_or(&[]);
        let mut words = full.chunks_exact(8);
        let mut set = 0;
        for word in words.by_ref() {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            set += u64::from(u64::from_ne_bytes(bytes).count_ones());
        }
        set += words.remainder().iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        let rest = self.maps.get(whole).map_or(0, |byte| byte & ((1u16 << (bits % 8)) - 1) as u8);
        set + u64::from(rest.count_ones())
    }

    fn bit(&self, map: usize, bit: u64) -> bool {
        self.maps.get(map + (bit / 8) as usize).is_some_and(|byte| byte >> (bit % 8) & 1 != 0)
    }

    /// The bits of a block of inodes, the first of which is `first`.
    pub(super) fn inode_bits(&self, v: &Volume, first: u32) -> [u8; MOST_INODES / 8] {
        let mut bits = [0; MOST_INODES / 8];
        if let Some(group) = self.groups.get((first / v.ipg) as usize) {
            // A block has at least 16 inodes: its bits begin with a byte.
            let from = group.used + (first % v.ipg / 8) as usize;
            let to = from + (v.inopb / 8) as usize;
            for (bits, byte) in bits.iter_mut().zip(self.maps.get(from..to).unwrap_or(&[])) {
                *bits = *byte;
            }
        }
        bits
    }

    /// The number of initialised inodes of a group.
    pub(super) fn initialised(&self, cg: u32) -> u32 {
        self.groups.get(cg as usize).map_or(0, |group| group.initialised)
    }

    /// The first of `frags` fragments from `at` that is marked free.
    pub(super) fn first_free(&self, v: &Volume, at: u64, frags: u64) -> Option<u64> {
        let map = self.groups.get((at / v.fpg) as usize)?.free;
        (at..at + frags).find(|frag| self.bit(map, frag % v.fpg))
    }
}
