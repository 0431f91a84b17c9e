//! Attributes of files and of volumes, with the names of `os.stat_result` and
//! `os.statvfs_result`.

use bsdffs::Metadata;
use ffs_core::{StatFs, Timespec};
use pyo3::prelude::*;

/// `ST_RDONLY` of statvfs(3).
const READ_ONLY: u64 = 1;

/// The attributes of a file.
#[pyclass(frozen, module = "ffs")]
pub(crate) struct Stat {
    found: Metadata,
}

impl Stat {
    pub(crate) fn new(found: Metadata) -> Stat {
        Stat { found }
    }
}

/// Nanoseconds since 1970. A damaged inode may have any number in the place of the nanoseconds.
fn nanoseconds(at: Timespec) -> i128 {
    i128::from(at.secs) * 1_000_000_000 + i128::from(at.nsec.clamp(0, 999_999_999))
}

/// Seconds since 1970.
fn seconds(at: Timespec) -> f64 {
    at.secs as f64 + f64::from(at.nsec.clamp(0, 999_999_999)) / 1e9
}

#[pymethods]
impl Stat {
    #[getter]
    fn st_mode(&self) -> u32 {
        self.found.mode()
    }

    #[getter]
    fn st_ino(&self) -> u64 {
        self.found.ino()
    }

    /// 0: a volume in an image has no device number.
    #[getter]
    fn st_dev(&self) -> u64 {
        0
    }

    #[getter]
    fn st_nlink(&self) -> u64 {
        self.found.nlink()
    }

    #[getter]
    fn st_uid(&self) -> u32 {
        self.found.uid()
    }

    #[getter]
    fn st_gid(&self) -> u32 {
        self.found.gid()
    }

    #[getter]
    fn st_size(&self) -> u64 {
        self.found.len()
    }

    #[getter]
    fn st_blocks(&self) -> u64 {
        self.found.blocks()
    }

    #[getter]
    fn st_blksize(&self) -> u32 {
        self.found.attr().blksize
    }

    #[getter]
    fn st_rdev(&self) -> u64 {
        self.found.rdev()
    }

    #[getter]
    fn st_flags(&self) -> u32 {
        self.found.flags().bits()
    }

    #[getter]
    fn st_gen(&self) -> u32 {
        self.found.attr().generation
    }

    #[getter]
    fn st_atime(&self) -> f64 {
        seconds(self.found.attr().atime)
    }

    #[getter]
    fn st_mtime(&self) -> f64 {
        seconds(self.found.attr().mtime)
    }

    #[getter]
    fn st_ctime(&self) -> f64 {
        seconds(self.found.attr().ctime)
    }

    #[getter]
    fn st_birthtime(&self) -> f64 {
        seconds(self.found.attr().birthtime)
    }

    #[getter]
    fn st_atime_ns(&self) -> i128 {
        nanoseconds(self.found.attr().atime)
    }

    #[getter]
    fn st_mtime_ns(&self) -> i128 {
        nanoseconds(self.found.attr().mtime)
    }

    #[getter]
    fn st_ctime_ns(&self) -> i128 {
        nanoseconds(self.found.attr().ctime)
    }

    #[getter]
    fn st_birthtime_ns(&self) -> i128 {
        nanoseconds(self.found.attr().birthtime)
    }

    /// The file flags by name, as `ls -lo` prints them: `schg,nodump`, or `-` for none.
    #[getter]
    fn flag_names(&self) -> String {
        bsdffs::flags::to_text(self.found.flags())
    }

    fn __repr__(&self) -> String {
        let (found, attr) = (&self.found, self.found.attr());
        format!(
            "ffs.Stat(st_mode={:#o}, st_ino={}, st_nlink={}, st_uid={}, st_gid={}, st_size={}, \
             st_mtime_ns={})",
            found.mode(),
            found.ino(),
            found.nlink(),
            found.uid(),
            found.gid(),
            found.len(),
            nanoseconds(attr.mtime),
        )
    }
}

/// Space and inodes of a volume.
#[pyclass(frozen, module = "ffs")]
pub(crate) struct StatVfs {
    found: StatFs,
    read_only: bool,
}

impl StatVfs {
    pub(crate) fn of(volume: &bsdffs::Volume) -> StatVfs {
        StatVfs { found: volume.statfs(), read_only: volume.fs().is_read_only() }
    }
}

#[pymethods]
impl StatVfs {
    #[getter]
    fn f_bsize(&self) -> u32 {
        self.found.bsize
    }

    #[getter]
    fn f_frsize(&self) -> u32 {
        self.found.fsize
    }

    #[getter]
    fn f_blocks(&self) -> u64 {
        self.found.frags
    }

    #[getter]
    fn f_bfree(&self) -> u64 {
        self.found.frags_free
    }

    /// Negative if the reserve is in use.
    #[getter]
    fn f_bavail(&self) -> i64 {
        self.found.frags_avail
    }

    #[getter]
    fn f_files(&self) -> u64 {
        self.found.inodes
    }

    #[getter]
    fn f_ffree(&self) -> u64 {
        self.found.inodes_free
    }

    #[getter]
    fn f_favail(&self) -> u64 {
        self.found.inodes_free
    }

    #[getter]
    fn f_flag(&self) -> u64 {
        if self.read_only { READ_ONLY } else { 0 }
    }

    #[getter]
    fn f_namemax(&self) -> u32 {
        self.found.name_max
    }

    #[getter]
    fn f_fsid(&self) -> u64 {
        self.found.id
    }

    fn __repr__(&self) -> String {
        let f = &self.found;
        format!(
            "ffs.StatVfs(f_bsize={}, f_frsize={}, f_blocks={}, f_bfree={}, f_bavail={}, \
             f_files={}, f_ffree={})",
            f.bsize, f.fsize, f.frags, f.frags_free, f.frags_avail, f.inodes, f.inodes_free,
        )
    }
}
