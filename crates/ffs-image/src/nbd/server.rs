//! A server that exports one device.
//!
//! **Invariants.**
//! 1. A request takes at most [`MAX_PAYLOAD`] bytes of memory, even if it names a greater length.
//! 2. A flush that was answered covers every write that was answered before it, on any connection.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ffs_device::BlockDevice;
use rustix::io::Errno;

use super::uri;
use super::{
    CAN_MULTI_CONN, CMD_DISC, CMD_FLUSH, CMD_READ, CMD_TRIM, CMD_WRITE, CMD_WRITE_ZEROES, EINVAL,
    EIO, ENOSPC, EPERM, FIXED_NEWSTYLE, FLAG_FUA, HAS_FLAGS, INFO_BLOCK_SIZE, INFO_EXPORT, MAGIC,
    MAX_NAME, MAX_PAYLOAD, NO_ZEROES, OPT_ABORT, OPT_EXPORT_NAME, OPT_GO, OPT_INFO, OPT_LIST,
    OPTION_MAGIC, OPTION_REPLY_MAGIC, READ_ONLY, REP_ACK, REP_ERR_INVALID, REP_ERR_UNKNOWN,
    REP_ERR_UNSUP, REP_INFO, REP_SERVER, REPLY_MAGIC, REQUEST_MAGIC, SEND_FLUSH, SEND_FUA,
    SEND_TRIM, SEND_WRITE_ZEROES, be16, be32, be64,
};

/// Most connections at one time.
const MAX_CONNECTIONS: usize = 64;
/// Zeros are written in pieces of this size.
const ZEROES: usize = 1 << 20;
/// Most bytes of data of one option.
const MAX_OPTION: u32 = 64 << 10;
/// Size of transfers that a client should prefer.
const PREFERRED: u32 = 4096;

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// A listening server.
pub struct Server {
    listener: Listener,
    device: Arc<dyn BlockDevice>,
    connections: Arc<AtomicUsize>,
}

/// The end of one connection's use.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Server {
    /// Listens at the socket `path`, which must not exist. It is removed when the server is
    /// dropped.
    ///
    /// # Errors
    /// The system's error.
    pub fn at_socket(path: &Path, device: Arc<dyn BlockDevice>) -> io::Result<Server> {
        let listener = UnixListener::bind(path)?;
        // A client may run in another directory.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let listener = Listener::Unix(listener, path);
        Ok(Server { listener, device, connections: Arc::default() })
    }

    /// Listens at `address`, such as `127.0.0.1:10809`.
    ///
    /// # Errors
    /// The system's error.
    pub fn at_address(address: &str, device: Arc<dyn BlockDevice>) -> io::Result<Server> {
        let listener = Listener::Tcp(TcpListener::bind(address)?);
        Ok(Server { listener, device, connections: Arc::default() })
    }

    /// The URI under which clients reach it.
    #[must_use]
    pub fn uri(&self) -> String {
        match &self.listener {
            Listener::Unix(_, path) => format!("nbd+unix:///?socket={}", uri::encoded(path)),
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("nbd://{address}"),
                Err(_) => "nbd://".to_owned(),
            },
        }
    }

    /// The listening socket: readable when a client wants to connect.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.listener {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
        }
    }

    /// Number of clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// Accepts one connection, and serves it in a thread of its own.
    ///
    /// # Errors
    /// The system's error.
    pub fn accept(&self) -> io::Result<()> {
        match &self.listener {
            Listener::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                self.start(stream, TcpStream::try_clone)
            }
            Listener::Unix(listener, _) => self.start(listener.accept()?.0, UnixStream::try_clone),
        }
    }

    fn start<S: Read + Write + Send + 'static>(
        &self,
        stream: S,
        clone: fn(&S) -> io::Result<S>,
    ) -> io::Result<()> {
        if self.connections.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS {
            drop(Place(Arc::clone(&self.connections)));
            return Ok(());
        }
        let place = Place(Arc::clone(&self.connections));
        let device = Arc::clone(&self.device);
        let mut writer = clone(&stream)?;
        let mut reader = io::BufReader::new(stream);
        std::thread::Builder::new().name("nbd".to_owned()).spawn(move || {
            let _place = place;
            // A client that goes away without a word only ends its own connection.
            let _ = serve_connection(&mut reader, &mut writer, &*device);
        })?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = &self.listener {
            // If it stays, the next server's message names it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Serves one client until it leaves.
///
/// # Errors
/// The connection failed, or the client does not follow the protocol.
pub fn serve_connection(
    reader: &mut impl Read,
    writer: &mut impl Write,
    device: &dyn BlockDevice,
) -> io::Result<()> {
    writer.write_all(&MAGIC.to_be_bytes())?;
    writer.write_all(&OPTION_MAGIC.to_be_bytes())?;
    writer.write_all(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes())?;
    writer.flush()?;
    let mut flags = [0; 4];
    reader.read_exact(&mut flags)?;
    let no_zeroes = be32(&flags, 0) & u32::from(NO_ZEROES) != 0;
    if negotiate(reader, writer, device, no_zeroes)? {
        transmit(reader, writer, device)?;
    }
    Ok(())
}

fn invalid<T>(why: &'static str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Answers options. Returns whether the client chose the export.
fn negotiate(
    reader: &mut impl Read,
    writer: &mut impl Write,
    device: &dyn BlockDevice,
    no_zeroes: bool,
) -> io::Result<bool> {
    loop {
        let mut head = [0; 16];
        reader.read_exact(&mut head)?;
        let (option, len) = (be32(&head, 8), be32(&head, 12));
        if be64(&head, 0) != OPTION_MAGIC || len > MAX_OPTION {
            return invalid("an option");
        }
        let mut data = vec![0; len as usize];
        reader.read_exact(&mut data)?;
        match option {
            OPT_EXPORT_NAME => {
                if !data.is_empty() {
                    return invalid("the name of an export");
                }
                let mut answer = device.len_bytes().to_be_bytes().to_vec();
                answer.extend(flags_of(device).to_be_bytes());
                answer.resize(if no_zeroes { 10 } else { 134 }, 0);
                writer.write_all(&answer)?;
                writer.flush()?;
                return Ok(true);
            }
            OPT_ABORT => {
                answer(writer, option, REP_ACK, &[])?;
                return Ok(false);
            }
            OPT_LIST if data.is_empty() => {
                // One export, whose name is empty.
                answer(writer, option, REP_SERVER, &0u32.to_be_bytes())?;
                answer(writer, option, REP_ACK, &[])?;
            }
            OPT_GO | OPT_INFO => {
                if describe(writer, option, &data, device)? && option == OPT_GO {
                    return Ok(true);
                }
            }
            OPT_LIST => answer(writer, option, REP_ERR_INVALID, &[])?,
            _ => answer(writer, option, REP_ERR_UNSUP, &[])?,
        }
    }
}

/// Answers `NBD_OPT_INFO` or `NBD_OPT_GO`. Returns whether the export exists.
fn describe(
    writer: &mut impl Write,
    option: u32,
    data: &[u8],
    device: &dyn BlockDevice,
) -> io::Result<bool> {
    let name = be32(data, 0) as usize;
    let fits = name <= MAX_NAME && data.len() >= name + 6;
    if !fits || data.len() != name + 6 + 2 * usize::from(be16(data, name + 4)) {
        answer(writer, option, REP_ERR_INVALID, &[])?;
        return Ok(false);
    }
    if name > 0 {
        answer(writer, option, REP_ERR_UNKNOWN, b"the only export has an empty name")?;
        return Ok(false);
    }
    let mut export = INFO_EXPORT.to_be_bytes().to_vec();
    export.extend(device.len_bytes().to_be_bytes());
    export.extend(flags_of(device).to_be_bytes());
    answer(writer, option, REP_INFO, &export)?;
    let mut sizes = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
    for size in [1, PREFERRED, MAX_PAYLOAD] {
        sizes.extend(size.to_be_bytes());
    }
    answer(writer, option, REP_INFO, &sizes)?;
    answer(writer, option, REP_ACK, &[])?;
    Ok(true)
}

fn flags_of(device: &dyn BlockDevice) -> u16 {
    let both = HAS_FLAGS | SEND_FLUSH | CAN_MULTI_CONN;
    match device.is_read_only() {
        true => both | READ_ONLY,
        false => both | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES,
    }
}

fn answer(writer: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut message = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    message.extend(option.to_be_bytes());
    message.extend(kind.to_be_bytes());
    message.extend((data.len() as u32).to_be_bytes());
    message.extend(data);
    writer.write_all(&message)?;
    writer.flush()
}

/// A request of the transmission phase.
struct Request {
    flags: u16,
    command: u16,
    at: u64,
    len: u32,
}

fn transmit(
    reader: &mut impl Read,
    writer: &mut impl Write,
    device: &dyn BlockDevice,
) -> io::Result<()> {
    let mut data = Vec::new();
    loop {
        let mut head = [0; 28];
        reader.read_exact(&mut head)?;
        if be32(&head, 0) != REQUEST_MAGIC {
            return invalid("a request");
        }
        let request = Request {
            flags: be16(&head, 4),
            command: be16(&head, 6),
            at: be64(&head, 16),
            len: be32(&head, 24),
        };
        let has_data = matches!(request.command, CMD_READ | CMD_WRITE);
        if has_data && request.len > MAX_PAYLOAD {
            // The data of such a write cannot be skipped in reasonable time.
            return invalid("a request of this size");
        }
        data.resize(if has_data { request.len as usize } else { 0 }, 0);
        if request.command == CMD_WRITE {
            reader.read_exact(&mut data)?;
        }
        if request.command == CMD_DISC {
            return Ok(());
        }
        let error = execute(&request, &mut data, device).err().unwrap_or(0);
        let mut reply = REPLY_MAGIC.to_be_bytes().to_vec();
        reply.extend(error.to_be_bytes());
        reply.extend(&head[8..16]);
        writer.write_all(&reply)?;
        if request.command == CMD_READ && error == 0 {
            writer.write_all(&data)?;
        }
        writer.flush()?;
    }
}

/// Executes a request on the device; the error is a number of the protocol.
fn execute(request: &Request, data: &mut [u8], device: &dyn BlockDevice) -> Result<(), u32> {
    let &Request { flags, command, at, len } = request;
    let number = |error: ffs_device::DeviceError| match Errno::from_raw_os_error(error.errno()) {
        Errno::NOSPC => ENOSPC,
        Errno::INVAL => EINVAL,
        Errno::ROFS | Errno::PERM | Errno::ACCESS => EPERM,
        _ => EIO,
    };
    let changes = matches!(command, CMD_WRITE | CMD_TRIM | CMD_WRITE_ZEROES);
    if changes && device.is_read_only() {
        return Err(EPERM);
    }
    match command {
        CMD_READ => device.read_at(at, data),
        CMD_WRITE => device.write_at(at, data),
        CMD_TRIM => device.discard(at, len.into()),
        CMD_WRITE_ZEROES => write_zeroes(device, at, len.into()),
        CMD_FLUSH => device.flush(),
        _ => return Err(EINVAL),
    }
    .map_err(number)?;
    if changes && flags & FLAG_FUA != 0 {
        device.flush().map_err(number)?;
    }
    Ok(())
}

fn write_zeroes(
    device: &dyn BlockDevice,
    at: u64,
    len: u64,
) -> Result<(), ffs_device::DeviceError> {
    let zeros = vec![0; ZEROES.min(usize::try_from(len).unwrap_or(ZEROES))];
    let (mut done, all) = (0, len);
    while done < all {
        let take = (all - done).min(ZEROES as u64);
        device.write_at(at.saturating_add(done), &zeros[..take as usize])?;
        done += take;
    }
    Ok(())
}
