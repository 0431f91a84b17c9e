//! Number types that must not be mixed.
//!
//! Every address of the format has one of these types. Named methods of [`crate::Geometry`] convert
//! between them. Counts (of fragments, bytes, ...) are plain integers with the unit in their name.

use std::fmt;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($inner:ty), $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($what, " {}"), self.0)
            }
        }
    };
}

unit! {
    /// Inode number. 0 means "no inode", 1 is the whiteout number, 2 the root.
    Ino(u32), "inode"
}
unit! {
    /// Cylinder-group number, `0..ncg`.
    CgNo(u32), "group"
}
unit! {
    /// Address of a fragment, counted from the start of the partition. 0 as a pointer is a hole.
    FragNo(u64), "fragment"
}
unit! {
    /// Logical block of a file: file offset divided by the block size.
    Lbn(u64), "logical block"
}
unit! {
    /// Byte offset in a directory; a directory has at most 2³¹ − 1 bytes.
    DirOff(u32), "directory offset"
}

impl Ino {
    /// The root directory.
    pub const ROOT: Ino = Ino(2);
    /// The inode number that marks a whiteout entry.
    pub const WHITEOUT: Ino = Ino(1);
}

impl FragNo {
    /// The pointer value of a hole.
    pub const HOLE: FragNo = FragNo(0);

    /// The fragment `n` fragments after this one.
    #[must_use]
    pub fn plus(self, n: u64) -> FragNo {
        FragNo(self.0.saturating_add(n))
    }

    /// The pointer to this fragment, as it is stored.
    #[must_use]
    pub fn pointer(self) -> i64 {
        i64::try_from(self.0).unwrap_or(0)
    }

    /// Whether this pointer is a hole.
    #[must_use]
    pub fn is_hole(self) -> bool {
        self.0 == 0
    }
}

impl Lbn {
    /// The logical block `n` blocks after this one.
    #[must_use]
    pub fn plus(self, n: u64) -> Lbn {
        Lbn(self.0.saturating_add(n))
    }
}
