//! Mounting and unmounting: by system calls where the user may, else by `fusermount3`.
//!
//! **Invariants.**
//! 1. A block device is mounted as `fuseblk` if the kernel permits it. Then `sync` reaches the
//!    server, and `umount` returns only when the server has written everything.
//! 2. A failed mount leaves nothing mounted.
//!
//! **References.** `spec/known-failures.md` §1; fuse(4), fusermount3(1).

use crate::error::MountError;
use crate::mountinfo;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Access, Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::fmt::Write as _;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The parameters of a mount.
#[derive(Clone, Debug)]
pub(crate) struct MountParams {
    /// The source in the mount table. For `fuseblk` it is the device itself.
    pub(crate) source: PathBuf,
    pub(crate) mount_point: PathBuf,
    pub(crate) block_device: bool,
    pub(crate) read_only: bool,
    pub(crate) allow_other: bool,
    pub(crate) default_permissions: bool,
    pub(crate) suid: bool,
    pub(crate) dev: bool,
    pub(crate) exec: bool,
}

impl MountParams {
    fn flags(&self) -> MountFlags {
        let mut f = MountFlags::empty();
        f.set(MountFlags::RDONLY, self.read_only);
        f.set(MountFlags::NOSUID, !self.suid);
        f.set(MountFlags::NODEV, !self.dev);
        f.set(MountFlags::NOEXEC, !self.exec);
        // The server decides about access times.
        f | MountFlags::NOATIME
    }

    /// The options for the kernel's FUSE file system.
    fn data(&self, fd: &OwnedFd) -> String {
        let uid = rustix::process::getuid().as_raw();
        let gid = rustix::process::getgid().as_raw();
        let mut s = format!("fd={},rootmode=40000,user_id={uid},group_id={gid}", fd.as_raw_fd());
        for (wanted, word) in
            [(self.allow_other, "allow_other"), (self.default_permissions, "default_permissions")]
        {
            if wanted {
                s.push(',');
                s.push_str(word);
            }
        }
        s
    }
}

/// The real path of the directory to mount on.
pub(crate) fn mount_point(path: &Path) -> Result<PathBuf, MountError> {
    let at = |source: io::Error| {
        let source = if source.kind() == io::ErrorKind::NotConnected {
            io::Error::other("its mount has lost its server: unmount it first (umount -l)")
        } else {
            source
        };
        MountError::MountPoint { path: path.to_owned(), source }
    };
    let real = path.canonicalize().map_err(at)?;
    if !real.metadata().map_err(at)?.is_dir() {
        return Err(at(io::ErrorKind::NotADirectory.into()));
    }
    Ok(real)
}

/// Whether `path` is a block device.
pub(crate) fn is_block_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.file_type().is_block_device())
}

/// Mounts, and returns the device on which the kernel sends requests.
pub(crate) fn mount(params: &MountParams) -> Result<OwnedFd, MountError> {
    match mount_ourselves(params) {
        Err(MountError::Kernel { source, .. })
            if source.raw_os_error() == Some(libc::EPERM)
                || source.raw_os_error() == Some(libc::EACCES) =>
        {
            mount_by_helper(params)
        }
        other => other,
    }
}

const NO_FUSE: &str = "/dev/fuse does not exist: load the module with modprobe fuse, or start the \
                       container with --device /dev/fuse";

const NO_RIGHT: &str =
    "this user may not open /dev/fuse: mount as root, or let root run chmod 666 /dev/fuse";

fn mount_ourselves(params: &MountParams) -> Result<OwnedFd, MountError> {
    let open = || {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|e| match e {
            rustix::io::Errno::NOENT | rustix::io::Errno::NXIO | rustix::io::Errno::NODEV => {
                MountError::Unavailable(NO_FUSE.to_owned())
            }
            e => MountError::kernel("/dev/fuse", e),
        })
    };
    if params.block_device {
        let fd = open()?;
        // The kernel refuses if the device is in use or write-protected. Plain FUSE still works.
        if call_mount(params, "fuseblk.ffs", &params.data(&fd)).is_ok() {
            return Ok(fd);
        }
    }
    let fd = open()?;
    match call_mount(params, "fuse.ffs", &params.data(&fd)) {
        Ok(()) => Ok(fd),
        Err(source) if source == rustix::io::Errno::PERM => {
            Err(MountError::kernel("mount", source))
        }
        Err(source) => {
            Err(MountError::MountPoint { path: params.mount_point.clone(), source: source.into() })
        }
    }
}

fn call_mount(params: &MountParams, fs_type: &str, data: &str) -> rustix::io::Result<()> {
    let data = CString::new(data).map_err(|_| rustix::io::Errno::INVAL)?;
    rustix::mount::mount(
        &params.source,
        &params.mount_point,
        fs_type,
        params.flags(),
        data.as_c_str(),
    )
}

/// Mounts by libfuse's set-user-id program, which sends the open device over a socket.
fn mount_by_helper(params: &MountParams) -> Result<OwnedFd, MountError> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let family = (AddressFamily::UNIX, SocketType::STREAM);
    let (ours, theirs) = socketpair(family.0, family.1, SocketFlags::CLOEXEC, None)
        .map_err(|e| MountError::kernel("socketpair", e))?;
    let mut options = "subtype=ffs".to_owned();
    let source = params.source.to_string_lossy();
    let _ = write!(options, ",fsname={}", source.replace('\\', "\\\\").replace(',', "\\,"));
    for (wanted, word) in [
        (params.read_only, "ro"),
        (params.allow_other, "allow_other"),
        (params.default_permissions, "default_permissions"),
        (!params.exec, "noexec"),
        (true, "noatime"),
    ] {
        if wanted {
            options.push(',');
            options.push_str(word);
        }
    }
    let mut command = helper_command();
    command.arg("-o").arg(options).arg("--").arg(&params.mount_point);
    let child = {
        // Only this child may inherit it: a duplicate without close-on-exec, made in the child.
        let raw = theirs.as_raw_fd();
        command.env("_FUSE_COMMFD", raw.to_string()).stderr(Stdio::piped());
        keep_open_in_child(&mut command, raw);
        command.spawn().map_err(|e| match e.kind() {
            kind if is_absent(kind) => no_helper(rustix::process::geteuid().is_root()),
            _ => MountError::kernel("fusermount3", e),
        })?
    };
    drop(theirs);
    let received = receive_fd(&ours);
    let output = child.wait_with_output().map_err(|e| MountError::kernel("fusermount3", e))?;
    match received {
        Ok(Some(fd)) if output.status.success() => Ok(fd),
        _ => {
            if rustix::fs::access("/dev/fuse", Access::READ_OK | Access::WRITE_OK).is_err() {
                return Err(MountError::Unavailable(NO_RIGHT.to_owned()));
            }
            let words = String::from_utf8_lossy(&output.stderr);
            let words = words.trim().trim_start_matches("fusermount3: ");
            let words = if words.is_empty() { "gave no reason" } else { words };
            Err(MountError::Helper(words.to_owned()))
        }
    }
}

/// The missing requirement if the kernel refused and there is no helper.
fn no_helper(root: bool) -> MountError {
    MountError::Unavailable(match root {
        false => {
            "mounting needs root or the program fusermount3, which is not installed (package fuse3)"
        }
        true => {
            "the kernel does not let root mount (a container without CAP_SYS_ADMIN?), and the \
             program fusermount3 (package fuse3), which may be able to, is not installed"
        }
    }.to_owned())
}

#[allow(unsafe_code)]
fn keep_open_in_child(command: &mut Command, fd: i32) {
    // SAFETY: between fork and exec the closure only calls fcntl, which is async-signal-safe, on a
    // descriptor that the parent keeps open until the spawn has returned.
    unsafe {
        command.pre_exec(move || {
            let fd = rustix::fd::BorrowedFd::borrow_raw(fd);
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).map_err(io::Error::from)
        });
    }
}

/// Receives the descriptor sent over `socket`. `None` if it was closed without one.
fn receive_fd(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let mut iov = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            return Ok(fds.next());
        }
    }
    Ok(None)
}

/// Whether the program does not exist, as far as this user can see. A directory in `PATH` that the
/// user may not search gives "permission denied".
fn is_absent(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

fn helper_command() -> Command {
    Command::new("fusermount3")
}

/// The force of an unmount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Force {
    /// Detach the mount now, and unmount it when its last user has left.
    pub(crate) lazy: bool,
    /// Unmount even if the server does not answer.
    pub(crate) force: bool,
}

/// Unmounts.
pub(crate) fn unmount(mount_point: &Path, how: Force) -> Result<(), MountError> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, how.lazy);
    flags.set(UnmountFlags::FORCE, how.force);
    match rustix::mount::unmount(mount_point, flags) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => unmount_by_helper(mount_point, how.lazy),
        Err(rustix::io::Errno::BUSY) => Err(MountError::Busy { path: mount_point.to_owned() }),
        Err(e) => Err(MountError::kernel("umount", e)),
    }
}

fn unmount_by_helper(mount_point: &Path, lazy: bool) -> Result<(), MountError> {
    let mut command = helper_command();
    command.arg("-u");
    if lazy {
        command.arg("-z");
    }
    let output = command.arg("--").arg(mount_point).output();
    let output = output.map_err(|e| match e.kind() {
        kind if is_absent(kind) => MountError::Helper(
            "not installed (package fuse3); unmounting without root needs it".to_owned(),
        ),
        _ => MountError::kernel("fusermount3", e),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(MountError::Helper(words.trim().trim_start_matches("fusermount3: ").to_owned()))
}

/// The kernel's part of `mount -o remount,ro` and `remount,rw`. Other properties do not change.
pub(crate) fn remount(mount: &mountinfo::Mount, read_only: bool) -> Result<(), MountError> {
    let mut flags = MountFlags::empty();
    for (word, flag) in [
        ("nosuid", MountFlags::NOSUID),
        ("nodev", MountFlags::NODEV),
        ("noexec", MountFlags::NOEXEC),
        ("noatime", MountFlags::NOATIME),
        ("relatime", MountFlags::RELATIME),
    ] {
        flags.set(flag, mount.has_option(word));
    }
    flags.set(MountFlags::RDONLY, read_only);
    rustix::mount::mount_remount(&mount.mount_point, flags, c"")
        .map_err(|e| MountError::kernel("remount", e))
}

/// Bytes that the kernel reads ahead in one request: blocks of every size, and with the header and
/// the ends of ranges they fit into a pipe of 1 MiB, the largest without `CAP_SYS_RESOURCE`.
const READ_AHEAD: usize = crate::wire::MAX_WRITE;

/// Raises the kernel's read-ahead to the size of one read, which is eight times the default.
pub(crate) fn widen_readahead(mount_point: &Path) {
    let Ok(Some(mount)) = mountinfo::find(mount_point) else { return };
    let path: PathBuf = ["/sys/class/bdi", &mount.device, "read_ahead_kb"].iter().collect();
    // Only root may change it. Without it, sequential reads are slower.
    let _ = std::fs::write(path, (READ_AHEAD >> 10).to_string().as_bytes());
}

/// The path as a C string.
pub(crate) fn display(path: &Path) -> String {
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}
