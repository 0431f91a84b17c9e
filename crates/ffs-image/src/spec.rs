//! The text that names an image: `IMAGE` or the URI of an NBD export, perhaps with `@N`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ffs_device::partition::Pick;

/// Schemes of URIs that name an image.
const SCHEMES: [&[u8]; 5] =
    [b"nbd://", b"nbd+unix://", b"nbds://", b"nbds+unix://", b"nbd+vsock://"];

/// Whether `spec` is a URI and not the name of a file.
#[must_use]
pub fn is_uri(spec: &OsStr) -> bool {
    scheme_len(spec.as_bytes()).is_some()
}

fn scheme_len(bytes: &[u8]) -> Option<usize> {
    SCHEMES.iter().find(|scheme| bytes.starts_with(scheme)).map(|scheme| scheme.len())
}

/// Splits a URI from the path inside the image that follows it: the first `:/` or `:#` behind the
/// scheme separates, or a `:` at the end. `None` if `arg` is no URI, or has no path.
#[must_use]
pub fn split_uri(arg: &OsStr) -> Option<(&OsStr, &[u8])> {
    let bytes = arg.as_bytes();
    let start = scheme_len(bytes)?;
    let separates = |two: &[u8]| two == b":/" || two == b":#";
    let colon = bytes[start..].windows(2).position(separates).map(|at| start + at);
    match colon {
        Some(at) => Some((OsStr::from_bytes(&bytes[..at]), &bytes[at + 1..])),
        None => bytes.strip_suffix(b":").map(|uri| (OsStr::from_bytes(uri), b"/".as_slice())),
    }
}

/// Splits `IMAGE@N`. If a file with that whole name exists, the name is not split.
pub(crate) fn parse(spec: &OsStr) -> (PathBuf, Pick) {
    let whole = (PathBuf::from(spec), Pick::Auto);
    let bytes = spec.as_bytes();
    // In a URI the part in front of the path may have an `@` of its own.
    let first = match scheme_len(bytes) {
        Some(start) => match bytes[start..].iter().position(|&byte| byte == b'/') {
            Some(at) => start + at,
            None => return whole,
        },
        None => 0,
    };
    let Some(at) = bytes.iter().rposition(|&byte| byte == b'@').filter(|&at| at > first) else {
        return whole;
    };
    let suffix = match std::str::from_utf8(&bytes[at + 1..]) {
        Ok(suffix) if !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            suffix
        }
        _ => return whole,
    };
    if Path::new(spec).exists() {
        return whole;
    }
    let pick = match suffix.parse() {
        Ok(0) => Pick::Whole,
        Ok(number) => Pick::Number(number),
        Err(_) => Pick::Name(suffix.to_owned()),
    };
    (PathBuf::from(OsString::from_vec(bytes[..at].to_vec())), pick)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn specs_are_split() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img").into_os_string().into_string().unwrap();
        std::fs::write(&path, b"").unwrap();
        let numbered = format!("{path}@1");
        let split = |spec: &str| parse(OsStr::new(spec));
        assert_eq!(split(&path), (path.clone().into(), Pick::Auto));
        assert_eq!(split(&numbered), (path.clone().into(), Pick::Number(1)));
        assert_eq!(split(&format!("{path}@s1a")), (path.clone().into(), Pick::Name("s1a".into())));
        assert_eq!(split(&format!("{path}@0")), (path.into(), Pick::Whole));
        for plain in ["@1", "a@", "user@host/disk", "a@-1", "nbd://user@host"] {
            assert_eq!(split(plain), (plain.into(), Pick::Auto));
        }
        assert_eq!(split("nbd://h/e@2"), ("nbd://h/e".into(), Pick::Number(2)));
        assert_eq!(
            split("nbd+unix:///?socket=/run/a@p3"),
            ("nbd+unix:///?socket=/run/a".into(), Pick::Name("p3".into()))
        );
        std::fs::write(&numbered, b"").unwrap();
        assert_eq!(
            split(&numbered),
            (numbered.into(), Pick::Auto),
            "an existing file of that name"
        );
    }

    #[test]
    fn paths_follow_uris() {
        let split = |arg: &'static str| {
            split_uri(OsStr::new(arg)).map(|(uri, path)| (uri.to_str().unwrap(), path))
        };
        assert_eq!(split("nbd://h:10809/e:/etc"), Some(("nbd://h:10809/e", b"/etc".as_slice())));
        assert_eq!(split("nbd://h:/etc:/x"), Some(("nbd://h", b"/etc:/x".as_slice())));
        let unix = "nbd+unix:///?socket=/run/a";
        assert_eq!(split("nbd+unix:///?socket=/run/a:"), Some((unix, b"/".as_slice())));
        assert_eq!(split("nbd+unix:///?socket=/run/a:#2"), Some((unix, b"#2".as_slice())));
        assert_eq!(split("nbd+unix:///?socket=/run/a@2"), None);
        assert_eq!(split("disk.img:/etc"), None);
        assert!(is_uri(OsStr::new(unix)) && !is_uri(OsStr::new("nbd:/x")));
    }
}
