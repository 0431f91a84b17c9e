//! POSIX.1e access-control lists as extended attributes store them (`spec/on-disk-format.md`
//! §10.3).
//!
//! The value has 388 bytes: a count and space for 32 entries, in the volume's byte order. In the
//! access list the mode bits override the owner, group-or-mask and other entries; the file system
//! keeps both consistent.
//!
//! # Invariants
//! 1. [`encode`] of [`decode`] gives the same bytes if the unused space was zero.
//! 2. [`decode`] checks the encoding only, [`problem`] the POSIX.1e rules.

use crate::error::BadRecord;
use crate::wire::{Endian, get, put};

/// Attribute (system namespace) of the access list.
pub const ACCESS_NAME: &[u8] = b"posix1e.acl_access";
/// Attribute (system namespace) of a directory's default list.
pub const DEFAULT_NAME: &[u8] = b"posix1e.acl_default";
/// Attribute (system namespace) of an NFSv4 list.
pub const NFS4_NAME: &[u8] = b"nfs4.acl";
/// Bytes of a list on disk.
pub const SIZE: usize = 4 + MAX_ENTRIES * ENTRY;
/// Most entries of a list.
pub const MAX_ENTRIES: usize = 32;
const ENTRY: usize = 12;
/// The id of entries without a user or group.
const UNDEFINED_ID: u32 = u32::MAX;

/// The user or group class of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// The owner.
    UserObj,
    /// A user.
    User(u32),
    /// The file's group.
    GroupObj,
    /// A group.
    Group(u32),
    /// The upper bound for users, groups and the file's group.
    Mask,
    /// All other users.
    Other,
}

impl Who {
    fn from_raw(tag: u32, id: u32) -> Option<Who> {
        Some(match tag {
            1 => Who::UserObj,
            2 => Who::User(id),
            4 => Who::GroupObj,
            8 => Who::Group(id),
            0x10 => Who::Mask,
            0x20 => Who::Other,
            _ => return None,
        })
    }

    fn raw(self) -> (u32, u32) {
        match self {
            Who::UserObj => (1, UNDEFINED_ID),
            Who::User(id) => (2, id),
            Who::GroupObj => (4, UNDEFINED_ID),
            Who::Group(id) => (8, id),
            Who::Mask => (0x10, UNDEFINED_ID),
            Who::Other => (0x20, UNDEFINED_ID),
        }
    }
}

/// An entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The user or group class.
    pub who: Who,
    /// The permissions: 4 read, 2 write, 1 execute.
    pub perm: u8,
}

/// Decodes the entries of a list.
///
/// # Errors
/// A wrong length, count, tag or permission.
pub fn decode(endian: Endian, b: &[u8]) -> Result<Vec<Entry>, BadRecord> {
    let bad = |off, field, found, expected| BadRecord { off, field, found, expected };
    if b.len() != SIZE {
        let len = u32::try_from(b.len()).unwrap_or(u32::MAX);
        return Err(bad(0, "length", len, "388 bytes"));
    }
    let count: u32 = get(b, 0, endian);
    if count as usize > MAX_ENTRIES {
        return Err(bad(0, "count", count, "at most 32"));
    }
    let entry = |n: usize| {
        let off = 4 + n * ENTRY;
        let (tag, id) = (get::<u32>(b, off, endian), get::<u32>(b, off + 4, endian));
        let perm: u16 = get(b, off + 8, endian);
        let who = Who::from_raw(tag, id);
        let who = who.ok_or_else(|| bad(off, "tag", tag, "1, 2, 4, 8, 16 or 32"))?;
        let perm = u8::try_from(perm).ok().filter(|&p| p <= 7);
        let wide = u32::from(get::<u16>(b, off + 8, endian));
        let perm = perm.ok_or_else(|| bad(off, "permission", wide, "0 to 7"))?;
        Ok(Entry { who, perm })
    };
    (0..count as usize).map(entry).collect()
}

/// Encodes a list; `None` if it has more than 32 entries.
#[must_use]
pub fn encode(endian: Endian, entries: &[Entry]) -> Option<Vec<u8>> {
    let count = u32::try_from(entries.len()).ok().filter(|&n| n as usize <= MAX_ENTRIES)?;
    let mut b = vec![0; SIZE];
    put(&mut b, 0, endian, count);
    for (n, e) in entries.iter().enumerate() {
        let off = 4 + n * ENTRY;
        let (tag, id) = e.who.raw();
        put(&mut b, off, endian, tag);
        put(&mut b, off + 4, endian, id);
        put(&mut b, off + 8, endian, u16::from(e.perm));
    }
    Some(b)
}

/// The POSIX.1e rule that `entries` violates; `None` if it violates none.
///
/// A list has one owner, one group and one other entry, a mask if it names users or groups, and no
/// duplicates.
#[must_use]
pub fn problem(entries: &[Entry]) -> Option<&'static str> {
    let count = |who| entries.iter().filter(|e| e.who == who).count();
    if [Who::UserObj, Who::GroupObj, Who::Other].into_iter().any(|w| count(w) != 1) {
        return Some("needs exactly one owner, one group and one other entry");
    }
    let named = entries.iter().any(|e| matches!(e.who, Who::User(_) | Who::Group(_)));
    if count(Who::Mask) > 1 || (named && count(Who::Mask) == 0) {
        return Some("needs one mask where users or groups are named");
    }
    if entries.iter().any(|e| count(e.who) != 1) {
        return Some("names somebody twice");
    }
    None
}

/// The low 12 mode bits that a file with the mode `perm` and the access list `entries` may have
/// without the list, such that no user gains a permission.
///
/// With a list the group bits of the mode are its mask. So the group gets the permissions of its
/// own entry within the mask. Neither the group nor others get more than any named user or group
/// that would fall into their class without the list.
#[must_use]
pub fn mode_without(entries: &[Entry], perm: u16) -> u16 {
    let masked = entries.iter().any(|e| e.who == Who::Mask);
    let mask = if masked { (perm >> 3 & 7) as u8 } else { 7 };
    let (mut group, mut other) = ((perm >> 3 & 7) as u8, (perm & 7) as u8);
    for e in entries {
        let most = e.perm & mask;
        match e.who {
            Who::GroupObj if masked => group &= most,
            Who::User(_) => (group, other) = (group & most, other & most),
            Who::Group(_) => other &= most,
            _ => {}
        }
    }
    perm & !0o077 | u16::from(group) << 3 | u16::from(other)
}

/// Bytes of an NFSv4 list on disk.
pub const NFS4_SIZE: usize = 24 + NFS4_ENTRIES * 16;
/// Most entries of an NFSv4 list.
pub const NFS4_ENTRIES: usize = 254;

/// Converts an encoded NFSv4 list to another byte order; `None` if `b` is not a list.
#[must_use]
pub fn nfs4_swapped(from: Endian, to: Endian, b: &[u8]) -> Option<Vec<u8>> {
    if b.len() != NFS4_SIZE || get::<u32>(b, 4, from) as usize > NFS4_ENTRIES {
        return None;
    }
    let mut out = vec![0; NFS4_SIZE];
    let mut word = |at| put(&mut out, at, to, get::<u32>(b, at, from));
    (0..24).step_by(4).for_each(&mut word);
    for entry in (24..NFS4_SIZE).step_by(16) {
        [entry, entry + 4, entry + 8].into_iter().for_each(&mut word);
    }
    for entry in (24..NFS4_SIZE).step_by(16) {
        for at in [entry + 12, entry + 14] {
            put(&mut out, at, to, get::<u16>(b, at, from));
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Vec<Entry> {
        [
            (Who::UserObj, 6),
            (Who::User(1001), 4),
            (Who::GroupObj, 4),
            (Who::Group(70_000), 5),
            (Who::Mask, 5),
            (Who::Other, 0),
        ]
        .map(|(who, perm)| Entry { who, perm })
        .to_vec()
    }

    #[test]
    fn round_trip_in_both_byte_orders() {
        for e in [Endian::Little, Endian::Big] {
            let b = encode(e, &list()).unwrap();
            assert_eq!(b.len(), 388);
            assert_eq!(decode(e, &b).unwrap(), list());
            assert_eq!(encode(e, &decode(e, &b).unwrap()).unwrap(), b);
        }
        let b = encode(Endian::Little, &list()).unwrap();
        assert_eq!(b[..8], [6, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(b[8..12], [0xff; 4], "the undefined id is -1");
        assert_eq!(b[12..14], [6, 0]);
    }

    #[test]
    fn bad_forms_are_named() {
        let good = encode(Endian::Big, &list()).unwrap();
        assert_eq!(decode(Endian::Big, &good[..387]).unwrap_err().field, "length");
        let change = |at: usize, v: u8| {
            let mut b = good.clone();
            b[at] = v;
            decode(Endian::Big, &b).unwrap_err()
        };
        assert_eq!(change(3, 33).field, "count");
        assert_eq!(change(0, 0xff).field, "count");
        assert_eq!(change(7, 3).field, "tag");
        assert_eq!(change(13, 8).field, "permission");
        assert_eq!(change(12, 1).field, "permission");
        let many = vec![Entry { who: Who::Other, perm: 0 }; 33];
        assert_eq!(encode(Endian::Big, &many), None);
    }

    #[test]
    fn posix_rules() {
        assert_eq!(problem(&list()), None);
        for missing in [Who::UserObj, Who::GroupObj, Who::Other, Who::Mask] {
            let l: Vec<_> = list().into_iter().filter(|e| e.who != missing).collect();
            assert!(problem(&l).is_some(), "{missing:?}");
        }
        let mut twice = list();
        twice.push(Entry { who: Who::User(1001), perm: 0 });
        assert!(problem(&twice).is_some());
    }

    #[test]
    fn without_the_list_the_group_has_its_own_rights() {
        let list = |group, user| {
            [
                (Who::UserObj, 7),
                (Who::User(9), user),
                (Who::GroupObj, group),
                (Who::Mask, 7),
                (Who::Other, 5),
            ]
            .map(|(who, perm)| Entry { who, perm })
        };
        assert_eq!(mode_without(&list(4, 7), 0o4775), 0o4745);
        assert_eq!(mode_without(&list(7, 7), 0o755), 0o755, "the mode has the mask");
        assert_eq!(mode_without(&list(4, 0), 0o775), 0o700, "who was shut out stays so");
        assert_eq!(mode_without(&[], 0o664), 0o664);
    }

    /// The result of POSIX.1e's access check for `user` in `groups`.
    fn granted(entries: &[Entry], perm: u16, user: u32, groups: &[u32], right: u8) -> bool {
        let masked = entries.iter().any(|e| e.who == Who::Mask);
        let mask = if masked { (perm >> 3 & 7) as u8 } else { 7 };
        let own_group = if masked { None } else { Some((perm >> 3 & 7) as u8) };
        let has = |bits: u8| bits & right == right;
        if let Some(e) = entries.iter().find(|e| e.who == Who::User(user)) {
            return has(e.perm & mask);
        }
        // The file's group is number 0.
        let of_group = entries.iter().filter_map(|e| match e.who {
            Who::GroupObj if groups.contains(&0) => Some(own_group.unwrap_or(e.perm & mask)),
            Who::Group(id) if groups.contains(&id) => Some(e.perm & mask),
            _ => None,
        });
        let of_group: Vec<u8> = of_group.collect();
        if of_group.is_empty() { has((perm & 7) as u8) } else { of_group.into_iter().any(has) }
    }

    #[test]
    fn no_user_gains_a_permission_by_removing_a_list() {
        let mut seed = 88_172_645_463_325_252_u64;
        let mut bits = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for _ in 0..3000 {
            let perm = bits(512) as u16;
            let mut entries = vec![
                Entry { who: Who::UserObj, perm: (perm >> 6) as u8 },
                Entry { who: Who::GroupObj, perm: bits(8) as u8 },
                Entry { who: Who::Mask, perm: (perm >> 3 & 7) as u8 },
                Entry { who: Who::Other, perm: (perm & 7) as u8 },
            ];
            for id in 1..=bits(3) as u32 {
                entries.push(Entry { who: Who::User(id), perm: bits(8) as u8 });
            }
            for id in 1..=bits(3) as u32 {
                entries.push(Entry { who: Who::Group(id), perm: bits(8) as u8 });
            }
            let plain = [
                Entry { who: Who::UserObj, perm: 0 },
                Entry { who: Who::GroupObj, perm: 0 },
                Entry { who: Who::Other, perm: 0 },
            ];
            let after = mode_without(&entries, perm);
            for user in 1..4 {
                for groups in [&[][..], &[0], &[1], &[0, 1], &[1, 2], &[0, 1, 2], &[3]] {
                    for right in 1..8 {
                        let gained = granted(&plain, after, user, groups, right)
                            && !granted(&entries, perm, user, groups, right);
                        let who = format!("user {user} of {groups:?}: {right}");
                        assert!(!gained, "{who} with {after:o}, of {perm:o} {entries:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn nfs4_lists_change_their_byte_order() {
        let mut little = vec![0; NFS4_SIZE];
        put(&mut little, 0, Endian::Little, 254_u32);
        put(&mut little, 4, Endian::Little, 2_u32);
        put(&mut little, 24, Endian::Little, 0x40_u32);
        put(&mut little, 24 + 12, Endian::Little, 0x100_u16);
        put(&mut little, 24 + 14, Endian::Little, 3_u16);
        let big = nfs4_swapped(Endian::Little, Endian::Big, &little).unwrap();
        assert_eq!(big[..8], [0, 0, 0, 254, 0, 0, 0, 2]);
        assert_eq!(big[36..40], [1, 0, 0, 3]);
        assert_eq!(nfs4_swapped(Endian::Big, Endian::Little, &big).unwrap(), little);
        assert_eq!(nfs4_swapped(Endian::Big, Endian::Big, &little), None, "254 << 24 entries");
        assert_eq!(nfs4_swapped(Endian::Little, Endian::Big, &little[1..]), None);
    }
}
