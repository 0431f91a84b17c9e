//! Options of newfs, with BSD's letters and defaults (`spec/on-disk-format.md` §17.1).

use ffs_ondisk::{Endian, Format};

/// `MAXFRAG`: most fragments in a block.
pub(crate) const MAXFRAG: u32 = 8;
/// `MINBSIZE`, bytes.
pub(crate) const MINBSIZE: u32 = 4096;
/// `MAXBSIZE`, bytes.
pub(crate) const MAXBSIZE: u32 = 65536;
/// `MINFREE`: below this percentage newfs optimises for space.
pub const MINFREE: u32 = 8;
/// `FS_MAXCONTIG`: most entries of the cluster summary.
pub(crate) const FS_MAXCONTIG: u32 = 16;
/// Bytes of the label with its NUL, `MAXVOLLEN`.
pub const MAXVOLLEN: usize = 32;

/// The release of FreeBSD whose formulas apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Release {
    /// FreeBSD 4.5 to 4.11: UFS1 only, 16K/2K, 2 MiB cylinders, no `.snap`. Geometry and parameters
    /// are those of that release (`spec/on-disk-format.md` §17.2); the superblock has the current
    /// layout.
    Freebsd4,
    /// FreeBSD 10.4: 128 KiB transfers, no check hashes.
    Freebsd10,
    /// FreeBSD 14 and later: 1 MiB transfers, check hashes, directory depths.
    #[default]
    Current,
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

/// Options of newfs. `None`: BSD's formula determines the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewfsOptions {
    /// The release whose formulas apply.
    pub release: Release,
    /// Byte order of the volume.
    pub endian: Endian,
    /// `-O`: the format; by default UFS2, and UFS1 with [`Release::Freebsd4`].
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
    /// `-c`: most fragments in a group ([`Release::Freebsd4`]: cylinders in a group).
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
    /// `-J`: the device is a gjournal provider.
    pub gjournal: bool,
    /// `-j`: the volume must be able to have a soft-updates journal of the default size. newfs does
    /// not make it.
    pub journal: bool,
    /// `-l`: MAC labels per file.
    pub multilabel: bool,
    /// `-t`: discard freed blocks.
    pub trim: bool,
    /// `-n`: no `.snap` directory.
    pub no_snap: bool,
    /// `-S`: bytes of a sector, in place of the device's: a power of two from 512 to 65536, and not
    /// less than the device has.
    pub sector_size: Option<u32>,
    /// `-s`: bytes to use; by default the whole device.
    pub size: Option<u64>,
    /// `-r`: bytes at the end of the device to leave unused.
    pub reserved: u64,
    /// `-R`: fixed time and generation numbers, and every byte as FreeBSD's newfs leaves it, so
    /// that volumes can be compared.
    pub reproducible: bool,
    /// Leave holes of a sparse file where a structure is zero, and where free inodes would only get
    /// their generation numbers: they get them when they are allocated. Not with `reproducible`.
    pub keep_holes: bool,
    /// `-N`: compute the parameters without writing.
    pub dry_run: bool,
    /// `-E`: discard the device first.
    pub erase: bool,
    /// Group of `.snap`: "operator" on the target system.
    pub operator_gid: u32,
}

impl Default for NewfsOptions {
    fn default() -> Self {
        NewfsOptions {
            release: Release::Current,
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
            gjournal: false,
            journal: false,
            multilabel: false,
            trim: false,
            no_snap: false,
            sector_size: None,
            size: None,
            reserved: 0,
            reproducible: false,
            keep_holes: false,
            dry_run: false,
            erase: false,
            operator_gid: ffs_ondisk::GID_OPERATOR,
        }
    }
}

impl NewfsOptions {
    /// The format of the new volume.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format.unwrap_or(match self.release {
            Release::Freebsd4 => Format::Ufs1,
            _ => Format::Ufs2,
        })
    }

    /// Default block and fragment size.
    pub(crate) fn default_sizes(&self) -> (u32, u32) {
        match self.release {
            Release::Freebsd4 => (16384, 2048),
            Release::Freebsd10 | Release::Current => (32768, 4096),
        }
    }

    /// Fragments of data per inode by default (`NFPI`).
    pub(crate) fn frags_per_inode(&self) -> u32 {
        match self.release {
            Release::Freebsd4 => 4,
            Release::Freebsd10 | Release::Current => 2,
        }
    }
}

/// Why `label` is not a valid volume label; `None` if it is valid.
#[must_use]
pub fn label_problem(label: &str) -> Option<String> {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !label.chars().all(ok) {
        return Some(format!("{label:?}: a label has letters, digits, '-' and '_' only"));
    }
    (label.len() >= MAXVOLLEN)
        .then(|| format!("{label:?}: a label has at most {} characters", MAXVOLLEN - 1))
}
