//! `--write`: a compressed image that is to be changed is expanded beside it.
//!
//! **Invariant.** An image is expanded once. The command that did it works on the raw image from
//! then on, also where it reads.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ffs_image::{OpenError, OpenOptions, Opened};

use crate::fail::show;
use crate::progress::Progress;
use crate::{output, signals};

static WANTED: AtomicBool = AtomicBool::new(false);
/// Images that this command has expanded, and their raw images.
static DONE: Mutex<Vec<(OsString, OsString)>> = Mutex::new(Vec::new());

/// Notes whether `--write` is given.
pub(crate) fn set(wanted: bool) {
    WANTED.store(wanted, Ordering::Relaxed);
}

/// Opens `image`. If it is compressed and to be changed, and `--write` is given, the raw image
/// beside it is made and opened.
pub(crate) fn open(image: &OsStr, how: &OpenOptions) -> Result<Opened, OpenError> {
    let done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    let raw = done.iter().find(|(packed, _)| packed == image).map(|(_, raw)| raw.clone());
    drop(done);
    if let Some(raw) = raw {
        return ffs_image::open(raw, how);
    }
    match ffs_image::open(image, how) {
        Err(OpenError::Compressed { .. }) if WANTED.load(Ordering::Relaxed) => {
            signals::listen();
            ffs_image::open(expanded(image)?, how)
        }
        other => other,
    }
}

/// The image to mount in place of `image`: with `--write` the raw one of a compressed one.
pub(crate) fn to_mount(image: &OsStr) -> Result<OsString, OpenError> {
    if !WANTED.load(Ordering::Relaxed) {
        return Ok(image.to_owned());
    }
    let how = OpenOptions { write: true, whole_disk: true, ..OpenOptions::default() };
    match ffs_image::open(image, &how) {
        Err(OpenError::Compressed { .. }) => {
            signals::listen_before_fork();
            expanded(image)
        }
        // Other errors are those of the mount.
        _ => Ok(image.to_owned()),
    }
}

/// Expands `image`, and notes it. Returns the name of the raw image.
fn expanded(image: &OsStr) -> Result<OsString, OpenError> {
    let packed = fs::metadata(Path::new(image)).ok().map(|found| found.len());
    let mut progress = Progress::bytes("expand", packed);
    let raw = ffs_image::expand(image, &mut |_, read| {
        progress.set(read, None);
        !signals::interrupted()
    })?;
    drop(progress);
    let (from, to) = (show(image.as_bytes()), show(raw.as_bytes()));
    output::note(format!("{from}: expanded to {to}, which is used from now on"));
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    done.push((image.to_owned(), raw.clone()));
    Ok(raw)
}
