//! Names that record an exchange in progress (`RENAME_EXCHANGE`).
//!
//! Two names in different sectors cannot change at once. So one of the two files first gets a third
//! name, a *record* of the exchange, in the root directory: `.ffs-exchange.` followed by a
//! description of both names. When the names have changed, the record is removed. A crash may leave
//! it; then `fsck` or the next mount completes the exchange or reverses it. To BSD it is a hard
//! link of the file.
//!
//! With the record of file `B`, which had name 2 and gets name 1, the device has one of these
//! states:
//!
//! | name 1 | name 2 | state | repair |
//! | --- | --- | --- | --- |
//! | any | `B` | no name has changed | remove the record |
//! | `A` | not `B` | only name 2 has changed | give name 1 to `B`, remove the record |
//! | not `A` | not `B` | both have changed | remove the record |
//!
//! The table is complete because both names are durable before the record is entered, name 2
//! changes only after the record is durable, name 1 changes only after name 2 is durable, and the
//! record is removed only after name 1 is durable. If name 2 is neither `A` nor `B`, a later
//! operation has removed that name of `A`, or has given `A` another name before.
//!
//! # Invariants
//! 1. [`ExchangeRecord::parse`] accepts exactly the results of [`ExchangeRecord::name`].

use crate::units::Ino;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// The prefix of the names of records.
pub const PREFIX: &[u8] = b".ffs-exchange.";

/// One of the two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangedName {
    /// The directory that contains it.
    pub dir: Ino,
    /// [`hash`] of the name; the name itself may be too long to be part of another name.
    pub hash: u64,
}

/// An exchange in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeRecord {
    /// Name 1, which the file with the record will get.
    pub first: ExchangedName,
    /// Name 2, which that file had.
    pub second: ExchangedName,
    /// File `A`, which had name 1 and will get name 2.
    pub other: Ino,
}

/// A hash of a name: 64 bits of SipHash-1-3, so that collisions within a directory are not
/// expected.
#[must_use]
pub fn hash(name: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(name);
    hasher.finish()
}

impl ExchangeRecord {
    /// The name of the record in the root directory.
    ///
    /// ```
    /// use ffs_ondisk::exchange::{ExchangeRecord, ExchangedName, hash};
    /// use ffs_ondisk::Ino;
    ///
    /// let first = ExchangedName { dir: Ino(2), hash: hash(b"a") };
    /// let second = ExchangedName { dir: Ino(77), hash: hash(b"b") };
    /// let record = ExchangeRecord { first, second, other: Ino(4) };
    /// assert_eq!(ExchangeRecord::parse(&record.name()), Some(record));
    /// ```
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        let ExchangeRecord { first, second, other } = self;
        let mut name = PREFIX.to_vec();
        let rest = format!(
            "{:08x}.{:016x}.{:08x}.{:016x}.{:08x}",
            first.dir.0, first.hash, second.dir.0, second.hash, other.0
        );
        name.extend_from_slice(rest.as_bytes());
        name
    }

    /// The exchange that a name in the root directory records; `None` for other names.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<ExchangeRecord> {
        let rest = std::str::from_utf8(name.strip_prefix(PREFIX)?).ok()?;
        let mut parts = rest.split('.');
        let mut number = |digits: usize| {
            let part = parts.next()?;
            let plain = part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            let number = u64::from_str_radix(part, 16).ok()?;
            (part.len() == digits && plain).then_some(number)
        };
        let ino = |n: u64| u32::try_from(n).ok().map(Ino);
        let first = ExchangedName { dir: ino(number(8)?)?, hash: number(16)? };
        let second = ExchangedName { dir: ino(number(8)?)?, hash: number(16)? };
        let other = ino(number(8)?)?;
        parts.next().is_none().then_some(ExchangeRecord { first, second, other })
    }
}

impl ExchangeRecord {
    /// Whether an exchange may have created this record of `file`: the two files differ, and
    /// neither is one of the directories of the names, or the root. All other such names are
    /// ignored.
    ///
    /// ```
    /// use ffs_ondisk::exchange::{ExchangeRecord, ExchangedName};
    /// use ffs_ondisk::Ino;
    ///
    /// let name = |dir| ExchangedName { dir: Ino(dir), hash: 1 };
    /// let record = ExchangeRecord { first: name(2), second: name(7), other: Ino(4) };
    /// assert!(record.is_possible(Ino(5)));
    /// assert!(!record.is_possible(Ino(4)) && !record.is_possible(Ino(7)));
    /// ```
    #[must_use]
    pub fn is_possible(&self, file: Ino) -> bool {
        let dirs = [Ino::ROOT, self.first.dir, self.second.dir];
        file != self.other && !dirs.contains(&file) && !dirs.contains(&self.other)
    }

    /// Whether name 1 must be given to `file`, which has the record: see the table of the module.
    /// `first` and `second` are the inodes that the names refer to, if they exist.
    #[must_use]
    pub fn is_half_done(&self, file: Ino, first: Option<Ino>, second: Option<Ino>) -> bool {
        self.is_possible(file) && first == Some(self.other) && second != Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_it_writes_is_read() {
        let name = |dir, hash| ExchangedName { dir: Ino(dir), hash };
        let record = ExchangeRecord {
            first: name(2, 0x0123_4567_89ab_cdef),
            second: name(0xffff_ffff, u64::MAX),
            other: Ino(0xdead),
        };
        let text = record.name();
        assert!(text.len() < 255);
        assert_eq!(ExchangeRecord::parse(&text), Some(record));
        for at in 0..text.len() {
            let mut less = text.clone();
            less.remove(at);
            assert_eq!(ExchangeRecord::parse(&less), None);
            let mut upper = text.clone();
            upper[at] = b'G';
            assert_eq!(ExchangeRecord::parse(&upper), None);
        }
        let more = [&text[..], b".0"].concat();
        assert_eq!(ExchangeRecord::parse(&more), None);
        assert_eq!(ExchangeRecord::parse(b".ffs-exchange.12"), None);
    }

    #[test]
    fn only_the_state_between_is_completed() {
        let name = |dir| ExchangedName { dir: Ino(dir), hash: 1 };
        let (a, b, c) = (Ino(10), Ino(11), Ino(12));
        let record = ExchangeRecord { first: name(2), second: name(3), other: a };
        let completed = |first, second| record.is_half_done(b, first, second);
        for second in [Some(a), Some(c), None] {
            assert!(completed(Some(a), second));
            assert!(!completed(Some(b), second) && !completed(Some(c), second));
            assert!(!completed(None, second));
        }
        assert!(!completed(Some(a), Some(b)));
    }
}
