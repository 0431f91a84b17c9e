//! Attributes and extended attributes.

use std::io;

use bsdffs::namei::Last;
use bsdffs::{FileFlags, xattr};
use ffs_core::{SetAttr, SetTime, Timespec, XattrNamespace, XattrSet};
use libc::{c_char, c_int, c_void};

use crate::handle::{call, call_unit, error};
use crate::pointer;
use crate::types::{FFS_KEEP_ID, ffs_stat, ffs_time};
use crate::volume::ffs_volume;

/// Attributes of the file that `path` leads to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_stat(
    volume: *const ffs_volume,
    path: *const c_char,
    out: *mut ffs_stat,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            pointer::put(out, volume.get()?.metadata(pointer::path(path)?)?.into())
        })
    }
}

/// Attributes of the file that `path` names; of a symbolic link its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_lstat(
    volume: *const ffs_volume,
    path: *const c_char,
    out: *mut ffs_stat,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            pointer::put(out, volume.get()?.symlink_metadata(pointer::path(path)?)?.into())
        })
    }
}

/// Sets attributes of the file that `path` leads to.
unsafe fn set(
    volume: *const ffs_volume,
    path: *const c_char,
    attributes: impl FnOnce() -> io::Result<SetAttr>,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            let path = pointer::path(path)?;
            volume.get()?.set_attributes(path, Last::Follow, &attributes()?)
        })
    }
}

/// Sets the permission bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_chmod(
    volume: *const ffs_volume,
    path: *const c_char,
    mode: u32,
) -> c_int {
    let perm = Some((mode & 0o7777) as u16);
    // SAFETY: the contract of the caller.
    unsafe { set(volume, path, || Ok(SetAttr { perm, ..SetAttr::default() })) }
}

/// Sets owner and group; FFS_KEEP_ID keeps one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_chown(
    volume: *const ffs_volume,
    path: *const c_char,
    uid: u32,
    gid: u32,
) -> c_int {
    let id = |id| (id != FFS_KEEP_ID).then_some(id);
    let (uid, gid) = (id(uid), id(gid));
    // SAFETY: the contract of the caller.
    unsafe { set(volume, path, || Ok(SetAttr { uid, gid, ..SetAttr::default() })) }
}

/// Sets file flags, as chflags(2) of BSD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_chflags(
    volume: *const ffs_volume,
    path: *const c_char,
    flags: u32,
) -> c_int {
    let flags = Some(FileFlags::from_bits_retain(flags));
    // SAFETY: the contract of the caller.
    unsafe { set(volume, path, || Ok(SetAttr { flags, ..SetAttr::default() })) }
}

/// Truncates or extends a file to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_truncate(
    volume: *const ffs_volume,
    path: *const c_char,
    size: u64,
) -> c_int {
    let size = Some(size);
    // SAFETY: the contract of the caller.
    unsafe { set(volume, path, || Ok(SetAttr { size, ..SetAttr::default() })) }
}

/// Sets access and modification time; NULL keeps one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_utimes(
    volume: *const ffs_volume,
    path: *const c_char,
    atime: *const ffs_time,
    mtime: *const ffs_time,
) -> c_int {
    // SAFETY: each is NULL or a time of the caller.
    let (atime, mtime) = unsafe { (atime.as_ref().copied(), mtime.as_ref().copied()) };
    // SAFETY: the contract of the caller.
    unsafe {
        set(volume, path, || {
            let (atime, mtime) = (atime.map(time).transpose()?, mtime.map(time).transpose()?);
            Ok(SetAttr { atime, mtime, ..SetAttr::default() })
        })
    }
}

fn time(at: ffs_time) -> io::Result<SetTime> {
    if !(0..1_000_000_000).contains(&at.nsec) {
        return Err(error(libc::EINVAL, "nsec is 0 to 999999999"));
    }
    Ok(SetTime::To(Timespec { secs: at.sec, nsec: at.nsec }))
}

/// The name space and the name of an attribute.
unsafe fn attribute<'a>(name: *const c_char) -> io::Result<(XattrNamespace, &'a [u8])> {
    // SAFETY: the contract of the caller.
    let name = unsafe { pointer::bytes(name) }?;
    xattr::parse(name).ok_or_else(|| {
        let why = "the name of an extended attribute is user.NAME or system.NAME";
        error(libc::EOPNOTSUPP, why)
    })
}

/// Copies the value of the extended attribute `name` (user.NAME or system.NAME) into `buf`. Returns
/// its length, or with `size` 0 only that; -ERANGE if the buffer is too small.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_getxattr(
    volume: *const ffs_volume,
    path: *const c_char,
    name: *const c_char,
    buf: *mut c_void,
    size: usize,
) -> i64 {
    // SAFETY: the contract of the caller.
    unsafe {
        call(volume, |volume| {
            let (volume, (space, name)) = (volume.get()?, attribute(name)?);
            let file = volume.lookup(pointer::path(path)?, Last::Follow)?;
            let value = volume.fs().getxattr(volume.cred(), &file, space, name)?;
            pointer::put_bytes(&value, buf, size)
        })
    }
}

/// Sets an extended attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_setxattr(
    volume: *const ffs_volume,
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            let (volume, (space, name)) = (volume.get()?, attribute(name)?);
            let file = volume.lookup(pointer::path(path)?, Last::Follow)?;
            let value = pointer::data(value, size)?;
            let (fs, cred) = (volume.fs(), volume.cred());
            Ok(fs.setxattr(cred, &file, space, name, value, XattrSet::Any)?)
        })
    }
}

/// Copies the names of the extended attributes into `buf`, each with a NUL. Returns their length,
/// or with `size` 0 only that; -ERANGE if the buffer is too small.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_listxattr(
    volume: *const ffs_volume,
    path: *const c_char,
    buf: *mut c_void,
    size: usize,
) -> i64 {
    // SAFETY: the contract of the caller.
    unsafe {
        call(volume, |volume| {
            let volume = volume.get()?;
            let file = volume.lookup(pointer::path(path)?, Last::Follow)?;
            let mut names = Vec::new();
            for (space, name) in volume.fs().listxattr(volume.cred(), &file)? {
                names.extend(xattr::full_name(space, &name));
                names.push(0);
            }
            pointer::put_bytes(&names, buf, size)
        })
    }
}

/// Removes an extended attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffs_removexattr(
    volume: *const ffs_volume,
    path: *const c_char,
    name: *const c_char,
) -> c_int {
    // SAFETY: the contract of the caller.
    unsafe {
        call_unit(volume, |volume| {
            let (volume, (space, name)) = (volume.get()?, attribute(name)?);
            let file = volume.lookup(pointer::path(path)?, Last::Follow)?;
            Ok(volume.fs().removexattr(volume.cred(), &file, space, name)?)
        })
    }
}
