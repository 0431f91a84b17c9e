//! Findings and the report of a check.
//!
//! **Purpose.** Findings have stable ids, so that programs can process them. The report contains
//! the findings, the totals and the exit code of the command.
//!
//! **Invariants.**
//! 1. The spelling of an id never changes; it is that of the tables in the specification.
//! 2. The list of findings is limited; findings beyond the limit are counted by id.
//!
//! References: spec/fsck-and-crash.md §3 (ids), §6 (exit codes).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::counted;

/// Limit on the findings kept in full; the others are only counted.
pub const MAX_FINDINGS: usize = 10_000;

macro_rules! ids {
    ($($name:ident = $text:literal, $what:literal;)*) => {
        /// The stable name of a kind of finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Id {
            $(#[doc = $what] #[serde(rename = $text)] $name,)*
        }

        impl Id {
            /// Every id, in the order of the phases.
            pub const ALL: &'static [Id] = &[$(Id::$name,)*];

            /// The spelling in reports.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Id::$name => $text,)* }
            }

            /// Its meaning.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Id::$name => $what,)* }
            }
        }
    };
}

ids! {
    SbBad = "SB-BAD", "The standard superblock is unusable; a copy is.";
    SbTorn = "SB-TORN", "The superblock's check hash is wrong but its constants are right.";
    SbAlternate = "SB-ALTERNATE", "A backup superblock disagrees with the standard one.";
    SbField = "SB-FIELD", "A superblock field with a safe substitute is out of range.";
    SbRecovery = "SB-RECOVERY", "The record for finding backup superblocks is missing.";
    SbCkhash = "SB-CKHASH", "Check hashes that were not maintained.";
    SbHashes = "SB-HASHES", "Check hashes could be added.";
    SbSnapshot = "SB-SNAPSHOT", "The superblock lists an inode that is not a snapshot.";
    SujChain = "SUJ-CHAIN", "The journal's list of unlinked inodes is not empty.";
    IoRead = "IO-READ", "A part of the device cannot be read.";
    CgMagic = "CG-MAGIC", "A cylinder group's header is wrong.";
    CgHash = "CG-HASH", "Only the check hash of a cylinder group is wrong.";
    InoPartial = "INO-PARTIAL", "A free inode has a size or pointers.";
    InoHash = "INO-HASH", "The check hash of an inode is wrong.";
    InoSize = "INO-SIZE", "A size beyond the limit.";
    InoSpecial = "INO-SPECIAL", "A device, fifo or socket with a size or without a number.";
    InoPastEnd = "INO-PASTEND", "Pointers beyond the size.";
    InoType = "INO-TYPE", "An unknown file type.";
    InoSnapshot = "INO-SNAPSHOT", "A snapshot that has lost a part of its content.";
    BlkBad = "BLK-BAD", "A pointer outside the data area.";
    BlkDup = "BLK-DUP", "A fragment that is already in use.";
    IndTrunc = "IND-TRUNC", "Pointers beyond the size in an indirect block.";
    DirHole = "DIR-HOLE", "A directory with an unallocated block.";
    InoBlocks = "INO-BLOCKS", "The block count differs from the blocks.";
    InoEndHole = "INO-ENDHOLE", "The size is beyond the last allocated block.";
    Ext = "EXT", "Damaged extended attributes.";
    RootUnalloc = "ROOT-UNALLOC", "The root directory is unallocated.";
    RootDup = "ROOT-DUP", "The root directory has bad or duplicate blocks.";
    RootType = "ROOT-TYPE", "The root is not a directory.";
    RootZero = "ROOT-ZERO", "The root directory has size 0.";
    DirShort = "DIR-SHORT", "A directory smaller than the smallest one.";
    DirMult = "DIR-MULT", "A directory size that is not a multiple of 512.";
    DirCorrupt = "DIR-CORRUPT", "A malformed directory record.";
    DotBad = "DOT-BAD", "`.` names another inode.";
    DotType = "DOT-TYPE", "`.` has the wrong type.";
    DotMissing = "DOT-MISSING", "The first entry is not `.`.";
    DotDotType = "DOTDOT-TYPE", "`..` has the wrong type.";
    DotDotMissing = "DOTDOT-MISSING", "The second entry is not `..`.";
    DotExtra = "DOT-EXTRA", "Another `.`.";
    DotDotExtra = "DOTDOT-EXTRA", "Another `..`.";
    EntRange = "ENT-RANGE", "An entry's inode number is out of range.";
    EntWhiteout = "ENT-WHITEOUT", "A whiteout by inode number or by type, but not both.";
    EntUnalloc = "ENT-UNALLOC", "A name of an unallocated inode.";
    EntDupBad = "ENT-DUPBAD", "A name of an inode with bad or duplicate blocks.";
    EntZeroDir = "ENT-ZERODIR", "A name of a directory of size 0.";
    EntHardDir = "ENT-HARDDIR", "A second name of a directory.";
    EntExchange = "ENT-EXCHANGE", "An exchange of two names that a crash interrupted.";
    EntType = "ENT-TYPE", "The entry's type differs from the inode's.";
    DotDotWrong = "DOTDOT-WRONG", "`..` is not the directory where the name was found.";
    DupName = "DUPNAME", "The same name twice in a directory.";
    DirUnref = "DIR-UNREF", "A directory that cannot be reached.";
    DirLoop = "DIR-LOOP", "Directories that contain each other.";
    LfCreate = "LF-CREATE", "There is no lost+found directory.";
    LfType = "LF-TYPE", "lost+found is not a directory.";
    LfFull = "LF-FULL", "There is no space to reconnect an inode.";
    InoUnref0 = "INO-UNREF0", "Link count 0 and no name.";
    InoUnref = "INO-UNREF", "An inode without a name.";
    LinkHigh = "LINK-HIGH", "A link count above the number of names.";
    LinkLow = "LINK-LOW", "A link count below the number of names.";
    DirClear = "DIR-CLEAR", "A directory to be cleared.";
    InoBadDup = "INO-BADDUP", "An inode with bad or duplicate blocks.";
    QuotaUsage = "QUOTA-USAGE", "A record of a quota file has a wrong usage.";
    CsCg = "CS-CG", "A group's record in the summary area is wrong.";
    CgSummary = "CG-SUMMARY", "Counts in a group's header are wrong.";
    CgMaps = "CG-MAPS", "A group's maps are wrong.";
    CgAllocFree = "CG-ALLOCFREE", "Something in use is marked free.";
    CgLeak = "CG-LEAK", "Something free is marked used.";
    CgLostDir = "CG-LOSTDIR", "A group counts fewer directories than it has.";
    CsTotal = "CS-TOTAL", "The superblock's totals are wrong.";
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A crash may leave it: preen repairs it.
    Benign,
    /// Correct operation cannot produce it: preen stops.
    Fatal,
}

/// Phase of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Finding and checking the superblock.
    Setup,
    /// Cylinder groups.
    Groups,
    /// Blocks and sizes.
    Blocks,
    /// Duplicate fragments.
    Duplicates,
    /// Pathnames.
    Names,
    /// Connectivity.
    Connectivity,
    /// Reference counts.
    References,
    /// Quota files.
    Quotas,
    /// Maps and summaries.
    Summaries,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Setup => "Setup",
            Phase::Groups => "Phase 0 - Check Cylinder Groups",
            Phase::Blocks => "Phase 1 - Check Blocks and Sizes",
            Phase::Duplicates => "Phase 1b - Rescan for More Dups",
            Phase::Names => "Phase 2 - Check Pathnames",
            Phase::Connectivity => "Phase 3 - Check Connectivity",
            Phase::References => "Phase 4 - Check Reference Counts",
            Phase::Quotas => "Phase 4b - Check Quotas",
            Phase::Summaries => "Phase 5 - Check Cyl Groups",
        })
    }
}

/// Attributes of an inode that help an operator decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InodeAttrs {
    /// Its number.
    pub ino: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Type and permissions; 0 = unallocated.
    pub mode: u16,
    /// Link count.
    pub nlink: u16,
    /// Size, bytes.
    pub size: u64,
    /// Modification time, seconds since 1970.
    pub mtime: i64,
}

impl InodeAttrs {
    /// Inode `ino` before its attributes have been read.
    pub(super) fn unread(ino: ffs_ondisk::Ino) -> InodeAttrs {
        InodeAttrs { ino: ino.0, ..InodeAttrs::default() }
    }
}

/// One inconsistency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub id: Id,
    /// Its severity.
    pub severity: Severity,
    /// The phase that found it.
    pub phase: Phase,
    /// The inode concerned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ino: Option<u32>,
    /// A path of that inode. It begins with `?` if only its last part was found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// The inode as it was before any answer to this finding.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inode: Option<InodeAttrs>,
    /// The name of the directory entry concerned; `ino` is the directory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub entry: Option<String>,
    /// The inode that the entry names.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub target: Option<InodeAttrs>,
    /// The location: a group, a block, an offset.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<String>,
    /// A message for people.
    pub message: String,
    /// The value found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<String>,
    /// The value a repair gives it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub after: Option<String>,
    /// Whether it was repaired.
    pub repaired: bool,
}

impl Finding {
    /// A finding without details.
    pub(super) fn new(id: Id, severity: Severity, message: impl Into<String>) -> Finding {
        Finding {
            id,
            severity,
            phase: Phase::Setup,
            ino: None,
            path: None,
            inode: None,
            entry: None,
            target: None,
            place: None,
            message: message.into(),
            before: None,
            after: None,
            repaired: false,
        }
    }

    /// The path of the entry concerned; `None` if the finding is not about an entry.
    #[must_use]
    pub fn entry_path(&self) -> Option<String> {
        let entry = self.entry.as_ref()?;
        let dir = self.path.as_deref().unwrap_or("?");
        Some(format!("{}/{entry}", dir.trim_end_matches('/')))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.message)?;
        if let Some(ino) = self.ino {
            write!(f, " I={ino}")?;
        }
        if let Some(place) = &self.place {
            write!(f, " {place}")?;
        }
        if let Some(path) = &self.path {
            // Names come from the image, so control characters are escaped.
            f.write_str(" ")?;
            for c in path.chars() {
                if c.is_control() {
                    write!(f, "{}", c.escape_default())?
                } else {
                    write!(f, "{c}")?
                }
            }
        }
        match (&self.before, &self.after) {
            (Some(b), Some(a)) => write!(f, " ({b} -> {a})")?,
            (Some(b), None) => write!(f, " ({b})")?,
            (None, Some(a)) => write!(f, " (-> {a})")?,
            (None, None) => {}
        }
        if self.repaired { f.write_str(" (FIXED)") } else { Ok(()) }
    }
}

/// Totals of the volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Inodes in use that are not directories.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Fragments of the data area.
    pub data_frags: u64,
    /// Data fragments in use.
    pub used_frags: u64,
    /// Free fragments, including those in free blocks.
    pub free_frags: u64,
    /// Free fragments in partly used blocks.
    pub loose_frags: u64,
    /// Free whole blocks.
    pub free_blocks: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// Number of rounds of the phases: more than 1 if a repair required another round.
    #[serde(rename = "passes")]
    pub rounds: u32,
}

impl Totals {
    /// Whether the check completed and counted the volume.
    #[must_use]
    pub fn are_known(&self) -> bool {
        self.data_frags > 0
    }

    /// Loose fragments in tenths of a percent of the data area, as BSD prints it.
    #[must_use]
    pub fn fragmentation_permille(&self) -> u64 {
        self.loose_frags.saturating_mul(1000).checked_div(self.data_frags).unwrap_or(0)
    }
}

/// The last line of a check.
impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let permille = self.fragmentation_permille();
        write!(
            f,
            "{} files, {} used, {} free ({} frags, {} blocks, {}.{}% fragmentation)",
            self.files + self.directories,
            self.used_frags,
            self.free_frags,
            self.loose_frags,
            self.free_blocks,
            permille / 10,
            permille % 10
        )
    }
}

/// Exit codes of the command (`spec/fsck-and-crash.md` §6).
pub mod exit {
    /// Consistent, or repaired completely.
    pub const OK: u8 = 0;
    /// Usage error.
    pub const USAGE: u8 = 1;
    /// The superblock cannot be read.
    pub const SUPERBLOCK: u8 = 3;
    /// A general error; preen found a fatal inconsistency.
    pub const ERROR: u8 = 8;
    /// newfs or growfs did not finish.
    pub const UNFINISHED_NEWFS: u8 = 11;
    /// Interrupted.
    pub const INTERRUPTED: u8 = 12;
    /// Not completely repaired: run again.
    pub const RERUN: u8 = 16;
}

/// What a recovery by the journal did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalReport {
    /// Segments that were read.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
    /// Inodes that were freed.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Fragments that were freed.
    pub frags: u64,
    /// Link counts that were lowered.
    pub links: u64,
    /// Files that were truncated.
    pub truncated: u64,
}

impl fmt::Display for JournalReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JournalReport { segments, records, inodes, directories, frags, links, truncated } =
            *self;
        write!(
            f,
            "{} in {}; freed {} ({} of them directories) and {}; {} lowered, {} truncated",
            counted(records, "record"),
            counted(segments, "segment"),
            counted(inodes, "inode"),
            directories,
            counted(frags, "fragment"),
            counted(links, "link count"),
            counted(truncated, "file"),
        )
    }
}

/// Use of the soft-updates journal by a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalUse {
    /// The volume was recovered by the journal, and not checked further.
    Recovered(JournalReport),
    /// The journal could not be used, for this reason; everything was checked.
    Unusable(String),
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsckReport {
    /// Findings in order; at most [`MAX_FINDINGS`].
    pub findings: Vec<Finding>,
    /// Number of findings of each id, including those beyond the limit.
    pub counts: BTreeMap<Id, u64>,
    /// Totals of the volume; zeros if the check did not complete.
    pub totals: Totals,
    /// Exit code of the command.
    pub exit_code: u8,
    /// Whether the volume is marked clean now.
    pub clean: bool,
    /// Whether the volume was marked clean and therefore not checked.
    pub skipped: bool,
    /// Whether anything was written.
    pub modified: bool,
    /// Whether the clean flag was cleared and nothing else was written: the operator has refused
    /// every repair.
    #[serde(default)]
    pub marked_dirty: bool,
    /// Why the check ended early.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<String>,
    /// Use of the journal; `None` if the volume has none, or if a full check was requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub journal: Option<JournalUse>,
}

impl FsckReport {
    /// Whether there are no findings and the check completed.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.counts.is_empty() && self.stopped.is_none()
    }

    /// The ids found, sorted and without repetition.
    #[must_use]
    pub fn ids(&self) -> Vec<Id> {
        self.counts.keys().copied().collect()
    }
}
