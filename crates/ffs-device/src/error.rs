//! The error of a device operation, and the checks that every device makes before a transfer.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

/// An operation on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Open, create or measure the device.
    Open,
    /// Read a range.
    Read,
    /// Write a range.
    Write,
    /// Make completed writes durable.
    Flush,
    /// Discard a range.
    Discard,
    /// Change the length of a file.
    Resize,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
            Operation::Resize => "change the length",
        })
    }
}

/// A failed device operation: the operation, the range, the device and the cause.
#[derive(Debug, Clone, thiserror::Error)]
pub struct DeviceError {
    /// The operation.
    pub operation: Operation,
    /// First byte of the range (0 for operations without one).
    pub offset: u64,
    /// Bytes in the range (0 for operations without one).
    pub length: u64,
    /// The name of the device as the user gave it.
    pub device: Arc<str>,
    /// The cause.
    pub source: Arc<io::Error>,
    errno: i32,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: cannot {}", self.device, self.operation)?;
        if self.length > 0 || matches!(self.operation, Operation::Read | Operation::Write) {
            write!(f, " {} bytes at byte {}", self.length, self.offset)?;
        }
        write!(f, ": {}", host_words(&self.source))
    }
}

impl DeviceError {
    /// The error of an operation without a range.
    #[must_use]
    pub fn new(device: &Arc<str>, operation: Operation, source: io::Error) -> Self {
        Self::at(device, operation, 0, 0, source)
    }

    /// The error of an operation on `length` bytes at byte `offset`.
    #[must_use]
    pub fn at(
        device: &Arc<str>,
        operation: Operation,
        offset: u64,
        length: u64,
        source: io::Error,
    ) -> Self {
        let errno = errno_of(&source);
        Self {
            operation,
            offset,
            length,
            device: Arc::clone(device),
            source: Arc::new(source),
            errno,
        }
    }

    /// The error number for a system-call interface; `EIO` if the cause has none.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

/// `name` as one word of a shell: quoted where it must be, for commands that a message shows.
#[must_use]
pub fn shell_word(name: &str) -> Cow<'_, str> {
    // Only a name with a NUL, which no file has, cannot be quoted.
    shlex::try_quote(name).unwrap_or(Cow::Borrowed(name))
}

/// An error of the host as text, without the "(os error N)" that Rust appends: the number adds
/// nothing to the text.
#[must_use]
pub fn host_words(error: impl fmt::Display) -> String {
    const MARK: &str = " (os error ";
    let text = error.to_string();
    let mut pieces = text.split(MARK);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(')') {
            Some(behind) => out.push_str(behind),
            None => out.extend([MARK, piece]),
        }
    }
    out
}

/// The kind is that of the errno, as in [`std::fs`]; the source is this error.
impl From<DeviceError> for io::Error {
    fn from(error: DeviceError) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(error.errno()).kind(), error)
    }
}

fn errno_of(source: &io::Error) -> i32 {
    source.raw_os_error().unwrap_or_else(|| {
        let errno = match source.kind() {
            io::ErrorKind::InvalidInput => Errno::INVAL,
            io::ErrorKind::ReadOnlyFilesystem => Errno::ROFS,
            io::ErrorKind::NotFound => Errno::NOENT,
            io::ErrorKind::PermissionDenied => Errno::ACCESS,
            io::ErrorKind::ResourceBusy => Errno::BUSY,
            io::ErrorKind::StorageFull => Errno::NOSPC,
            _ => Errno::IO,
        };
        errno.raw_os_error()
    })
}

/// Fails unless the range is within a device of `device_len` bytes.
///
/// # Errors
/// `EINVAL` otherwise.
pub fn check_range(
    device: &Arc<str>,
    device_len: u64,
    operation: Operation,
    offset: u64,
    length: u64,
) -> Result<(), DeviceError> {
    if offset.checked_add(length).is_some_and(|end| end <= device_len) {
        return Ok(());
    }
    let message = format!("the range passes the end of the device ({device_len} bytes)");
    let source = io::Error::new(io::ErrorKind::InvalidInput, message);
    Err(DeviceError::at(device, operation, offset, length, source))
}

/// Fails if the device was opened read-only.
///
/// # Errors
/// `EROFS` then.
pub fn check_writable(
    device: &Arc<str>,
    read_only: bool,
    operation: Operation,
    offset: u64,
    length: u64,
) -> Result<(), DeviceError> {
    if read_only {
        let source =
            io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the device is open read-only");
        return Err(DeviceError::at(device, operation, offset, length, source));
    }
    Ok(())
}

/// Bytes in all buffers of a vectored transfer.
#[must_use]
pub fn total_len<'a>(lengths: impl Iterator<Item = usize> + 'a) -> u64 {
    lengths.fold(0u64, |sum, len| sum.saturating_add(len as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Arc<str> {
        Arc::from("disk.img")
    }

    #[test]
    fn message_names_operation_range_device_and_cause() {
        let enospc = io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error());
        let error = DeviceError::at(&name(), Operation::Write, 65536, 8192, enospc);
        let text = error.to_string();
        assert!(text.starts_with("disk.img: cannot write 8192 bytes at byte 65536: "), "{text}");
        assert!(text.ends_with("No space left on device"), "{text}");
        assert_eq!(error.errno(), Errno::NOSPC.raw_os_error());
        let flush = DeviceError::new(&name(), Operation::Flush, io::Error::other("lost"));
        assert_eq!(flush.to_string(), "disk.img: cannot flush: lost");
        assert_eq!(flush.errno(), Errno::IO.raw_os_error());
    }

    #[test]
    fn words_of_the_host_come_without_numbers() {
        let denied = io::Error::from_raw_os_error(Errno::ACCESS.raw_os_error());
        assert_eq!(host_words(&denied), "Permission denied");
        assert_eq!(host_words(format!("a: {denied}; {denied}: b")), {
            "a: Permission denied; Permission denied: b"
        });
        for plain in ["", "lost", "x (os error y)", "x (os error 5"] {
            assert_eq!(host_words(plain), plain);
        }
    }

    #[test]
    fn ranges_are_checked_without_overflow() {
        let check = |offset, length| check_range(&name(), 4096, Operation::Read, offset, length);
        assert!(check(0, 4096).is_ok());
        assert!(check(4096, 0).is_ok());
        for (offset, length) in [(0, 4097), (4096, 1), (u64::MAX, 1), (1, u64::MAX)] {
            let error = check(offset, length).unwrap_err();
            assert_eq!(error.errno(), Errno::INVAL.raw_os_error());
        }
        let error = check_writable(&name(), true, Operation::Write, 0, 1).unwrap_err();
        assert_eq!(error.errno(), Errno::ROFS.raw_os_error());
    }
}
