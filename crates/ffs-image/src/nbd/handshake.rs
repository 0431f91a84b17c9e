//! The client's part of the negotiation: from the server's greeting to the export's size.

use std::io::{self, Read, Write};

use super::{
    FIXED_NEWSTYLE, HAS_FLAGS, INFO_BLOCK_SIZE, INFO_EXPORT, MAGIC, MAX_PAYLOAD, NO_ZEROES,
    OLD_MAGIC, OPT_EXPORT_NAME, OPT_GO, OPT_LIST, OPTION_MAGIC, OPTION_REPLY_MAGIC, REP_ACK,
    REP_ERR_POLICY, REP_ERR_TLS_REQD, REP_ERR_UNKNOWN, REP_ERR_UNSUP, REP_INFO, REP_SERVER, be16,
    be32, be64,
};

/// Most bytes of one reply to an option.
const MAX_REPLY: u32 = 64 << 10;
/// Most replies to one option.
const MAX_REPLIES: usize = 1000;
/// Most names of exports in a message.
const MAX_LISTED: usize = 20;

/// What the server reports about an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// Its size, bytes.
    pub size: u64,
    /// Transmission flags.
    pub flags: u16,
    /// Offsets and lengths of requests are multiples of this.
    pub min_block: u32,
    /// Most bytes of one request.
    pub max_block: u32,
}

/// Why a negotiation failed.
pub(super) enum Failed {
    /// The connection failed.
    Io(io::Error),
    /// The server refused, or does not speak the protocol; for users.
    Refused(String),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Io(error)
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, Failed> {
    Err(Failed::Refused(why.into()))
}

/// Negotiates the use of `export` on a new connection.
///
/// # Errors
/// The reason, for users.
pub fn negotiate(stream: &mut (impl Read + Write), export: &str) -> Result<Export, String> {
    start(stream, export).map_err(|failed| match failed {
        Failed::Io(error) => ffs_device::host_words(error),
        Failed::Refused(why) => why,
    })
}

pub(super) fn start(stream: &mut (impl Read + Write), export: &str) -> Result<Export, Failed> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    let (magic, style, flags) = (be64(&greeting, 0), be64(&greeting, 8), be16(&greeting, 16));
    if magic != MAGIC {
        return refused("the server does not speak NBD");
    }
    if style == OLD_MAGIC || flags & FIXED_NEWSTYLE == 0 {
        return refused("the server speaks an old version of NBD; use one of this century's");
    }
    if style != OPTION_MAGIC {
        return refused("the server does not speak NBD");
    }
    let ours = FIXED_NEWSTYLE | flags & NO_ZEROES;
    stream.write_all(&u32::from(ours).to_be_bytes())?;
    match go(stream, export)? {
        Some(found) => Ok(found),
        None => by_name(stream, export, flags & NO_ZEROES != 0),
    }
}

fn send_option(stream: &mut impl Write, option: u32, data: &[u8]) -> io::Result<()> {
    let mut message = OPTION_MAGIC.to_be_bytes().to_vec();
    message.extend(option.to_be_bytes());
    message.extend((data.len() as u32).to_be_bytes());
    message.extend(data);
    stream.write_all(&message)?;
    stream.flush()
}

/// One reply to `option`: its type and its data.
fn reply(stream: &mut impl Read, option: u32) -> Result<(u32, Vec<u8>), Failed> {
    let mut head = [0; 20];
    stream.read_exact(&mut head)?;
    let (kind, len) = (be32(&head, 12), be32(&head, 16));
    if be64(&head, 0) != OPTION_REPLY_MAGIC || be32(&head, 8) != option || len > MAX_REPLY {
        return refused("the server sent an invalid reply");
    }
    let mut data = vec![0; len as usize];
    stream.read_exact(&mut data)?;
    Ok((kind, data))
}

/// `NBD_OPT_GO`; `None` if the server lacks it.
fn go(stream: &mut (impl Read + Write), export: &str) -> Result<Option<Export>, Failed> {
    let mut data = (export.len() as u32).to_be_bytes().to_vec();
    data.extend(export.as_bytes());
    data.extend(1u16.to_be_bytes());
    data.extend(INFO_BLOCK_SIZE.to_be_bytes());
    send_option(stream, OPT_GO, &data)?;
    let mut found = Export { size: 0, flags: 0, min_block: 1, max_block: MAX_PAYLOAD };
    let mut described = false;
    for _ in 0..MAX_REPLIES {
        let (kind, data) = reply(stream, OPT_GO)?;
        match kind {
            REP_ACK if described => return check(found).map(Some),
            REP_INFO if data.len() >= 2 => match be16(&data, 0) {
                INFO_EXPORT if data.len() >= 12 => {
                    (found.size, found.flags) = (be64(&data, 2), be16(&data, 10));
                    described = true;
                }
                INFO_BLOCK_SIZE if data.len() >= 14 => {
                    (found.min_block, found.max_block) = (be32(&data, 2), be32(&data, 10));
                }
                _ => {}
            },
            REP_ERR_UNSUP => return Ok(None),
            REP_ERR_UNKNOWN => return Err(unknown_export(stream, export)),
            REP_ERR_TLS_REQD => {
                return refused("the server requires TLS, which is not supported");
            }
            REP_ERR_POLICY => return refused(format!("the server refused{}", words(&data))),
            kind if kind & 0x8000_0000 != 0 => {
                return refused(format!("the server reported error {kind:#x}{}", words(&data)));
            }
            _ => break,
        }
    }
    refused("the server sent an invalid reply")
}

/// The server's own message, printable.
fn words(data: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(data).chars().filter(|c| !c.is_control()).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

fn unknown_export(stream: &mut (impl Read + Write), export: &str) -> Failed {
    let names = list(stream).unwrap_or_default();
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let names = if names.is_empty() { "none that it lists".to_owned() } else { names.join(", ") };
    Failed::Refused(format!("the server has no export \"{export}\"; it has {names}"))
}

/// The first names of the server's exports.
fn list(stream: &mut (impl Read + Write)) -> Result<Vec<String>, Failed> {
    send_option(stream, OPT_LIST, &[])?;
    let mut names = Vec::new();
    for _ in 0..MAX_REPLIES {
        let (kind, data) = reply(stream, OPT_LIST)?;
        if kind != REP_SERVER {
            break;
        }
        let len = be32(&data, 0) as usize;
        let name = len.checked_add(4).and_then(|end| data.get(4..end)).unwrap_or(&[]);
        if names.len() < MAX_LISTED {
            names.push(String::from_utf8_lossy(name).escape_debug().to_string());
        }
    }
    Ok(names)
}

/// `NBD_OPT_EXPORT_NAME`, to which a server answers with the export or closes the connection.
fn by_name(
    stream: &mut (impl Read + Write),
    export: &str,
    no_zeroes: bool,
) -> Result<Export, Failed> {
    send_option(stream, OPT_EXPORT_NAME, export.as_bytes())?;
    let mut answer = [0; 134];
    let answer = &mut answer[..if no_zeroes { 10 } else { 134 }];
    if stream.read_exact(answer).is_err() {
        return refused(format!("the server has no export \"{export}\""));
    }
    let (size, flags) = (be64(answer, 0), be16(answer, 8));
    check(Export { size, flags, min_block: 1, max_block: MAX_PAYLOAD })
}

fn check(export: Export) -> Result<Export, Failed> {
    let Export { size, flags, min_block, max_block } = export;
    if flags & HAS_FLAGS == 0 {
        return refused("the server sent no flags");
    }
    // A device of the host has at most 2^63 - 1 bytes.
    if i64::try_from(size).is_err() {
        return refused(format!("the server reports a size of {size} bytes"));
    }
    if !min_block.is_power_of_two() || min_block > 64 << 10 || max_block < min_block {
        return refused(format!("the server reports blocks of {min_block} to {max_block} bytes"));
    }
    let max_block = max_block.min(MAX_PAYLOAD);
    Ok(Export { max_block: max_block - max_block % min_block, ..export })
}
