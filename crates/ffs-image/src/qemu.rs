//! Images that only QEMU reads: a `qemu-nbd` process serves the image at a private socket.
//!
//! `qemu-nbd` ends when its client disconnects, but not if the client ends before the first
//! request. So a shell starts it and waits for the end of a pipe: the system closes that when this
//! program ends in any way, and the shell then ends `qemu-nbd`.
//!
//! **Invariant.** When the device is dropped, `qemu-nbd` has closed the image, or ten seconds have
//! passed.

use std::fs;
use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use ffs_device::process::signal_all;
use ffs_device::{BlockDevice, DeviceError, Durability, FileDevice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, Signal};

use crate::image::{DiskImage, Refused};
use crate::magic::Format;
use crate::nbd::NbdDevice;

const PROGRAM: &str = "qemu-nbd";
/// How long to wait for the end of `qemu-nbd`, seconds.
const PATIENCE: i64 = 10;
/// How long `qemu-nbd` may take to open an image, seconds.
const START_TIME: i64 = 30;
/// The exit code of a shell that does not find a program.
const NOT_FOUND: i32 = 127;

/// Starts `qemu-nbd` with the arguments behind the first, prints its process number, and waits for
/// a line. At the end of the pipe instead, ends it, and removes the directory, the first argument.
const SCRIPT: &str = r#"
trap '' PIPE
dir=$1
shift
qemu-nbd "$@" >/dev/null 2>"$dir/log" </dev/null || exit
pid=$(cat "$dir/pid")
echo "$pid"
read -r _ && exit
kill "$pid"
rm -rf "$dir"
"#;

/// An image that `qemu-nbd` serves.
struct QemuDevice {
    // In this order they are dropped: the connection ends, the process ends, the lock is released.
    nbd: NbdDevice,
    _process: Process,
    _file: Option<Arc<FileDevice>>,
    format: Format,
}

/// The shell, and a descriptor that becomes readable when `qemu-nbd` has ended.
struct Process {
    shell: Child,
    server: Option<OwnedFd>,
}

/// Serves the image `path`, which is locked by `file`, in `format`. Without `file`, `path` is the
/// URI of a server that exports the image. `why` is the reason that this program does not read the
/// image itself, perhaps empty.
pub(crate) fn open(
    file: Option<&Arc<FileDevice>>,
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
    let dir = dir.map_err(|error| {
        let (place, why) = (std::env::temp_dir(), ffs_device::host_words(error));
        let place = place.display();
        failed(&format!(
            "has no place for its socket in {place}: {why}; set TMPDIR to another directory"
        ))
    })?;
    let (socket, pid_file) = (dir.path().join("socket"), dir.path().join("pid"));
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(SCRIPT).arg("sh").arg(dir.path());
    command.arg("--fork").arg("--format").arg(qemu_format).arg("--socket").arg(&socket);
    command.arg("--pid-file").arg(&pid_file);
    command.args(if write { ["--discard=unmap"] } else { ["--read-only"] });
    // An absolute path, so that it is no option and no URI.
    command.arg(match file {
        Some(_) => fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
        None => path.to_owned(),
    });
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // A group of its own: ^C is for this program, which ends the server when it has unmounted.
    command.process_group(0);
    let cannot = |error| failed(&format!("cannot be started: {}", ffs_device::host_words(error)));
    let mut shell = command.spawn().map_err(cannot)?;
    if !prints(&shell, START_TIME) {
        // `qemu-nbd` leaves the group of its parent.
        signal_all(Pid::from_child(&shell), Signal::KILL);
        let _ = shell.wait();
        return Err(failed(&format!("does not open it within {START_TIME} seconds")));
    }
    let Some(pid) = first_line(&mut shell) else {
        let status = shell.wait().map_err(cannot)?;
        if status.code() == Some(NOT_FOUND) {
            return Err(Refused::Unsupported(format!(
                "{because}{PROGRAM} reads it, and is not installed; install it (package \
                 qemu-utils), or make a raw image elsewhere: qemu-img convert -O raw IMAGE RAW"
            )));
        }
        let text = fs::read_to_string(dir.path().join("log")).unwrap_or_default();
        let text = text.trim().rsplit('\n').next().unwrap_or_default();
        let text = text.trim_start_matches(&format!("{PROGRAM}: "));
        return Err(failed(&format!("refuses it: {text}")));
    };
    let process = Process { shell, server: descriptor_of(&pid) };
    // If this fails, the end of the pipe ends the server.
    let nbd = NbdDevice::at_socket(&socket, &path.to_string_lossy(), write)
        .map_err(|error| failed(&format!("failed: {error}")))?;
    // The socket is not needed any more: `dir` is removed here.
    Ok(Arc::new(QemuDevice { nbd, _process: process, _file: file.map(Arc::clone), format }))
}

/// Whether the shell prints something, or ends, within `seconds`.
fn prints(shell: &Child, seconds: i64) -> bool {
    let Some(output) = &shell.stdout else { return true };
    let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
    !matches!(poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&limit)), Ok(0))
}

/// The line that the shell prints when `qemu-nbd` serves; `None` if it ended before.
fn first_line(shell: &mut Child) -> Option<String> {
    let mut line = String::new();
    let mut output = BufReader::new(shell.stdout.take()?);
    output.read_line(&mut line).ok().filter(|&count| count > 0).map(|_| line)
}

/// A descriptor of the process with this number.
#[cfg(target_os = "linux")]
fn descriptor_of(pid: &str) -> Option<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    let pid = Pid::from_raw(pid.trim().parse().ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Without descriptors of processes the end of the pipe ends the server.
#[cfg(not(target_os = "linux"))]
fn descriptor_of(_: &str) -> Option<OwnedFd> {
    None
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut ended = false;
        if let Some(server) = &self.server {
            let patience = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
            let mut fds = [PollFd::new(server, PollFlags::IN)];
            ended = matches!(poll(&mut fds, Some(&patience)), Ok(1));
        }
        if let Some(mut pipe) = self.shell.stdin.take()
            && ended
        {
            // A line: there is nothing to end. Without it the end of the pipe ends the server.
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.shell.wait();
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
