//! The names of workloads.

use std::fmt;
use std::hash::BuildHasher;
use std::str::FromStr;

/// Which workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The one that was given.
    File,
    /// A known pattern.
    Pattern(u32),
    /// One operation.
    One(u32),
    /// Two.
    Two(u32),
    /// Three, drawn.
    Three(u32),
    /// A long trace.
    Trace(u32),
    /// A trace in a long directory.
    Directory(u32),
    /// A trace that fills a small journal.
    Journal(u32),
    /// One operation on a volume that is full, or nearly.
    Full(u32),
    /// A trace at the edge of a full volume.
    Edge(u32),
    /// Crash after crash without a check.
    Chain(u32),
    /// Several threads.
    Writers(u32),
    /// Commands without ordering.
    Offline(u32),
    /// One operation and snapshots.
    Snapshot(u32),
    /// A trace with snapshots.
    SnapshotTrace(u32),
    /// Crash after crash without a check, with snapshots.
    SnapshotChain(u32),
    /// A check in the background under load.
    Background(u32),
    /// `growfs`.
    Growth(u32),
    /// `tunefs`.
    Tuning(u32),
}

impl Source {
    /// Whether it is one workload of one thread, which can be made smaller.
    #[must_use]
    pub fn is_one_workload(self) -> bool {
        use Source::{Background, Chain, Growth, SnapshotChain, Tuning, Writers};
        !matches!(
            self,
            Chain(_) | Writers(_) | SnapshotChain(_) | Background(_) | Growth(_) | Tuning(_)
        )
    }

    /// A number that differs between sources.
    pub(in crate::crash) fn hash(self) -> u64 {
        foldhash::quality::FixedState::with_seed(1).hash_one(self)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File => f.write_str("file"),
            Source::Pattern(n) => write!(f, "g{n}"),
            Source::One(n) => write!(f, "1.{n}"),
            Source::Two(n) => write!(f, "2.{n}"),
            Source::Three(n) => write!(f, "3.{n}"),
            Source::Trace(n) => write!(f, "r.{n}"),
            Source::Directory(n) => write!(f, "d.{n}"),
            Source::Journal(n) => write!(f, "j.{n}"),
            Source::Full(n) => write!(f, "f.{n}"),
            Source::Edge(n) => write!(f, "e.{n}"),
            Source::Chain(n) => write!(f, "c.{n}"),
            Source::Writers(n) => write!(f, "w.{n}"),
            Source::Offline(n) => write!(f, "o.{n}"),
            Source::Snapshot(n) => write!(f, "s.{n}"),
            Source::SnapshotTrace(n) => write!(f, "t.{n}"),
            Source::SnapshotChain(n) => write!(f, "k.{n}"),
            Source::Background(n) => write!(f, "b.{n}"),
            Source::Growth(n) => write!(f, "l.{n}"),
            Source::Tuning(n) => write!(f, "u.{n}"),
        }
    }
}

impl FromStr for Source {
    type Err = ();

    fn from_str(text: &str) -> Result<Source, ()> {
        let number = |text: &str| text.parse::<u32>().map_err(|_| ());
        if text == "file" {
            return Ok(Source::File);
        }
        if let Some(rest) = text.strip_prefix('g') {
            return number(rest).map(Source::Pattern);
        }
        let (kind, rest) = text.split_once('.').ok_or(())?;
        let number = number(rest)?;
        match kind {
            "1" => Ok(Source::One(number)),
            "2" => Ok(Source::Two(number)),
            "3" => Ok(Source::Three(number)),
            "r" => Ok(Source::Trace(number)),
            "d" => Ok(Source::Directory(number)),
            "j" => Ok(Source::Journal(number)),
            "f" => Ok(Source::Full(number)),
            "e" => Ok(Source::Edge(number)),
            "c" => Ok(Source::Chain(number)),
            "w" => Ok(Source::Writers(number)),
            "o" => Ok(Source::Offline(number)),
            "s" => Ok(Source::Snapshot(number)),
            "t" => Ok(Source::SnapshotTrace(number)),
            "k" => Ok(Source::SnapshotChain(number)),
            "b" => Ok(Source::Background(number)),
            "l" => Ok(Source::Growth(number)),
            "u" => Ok(Source::Tuning(number)),
            _ => Err(()),
        }
    }
}
