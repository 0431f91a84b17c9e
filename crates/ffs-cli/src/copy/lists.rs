//! Access lists on their way: as the source has them, and the mode of a file that loses them.
//!
//! **Invariant.** A list that is not kept narrows the mode: nobody may do more to the copy than to the
//! source.

use ffs_core::acl::{Entry, Who, linux};
use ffs_ondisk::{Endian, acl};

/// Mode bits of the owner, and those above them.
const OWNER_ONLY: u16 = 0o7700;

/// The access lists of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    /// The access list, if it says more than the mode.
    pub access: Option<AccessList>,
    /// The default list of a directory.
    pub default: Option<AccessList>,
    /// The NFSv4 list, in the form of a little-endian volume.
    pub nfs4: Option<Nfs4List>,
}

/// A POSIX.1e list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccessList {
    /// Its entries, which obey the rules.
    Entries(Vec<Entry>),
    /// There is one that cannot be understood.
    Unclear,
}

/// An NFSv4 list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nfs4List {
    /// Its bytes on a little-endian volume.
    Bytes(Vec<u8>),
    /// There is one that cannot be understood.
    Unclear,
}

impl AccessList {
    /// A list with these entries, if there is one at all.
    pub(crate) fn of(entries: Option<Vec<Entry>>) -> AccessList {
        match entries.filter(|entries| acl::problem(entries).is_none()) {
            Some(entries) => AccessList::Entries(entries),
            None => AccessList::Unclear,
        }
    }

    /// From the value of Linux's attribute.
    pub(crate) fn from_linux(value: &[u8]) -> AccessList {
        AccessList::of(linux::decode(value).ok())
    }

    /// From the text of an archive: "user::rwx,user:me:r-x:1001,group::r-x,mask::r-x,other::r-x", or one
    /// entry a line. Names count for nothing: an entry without a number is unclear.
    pub(crate) fn from_text(text: &[u8]) -> AccessList {
        let text = std::str::from_utf8(text).ok();
        AccessList::of(text.and_then(|text| {
            let lines = text.split([',', '\n']);
            // What the entry comes to below the mask may follow it.
            let entries = lines.map(|line| line.split('#').next().unwrap_or(line).trim());
            entries.filter(|entry| !entry.is_empty()).map(entry).collect()
        }))
    }

    /// Whether it says more than a mode can.
    pub(crate) fn says_more(&self) -> bool {
        match self {
            AccessList::Entries(entries) => entries.len() > 3,
            AccessList::Unclear => true,
        }
    }

    /// The entries, if they are clear.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match self {
            AccessList::Entries(entries) => Some(entries),
            AccessList::Unclear => None,
        }
    }
}

impl Nfs4List {
    /// From the bytes on a volume of this byte order.
    pub(crate) fn from_disk(endian: Endian, bytes: &[u8]) -> Nfs4List {
        match acl::nfs4_swapped(endian, Endian::Little, bytes) {
            Some(bytes) => Nfs4List::Bytes(bytes),
            None => Nfs4List::Unclear,
        }
    }

    /// The bytes on a volume of this byte order.
    pub(crate) fn to_disk(&self, endian: Endian) -> Option<Vec<u8>> {
        match self {
            Nfs4List::Bytes(bytes) => acl::nfs4_swapped(Endian::Little, endian, bytes),
            Nfs4List::Unclear => None,
        }
    }
}

impl Lists {
    /// The mode, from `perm`, of a file that keeps none of its lists.
    pub(crate) fn mode_without(&self, perm: u16) -> u16 {
        if self.nfs4.is_some() {
            return perm & OWNER_ONLY;
        }
        match &self.access {
            None => perm,
            Some(AccessList::Entries(entries)) => acl::mode_without(entries, perm),
            Some(AccessList::Unclear) => perm & OWNER_ONLY,
        }
    }
}

/// One entry of an archive's text.
fn entry(text: &str) -> Option<Entry> {
    let mut fields = text.split(':');
    let (tag, name) = (fields.next()?, fields.next()?);
    let (second, third) = (fields.next(), fields.next());
    // "mask:rwx" and "other:rwx" leave the empty name out.
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
    fn texts_of_archives_are_read() {
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
            "user::rwx\nuser:1001:r-x\t#effective:r--\ngroup::r--\ngroup:7:rw-\nmask::r--\nother::---\n",
            "u::rwx,u:1001:rx,g::r,g:7:rw,m:r--,o:---",
        ] {
            let read = AccessList::from_text(text.as_bytes());
            assert_eq!(read, AccessList::Entries(wanted.clone()), "{text}");
        }
        for bad in [
            "",
            "user::rwx,user:me:r-x,group::r--,mask::r--,other::---",
            "user::rwx,group::r--,user:1:r--,other::---",
            "user::rwz,group::r--,other::---",
            "owner@:rwx::allow",
        ] {
            assert_eq!(AccessList::from_text(bad.as_bytes()), AccessList::Unclear, "{bad}");
        }
    }

    #[test]
    fn what_is_unclear_leaves_rights_to_the_owner_alone() {
        let unclear = Lists { access: Some(AccessList::Unclear), ..Lists::default() };
        assert_eq!(unclear.mode_without(0o4755), 0o4700);
        let nfs4 = Lists { nfs4: Some(Nfs4List::Unclear), ..Lists::default() };
        assert_eq!(nfs4.mode_without(0o644), 0o600);
        assert_eq!(Lists::default().mode_without(0o644), 0o644);
    }
}
