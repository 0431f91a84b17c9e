//! Extended headers: records `LENGTH KEY=VALUE`.

use std::collections::BTreeMap;

use ffs_core::{FileFlags, Timespec, XattrNamespace, linux_xattr};

use crate::copy::{Acls, Loss, Nfs4Acl, PosixAcl, loss_of_attribute};
use crate::flags;
use crate::text::escape;

/// The record with the birth time, as bsdtar writes it.
pub(super) const CREATION_TIME: &str = "LIBARCHIVE.creationtime";

/// The fields of a member from extended headers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pax {
    pub path: Option<Vec<u8>>,
    pub linkpath: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub mtime: Option<Timespec>,
    pub atime: Option<Timespec>,
    pub birthtime: Option<Timespec>,
    pub devmajor: Option<u32>,
    pub devminor: Option<u32>,
    pub flags: FileFlags,
    /// Extended attributes by name space and name.
    pub xattrs: BTreeMap<(XattrNamespace, Vec<u8>), Vec<u8>>,
    /// ACLs.
    pub acls: Acls,
    /// Attributes that UFS cannot store.
    pub lost: Vec<Loss>,
    pub sparse: PaxSparse,
}

/// The records `GNU.sparse.*`.
#[derive(Debug, Clone, Default)]
pub(crate) struct PaxSparse {
    pub major: Option<u64>,
    pub minor: Option<u64>,
    pub name: Option<Vec<u8>>,
    pub size: Option<u64>,
    /// The map of versions 0.1 and 0.0: offsets and lengths in turn, bytes.
    pub map: Option<Vec<u64>>,
}

/// What to do with an attribute that the member already has.
#[derive(Clone, Copy)]
enum Duplicate {
    Replace,
    Keep,
}

impl Pax {
    /// Adds the records of one extended header.
    ///
    /// # Errors
    /// The header is malformed.
    pub(crate) fn read(&mut self, mut text: &[u8]) -> Result<(), String> {
        let bad = || "an extended header is malformed: the archive is damaged".to_owned();
        while !text.is_empty() && text[0] != 0 {
            let space = text.iter().position(|&byte| byte == b' ').ok_or_else(bad)?;
            let len: usize = ascii(&text[..space]).ok_or_else(bad)?;
            let record = text.get(space + 1..len).ok_or_else(bad)?;
            let record = record.strip_suffix(b"\n").ok_or_else(bad)?;
            let equals = record.iter().position(|&byte| byte == b'=').ok_or_else(bad)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            self.record(key, value).ok_or_else(|| {
                let key = escape(key);
                format!("an extended header's {key} cannot be read: the archive is damaged")
            })?;
            text = &text[len..];
        }
        Ok(())
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        // An empty value removes that of a global header.
        let given = !value.is_empty();
        match key {
            b"path" => self.path = given.then(|| value.to_vec()),
            b"linkpath" => self.linkpath = given.then(|| value.to_vec()),
            b"size" => self.size = optional(value)?,
            b"uid" => self.uid = optional(value)?,
            b"gid" => self.gid = optional(value)?,
            b"mtime" => self.mtime = optional_time(value)?,
            b"atime" => self.atime = optional_time(value)?,
            b"comment" => {
                let time = value.strip_prefix(CREATION_TIME.as_bytes());
                if let Some(time) = time.and_then(|time| time.strip_prefix(b"=")) {
                    self.birthtime = optional_time(time)?;
                }
            }
            _ if key == CREATION_TIME.as_bytes() => self.birthtime = optional_time(value)?,
            b"SCHILY.devmajor" => self.devmajor = optional(value)?,
            b"SCHILY.devminor" => self.devminor = optional(value)?,
            b"SCHILY.fflags" => {
                let text = std::str::from_utf8(value).ok()?;
                self.flags = flags::from_text(text).unwrap_or_default();
            }
            _ if key.starts_with(b"GNU.sparse.") => self.sparse.record(&key[11..], value)?,
            _ => self.attribute(key, value)?,
        }
        Some(())
    }

    fn attribute(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            // GNU tar and bsdtar encode some bytes.
            self.xattr(&percent(name), value.to_vec(), Duplicate::Replace);
        } else if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
            // bsdtar writes the same attribute as SCHILY.xattr, which has priority.
            self.xattr(&percent(name), base64(value)?, Duplicate::Keep);
        } else if let Some(kind) = key.strip_prefix(b"SCHILY.acl.") {
            let given = !value.is_empty();
            match kind {
                b"access" => self.acls.access = given.then(|| PosixAcl::from_text(value)),
                b"default" => self.acls.default = given.then(|| PosixAcl::from_text(value)),
                // An NFSv4 ACL as text, which is not parsed.
                _ => self.acls.nfs4 = given.then_some(Nfs4Acl::Invalid),
            }
        } else if key.starts_with(b"RHT.security.") {
            self.lost.push(Loss::SecurityXattr);
        }
        Some(())
    }

    fn xattr(&mut self, full: &[u8], value: Vec<u8>, duplicate: Duplicate) {
        let (namespace, name) = if let Some(split) = linux_xattr::from_linux(full) {
            split
        } else if let Some(name) = full.strip_prefix(b"system.") {
            // The name space of FreeBSD; on Linux it has the ACLs.
            match name {
                b"posix_acl_access" => self.acls.access = Some(PosixAcl::from_linux(&value)),
                b"posix_acl_default" => self.acls.default = Some(PosixAcl::from_linux(&value)),
                // The byte order of the volume is unknown; the archive has the ACL as text, too.
                b"posix1e.acl_access" | b"posix1e.acl_default" | b"nfs4.acl" => {}
                _ => {
                    self.add_xattr((XattrNamespace::System, name.to_vec()), value, duplicate);
                }
            }
            return;
        } else {
            self.lost.push(loss_of_attribute(full));
            return;
        };
        self.add_xattr((namespace, name.to_vec()), value, duplicate);
    }

    fn add_xattr(&mut self, key: (XattrNamespace, Vec<u8>), value: Vec<u8>, duplicate: Duplicate) {
        match duplicate {
            Duplicate::Replace => {
                self.xattrs.insert(key, value);
            }
            Duplicate::Keep => {
                self.xattrs.entry(key).or_insert(value);
            }
        }
    }
}

impl PaxSparse {
    fn record(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"major" => self.major = optional(value)?,
            b"minor" => self.minor = optional(value)?,
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.size = optional(value)?,
            b"map" => {
                let numbers = value.split(|&byte| byte == b',').filter(|n| !n.is_empty());
                self.map = Some(numbers.map(ascii).collect::<Option<_>>()?);
            }
            b"numblocks" => self.map = Some(Vec::new()),
            b"offset" | b"numbytes" => self.map.get_or_insert_default().push(ascii(value)?),
            _ => {}
        }
        Some(())
    }
}

fn ascii<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn optional<T: std::str::FromStr>(text: &[u8]) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { ascii(text).map(Some) }
}

fn optional_time(text: &[u8]) -> Option<Option<Timespec>> {
    if text.is_empty() { Some(None) } else { time(text).map(Some) }
}

/// Seconds with a decimal fraction.
fn time(text: &[u8]) -> Option<Timespec> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let negative = whole.starts_with('-');
    let mut secs: i64 = whole.parse().ok()?;
    let mut nsec: i32 = 0;
    for at in 0..9 {
        let digit = fraction.as_bytes().get(at).copied().unwrap_or(b'0');
        nsec = nsec * 10 + i32::from(digit.checked_sub(b'0').filter(|&digit| digit < 10)?);
    }
    if negative && nsec > 0 {
        // Nanoseconds count forward from the second before.
        secs = secs.checked_sub(1)?;
        nsec = 1_000_000_000 - nsec;
    }
    Some(Timespec { secs, nsec })
}

/// Decodes `%XX`.
fn percent(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        let code = tail.get(..2).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|hex| std::str::from_utf8(hex).ok());
        match code.filter(|_| *byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                rest = &tail[2..];
            }
            None => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
    out
}

/// Decodes base 64 as libarchive writes it: without padding, possibly with line ends.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0);
    for &byte in text.iter().filter(|byte| !b"=\n\r".contains(byte)) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &str, value: &[u8]) -> Vec<u8> {
        let body = key.len() + value.len() + 3;
        let mut len = body + 1;
        while len != body + len.to_string().len() {
            len += 1;
        }
        [format!("{len} {key}=").as_bytes(), value, b"\n"].concat()
    }

    #[test]
    fn records_are_read() {
        let mut text = line("path", "gr\u{fc}n/x".as_bytes());
        text.extend(line("mtime", b"1234.000000007"));
        text.extend(line("atime", b"-1.5"));
        text.extend(line("uid", b"4000000000"));
        text.extend(line("SCHILY.xattr.user.note", b"a\nb=c\0"));
        text.extend(line("LIBARCHIVE.xattr.user.note", b"eA"));
        text.extend(line("LIBARCHIVE.xattr.user.a%20b", b"eHl6"));
        text.extend(line("SCHILY.xattr.user.a%25b%3D", b"one"));
        text.extend(line("SCHILY.xattr.user.a%+5%", b"two"));
        text.extend(line("SCHILY.fflags", b"uchg,nodump"));
        let mut pax = Pax::default();
        pax.read(&text).unwrap();
        assert_eq!(pax.path.as_deref(), Some("gr\u{fc}n/x".as_bytes()));
        assert_eq!(pax.mtime, Some(Timespec { secs: 1234, nsec: 7 }));
        assert_eq!(pax.atime, Some(Timespec { secs: -2, nsec: 500_000_000 }));
        assert_eq!(pax.uid, Some(4_000_000_000));
        let user = |name: &[u8]| pax.xattrs.get(&(XattrNamespace::User, name.to_vec())).cloned();
        assert_eq!(user(b"note"), Some(b"a\nb=c\0".to_vec()));
        assert_eq!(user(b"a b"), Some(b"xyz".to_vec()));
        assert_eq!(user(b"a%b="), Some(b"one".to_vec()));
        assert_eq!(user(b"a%+5%"), Some(b"two".to_vec()));
        assert_eq!(pax.flags, FileFlags::UF_IMMUTABLE | FileFlags::UF_NODUMP);
    }

    #[test]
    fn malformed_records_are_refused() {
        for bad in
            [&b"x"[..], b"99 path=a\n", b"9 path=ab", b"5 ab\n", b"12 size=abc\n", b"0 a=b\n"]
        {
            assert!(Pax::default().read(bad).is_err(), "{}", bad.escape_ascii());
        }
    }
}
