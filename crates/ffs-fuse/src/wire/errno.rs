//! Linux error numbers in replies.

/// A Linux error number, positive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const PERM: Errno = Errno(libc::EPERM);
    pub(crate) const IO: Errno = Errno(libc::EIO);
    pub(crate) const EXIST: Errno = Errno(libc::EEXIST);
    pub(crate) const NOTTY: Errno = Errno(libc::ENOTTY);
    pub(crate) const INVAL: Errno = Errno(libc::EINVAL);
    pub(crate) const NOSPC: Errno = Errno(libc::ENOSPC);
    pub(crate) const DQUOT: Errno = Errno(libc::EDQUOT);
    pub(crate) const RANGE: Errno = Errno(libc::ERANGE);
    pub(crate) const NAMETOOLONG: Errno = Errno(libc::ENAMETOOLONG);
    pub(crate) const NOSYS: Errno = Errno(libc::ENOSYS);
    pub(crate) const NODATA: Errno = Errno(libc::ENODATA);
    pub(crate) const OPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);
    pub(crate) const STALE: Errno = Errno(libc::ESTALE);
}

impl From<ffs_core::Error> for Errno {
    fn from(e: ffs_core::Error) -> Self {
        Errno(e.errno())
    }
}
