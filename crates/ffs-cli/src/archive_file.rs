//! Dumps and tar archives in files, and on standard input and output.
//!
//! **Invariant.** A regular file keeps its old content until the new one is complete.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use bsdffs::tar::Input;
use ffs_device::host_words;

use crate::fail::{Failure, show};
use crate::umask::umask;
use crate::{output, signals, spec};

/// Bytes of a write. A copy sends larger pieces of data, which are not buffered.
const BUFFER: usize = 256 << 10;

/// Where an archive goes.
pub(crate) enum ArchiveFile {
    /// A pipe, a device, or standard output.
    Stream(BufWriter<File>),
    /// A regular file, under another name until it is complete.
    New(BufWriter<tempfile::NamedTempFile>),
}

impl ArchiveFile {
    /// Creates `path` for the content of `image`; `-` is standard output. `what` is the archive in
    /// messages, with its article.
    ///
    /// # Errors
    /// It cannot be created, or is the image.
    pub(crate) fn create(path: &Path, image: &OsStr, what: &str) -> Result<ArchiveFile, Failure> {
        let fail = |error: io::Error| {
            // Of a temporary file, the error has a name that the user did not give.
            let words = host_words(&error);
            let words = words.split(" at path ").next().unwrap_or_default();
            let failure = Failure::new(path.display(), format!("cannot be created: {words}"));
            match error.kind() {
                io::ErrorKind::NotFound => failure.hint("make the directory first"),
                _ => failure,
            }
        };
        let stream = |file| ArchiveFile::Stream(BufWriter::with_capacity(BUFFER, file));
        if path == Path::new("-") {
            if output::to_terminal() {
                let failure = Failure::plain(format!("{what} is not written to a terminal"));
                return Err(failure.hint("give -f FILE, or redirect standard output"));
            }
            return output::data().map(stream).map_err(fail);
        }
        if let Ok(found) = fs::metadata(path) {
            if spec::file_of(image).is_some_and(|image| same_file(&image, &found)) {
                return Err(Failure::new(path.display(), "is the image that is read"));
            }
            if !found.is_file() {
                let file = signals::open_for_writing(path)
                    .map_err(|error| signals::or_interrupted(fail(error)))?;
                output::enlarge_pipe(&file);
                return Ok(stream(file));
            }
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(".ffs-archive.")
            .tempfile_in(dir.unwrap_or(Path::new(".")))
            .map_err(fail)?;
        Ok(ArchiveFile::New(BufWriter::with_capacity(BUFFER, file)))
    }

    /// Where to write the archive.
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        match self {
            ArchiveFile::Stream(out) => out,
            ArchiveFile::New(out) => out,
        }
    }

    /// Gives a complete archive its name.
    ///
    /// # Errors
    /// It cannot be written, or renamed to `path`.
    pub(crate) fn keep(self, path: &Path) -> Result<(), Failure> {
        let fail = |error: io::Error| {
            Failure::new(path.display(), format!("cannot be written: {}", host_words(&error)))
        };
        let ArchiveFile::New(out) = self else { return Ok(()) };
        let file = out.into_inner().map_err(|error| fail(error.into_error()))?;
        let mode = 0o666 & !u32::from(umask());
        file.as_file().set_permissions(fs::Permissions::from_mode(mode)).map_err(fail)?;
        file.as_file().sync_all().map_err(fail)?;
        file.persist(path).map(|_| ()).map_err(|error| fail(error.error))
    }
}

/// Opens the archive `path` for reading; `-` is standard input. Returns also its name in messages.
/// `what` is the archive in messages, with its article.
///
/// # Errors
/// It cannot be read.
pub(crate) fn open(path: &Path, what: &str) -> Result<(Input, String), Failure> {
    let standard_input = path.as_os_str() == "-";
    let name = match standard_input {
        true => "standard input".to_owned(),
        false => show(path.as_os_str().as_bytes()),
    };
    if standard_input && io::stdin().is_terminal() {
        return Err(
            Failure::plain(format!("{what} is not read from a terminal")).hint("give -f FILE")
        );
    }
    let input = match standard_input {
        true => Input::from_stream(signals::Stdin),
        false => input(path),
    };
    let failed = |error| signals::or_interrupted(Failure::new(&name, host_words(&error)));
    Ok((input.map_err(failed)?, name))
}

/// The archive in the file `path`, which may be a pipe.
///
/// # Errors
/// It cannot be read, or a signal ended the wait for it.
pub(crate) fn input(path: &Path) -> io::Result<Input> {
    let source = signals::open(path)?;
    // A pipe has no end to seek to, and a terminal and a tape have none that is useful.
    let kind = fs::metadata(path)?.file_type();
    match kind.is_file() || kind.is_block_device() {
        true => Input::from_file(source.into_file()),
        false => Input::from_stream(source),
    }
}

fn same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    let block = |file: &fs::Metadata| file.file_type().is_block_device();
    (a.dev(), a.ino()) == (b.dev(), b.ino()) || block(a) && block(b) && a.rdev() == b.rdev()
}
