//! Statistics of the cache.

use super::BufKind;
use super::space::SpaceUse;
use crate::counters::Gauge;

/// Lookups and memory of one kind of block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Lookups that found a buffer header.
    pub tier1_hits: u64,
    /// Lookups that found pages only.
    pub tier2_hits: u64,
    /// Lookups that read the device.
    pub misses: u64,
    /// Blocks evicted for new ones.
    pub evictions: u64,
    /// Blocks with a header.
    pub tier1_blocks: u64,
    /// Memory of the blocks with a header, bytes, rounded up.
    pub tier1_bytes: u64,
    /// Blocks in pages only.
    pub tier2_blocks: u64,
    /// Memory of the blocks in pages only, bytes.
    pub tier2_bytes: u64,
}

/// Statistics of the cache at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Directory blocks.
    pub directories: ClassStats,
    /// File content and extended attributes.
    pub data: ClassStats,
    /// Blocks of inodes.
    pub inodes: ClassStats,
    /// Cylinder groups.
    pub groups: ClassStats,
    /// Indirect blocks.
    pub indirect: ClassStats,
    /// Buffer headers in use.
    pub headers: u64,
    /// Bytes of blocks with a header, without small private blocks.
    pub bufspace: u64,
    /// Bytes of small private blocks.
    pub bufmallocspace: u64,
    /// Bytes of pages.
    pub pagespace: u64,
    /// Bytes lost by rounding sizes up.
    pub waste: u64,
    /// Bytes of dirty blocks.
    pub dirtyspace: u64,
    /// Directories with a block in memory.
    pub resident_directories: u64,
}

impl CacheStats {
    pub(super) fn new(
        counts: &[ClassStats; BufKind::ALL.len()],
        space: &SpaceUse,
        dirty_bytes: usize,
        directories: usize,
    ) -> CacheStats {
        let class = |kind: BufKind| {
            let [tier1, tier2] = space.by_kind[kind as usize];
            ClassStats {
                tier1_blocks: tier1.blocks as u64,
                tier1_bytes: tier1.bytes as u64,
                tier2_blocks: tier2.blocks as u64,
                tier2_bytes: tier2.bytes as u64,
                ..counts[kind as usize]
            }
        };
        CacheStats {
            directories: class(BufKind::Directory),
            data: class(BufKind::Data),
            inodes: class(BufKind::Inodes),
            groups: class(BufKind::CylinderGroup),
            indirect: class(BufKind::Indirect),
            headers: space.headers as u64,
            bufspace: space.bufspace as u64,
            bufmallocspace: space.mallocspace as u64,
            pagespace: space.pages as u64,
            waste: space.waste as u64,
            dirtyspace: dirty_bytes as u64,
            resident_directories: directories as u64,
        }
    }

    /// The present numbers of blocks and bytes, under BSD's names; where BSD has no name, under
    /// `vfs.ffs.`*name*.
    #[must_use]
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut out = vec![
            Gauge::new("vfs.numbufs", self.headers, "Blocks with a buffer header."),
            Gauge::new("vfs.bufspace", self.bufspace, "Bytes of blocks with a buffer header."),
            Gauge::new(
                "vfs.bufmallocspace",
                self.bufmallocspace,
                "Bytes of small directory buffers.",
            ),
            Gauge::new("vfs.ffs.pagespace", self.pagespace, "Bytes of blocks in pages."),
            Gauge::new("vfs.ffs.pagewaste", self.waste, "Bytes lost by rounding blocks up."),
            Gauge::new("vfs.ffs.dirtyspace", self.dirtyspace, "Bytes of dirty blocks."),
            Gauge::new(
                "vfs.ffs.dirsresident",
                self.resident_directories,
                "Directories with a block in memory.",
            ),
        ];
        self.by_class(&mut out, |c, names| {
            [
                Gauge::new(names[4], c.tier1_bytes, "Bytes of such blocks with a buffer header."),
                Gauge::new(names[5], c.tier2_bytes, "Bytes of such blocks in pages only."),
            ]
        });
        out
    }

    /// Lookups and evictions since the mount, by class of block.
    #[must_use]
    pub fn counters(&self) -> Vec<Gauge> {
        let mut out = Vec::new();
        self.by_class(&mut out, |c, names| {
            [
                Gauge::new(names[0], c.tier1_hits, "Such blocks found with a buffer header."),
                Gauge::new(names[1], c.tier2_hits, "Such blocks found in pages."),
                Gauge::new(names[2], c.misses, "Such blocks read from the device."),
                Gauge::new(names[3], c.evictions, "Such blocks evicted for new ones."),
            ]
        });
        out
    }

    fn by_class<const N: usize>(
        &self,
        out: &mut Vec<Gauge>,
        each: impl Fn(&ClassStats, &[&'static str; 6]) -> [Gauge; N],
    ) {
        macro_rules! names {
            ($class:literal) => {
                &[
                    concat!("vfs.ffs.buf.", $class, ".tier1_hits"),
                    concat!("vfs.ffs.buf.", $class, ".tier2_hits"),
                    concat!("vfs.ffs.buf.", $class, ".misses"),
                    concat!("vfs.ffs.buf.", $class, ".evictions"),
                    concat!("vfs.ffs.buf.", $class, ".tier1_bytes"),
                    concat!("vfs.ffs.buf.", $class, ".tier2_bytes"),
                ]
            };
        }
        out.extend(each(&self.directories, names!("dir")));
        out.extend(each(&self.data, names!("data")));
        out.extend(each(&self.inodes, names!("inode")));
        out.extend(each(&self.groups, names!("cg")));
        out.extend(each(&self.indirect, names!("indir")));
    }
}
