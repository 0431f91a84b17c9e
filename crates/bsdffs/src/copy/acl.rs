//! Access control lists during a copy.
//!
//! **Invariant.** A copy without its ACL gets a narrower mode: no user has more rights on the
//! copy than on the source.

use ffs_core::acl::{Acl, Entry, Who, linux};
use ffs_ondisk::{Endian, acl};

/// Mode bits of the owner, and those above them.
const OWNER_ONLY: u16 = 0o7700;

/// The access control lists of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acls {
    /// The access ACL, if it has more than the three entries that a mode represents.
    pub access: Option<PosixAcl>,
    /// The default ACL of a directory.
    pub default: Option<PosixAcl>,
    /// The NFSv4 ACL.
    pub nfs4: Option<Nfs4Acl>,
}

/// A POSIX.1e ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PosixAcl {
    /// Its entries, which are valid together.
    Entries(Vec<Entry>),
    /// The source has an ACL that cannot be read or is not valid.
    Invalid,
}

/// An NFSv4 ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nfs4Acl {
    /// Its bytes on a little-endian volume.
    Bytes(Vec<u8>),
    /// The source has an ACL that cannot be read or is not valid.
    Invalid,
}

impl PosixAcl {
    /// The ACL with these entries; [`PosixAcl::Invalid`] if there are none or they are not valid.
    pub(crate) fn from_entries(entries: Option<Vec<Entry>>) -> PosixAcl {
        match entries.filter(|entries| acl::problem(entries).is_none()) {
            Some(entries) => PosixAcl::Entries(entries),
            None => PosixAcl::Invalid,
        }
    }

    /// The ACL in the value of Linux's extended attribute.
    pub(crate) fn from_linux(value: &[u8]) -> PosixAcl {
        PosixAcl::from_entries(linux::decode(value).ok())
    }

    /// The ACL in the text of an archive:
    /// `user::rwx,user:me:r-x:1001,group::r-x,mask::r-x,other::r-x`, or one entry a line. Names are
    /// not looked up: an entry without a number is not valid.
    pub(crate) fn from_text(text: &[u8]) -> PosixAcl {
        let text = std::str::from_utf8(text).ok();
        PosixAcl::from_entries(text.and_then(|text| {
            let lines = text.split([',', '\n']);
            // The effective rights may follow as a comment.
            let entries = lines.map(|line| line.split('#').next().unwrap_or(line).trim());
            entries.filter(|entry| !entry.is_empty()).map(entry).collect()
        }))
    }

    /// Entries as the text of an archive, with numbers in place of names.
    pub(crate) fn to_text(&self) -> Option<String> {
        let entries: Vec<String> = self.entries()?.iter().map(entry_text).collect();
        Some(entries.join(","))
    }

    /// The list of a file with the mode `perm`. On a volume the mode is in force, and the stored
    /// list may be older.
    pub(crate) fn with_mode(self, perm: u16) -> PosixAcl {
        let PosixAcl::Entries(entries) = self else { return self };
        match Acl::new(entries) {
            Ok(mut acl) => {
                acl.set_mode(perm);
                PosixAcl::Entries(acl.entries().to_vec())
            }
            Err(_) => PosixAcl::Invalid,
        }
    }

    /// Whether it has more entries than a mode represents.
    pub(crate) fn exceeds_mode(&self) -> bool {
        match self {
            PosixAcl::Entries(entries) => entries.len() > 3,
            PosixAcl::Invalid => true,
        }
    }

    /// The entries of a valid ACL.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match self {
            PosixAcl::Entries(entries) => Some(entries),
            PosixAcl::Invalid => None,
        }
    }
}

impl Nfs4Acl {
    /// The ACL with these bytes on a volume of this byte order.
    pub(crate) fn from_disk(endian: Endian, bytes: &[u8]) -> Nfs4Acl {
        match acl::nfs4_swapped(endian, Endian::Little, bytes) {
            Some(bytes) => Nfs4Acl::Bytes(bytes),
            None => Nfs4Acl::Invalid,
        }
    }

    /// The bytes on a volume of this byte order.
    pub(crate) fn to_disk(&self, endian: Endian) -> Option<Vec<u8>> {
        match self {
            Nfs4Acl::Bytes(bytes) => acl::nfs4_swapped(Endian::Little, endian, bytes),
            Nfs4Acl::Invalid => None,
        }
    }
}

impl Acls {
    /// The mode for a copy without any of the ACLs of a file with the mode `perm`.
    #[must_use]
    pub fn mode_without(&self, perm: u16) -> u16 {
        if self.nfs4.is_some() {
            return perm & OWNER_ONLY;
        }
        match &self.access {
            None => perm,
            Some(PosixAcl::Entries(entries)) => acl::mode_without(entries, perm),
            Some(PosixAcl::Invalid) => perm & OWNER_ONLY,
        }
    }
}

fn entry_text(entry: &Entry) -> String {
    let who = match entry.who {
        Who::UserObj => "user:".to_owned(),
        Who::User(id) => format!("user:{id}"),
        Who::GroupObj => "group:".to_owned(),
        Who::Group(id) => format!("group:{id}"),
        Who::Mask => "mask:".to_owned(),
        Who::Other => "other:".to_owned(),
    };
    let right = |bit, letter| if entry.perm & bit != 0 { letter } else { '-' };
    format!("{who}:{}{}{}", right(4, 'r'), right(2, 'w'), right(1, 'x'))
}

/// Parses one entry of an archive's text.
fn entry(text: &str) -> Option<Entry> {
    let mut fields = text.split(':');
    let (tag, name) = (fields.next()?, fields.next()?);
    let (second, third) = (fields.next(), fields.next());
    // "mask:rwx" and "other:rwx" omit the empty name.
    let (name, rights) = match (tag, second) {
        ("mask" | "m" | "other" | "o", None) => ("", name),
        (_, rights) => (name, rights?),
    };
    let id = || third.filter(|id| !id.is_empty()).unwrap_or(name).trim().parse().ok();
    let who = match (tag, name.is_empty()) {
        ("user" | "u", true) => Who::UserObj,
        ("user" | "u", false) => Who::User(id()?),
        ("group" | "g", true) => Who::GroupObj,
        ("group" | "g", false) => Who::Group(id()?),
        ("mask" | "m", true) => Who::Mask,
        ("other" | "o", true) => Who::Other,
        _ => return None,
    };
    let mut perm = 0;
    for right in rights.trim().chars() {
        perm |= match right {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            '-' => 0,
            _ => return None,
        };
    }
    Some(Entry { who, perm })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acls_of_archives_are_parsed() {
        let wanted = [
            (Who::UserObj, 7),
            (Who::User(1001), 5),
            (Who::GroupObj, 4),
            (Who::Group(7), 6),
            (Who::Mask, 4),
            (Who::Other, 0),
        ]
        .map(|(who, perm)| Entry { who, perm })
        .to_vec();
        for text in [
            "user::rwx,user:me:r-x:1001,group::r--,group:us:rw-:7,mask::r--,other::---",
            "user::rwx\nuser:1001:r-x\t#effective:r--\ngroup::r--\n\
             group:7:rw-\nmask::r--\nother::---\n",
            "u::rwx,u:1001:rx,g::r,g:7:rw,m:r--,o:---",
        ] {
            let read = PosixAcl::from_text(text.as_bytes());
            assert_eq!(read, PosixAcl::Entries(wanted.clone()), "{text}");
        }
        for bad in [
            "",
            "user::rwx,user:me:r-x,group::r--,mask::r--,other::---",
            "user::rwx,group::r--,user:1:r--,other::---",
            "user::rwz,group::r--,other::---",
            "owner@:rwx::allow",
        ] {
            assert_eq!(PosixAcl::from_text(bad.as_bytes()), PosixAcl::Invalid, "{bad}");
        }
    }

    #[test]
    fn an_invalid_acl_leaves_rights_to_the_owner_only() {
        let invalid = Acls { access: Some(PosixAcl::Invalid), ..Acls::default() };
        assert_eq!(invalid.mode_without(0o4755), 0o4700);
        let nfs4 = Acls { nfs4: Some(Nfs4Acl::Invalid), ..Acls::default() };
        assert_eq!(nfs4.mode_without(0o644), 0o600);
        assert_eq!(Acls::default().mode_without(0o644), 0o644);
    }
}
