//! Attributes of files, as [`std::fs::Metadata`] has them.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ffs_core::{Attr, DeviceNumber, FileFlags, FileType, Timespec};

/// Attributes of a file.
#[derive(Clone, Debug)]
pub struct Metadata(pub(crate) Attr);

/// Permission bits of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions(u16);

impl Permissions {
    /// From the low 12 bits of a mode: permissions, set-id bits, sticky bit.
    #[must_use]
    pub fn from_mode(mode: u32) -> Permissions {
        Permissions((mode & 0o7777) as u16)
    }

    /// The low 12 bits of the mode.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.0.into()
    }

    /// Whether no user has write permission.
    #[must_use]
    pub fn readonly(&self) -> bool {
        self.0 & 0o222 == 0
    }
}

impl Metadata {
    /// The type.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.0.kind
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.0.kind == FileType::Directory
    }

    /// Whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.0.kind == FileType::Regular
    }

    /// Whether it is a symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.0.kind == FileType::Symlink
    }

    /// Size, bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.size
    }

    /// Whether the size is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.size == 0
    }

    /// Permission bits.
    #[must_use]
    pub fn permissions(&self) -> Permissions {
        Permissions(self.0.perm)
    }

    /// Type and permission bits, as in `st_mode` of stat(2).
    #[must_use]
    pub fn mode(&self) -> u32 {
        // The same numbers on every system, in which their Rust type differs.
        let kind = match self.0.kind {
            FileType::Fifo => 0o010_000,
            FileType::Char => 0o020_000,
            FileType::Directory => 0o040_000,
            FileType::Block => 0o060_000,
            FileType::Regular => 0o100_000,
            FileType::Symlink => 0o120_000,
            FileType::Socket => 0o140_000,
        };
        kind | u32::from(self.0.perm)
    }

    /// The number of a device file in the encoding of Linux; 0 for other files.
    #[must_use]
    pub fn rdev(&self) -> u64 {
        DeviceNumber::from_disk(self.0.rdev).to_linux()
    }

    /// Modification time.
    ///
    /// # Errors
    /// The time is beyond what [`SystemTime`] represents.
    pub fn modified(&self) -> io::Result<SystemTime> {
        system_time(self.0.mtime)
    }

    /// Access time.
    ///
    /// # Errors
    /// As [`Metadata::modified`].
    pub fn accessed(&self) -> io::Result<SystemTime> {
        system_time(self.0.atime)
    }

    /// Inode change time.
    ///
    /// # Errors
    /// As [`Metadata::modified`].
    pub fn changed(&self) -> io::Result<SystemTime> {
        system_time(self.0.ctime)
    }

    /// Creation time; on UFS1, which stores none, the inode change time.
    ///
    /// # Errors
    /// As [`Metadata::modified`].
    pub fn created(&self) -> io::Result<SystemTime> {
        system_time(self.0.birthtime)
    }

    /// Inode number.
    #[must_use]
    pub fn ino(&self) -> u64 {
        self.0.ino.0.into()
    }

    /// Number of hard links.
    #[must_use]
    pub fn nlink(&self) -> u64 {
        self.0.nlink.into()
    }

    /// Owner.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.0.uid
    }

    /// Group.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.0.gid
    }

    /// Space that the file occupies, in units of 512 bytes.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.0.blocks
    }

    /// File flags, as `chflags` sets them.
    #[must_use]
    pub fn flags(&self) -> FileFlags {
        self.0.flags
    }

    /// All attributes, as the core has them.
    #[must_use]
    pub fn attr(&self) -> &Attr {
        &self.0
    }
}

fn system_time(at: Timespec) -> io::Result<SystemTime> {
    let nanos = Duration::from_nanos(u64::try_from(at.nsec).unwrap_or(0).min(999_999_999));
    let secs = Duration::from_secs(at.secs.unsigned_abs());
    let whole =
        if at.secs < 0 { UNIX_EPOCH.checked_sub(secs) } else { UNIX_EPOCH.checked_add(secs) };
    whole.and_then(|time| time.checked_add(nanos)).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("time {} s is out of range", at.secs))
    })
}

/// The time of an inode for `time`, to the nanosecond.
///
/// # Errors
/// `time` is more than 2^63 seconds from 1970.
pub(crate) fn timespec(time: SystemTime) -> io::Result<Timespec> {
    let wide = |_| io::Error::new(io::ErrorKind::InvalidInput, "the time is out of range");
    let (secs, nsec) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).map_err(wide)?, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let secs = -i64::try_from(before.as_secs()).map_err(wide)?;
            // The nanoseconds count forward from the second before.
            match before.subsec_nanos() {
                0 => (secs, 0),
                nanos => (secs - 1, 1_000_000_000 - nanos),
            }
        }
    };
    Ok(Timespec { secs, nsec: nsec.cast_signed() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn times_before_and_after_1970_keep_their_nanoseconds() {
        for (secs, nsec) in [(0, 0), (5, 7), (-1, 999_999_999), (-1, 0), (1_800_000_000, 1)] {
            let at = Timespec { secs, nsec };
            let back = timespec(system_time(at).unwrap()).unwrap();
            assert_eq!((back.secs, back.nsec), (secs, nsec));
        }
        // A damaged inode.
        assert_eq!(
            system_time(Timespec { secs: 1, nsec: -5 }).unwrap(),
            UNIX_EPOCH + Duration::from_secs(1)
        );
    }

    #[test]
    fn permissions_are_twelve_bits() {
        assert_eq!(Permissions::from_mode(0o100_644).mode(), 0o644);
        assert!(Permissions::from_mode(0o555).readonly());
        assert!(!Permissions::from_mode(0o575).readonly());
    }
}
