//! Standard input as a file that an argument names with `-`: an image, or a small file.
//!
//! # Invariants
//! 1. Standard input is read once. Two arguments that want it are an error, except that `-` names
//!    the same image everywhere.
//! 2. An image from a pipe is in a temporary file without a name, with holes for its zeros, until
//!    the command ends. A file or device that is standard input is read in place.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ffs_device::{DeviceError, Operation};
use ffs_image::OpenError;

use crate::fail::{Failure, show};
use crate::progress::Progress;
use crate::signals;

/// Longest text that an option names, bytes.
const MAX_TEXT: u64 = 256 << 20;
const STDIN: &str = "/dev/stdin";

static TAKEN: AtomicBool = AtomicBool::new(false);
/// The image from standard input.
static IMAGE: Mutex<Option<File>> = Mutex::new(None);

/// Notes that an argument reads standard input.
///
/// # Errors
/// Another one does.
pub(crate) fn take() -> Result<(), Failure> {
    match TAKEN.swap(true, Ordering::Relaxed) {
        false => Ok(()),
        true => Err(Failure::usage("- is standard input, which can be read only once")),
    }
}

/// Reads at most `most` bytes of a file that an option names; `-` is standard input.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read_file(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let stdin = path == Path::new("-");
    let name = if stdin { "standard input".to_owned() } else { show(path.as_os_str().as_bytes()) };
    let source: Box<dyn Read> = if stdin {
        take()?;
        Box::new(signals::Stdin)
    } else {
        Box::new(signals::open(path).map_err(|error| Failure::new(&name, error))?)
    };
    let mut content = Vec::new();
    let read = source.take(most).read_to_end(&mut content);
    read.map_err(|error| signals::or_interrupted(Failure::new(&name, error)))?;
    Ok(content)
}

/// Reads a text that an option names.
///
/// # Errors
/// It cannot be read, or is too long.
pub(crate) fn read_text(path: &Path) -> Result<Vec<u8>, Failure> {
    let text = read_file(path, MAX_TEXT + 1)?;
    if text.len() as u64 > MAX_TEXT {
        return Err(Failure::new(show(path.as_os_str().as_bytes()), "is longer than 256 MiB"));
    }
    Ok(text)
}

/// Standard input in a temporary file without a name.
///
/// # Errors
/// It cannot be read, or the file cannot be written.
pub(crate) fn temporary() -> Result<File, Failure> {
    take()?;
    let stored = tempfile::tempfile().and_then(|mut file| {
        io::copy(&mut signals::Stdin, &mut file)?;
        Ok(file)
    });
    stored.map_err(|error| {
        let failure = Failure::new("standard input", error);
        signals::or_interrupted(failure.hint("TMPDIR chooses the place to store it"))
    })
}

/// What follows the name of standard input in `image`: `@N`, or nothing; `None` if `image` is
/// another one.
fn after_name(image: &OsStr) -> Option<&[u8]> {
    let bytes = image.as_bytes();
    let rest = bytes.strip_prefix(b"-").or_else(|| bytes.strip_prefix(STDIN.as_bytes()))?;
    (rest.is_empty() || rest.starts_with(b"@")).then_some(rest)
}

/// Whether `image` names standard input.
pub(crate) fn names(image: &OsStr) -> bool {
    after_name(image).is_some()
}

/// The refusal of `-` as an image that a command makes, with what to do.
pub(crate) fn refuse_new_image(image: &OsStr) -> Result<(), Failure> {
    if image != "-" {
        return Ok(());
    }
    let failure = Failure::usage("-: an image is not written from its beginning to its end");
    Err(failure.hint("name a file, and send that on, as in: cat FILE | ssh HOST"))
}

/// The file to open for `image`: another one only if that is standard input.
///
/// # Errors
/// It cannot be read, or is to be changed.
pub(crate) fn resolved(image: OsString, write: bool) -> Result<OsString, OpenError> {
    let Some(rest) = after_name(&image) else { return Ok(image) };
    let own = fs::metadata(STDIN).map_err(refused)?.file_type();
    let in_place = own.is_file() || own.is_block_device();
    if write && (image.as_bytes().starts_with(b"-") || !in_place) {
        let why = "it can only be read; to change the image, store it in a file first";
        return Err(refused(io::Error::other(why)));
    }
    let path = if in_place { STDIN.to_owned() } else { spooled()? };
    Ok(OsString::from_vec([path.as_bytes(), rest].concat()))
}

/// The temporary file with the image.
fn spooled() -> Result<String, OpenError> {
    let mut image = IMAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let file = match image.take() {
        Some(file) => file,
        None => {
            if io::stdin().is_terminal() {
                let why = "an image is not read from a terminal; redirect it, or name a file";
                return Err(refused(io::Error::other(why)));
            }
            take().map_err(|failure| refused(io::Error::other(failure.text)))?;
            signals::listen();
            let file = tempfile::tempfile().map_err(|error| refused(no_place(&error)))?;
            let mut progress = Progress::bytes("read standard input", None);
            let done = ffs_image::spool(signals::Stdin, &file, &mut |_, read| {
                progress.set(read, None);
                !signals::interrupted()
            });
            done.map_err(|error| match error.kind() {
                io::ErrorKind::StorageFull => refused(no_place(&error)),
                _ => refused(error),
            })?;
            file
        }
    };
    let path = format!("/dev/fd/{}", file.as_raw_fd());
    *image = Some(file);
    Ok(path)
}

fn no_place(error: &io::Error) -> io::Error {
    let text = format!("its temporary file: {error}; TMPDIR chooses the place");
    io::Error::new(error.kind(), text)
}

fn refused(error: io::Error) -> OpenError {
    let source = DeviceError::new(&Arc::from("standard input"), Operation::Open, error);
    OpenError::Device { source, write: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_standard_input() {
        for (image, wanted) in [
            ("-", Some("")),
            ("-@2", Some("@2")),
            ("/dev/stdin", Some("")),
            ("/dev/stdin@p1", Some("@p1")),
            ("-x", None),
            ("./-", None),
            ("/dev/stdin2", None),
        ] {
            let found = after_name(OsStr::new(image)).map(|rest| String::from_utf8_lossy(rest));
            assert_eq!(found.as_deref(), wanted, "{image}");
        }
    }
}
