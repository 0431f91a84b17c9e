//! NBD, the network block device protocol: a client that is a block device, and a server.
//!
//! The client speaks the fixed newstyle negotiation with `NBD_OPT_GO`, or `NBD_OPT_EXPORT_NAME` for
//! old servers, and simple replies. One request is in flight at a time.
//!
//! **Invariants.**
//! 1. Numbers from the other side are checked before use: a reply or a request has a bounded size.
//! 2. After the connection has failed, every later operation fails: it is unknown what was written.
//!
//! **References.** The NBD project's `doc/proto.md` and `doc/uri.md`.

mod client;
mod handshake;
mod server;
mod uri;

use std::io;

use crate::bytes::{be16, be32, be64};

pub use client::NbdDevice;
pub use handshake::{Export, negotiate};
pub use server::{Server, serve_connection};

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OLD_MAGIC: u64 = 0x0000_4202_8186_1253;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// Handshake flags, the same bits in both directions.
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

const OPT_EXPORT_NAME: u32 = 1;
const OPT_ABORT: u32 = 2;
const OPT_LIST: u32 = 3;
const OPT_INFO: u32 = 6;
const OPT_GO: u32 = 7;

const REP_ACK: u32 = 1;
const REP_SERVER: u32 = 2;
const REP_INFO: u32 = 3;
const REP_ERR_UNSUP: u32 = 0x8000_0001;
const REP_ERR_POLICY: u32 = 0x8000_0002;
const REP_ERR_INVALID: u32 = 0x8000_0003;
const REP_ERR_TLS_REQD: u32 = 0x8000_0005;
const REP_ERR_UNKNOWN: u32 = 0x8000_0006;

const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

/// Transmission flags.
const HAS_FLAGS: u16 = 1;
const READ_ONLY: u16 = 1 << 1;
const SEND_FLUSH: u16 = 1 << 2;
const SEND_FUA: u16 = 1 << 3;
const SEND_TRIM: u16 = 1 << 5;
const SEND_WRITE_ZEROES: u16 = 1 << 6;
const CAN_MULTI_CONN: u16 = 1 << 8;

const CMD_READ: u16 = 0;
const CMD_WRITE: u16 = 1;
const CMD_DISC: u16 = 2;
const CMD_FLUSH: u16 = 3;
const CMD_TRIM: u16 = 4;
const CMD_WRITE_ZEROES: u16 = 6;

/// Command flag: durable on return.
const FLAG_FUA: u16 = 1;

/// Errors of the protocol, which have the numbers of Linux.
const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

/// Largest transfer in one request: what every server accepts.
const MAX_PAYLOAD: u32 = 32 << 20;
/// Longest name of an export.
const MAX_NAME: usize = 4096;

/// Why an export cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The URI is wrong.
    #[error("{uri}: {why}; write nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH")]
    Uri {
        /// The URI.
        uri: String,
        /// What is wrong.
        why: String,
    },
    /// The server cannot be reached.
    #[error(
        "{uri}: cannot connect: {}; check that the server runs",
        ffs_device::host_words(.source)
    )]
    Connect {
        /// The URI.
        uri: String,
        /// The cause.
        source: io::Error,
    },
    /// The server refused, or does not speak the protocol.
    #[error("{uri}: {why}")]
    Refused {
        /// The URI.
        uri: String,
        /// The reason.
        why: String,
    },
    /// The export is read-only, and was to be changed.
    #[error("{uri}: the server exports it read-only, so it cannot be changed")]
    ReadOnly {
        /// The URI.
        uri: String,
    },
}

impl NbdError {
    /// The error number for a system-call interface.
    #[must_use]
    pub fn errno(&self) -> i32 {
        use rustix::io::Errno;
        match self {
            NbdError::Uri { .. } => Errno::INVAL.raw_os_error(),
            NbdError::Connect { source, .. } => {
                source.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
            }
            NbdError::Refused { .. } => Errno::IO.raw_os_error(),
            NbdError::ReadOnly { .. } => Errno::ROFS.raw_os_error(),
        }
    }
}
