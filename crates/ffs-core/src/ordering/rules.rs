//! The ordering rules by name. A build with the cargo feature `mutants` can switch one rule off.
//!
//! The crash laboratory must find a volume that breaks a rule. The cargo feature `mutants` shows
//! that it does: [`break_rule`] switches one rule off for the whole process. Without the feature
//! [`holds`] is constant and costs nothing.
//!
//! Reference: `docs/spec/soft-updates.md` §1.5, which names the function that enforces each rule.

macro_rules! rules {
    ($($(#[doc = $doc:literal])* $rule:ident = $name:literal,)*) => {
        /// A rule of soft updates, of snapshots, or of the check in the background.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Rule {
            $($(#[doc = $doc])* $rule,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Rule] = &[$(Rule::$rule,)*];

            /// The name that commands use.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Rule::$rule => $name,)* }
            }

            /// The rule in one sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Rule::$rule => concat!($($doc),*).trim_ascii(),)* }
            }
        }
    };
}

rules! {
    /// The bitmap that marks an inode used is durable before the inode is written.
    MapBeforeInode = "map-before-inode",
    /// The bitmap that marks a block used is durable before a pointer to the block is written.
    MapBeforePointer = "map-before-pointer",
    /// The content of a block is durable before a pointer to the block is written.
    ContentBeforePointer = "content-before-pointer",
    /// An inode, with its raised link count, is durable before a new name of it is written.
    InodeBeforeName = "inode-before-name",
    /// The first block of a new directory is durable before its name is written.
    BodyBeforeName = "body-before-name",
    /// The link of the parent for `..` is durable before a new directory's name is written.
    ParentBeforeName = "parent-before-name",
    /// Names that renames and links gave are reachable before a later removal is written.
    PublishedBeforeRemoval = "published-before-removal",
    /// The extended attributes of a file are durable before a new name of it is written.
    AttributesBeforeName = "attributes-before-name",
    /// The text of a long symbolic link is durable before its name is written.
    TextBeforeName = "text-before-name",
    /// Blocks are marked free after no pointer on the device names them.
    ClearBeforeFree = "clear-before-free",
    /// A link count is lowered after the removal of the name is durable.
    RemovalBeforeCount = "removal-before-count",
    /// The last durable name of a file is removed after a newer name of it is reachable.
    LastDurableName = "last-durable-name",
    /// The old name of a renamed file is removed after the new name is reachable.
    NewNameBeforeOld = "new-name-before-old",
    /// A name counts as reachable only if its directory is reachable.
    ReachableDirectory = "reachable-directory",
    /// A change of an entry counts as durable only if the pointer to its block is durable.
    PointerBeforeEntry = "pointer-before-entry",
    /// A name is entered at another place in a directory after its removal is durable.
    UniqueName = "unique-name",
    /// A directory's size covers only chunks whose content is durable.
    ContentBeforeSize = "content-before-size",
    /// A write shows a hole in a file only if it shows a block behind the hole.
    NoTrailingHole = "no-trailing-hole",
    /// The size shrinks after indirect blocks that stay have lost the pointers beyond it.
    TruncateBeforeSize = "truncate-before-size",
    /// A size that covers a block is durable before a pointer to it in an indirect block.
    SizeBeforeIndirect = "size-before-indirect",
    /// Initialized inode blocks are durable before their cylinder group counts them.
    InodeBlockBeforeGroup = "inode-block-before-group",
    /// A directory entry that is rolled back gets its old file type with its old inode number.
    TypeWithNumber = "type-with-number",
    /// An inode is marked free after the cleared inode is durable.
    ZeroBeforeFree = "zero-before-free",
    /// The old parent's link count drops after `..` of the moved directory is durable.
    DotDotBeforeCount = "dotdot-before-count",
    /// A directory that moves below another one waits until that one has moved.
    NoCycle = "no-cycle",
    /// `..` of a moved directory is durable before its new name is written.
    DotDotBeforeName = "dotdot-before-name",
    /// An fsync makes older changes of names durable.
    FsyncOlderNames = "fsync-older-names",
    /// The content of a file is durable before a rename over another file is written.
    ContentBeforeName = "content-before-name",
    /// A completed write counts as durable only after a flush that began later.
    FlushBeforeDurable = "flush-before-durable",
    /// The copy of a block for a snapshot is durable before the pointer to it is written.
    CopyBeforePointer = "copy-before-pointer",
    /// The pointer to the copy of a block is durable before the block is overwritten.
    PointerBeforeOverwrite = "pointer-before-overwrite",
    /// The bitmap marks the place of a copy used before the pointer to it is written.
    MarkBeforeCopy = "mark-before-copy",
    /// The bitmap marks a block used before the pointer of the snapshot that took it over is
    /// written.
    MarkBeforeTakeOver = "mark-before-take-over",
    /// A snapshot takes a block over that is freed and that it reads in place.
    TakeOverFreed = "take-over-freed",
    /// No copy is placed in a block that a snapshot reads in place.
    CopyApart = "copy-apart",
    /// The blocks of a new snapshot are durable before the superblock lists it.
    ImageBeforeList = "image-before-list",
    /// The superblock lists a new snapshot before its inode has the mark of one.
    ListBeforeSnapshot = "list-before-snapshot",
    /// The superblock without a snapshot is durable before its last name is removed.
    DelistBeforeRemoval = "delist-before-removal",
    /// A removed snapshot has no marks among its pointers when it becomes an ordinary file.
    MarksBeforeOrdinary = "marks-before-ordinary",
    /// The corrections of a check in the background are durable before the volume counts as
    /// checked.
    CorrectionsBeforeChecked = "corrections-before-checked",
    /// The check in the background frees a directory without a name before what it names.
    DirectoryBeforeNamed = "directory-before-named",
    /// The records of a change are durable before a block of metadata shows it.
    RecordBeforeMetadata = "record-before-metadata",
    /// A segment is overwritten after a durable one has declared it unnecessary.
    DeclaredBeforeReuse = "declared-before-reuse",
    /// Segments are declared unnecessary after everything that they record is durable.
    DurableBeforeCheckpoint = "durable-before-checkpoint",
    /// A checkpoint gives each inode without a name a record again.
    UnnamedAfterCheckpoint = "unnamed-after-checkpoint",
    /// An inode or a fragment that is taken has a record before its group shows it.
    RecordOfTaken = "record-of-taken",
    /// The place of a moved entry has a record of each older value that a write may show there.
    RecordOfOlderValue = "record-of-older-value",
    /// A full journal is unusable before a block of metadata is written without its records.
    MarkBeforeOverflow = "mark-before-overflow",
    /// Each mount keeps its journal under a time that no earlier mount had.
    NewTimeEachMount = "new-time-each-mount",
    /// The blocks below a freed indirect block are free on the device before that block is.
    LeavesBeforeTree = "leaves-before-tree",
}

impl Rule {
    /// Whether only the soft-updates journal depends on the rule.
    #[must_use]
    pub fn is_of_journal(self) -> bool {
        // The rules of the journal are the last of the list.
        self as usize >= Rule::RecordBeforeMetadata as usize
    }
}

#[cfg(feature = "mutants")]
static BROKEN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(usize::MAX);

/// Switches `rule` off in the whole process, or all on.
#[cfg(feature = "mutants")]
pub fn break_rule(rule: Option<Rule>) {
    BROKEN.store(rule.map_or(usize::MAX, |r| r as usize), std::sync::atomic::Ordering::Relaxed);
}

/// Whether `rule` is in force.
#[must_use]
#[inline]
pub fn holds(rule: Rule) -> bool {
    #[cfg(feature = "mutants")]
    {
        BROKEN.load(std::sync::atomic::Ordering::Relaxed) != rule as usize
    }
    #[cfg(not(feature = "mutants"))]
    {
        let _ = rule;
        true
    }
}
