//! Mount options: the words after `-o`.
//!
//! **Purpose.** Parses `ro,dirpref=old,cache=256m` into typed options. An error names the nearest
//! existing option. The names are BSD's where BSD has the option, and mount(8)'s where fstab uses
//! it.
//!
//! **Invariants.** No word is ignored, except those that are meant for mount(8).

use crate::owners::Owners;
use ffs_core::{Atime, MountOptions, OrderingPolicy, QuotaOption, QuotaOptions, TunableError};
use std::time::Duration;

/// The parsed mount options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The core's options.
    pub core: MountOptions,
    /// Users other than the one who mounts have access. `None`: only if root mounts.
    pub allow_other: Option<bool>,
    /// The kernel checks permissions, unless `fakeroot` is set.
    pub default_permissions: bool,
    /// The user who mounts acts as root on the volume.
    pub fakeroot: bool,
    /// The owners and permissions that programs see.
    pub owners: Owners,
    /// Set-id bits have effect. `None`: the default of the command that mounts.
    pub suid: Option<bool>,
    /// Device nodes can be opened. `None`: the default of the command that mounts.
    pub dev: Option<bool>,
    /// Programs may be run.
    pub exec: bool,
    /// The kernel caches writes (the write-back cache).
    pub writeback: bool,
    /// Threads that serve requests.
    pub threads: usize,
    /// Whether requests pass over io_uring.
    pub io_uring: UseIoUring,
    /// Whether the content of large reads and writes passes by splice(2) instead of a copy.
    pub splice: bool,
    /// Whether programs see extended attributes. POSIX access control lists need them.
    pub xattr: bool,
    /// Whether the kernel opens files without a request. It implies that reads set no access times.
    pub no_open: bool,
    /// Whether a thread that serves requests runs beside its client, with the policy `SCHED_IDLE`.
    pub sched_idle: bool,
    /// How long the kernel may cache names.
    pub entry_timeout: Duration,
    /// How long the kernel may cache that a name does not exist.
    pub negative_timeout: Duration,
    /// How long the kernel may cache attributes. `None`: long, or short with `writeback`.
    pub attr_timeout: Option<Duration>,
    /// The source in the mount table, instead of the image.
    pub fsname: Option<String>,
    /// Check a volume in the background that was not unmounted cleanly.
    pub bgfsck: bool,
    /// Change an existing mount.
    pub remount: bool,
    /// Log each request.
    pub debug: bool,
}

/// How long the kernel may cache the content of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    pub(crate) entry: Duration,
    pub(crate) negative: Duration,
    pub(crate) attr: Duration,
}

/// Whether requests pass over io_uring instead of `/dev/fuse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseIoUring {
    /// If the kernel and the system permit it.
    Auto,
    /// Yes, or the mount fails.
    On,
    /// No.
    Off,
}

/// An option that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The option does not exist.
    #[error("unknown mount option '{word}'{}", ffs_core::suggestion(*.nearest))]
    Unknown {
        /// The word.
        word: String,
        /// The nearest existing option.
        nearest: Option<&'static str>,
    },
    /// A tunable rejects its value.
    #[error("mount option {0}")]
    Tunable(#[from] TunableError),
    /// Only the kernel can check the permissions that it is shown.
    #[error(
        "mount options uid, gid and umask need the kernel's checks: they cannot be combined with \
         {0}"
    )]
    NeedsKernel(&'static str),
    /// The option takes another kind of value.
    #[error("mount option '{option}={value}': expected {expected}")]
    Value {
        /// The option.
        option: &'static str,
        /// The given value.
        value: String,
        /// The expected kind of value.
        expected: &'static str,
    },
}

/// The kernel may cache for an hour: every change passes through it.
const LONG: Duration = Duration::from_secs(3600);
/// With the write-back cache the kernel cannot know how many blocks a file has.
const SHORT: Duration = Duration::from_secs(1);

impl Default for Options {
    fn default() -> Self {
        Options {
            core: MountOptions::default(),
            allow_other: None,
            default_permissions: true,
            fakeroot: false,
            owners: Owners::default(),
            suid: None,
            dev: None,
            exec: true,
            writeback: false,
            threads: 4,
            io_uring: UseIoUring::Auto,
            splice: true,
            xattr: true,
            no_open: false,
            sched_idle: true,
            entry_timeout: LONG,
            negative_timeout: LONG,
            attr_timeout: None,
            fsname: None,
            bgfsck: true,
            remount: false,
            debug: false,
        }
    }
}

impl Options {
    /// Whether the kernel checks permissions. It cannot check those of a user who acts as root.
    pub(crate) fn kernel_checks(&self) -> bool {
        self.default_permissions && !self.fakeroot
    }

    /// Whether the kernel opens files without a request. It does not if the server checks
    /// permissions then, or if it caches writes: the server would refuse those too late.
    pub(crate) fn opens_alone(&self) -> bool {
        self.no_open && self.kernel_checks() && !self.writeback
    }

    /// Whether other users than the one who mounts have access.
    pub(crate) fn admits_others(&self) -> bool {
        self.allow_other.unwrap_or_else(|| rustix::process::geteuid().is_root())
    }

    /// If the server checks permissions for several users, the kernel must not cache names: it
    /// would use those that one user looked up for another, who may not search the directory.
    /// `writeback`: it caches writes.
    pub(crate) fn timeouts(&self, writeback: bool) -> Timeouts {
        let attr = if writeback { SHORT } else { LONG };
        let may_cache = self.kernel_checks() || !self.admits_others();
        Timeouts {
            entry: if may_cache { self.entry_timeout } else { Duration::ZERO },
            negative: if may_cache { self.negative_timeout } else { Duration::ZERO },
            attr: self.attr_timeout.unwrap_or(attr),
        }
    }
}

/// An option: its word, its kind of value, its help text.
struct Word {
    name: &'static str,
    /// The kind of value after `=`; empty if the option takes none.
    takes: &'static str,
    help: &'static str,
    set: fn(&mut Options, &str) -> bool,
}

macro_rules! words {
    ($($name:literal $takes:literal $help:literal |$o:pat_param, $v:pat_param| $set:expr;)*) => {
        const WORDS: &[Word] = &[$(Word {
            name: $name,
            takes: $takes,
            help: $help,
            set: |$o, $v| $set,
        }),*];
    };
}

/// Makes an assignment that cannot fail.
macro_rules! set {
    ($($place:expr => $value:expr),+) => {{ $($place = $value;)+ true }};
}

/// Makes an assignment if the value parses.
macro_rules! read {
    ($place:expr, $value:expr) => {
        match $value {
            Some(v) => {
                $place = v;
                true
            }
            None => false,
        }
    };
}

words! {
    "ro" "" "read-only" |o, _| set!(o.core.read_only => true);
    "rw" "" "read-write" |o, _| set!(o.core.read_only => false);
    "force" "" "mount read-write even if the volume is dirty: check it soon"
        |o, _| set!(o.core.force => true);
    "bgfsck" "" "after a crash, check a volume with soft updates in the background, on a \
        snapshot (the default)"
        |o, _| set!(o.bgfsck => true);
    "nobgfsck" "" "do not: `ffs fsck -B` starts the check"
        |o, _| set!(o.bgfsck => false);
    "softdep" "" "soft updates, even if the volume does not have them enabled (`newfs -U` and \
        `tunefs -n enable` do that): the volume is then marked so until it is unmounted or checked"
        |o, _| set!(o.core.ordering => OrderingPolicy::Journaled);
    "nosuj" "" "soft updates without the journal that the volume has (`newfs -j`): after a crash \
        the volume needs a full check"
        |o, _| set!(o.core.ordering => OrderingPolicy::SoftUpdates);
    "nosoftdep" "" "no soft updates, even if the volume has them enabled"
        |o, _| set!(o.core.ordering => nosoftdep(o.core.ordering));
    "sync" "" "ordered synchronous metadata writes (the default without soft updates)"
        |o, _| set!(o.core.ordering => OrderingPolicy::Sync);
    "async" "" "metadata writes in any order: fast, but after a crash the volume needs a full \
        check; ignored with soft updates"
        |o, _| set!(o.core.ordering => async_writes(o.core.ordering));
    "stable" "" "names and attributes are durable when a call returns, as NFS servers need it"
        |o, _| set!(o.core.stable => true);
    "replace_order" "" "the new name of a rename or a link becomes durable only after the \
        content of the file that the kernel has passed to the server: after writes through mmap, \
        call fsync first (the default with soft updates; without them it has no effect)"
        |o, _| set!(o.core.replace_order => true);
    "noreplace_order" "" "the new name of a rename or a link does not wait for the file's content"
        |o, _| set!(o.core.replace_order => false);
    "bsdgroups" "" "new files get their directory's group, as on BSD"
        |o, _| set!(o.core.bsdgroups => true);
    "sysvgroups" "" "new files get the group of the process (the default)"
        |o, _| set!(o.core.bsdgroups => false);
    "quota" "" "quotas of users and of groups, as far as the volume has the quota files (`ffs \
        quotacheck` creates them): the usage is counted first"
        |o, _| set!(o.core.quotas => QuotaOptions::PRESENT);
    "userquota" "" "quotas of users: the volume must have quota.user"
        |o, _| set!(o.core.quotas.user => QuotaOption::On);
    "groupquota" "" "quotas of groups: the volume must have quota.group"
        |o, _| set!(o.core.quotas.group => QuotaOption::On);
    "noquota" "" "no quotas (the default): they are neither enforced nor counted"
        |o, _| set!(o.core.quotas => QuotaOptions::default());
    "acls" "" "POSIX access control lists, even if the volume does not have them enabled \
        (`tunefs -a enable` does that)"
        |o, _| set!(o.core.acls => Some(true));
    "noacls" "" "no access control lists, even if the volume has them enabled: modes alone apply"
        |o, _| set!(o.core.acls => Some(false));
    "noatime" "" "never set access times" |o, _| set!(o.core.atime => Atime::Never);
    "relatime" "" "set access times that are older than the last change or than a day (the default)"
        |o, _| set!(o.core.atime => Atime::Relative);
    "atime" "" "set access times on every read" |o, _| set!(o.core.atime => Atime::Always);
    "strictatime" "" "as atime" |o, _| set!(o.core.atime => Atime::Always);
    "allow_other" "" "other users have access (the default if root mounts)"
        |o, _| set!(o.allow_other => Some(true));
    "noallow_other" "" "only the user who mounts has access"
        |o, _| set!(o.allow_other => Some(false));
    "default_permissions" "" "the kernel checks permissions (the default)"
        |o, _| set!(o.default_permissions => true);
    "nodefault_permissions" "" "the server checks permissions"
        |o, _| set!(o.default_permissions => false);
    "fakeroot" "" "the user who mounts acts as root on the volume: reads and changes every file; \
        new files belong to root, and access lists do not apply (see nodefault_permissions)"
        |o, _| set!(o.fakeroot => true);
    "nofakeroot" "" "the user who mounts has the rights of a user (the default)"
        |o, _| set!(o.fakeroot => false);
    "uid" "a number" "every file is shown as this user's, who may therefore change it; new files \
        get the owner of their directory on the volume, and no owner can be changed"
        |o, v| o.owners.set_uid(v);
    "gid" "a number" "the same for the group"
        |o, v| o.owners.set_gid(v);
    "umask" "an octal number" "every file is shown with all permissions but those of this mask, \
        without set-id bits and access list; new files and chmod(2) set those on the volume"
        |o, v| o.owners.set_umask(v);
    "idmap" "u, g or b, and VOLUME:SHOWN:COUNT, no id twice" "ids from VOLUME on are shown as \
        those from SHOWN on: u of users, g of groups, b of both, as the X-mount.idmap of mount(8); \
        may be given several times; an id without a range is shown as 4294967294, and a process \
        whose id no range has cannot make files"
        |o, v| o.owners.add_map(v);
    "writeback" "" "the kernel caches writes: replace_order covers them once the file is closed or \
        synced, and SEEK_DATA and SEEK_HOLE report the whole file as data"
        |o, _| set!(o.writeback => true);
    "nowriteback" "" "each write goes to the server at once (the default)"
        |o, _| set!(o.writeback => false);
    "threads" "1 to 64" "threads that serve requests; with io_uring, those for requests that may \
        wait"
        |o, v| read!(o.threads, threads(v));
    "io_uring" "auto, on or off" "whether requests pass over io_uring, which serves programs on \
        several processors at once: auto (the default) if the kernel offers it, for which root \
        writes Y to /sys/module/fuse/parameters/enable_uring; on: or the mount fails"
        |o, v| read!(o.io_uring, io_uring(v));
    "splice" "" "the content of large reads and writes passes between a raw image and the kernel \
        by splice(2), and the server does not copy it (the default); not with io_uring"
        |o, _| set!(o.splice => true);
    "no_splice" "" "the server copies the content of each read and write"
        |o, _| set!(o.splice => false);
    "xattr" "" "programs see extended attributes (the default), so the kernel looks for a \
        capability before the first write to a file"
        |o, _| set!(o.xattr => true);
    "noxattr" "" "programs see no extended attributes, which saves a request for each new file; \
        without effect where POSIX access control lists are on"
        |o, _| set!(o.xattr => false);
    "open" "" "the kernel opens each file by a request (the default)"
        |o, _| set!(o.no_open => false);
    "no_open" "" "the kernel opens files without a request, which saves one for each file that is \
        read; BSD's file flags are then checked at each write and not at the open; implies \
        noatime; without effect with writeback, nodefault_permissions and fakeroot"
        |o, _| set!(o.no_open => true);
    "sched_idle" "" "while a processor has nothing else to do, the thread that serves runs on that \
        of the program, with the policy SCHED_IDLE, so that no other processor is woken (the \
        default, with CAP_SYS_NICE)"
        |o, _| set!(o.sched_idle => true);
    "no_sched_idle" "" "the scheduler places the threads that serve"
        |o, _| set!(o.sched_idle => false);
    "entry_timeout" "seconds" "how long the kernel may cache names"
        |o, v| read!(o.entry_timeout, seconds(v));
    "negative_timeout" "seconds" "how long the kernel may cache that a name does not exist"
        |o, v| read!(o.negative_timeout, seconds(v));
    "attr_timeout" "seconds" "how long the kernel may cache attributes"
        |o, v| read!(o.attr_timeout, seconds(v).map(Some));
    "fsname" "a name" "the source in the mount table, instead of the image"
        |o, v| read!(o.fsname, (!v.is_empty()).then(|| Some(v.to_owned())));
    "suid" "" "set-id bits and capabilities apply (the default of mount(8) and fstab, for root, \
        unless owners are mapped)"
        |o, _| set!(o.suid => Some(true));
    "nosuid" "" "set-id bits and capabilities do not apply (the default of ffs mount)"
        |o, _| set!(o.suid => Some(false));
    "dev" "" "device nodes can be opened (the default of mount(8) and fstab, for root, unless \
        owners are mapped)"
        |o, _| set!(o.dev => Some(true));
    "nodev" "" "device nodes cannot be opened (the default of ffs mount)"
        |o, _| set!(o.dev => Some(false));
    "exec" "" "programs may be run (the default)" |o, _| set!(o.exec => true);
    "noexec" "" "programs may not be run" |o, _| set!(o.exec => false);
    "remount" "" "change an existing mount (ro or rw)" |o, _| set!(o.remount => true);
    "debug" "" "log each request; `ffs mount` then stays in the foreground"
        |o, _| set!(o.debug => true);
    "defaults" "" "no effect: a placeholder for fstab" |_, _| true;
    "user" "" "as for mount(8): implies nosuid, nodev, noexec"
        |o, _| set!(o.suid => Some(false), o.dev => Some(false), o.exec => false);
}

/// The policy after `nosoftdep`, given the policy of the words before it.
fn nosoftdep(before: OrderingPolicy) -> OrderingPolicy {
    match before {
        OrderingPolicy::Async | OrderingPolicy::None => OrderingPolicy::None,
        OrderingPolicy::Superblock
        | OrderingPolicy::SoftUpdates
        | OrderingPolicy::Journaled
        | OrderingPolicy::Sync => OrderingPolicy::Sync,
    }
}

/// The policy after `async`, given the policy of the words before it.
fn async_writes(before: OrderingPolicy) -> OrderingPolicy {
    match before {
        OrderingPolicy::SoftUpdates | OrderingPolicy::Journaled => before,
        OrderingPolicy::Sync | OrderingPolicy::None => OrderingPolicy::None,
        OrderingPolicy::Superblock | OrderingPolicy::Async => OrderingPolicy::Async,
    }
}

/// Words that fstab has for mount(8) and systemd, followed by the kernel's own, which mount(8)
/// repeats when it remounts, and by those of Linux's driver for UFS, for lines of fstab that were
/// written for it. Words with a value are compared up to `=`.
#[rustfmt::skip]
const FOR_MOUNT: &[&str] = &[
    "auto", "noauto", "nouser", "users", "nousers", "owner", "group", "nofail", "_netdev", "loop",
    "comment", "uhelper", "helper", "diratime", "nodiratime", "norelatime", "nostrictatime",
    "silent", "loud", "nolazytime",
    "user_id", "group_id", "rootmode", "max_read", "blksize",
    "ufstype", "onerror",
];

fn threads(v: &str) -> Option<usize> {
    v.parse().ok().filter(|n| (1..=64).contains(n))
}

fn io_uring(v: &str) -> Option<UseIoUring> {
    match v {
        "auto" => Some(UseIoUring::Auto),
        "on" => Some(UseIoUring::On),
        "off" => Some(UseIoUring::Off),
        _ => None,
    }
}

fn seconds(v: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(v.parse().ok()?).ok()
}

/// Parses the words after each `-o`, separated by commas. Later words override earlier ones.
///
/// # Errors
/// A word that does not exist, or a value that it does not take.
pub fn parse_options<S: AsRef<str>>(lists: &[S]) -> Result<Options, OptionError> {
    let mut options = Options::default();
    let words = lists.iter().flat_map(|l| l.as_ref().split(',')).filter(|w| !w.is_empty());
    for word in words {
        let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        let Some(w) = WORDS.iter().find(|w| w.name == name) else {
            if FOR_MOUNT.contains(&name) || name.starts_with("x-") || name.starts_with("X-") {
                continue;
            }
            match options.core.tunables.set(name, value) {
                Err(TunableError::Unknown { .. }) => {}
                Err(e) => return Err(e.into()),
                Ok(()) => continue,
            }
            return Err(OptionError::Unknown { word: word.to_owned(), nearest: nearest(name) });
        };
        let fits = w.takes.is_empty() == value.is_none();
        if !fits || !(w.set)(&mut options, value.unwrap_or("")) {
            let expected = if w.takes.is_empty() { "no value" } else { w.takes };
            let value = value.unwrap_or("").to_owned();
            return Err(OptionError::Value { option: w.name, value, expected });
        }
    }
    if options.owners.need_the_kernel() && !options.kernel_checks() {
        let other = if options.fakeroot { "fakeroot" } else { "nodefault_permissions" };
        return Err(OptionError::NeedsKernel(other));
    }
    if options.opens_alone() {
        // The server does not learn of reads from the kernel's cache.
        options.core.atime = Atime::Never;
    }
    Ok(options)
}

/// Every option with its value and help text, for a manual: `("threads=1 to 64", "threads ...")`.
pub fn describe_options() -> impl Iterator<Item = (String, String)> {
    let words = WORDS.iter().map(|w| {
        let takes = if w.takes.is_empty() { String::new() } else { format!("={}", w.takes) };
        (format!("{}{takes}", w.name), w.help.to_owned())
    });
    let tunables = ffs_core::describe_tunables().map(|(option, takes, default, meaning)| {
        let meaning = meaning.trim_end_matches('.');
        (format!("{option}={takes}"), format!("{meaning} (default {default})"))
    });
    words.chain(tunables)
}

fn nearest(word: &str) -> Option<&'static str> {
    let tunables = ffs_core::describe_tunables().map(|(option, ..)| option);
    ffs_core::nearest(word, WORDS.iter().map(|w| w.name).chain(tunables))
}

#[cfg(test)]
mod tests;
