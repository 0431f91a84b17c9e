//! Messages of a running server: to the terminal in the foreground, to syslog in the background.

use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};

static BACKGROUND: AtomicBool = AtomicBool::new(false);

/// From now on nobody looks at standard error.
pub(crate) fn to_syslog() {
    BACKGROUND.store(true, Ordering::Relaxed);
}

/// Tells an operator that something went wrong.
pub(crate) fn error(message: &str) {
    if !BACKGROUND.load(Ordering::Relaxed) {
        eprintln!("ffs: {message}");
        return;
    }
    // Facility daemon, severity error. A machine without syslog has nowhere to put it.
    let line = format!("<27>ffs[{}]: {message}", std::process::id());
    if let Ok(socket) = UnixDatagram::unbound() {
        let _ = socket.send_to(line.as_bytes(), "/dev/log");
    }
}
