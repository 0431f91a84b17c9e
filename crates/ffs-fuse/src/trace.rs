//! The trace of requests: one event for each request that the server has handled.
//!
//! | level | event |
//! | --- | --- |
//! | error | the request failed with `EIO`: the device failed, or the volume is damaged |
//! | warn | the request failed with `ENOSPC` |
//! | debug | every request (`-o debug`) |
//!
//! The fields are the operation, the inode, the names, offset and size if the request has them, the
//! error number (0: none), the bytes of the reply, and the duration in microseconds.

use crate::log::LOG;
use crate::server::inode_number;
use crate::wire::{Args, Errno, Request, op};
use std::borrow::Cow;
use std::time::Instant;
use tracing::Level;
use tracing::field::{DebugValue, DisplayValue, debug, display};

/// The measurement of one request.
pub(crate) struct RequestTrace {
    /// The start of the handling. `None` if requests are not traced.
    start: Option<Instant>,
}

impl RequestTrace {
    /// Starts measuring if requests are traced.
    pub(crate) fn start() -> RequestTrace {
        let traced = tracing::enabled!(target: LOG, Level::DEBUG);
        RequestTrace { start: traced.then(Instant::now) }
    }

    /// Logs the request. `outcome` is the number of bytes in the reply, or the error.
    pub(crate) fn finish(self, request: &Request<'_>, outcome: Result<usize, Errno>) {
        macro_rules! log {
            ($level:expr) => {{
                let subject = Subject::of(request);
                let (answer, error) = match outcome {
                    Ok(bytes) => (Some(bytes), None),
                    Err(errno) => (None, Some(errno)),
                };
                tracing::event!(
                    target: LOG,
                    $level,
                    ino = inode_number(request.node),
                    name = subject.name.map(shown),
                    other_ino = subject.other_node.map(inode_number),
                    to_name = subject.to_name.map(shown),
                    offset = subject.offset,
                    size = subject.size,
                    errno = error.map_or(0, |Errno(number)| number),
                    error = error.map(described),
                    answer,
                    us = self.start.map(|start| start.elapsed().as_micros() as u64),
                    "{}",
                    op::name(request.opcode)
                );
            }};
        }
        match outcome {
            Err(Errno::IO) => log!(Level::ERROR),
            Err(Errno::NOSPC) => log!(Level::WARN),
            _ if self.start.is_some() => log!(Level::DEBUG),
            _ => {}
        }
    }
}

/// A name in quotation marks.
fn shown(name: &[u8]) -> DebugValue<Cow<'_, str>> {
    debug(String::from_utf8_lossy(name))
}

/// The description of an error number.
fn described(Errno(number): Errno) -> DisplayValue<String> {
    display(ffs_device::host_words(std::io::Error::from_raw_os_error(number)))
}

/// The arguments of a request that the trace shows, beside its node.
#[derive(Debug, Default, PartialEq, Eq)]
struct Subject<'a> {
    name: Option<&'a [u8]>,
    /// The directory of `to_name`, or the file that LINK gives a name.
    other_node: Option<u64>,
    to_name: Option<&'a [u8]>,
    offset: Option<u64>,
    size: Option<u64>,
}

impl<'a> Subject<'a> {
    /// Reads the arguments. Those that are missing in a short request stay empty.
    fn of(request: &Request<'a>) -> Subject<'a> {
        let mut subject = Subject::default();
        // The server has already refused a request that is too short.
        let _ = subject.read(request.opcode, request.args());
        subject
    }

    fn read(&mut self, opcode: u32, mut a: Args<'a>) -> Result<(), Errno> {
        match opcode {
            op::LOOKUP | op::UNLINK | op::RMDIR | op::REMOVEXATTR => {}
            op::MKDIR | op::GETXATTR => a.skip(8)?,
            op::MKNOD | op::CREATE => a.skip(16)?,
            op::SYMLINK => {
                self.name = Some(a.string()?);
                self.to_name = Some(a.string()?);
                return Ok(());
            }
            op::LINK => self.other_node = Some(a.u64()?),
            op::RENAME | op::RENAME2 => {
                self.other_node = Some(a.u64()?);
                a.skip(if opcode == op::RENAME2 { 8 } else { 0 })?;
                self.name = Some(a.string()?);
                self.to_name = Some(a.string()?);
                return Ok(());
            }
            op::READ | op::WRITE | op::READDIR | op::READDIRPLUS => {
                a.skip(8)?;
                self.offset = Some(a.u64()?);
                self.size = Some(a.u32()?.into());
                return Ok(());
            }
            op::FALLOCATE => {
                a.skip(8)?;
                self.offset = Some(a.u64()?);
                self.size = Some(a.u64()?);
                return Ok(());
            }
            op::LSEEK => {
                a.skip(8)?;
                self.offset = Some(a.u64()?);
                return Ok(());
            }
            _ => return Ok(()),
        }
        self.name = Some(a.string()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with these arguments.
    fn bytes(opcode: u32, body: &[u8]) -> Vec<u8> {
        let mut b = Vec::new();
        b.extend((40 + body.len() as u32).to_ne_bytes());
        b.extend(opcode.to_ne_bytes());
        b.resize(40, 0);
        b.extend(body);
        b
    }

    #[test]
    fn names_offsets_and_sizes_are_found() {
        let seven = 7u64.to_ne_bytes();
        let rename = [&seven[..], &[0; 8], b"a\0b\0"].concat();
        let request = bytes(op::RENAME2, &rename);
        let subject = Subject::of(&Request::parse(&request).unwrap());
        let expected = Subject {
            name: Some(b"a"),
            other_node: Some(7),
            to_name: Some(b"b"),
            ..Subject::default()
        };
        assert_eq!(subject, expected);
        let read = [&[0; 8][..], &seven, &9u32.to_ne_bytes(), &[0; 20]].concat();
        let request = bytes(op::READ, &read);
        let subject = Subject::of(&Request::parse(&request).unwrap());
        assert_eq!((subject.offset, subject.size, subject.name), (Some(7), Some(9), None));
        let request = bytes(op::MKDIR, &[0; 3]);
        assert_eq!(Subject::of(&Request::parse(&request).unwrap()), Subject::default());
    }
}
