//! Every switch that has a BSD name, in one table: for mount options, for `sysctl`, for the code that asks.
//!
//! # Invariants
//! 1. A value that is in force kept its bounds when it was set, whichever way it came.
//! 2. Every switch is consulted somewhere, and explained in `docs/switches.md`.
//! 3. Reading a switch is one relaxed load: a change is seen some time, and orders nothing. What has to
//!    happen besides (emptying a pool that became smaller) is done by who sets it (`mount::sysctl`).
//!
//! References: `spec/directories-and-caches.md` §3.9, §4.3, §5, §6, §7; `spec/allocation.md` §3, §4.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a switch takes, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0 or 1.
    Flag,
    /// A number.
    Count(u64, u64),
    /// Bytes; k, m and g may follow the number.
    Bytes(u64, u64),
    /// Seconds.
    Seconds(u64, u64),
    /// 0 to 100.
    Percent,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A number, or `auto`.
    AutoCount(u64, u64),
    /// Bytes, or `auto`.
    AutoBytes(u64, u64),
}

/// A limit that may be left to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Limit {
    /// As the room that consults it documents.
    #[default]
    Auto,
    /// This.
    Of(u64),
}

impl Limit {
    /// The number, `auto` standing for what `f` says.
    #[must_use]
    pub fn or(self, f: impl FnOnce() -> u64) -> u64 {
        match self {
            Limit::Auto => f(),
            Limit::Of(n) => n,
        }
    }
}

/// How a switch's value is kept in an atomic.
trait Raw: Copy {
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

/// [`Limit::Auto`] in an atomic; no bounds reach as far.
const AUTO: u64 = u64::MAX;

impl Raw for Limit {
    fn to_raw(self) -> u64 {
        self.or(|| AUTO)
    }
    fn from_raw(raw: u64) -> Limit {
        if raw == AUTO { Limit::Auto } else { Limit::Of(raw) }
    }
}

/// A switch among words: the enum, and the words in its order.
macro_rules! choices {
    ($($(#[$doc:meta])* $t:ident { $($(#[$vdoc:meta])* $v:ident $name:literal,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum $t { $($(#[$vdoc])* $v,)* }

        impl $t {
            /// Every choice.
            pub const ALL: &'static [$t] = &[$($t::$v),*];
            /// Their words.
            pub const NAMES: &'static [&'static str] = &[$($name),*];
        }

        impl Raw for $t {
            fn to_raw(self) -> u64 {
                self as u64
            }
            fn from_raw(raw: u64) -> $t {
                usize::try_from(raw).ok().and_then(|i| Self::ALL.get(i)).copied().unwrap_or_default()
            }
        }
    )* };
}

choices! {
    /// Where new directories go (`spec/allocation.md` §3).
    DirPref {
        /// Spread over the groups, as 4.2BSD did.
        Old "old",
        /// Near the parent, as FreeBSD 4.4 and 4.5 did (what the paper measured).
        New "new",
        /// Near the parent, as FreeBSD 10 does.
        #[default]
        New10 "new10",
        /// By depth, as FreeBSD does today.
        Depth "depth",
    }
    /// Which generation of block preferences is used (`spec/allocation.md` §4).
    AllocPolicy {
        /// FreeBSD of 2001, the paper's.
        Y2001 "2001",
        /// FreeBSD since 2013.
        #[default]
        Y2013 "2013",
    }
    /// Hash function of directory names.
    DirHashFunction {
        /// FNV-1 over the name, as FreeBSD.
        Fnv1 "fnv1",
        /// FNV-1 over the name and a salt of the directory.
        Fnv1Salted "fnv1-salted",
        /// Keyed: nobody can choose names that collide.
        #[default]
        SipHash "siphash",
    }
    /// When a directory gives back empty blocks at its end.
    DirTruncate {
        /// When a name is created in it, as BSD.
        #[default]
        Create "create",
        /// When a name is deleted, too.
        CreateDelete "create+delete",
    }
    /// Which older changes of names an fsync makes durable besides its file.
    FsyncScope {
        /// All of them, as the commit of a journal does.
        #[default]
        All "all",
        /// Those that lead to the file.
        File "file",
    }
    /// Which operations enter the names they make into the name cache.
    NamecachePrime {
        /// None: the first lookup does, as FreeBSD of 2002.
        Off "off",
        /// Creating files.
        Create "create",
        /// Everything that makes, moves or removes a name.
        #[default]
        All "all",
    }
}

/// A row of the table.
struct Row {
    id: TunableId,
    bsd: &'static str,
    option: &'static str,
    kind: Kind,
    meaning: &'static str,
}

/// A refusal to set or to tell a switch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TunableError {
    /// No such name.
    #[error("unknown name '{name}'{}", suggestion(*.nearest))]
    Unknown {
        /// What was asked for.
        name: String,
        /// A name it looks like.
        nearest: Option<&'static str>,
    },
    /// It tells, and takes nothing.
    #[error("'{0}' is read-only")]
    ReadOnly(&'static str),
    /// Not of the switch's type.
    #[error("'{name}={value}': expected {expected}")]
    Value {
        /// The switch.
        name: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// Of the type, but too small or too large.
    #[error("'{name}={value}' is out of bounds: {min} to {max}")]
    Bounds {
        /// The switch.
        name: &'static str,
        /// What was given.
        value: String,
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
}

/// What follows the refusal of a word, if there is a name that was probably meant.
#[must_use]
pub fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default()
}

macro_rules! tunables {
    ($($field:ident: $t:ty = $default:expr, $kind:expr, $bsd:literal, $option:literal,
        $meaning:literal;)*) => {
        /// A switch by its field's name.
        #[allow(non_camel_case_types, reason = "the names are the fields'")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum TunableId { $(#[doc = $meaning] $field,)* }

        /// Values of all switches; [`crate::MountOptions`] has them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct TunableValues { $(#[doc = $meaning] pub $field: $t,)* }

        impl Default for TunableValues {
            fn default() -> Self {
                TunableValues { $($field: $default,)* }
            }
        }

        impl TunableValues {
            fn raw(&self, id: TunableId) -> u64 {
                match id { $(TunableId::$field => self.$field.to_raw(),)* }
            }

            fn set_raw(&mut self, id: TunableId, raw: u64) {
                match id { $(TunableId::$field => self.$field = Raw::from_raw(raw),)* }
            }
        }

        /// The switches of a mount.
        #[derive(Debug)]
        pub(crate) struct Tunables { $($field: AtomicU64,)* }

        impl Tunables {
            pub(crate) fn new(v: &TunableValues) -> Tunables {
                Tunables { $($field: AtomicU64::new(v.$field.to_raw()),)* }
            }

            $(
                #[doc = $meaning]
                pub(crate) fn $field(&self) -> $t {
                    Raw::from_raw(self.$field.load(Ordering::Relaxed))
                }
            )*

            fn cell(&self, id: TunableId) -> &AtomicU64 {
                match id { $(TunableId::$field => &self.$field,)* }
            }
        }

        const ROWS: &[Row] = &[$(Row {
            id: TunableId::$field,
            bsd: $bsd,
            option: $option,
            kind: $kind,
            meaning: $meaning,
        },)*];
    };
}

/// Numbers of things.
const MANY: u64 = 1 << 32;
/// Bytes.
const HUGE: u64 = 1 << 46;

// Field: type = default, kind and bounds, BSD's name, mount option, meaning.
tunables! {
    dirpref: DirPref = DirPref::New10, Kind::Choice(DirPref::NAMES),
        "vfs.ffs.dirpref", "dirpref", "Where new directories go.";
    alloc: AllocPolicy = AllocPolicy::Y2013, Kind::Choice(AllocPolicy::NAMES),
        "vfs.ffs.alloc", "alloc", "Which generation of block preferences.";
    doreallocblks: bool = true, Kind::Flag,
        "vfs.ffs.doreallocblks", "doreallocblks", "Move sequentially written blocks together.";
    dirhash_minsize: u64 = 2560, Kind::Bytes(512, HUGE),
        "vfs.ufs.dirhash_minsize", "dirhash_minsize", "Smallest directory that gets a hash.";
    dirhash_maxmem: Limit = Limit::Auto, Kind::AutoBytes(0, HUGE),
        "vfs.ufs.dirhash_maxmem", "dirhash_maxmem", "Memory for directory hashes; 0 turns them off.";
    dirhash_docheck: bool = false, Kind::Flag,
        "vfs.ufs.dirhash_docheck", "dirhash_docheck", "Check a hash after every change, against the directory.";
    dirhash_reclaimpercent: u64 = 10, Kind::Percent,
        "vfs.ufs.dirhash_reclaimpercent", "dirhash_reclaimpercent",
        "Share of the hashes that is given back when memory is short.";
    dirhash_reclaimage: u64 = 60, Kind::Seconds(0, MANY),
        "vfs.ufs.dirhash_reclaimage", "dirhash_reclaimage",
        "Age of an unused hash that is given back when memory is short.";
    dirhash_hash: DirHashFunction = DirHashFunction::SipHash, Kind::Choice(DirHashFunction::NAMES),
        "vfs.ufs.dirhash_hash", "dirhash_hash", "Hash function of directory hashes to come.";
    dirhash_compat: bool = false, Kind::Flag,
        "vfs.ufs.dirhash_compat", "dirhash_compat",
        "Directory hashes to come have the faults of the code the paper measured.";
    dir_truncate: DirTruncate = DirTruncate::Create, Kind::Choice(DirTruncate::NAMES),
        "vfs.ffs.dir_truncate", "dir_truncate", "When a directory gives back empty blocks at its end.";
    vmiodirenable: bool = true, Kind::Flag,
        "vfs.vmiodirenable", "vmiodirenable",
        "Directory blocks use the page cache; otherwise buffers of their own.";
    vfscache: bool = true, Kind::Flag,
        "debug.vfscache", "namecache", "Keep names in memory.";
    ncnegfactor: u64 = 16, Kind::Count(1, MANY),
        "debug.ncnegfactor", "ncnegfactor", "One name in so many may be of a file that does not exist.";
    namecache_prime: NamecachePrime = NamecachePrime::All, Kind::Choice(NamecachePrime::NAMES),
        "vfs.ffs.namecache_prime", "namecache_prime", "Which operations keep the names they make in memory.";
    minvnodes: Limit = Limit::Auto, Kind::AutoCount(0, MANY),
        "kern.minvnodes", "minvnodes",
        "Inodes kept in memory before unused ones without blocks in memory are recycled; auto: maxvnodes.";
    maxvnodes: u64 = 65536, Kind::Count(1, MANY),
        "kern.maxvnodes", "maxvnodes", "Inodes kept in memory before any unused ones are recycled.";
    wantfreevnodes: u64 = 25, Kind::Count(0, MANY),
        "vfs.wantfreevnodes", "wantfreevnodes", "Unused inodes there must be before one is recycled.";
    cache: u64 = 64 << 20, Kind::Bytes(2 << 20, HUGE),
        "vfs.ffs.cache", "cache", "Memory for blocks.";
    nbuf: Limit = Limit::Auto, Kind::AutoCount(16, MANY),
        "kern.nbuf", "nbuf", "Most blocks with a buffer header.";
    hibufspace: Limit = Limit::Auto, Kind::AutoBytes(64 << 10, HUGE),
        "vfs.hibufspace", "hibufspace", "Most bytes of blocks with a buffer header.";
    filedelay: u64 = 30, Kind::Seconds(0, MANY),
        "kern.filedelay", "filedelay", "Seconds until changed file content is written.";
    dirdelay: u64 = 29, Kind::Seconds(0, MANY),
        "kern.dirdelay", "dirdelay", "Seconds until changed directories are written.";
    metadelay: u64 = 28, Kind::Seconds(0, MANY),
        "kern.metadelay", "metadelay", "Seconds until changed inodes, groups and indirect blocks are written.";
    fsync: FsyncScope = FsyncScope::All, Kind::Choice(FsyncScope::NAMES),
        "vfs.ffs.fsync", "fsync",
        "Which older changes of names an fsync makes durable: all, or those that lead to its file.";
    max_softdeps: Limit = Limit::Auto, Kind::AutoCount(100, MANY),
        "debug.softdep.max_softdeps", "max_softdeps",
        "Changes that soft updates keep track of before operations wait; auto: 4 for each of maxvnodes.";
    maxbufmallocspace: Limit = Limit::Auto, Kind::AutoBytes(0, HUGE),
        "vfs.maxbufmallocspace", "maxbufmallocspace", "Most bytes of small blocks outside whole pages.";
}

/// A switch as it is told to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunable {
    /// Which.
    pub id: TunableId,
    /// BSD's name.
    pub name: &'static str,
    /// The mount option.
    pub option: &'static str,
    /// Its value, as it can be set.
    pub value: String,
    /// What it takes.
    pub kind: Kind,
    /// One sentence.
    pub meaning: &'static str,
}

impl Row {
    fn tell(&self, raw: u64) -> Tunable {
        Tunable {
            id: self.id,
            name: self.bsd,
            option: self.option,
            value: self.kind.format(raw),
            kind: self.kind,
            meaning: self.meaning,
        }
    }

    fn read(&self, value: &str, name: &'static str) -> Result<u64, TunableError> {
        let given = || value.to_owned();
        let wrong = || TunableError::Value { name, value: given(), expected: self.kind.takes() };
        let raw = self.kind.parse(value).ok_or_else(wrong)?;
        match self.kind.bounds() {
            _ if self.kind.is_auto() && raw == AUTO => Ok(raw),
            Some((min, max)) if !(min..=max).contains(&raw) => {
                Err(TunableError::Bounds { name, value: given(), min, max })
            }
            _ => Ok(raw),
        }
    }
}

/// The row of a BSD name or mount option.
fn find(name: &str) -> Result<&'static Row, TunableError> {
    ROWS.iter().find(|r| r.bsd == name || r.option == name).ok_or_else(|| TunableError::Unknown {
        name: name.to_owned(),
        nearest: nearest(
            name,
            ROWS.iter().map(|r| if name.contains('.') { r.bsd } else { r.option }),
        ),
    })
}

impl TunableValues {
    /// Every switch.
    #[must_use]
    pub fn list(&self) -> Vec<Tunable> {
        ROWS.iter().map(|r| r.tell(self.raw(r.id))).collect()
    }

    /// Sets a switch by its mount option (or BSD name). A flag takes no value, too, and `no` before it.
    ///
    /// # Errors
    /// See [`TunableError`].
    pub fn set(&mut self, option: &str, value: Option<&str>) -> Result<(), TunableError> {
        let (row, value) = match (find(option), value) {
            (Ok(row), Some(value)) => (row, value),
            (Ok(row), None) if row.kind == Kind::Flag => (row, "1"),
            (Ok(row), None) => (row, ""),
            (Err(e), None) => match option.strip_prefix("no").map(find) {
                Some(Ok(row)) if row.kind == Kind::Flag => (row, "0"),
                _ => return Err(e),
            },
            (Err(e), Some(_)) => return Err(e),
        };
        let raw = row.read(value, row.option)?;
        self.set_raw(row.id, raw);
        Ok(())
    }
}

impl Tunables {
    /// Every switch.
    pub(crate) fn list(&self) -> Vec<Tunable> {
        ROWS.iter().map(|r| r.tell(self.cell(r.id).load(Ordering::Relaxed))).collect()
    }

    /// Sets a switch by its BSD name (or mount option); tells the switch as it was.
    ///
    /// # Errors
    /// See [`TunableError`].
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<Tunable, TunableError> {
        let row = find(name)?;
        let raw = row.read(value, row.bsd)?;
        Ok(row.tell(self.cell(row.id).swap(raw, Ordering::Relaxed)))
    }
}

/// Every mount option of the table: what it takes, its default, and what it is for.
pub fn describe() -> impl Iterator<Item = (&'static str, String, String, &'static str)> {
    let values = TunableValues::default();
    ROWS.iter().map(move |r| (r.option, r.kind.takes(), r.kind.format(values.raw(r.id)), r.meaning))
}

impl Kind {
    fn bounds(self) -> Option<(u64, u64)> {
        match self {
            Kind::Count(min, max)
            | Kind::Bytes(min, max)
            | Kind::Seconds(min, max)
            | Kind::AutoCount(min, max)
            | Kind::AutoBytes(min, max) => Some((min, max)),
            Kind::Percent => Some((0, 100)),
            Kind::Flag | Kind::Choice(_) => None,
        }
    }

    fn is_auto(self) -> bool {
        matches!(self, Kind::AutoCount(..) | Kind::AutoBytes(..))
    }

    /// What it takes, in words.
    #[must_use]
    pub fn takes(self) -> String {
        match self {
            Kind::Flag => "0 or 1".to_owned(),
            Kind::Count(..) => "a number".to_owned(),
            Kind::Bytes(..) => "a size such as 64m".to_owned(),
            Kind::Seconds(..) => "seconds".to_owned(),
            Kind::Percent => "0 to 100".to_owned(),
            Kind::AutoCount(..) => "a number or auto".to_owned(),
            Kind::AutoBytes(..) => "a size such as 64m, or auto".to_owned(),
            Kind::Choice(names) => match names {
                [first @ .., last] => format!("{} or {last}", first.join(", ")),
                [] => String::new(),
            },
        }
    }

    fn format(self, raw: u64) -> String {
        match self {
            Kind::AutoCount(..) | Kind::AutoBytes(..) if raw == AUTO => "auto".to_owned(),
            Kind::Choice(names) => {
                let name = usize::try_from(raw).ok().and_then(|i| names.get(i));
                name.copied().unwrap_or_default().to_owned()
            }
            _ => raw.to_string(),
        }
    }

    fn parse(self, text: &str) -> Option<u64> {
        match self {
            Kind::Flag => match text {
                "1" | "on" | "yes" | "true" | "enable" => Some(1),
                "0" | "off" | "no" | "false" | "disable" => Some(0),
                _ => None,
            },
            Kind::Count(..) | Kind::Seconds(..) => number(text),
            Kind::Percent => number(text.strip_suffix('%').unwrap_or(text)),
            Kind::Bytes(..) => size(text),
            Kind::Choice(names) => names.iter().position(|n| *n == text).map(|i| i as u64),
            Kind::AutoCount(..) | Kind::AutoBytes(..) if text == "auto" => Some(AUTO),
            Kind::AutoCount(..) => number(text).filter(|n| *n != AUTO),
            Kind::AutoBytes(..) => size(text).filter(|n| *n != AUTO),
        }
    }
}

/// Digits only: no sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Bytes; k, m and g may follow the number.
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (text.get(..text.len() - 1)?, 10),
        b'm' => (text.get(..text.len() - 1)?, 20),
        b'g' => (text.get(..text.len() - 1)?, 30),
        _ => (text, 0),
    };
    number(digits)?.checked_mul(1 << shift)
}

/// The name that was probably meant: with the same last part, at most two edits away, or one that the word is
/// a part of.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&'a str> = names.collect();
    let last = |name: &str| name.rsplit('.').next().map(str::to_owned);
    if let Some(same) = names.iter().find(|n| last(n) == last(word)) {
        return Some(same);
    }
    let near = names.iter().map(|name| (strsim::levenshtein(word, name), *name)).min()?;
    // A short word is close to many that have nothing to do with it.
    let slips = if word.len() < 4 { 0 } else { (word.len() / 3).min(2) };
    if near.0 <= slips {
        return Some(near.1);
    }
    let part = |name: &&&str| word.len() >= 4 && name.contains(word);
    names.iter().filter(part).min_by_key(|name| name.len()).copied()
}

#[cfg(test)]
#[path = "tunables/tests.rs"]
mod tests;
