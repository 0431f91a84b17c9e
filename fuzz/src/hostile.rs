//! Archives whose names lead out of the tree: `..`, absolute paths, links to directories outside,
//! names in extended headers.

use crate::streams::Stream;

const BLOCK: usize = 512;

/// A file beside the target of an extraction, and its content.
pub(crate) const OUTSIDE: (&[u8], &[u8], &[u8]) = (b"outside", b"secret", b"not to be changed");

/// Three archives, and the byte offsets of their headers.
pub(crate) fn archives() -> [Stream; 3] {
    [paths(), links(), extended()]
}

/// Names that lead out.
fn paths() -> Stream {
    let mut archive = Archive::default();
    for name in [
        "../outside/secret",
        "/outside/secret",
        "./../outside",
        "a/../../outside/new",
        "..",
        "/",
        "",
        "a//b/./c",
        "a/..",
    ] {
        archive.member(name, b'0', "", b"changed");
        archive.member(name, b'5', "", b"");
    }
    archive.member(&"n".repeat(100), b'0', "", b"no end of the name");
    archive.end()
}

/// Links that lead out, and names behind them.
fn links() -> Stream {
    let mut archive = Archive::default();
    archive.member("up", b'2', "../outside", b"");
    archive.member("up/secret", b'0', "", b"changed");
    archive.member("up/new", b'5', "", b"");
    archive.member("up", b'5', "", b"");
    archive.member("up/secret", b'1', "../outside/secret", b"");
    archive.member("name", b'1', "up/secret", b"");
    archive.member("name", b'1', "../outside/secret", b"");
    archive.member("name", b'0', "", b"changed");
    archive.member("top", b'2', "/", b"");
    archive.member("top/outside/secret", b'0', "", b"changed");
    archive.member("dir", b'5', "", b"");
    archive.member("dir/file", b'0', "", b"first");
    archive.member("dir", b'2', "../outside", b"");
    archive.member("dir/secret", b'0', "", b"changed");
    archive.member("null", b'3', "", b"");
    archive.member("pipe", b'6', "", b"");
    archive.end()
}

/// Names in headers of pax and of GNU.
fn extended() -> Stream {
    let mut archive = Archive::default();
    for (key, value) in [
        ("path", "../outside/secret"),
        ("path", "/outside/secret"),
        ("path", "a/../../outside/new"),
        ("linkpath", "../outside/secret"),
        ("size", "99999999999999999999"),
        ("GNU.sparse.name", "../outside/secret"),
        ("SCHILY.xattr.user.name", "value"),
        ("mtime", "-1.5"),
    ] {
        archive.member("pax", b'x', "", record(key, value).as_bytes());
        let kind = if key == "linkpath" { b'1' } else { b'0' };
        archive.member("short", kind, "short", b"changed");
    }
    archive.member("pax", b'g', "", record("path", "../outside/secret").as_bytes());
    archive.member("short", b'0', "", b"changed");
    archive.member("././@LongLink", b'L', "", b"../outside/secret\0");
    archive.member("short", b'0', "", b"changed");
    archive.member("././@LongLink", b'K', "", b"../outside/secret\0");
    archive.member("other", b'1', "", b"");
    archive.member("other", b'0', "", b"changed");
    archive.end()
}

/// A record of pax, with its length in front.
fn record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut len = rest.len() + 1;
    while len.to_string().len() + rest.len() != len {
        len += 1;
    }
    format!("{len}{rest}")
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    headers: Vec<usize>,
}

impl Archive {
    fn member(&mut self, name: &str, kind: u8, link: &str, content: &[u8]) {
        let mut header = [0; BLOCK];
        let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
        put(0, name.as_bytes());
        put(100, b"0000644\0");
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{:011o}\0", content.len()).as_bytes());
        put(136, b"07346545000\0");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        put(329, b"0000001\0");
        put(337, b"0000003\0");
        crate::archives::seal(&mut header);
        self.headers.push(self.bytes.len());
        self.bytes.extend(header);
        self.bytes.extend(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
    }

    fn end(mut self) -> Stream {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        (self.bytes, self.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_their_length() {
        for (key, value) in [("path", "a"), ("path", ""), ("mtime", "-1.5"), ("a", "b")] {
            let record = record(key, value);
            let len: usize = record.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(len, record.len(), "{record}");
        }
    }
}
