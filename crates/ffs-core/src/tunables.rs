//! The table of all switches with BSD names. Mount options, `ffs sysctl` and the code that reads a
//! switch use this one table.
//!
//! | module | contents |
//! | --- | --- |
//! | `kind` | types and bounds of switches; text to value and back |
//! | `values` | the types of values, and their form in an atomic |
//! | `error` | errors, and suggestions of similar names |
//!
//! # Invariants
//! 1. Every value in force is within its bounds, which are checked when it is set.
//! 2. Every switch is read somewhere, and described in `docs/switches.md`.
//! 3. Reading a switch is one relaxed load. A change becomes visible some time later and orders no
//!    other memory access. Other effects of a change, such as shrinking a pool, are the work of
//!    `mount::sysctl`, which sets the switch.
//!
//! References: `spec/directories-and-caches.md` §3.9, §4.3, §5, §6, §7; `spec/allocation.md` §3,
//! §4.

mod error;
mod kind;
mod values;

pub use error::{TunableError, nearest, suggestion};
pub use kind::{Kind, size};
use std::sync::atomic::{AtomicU64, Ordering};
use values::{AUTO, Raw};
pub use values::{
    AllocPolicy, DirHashFunction, DirPref, DirTruncate, FsyncScope, Limit, NamecachePrime,
    WriteInPlace,
};

/// A row of the table of switches.
struct Row {
    id: TunableId,
    bsd: &'static str,
    option: &'static str,
    kind: Kind,
    meaning: &'static str,
}

macro_rules! tunables {
    ($($field:ident: $t:ty = $default:expr, $kind:expr, $bsd:literal, $option:literal,
        $meaning:literal;)*) => {
        /// A switch, by the name of its field.
        #[allow(non_camel_case_types, reason = "the names are the fields'")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum TunableId { $(#[doc = $meaning] $field,)* }

        /// Values of all switches, a part of [`crate::MountOptions`].
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

/// Upper bound of numbers of objects and of seconds.
const MANY: u64 = 1 << 32;
/// Upper bound of sizes, bytes.
const HUGE: u64 = 1 << 46;

// Field: type = default, kind and bounds, BSD's name, mount option, meaning.
tunables! {
    dirpref: DirPref = DirPref::New10, Kind::Choice(DirPref::NAMES),
        "vfs.ffs.dirpref", "dirpref", "Where new directories go.";
    alloc: AllocPolicy = AllocPolicy::Y2013, Kind::Choice(AllocPolicy::NAMES),
        "vfs.ffs.alloc", "alloc", "Which generation of block preferences is used.";
    doreallocblks: bool = true, Kind::Flag,
        "vfs.ffs.doreallocblks", "doreallocblks", "Move sequentially written blocks together.";
    write_in_place: WriteInPlace = WriteInPlace::File, Kind::Choice(WriteInPlace::NAMES),
        "vfs.ffs.write_in_place", "write_in_place",
        "Which large writes pass the buffer cache by.";
    dirhash_minsize: u64 = 2560, Kind::Bytes(512, HUGE),
        "vfs.ufs.dirhash_minsize", "dirhash_minsize", "Smallest directory that gets a hash.";
    dirhash_maxmem: Limit = Limit::Auto, Kind::AutoBytes(0, HUGE),
        "vfs.ufs.dirhash_maxmem", "dirhash_maxmem",
        "Memory for directory hashes; 0 turns them off.";
    dirhash_docheck: bool = false, Kind::Flag,
        "vfs.ufs.dirhash_docheck", "dirhash_docheck",
        "Compare a hash with its directory after every change.";
    dirhash_reclaimpercent: u64 = 10, Kind::Percent,
        "vfs.ufs.dirhash_reclaimpercent", "dirhash_reclaimpercent",
        "Percentage of the hashes that is freed when memory is short.";
    dirhash_reclaimage: u64 = 60, Kind::Seconds(0, MANY),
        "vfs.ufs.dirhash_reclaimage", "dirhash_reclaimage",
        "Age of an unused hash that is freed when memory is short, seconds.";
    dirhash_hash: DirHashFunction = DirHashFunction::SipHash, Kind::Choice(DirHashFunction::NAMES),
        "vfs.ufs.dirhash_hash", "dirhash_hash", "Hash function of new directory hashes.";
    dirhash_compat: bool = false, Kind::Flag,
        "vfs.ufs.dirhash_compat", "dirhash_compat",
        "New directory hashes have the faults of the code that the paper measured.";
    dir_truncate: DirTruncate = DirTruncate::Create, Kind::Choice(DirTruncate::NAMES),
        "vfs.ffs.dir_truncate", "dir_truncate",
        "When a directory frees empty blocks at its end.";
    vmiodirenable: bool = true, Kind::Flag,
        "vfs.vmiodirenable", "vmiodirenable",
        "Directory blocks use the page cache instead of their own buffers.";
    vfscache: bool = true, Kind::Flag,
        "debug.vfscache", "namecache", "Keep names in memory.";
    ncnegfactor: u64 = 16, Kind::Count(1, MANY),
        "debug.ncnegfactor", "ncnegfactor",
        "One of this many cached names may be a negative entry.";
    namecache_prime: NamecachePrime = NamecachePrime::All, Kind::Choice(NamecachePrime::NAMES),
        "vfs.ffs.namecache_prime", "namecache_prime",
        "Which operations enter new names into the name cache.";
    minvnodes: Limit = Limit::Auto, Kind::AutoCount(0, MANY),
        "kern.minvnodes", "minvnodes",
        "Inodes in memory above which unused ones without cached blocks are recycled; \
         auto: maxvnodes.";
    maxvnodes: u64 = 65536, Kind::Count(1, MANY),
        "kern.maxvnodes", "maxvnodes", "Inodes in memory above which unused ones are recycled.";
    wantfreevnodes: u64 = 25, Kind::Count(0, MANY),
        "vfs.wantfreevnodes", "wantfreevnodes",
        "Unused inodes that must exist before one is recycled.";
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
        "kern.metadelay", "metadelay",
        "Seconds until changed inodes, groups and indirect blocks are written.";
    fsync: FsyncScope = FsyncScope::All, Kind::Choice(FsyncScope::NAMES),
        "vfs.ffs.fsync", "fsync",
        "Older changes of names that an fsync makes durable: all, or those on its file's path.";
    max_softdeps: Limit = Limit::Auto, Kind::AutoCount(100, MANY),
        "debug.softdep.max_softdeps", "max_softdeps",
        "Dependencies of soft updates at which operations wait; auto: 4 for each of maxvnodes.";
    maxbufmallocspace: Limit = Limit::Auto, Kind::AutoBytes(0, HUGE),
        "vfs.maxbufmallocspace", "maxbufmallocspace",
        "Most bytes of small blocks outside whole pages.";
}

/// A switch and its value, for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunable {
    /// The switch.
    pub id: TunableId,
    /// BSD's name.
    pub name: &'static str,
    /// The mount option.
    pub option: &'static str,
    /// Its value, in the form in which it can be set.
    pub value: String,
    /// Its type and bounds.
    pub kind: Kind,
    /// A description, one sentence.
    pub meaning: &'static str,
}

impl Row {
    /// The switch with the value `raw`.
    fn with_value(&self, raw: u64) -> Tunable {
        Tunable {
            id: self.id,
            name: self.bsd,
            option: self.option,
            value: self.kind.format(raw),
            kind: self.kind,
            meaning: self.meaning,
        }
    }

    /// The value that the text `value` gives. `name` is the name of the switch in errors.
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

/// The row with this BSD name or mount option.
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
        ROWS.iter().map(|r| r.with_value(self.raw(r.id))).collect()
    }

    /// Sets a switch by its mount option (or BSD name). A flag may have no value, which means 1,
    /// and `no` before its name, which means 0.
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
        ROWS.iter().map(|r| r.with_value(self.cell(r.id).load(Ordering::Relaxed))).collect()
    }

    /// Sets a switch by its BSD name (or mount option). Returns the switch with its former value.
    ///
    /// # Errors
    /// See [`TunableError`].
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<Tunable, TunableError> {
        let row = find(name)?;
        let raw = row.read(value, row.bsd)?;
        Ok(row.with_value(self.cell(row.id).swap(raw, Ordering::Relaxed)))
    }
}

/// Every mount option of the table: name, accepted values, default, description.
pub fn describe() -> impl Iterator<Item = (&'static str, String, String, &'static str)> {
    let values = TunableValues::default();
    ROWS.iter().map(move |r| (r.option, r.kind.takes(), r.kind.format(values.raw(r.id)), r.meaning))
}

#[cfg(test)]
mod tests;
