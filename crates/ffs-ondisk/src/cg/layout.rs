//! Where the maps of a group are in its block (`spec/on-disk-format.md` §5, §5.3).
//!
//! # Invariants
//! 1. All offsets follow from the geometry. Stored offsets are only compared with them.

use super::CG_HEADER;
use crate::geometry::{Format, Geometry};

/// Byte offset of the free-fragment map in a group of 4.2BSD.
const OLD_FREEOFF: u32 = 984;

/// Byte offsets of the maps in a group's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgLayout {
    /// UFS1 block totals; 0 on UFS2.
    pub btotoff: u32,
    /// UFS1 rotational positions; 0 on UFS2.
    pub boff: u32,
    /// Used-inode map.
    pub iusedoff: u32,
    /// Free-fragment map.
    pub freeoff: u32,
    /// Cluster summary; 0 without clusters.
    pub clustersumoff: u32,
    /// Free-cluster map; 0 without clusters.
    pub clusteroff: u32,
    /// End of the maps.
    pub nextfreeoff: u32,
}

impl CgLayout {
    /// The layout that `spec/on-disk-format.md` §5 prescribes for a volume.
    #[must_use]
    pub fn of(g: &Geometry) -> CgLayout {
        if g.old_groups {
            return CgLayout::of_42bsd(g);
        }
        let (btotoff, boff, iusedoff) = match g.format {
            Format::Ufs2 => (0, 0, CG_HEADER as u32),
            Format::Ufs1 => {
                let btot = CG_HEADER as u32;
                let b = btot + 4 * g.old_cpg;
                (btot, b, b + 2 * g.old_cpg * g.old_nrpos)
            }
        };
        let freeoff = iusedoff + g.ipg.div_ceil(8);
        let mapend = freeoff + g.fpg.div_ceil(8);
        if g.contigsumsize == 0 {
            return CgLayout {
                btotoff,
                boff,
                iusedoff,
                freeoff,
                clustersumoff: 0,
                clusteroff: 0,
                nextfreeoff: mapend,
            };
        }
        let clustersumoff = mapend.next_multiple_of(4) - 4;
        let clusteroff = clustersumoff + (g.contigsumsize + 1) * 4;
        let nextfreeoff = clusteroff + g.blocks_per_group().div_ceil(8);
        CgLayout { btotoff, boff, iusedoff, freeoff, clustersumoff, clusteroff, nextfreeoff }
    }

    /// The layout of 4.2BSD, in which only the length of the last map differs between volumes
    /// (`spec/on-disk-format.md` §5.3).
    fn of_42bsd(g: &Geometry) -> CgLayout {
        CgLayout {
            btotoff: 84,
            boff: 212,
            iusedoff: 724,
            freeoff: OLD_FREEOFF,
            clustersumoff: 0,
            clusteroff: 0,
            nextfreeoff: OLD_FREEOFF + g.fpg.div_ceil(8),
        }
    }
}
