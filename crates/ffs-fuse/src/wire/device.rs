//! The open FUSE device: receives requests, sends replies, performs the handshake.

use super::reply::Reply;
use super::request::{HEADER, Request};
use super::splice::{ReceiveError, SplicePipe, is_no_failure};
use super::{Errno, MAX_IO, MAX_WRITE};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;

/// Features of the protocol. The handshake negotiates them, and the kernel may lack each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Features(pub(crate) u64);

macro_rules! features {
    ($($name:ident = $bit:literal),* $(,)?) => {
        impl Features {
            $(pub(crate) const $name: Features = Features(1 << $bit);)*
        }
    };
}

features! {
    ASYNC_READ = 0,
    ATOMIC_O_TRUNC = 3,
    EXPORT_SUPPORT = 4,
    BIG_WRITES = 5,
    DONT_MASK = 6,
    HAS_IOCTL_DIR = 11,
    DO_READDIRPLUS = 13,
    READDIRPLUS_AUTO = 14,
    ASYNC_DIO = 15,
    WRITEBACK_CACHE = 16,
    NO_OPEN = 17,
    PARALLEL_DIROPS = 18,
    POSIX_ACL = 20,
    MAX_PAGES = 22,
    CACHE_SYMLINKS = 23,
    NO_OPENDIR = 24,
    HANDLE_KILLPRIV_V2 = 28,
    SETXATTR_EXT = 29,
    INIT_EXT = 30,
    OVER_IO_URING = 41,
}

impl Features {
    pub(crate) fn has(self, f: Features) -> bool {
        self.0 & f.0 == f.0
    }

    pub(crate) fn with(self, f: Features) -> Features {
        Features(self.0 | f.0)
    }
}

/// The opcode of the handshake.
const INIT: u32 = 26;
const MAJOR: u32 = 7;
/// The newest minor version whose structures this module implements.
const MINOR: u32 = 42;
/// Linux 5.4. It has everything that this crate uses without a feature bit.
const OLDEST_MINOR: u32 = 31;
const PAGE: usize = 4096;

/// An open `/dev/fuse` that belongs to a mount.
pub(crate) struct Device {
    fd: OwnedFd,
}

/// The outcome of a read from the device.
pub(crate) enum Received {
    /// A request; its length in bytes, without content that stays in a pipe.
    Request(usize),
    /// No request: receive again.
    Again,
    /// The file system was unmounted.
    Unmounted,
}

impl Received {
    /// The outcome of a system call that receives.
    fn of(result: rustix::io::Result<usize>) -> io::Result<Received> {
        use rustix::io::Errno;
        match result {
            Ok(n) => Ok(Received::Request(n)),
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Received::Unmounted),
            Err(e) if is_no_failure(e) => Ok(Received::Again),
            Err(e) => Err(e.into()),
        }
    }
}

impl Device {
    /// Background requests (read-ahead, asynchronous I/O) that the kernel may send at a time.
    pub(crate) const MAX_BACKGROUND: usize = 64;

    pub(crate) fn new(fd: OwnedFd) -> Device {
        Device { fd }
    }

    /// A buffer for requests.
    pub(crate) fn buffer() -> Vec<u8> {
        vec![0; MAX_IO + PAGE]
    }

    /// Waits for a request.
    pub(crate) fn receive(&self, buf: &mut [u8]) -> io::Result<Received> {
        Received::of(rustix::io::read(self.fd.as_fd(), buf))
    }

    /// As [`Device::receive`], but the content of a large write stays in the pipe. It costs more
    /// than [`Device::receive`] for every other request. The caller of a request that is lost with
    /// the pipe gets `EIO`.
    ///
    /// # Errors
    /// The device failed, or a request is lost whose caller cannot be answered.
    pub(crate) fn receive_spliced(
        &self,
        buf: &mut [u8],
        pipe: &mut SplicePipe,
    ) -> io::Result<Received> {
        match pipe.receive(self.fd.as_fd(), buf) {
            Ok(n) => Ok(Received::Request(n)),
            Err(ReceiveError::Device(e)) => Received::of(Err(e)),
            Err(ReceiveError::Lost(Some(unique))) => {
                let mut space = [0; HEADER];
                self.send(Reply::new(&mut space).finish(unique, Err(Errno::IO)));
                Ok(Received::Again)
            }
            Err(ReceiveError::Lost(None)) => {
                Err(io::Error::other("/dev/fuse: a pipe failed and a request is lost"))
            }
        }
    }

    /// Makes [`Device::receive`] return [`Received::Again`] instead of waiting.
    ///
    /// # Errors
    /// The system call failed.
    pub(crate) fn stop_waiting(&self) -> io::Result<()> {
        use rustix::fs::OFlags;
        let flags = rustix::fs::fcntl_getfl(&self.fd)?;
        Ok(rustix::fs::fcntl_setfl(&self.fd, flags | OFlags::NONBLOCK)?)
    }

    /// Waits until a request can be received or the mount has ended.
    pub(crate) fn wait(&self) {
        use rustix::event::{PollFd, PollFlags, poll};
        // A failure, such as an interruption, only makes the next receive come early.
        let _ = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], None);
    }

    /// Whether a request waits to be received.
    pub(crate) fn has_request(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0) && fds[0].revents() == PollFlags::IN
    }

    /// Sends a reply. Returns `false` if its request was interrupted or the mount has ended.
    pub(crate) fn send(&self, answer: &[u8]) -> bool {
        rustix::io::write(self.fd.as_fd(), answer).is_ok()
    }

    /// Answers the kernel's first request. `choose` returns the wanted features, given those that
    /// the kernel has. Returns the wanted ones that the kernel has.
    ///
    /// # Errors
    /// The kernel is too old, or the mount ended before its first request.
    pub(crate) fn handshake(
        &self,
        choose: impl FnOnce(Features) -> Features,
    ) -> io::Result<Features> {
        let mut buf = Device::buffer();
        let n = loop {
            match self.receive(&mut buf)? {
                Received::Request(n) => break n,
                Received::Again => {}
                Received::Unmounted => return Err(io::ErrorKind::NotConnected.into()),
            }
        };
        let bad = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let request = Request::parse(&buf[..n]).ok_or_else(|| bad("short FUSE request"))?;
        if request.opcode != INIT {
            return Err(bad("the FUSE session began without a handshake"));
        }
        let (unique, mut space) = (request.unique, Reply::buffer());
        let mut reply = Reply::new(&mut space);
        let Ok(init) = Init::read(&request) else {
            self.send(reply.finish(unique, Err(Errno(libc::EPROTO))));
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the kernel's FUSE is too old: Linux 5.4 or newer is needed",
            ));
        };
        let agreed = init.answer(choose(init.offered), &mut reply);
        match self.send(reply.finish(unique, Ok(()))) {
            true => Ok(agreed),
            false => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The kernel's first request.
struct Init {
    minor: u32,
    readahead: u32,
    /// The features that the kernel has.
    offered: Features,
}

impl Init {
    fn read(r: &Request<'_>) -> Result<Init, Errno> {
        let mut a = r.args();
        let (major, minor) = (a.u32()?, a.u32()?);
        if major != MAJOR || minor < OLDEST_MINOR {
            return Err(Errno(libc::EPROTO));
        }
        let readahead = a.u32()?;
        let mut offered = Features(u64::from(a.u32()?));
        if offered.has(Features::INIT_EXT) {
            offered.0 |= u64::from(a.u32()?) << 32;
        }
        Ok(Init { minor, readahead, offered })
    }

    /// Fills in the reply. Returns the wanted features that the kernel has.
    fn answer(&self, wanted: Features, out: &mut Reply) -> Features {
        let features = Features(wanted.with(Features::INIT_EXT).0 & self.offered.0);
        out.u32(MAJOR);
        out.u32(self.minor.min(MINOR));
        out.u32(self.readahead.max(MAX_IO as u32));
        out.u32(features.0 as u32);
        out.u16(Device::MAX_BACKGROUND as u16);
        out.u16((Device::MAX_BACKGROUND / 4 * 3) as u16);
        out.u32(MAX_WRITE as u32);
        out.u32(1); // time granularity, ns
        out.u16((MAX_IO / PAGE) as u16);
        out.u16(0);
        out.u32((features.0 >> 32) as u32);
        out.zeros(28);
        features
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(minor: u32, flags: u32) -> Vec<u8> {
        let mut b = Vec::new();
        for v in [40 + 64u32, INIT, 1, 0, 0, 0, 0, 0, 0, 0, 7, minor, 131_072, flags, 1] {
            b.extend(v.to_ne_bytes());
        }
        b.resize(104, 0);
        b
    }

    #[test]
    fn handshake_takes_what_both_sides_have() {
        let b = init(41, (Features::ASYNC_READ.0 | Features::INIT_EXT.0) as u32);
        let init = Init::read(&Request::parse(&b).unwrap()).unwrap();
        let mut space = Reply::buffer();
        let mut out = Reply::new(&mut space);
        let agreed = init.answer(Features::ASYNC_READ.with(Features::POSIX_ACL), &mut out);
        assert!(agreed.has(Features::ASYNC_READ));
        assert!(!agreed.has(Features::POSIX_ACL));
        assert_eq!(out.len(), 64);
        assert_eq!(out.body()[4..8], 41u32.to_ne_bytes());
    }

    #[test]
    fn features_beyond_32_bits_are_negotiated() {
        let ring = Features::OVER_IO_URING;
        let mut b = init(MINOR + 1, Features::INIT_EXT.0 as u32);
        b[56..60].copy_from_slice(&((ring.0 >> 32) as u32).to_ne_bytes());
        let init = Init::read(&Request::parse(&b).unwrap()).unwrap();
        assert!(init.offered.has(ring));
        let mut space = Reply::buffer();
        let mut out = Reply::new(&mut space);
        assert!(init.answer(ring, &mut out).has(ring));
        assert_eq!(out.body()[4..8], MINOR.to_ne_bytes());
        assert_eq!(out.body()[32..36], ((ring.0 >> 32) as u32).to_ne_bytes());
        out.start();
        assert!(!init.answer(Features::default(), &mut out).has(ring));
        assert_eq!(out.body()[32..36], [0; 4]);
    }

    #[test]
    fn an_old_kernel_is_refused() {
        let b = init(30, 0);
        let r = Request::parse(&b).unwrap();
        assert_eq!(Init::read(&r).err(), Some(Errno(libc::EPROTO)));
    }
}
