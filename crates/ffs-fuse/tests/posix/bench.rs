//! The environment of a case, and its assertions.
//!
//! Every case runs on a thread of its own whose current directory is a fresh directory on the file
//! system under test, with an empty umask. Both belong to the thread alone, and so do the
//! identities that [`as_user`] takes on: cases cannot disturb each other or the harness.

use crate::ground::Ground;
use crate::sys::{Errno, Time};
use rustix::fs::{Gid, Uid};
use rustix::thread as threads;
use rustix::time::{ClockId, clock_gettime};
use std::panic::resume_unwind;

/// What a case needs to be meaningful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The right to change identity, owners and mounts.
    Root,
    /// Extended attributes `user.*`.
    Xattr,
    /// POSIX access lists.
    Acl,
    /// The inode flags "immutable" and "append only".
    Flags,
    /// Times beyond 32 bits.
    WideTimes,
    /// Times of birth.
    Birthtime,
    /// A kernel that checks permissions itself. A server that checks them gets no request for each
    /// search of a directory, nor for the open of a pipe.
    KernelChecks,
    /// A volume of ffs: the case checks limits of ffs or mounts images.
    Ours,
}

/// What a file system offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    pub(crate) root: bool,
    pub(crate) xattr: bool,
    pub(crate) acl: bool,
    pub(crate) flags: bool,
    pub(crate) wide_times: bool,
    pub(crate) birthtime: bool,
    pub(crate) kernel_checks: bool,
    /// Device numbers have 32 bits, in BSD's way.
    pub(crate) narrow_devices: bool,
    /// The kernel caches writes: errors of the file system arrive later.
    pub(crate) writeback: bool,
}

/// A case.
pub(crate) struct Case {
    /// The system call or subject; those of pjdfstest bear its directory's name.
    pub(crate) area: &'static str,
    pub(crate) name: String,
    pub(crate) needs: Vec<Need>,
    pub(crate) run: Box<dyn Fn(&Bench) + Send + Sync>,
}

impl Case {
    /// A case from a function.
    pub(crate) fn new(
        area: &'static str,
        name: impl Into<String>,
        needs: &[Need],
        run: impl Fn(&Bench) + Send + Sync + 'static,
    ) -> Case {
        Case { area, name: name.into(), needs: needs.to_vec(), run: Box::new(run) }
    }
}

/// Makes `cases()` of a module: areas, and in each the names of functions with what they need.
macro_rules! cases {
    ($($area:literal { $($name:ident $([$($need:ident),*])?;)* })*) => {
        /// The cases of this module.
        pub(crate) fn cases() -> Vec<$crate::bench::Case> {
            vec![$($($crate::bench::Case::new(
                $area,
                stringify!($name),
                &[$($($crate::bench::Need::$need),*)?],
                $name,
            ),)*)*]
        }
    };
}
pub(crate) use cases;

/// Where a case works.
pub(crate) struct Bench<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) traits: Traits,
}

/// Leaves a case: it does not apply here.
pub(crate) struct Skip(pub(crate) String);

impl Bench<'_> {
    /// Ends the case without a verdict.
    pub(crate) fn skip(&self, why: &str) -> ! {
        resume_unwind(Box::new(Skip(why.to_owned())))
    }

    /// Whether the file system under test is ours.
    pub(crate) fn ours(&self) -> bool {
        self.ground.ours()
    }
}

/// Somebody with few rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: &'static [u32],
}

/// A group that [`ALICE`] and [`CAROL`] are also in.
pub(crate) const STAFF: u32 = 70_100;
/// In her own group and in [`STAFF`].
pub(crate) const ALICE: User = User { uid: 70_001, gid: 70_001, groups: &[STAFF] };
/// In his own group only.
pub(crate) const BOB: User = User { uid: 70_002, gid: 70_002, groups: &[] };
/// As [`ALICE`], another person of [`STAFF`].
pub(crate) const CAROL: User = User { uid: 70_003, gid: 70_003, groups: &[STAFF] };

/// Does something as somebody else, on a thread that ends with it.
pub(crate) fn as_user<T: Send>(who: User, f: impl FnOnce() -> T + Send) -> T {
    let become_them = || {
        let groups: Vec<Gid> = who.groups.iter().map(|g| Gid::from_raw(*g)).collect();
        let (uid, gid) = (Uid::from_raw(who.uid), Gid::from_raw(who.gid));
        threads::set_thread_groups(&groups)?;
        threads::set_thread_res_gid(gid, gid, gid)?;
        threads::set_thread_res_uid(uid, uid, uid)
    };
    std::thread::scope(|s| {
        let thread = s.spawn(|| {
            become_them().unwrap();
            f()
        });
        thread.join().unwrap_or_else(|e| resume_unwind(e))
    })
}

fn clock(id: ClockId) -> Time {
    let t = clock_gettime(id);
    (t.tv_sec, t.tv_nsec)
}

/// The present.
pub(crate) fn now() -> Time {
    clock(ClockId::Realtime)
}

/// Waits until later operations get later times than earlier ones, also with times from the
/// kernel's coarse clock. The wait is one tick: some milliseconds.
pub(crate) fn tick() -> Time {
    let before = now();
    loop {
        let t = clock(ClockId::RealtimeCoarse);
        if t > before {
            return t;
        }
        std::thread::yield_now();
    }
}

/// Some errors of which one is expected.
pub(crate) struct OneOf(Vec<Errno>);

impl From<Errno> for OneOf {
    fn from(e: Errno) -> OneOf {
        OneOf(vec![e])
    }
}

impl<const N: usize> From<[Errno; N]> for OneOf {
    fn from(e: [Errno; N]) -> OneOf {
        OneOf(e.to_vec())
    }
}

impl From<&[Errno]> for OneOf {
    fn from(e: &[Errno]) -> OneOf {
        OneOf(e.to_vec())
    }
}

/// Errno and its text.
pub(crate) fn say(e: Errno) -> String {
    format!("error {} ({})", e.raw_os_error(), std::io::Error::from(e))
}

/// Assertions about the result of a call.
pub(crate) trait Expect<T> {
    /// It works.
    #[track_caller]
    fn must(self) -> T;
    /// It fails with (one of) these errors.
    #[track_caller]
    fn fails(self, with: impl Into<OneOf>);
    /// As [`Expect::must`]. `what` is printed with a failure.
    #[track_caller]
    fn must_for(self, what: impl std::fmt::Debug) -> T;
    /// As [`Expect::fails`]. `what` is printed with a failure.
    #[track_caller]
    fn fails_for(self, with: impl Into<OneOf>, what: impl std::fmt::Debug);
}

impl<T> Expect<T> for Result<T, Errno> {
    #[track_caller]
    fn must(self) -> T {
        match self {
            Ok(v) => v,
            Err(e) => panic!("must work, but: {}", say(e)),
        }
    }

    #[track_caller]
    fn must_for(self, what: impl std::fmt::Debug) -> T {
        match self {
            Ok(v) => v,
            Err(e) => panic!("{what:?}: must work, but: {}", say(e)),
        }
    }

    #[track_caller]
    fn fails(self, with: impl Into<OneOf>) {
        self.fails_for(with, "the call");
    }

    #[track_caller]
    fn fails_for(self, with: impl Into<OneOf>, what: impl std::fmt::Debug) {
        let OneOf(wanted) = with.into();
        let texts: Vec<_> = wanted.iter().map(|e| say(*e)).collect();
        match self {
            Ok(_) => panic!("{what:?}: works, but must fail with {}", texts.join(" or ")),
            Err(e) if wanted.contains(&e) => (),
            Err(e) => panic!("{what:?}: fails with {}, not {}", say(e), texts.join(" or ")),
        }
    }
}
