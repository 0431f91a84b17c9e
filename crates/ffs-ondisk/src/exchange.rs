//! Names that stand for an exchange under way (`RENAME_EXCHANGE`).
//!
//! Two names in different sectors cannot change at once. So one of the two files gets a third name
//! first, a *record* of the exchange, in the root directory: `.ffs-exchange.` and what both names
//! are. When the names have changed the record is removed. A crash may leave it; whoever finds it
//! (`fsck`, the next mount) completes the exchange or takes it back. To BSD it is a hard link of
//! the file.
//!
//! With the record of file `B`, which had name 2 and gets name 1, the device shows one of these:
//!
//! | name 1 | name 2 | state | repair |
//! | --- | --- | --- | --- |
//! | any | `B` | nothing yet | remove the record |
//! | `A` | not `B` | only name 2 has changed | give name 1 to `B`, remove the record |
//! | not `A` | not `B` | both have changed | remove the record |
//!
//! That holds because both names are durable before the record is made, name 2 changes only when
//! the record is durable, name 1 when name 2 is, and the record is removed when name 1 is. So if
//! name 2 is neither, a later operation has removed it from `A`, or given `A` another name before.
//!
//! # Invariants
//! 1. [`ExchangeRecord::parse`] takes exactly what [`ExchangeRecord::name`] makes.

use crate::units::Ino;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// What the names of records begin with.
pub const PREFIX: &[u8] = b".ffs-exchange.";

/// One of the two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangedName {
    /// The directory that holds it.
    pub dir: Ino,
    /// [`hash`] of the name: the name itself may be too long to be part of another.
    pub hash: u64,
}

/// An exchange under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeRecord {
    /// Name 1, which the file that has the record as a name is to get.
    pub first: ExchangedName,
    /// Name 2, which it had.
    pub second: ExchangedName,
    /// File `A`, which had name 1 and is to get name 2.
    pub other: Ino,
}

/// A hash of a name: 64 bits of SipHash-1-3, so that two names of one directory that have the same
/// are not to be expected.
#[must_use]
pub fn hash(name: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(name);
    hasher.finish()
}

impl ExchangeRecord {
    /// Its name in the root directory.
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

    /// The exchange that a name in the root directory stands for; `None` for other names.
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
    /// Whether an exchange may have given `file` the record as a name: two files changed places,
    /// and neither was one of the directories that hold the names, or the root. Any other such name
    /// is left alone.
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

    /// Whether name 1 is to become `file`'s, which has the record as a name, in the place of the
    /// other file's: see the table of the module. `first` and `second`: what the names mean, if
    /// they are there.
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
