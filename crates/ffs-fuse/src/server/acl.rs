//! POSIX access lists in the form that Linux passes around.
//!
//! A list is the version (2), then for each entry tag, permissions and id: 2, 2 and 4 bytes, little-endian.

use super::Server;
use crate::wire::Errno;
use ffs_core::acl::{Acl, Entry, Who};
use ffs_core::{Cred, FileType, Vnode};

const VERSION: u32 = 2;
const ENTRY: usize = 8;
const NOBODY: u32 = u32::MAX;

/// Which of a file's lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Access,
    Default,
}

impl Kind {
    /// The list that the attribute `name` is.
    pub(super) fn of_name(name: &[u8]) -> Option<Kind> {
        match name {
            b"system.posix_acl_access" => Some(Kind::Access),
            b"system.posix_acl_default" => Some(Kind::Default),
            _ => None,
        }
    }
}

fn tag_of(who: Who) -> (u16, u32) {
    match who {
        Who::UserObj => (0x01, NOBODY),
        Who::User(id) => (0x02, id),
        Who::GroupObj => (0x04, NOBODY),
        Who::Group(id) => (0x08, id),
        Who::Mask => (0x10, NOBODY),
        Who::Other => (0x20, NOBODY),
    }
}

fn who_of(tag: u16, id: u32) -> Option<Who> {
    Some(match tag {
        0x01 => Who::UserObj,
        0x02 => Who::User(id),
        0x04 => Who::GroupObj,
        0x08 => Who::Group(id),
        0x10 => Who::Mask,
        0x20 => Who::Other,
        _ => return None,
    })
}

fn encode(acl: &Acl) -> Vec<u8> {
    let mut b = VERSION.to_le_bytes().to_vec();
    for e in acl.entries() {
        let (tag, id) = tag_of(e.who);
        b.extend(tag.to_le_bytes());
        b.extend(u16::from(e.perm).to_le_bytes());
        b.extend(id.to_le_bytes());
    }
    b
}

fn decode(b: &[u8]) -> Result<Vec<Entry>, Errno> {
    let (version, rest) = b.split_first_chunk::<4>().ok_or(Errno::INVAL)?;
    if u32::from_le_bytes(*version) != VERSION {
        return Err(Errno::OPNOTSUPP);
    }
    if rest.len() % ENTRY != 0 {
        return Err(Errno::INVAL);
    }
    rest.as_chunks::<ENTRY>()
        .0
        .iter()
        .map(|e| {
            let (tag, perm) = (u16::from_le_bytes([e[0], e[1]]), u16::from_le_bytes([e[2], e[3]]));
            let who = who_of(tag, u32::from_le_bytes([e[4], e[5], e[6], e[7]]));
            let perm = u8::try_from(perm).ok().filter(|p| *p <= 7);
            who.zip(perm).map(|(who, perm)| Entry { who, perm }).ok_or(Errno::INVAL)
        })
        .collect()
}

impl Server {
    /// The list as Linux wants it; `ENODATA` if the file has none of its own.
    pub(super) fn acl_value(&self, file: &Vnode, kind: Kind) -> Result<Vec<u8>, Errno> {
        if !self.acls {
            return Err(Errno::OPNOTSUPP);
        }
        let acl = match kind {
            Kind::Access => self.fs.access_acl(file)?,
            Kind::Default => self.fs.default_acl(file)?,
        };
        acl.map(|acl| encode(&acl)).ok_or(Errno::NODATA)
    }

    /// Sets a list, or takes it away if `value` is empty or says no more than the mode.
    pub(super) fn set_acl(
        &self,
        cred: &Cred,
        file: &Vnode,
        kind: Kind,
        value: &[u8],
        kill_sgid: bool,
    ) -> Result<(), Errno> {
        if !self.acls {
            return Err(Errno::OPNOTSUPP);
        }
        let entries = if value.is_empty() { Vec::new() } else { decode(value)? };
        let acl = if entries.is_empty() { None } else { Some(Acl::new(entries)?) };
        match kind {
            Kind::Access => self.fs.set_access_acl(cred, file, acl.as_ref(), kill_sgid)?,
            Kind::Default if self.fs.getattr(file).kind != FileType::Directory => {
                return if acl.is_none() { Ok(()) } else { Err(Errno(libc::EACCES)) };
            }
            Kind::Default => self.fs.set_default_acl(cred, file, acl.as_ref())?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_survive_the_round_trip() {
        let entries = [
            (Who::UserObj, 6),
            (Who::User(1000), 4),
            (Who::GroupObj, 4),
            (Who::Group(70_000), 5),
            (Who::Mask, 5),
            (Who::Other, 0),
        ];
        let acl = Acl::new(entries.map(|(who, perm)| Entry { who, perm }).to_vec()).unwrap();
        let b = encode(&acl);
        assert_eq!(b.len(), 4 + 6 * 8);
        assert_eq!(decode(&b).unwrap(), acl.entries());
        assert_eq!(decode(&b[..b.len() - 1]), Err(Errno::INVAL));
        assert_eq!(decode(&[1, 0, 0, 0]), Err(Errno::OPNOTSUPP));
    }
}
