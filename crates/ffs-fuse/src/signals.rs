//! SIGTERM, SIGINT and SIGHUP: they end a session, which writes everything and unmounts.

use crate::session::Session;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::Arc;

/// The signals, which are caught from its creation on.
pub(crate) struct Caught(Signals);

/// The thread that waits for a signal. Dropping this ends the thread.
pub(crate) struct Watch(Handle);

impl Caught {
    /// Catches the signals. Call it before the mount: the default action would kill the server and
    /// leave a dead mount.
    pub(crate) fn new() -> io::Result<Caught> {
        Ok(Caught(Signals::new([SIGTERM, SIGINT, SIGHUP])?))
    }

    /// Ends `session` when a signal arrives or has arrived.
    pub(crate) fn watch(self, session: Arc<Session>) -> io::Result<Watch> {
        let Caught(mut signals) = self;
        let handle = signals.handle();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            if signals.forever().next().is_some() {
                session.stop();
            }
        })?;
        Ok(Watch(handle))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.close();
    }
}
