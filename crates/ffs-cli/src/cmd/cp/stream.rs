//! A sink for one file: a pipe, a terminal, a device, or a descriptor that the caller opened.
//!
//! **Invariants.**
//! 1. Bytes are written in the order of the file; holes are written as zeros.
//! 2. Mode, owner and times of the target do not change.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use bsdffs::copy::{
    CopyError, CopyReport, Entry, EntryKind, PartialFile, Sink, SinkError, SinkResult,
};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::fail::Failure;
use crate::output;
use crate::signals;

/// Zeros for holes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Writes to a descriptor.
pub(crate) struct StreamSink {
    fd: OwnedFd,
    shown: String,
    /// Bytes of the current file that are written, and its size.
    at: u64,
    size: u64,
}

impl StreamSink {
    /// A sink for `path`, if that is neither a regular file nor a directory. `/dev/stdout`,
    /// `/dev/stderr` and `/dev/fd/N` mean the descriptor itself, also where it is a regular file:
    /// opened by name, that would be truncated.
    ///
    /// # Errors
    /// It cannot be opened for writing.
    pub(crate) fn open(path: &Path) -> Result<Option<StreamSink>, Failure> {
        let shown = crate::fail::show(path.as_os_str().as_encoded_bytes());
        let failed = |error: Errno| Failure::new(&shown, error);
        let found = std::fs::metadata(path);
        if found.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
            return Ok(None);
        }
        let fd = match descriptor(path) {
            Some(number) => duplicate(number).map_err(failed)?,
            None => {
                let Ok(kind) = found.map(|found| found.file_type()) else { return Ok(None) };
                if kind.is_file() {
                    return Ok(None);
                }
                if kind.is_socket() {
                    return Err(
                        Failure::new(&shown, "is a socket").hint("nothing can be copied to it")
                    );
                }
                signals::open_for_writing(path)
                    .map_err(|error| signals::or_interrupted(Failure::host(path, &error)))?
                    .into()
            }
        };
        output::enlarge_pipe(&fd);
        Ok(Some(StreamSink { fd, shown, at: 0, size: 0 }))
    }

    fn write(&mut self, mut bytes: &[u8]) -> SinkResult {
        while !bytes.is_empty() {
            match rustix::io::write(&self.fd, bytes) {
                Ok(0) => return Err(self.stop(Errno::NOSPC)),
                Ok(len) => {
                    self.at += len as u64;
                    bytes = &bytes[len.min(bytes.len())..];
                }
                Err(Errno::INTR) if signals::interrupted() => {
                    return Err(SinkError::Stop(CopyError::cancelled()));
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.stop(error)),
            }
        }
        Ok(())
    }

    fn stop(&self, error: Errno) -> SinkError {
        SinkError::Stop(CopyError::at(&self.shown, error))
    }

    fn zeros_to(&mut self, offset: u64) -> SinkResult {
        while self.at < offset {
            let len = (offset - self.at).min(ZEROS.len() as u64);
            self.write(&ZEROS[..len as usize])?;
        }
        Ok(())
    }
}

/// The number of the descriptor that `path` names.
fn descriptor(path: &Path) -> Option<i32> {
    match path.to_str()? {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        other => {
            let number =
                other.strip_prefix("/dev/fd/").or_else(|| other.strip_prefix("/proc/self/fd/"))?;
            number.parse().ok().filter(|number| *number >= 0)
        }
    }
}

/// Another descriptor for the open file of descriptor `number`.
fn duplicate(number: i32) -> rustix::io::Result<OwnedFd> {
    let fd = match number {
        1 => rustix::io::dup(io::stdout()),
        2 => rustix::io::dup(io::stderr()),
        other => of_this_process(other),
    }?;
    // The caller may have opened it for reading only.
    match rustix::fs::fcntl_getfl(&fd)? & OFlags::ACCMODE {
        OFlags::RDONLY => Err(Errno::BADF),
        _ => Ok(fd),
    }
}

#[cfg(target_os = "linux")]
fn of_this_process(number: i32) -> rustix::io::Result<OwnedFd> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    pidfd_getfd(own, number, PidfdGetfdFlags::empty())
}

#[cfg(not(target_os = "linux"))]
fn of_this_process(number: i32) -> rustix::io::Result<OwnedFd> {
    // On BSD to open the name is to duplicate the descriptor.
    let path = format!("/dev/fd/{number}");
    rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty())
}

impl Sink for StreamSink {
    fn entry(&mut self, entry: &Entry, _: &mut CopyReport) -> SinkResult {
        match &entry.kind {
            EntryKind::File(size) => {
                (self.at, self.size) = (0, *size);
                Ok(())
            }
            _ => {
                let why = format!("only the content of a regular file can go to {}", self.shown);
                Err(SinkError::skip(why))
            }
        }
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        self.zeros_to(offset)?;
        self.write(bytes)
    }

    fn end(&mut self, _: &mut CopyReport) -> SinkResult {
        self.zeros_to(self.size)
    }

    fn abort(&mut self) -> Option<PartialFile> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_descriptors() {
        let number = |path: &str| descriptor(Path::new(path));
        assert_eq!(number("/dev/stdout"), Some(1));
        assert_eq!(number("/dev/fd/7"), Some(7));
        assert_eq!(number("/proc/self/fd/0"), Some(0));
        for other in ["/dev/fd/", "/dev/fd/-1", "/dev/fd/x", "/dev/null", "stdout"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
