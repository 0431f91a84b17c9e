//! The mount options of each curve, and the passes that are measured under them.

/// The mount options of one curve.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) options: &'static [(&'static str, &'static str)],
    pub(super) passes: Passes,
}

/// The passes that are measured under a setting, after the files were created.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Passes {
    /// The cost of the directory code: the target forgets names before each pass. Missing names get
    /// a second pass.
    Directory,
    /// The cost of the name cache: second passes.
    NameCache,
    /// The effect of priming: first passes after creation.
    Fresh,
}

impl Passes {
    /// The figures that these passes have points in, Figure 2 excepted.
    pub(super) fn figures(self) -> &'static [u8] {
        match self {
            Passes::Directory => &[3, 4, 5, 6],
            Passes::NameCache | Passes::Fresh => &[4, 5],
        }
    }
}

// `dirhash_maxmem=auto` is explicit because a study may have turned hashes off for the volume.
const HASHED: [(&str, &str); 2] = [("dirhash_maxmem", "auto"), ("dirhash_minsize", "512")];

/// All settings, in the order in which they are measured.
pub(super) const SETTINGS: [Setting; 7] = [
    Setting { name: "linear", options: &[("dirhash_maxmem", "0")], passes: Passes::Directory },
    Setting { name: "dirhash", options: &HASHED, passes: Passes::Directory },
    Setting {
        name: "name cache minvnodes=1000",
        options: &[HASHED[0], HASHED[1], ("minvnodes", "1000")],
        passes: Passes::NameCache,
    },
    Setting {
        name: "name cache minvnodes=4000",
        options: &[HASHED[0], HASHED[1], ("minvnodes", "4000")],
        passes: Passes::NameCache,
    },
    Setting { name: "name cache", options: &HASHED, passes: Passes::NameCache },
    Setting {
        name: "not primed",
        options: &[HASHED[0], HASHED[1], ("namecache_prime", "off")],
        passes: Passes::Fresh,
    },
    Setting {
        name: "primed",
        options: &[HASHED[0], HASHED[1], ("namecache_prime", "create")],
        passes: Passes::Fresh,
    },
];
