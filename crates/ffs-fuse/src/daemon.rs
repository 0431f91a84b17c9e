//! Background mounts: the caller returns as soon as the file system is mounted.
//!
//! **Invariants.**
//! 1. The process forks while it has one thread. The server's threads start in the child.
//! 2. If the child cannot mount, the parent returns the child's error.
//! 3. The server keeps no terminal, directory or descriptor of its caller.

use crate::error::MountError;
use crate::log::{self, LOG};
use crate::params::{MountRequest, Mounted};
use crate::serve::mount_foreground;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

/// Mounts, and returns when the file system is mounted. A background process serves it.
///
/// # Errors
/// The mount failed, or the caller has several threads, so that it cannot fork.
pub fn mount_daemon(request: &MountRequest) -> Result<Mounted, MountError> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        let message = "the process already has several threads: use a foreground mount";
        return Err(MountError::Background(message.to_owned()));
    }
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| MountError::kernel("pipe", e))?;
    if fork()? {
        drop(write);
        return listen(read);
    }
    drop(read);
    std::process::exit(serve(request, write))
}

/// Returns `true` in the parent.
#[allow(unsafe_code)]
fn fork() -> Result<bool, MountError> {
    // SAFETY: this process has one thread (the caller checked), so the child finds no lock held and
    // no structure half changed.
    match unsafe { libc::fork() } {
        -1 => Err(MountError::kernel("fork", std::io::Error::last_os_error())),
        0 => Ok(false),
        _ => Ok(true),
    }
}

/// The child: mounts, serves, and returns its exit code.
fn serve(request: &MountRequest, pipe: OwnedFd) -> i32 {
    let mut pipe = Some(File::from(pipe));
    let outcome = mount_foreground(request, |mounted| {
        leave_terminal();
        if let Some(mut pipe) = pipe.take() {
            // The parent may have exited; the message is then lost, which does no harm.
            let _ = pipe.write_all(&encode(mounted));
        }
    });
    match (outcome, pipe) {
        (Ok(()), _) => 0,
        (Err(e), Some(mut pipe)) => {
            let _ = pipe.write_all(format!("error\n{e}").as_bytes());
            MountError::EXIT_CODE
        }
        (Err(e), None) => {
            tracing::error!(target: LOG, error = %e, "the server ended with an error");
            1
        }
    }
}

/// Leaves the terminal and the process group of the caller, after the mount: while automount(8)
/// mounts a directory, only processes of its own group can look the directory up.
fn leave_terminal() {
    log::use_syslog();
    // setsid fails only for a process-group leader, which a forked child is not.
    let _ = rustix::process::setsid();
    // A failure here only leaves a descriptor or a directory busy.
    let _ = std::env::set_current_dir("/");
    if let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

fn encode(m: &Mounted) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let mut b = if m.read_only { b"ro\n".to_vec() } else { b"rw\n".to_vec() };
    b.extend(m.notes.join("\n").bytes());
    b.push(0);
    b.extend(m.mount_point.as_os_str().as_bytes());
    b
}

fn decode(b: &[u8]) -> Option<Mounted> {
    use std::os::unix::ffi::OsStrExt;
    let nul = b.iter().position(|c| *c == 0)?;
    let (head, path) = (std::str::from_utf8(&b[..nul]).ok()?, &b[nul + 1..]);
    let (mode, notes) = head.split_once('\n')?;
    Some(Mounted {
        mount_point: PathBuf::from(std::ffi::OsStr::from_bytes(path)),
        read_only: mode == "ro",
        notes: notes.lines().map(str::to_owned).collect(),
    })
}

/// The parent: waits for the child's message.
fn listen(pipe: OwnedFd) -> Result<Mounted, MountError> {
    let mut news = Vec::new();
    File::from(pipe)
        .read_to_end(&mut news)
        .map_err(|e| MountError::kernel("the server's pipe", e))?;
    if let Some(words) = news.strip_prefix(b"error\n") {
        return Err(MountError::Background(String::from_utf8_lossy(words).into_owned()));
    }
    decode(&news)
        .ok_or_else(|| MountError::Background("the server ended before it had mounted".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_survive_the_pipe() {
        for notes in [vec![], vec!["one".to_owned(), "two".to_owned()]] {
            let m = Mounted { mount_point: "/mnt/a\nb".into(), read_only: true, notes };
            assert_eq!(decode(&encode(&m)), Some(m));
        }
        assert_eq!(decode(b""), None);
    }
}
