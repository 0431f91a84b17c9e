//! SIGINT and SIGTERM: the first asks a command to stop in order, the second ends it at once.
//!
//! An image that is open for writing is then still unmounted cleanly. SIGUSR1 asks how far a
//! command is.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

use crate::fail::{Failure, INTERRUPTED};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Begins to listen. Called by commands that change something; again it does nothing: a second pair
/// of handlers would take the first signal for the second.
pub(crate) fn listen() {
    STOP.get_or_init(registered);
}

fn registered() -> Arc<AtomicBool> {
    let stop = Arc::default();
    for signal in [SIGINT, SIGTERM] {
        // Registering fails only for signals that cannot be caught; these can.
        let code = i32::from(INTERRUPTED);
        let _ = signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop));
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    stop
}

/// Set by SIGUSR1 until it is answered.
static STATUS: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Begins to listen for SIGUSR1, by which the user asks how far a command is (BSD's SIGINFO, ^T).
pub(crate) fn listen_for_status() {
    STATUS.get_or_init(|| {
        let asked = Arc::default();
        // SIGUSR1 can be caught.
        let _ = signal_hook::flag::register(SIGUSR1, Arc::clone(&asked));
        asked
    });
}

/// Whether the user has asked since the last call how far the command is.
pub(crate) fn status_asked() -> bool {
    STATUS.get().is_some_and(|asked| asked.swap(false, Ordering::Relaxed))
}

/// What is set when the user wants the command to stop; `None` if nobody listens.
pub(crate) fn flag() -> Option<Arc<AtomicBool>> {
    STOP.get().cloned()
}

/// Whether the user wants the command to stop.
pub(crate) fn interrupted() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// Standard input, read without a buffer: a read that waits ends when the user wants the command to
/// stop.
pub(crate) struct Stdin;

impl Read for Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let stdin = rustix::stdio::stdin();
        let patience = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        loop {
            if interrupted() {
                return Err(io::Error::other("interrupted"));
            }
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut fds, Some(&patience)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(stdin, &mut *buf)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A line of standard input without its end; `None` at the end or if the user wants to stop.
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

/// Fails if the user wants the command to stop.
pub(crate) fn check() -> Result<(), Failure> {
    if interrupted() { Err(Failure::interrupted()) } else { Ok(()) }
}
