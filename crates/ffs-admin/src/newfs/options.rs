//! What newfs can be asked for, under BSD's letters, with BSD's defaults
//! (`spec/on-disk-format.md` §17.1).

use ffs_ondisk::{Endian, Format};

/// `MAXFRAG`: most fragments in a block.
pub(crate) const MAXFRAG: u32 = 8;
/// `MINBSIZE`, bytes.
pub(crate) const MINBSIZE: u32 = 4096;
/// `MAXBSIZE`, bytes.
pub(crate) const MAXBSIZE: u32 = 65536;
/// `MINFREE`: below this percentage space is optimised for.
pub const MINFREE: u32 = 8;
/// `FS_MAXCONTIG`: most entries of the cluster summary.
pub(crate) const FS_MAXCONTIG: u32 = 16;
/// Bytes of the label with its NUL, `MAXVOLLEN`.
pub const MAXVOLLEN: usize = 32;

/// Whose newfs is followed, where the formulas have changed over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Generation {
    /// FreeBSD 4.5 to 4.11, the paper's time: UFS1 only, 16K/2K, 2 MiB cylinders, no `.snap`. The
    /// geometry and the parameters are of that age (`spec/on-disk-format.md` §17.2); the superblock
    /// is written in today's layout.
    Freebsd4,
    /// FreeBSD 10.4: 128 KiB transfers, no check hashes.
    Freebsd10,
    /// FreeBSD 14 and later: 1 MiB transfers, check hashes, directory depths.
    #[default]
    Today,
}

/// What the allocator minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Optim {
    /// Time spent.
    #[default]
    Time,
    /// Space lost to fragmentation.
    Space,
}

impl Optim {
    /// The value of `fs_optim`.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Optim::Time => 0,
            Optim::Space => 1,
        }
    }
}

/// Everything newfs can be told. `None` means: by BSD's formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewfsOptions {
    /// Whose formulas.
    pub generation: Generation,
    /// Byte order of the volume.
    pub endian: Endian,
    /// `-O`: the format; by default UFS2, and UFS1 with [`Generation::Freebsd4`].
    pub format: Option<Format>,
    /// `-b`: block size, bytes.
    pub bsize: Option<u32>,
    /// `-f`: fragment size, bytes.
    pub fsize: Option<u32>,
    /// `-i`: data bytes per inode.
    pub density: Option<u32>,
    /// `-m`: percent of the data kept for root.
    pub minfree: u32,
    /// `-o`: what to optimise; by default time, and space if `minfree` is below 8.
    pub optim: Option<Optim>,
    /// `-a`: most blocks in one transfer.
    pub maxcontig: Option<u32>,
    /// `-e`: most blocks one file takes from a group before it moves on.
    pub maxbpg: Option<u32>,
    /// `-d`: largest extent, bytes.
    pub max_extent: Option<u32>,
    /// `-c`: most fragments in a group ([`Generation::Freebsd4`]: cylinders in a group).
    pub max_group: Option<u32>,
    /// `-g`: expected average file size, bytes.
    pub avgfilesize: u32,
    /// `-h`: expected files per directory.
    pub avgfpdir: u32,
    /// `-k`: fragments at the head of each group kept for metadata; 0 for none.
    pub metaspace: Option<u32>,
    /// `-L`: the volume's label.
    pub label: Option<String>,
    /// `-U`: soft updates.
    pub soft_updates: bool,
    /// `-j`: soft-updates journal. Refused: no journal can be made yet.
    pub journal: bool,
    /// `-J`: the device is a gjournal provider.
    pub gjournal: bool,
    /// `-l`: MAC labels per file.
    pub multilabel: bool,
    /// `-t`: discard freed blocks.
    pub trim: bool,
    /// `-n`: no `.snap` directory.
    pub no_snap: bool,
    /// `-s`: bytes to use; by default the whole device.
    pub size: Option<u64>,
    /// `-r`: bytes at the end of the device to leave alone.
    pub reserved: u64,
    /// `-R`: fixed time and numbers, and every byte as FreeBSD's newfs leaves it, so that two runs, and a
    /// run of either, can be compared.
    pub reproducible: bool,
    /// `-N`: only say what would be made.
    pub dry_run: bool,
    /// `-E`: tell the device first that nothing it holds is of value.
    pub erase: bool,
    /// Group of `.snap`: "operator" on the target system.
    pub operator_gid: u32,
}

impl Default for NewfsOptions {
    fn default() -> Self {
        NewfsOptions {
            generation: Generation::Today,
            endian: Endian::Little,
            format: None,
            bsize: None,
            fsize: None,
            density: None,
            minfree: MINFREE,
            optim: None,
            maxcontig: None,
            maxbpg: None,
            max_extent: None,
            max_group: None,
            avgfilesize: 16384,
            avgfpdir: 64,
            metaspace: None,
            label: None,
            soft_updates: false,
            journal: false,
            gjournal: false,
            multilabel: false,
            trim: false,
            no_snap: false,
            size: None,
            reserved: 0,
            reproducible: false,
            dry_run: false,
            erase: false,
            operator_gid: 5,
        }
    }
}

impl NewfsOptions {
    /// The format that will be made.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format.unwrap_or(match self.generation {
            Generation::Freebsd4 => Format::Ufs1,
            _ => Format::Ufs2,
        })
    }

    /// Block and fragment size when the user gives none.
    pub(crate) fn default_sizes(&self) -> (u32, u32) {
        match self.generation {
            Generation::Freebsd4 => (16384, 2048),
            Generation::Freebsd10 | Generation::Today => (32768, 4096),
        }
    }

    /// Fragments of data per inode by default (`NFPI`).
    pub(crate) fn frags_per_inode(&self) -> u32 {
        match self.generation {
            Generation::Freebsd4 => 4,
            Generation::Freebsd10 | Generation::Today => 2,
        }
    }
}

/// Why `label` cannot be a volume label, if it cannot.
#[must_use]
pub fn label_problem(label: &str) -> Option<String> {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !label.chars().all(ok) {
        return Some(format!("{label:?}: a label has letters, digits, '-' and '_' only"));
    }
    (label.len() >= MAXVOLLEN)
        .then(|| format!("{label:?}: a label has at most {} characters", MAXVOLLEN - 1))
}
