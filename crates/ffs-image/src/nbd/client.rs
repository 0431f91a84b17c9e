//! An export of a server as a block device.
//!
//! **Locking.** One lock on the connection, held from a request to its reply.

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ffs_device::error::{check_range, check_writable};
use ffs_device::{BlockDevice, DeviceError, Durability, FailedFlush, Operation, host_words};
use rustix::net::{SendFlags, sockopt};

use super::handshake::{self, Export, Failed};
use super::uri::{self, Place};
use super::{
    CMD_DISC, CMD_FLUSH, CMD_READ, CMD_TRIM, CMD_WRITE, NbdError, READ_ONLY, REPLY_MAGIC,
    REQUEST_MAGIC, SEND_FLUSH, SEND_TRIM, be32, be64,
};
use crate::image::DiskImage;
use crate::magic::Format;

/// How long a server may take to accept a connection and to answer in the negotiation.
const PATIENCE: Duration = Duration::from_secs(20);
/// Silence after which the system checks whether the host of the server is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Most bytes of one request; larger transfers are divided.
const PIECE: u32 = 4 << 20;

/// A connection.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buf),
            Stream::Unix(stream) => stream.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(buf),
            Stream::Unix(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

/// The state behind the lock.
#[derive(Debug)]
struct Connection {
    stream: Stream,
    cookie: u64,
    /// Why the connection cannot be used any more.
    broken: Option<String>,
}

/// The export of an NBD server.
#[derive(Debug)]
pub struct NbdDevice {
    name: Arc<str>,
    export: Export,
    read_only: bool,
    connection: Mutex<Connection>,
    failed_flush: FailedFlush,
}

impl NbdDevice {
    /// Connects to the export that `uri` names, for writing too if `write`.
    ///
    /// # Errors
    /// The URI is wrong, the server cannot be reached or refuses, or the export is read-only.
    pub fn open(uri: &OsStr, write: bool) -> Result<NbdDevice, NbdError> {
        let name = uri.to_string_lossy().into_owned();
        let parsed = uri::parse(uri);
        let parsed = parsed.map_err(|why| NbdError::Uri { uri: name.clone(), why })?;
        let stream = match &parsed.place {
            Place::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Place::Tcp(host, port) => connect(host, *port).map(Stream::Tcp),
        };
        let stream = stream.map_err(|source| NbdError::Connect { uri: name.clone(), source })?;
        Self::over(stream, &name, &parsed.export, write)
    }

    /// Connects to the export without a name at the socket `path`; `name` is for messages.
    pub(crate) fn at_socket(path: &Path, name: &str, write: bool) -> Result<NbdDevice, NbdError> {
        let stream = UnixStream::connect(path).map(Stream::Unix);
        let stream = stream.map_err(|source| NbdError::Connect { uri: name.to_owned(), source })?;
        Self::over(stream, name, "", write)
    }

    fn over(stream: Stream, uri: &str, export: &str, write: bool) -> Result<NbdDevice, NbdError> {
        let mut stream = stream;
        let failed = |failed: Failed| NbdError::Refused {
            uri: uri.to_owned(),
            why: match failed {
                Failed::Refused(why) => why,
                Failed::Io(error) => format!("the negotiation failed: {}", broken_by(&error)),
            },
        };
        let timeout = |stream: &Stream, time| {
            let receive = sockopt::Timeout::Recv;
            sockopt::set_socket_timeout(stream, receive, time)
                .map_err(|e| failed(Failed::Io(e.into())))
        };
        timeout(&stream, Some(PATIENCE))?;
        let export = handshake::start(&mut stream, export).map_err(failed)?;
        // A disk may be slow for any time; a lost host is found by keepalive.
        timeout(&stream, None)?;
        if write && export.flags & READ_ONLY != 0 {
            return Err(NbdError::ReadOnly { uri: uri.to_owned() });
        }
        let connection = Connection { stream, cookie: 0, broken: None };
        Ok(NbdDevice {
            name: Arc::from(uri),
            export,
            read_only: !write,
            connection: Mutex::new(connection),
            failed_flush: FailedFlush::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, operation: Operation, at: u64, len: u64, source: io::Error) -> DeviceError {
        DeviceError::at(&self.name, operation, at, len, source)
    }

    /// Calls `each` for the pieces of the range, in units of the server: the place, and the range
    /// of the caller's buffer. Fails as `operation`.
    fn pieces(
        &self,
        operation: Operation,
        offset: u64,
        len: usize,
        mut each: impl FnMut(u64, std::ops::Range<usize>) -> io::Result<()>,
    ) -> Result<(), DeviceError> {
        let most = PIECE.min(self.export.max_block) as usize;
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            // The remainder is less than the smallest block, 64 KiB at most.
            let within = (at % u64::from(self.export.min_block)) as usize;
            let take = (most - within).min(len - done);
            each(at, done..done + take)
                .map_err(|source| self.failed(operation, offset, len as u64, source))?;
            done += take;
        }
        Ok(())
    }

    /// The range of whole blocks of the server around `len` bytes at `at`: its start and length.
    fn around(&self, at: u64, len: usize) -> (u64, usize) {
        let block = u64::from(self.export.min_block);
        let start = at - at % block;
        let end = (at + len as u64).next_multiple_of(block).min(self.export.size);
        // At most a piece and two blocks.
        (start, (end - start) as usize)
    }
}

/// Connects to one of the addresses of `host`.
fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                sockopt::set_socket_keepalive(&stream, true)?;
                // Without this the system waits for two hours.
                let _ = sockopt::set_tcp_keepidle(&stream, KEEPALIVE);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Words for the end of a connection.
fn broken_by(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "the server does not answer".to_owned()
        }
        _ => host_words(error),
    }
}

impl Connection {
    /// Sends a request and waits for its reply; `into` receives the data of a read.
    fn call(
        &mut self,
        command: u16,
        at: u64,
        len: u32,
        data: &[u8],
        into: &mut [u8],
    ) -> io::Result<()> {
        if let Some(why) = &self.broken {
            return Err(io::Error::other(format!("the connection to the server was lost: {why}")));
        }
        match self.exchange(command, at, len, data, into) {
            Ok(0) => Ok(()),
            Ok(error) => Err(server_error(error)),
            Err(error) => {
                let why = broken_by(&error);
                self.broken = Some(why.clone());
                Err(io::Error::other(format!("the connection to the server was lost: {why}")))
            }
        }
    }

    /// One request and its reply: the server's error, 0 for none.
    fn exchange(
        &mut self,
        command: u16,
        at: u64,
        len: u32,
        data: &[u8],
        into: &mut [u8],
    ) -> io::Result<u32> {
        self.cookie = self.cookie.wrapping_add(1);
        let mut head = Vec::with_capacity(28);
        head.extend(REQUEST_MAGIC.to_be_bytes());
        head.extend(0u16.to_be_bytes());
        head.extend(command.to_be_bytes());
        head.extend(self.cookie.to_be_bytes());
        head.extend(at.to_be_bytes());
        head.extend(len.to_be_bytes());
        send_all(&self.stream, &head)?;
        send_all(&self.stream, data)?;
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        if be32(&reply, 0) != REPLY_MAGIC || be64(&reply, 8) != self.cookie {
            return Err(io::Error::other("the server sent an invalid reply"));
        }
        let error = be32(&reply, 4);
        if error == 0 {
            self.stream.read_exact(into)?;
        }
        Ok(error)
    }
}

/// A closed connection is an error, and no SIGPIPE. Apple's systems have no such flag; there
/// programs in Rust ignore the signal unless they change that.
#[cfg(not(target_vendor = "apple"))]
const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const SEND_FLAGS: SendFlags = SendFlags::empty();

/// Sends all of `data`.
fn send_all(stream: &Stream, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        match rustix::net::send(stream, data, SEND_FLAGS) {
            Ok(sent) => data = &data[sent..],
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// The error that a server reported. The protocol's numbers are those of Linux.
fn server_error(number: u32) -> io::Error {
    use rustix::io::Errno;
    let errno = match number {
        super::EPERM => Errno::PERM,
        super::ENOSPC => Errno::NOSPC,
        super::EINVAL => Errno::INVAL,
        12 => Errno::NOMEM,
        95 => Errno::OPNOTSUPP,
        108 => Errno::SHUTDOWN,
        _ => Errno::IO,
    };
    errno.into()
}

impl BlockDevice for NbdDevice {
    fn len_bytes(&self) -> u64 {
        self.export.size
    }

    fn sector_size(&self) -> u32 {
        if self.export.min_block >= 4096 { 4096 } else { 512 }
    }

    fn durability(&self) -> Durability {
        Durability::OnFlush
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        check_range(&self.name, self.export.size, Operation::Read, offset, buf.len() as u64)?;
        self.pieces(Operation::Read, offset, buf.len(), |at, range| {
            let (start, len) = self.around(at, range.len());
            let buf = &mut buf[range];
            if len == buf.len() {
                return self.lock().call(CMD_READ, start, len as u32, &[], buf);
            }
            let mut whole = vec![0; len];
            self.lock().call(CMD_READ, start, len as u32, &[], &mut whole)?;
            let within = (at - start) as usize;
            buf.copy_from_slice(&whole[within..within + buf.len()]);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let length = buf.len() as u64;
        check_writable(&self.name, self.read_only, Operation::Write, offset, length)?;
        check_range(&self.name, self.export.size, Operation::Write, offset, length)?;
        self.pieces(Operation::Write, offset, buf.len(), |at, range| {
            let (start, len) = self.around(at, range.len());
            let buf = &buf[range];
            let mut connection = self.lock();
            if len == buf.len() {
                return connection.call(CMD_WRITE, start, len as u32, buf, &mut []);
            }
            let mut whole = vec![0; len];
            connection.call(CMD_READ, start, len as u32, &[], &mut whole)?;
            let within = (at - start) as usize;
            whole[within..within + buf.len()].copy_from_slice(buf);
            connection.call(CMD_WRITE, start, len as u32, &whole, &mut [])
        })
    }

    // One request for all buffers: each costs a round trip.

    fn read_vectored_at(
        &self,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        let mut whole = vec![0; bufs.iter().map(|buf| buf.len()).sum()];
        self.read_at(offset, &mut whole)?;
        let mut rest = whole.as_slice();
        for buf in bufs {
            let (part, tail) = rest.split_at(buf.len());
            buf.copy_from_slice(part);
            rest = tail;
        }
        Ok(())
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        let mut whole = Vec::with_capacity(bufs.iter().map(|buf| buf.len()).sum());
        bufs.iter().for_each(|buf| whole.extend_from_slice(buf));
        self.write_at(offset, &whole)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if self.read_only || self.export.flags & SEND_FLUSH == 0 {
            return Ok(());
        }
        let mut connection = self.lock();
        self.failed_flush.guard(&self.name, || {
            let flushed = connection.call(CMD_FLUSH, 0, 0, &[], &mut []);
            flushed.map_err(|source| self.failed(Operation::Flush, 0, 0, source))
        })
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_writable(&self.name, self.read_only, Operation::Discard, offset, len)?;
        check_range(&self.name, self.export.size, Operation::Discard, offset, len)?;
        let block = u64::from(self.export.min_block);
        let (mut at, end) = (offset.next_multiple_of(block), (offset + len) / block * block);
        if self.export.flags & SEND_TRIM == 0 {
            return Ok(());
        }
        while at < end {
            let take = (end - at).min(1 << 30);
            self.lock()
                .call(CMD_TRIM, at, take as u32, &[], &mut [])
                .map_err(|source| self.failed(Operation::Discard, offset, len, source))?;
            at += take;
        }
        Ok(())
    }
}

impl DiskImage for NbdDevice {
    fn format(&self) -> Format {
        Format::Nbd
    }
}

impl Drop for NbdDevice {
    fn drop(&mut self) {
        let connection = self.connection.get_mut().unwrap_or_else(PoisonError::into_inner);
        if connection.broken.is_none() {
            // The server also accepts a connection that is closed.
            let _ = connection.disconnect();
        }
    }
}

impl Connection {
    fn disconnect(&mut self) -> io::Result<()> {
        let mut head = REQUEST_MAGIC.to_be_bytes().to_vec();
        head.extend([0, 0]);
        head.extend(CMD_DISC.to_be_bytes());
        head.extend([0; 20]);
        send_all(&self.stream, &head)
    }
}
