//! Mount options: the words behind `-o`.
//!
//! **Purpose.** From `ro,dirpref=old,cache=256m` to typed options, with errors that name the nearest
//! word that exists. The words are BSD's where BSD has them, mount(8)'s where fstab uses them.
//!
//! **Invariants.** A word is never ignored in silence, but for those that are meant for mount(8).

use crate::wire::Timeouts;
use ffs_core::{Atime, MountOptions, OrderingPolicy, TunableError};
use std::time::Duration;

/// What the words behind `-o` ask for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The core's options.
    pub core: MountOptions,
    /// Users other than who mounts may enter. Root's mounts allow it unless told not to.
    pub allow_other: Option<bool>,
    /// The kernel checks permissions.
    pub default_permissions: bool,
    /// Set-id bits work; `None`: as the way of mounting has it.
    pub suid: Option<bool>,
    /// Device nodes work; `None`: as the way of mounting has it.
    pub dev: Option<bool>,
    /// Programs may be run.
    pub exec: bool,
    /// The kernel keeps written data back.
    pub writeback: bool,
    /// Threads that serve requests.
    pub threads: usize,
    /// How long the kernel may believe names.
    pub entry_timeout: Duration,
    /// How long the kernel may believe that names do not exist.
    pub negative_timeout: Duration,
    /// How long the kernel may believe attributes; `None`: long, but short with `writeback`.
    pub attr_timeout: Option<Duration>,
    /// What the mount table shows as the source, instead of the image.
    pub fsname: Option<String>,
    /// Change an existing mount.
    pub remount: bool,
    /// Log each request.
    pub debug: bool,
}

/// A word that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No such option.
    #[error("unknown mount option '{word}'{}", ffs_core::suggestion(*.nearest))]
    Unknown {
        /// The word.
        word: String,
        /// The option it looks like.
        nearest: Option<&'static str>,
    },
    /// A switch refuses its value.
    #[error("mount option {0}")]
    Tunable(#[from] TunableError),
    /// The option takes another kind of value.
    #[error("mount option '{option}={value}': expected {expected}")]
    Value {
        /// The option.
        option: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
}

/// Every hour the kernel may ask again; nothing changes behind its back.
const LONG: Duration = Duration::from_secs(3600);
/// With written data kept back, the kernel cannot know how many blocks a file has.
const SHORT: Duration = Duration::from_secs(1);

impl Default for Options {
    fn default() -> Self {
        Options {
            core: MountOptions::default(),
            allow_other: None,
            default_permissions: true,
            suid: None,
            dev: None,
            exec: true,
            writeback: false,
            threads: 4,
            entry_timeout: LONG,
            negative_timeout: LONG,
            attr_timeout: None,
            fsname: None,
            remount: false,
            debug: false,
        }
    }
}

impl Options {
    pub(crate) fn timeouts(&self) -> Timeouts {
        let attr = if self.writeback { SHORT } else { LONG };
        Timeouts {
            entry: self.entry_timeout,
            negative: self.negative_timeout,
            attr: self.attr_timeout.unwrap_or(attr),
        }
    }
}

/// An option: its word, what it takes, what it is for.
struct Word {
    name: &'static str,
    /// What follows `=`; empty if nothing does.
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

/// Carries out an assignment that cannot fail.
macro_rules! set {
    ($($place:expr => $value:expr),+) => {{ $($place = $value;)+ true }};
}

/// Carries out an assignment if the value can be read.
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
    "force" "" "read-write even if the volume is dirty: check it soon" |o, _| set!(o.core.force => true);
    "softdep" "" "soft updates, even if the volume does not ask for them (it does after `newfs -U`, \
        `tunefs -n`): then it says so until it is unmounted or checked"
        |o, _| set!(o.core.ordering => OrderingPolicy::SoftUpdates);
    "nosoftdep" "" "no soft updates, even if the volume asks for them"
        |o, _| set!(o.core.ordering => nosoftdep(o.core.ordering));
    "sync" "" "ordered synchronous metadata writes (the default without soft updates)"
        |o, _| set!(o.core.ordering => OrderingPolicy::Sync);
    "async" "" "metadata writes in any order: fast, and only a full check helps after a crash; \
        ignored with soft updates"
        |o, _| set!(o.core.ordering => async_writes(o.core.ordering));
    "stable" "" "names and attributes are durable when a call returns, as NFS servers promise"
        |o, _| set!(o.core.stable => true);
    "replace_order" "" "a name given by a rename or a link is on disk only with the content of the file, as \
        far as the kernel has handed it over: after writes through mmap, fsync the file first (the default \
        with soft updates; without them it means nothing)"
        |o, _| set!(o.core.replace_order => true);
    "noreplace_order" "" "a name given by a rename or a link does not wait for the content of the file"
        |o, _| set!(o.core.replace_order => false);
    "bsdgroups" "" "new files get their directory's group, as on BSD"
        |o, _| set!(o.core.bsdgroups => true);
    "sysvgroups" "" "new files get their maker's group (the default)"
        |o, _| set!(o.core.bsdgroups => false);
    "acls" "" "POSIX access lists, even if the volume does not ask for them (it does after `tunefs -a enable`)"
        |o, _| set!(o.core.acls => Some(true));
    "noacls" "" "no access lists, even if the volume asks for them: modes alone count"
        |o, _| set!(o.core.acls => Some(false));
    "noatime" "" "never set access times" |o, _| set!(o.core.atime => Atime::Never);
    "relatime" "" "set access times that are older than the last change, or than a day (the default)"
        |o, _| set!(o.core.atime => Atime::Relative);
    "atime" "" "set access times always" |o, _| set!(o.core.atime => Atime::Always);
    "strictatime" "" "as atime" |o, _| set!(o.core.atime => Atime::Always);
    "allow_other" "" "other users may enter (the default for root)"
        |o, _| set!(o.allow_other => Some(true));
    "noallow_other" "" "only who mounts may enter" |o, _| set!(o.allow_other => Some(false));
    "default_permissions" "" "the kernel checks permissions (the default)"
        |o, _| set!(o.default_permissions => true);
    "nodefault_permissions" "" "the server checks permissions"
        |o, _| set!(o.default_permissions => false);
    "writeback" "" "the kernel keeps written data back: replace_order covers it once the file is closed \
        or synced, and SEEK_DATA and SEEK_HOLE find data only"
        |o, _| set!(o.writeback => true);
    "nowriteback" "" "written data goes to the server at once (the default)"
        |o, _| set!(o.writeback => false);
    "threads" "1 to 64" "threads that serve requests" |o, v| read!(o.threads, threads(v));
    "entry_timeout" "seconds" "how long the kernel may believe names"
        |o, v| read!(o.entry_timeout, seconds(v));
    "negative_timeout" "seconds" "how long the kernel may believe that names do not exist"
        |o, v| read!(o.negative_timeout, seconds(v));
    "attr_timeout" "seconds" "how long the kernel may believe attributes"
        |o, v| read!(o.attr_timeout, seconds(v).map(Some));
    "fsname" "a name" "what the mount table shows as the source"
        |o, v| read!(o.fsname, (!v.is_empty()).then(|| Some(v.to_owned())));
    "suid" "" "set-id bits and capabilities work (the default of mount(8) and fstab, for root)"
        |o, _| set!(o.suid => Some(true));
    "nosuid" "" "set-id bits and capabilities do not work (the default of ffs mount)"
        |o, _| set!(o.suid => Some(false));
    "dev" "" "device nodes work (the default of mount(8) and fstab, for root)" |o, _| set!(o.dev => Some(true));
    "nodev" "" "device nodes do not work (the default of ffs mount)" |o, _| set!(o.dev => Some(false));
    "exec" "" "programs may be run (the default)" |o, _| set!(o.exec => true);
    "noexec" "" "programs may not be run" |o, _| set!(o.exec => false);
    "remount" "" "change an existing mount (ro or rw)" |o, _| set!(o.remount => true);
    "debug" "" "log each request; `ffs mount` then stays in the foreground"
        |o, _| set!(o.debug => true);
    "defaults" "" "nothing" |_, _| true;
    "user" "" "as for mount(8): implies nosuid, nodev, noexec"
        |o, _| set!(o.suid => Some(false), o.dev => Some(false), o.exec => false);
}

/// What `nosoftdep` makes of what was asked for before it.
fn nosoftdep(before: OrderingPolicy) -> OrderingPolicy {
    match before {
        OrderingPolicy::Async | OrderingPolicy::None => OrderingPolicy::None,
        OrderingPolicy::Superblock | OrderingPolicy::SoftUpdates | OrderingPolicy::Sync => {
            OrderingPolicy::Sync
        }
    }
}

/// What `async` makes of what was asked for before it.
fn async_writes(before: OrderingPolicy) -> OrderingPolicy {
    match before {
        OrderingPolicy::SoftUpdates => OrderingPolicy::SoftUpdates,
        OrderingPolicy::Sync | OrderingPolicy::None => OrderingPolicy::None,
        OrderingPolicy::Superblock | OrderingPolicy::Async => OrderingPolicy::Async,
    }
}

/// Words that fstab has for mount(8) and systemd, and, at the end, the kernel's own, which mount(8) repeats
/// when it remounts; those with a value are cut at `=`.
#[rustfmt::skip]
const FOR_MOUNT: &[&str] = &[
    "auto", "noauto", "nouser", "users", "nousers", "owner", "group", "nofail", "_netdev", "loop",
    "comment", "uhelper", "helper", "diratime", "nodiratime", "norelatime", "nostrictatime",
    "silent", "loud", "nolazytime",
    "user_id", "group_id", "rootmode", "max_read", "blksize",
];

fn threads(v: &str) -> Option<usize> {
    v.parse().ok().filter(|n| (1..=64).contains(n))
}

fn seconds(v: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(v.parse().ok()?).ok()
}

/// Reads the words behind each `-o`, separated by commas; later ones win.
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
    Ok(options)
}

/// Every option with what it takes and does, for a manual: `("threads=1 to 64", "threads that ...")`.
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
mod tests {
    use super::*;

    #[test]
    fn words_set_what_they_say() {
        let o = parse_options(&[
            "rw,ro,async,dirpref=old,cache=128m,noatime",
            "threads=3,attr_timeout=0.5,nodev,writeback,x-systemd.automount,_netdev,comment=a",
        ])
        .unwrap();
        assert!(o.core.read_only && o.writeback);
        assert_eq!(o.core.ordering, OrderingPolicy::Async);
        assert_eq!(o.core.tunables.dirpref, ffs_core::DirPref::Old);
        assert_eq!(o.core.tunables.cache, 128 << 20);
        assert_eq!(o.core.atime, Atime::Never);
        assert_eq!((o.threads, o.dev, o.suid), (3, Some(false), None));
        assert_eq!(o.timeouts().attr, Duration::from_millis(500));
        assert_eq!(parse_options(&["writeback"]).unwrap().timeouts().attr, SHORT);
    }

    #[test]
    fn async_yields_to_soft_updates_and_nosoftdep_takes_them_away() {
        let ordering = |words: &str| parse_options(&[words]).unwrap().core.ordering;
        assert_eq!(ordering("rw"), OrderingPolicy::Superblock);
        assert_eq!(ordering("async"), OrderingPolicy::Async);
        assert_eq!(ordering("softdep,async"), OrderingPolicy::SoftUpdates);
        assert_eq!(ordering("async,softdep"), OrderingPolicy::SoftUpdates);
        assert_eq!(ordering("nosoftdep"), OrderingPolicy::Sync);
        assert_eq!(ordering("nosoftdep,async"), OrderingPolicy::None);
        assert_eq!(ordering("async,nosoftdep"), OrderingPolicy::None);
        assert_eq!(ordering("async,sync"), OrderingPolicy::Sync);
        assert!(parse_options(&["stable"]).unwrap().core.stable);
        assert!(parse_options(&["rw"]).unwrap().core.replace_order);
        assert!(!parse_options(&["noreplace_order"]).unwrap().core.replace_order);
    }

    #[test]
    fn a_wrong_word_is_answered_with_the_nearest() {
        let say = |w: &str| parse_options(&[w]).unwrap_err().to_string();
        assert_eq!(say("noatme"), "unknown mount option 'noatme'; did you mean 'noatime'?");
        assert_eq!(say("frobnicate"), "unknown mount option 'frobnicate'");
        assert_eq!(
            say("dirpref=newest"),
            "mount option 'dirpref=newest': expected old, new, new10 or depth"
        );
        assert_eq!(say("threads=0"), "mount option 'threads=0': expected 1 to 64");
        assert_eq!(say("ro=1"), "mount option 'ro=1': expected no value");
        assert!(say("cache").contains("expected a size"));
        assert!(say("attr_timeout=-1").contains("expected seconds"));
        assert!(say("cache=99999999999999g").contains("expected a size"));
    }
}
