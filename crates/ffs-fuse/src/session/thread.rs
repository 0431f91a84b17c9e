//! What Linux reports of a thread's scheduling, and how it is changed.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// A policy of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// `SCHED_OTHER`, what programs have.
    Other,
    /// `SCHED_IDLE`, for work that waits until a processor has nothing else to do.
    Idle,
}

/// How a thread was scheduled, since its start or between two looks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scheduled {
    /// How long it ran.
    pub(super) ran: Duration,
    /// How long it waited for a processor, if it got it.
    pub(super) waited: Duration,
    /// How often it got one. Of the whole only the low 32 bits are known.
    pub(super) times: u32,
}

impl Scheduled {
    /// What was added since `last`.
    pub(super) fn since(&self, last: &Scheduled) -> Scheduled {
        Scheduled {
            ran: self.ran.saturating_sub(last.ran),
            waited: self.waited.saturating_sub(last.waited),
            times: self.times.wrapping_sub(last.times),
        }
    }
}

/// The set of one processor.
///
/// # Panics
/// If `processor` is not less than [`CpuSet::MAX_CPU`].
pub(super) fn single(processor: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(processor);
    set
}

/// What the placement of threads needs of the system. Tests have one of their own.
pub(super) trait System {
    /// How a thread of this process is examined.
    type Files;

    /// Sets the policy of a thread of this process. Its nice value stays.
    ///
    /// # Errors
    /// It has ended, or this process may not.
    fn set_policy(&self, thread: Pid, policy: Policy) -> io::Result<()>;

    /// The processors on which a thread may run.
    ///
    /// # Errors
    /// It has ended.
    fn affinity(&self, thread: Pid) -> io::Result<CpuSet>;

    /// # Errors
    /// The thread has ended, or none of the processors is on and allowed.
    fn set_affinity(&self, thread: Pid, set: &CpuSet) -> io::Result<()>;

    /// The processor on which a thread of any program ran last.
    fn processor_of(&self, thread: u32) -> Option<usize>;

    /// # Errors
    /// There is no `/proc`.
    fn files_of_this_thread(&self) -> io::Result<Self::Files>;

    /// How a thread was scheduled since its start.
    ///
    /// # Errors
    /// The thread has ended.
    fn scheduled(&self, files: &Self::Files) -> io::Result<Scheduled>;

    /// Whether a thread runs, or waits for a processor.
    fn is_runnable(&self, files: &Self::Files) -> bool;

    /// How many threads of all programs run, or wait for a processor. `None`: not known.
    fn runnable_threads(&self) -> Option<usize>;
}

/// The system that this process runs on.
pub(super) struct Linux;

/// `/proc/PID/task/TID/schedstat` and `stat`.
pub(super) struct Files {
    schedstat: File,
    stat: File,
}

impl System for Linux {
    type Files = Files;

    #[allow(unsafe_code)]
    fn set_policy(&self, thread: Pid, policy: Policy) -> io::Result<()> {
        let policy = match policy {
            Policy::Other => libc::SCHED_OTHER,
            Policy::Idle => libc::SCHED_IDLE,
        };
        // The kernel's `struct sched_param` is this number alone. The type of musl has more fields.
        let priority: libc::c_int = 0;
        let thread = thread.as_raw_nonzero().get();
        // The C library's function may be a stub (musl). rustix has none.
        let param = std::ptr::from_ref(&priority);
        // SAFETY: the call reads the number and writes nothing.
        let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, param) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn affinity(&self, thread: Pid) -> io::Result<CpuSet> {
        Ok(sched_getaffinity(Some(thread))?)
    }

    fn set_affinity(&self, thread: Pid, set: &CpuSet) -> io::Result<()> {
        Ok(sched_setaffinity(Some(thread), set)?)
    }

    fn processor_of(&self, thread: u32) -> Option<usize> {
        // The file of the process is slow to read if that has many threads.
        let stat = File::open(format!("/proc/{thread}/task/{thread}/stat")).ok()?;
        with_field(&stat, 39, |processor| processor.parse().ok())?
    }

    fn files_of_this_thread(&self) -> io::Result<Files> {
        Ok(Files {
            schedstat: File::open("/proc/thread-self/schedstat")?,
            stat: File::open("/proc/thread-self/stat")?,
        })
    }

    fn scheduled(&self, files: &Files) -> io::Result<Scheduled> {
        let mut buffer = [0; 80];
        let n = files.schedstat.read_at(&mut buffer, 0)?;
        let text = str::from_utf8(&buffer[..n]).ok();
        text.and_then(parse_schedstat).ok_or_else(|| io::Error::other("schedstat: no three counts"))
    }

    fn is_runnable(&self, files: &Files) -> bool {
        with_field(&files.stat, 3, |state| state == "R").unwrap_or(false)
    }

    fn runnable_threads(&self) -> Option<usize> {
        let mut buffer = [0; 128];
        let n = File::open("/proc/loadavg").and_then(|file| file.read_at(&mut buffer, 0)).ok()?;
        parse_loadavg(str::from_utf8(&buffer[..n]).ok()?)
    }
}

impl Linux {
    /// Verifies by this thread that a thread may have the policy `SCHED_IDLE` and return, and that
    /// its waits are known. This thread keeps the policy `SCHED_IDLE` if it cannot return.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn can_return() -> io::Result<()> {
        let this = rustix::thread::gettid();
        if policy()? != libc::c_long::from(libc::SCHED_OTHER) {
            return Err(io::Error::other("the server was started with another policy"));
        }
        let link = std::fs::read_link("/proc/thread-self")?;
        if !link.ends_with(this.to_string()) {
            return Err(io::Error::other("/proc is that of another PID namespace"));
        }
        if Linux.scheduled(&Linux.files_of_this_thread()?)?.times == 0 {
            return Err(io::Error::other("this kernel does not count waits (CONFIG_SCHED_INFO)"));
        }
        Linux.set_policy(this, Policy::Idle)?;
        Linux.set_policy(this, Policy::Other)
    }
}

/// How often this thread has waited, for a device or for a lock: the voluntary context switches.
/// `None`: not known.
#[allow(unsafe_code)]
pub(super) fn voluntary_switches() -> Option<libc::c_long> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // rustix has no such call.
    // SAFETY: the call fills the whole structure if it succeeds.
    let usage = unsafe {
        let result = libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        (result == 0).then(|| usage.assume_init())
    };
    usage.map(|usage| usage.ru_nvcsw)
}

/// The number of the policy of this thread.
#[allow(unsafe_code)]
fn policy() -> io::Result<libc::c_long> {
    // SAFETY: the call has no memory as its argument.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    if policy >= 0 { Ok(policy) } else { Err(io::Error::last_os_error()) }
}

/// Nanoseconds on a processor, nanoseconds of waiting for one, and how often it got one.
fn parse_schedstat(text: &str) -> Option<Scheduled> {
    let mut fields = text.split_ascii_whitespace().map(|f| f.parse::<u64>().ok());
    let mut next = || fields.next().flatten();
    let (ran, waited, times) = (next()?, next()?, next()?);
    let of = Duration::from_nanos;
    Some(Scheduled { ran: of(ran), waited: of(waited), times: times as u32 })
}

/// The threads that are runnable: the first number of the fourth field (see proc_loadavg(5)).
fn parse_loadavg(text: &str) -> Option<usize> {
    let (runnable, _) = text.split_ascii_whitespace().nth(3)?.split_once('/')?;
    runnable.parse().ok()
}

/// Passes a field of a file `stat`, counted from 1 (see proc_pid_stat(5)), to `then`. This
/// allocates nothing.
fn with_field<T>(stat: &File, number: usize, then: impl FnOnce(&str) -> T) -> Option<T> {
    let mut buffer = [0; 1024];
    let n = stat.read_at(&mut buffer, 0).ok()?;
    parse_field(&buffer[..n], number).map(then)
}

/// A field of the content of such a file. The second field, the name, may hold any byte.
fn parse_field(stat: &[u8], number: usize) -> Option<&str> {
    let name_end = stat.iter().rposition(|&b| b == b')')?;
    let rest = str::from_utf8(&stat[name_end + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(number.checked_sub(3)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_understood() {
        let scheduled = Scheduled {
            ran: Duration::from_nanos(5_358_421),
            waited: Duration::from_nanos(558_352),
            times: 5,
        };
        assert_eq!(parse_schedstat("5358421 558352 5\n"), Some(scheduled));
        for text in ["", "1 2", "1 2 x", "-1 2 3"] {
            assert_eq!(parse_schedstat(text), None, "{text}");
        }
        assert_eq!(parse_loadavg("0.00 0.14 1.25 3/279 777\n"), Some(3));
        for text in ["", "0.00 0.14 1.25", "0 0 0 3 777", "0 0 0 x/279 777"] {
            assert_eq!(parse_loadavg(text), None, "{text}");
        }
        let stat = b"12 (a) R \xff) S 1 2";
        assert_eq!(parse_field(stat, 3), Some("S"));
        assert_eq!(parse_field(stat, 5), Some("2"));
        assert_eq!((parse_field(stat, 6), parse_field(stat, 0)), (None, None));
        assert_eq!(parse_field(b"12 (a", 3), None);
    }

    #[test]
    fn this_thread_is_seen() {
        let (this, files) = (rustix::thread::gettid(), Linux.files_of_this_thread().unwrap());
        assert!(Linux.is_runnable(&files));
        let number = u32::try_from(this.as_raw_nonzero().get()).unwrap();
        let processor = Linux.processor_of(number).unwrap();
        assert!(Linux.affinity(this).unwrap().is_set(processor));
        assert_eq!((Linux.processor_of(0), Linux.processor_of(u32::MAX)), (None, None));
        assert!(Linux.runnable_threads().unwrap() >= 1, "this one");
        let first = Linux.scheduled(&files).unwrap();
        assert!(first.times > 0);
        let later = Linux.scheduled(&files).unwrap();
        assert!(later.since(&first).ran <= later.ran && later.ran >= first.ran);
    }

    #[test]
    fn waits_of_this_thread_are_counted() {
        let before = voluntary_switches().unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        // The other thread may be quicker than this one. Of so many it is not always.
        for _ in 0..1000 {
            let send = send.clone();
            std::thread::spawn(move || send.send(()));
            receive.recv().unwrap();
        }
        assert!(voluntary_switches().unwrap() > before);
    }
}
