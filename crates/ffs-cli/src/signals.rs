//! SIGINT and SIGTERM: the first asks a command to stop in order, the second ends it at once.
//!
//! An image that is open for writing is then still unmounted cleanly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::fail::{Failure, INTERRUPTED};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Begins to listen. Called by commands that change something.
pub(crate) fn listen() {
    let stop = STOP.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        // Registering fails only for signals that cannot be caught; these can.
        let code = i32::from(INTERRUPTED);
        let _ = signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(stop));
        let _ = signal_hook::flag::register(signal, Arc::clone(stop));
    }
}

/// What is set when the user wants the command to stop; `None` if nobody listens.
pub(crate) fn flag() -> Option<Arc<AtomicBool>> {
    STOP.get().cloned()
}

/// Whether the user wants the command to stop.
pub(crate) fn interrupted() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// Fails if the user wants the command to stop.
pub(crate) fn check() -> Result<(), Failure> {
    if interrupted() { Err(Failure::interrupted()) } else { Ok(()) }
}
