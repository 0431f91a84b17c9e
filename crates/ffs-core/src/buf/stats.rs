//! What the cache tells about itself.

use super::BufKind;
use super::tiers::Use;
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
    /// Blocks dropped to make room.
    pub evictions: u64,
    /// Blocks with a header.
    pub tier1_blocks: u64,
    /// Their bytes, rounded as they are accounted.
    pub tier1_bytes: u64,
    /// Blocks in pages only.
    pub tier2_blocks: u64,
    /// Their bytes, in whole pages.
    pub tier2_bytes: u64,
}

/// The cache at one moment.
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
    /// Bytes of blocks with a header, but for small private ones.
    pub bufspace: u64,
    /// Bytes of small private blocks.
    pub bufmallocspace: u64,
    /// Bytes of pages.
    pub pagespace: u64,
    /// Bytes lost by rounding sizes up.
    pub waste: u64,
    /// Bytes that wait to be written.
    pub dirtyspace: u64,
    /// Directories with a block in memory.
    pub resident_directories: u64,
}

impl CacheStats {
    pub(super) fn new(
        counts: &[ClassStats; BufKind::ALL.len()],
        u: &Use,
        dirty: usize,
    ) -> CacheStats {
        let class = |kind: BufKind| {
            let [(blocks1, bytes1), (blocks2, bytes2)] = u.by_kind[kind as usize];
            ClassStats {
                tier1_blocks: blocks1 as u64,
                tier1_bytes: bytes1 as u64,
                tier2_blocks: blocks2 as u64,
                tier2_bytes: bytes2 as u64,
                ..counts[kind as usize]
            }
        };
        CacheStats {
            directories: class(BufKind::Directory),
            data: class(BufKind::Data),
            inodes: class(BufKind::Inodes),
            groups: class(BufKind::CylinderGroup),
            indirect: class(BufKind::Indirect),
            headers: u.headers as u64,
            bufspace: u.bufspace as u64,
            bufmallocspace: u.mallocspace as u64,
            pagespace: u.pages as u64,
            waste: u.waste as u64,
            dirtyspace: dirty as u64,
            resident_directories: u.directories as u64,
        }
    }

    /// The same under BSD's names, and names of the same kind where BSD has none.
    #[must_use]
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut out = vec![
            gauge("vfs.numbufs", self.headers, "Blocks with a buffer header."),
            gauge("vfs.bufspace", self.bufspace, "Bytes of blocks with a buffer header."),
            gauge("vfs.bufmallocspace", self.bufmallocspace, "Bytes of small directory buffers."),
            gauge("vfs.ffs.pagespace", self.pagespace, "Bytes of blocks in pages."),
            gauge("vfs.ffs.pagewaste", self.waste, "Bytes lost by rounding blocks up."),
            gauge("vfs.numdirtybytes", self.dirtyspace, "Bytes that wait to be written."),
            gauge(
                "vfs.ffs.dirsresident",
                self.resident_directories,
                "Directories with a block in memory.",
            ),
        ];
        macro_rules! class {
            ($($stats:expr, $name:literal, $what:literal;)*) => { $(
                let c = $stats;
                class!(out, c, $name, $what, tier1_hits "tier1_hits" " found with a buffer header.");
                class!(out, c, $name, $what, tier2_hits "tier2_hits" " found in pages.");
                class!(out, c, $name, $what, misses "misses" " read from the device.");
                class!(out, c, $name, $what, evictions "evictions" " dropped to make room.");
                class!(out, c, $name, $what, tier1_bytes "tier1_bytes" ": bytes with a buffer header.");
                class!(out, c, $name, $what, tier2_bytes "tier2_bytes" ": bytes in pages only.");
            )* };
            ($out:ident, $c:ident, $name:literal, $what:literal, $f:ident $s:literal $m:literal) => {
                $out.push(gauge(concat!("vfs.ffs.buf.", $name, ".", $s), $c.$f, concat!($what, $m)))
            };
        }
        class! {
            &self.directories, "dir", "Directory blocks";
            &self.data, "data", "File blocks";
            &self.inodes, "inode", "Inode blocks";
            &self.groups, "cg", "Cylinder groups";
            &self.indirect, "indir", "Indirect blocks";
        }
        out
    }
}

fn gauge(name: &'static str, value: u64, meaning: &'static str) -> Gauge {
    Gauge { name, value, meaning }
}
