//! The ordering rules by name, so that a test build can break one at a time.
//!
//! A laboratory that finds nothing proves something only if it finds a rule that is missing. With the
//! cargo feature `mutants` [`break_rule`] switches one off; without it every rule holds and the
//! question costs nothing.

macro_rules! rules {
    ($($(#[doc = $doc:literal])* $rule:ident = $name:literal,)*) => {
        /// A rule of soft updates.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Rule {
            $($(#[doc = $doc])* $rule,)*
        }

        impl Rule {
            /// All.
            pub const ALL: &[Rule] = &[$(Rule::$rule,)*];

            /// What commands call it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Rule::$rule => $name,)* }
            }

            /// What it says.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Rule::$rule => concat!($($doc),*),)* }
            }
        }
    };
}

rules! {
    /// The inode's map is written before the inode.
    MapBeforeInode = "map-before-inode",
    /// The block's map is written before a pointer to the block.
    MapBeforeClaim = "map-before-claim",
    /// A block's content is written before a pointer to it.
    ContentBeforeClaim = "content-before-claim",
    /// The inode, with its count, is written before a name of it.
    InodeBeforeName = "inode-before-name",
    /// A new directory claims its first block before it has a name.
    BodyBeforeName = "body-before-name",
    /// The parent counts a new directory's `..` before the directory has a name.
    ParentBeforeName = "parent-before-name",
    /// A name is removed when the older names that renames and links gave are in place.
    PublishedBeforeRemoval = "published-before-removal",
    /// The extended attributes that a file has are written before a new name of it.
    AttributesBeforeName = "attributes-before-name",
    /// A long symbolic link claims its text before it has a name.
    TextBeforeName = "text-before-name",
    /// Blocks are free when no pointer on the device names them any more.
    ClearBeforeFree = "clear-before-free",
    /// A link count is lowered when the name is gone from the device.
    NameBeforeCount = "name-before-count",
    /// The last name of a file that has new ones is removed when one of those is in place.
    LastName = "last-name",
    /// The old name of a renamed file is removed when the new one is in place.
    NewNameFirst = "new-name-first",
    /// A name counts as in place only if the directory is itself named on the device.
    Anchored = "anchored",
    /// A name counts as gone or there only if the directory shows the block it was written in.
    MovedBlock = "moved-block",
    /// A name removed elsewhere in the directory is gone before it is entered again.
    UniqueName = "unique-name",
    /// A directory's size covers only chunks that are on the device.
    SizeBehindContent = "size-behind-content",
    /// An image shows a hole in a file only with a block behind it.
    BlockBeforeHole = "block-before-hole",
    /// A file's size shrinks when the indirect blocks it shares with what is cut off are written.
    CutBeforeSize = "cut-before-size",
    /// An indirect block has a pointer only if the file's size on the device covers its block.
    SizeBeforeIndirect = "size-before-indirect",
    /// New inode blocks are written before their group counts them.
    FreshBeforeGroup = "fresh-before-group",
    /// A record taken back gets its old type too.
    TypeWithNumber = "type-with-number",
    /// An inode's number is free when the cleared inode is on the device.
    ZeroBeforeFree = "zero-before-free",
    /// `..` of a moved directory names the new parent before the old one's count drops.
    DotDotBeforeCount = "dotdot-before-count",
    /// A directory moved below one that is itself under way waits until that has arrived.
    NoCircle = "no-circle",
    /// A directory names its new parent before it has a name there.
    DotDotBeforeName = "dotdot-before-name",
    /// An fsync makes older changes of names durable.
    OlderNames = "older-names",
    /// A name given by a rename or a link comes with the content of the file.
    ContentBeforeName = "content-before-name",
    /// What was written is durable only after a flush.
    FlushBeforeDurable = "flush-before-durable",
}

#[cfg(feature = "mutants")]
static BROKEN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(usize::MAX);

/// Switches `rule` off in the whole process, or all on.
#[cfg(feature = "mutants")]
pub fn break_rule(rule: Option<Rule>) {
    BROKEN.store(rule.map_or(usize::MAX, |r| r as usize), std::sync::atomic::Ordering::Relaxed);
}

/// Whether `rule` is in force.
#[inline]
pub(crate) fn holds(rule: Rule) -> bool {
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
