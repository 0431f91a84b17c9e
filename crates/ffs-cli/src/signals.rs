//! SIGINT, SIGTERM, SIGHUP and SIGUSR1.
//!
//! After the first SIGINT or SIGTERM a command stops and unmounts its image cleanly. The second
//! one ends the process at once, unless it is an echo of the first: timeout(1) sends its signal to
//! the process and then to its group. SIGUSR1 requests a line with the progress of the command.
//!
//! A shell at a terminal is different: SIGINT stops the command that runs, and never the shell.
//! SIGTERM and SIGHUP stop the command, and then the shell unmounts and ends.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::fail::{Failure, INTERRUPTED};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The handlers of [`listen_before_fork`] that end the process at a second signal.
static SHUTDOWNS: Mutex<Vec<SigId>> = Mutex::new(Vec::new());

/// Whether a thread ends the process at a second signal.
static THREAD: OnceLock<()> = OnceLock::new();

/// A signal within this time after the first is an echo of it. A person needs longer for two.
const ECHO: Duration = Duration::from_millis(100);

/// Installs the handlers of SIGINT, SIGTERM and SIGHUP, and starts a thread that ends the process
/// at a second signal. Commands that change something call it. A program that nohup(1) starts keeps
/// ignoring SIGHUP. A second call does nothing.
pub(crate) fn listen() {
    if END.get().is_some() {
        return;
    }
    STOP.get_or_init(|| register(Arc::default()));
    THREAD.get_or_init(|| {
        // The thread also ends a command that computes. If it cannot start, only SIGKILL does.
        let signals = Signals::new(those_to_catch());
        if let Ok(signals) = signals
            && thread::Builder::new()
                .name("signals".into())
                .spawn(|| end_at_second(signals))
                .is_ok()
        {
            unregister_shutdowns();
        }
    });
}

/// Removes the handlers of [`listen_before_fork`] that end the process at a second signal. The
/// caller has another way to handle it.
pub(crate) fn unregister_shutdowns() {
    let mut ids = SHUTDOWNS.lock().unwrap_or_else(PoisonError::into_inner);
    for id in ids.drain(..) {
        signal_hook::low_level::unregister(id);
    }
}

/// As [`listen`], but without a thread, for a command that will fork. A second signal ends the
/// process also if it is an echo.
pub(crate) fn listen_before_fork() {
    STOP.get_or_init(|| {
        let stop = Arc::default();
        let mut ids = SHUTDOWNS.lock().unwrap_or_else(PoisonError::into_inner);
        for signal in those_to_catch() {
            // This handler runs before the one that sets the flag: the first signal passes it.
            let (code, stop) = (i32::from(INTERRUPTED), Arc::clone(&stop));
            ids.extend(signal_hook::flag::register_conditional_shutdown(signal, code, stop));
        }
        register(stop)
    });
}

/// Installs the handlers that set the flag.
fn register(stop: Arc<AtomicBool>) -> Arc<AtomicBool> {
    for signal in those_to_catch() {
        // Registering fails only for signals that cannot be caught.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    stop
}

fn those_to_catch() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    signals.extend(hangs_up().then_some(SIGHUP));
    signals
}

/// Ends the process at a signal that is no echo of the first.
fn end_at_second(mut signals: Signals) {
    let mut first = None;
    for _ in signals.forever() {
        let first = first.get_or_insert_with(Instant::now);
        if first.elapsed() > ECHO {
            signal_hook::low_level::exit(i32::from(INTERRUPTED));
        }
    }
}

/// Whether SIGHUP is known not to be ignored.
fn hangs_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) == 0)
}

/// Set by SIGTERM and SIGHUP in a shell at a terminal.
static END: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the handlers of a shell at a terminal, in place of those of [`listen`].
pub(crate) fn listen_in_shell() {
    let end = END.get_or_init(Arc::default);
    STOP.get_or_init(|| {
        let stop = Arc::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Registering fails only for signals that cannot be caught.
            let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
        }
        for signal in [SIGTERM, SIGHUP] {
            let _ = signal_hook::flag::register(signal, Arc::clone(end));
        }
        stop
    });
}

/// Whether a signal requests the end of the shell.
pub(crate) fn shell_must_end() -> bool {
    END.get().is_some_and(|end| end.load(Ordering::Relaxed))
}

/// Forgets a SIGINT in a shell at a terminal: it was for a command that has ended.
pub(crate) fn forget_in_shell() {
    if let (Some(stop), Some(_)) = (STOP.get(), END.get()) {
        stop.store(shell_must_end(), Ordering::Relaxed);
    }
}

/// Set by SIGUSR1, cleared by [`take_status_request`].
static STATUS: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the handler of SIGUSR1, which requests a progress line (as SIGINFO, ^T, on BSD).
pub(crate) fn listen_for_status() {
    STATUS.get_or_init(|| {
        let requested = Arc::default();
        // Registering fails only for signals that cannot be caught.
        let _ = signal_hook::flag::register(SIGUSR1, Arc::clone(&requested));
        requested
    });
}

/// Whether SIGUSR1 arrived since the last call.
pub(crate) fn take_status_request() -> bool {
    STATUS.get().is_some_and(|requested| requested.swap(false, Ordering::Relaxed))
}

/// The flag that SIGINT and SIGTERM set; `None` without [`listen`].
pub(crate) fn flag() -> Option<Arc<AtomicBool>> {
    STOP.get().cloned()
}

/// Whether SIGINT or SIGTERM arrived.
pub(crate) fn interrupted() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// Standard input without a buffer. SIGINT and SIGTERM end a read that waits.
pub(crate) struct Stdin;

impl Read for Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        read(rustix::stdio::stdin(), buf)
    }
}

/// An open file, which may be a pipe, without a buffer. SIGINT and SIGTERM end a read that waits.
pub(crate) struct StoppableReader(File);

/// Opens `path` for reading. The open does not wait for the writer of a pipe; the first read does.
///
/// # Errors
/// The system's error.
pub(crate) fn open(path: &Path) -> io::Result<StoppableReader> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path).map(StoppableReader)
}

/// Opens `path` for writing, and waits for the reader of a FIFO until a signal comes.
///
/// # Errors
/// The system's error, or a signal.
pub(crate) fn open_for_writing(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true);
    // A tape would no longer wait until it is ready.
    if !std::fs::metadata(path)?.file_type().is_fifo() {
        return options.open(path);
    }
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = loop {
        match options.open(path) {
            // No process has it open for reading. The system has no event for that.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
                if interrupted() {
                    return Err(self::error());
                }
                thread::sleep(Duration::from_millis(50));
            }
            other => break other?,
        }
    };
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

impl StoppableReader {
    /// The open file.
    pub(crate) fn into_file(self) -> File {
        self.0
    }
}

impl Read for StoppableReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        read(self.0.as_fd(), buf)
    }
}

/// The error of an operation that SIGINT or SIGTERM ended.
pub(crate) fn error() -> io::Error {
    // A reader would repeat what fails with `Interrupted`.
    io::Error::other("interrupted")
}

/// Reads as read(2) does, and waits for data until a signal comes.
fn read(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    let patience = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    loop {
        if interrupted() {
            return Err(error());
        }
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        match poll(&mut fds, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => match rustix::io::read(fd, &mut *buf) {
                // Another process took what was there.
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(other?),
            },
            Err(error) => return Err(error.into()),
        }
    }
}

/// A line of standard input without its newline; `None` at the end or after SIGINT or SIGTERM.
pub(crate) fn read_line() -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match Stdin.read(&mut byte) {
            Ok(0) | Err(_) if line.is_empty() => return None,
            Ok(0) | Err(_) => break,
            Ok(_) if byte == *b"\n" => break,
            Ok(_) => line.push(byte[0]),
        }
    }
    Some(String::from_utf8_lossy(&line).into_owned())
}

/// `failure`, or that of SIGINT or SIGTERM if one of them arrived.
pub(crate) fn or_interrupted(failure: Failure) -> Failure {
    if interrupted() { Failure::interrupted() } else { failure }
}

/// Fails after SIGINT or SIGTERM.
pub(crate) fn check() -> Result<(), Failure> {
    if interrupted() { Err(Failure::interrupted()) } else { Ok(()) }
}
