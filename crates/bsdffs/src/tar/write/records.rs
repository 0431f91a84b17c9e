//! Extended headers to write: records `LENGTH KEY=VALUE`.
//!
//! **Invariant.** Attributes have the names that GNU tar reads: `SCHILY.xattr` with `%` and `=` as
//! `%25` and `%3D`, and with the bytes of the value. bsdtar does not decode these, so such an
//! attribute has a second record as bsdtar writes it: `LIBARCHIVE.xattr`, percent-encoded, with the
//! value in base 64. bsdtar extracts both, as from its own archives.

use ffs_core::{Timespec, linux_xattr};

use crate::copy::{EntryMeta, PosixAcl};
use crate::flags;

/// Records of one extended header.
#[derive(Default)]
pub(super) struct Records(Vec<u8>);

impl Records {
    /// Adds a record.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        // Space, equals sign, newline.
        let body = key.len() + value.len() + 3;
        let mut len = body + 1;
        while len != body + len.to_string().len() {
            len = body + len.to_string().len();
        }
        self.0.extend_from_slice(len.to_string().as_bytes());
        for part in [b" ", key, b"=", value, b"\n"] {
            self.0.extend_from_slice(part);
        }
    }

    /// Adds a record with a number.
    pub(super) fn number(&mut self, key: &str, value: u64) {
        self.add(key.as_bytes(), value.to_string().as_bytes());
    }

    /// Adds a record with a time: seconds with a decimal fraction.
    pub(super) fn time(&mut self, key: &str, at: Timespec) {
        self.add(key.as_bytes(), decimal(at).as_bytes());
    }

    /// Adds a comment with a record of a time, which other programs do not read.
    pub(super) fn comment_time(&mut self, key: &str, at: Timespec) {
        self.add(b"comment", format!("{key}={}", decimal(at)).as_bytes());
    }

    /// Adds the file flags, access lists and extended attributes of a file.
    pub(super) fn attributes(&mut self, meta: &EntryMeta) {
        if !meta.flags.is_empty() {
            self.add(b"SCHILY.fflags", flags::to_text(meta.flags).as_bytes());
        }
        let acls = [("access", &meta.acls.access), ("default", &meta.acls.default)];
        for (kind, acl) in acls {
            if let Some(text) = acl.as_ref().and_then(PosixAcl::to_text) {
                self.add(format!("SCHILY.acl.{kind}").as_bytes(), text.as_bytes());
            }
        }
        for attr in &meta.xattrs {
            let name = linux_xattr::to_linux(attr.namespace, &attr.name);
            let is_reserved = |byte| b"=%".contains(&byte);
            let key = encoded(&name, is_reserved);
            self.add(&[&b"SCHILY.xattr."[..], &key].concat(), &attr.value);
            if key != name {
                let key = encoded(&name, |byte| !byte.is_ascii_graphic() || is_reserved(byte));
                let key = [&b"LIBARCHIVE.xattr."[..], &key].concat();
                self.add(&key, &base64(&attr.value));
            }
        }
    }

    /// The records, unless there are none.
    pub(super) fn into_bytes(self) -> Option<Vec<u8>> {
        Some(self.0).filter(|bytes| !bytes.is_empty())
    }
}

/// A time as decimal seconds. Before 1970 the fraction counts backwards, as in `-1.5`.
fn decimal(at: Timespec) -> String {
    let nanos = i128::from(at.secs) * 1_000_000_000 + i128::from(at.nsec);
    let sign = if nanos < 0 { "-" } else { "" };
    let (secs, nsec) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    let text = format!("{sign}{secs}.{nsec:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Encodes the bytes for which `must` is true as `%XX`.
fn encoded(name: &[u8], must: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 8);
    for &byte in name {
        if must(byte) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    out
}

/// Base 64 without padding, as libarchive writes it.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..=group.len() {
            out.push(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::super::pax::Pax;
    use super::*;
    use crate::copy::{Acls, Xattr};
    use ffs_core::acl::{Entry, Who};
    use ffs_core::{FileFlags, XattrNamespace};

    #[test]
    fn lengths_include_their_own_digits() {
        for len in 0..1200 {
            let mut records = Records::default();
            records.add(b"k", &vec![b'x'; len]);
            let bytes = records.into_bytes().unwrap();
            let space = bytes.iter().position(|&byte| byte == b' ').unwrap();
            let stated: usize = std::str::from_utf8(&bytes[..space]).unwrap().parse().unwrap();
            assert_eq!(stated, bytes.len());
        }
    }

    #[test]
    fn times_are_decimal() {
        let at = |secs, nsec| decimal(Timespec { secs, nsec });
        assert_eq!(at(5, 0), "5");
        assert_eq!(at(50, 120_000_000), "50.12");
        assert_eq!(at(-2, 500_000_000), "-1.5");
        assert_eq!(at(-1, 500_000_000), "-0.5");
        assert_eq!(at(0, 0), "0");
        assert_eq!(at(i64::MIN, 0), i64::MIN.to_string());
    }

    #[test]
    fn attributes_are_read_back() {
        let entry = |who, perm| Entry { who, perm };
        let acl = PosixAcl::from_entries(Some(vec![
            entry(Who::UserObj, 7),
            entry(Who::User(1001), 5),
            entry(Who::GroupObj, 4),
            entry(Who::Group(7), 6),
            entry(Who::Mask, 4),
            entry(Who::Other, 0),
        ]));
        let xattr = |namespace, name: &[u8], value: &[u8]| Xattr {
            namespace,
            name: name.to_vec(),
            value: value.to_vec(),
        };
        let mut meta = EntryMeta {
            flags: FileFlags::UF_IMMUTABLE | FileFlags::UF_NODUMP,
            acls: Acls { access: Some(acl.clone()), default: Some(acl), nfs4: None },
            xattrs: vec![
                xattr(XattrNamespace::User, b"note", b"a\nb=c\0"),
                xattr(XattrNamespace::User, b"a=b%20 \xff", &[0, 1, 2, 3, 255]),
                xattr(XattrNamespace::User, b"empty", b""),
                xattr(XattrNamespace::System, b"security.capability", b"\x01"),
                xattr(XattrNamespace::System, b"other", b"x"),
            ],
            ..EntryMeta::default()
        };
        meta.sort_xattrs();
        let mut records = Records::default();
        records.attributes(&meta);
        let bytes = records.into_bytes().unwrap();
        for key in [&b" SCHILY.xattr.user.a%3Db%2520 \xff="[..], b" LIBARCHIVE.xattr.user.a%3D"] {
            assert!(bytes.windows(key.len()).any(|part| part == key), "{}", key.escape_ascii());
        }
        let mut pax = Pax::default();
        pax.read(&bytes).unwrap();
        assert_eq!((pax.flags, pax.acls), (meta.flags, meta.acls));
        let read = pax.xattrs.into_iter();
        let read = read.map(|((namespace, name), value)| Xattr { namespace, name, value });
        assert_eq!(read.collect::<Vec<_>>(), meta.xattrs);
    }
}
