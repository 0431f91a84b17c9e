//! The error of a command, and its exit code.
//!
//! Each message has the form `ffs COMMAND: OBJECT: REASON; HINT`. The prefix `ffs COMMAND` is added
//! when the message is printed.

use std::fmt::Display;
use std::io;
use std::path::Path;

pub(crate) use bsdffs::text::escape as show;
use ffs_admin::AdminError;
pub(crate) use ffs_device::shell_word;
use ffs_device::{DeviceError, host_words};

/// Exit code of a wrong command line (`EX_USAGE`), except of the commands that `Doc::usage_code`
/// gives another.
pub(crate) const EX_USAGE: u8 = 64;
/// Exit code of a program that SIGINT ended.
pub(crate) const INTERRUPTED: u8 = 130;
/// Exit code of a program that SIGPIPE would have ended.
pub(crate) const PIPE_CLOSED: u8 = 141;

/// The exit code of a command that ran, or the error that ended it.
pub(crate) type Outcome = Result<u8, Failure>;

/// The error of a command: a message and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit code.
    pub code: u8,
    /// The message; empty if it was printed already.
    pub text: String,
    /// The volume has no space or no inodes left.
    pub full: bool,
    /// The command line is wrong: [`Failure::code_for`] has the exit code.
    pub usage: bool,
    /// Standard output cannot be written.
    pub output: bool,
}

impl Failure {
    /// Exit code 1, `what: why`.
    pub(crate) fn new(what: impl Display, why: impl Display) -> Failure {
        Failure::plain(format!("{what}: {why}"))
    }

    /// Exit code 1 and a whole sentence.
    pub(crate) fn plain(text: impl Display) -> Failure {
        Failure { code: 1, text: text.to_string(), full: false, usage: false, output: false }
    }

    /// The error of an administration tool on `image`, with a hint.
    pub(crate) fn admin(image: &str, error: &AdminError) -> Failure {
        let failure = Failure::new(image, error);
        match error {
            AdminError::Format(error) => failure.advised(error, image),
            _ => failure,
        }
    }

    /// Adds the hint of the error for `image`.
    #[must_use]
    pub(crate) fn advised(self, error: &ffs_ondisk::Error, image: &str) -> Failure {
        match error.advice(&shell_word(image)) {
            Some(advice) => self.hint(advice),
            None => self,
        }
    }

    /// A file that cannot be created, with a hint.
    pub(crate) fn unmade(name: impl Display, error: &DeviceError) -> Failure {
        let failure =
            Failure::new(name, format!("cannot be created: {}", host_words(&error.source)));
        match error.source.kind() {
            io::ErrorKind::NotFound => failure.hint("make the directory first"),
            io::ErrorKind::PermissionDenied => {
                failure.hint("run the command as a user with write permission for the directory")
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                failure.hint("choose a directory on a writable file system")
            }
            io::ErrorKind::FileTooLarge => {
                failure.hint("the file system of the host has no files of this size")
            }
            _ => failure,
        }
    }

    /// An error of the host at `path`.
    pub(crate) fn host(path: &Path, error: &io::Error) -> Failure {
        Failure::new(path.display(), host_words(error))
    }

    /// A wrong command line.
    pub(crate) fn usage(text: impl Display) -> Failure {
        Failure { code: EX_USAGE, usage: true, ..Failure::plain(text) }
    }

    /// The exit code of a command that exits with `usage_code` if its command line is wrong.
    pub(crate) fn code_for(&self, usage_code: u8) -> u8 {
        if self.usage { usage_code } else { self.code }
    }

    /// Stopped by SIGINT or SIGTERM.
    pub(crate) fn interrupted() -> Failure {
        Failure { code: INTERRUPTED, ..Failure::plain("interrupted") }
    }

    /// The reader of a pipe closed it: no message.
    pub(crate) fn pipe_closed() -> Failure {
        Failure { code: PIPE_CLOSED, ..Failure::plain("") }
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn hint(mut self, what_to_do: impl Display) -> Failure {
        let joint = if self.text.ends_with('?') { "" } else { ";" };
        self.text = format!("{}{joint} {what_to_do}", self.text.trim_end_matches('.'));
        self
    }

    /// Adds a hint if the volume is full.
    #[must_use]
    pub(crate) fn hint_if_full(self, what_to_do: impl Display) -> Failure {
        if self.full { self.hint(what_to_do) } else { self }
    }

    /// The same with another exit code.
    #[must_use]
    pub(crate) fn code(mut self, code: u8) -> Failure {
        self.code = code;
        self.usage = false;
        self
    }
}

/// Only standard output is written with `?` on an I/O error.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::pipe_closed();
        }
        Failure { output: true, ..Failure::new("standard output", error) }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        io::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_follow_the_reason() {
        let failure = Failure::new("a.img", "no such file.").hint("check the path");
        assert_eq!(failure.text, "a.img: no such file; check the path");
    }
}
