//! System calls that the standard library lacks.
#![allow(unsafe_code)]

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn check(n: impl Into<i64>) -> io::Result<i64> {
    let n = n.into();
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n) }
}

/// An opaque file handle.
#[derive(Clone)]
pub(crate) struct Handle(Box<[u8; 8 + 128]>);

pub(crate) fn name_to_handle(path: &Path) -> io::Result<Handle> {
    let mut h = Box::new([0u8; 8 + 128]);
    h[..4].copy_from_slice(&128u32.to_ne_bytes());
    let mut mount_id = 0;
    let path = c(path);
    // SAFETY: the first field of the buffer is its size.
    let n = unsafe {
        libc::name_to_handle_at(
            libc::AT_FDCWD,
            path.as_ptr(),
            h.as_mut_ptr().cast(),
            &mut mount_id,
            0,
        )
    };
    check(n)?;
    Ok(Handle(h))
}

pub(crate) fn open_by_handle(mount: &File, h: &Handle, flags: i32) -> io::Result<File> {
    let mut h = h.clone();
    // SAFETY: the handle is one that the kernel made; the descriptor is new and ours.
    unsafe {
        let fd = libc::open_by_handle_at(mount.as_raw_fd(), h.0.as_mut_ptr().cast(), flags);
        check(fd)?;
        Ok(File::from_raw_fd(fd))
    }
}

pub(crate) fn set_xattr(path: &Path, name: &str, value: &[u8], flags: i32) -> io::Result<()> {
    let (path, name) = (c(path), CString::new(name).unwrap());
    // SAFETY: pointers and lengths belong together.
    let n = unsafe {
        libc::lsetxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags)
    };
    check(n).map(drop)
}

pub(crate) fn get_xattr(path: &Path, name: &str) -> io::Result<Vec<u8>> {
    let (path, name) = (c(path), CString::new(name).unwrap());
    let mut b = vec![0; 65536];
    // SAFETY: pointers and lengths belong together.
    let n =
        unsafe { libc::lgetxattr(path.as_ptr(), name.as_ptr(), b.as_mut_ptr().cast(), b.len()) };
    b.truncate(check(n as i64)? as usize);
    Ok(b)
}

pub(crate) fn list_xattrs(path: &Path) -> io::Result<Vec<String>> {
    let path = c(path);
    let mut b = vec![0u8; 65536];
    // SAFETY: pointers and lengths belong together.
    let n = unsafe { libc::llistxattr(path.as_ptr(), b.as_mut_ptr().cast(), b.len()) };
    b.truncate(check(n as i64)? as usize);
    let names = b.split(|c| *c == 0).filter(|n| !n.is_empty());
    Ok(names.map(|n| String::from_utf8(n.to_vec()).unwrap()).collect())
}

pub(crate) fn remove_xattr(path: &Path, name: &str) -> io::Result<()> {
    let (path, name) = (c(path), CString::new(name).unwrap());
    // SAFETY: two strings.
    check(unsafe { libc::lremovexattr(path.as_ptr(), name.as_ptr()) }).map(drop)
}

pub(crate) const GETFLAGS: libc::c_ulong = 0x8008_6601;
pub(crate) const SETFLAGS: libc::c_ulong = 0x4008_6602;

pub(crate) fn get_flags(f: &File) -> io::Result<u32> {
    let mut flags = 0u32;
    // SAFETY: the call writes 4 bytes.
    check(unsafe { libc::ioctl(f.as_raw_fd(), GETFLAGS, &mut flags) })?;
    Ok(flags)
}

pub(crate) fn set_flags(f: &File, flags: u32) -> io::Result<()> {
    // SAFETY: the call reads 4 bytes.
    check(unsafe { libc::ioctl(f.as_raw_fd(), SETFLAGS, &flags) }).map(drop)
}

/// A shared mapping of a file.
pub(crate) struct Map {
    at: *mut u8,
    len: usize,
}

impl Map {
    pub(crate) fn new(f: &File, len: usize) -> io::Result<Map> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, which drop unmaps.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_SHARED, f.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Map { at: at.cast(), len })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has this length, and no other reference to it exists.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        // SAFETY: the mapping's own bounds.
        check(unsafe { libc::msync(self.at.cast(), self.len, libc::MS_SYNC) }).map(drop)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping's own bounds; `bytes` borrows from it.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

pub(crate) fn seek(f: &File, at: i64, whence: i32) -> io::Result<i64> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::lseek(f.as_raw_fd(), at, whence) })
}

pub(crate) fn fallocate(f: &File, mode: i32, at: i64, len: i64) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::fallocate(f.as_raw_fd(), mode, at, len) }).map(drop)
}

/// Closes a descriptor; what drop does, with the error.
pub(crate) fn close(f: impl Into<std::os::fd::OwnedFd>) -> io::Result<()> {
    // SAFETY: the descriptor is ours, and nothing else uses it.
    check(unsafe { libc::close(f.into().into_raw_fd()) }).map(drop)
}

pub(crate) fn mknod(path: &Path, mode: u32, dev: u64) -> io::Result<()> {
    let path = c(path);
    // SAFETY: a string.
    check(unsafe { libc::mknod(path.as_ptr(), mode, dev) }).map(drop)
}

pub(crate) fn rename2(from: &Path, to: &Path, flags: u32) -> io::Result<()> {
    let (from, to) = (c(from), c(to));
    let at = libc::AT_FDCWD;
    // SAFETY: two strings.
    check(unsafe { libc::renameat2(at, from.as_ptr(), at, to.as_ptr(), flags) }).map(drop)
}

/// Makes the kernel forget what it can.
pub(crate) fn drop_caches() {
    std::fs::write("/proc/sys/vm/drop_caches", b"3").unwrap();
}

/// The start of a mount option that names a system call to forbid to the server.
pub(crate) const FORBID: &str = "x-forbid=";

/// Forbids this program the system call that an option among its `arguments` names, if any: the
/// call fails with `EPERM`.
pub(crate) fn forbid_as_wanted(arguments: &[OsString]) {
    let words = arguments.iter().filter_map(|a| a.to_str()).flat_map(|a| a.split(','));
    let call = match words.filter_map(|word| word.strip_prefix(FORBID)).next() {
        Some("io_uring_setup") => libc::SYS_io_uring_setup,
        Some("io_uring_enter") => libc::SYS_io_uring_enter,
        Some("pipe2") => libc::SYS_pipe2,
        Some("splice") => libc::SYS_splice,
        Some("sched_setscheduler") => libc::SYS_sched_setscheduler,
        _ => return,
    };
    let instruction = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 1, k };
    let returns = libc::BPF_RET | libc::BPF_K;
    let mut filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32),
        instruction(returns, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        instruction(returns, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its instructions outlive the call, which copies them.
    let n = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
    check(n).unwrap();
}
