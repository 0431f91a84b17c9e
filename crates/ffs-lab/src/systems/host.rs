//! Calls on directories that each system has in another form.

pub(super) use system::{entries, fs_name, sync};

#[cfg(target_os = "linux")]
mod system {
    use std::ffi::CStr;
    use std::os::fd::OwnedFd;

    use rustix::fs::{FileType, RawDir};
    use rustix::io::Result;

    /// Bytes of a directory that are read at once, as in C libraries.
    const LIST_BUFFER: usize = 32 << 10;

    /// Calls a function with each entry, from the position of `dir` on.
    pub(crate) fn entries(dir: OwnedFd, each: &mut dyn FnMut(&CStr, FileType)) -> Result<()> {
        let mut buffer = Vec::with_capacity(LIST_BUFFER);
        let mut raw = RawDir::new(dir, buffer.spare_capacity_mut());
        while let Some(entry) = raw.next() {
            let entry = entry?;
            each(entry.file_name(), entry.file_type());
        }
        Ok(())
    }

    /// Makes the file system of `dir` durable.
    pub(crate) fn sync(dir: &OwnedFd) -> Result<()> {
        rustix::fs::syncfs(dir)
    }

    /// The name of the file system of `dir`, by its number.
    pub(crate) fn fs_name(dir: &OwnedFd) -> Result<&'static str> {
        Ok(match rustix::fs::fstatfs(dir)?.f_type as u64 {
            0xef53 => "ext4",
            0x5846_5342 => "xfs",
            0x9123_683e => "btrfs",
            0x0102_1994 => "tmpfs",
            0x6573_5546 => "fuse",
            0x794c_7630 => "overlay",
            0x0001_1954 => "ufs",
            0xf2f5_2010 => "f2fs",
            0x2fc1_2fc1 => "zfs",
            _ => "unknown",
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::ffi::CStr;
    use std::os::fd::OwnedFd;

    use rustix::fs::{Dir, FileType};
    use rustix::io::Result;

    /// Calls a function with each entry.
    pub(crate) fn entries(dir: OwnedFd, each: &mut dyn FnMut(&CStr, FileType)) -> Result<()> {
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            each(entry.file_name(), entry.file_type());
        }
        Ok(())
    }

    /// Makes all file systems durable: there is no call for one.
    pub(crate) fn sync(_: &OwnedFd) -> Result<()> {
        rustix::fs::sync();
        Ok(())
    }

    /// File systems have no number that is the same in each version of a system.
    pub(crate) fn fs_name(_: &OwnedFd) -> Result<&'static str> {
        Ok("unknown")
    }
}
