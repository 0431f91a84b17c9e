//! The types of the values of switches, and their form in an atomic.

/// A limit that the user sets or ffs chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Limit {
    /// ffs chooses the limit; the module that reads it documents how.
    #[default]
    Auto,
    /// This limit.
    Of(u64),
}

impl Limit {
    /// The limit, with `auto` for [`Limit::Auto`].
    #[must_use]
    pub fn or(self, auto: impl FnOnce() -> u64) -> u64 {
        match self {
            Limit::Auto => auto(),
            Limit::Of(n) => n,
        }
    }
}

/// Conversion of the value of a switch to the number in its atomic.
pub(super) trait Raw: Copy {
    fn to_raw(self) -> u64;
    fn from_raw(raw: u64) -> Self;
}

impl Raw for bool {
    fn to_raw(self) -> u64 {
        self.into()
    }
    fn from_raw(raw: u64) -> bool {
        raw != 0
    }
}

impl Raw for u64 {
    fn to_raw(self) -> u64 {
        self
    }
    fn from_raw(raw: u64) -> u64 {
        raw
    }
}

/// The number of [`Limit::Auto`]. It is above the upper bound of every limit.
pub(super) const AUTO: u64 = u64::MAX;

impl Raw for Limit {
    fn to_raw(self) -> u64 {
        self.or(|| AUTO)
    }
    fn from_raw(raw: u64) -> Limit {
        if raw == AUTO { Limit::Auto } else { Limit::Of(raw) }
    }
}

/// Defines the type of a switch whose value is one of several words.
macro_rules! choices {
    ($($(#[$doc:meta])* $t:ident { $($(#[$vdoc:meta])* $v:ident $name:literal,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum $t { $($(#[$vdoc])* $v,)* }

        impl $t {
            /// All values.
            pub const ALL: &'static [$t] = &[$($t::$v),*];
            /// The words of all values, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),*];
        }

        impl Raw for $t {
            fn to_raw(self) -> u64 {
                self as u64
            }
            fn from_raw(raw: u64) -> $t {
                let index = usize::try_from(raw).ok();
                index.and_then(|i| Self::ALL.get(i)).copied().unwrap_or_default()
            }
        }
    )* };
}

choices! {
    /// Where new directories go (`spec/allocation.md` §3).
    DirPref {
        /// Spread over the groups, as 4.2BSD did.
        Old "old",
        /// Near the parent, as FreeBSD 4.4 and 4.5 did (the systems that the paper measured).
        New "new",
        /// Near the parent, as FreeBSD 10 does.
        #[default]
        New10 "new10",
        /// By depth, as FreeBSD does today.
        Depth "depth",
    }
    /// The generation of block preferences (`spec/allocation.md` §4).
    AllocPolicy {
        /// FreeBSD of 2001, which the paper measured.
        Y2001 "2001",
        /// FreeBSD since 2013.
        #[default]
        Y2013 "2013",
    }
    /// Hash function of directory names.
    DirHashFunction {
        /// FNV-1 over the name, as in the paper.
        Fnv1 "fnv1",
        /// FNV-1 over the name and a salt of the directory, as FreeBSD.
        Fnv1Salted "fnv1-salted",
        /// SipHash with a secret key: users cannot choose names that collide.
        #[default]
        SipHash "siphash",
    }
    /// When a directory frees empty blocks at its end.
    DirTruncate {
        /// When a name is created in it, as BSD.
        #[default]
        Create "create",
        /// Also when a name is deleted.
        CreateDelete "create+delete",
    }
    /// Which older changes of names an fsync makes durable besides its file.
    FsyncScope {
        /// All of them, as the commit of a journal does.
        #[default]
        All "all",
        /// Those on the path to the file.
        File "file",
    }
    /// Which writes of whole blocks go to the device at once, without buffers.
    WriteInPlace {
        /// None: every write goes through the buffer cache, as in FreeBSD.
        Off "off",
        /// Those of 64 KiB and more to an image that is a file or a block device of the host.
        #[default]
        File "file",
        /// All, also where that saves no copy.
        Always "always",
    }
    /// Which operations enter new names into the name cache.
    NamecachePrime {
        /// None: the first lookup enters the name, as FreeBSD of 2002.
        Off "off",
        /// Creating files.
        Create "create",
        /// All operations that create, move or remove a name.
        #[default]
        All "all",
    }
}
