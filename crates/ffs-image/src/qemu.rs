//! Images that only QEMU reads: a `qemu-nbd` process serves the image at a private socket.
//!
//! `qemu-nbd` ends when its client disconnects. So it ends with this program, also when that is
//! killed: the system then closes the connection.
//!
//! **Invariant.** When the device is dropped, `qemu-nbd` has closed the image, or ten seconds have
//! passed.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ffs_device::{BlockDevice, DeviceError, Durability, FileDevice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::image::{DiskImage, Refused};
use crate::magic::Format;
use crate::nbd::NbdDevice;

const PROGRAM: &str = "qemu-nbd";
/// How long to wait for the end of `qemu-nbd`, seconds.
const PATIENCE: i64 = 10;

/// An image that `qemu-nbd` serves.
struct QemuDevice {
    // In this order they are dropped: the connection ends, the process ends, the lock is released.
    nbd: NbdDevice,
    _process: Process,
    _file: Arc<FileDevice>,
    format: Format,
}

/// A descriptor that becomes readable when the process has ended.
struct Process(Option<OwnedFd>);

/// Serves the image `path`, which is locked by `file`, in `format`. `why` is the reason that this
/// program does not read the image itself, perhaps empty.
pub(crate) fn open(
    file: &Arc<FileDevice>,
    path: &Path,
    format: Format,
    write: bool,
    why: &str,
) -> Result<Arc<dyn DiskImage>, Refused> {
    let because = if why.is_empty() { String::new() } else { format!("{why}; ") };
    let Some(qemu_format) = format.qemu_name() else {
        return Err(Refused::Damaged(why.to_owned()));
    };
    let failed = |what: &str| Refused::Unsupported(format!("{because}{PROGRAM} {what}"));
    let dir = tempfile::Builder::new().prefix("ffs-qemu-").tempdir();
    let dir = dir.map_err(|error| failed(&format!("has no place for its socket: {error}")))?;
    let (socket, pid_file) = (dir.path().join("socket"), dir.path().join("pid"));
    let (log, log_path) = log(dir.path()).map_err(|error| failed(&error.to_string()))?;
    let mut command = Command::new(PROGRAM);
    command.arg("--fork").arg("--format").arg(qemu_format).arg("--socket").arg(&socket);
    command.arg("--pid-file").arg(&pid_file);
    command.args(if write { ["--discard=unmap"] } else { ["--read-only"] });
    // An absolute path, so that it is no option and no URI.
    command.arg(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
    // The process in the background keeps these descriptors: no pipe, which would never end.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let status = command.status().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Refused::Unsupported(format!(
            "{because}{PROGRAM} reads it, and is not installed; install it (package qemu-utils), \
             or make a raw image elsewhere: qemu-img convert -O raw IMAGE RAW"
        )),
        _ => failed(&format!("cannot be started: {}", ffs_device::host_words(error))),
    })?;
    if !status.success() {
        let text = fs::read_to_string(log_path).unwrap_or_default();
        let text = text.trim().rsplit('\n').next().unwrap_or_default();
        let text = text.trim_start_matches(&format!("{PROGRAM}: "));
        return Err(failed(&format!("refuses it: {text}")));
    }
    let process = Process(process(&pid_file));
    let nbd = NbdDevice::at_socket(&socket, &path.to_string_lossy(), write)
        .map_err(|error| failed(&format!("failed: {error}")))?;
    // The socket is not needed any more: `dir` is removed here.
    Ok(Arc::new(QemuDevice { nbd, _process: process, _file: Arc::clone(file), format }))
}

/// A file for the messages of the process.
fn log(dir: &Path) -> std::io::Result<(fs::File, std::path::PathBuf)> {
    let path = dir.join("log");
    Ok((fs::File::create(&path)?, path))
}

/// A descriptor of the process whose number is in the file.
fn process(pid_file: &Path) -> Option<OwnedFd> {
    let text = fs::read_to_string(pid_file).ok()?;
    let pid = Pid::from_raw(text.trim().parse().ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(process) = &self.0 {
            let patience = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
            // After an error or the time the process ends later by itself.
            let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&patience));
        }
    }
}

impl BlockDevice for QemuDevice {
    fn len_bytes(&self) -> u64 {
        self.nbd.len_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.nbd.sector_size()
    }

    fn durability(&self) -> Durability {
        self.nbd.durability()
    }

    fn is_read_only(&self) -> bool {
        self.nbd.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.nbd.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.nbd.write_at(offset, buf)
    }

    fn read_vectored_at(
        &self,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        self.nbd.read_vectored_at(offset, bufs)
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        self.nbd.write_vectored_at(offset, bufs)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.nbd.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.nbd.discard(offset, len)
    }
}

impl DiskImage for QemuDevice {
    fn format(&self) -> Format {
        self.format
    }
}
