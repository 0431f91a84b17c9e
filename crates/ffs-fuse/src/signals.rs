//! SIGTERM, SIGINT and SIGHUP end a session in good order.

use crate::session::Session;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::Arc;

/// Signals that are caught, from now on.
pub(crate) struct Caught(Signals);

/// The thread that waits for them; dropping it ends the thread.
pub(crate) struct Watch(Handle);

impl Caught {
    /// Catches them, before there is a mount that their default would leave without a server.
    pub(crate) fn new() -> io::Result<Caught> {
        Ok(Caught(Signals::new([SIGTERM, SIGINT, SIGHUP])?))
    }

    /// Ends `session` when one comes, or has come.
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
