//! The image that `ffs shell` holds open.
//!
//! # Invariants
//! 1. The image is opened and mounted once. Sessions on it share the mount, and only the shell
//!    unmounts.
//! 2. Without a shell no image is held, and no function here changes what a command does.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use ffs_core::Ffs;
use ffs_image::Opened;

use super::Session;
use crate::current;
use crate::fail::{Failure, show};

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

struct Held {
    session: Session,
    writable: bool,
}

fn with<T>(get: impl FnOnce(&Held) -> T) -> Option<T> {
    HELD.with_borrow(|held| held.as_ref().map(get))
}

/// Holds the image of `session`, which is called `image`, as the current one.
pub(crate) fn hold(session: Session, image: OsString, writable: bool) {
    HELD.set(Some(Held { session, writable }));
    current::set(image);
}

/// Takes the session back. No image is the current one afterwards.
pub(crate) fn release() -> Option<Session> {
    current::unset();
    HELD.take().map(|held| held.session)
}

/// A session on `image` if that is the current one.
///
/// # Errors
/// It is to be changed, and the shell opened it to be read.
pub(super) fn session(image: &OsStr, write: bool) -> Option<Result<Session, Failure>> {
    let of = |held: &Held| {
        let own = held.own(image, write)?;
        Some(own.map(|session| Session {
            ffs: session.ffs.clone(),
            cred: session.cred.clone(),
            image: show(image.as_bytes()),
            device: Arc::clone(&session.device),
            opened: session.opened.clone(),
            mounted: false,
        }))
    };
    with(of).flatten()
}

/// The open image if `image` is the current one. What commands have changed is on its device.
///
/// # Errors
/// It is to be changed, and the shell opened it to be read; or the changes cannot be written.
pub(super) fn opened(image: &OsStr, write: bool) -> Option<Result<Opened, Failure>> {
    let of = |held: &Held| {
        let session = match held.own(image, write)? {
            Ok(session) => session,
            Err(failure) => return Some(Err(failure)),
        };
        let opened = session.opened.clone()?;
        let synced = session.ffs.sync();
        Some(synced.map(|()| opened).map_err(|error| Failure::new(&session.image, error)))
    };
    with(of).flatten()
}

impl Held {
    /// The session if `image` is the current image.
    fn own(&self, image: &OsStr, write: bool) -> Option<Result<&Session, Failure>> {
        if !current::is(image) {
            return None;
        }
        if write && !self.writable {
            let failure = Failure::new(show(image.as_bytes()), "opened to be read");
            return Some(Err(failure.hint("to change it, start the shell with -w")));
        }
        Some(Ok(&self.session))
    }
}

/// The mounted volume of the shell.
pub(crate) fn volume() -> Option<Ffs> {
    with(|held| held.session.ffs.clone())
}
