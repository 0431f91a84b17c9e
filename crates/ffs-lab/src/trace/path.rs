//! Paths of a trace, relative to its root.
//!
//! # Invariants
//! 1. A path has at least one name; no name is empty, `.` or `..`, has a slash or a NUL, or more
//!    than 255 bytes.
//! 2. A path has at most [`MOST_DEPTH`] names.

/// The most names of a path.
pub const MOST_DEPTH: usize = 256;
/// The longest name, bytes.
const MOST_NAME: usize = 255;

/// A path; the empty one is the root, where a call may name it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TracePath(Vec<u8>);

impl std::fmt::Debug for TracePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl TracePath {
    /// The root.
    #[must_use]
    pub fn root() -> TracePath {
        TracePath::default()
    }

    /// A path of names with slashes between them. The empty text is the root.
    ///
    /// # Errors
    /// The name that cannot be one.
    pub fn parse(bytes: &[u8]) -> Result<TracePath, String> {
        if bytes.is_empty() {
            return Ok(TracePath::root());
        }
        let mut depth = 0;
        for name in bytes.split(|byte| *byte == b'/') {
            check_name(name).map_err(|why| format!("path '{}': {why}", bytes.escape_ascii()))?;
            depth += 1;
        }
        if depth > MOST_DEPTH {
            return Err(format!("a path has {depth} names; expected at most {MOST_DEPTH}"));
        }
        Ok(TracePath(bytes.to_vec()))
    }

    /// The path of `name` in this directory.
    ///
    /// # Errors
    /// The name cannot be one, or the path is too deep.
    pub fn join(&self, name: &[u8]) -> Result<TracePath, String> {
        let mut bytes = self.0.clone();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        if name.is_empty() { Err("a name is empty".to_owned()) } else { TracePath::parse(&bytes) }
    }

    /// Whether it is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The names from the root down.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }

    /// The bytes, with slashes between names.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Refuses a name that no directory can have.
fn check_name(name: &[u8]) -> Result<(), String> {
    match name {
        b"" => Err("a name is empty; expected names with one slash between them".to_owned()),
        b"." | b".." => {
            Err(format!("'{}' is no name; expected a path without it", name.escape_ascii()))
        }
        name if name.contains(&0) => Err("a name has a NUL byte".to_owned()),
        name if name.len() > MOST_NAME => {
            Err(format!("a name has {} bytes; expected at most {MOST_NAME}", name.len()))
        }
        _ => Ok(()),
    }
}

/// The path as text: UTF-8 as it is; other bytes and the backslash as `\xHH`.
#[must_use]
pub fn to_text(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' { out.push_str("\\x5c") } else { out.push(c) }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// The bytes of such a text.
///
/// # Errors
/// A backslash without `xHH`.
pub fn from_text(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((front, back)) = rest.split_once('\\') {
        out.extend_from_slice(front.as_bytes());
        let byte = back.strip_prefix('x').and_then(|digits| digits.get(..2));
        let byte = byte.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.ok_or_else(|| format!("'{text}': expected \\xHH after a backslash"))?);
        rest = &back[3..];
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for wrong in ["/a", "a//b", "a/", "../a", "a/./b", "a\0b", "..", "."] {
            assert!(TracePath::parse(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert!(TracePath::parse("n".repeat(256).as_bytes()).unwrap_err().contains("256 bytes"));
        let deep = vec!["a"; MOST_DEPTH + 1].join("/");
        assert!(TracePath::parse(deep.as_bytes()).unwrap_err().contains("names"));
        let path = TracePath::parse(b"a/..b/c").unwrap();
        assert_eq!(path.names().collect::<Vec<_>>(), [&b"a"[..], b"..b", b"c"]);
        assert!(path.join(b"..").is_err() && path.join(b"d/../e").is_err());
        assert_eq!(TracePath::root().join(b"x").unwrap().bytes(), b"x");
    }

    #[test]
    fn any_bytes_survive_as_text() {
        for bytes in [&b"plain"[..], b"back\\slash", b"\xff\xfe", "gr\u{fc}n".as_bytes(), b"\\x41"]
        {
            assert_eq!(from_text(&to_text(bytes)).unwrap(), bytes);
        }
        for wrong in ["\\", "\\x", "\\x4", "\\y41", "\\xg1", "\\x+1"] {
            assert!(from_text(wrong).unwrap_err().contains("xHH"), "{wrong}");
        }
    }
}
