//! POSIX access lists in the encoding of Linux, as values of the attributes
//! `system.posix_acl_access` and `system.posix_acl_default`.
//!
//! A list is the version (2), then tag, permissions and id of each entry: 2, 2 and 4 bytes,
//! little-endian.

use super::{Entry, Who};
use crate::error::{Error, Result};

const VERSION: u32 = 2;
const ENTRY: usize = 8;
const NO_ID: u32 = u32::MAX;

fn tag_of(who: Who) -> (u16, u32) {
    match who {
        Who::UserObj => (0x01, NO_ID),
        Who::User(id) => (0x02, id),
        Who::GroupObj => (0x04, NO_ID),
        Who::Group(id) => (0x08, id),
        Who::Mask => (0x10, NO_ID),
        Who::Other => (0x20, NO_ID),
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

/// Encodes a list as the value of the attribute.
#[must_use]
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut b = VERSION.to_le_bytes().to_vec();
    for e in entries {
        let (tag, id) = tag_of(e.who);
        b.extend(tag.to_le_bytes());
        b.extend(u16::from(e.perm).to_le_bytes());
        b.extend(id.to_le_bytes());
    }
    b
}

/// Decodes a list from the value of the attribute.
///
/// # Errors
/// [`Error::NotSupported`] for another version, [`Error::Invalid`] for a malformed list.
pub fn decode(b: &[u8]) -> Result<Vec<Entry>> {
    const BAD: Error = Error::Invalid("an access list of Linux's form");
    let (version, rest) = b.split_first_chunk::<4>().ok_or(BAD)?;
    if u32::from_le_bytes(*version) != VERSION {
        return Err(Error::NotSupported("this version of access lists"));
    }
    if rest.len() % ENTRY != 0 {
        return Err(BAD);
    }
    rest.as_chunks::<ENTRY>()
        .0
        .iter()
        .map(|e| {
            let (tag, perm) = (u16::from_le_bytes([e[0], e[1]]), u16::from_le_bytes([e[2], e[3]]));
            let who = who_of(tag, u32::from_le_bytes([e[4], e[5], e[6], e[7]]));
            let perm = u8::try_from(perm).ok().filter(|p| *p <= 7);
            who.zip(perm).map(|(who, perm)| Entry { who, perm }).ok_or(BAD)
        })
        .collect()
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
        let entries = entries.map(|(who, perm)| Entry { who, perm });
        let b = encode(&entries);
        assert_eq!(b.len(), 4 + 6 * 8);
        assert_eq!(decode(&b).unwrap(), entries);
        assert!(matches!(decode(&b[..b.len() - 1]), Err(Error::Invalid(_))));
        assert!(matches!(decode(&[1, 0, 0, 0]), Err(Error::NotSupported(_))));
        let mut bad = b;
        bad[4] = 3;
        assert!(matches!(decode(&bad), Err(Error::Invalid(_))));
    }
}
