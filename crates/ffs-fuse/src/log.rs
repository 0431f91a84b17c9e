//! The log of a server: standard error in the foreground, syslog in the background.
//!
//! This crate emits [`tracing`] events and installs no subscriber. A program that wants a log sends
//! the formatted text of its subscriber to a [`LogWriter`].

use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::Level;

/// The target of this crate's events.
pub(crate) const LOG: &str = "ffs::fuse";

/// The socket of syslog and journald.
const SYSLOG: &str = "/dev/log";
/// The facility of daemons in a priority of syslog(3).
const LOG_DAEMON: u8 = 3 << 3;

static BACKGROUND: AtomicBool = AtomicBool::new(false);

/// Sends the log to syslog from now on, because the process leaves its terminal.
pub(crate) fn use_syslog() {
    BACKGROUND.store(true, Ordering::Relaxed);
}

/// Writes one message of the log. Each call of `write` has to pass a whole message.
#[derive(Debug)]
pub struct LogWriter {
    level: Level,
}

impl LogWriter {
    /// A writer for messages of `level`.
    #[must_use]
    pub fn new(level: Level) -> LogWriter {
        LogWriter { level }
    }

    /// Whether messages go to syslog, which adds the time itself.
    #[must_use]
    pub fn is_syslog() -> bool {
        BACKGROUND.load(Ordering::Relaxed)
    }
}

impl Write for LogWriter {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        if LogWriter::is_syslog() {
            // On a machine without syslog the message is lost.
            if let Ok(socket) = UnixDatagram::unbound() {
                let _ = socket.send_to(&syslog_message(self.level, message), SYSLOG);
            }
        } else {
            io::stderr().write_all(message)?;
        }
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `message` in syslog's format: `<PRIORITY>ffs[PID]: TEXT`.
fn syslog_message(level: Level, message: &[u8]) -> Vec<u8> {
    let severity = match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    };
    let mut all = format!("<{}>ffs[{}]: ", LOG_DAEMON | severity, std::process::id()).into_bytes();
    all.extend_from_slice(message.trim_ascii_end());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syslog_messages_have_a_priority_and_no_newline() {
        let text = |level| String::from_utf8(syslog_message(level, b"full\n")).unwrap();
        let pid = std::process::id();
        assert_eq!(text(Level::ERROR), format!("<27>ffs[{pid}]: full"));
        assert_eq!(text(Level::DEBUG), format!("<31>ffs[{pid}]: full"));
    }
}
