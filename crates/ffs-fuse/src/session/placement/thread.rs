//! What Linux reports of a thread's scheduling, and how it is changed.

use super::judge::Scheduled;
use rustix::thread::Pid;
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

/// Sets the policy of a thread of this process. Its nice value stays.
///
/// # Errors
/// It has ended, or this process may not.
#[allow(unsafe_code)]
pub(super) fn set_policy(thread: Pid, policy: Policy) -> io::Result<()> {
    let policy = match policy {
        Policy::Other => libc::SCHED_OTHER,
        Policy::Idle => libc::SCHED_IDLE,
    };
    let param = libc::sched_param { sched_priority: 0 };
    let thread = thread.as_raw_nonzero().get();
    // The C library's function may be a stub (musl). rustix has none.
    // SAFETY: the call reads `param` and writes nothing.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, thread, policy, std::ptr::from_ref(&param))
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The number of the policy of this thread.
#[allow(unsafe_code)]
fn policy() -> io::Result<libc::c_long> {
    // SAFETY: the call has no memory as its argument.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    if policy >= 0 { Ok(policy) } else { Err(io::Error::last_os_error()) }
}

/// Verifies by this thread that a thread may have the policy `SCHED_IDLE` and return, and that its
/// waits are known. This thread keeps the policy `SCHED_IDLE` if it cannot return.
///
/// # Errors
/// Why not.
pub(super) fn can_return() -> io::Result<()> {
    if policy()? != libc::c_long::from(libc::SCHED_OTHER) {
        return Err(io::Error::other("the server was started with another policy"));
    }
    if Schedstat::of_this_thread()?.now()?.times == 0 {
        return Err(io::Error::other("this kernel does not count waits (CONFIG_SCHED_INFO)"));
    }
    let this = rustix::thread::gettid();
    set_policy(this, Policy::Idle)?;
    set_policy(this, Policy::Other)
}

/// How long a thread has run and waited: `/proc/PID/task/TID/schedstat`.
pub(super) struct Schedstat(File);

impl Schedstat {
    /// # Errors
    /// There is no `/proc`.
    pub(super) fn of_this_thread() -> io::Result<Schedstat> {
        File::open("/proc/thread-self/schedstat").map(Schedstat)
    }

    fn now(&self) -> io::Result<Scheduled> {
        let mut buffer = [0; 80];
        let n = self.0.read_at(&mut buffer, 0)?;
        let text = str::from_utf8(&buffer[..n]).ok();
        text.and_then(parse_schedstat).ok_or_else(|| io::Error::other("schedstat: no three counts"))
    }

    /// What was added since `last`, which becomes what is there now.
    ///
    /// # Errors
    /// The thread has ended.
    pub(super) fn since(&self, last: &mut Scheduled) -> io::Result<Scheduled> {
        let now = self.now()?;
        let last = std::mem::replace(last, now);
        Ok(Scheduled {
            ran: now.ran.saturating_sub(last.ran),
            waited: now.waited.saturating_sub(last.waited),
            times: now.times.wrapping_sub(last.times),
        })
    }
}

/// Nanoseconds on a processor, nanoseconds of waiting for one, and how often it got one. The last
/// has its low 32 bits, of which only differences are used.
fn parse_schedstat(text: &str) -> Option<Scheduled> {
    let mut fields = text.split_ascii_whitespace().map(|f| f.parse::<u64>().ok());
    let mut next = || fields.next().flatten();
    let (ran, waited, times) = (next()?, next()?, next()?);
    let of = Duration::from_nanos;
    Some(Scheduled { ran: of(ran), waited: of(waited), times: times as u32 })
}

/// Whether the thread of this process runs, or waits for a processor.
pub(super) fn is_runnable(thread: Pid) -> bool {
    let thread = thread.as_raw_nonzero();
    field(&format!("/proc/self/task/{thread}/stat"), 3).is_some_and(|state| state == "R")
}

/// The processor on which the thread `thread` of any process runs or ran last. `None` if it has
/// ended, or this process does not see it.
pub(super) fn processor_of(thread: u32) -> Option<usize> {
    if thread == 0 {
        return None;
    }
    field(&format!("/proc/{thread}/stat"), 39)?.parse().ok()
}

/// The field `number` of a file of proc_pid_stat(5), from the third on.
fn field(path: &str, number: usize) -> Option<String> {
    let mut buffer = [0; 1024];
    let n = File::open(path).ok()?.read_at(&mut buffer, 0).ok()?;
    parse_field(&buffer[..n], number).map(str::to_owned)
}

/// As [`field`], of the content. The second field, the name, may hold any byte.
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
        let stat = b"12 (a) R \xff) S 1 2";
        assert_eq!(parse_field(stat, 3), Some("S"));
        assert_eq!(parse_field(stat, 5), Some("2"));
        assert_eq!((parse_field(stat, 6), parse_field(stat, 0)), (None, None));
        assert_eq!(parse_field(b"12 (a", 3), None);
    }

    #[test]
    fn this_thread_is_seen() {
        let this = rustix::thread::gettid();
        assert!(is_runnable(this));
        let number = u32::try_from(this.as_raw_nonzero().get()).unwrap();
        let processor = processor_of(number).unwrap();
        assert!(rustix::thread::sched_getaffinity(None).unwrap().is_set(processor));
        assert_eq!((processor_of(0), processor_of(u32::MAX)), (None, None));
        let (stat, mut last) = (Schedstat::of_this_thread().unwrap(), Scheduled::default());
        assert!(stat.since(&mut last).unwrap().times > 0);
        assert!(stat.since(&mut last).unwrap().ran < last.ran);
    }
}
