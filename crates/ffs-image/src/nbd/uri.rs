//! The URI of an export.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The port that IANA assigned to NBD.
const PORT: u16 = 10809;

/// Where the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A host and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// An export of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Uri {
    pub place: Place,
    pub export: String,
}

/// Reads `nbd://HOST[:PORT][/EXPORT]` and `nbd+unix:///[EXPORT]?socket=PATH`.
pub(super) fn parse(uri: &OsStr) -> Result<Uri, String> {
    let bytes = uri.as_bytes();
    if let Some(rest) = bytes.strip_prefix(b"nbd+unix://") {
        let slash = rest.iter().position(|&byte| byte == b'/');
        if slash != Some(0) {
            return Err("a Unix socket has no host".to_owned());
        }
        let (path, query) = split_at_byte(&rest[1..], b'?');
        let socket = query.unwrap_or(b"").split(|&byte| byte == b'&');
        let socket = socket.filter_map(|pair| pair.strip_prefix(b"socket=")).next();
        let socket = decode(socket.filter(|path| !path.is_empty()).ok_or("no socket is named")?)?;
        let place = Place::Unix(PathBuf::from(OsString::from_vec(socket)));
        return Ok(Uri { place, export: text(path)? });
    }
    let Some(rest) = bytes.strip_prefix(b"nbd://") else {
        return Err("only nbd and nbd+unix are supported; for TLS run a proxy without TLS, such \
                    as nbdkit nbd"
            .to_owned());
    };
    let (authority, path) = split_at_byte(rest, b'/');
    let (path, query) = split_at_byte(path.unwrap_or(b""), b'?');
    if query.is_some_and(|query| !query.is_empty()) {
        return Err("a TCP server takes no parameters".to_owned());
    }
    let (host, port) = host_and_port(&text(authority)?)?;
    Ok(Uri { place: Place::Tcp(host, port), export: text(path)? })
}

fn host_and_port(authority: &str) -> Result<(String, u16), String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(inside) => {
            let (host, rest) = inside.split_once(']').ok_or("the bracket is not closed")?;
            (host, rest.strip_prefix(':'))
        }
        None => match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.contains('@') {
        return Err("a user name is not supported".to_owned());
    }
    let host = if host.is_empty() { "localhost" } else { host };
    let port = match port.filter(|port| !port.is_empty()) {
        Some(port) => port.parse().map_err(|_| format!("{port} is no port"))?,
        None => PORT,
    };
    Ok((host.to_owned(), port))
}

/// What is before the first `byte`, and what is behind it.
fn split_at_byte(bytes: &[u8], byte: u8) -> (&[u8], Option<&[u8]>) {
    match bytes.iter().position(|&found| found == byte) {
        Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
        None => (bytes, None),
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(decode(bytes)?).map_err(|_| "a name is not UTF-8".to_owned())
}

/// Replaces `%XX`.
fn decode(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        out.push(byte.ok_or("% is not followed by two hexadecimal digits")?);
        rest = &tail[2..];
    }
    Ok(out)
}

/// A path as the value of a parameter: all but letters, digits and `/._-` becomes `%XX`.
pub(super) fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'_' | b'-' => text.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn tcp(host: &str, port: u16, export: &str) -> Result<Uri, String> {
        Ok(Uri { place: Place::Tcp(host.into(), port), export: export.into() })
    }

    #[test]
    fn an_encoded_path_is_read_back() {
        let path = Path::new("/run/a b%&?#ü.sock");
        let read = parse(OsStr::new(&format!("nbd+unix:///?socket={}", encoded(path))));
        assert_eq!(read.unwrap().place, Place::Unix(path.to_owned()));
        assert_eq!(encoded(Path::new("/run/a-b_1.sock")), "/run/a-b_1.sock");
    }

    #[test]
    fn uris_are_read() {
        let read = |text: &str| parse(OsStr::new(text));
        assert_eq!(read("nbd://host"), tcp("host", 10809, ""));
        assert_eq!(read("nbd://host:99/a/b%20c"), tcp("host", 99, "a/b c"));
        assert_eq!(read("nbd://[::1]:7/x"), tcp("::1", 7, "x"));
        assert_eq!(read("nbd:///x"), tcp("localhost", 10809, "x"));
        let unix = Uri { place: Place::Unix("/run/a b.sock".into()), export: "e".into() };
        assert_eq!(read("nbd+unix:///e?socket=/run/a%20b.sock"), Ok(unix));
        for wrong in [
            "nbds://host",
            "nbd://host:port/",
            "nbd://[::1",
            "nbd+unix:///e",
            "nbd+unix://host/e?socket=/x",
            "nbd://h/%4",
            "nbd://h/%zz",
            "nbd://h/%ff",
            "nbd://u@h/",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
