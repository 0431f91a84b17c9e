//! What a command ends with when it cannot do what it was asked.
//!
//! Every message has one form, `ffs COMMAND: what: why; what to do`: the part before `what` is
//! added where it is printed.

use std::fmt::Display;
use std::io;

use ffs_admin::AdminError;
use ffs_device::{DeviceError, host_words};

/// Exit code of a wrong command line, where BSD has no other (`EX_USAGE`).
pub(crate) const EX_USAGE: u8 = 64;
/// Exit code of a program that SIGINT ended.
pub(crate) const INTERRUPTED: u8 = 130;
/// Exit code of a program whose reader went away.
const PIPE_CLOSED: u8 = 141;

/// The exit code of a command that ran, or why it could not.
pub(crate) type Outcome = Result<u8, Failure>;

/// Why a command failed, and its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit code.
    pub code: u8,
    /// For people; empty if they have been told.
    pub text: String,
    /// There was no room left.
    pub full: bool,
}

impl Failure {
    /// Exit code 1, `what: why`.
    pub(crate) fn new(what: impl Display, why: impl Display) -> Failure {
        Failure { code: 1, text: format!("{what}: {why}"), full: false }
    }

    /// Exit code 1 and a whole sentence.
    pub(crate) fn plain(text: impl Display) -> Failure {
        Failure { code: 1, text: text.to_string(), full: false }
    }

    /// What a tool refused to do with `image`, and what may help.
    pub(crate) fn admin(image: &str, error: &AdminError) -> Failure {
        let failure = Failure::new(image, error);
        match error {
            AdminError::Format(error) => failure.advised(error, image),
            _ => failure,
        }
    }

    /// Adds what the error advises to do about `image`.
    #[must_use]
    pub(crate) fn advised(self, error: &ffs_ondisk::Error, image: &str) -> Failure {
        match error.advice(image) {
            Some(advice) => self.hint(advice),
            None => self,
        }
    }

    /// A new file that could not be made, and what may help.
    pub(crate) fn unmade(name: impl Display, error: &DeviceError) -> Failure {
        let failure = Failure::new(name, format!("cannot be made: {}", host_words(&error.source)));
        match error.source.kind() {
            io::ErrorKind::NotFound => failure.hint("make the directory first"),
            io::ErrorKind::PermissionDenied => {
                failure.hint("do it as a user who may write to the directory")
            }
            io::ErrorKind::ReadOnlyFilesystem => failure.hint("put it where one can write"),
            _ => failure,
        }
    }

    /// A wrong command line.
    pub(crate) fn usage(text: impl Display) -> Failure {
        Failure { code: EX_USAGE, ..Failure::plain(text) }
    }

    /// Stopped by SIGINT or SIGTERM.
    pub(crate) fn interrupted() -> Failure {
        Failure { code: INTERRUPTED, ..Failure::plain("interrupted") }
    }

    /// Says what was being worked on.
    #[must_use]
    pub(crate) fn at(mut self, what: impl Display) -> Failure {
        self.text = format!("{what}: {}", self.text);
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, what_to_do: impl Display) -> Failure {
        let joint = if self.text.ends_with('?') { "" } else { ";" };
        self.text = format!("{}{joint} {what_to_do}", self.text.trim_end_matches('.'));
        self
    }

    /// Adds what to do about it if there was no room left.
    #[must_use]
    pub(crate) fn hint_if_full(self, what_to_do: impl Display) -> Failure {
        if self.full { self.hint(what_to_do) } else { self }
    }

    /// The same with another exit code.
    #[must_use]
    pub(crate) fn code(mut self, code: u8) -> Failure {
        self.code = code;
        self
    }
}

/// Only standard output is written with `?` on an I/O error.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure { code: PIPE_CLOSED, ..Failure::plain("") };
        }
        Failure::new("standard output", error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        io::Error::from(error).into()
    }
}

/// A name as it may be shown: control characters and bytes that are no UTF-8 are escaped.
pub(crate) fn show(name: impl AsRef<[u8]>) -> String {
    let mut out = String::new();
    for chunk in name.as_ref().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                out.extend(bytes.map(|byte| format!("\\x{byte:02x}")));
            } else {
                out.push(c);
            }
        }
        out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_to_show() {
        assert_eq!(show(b"plain name"), "plain name");
        assert_eq!(show("gr\u{fc}n\n\x1b[31m"), "gr\u{fc}n\\x0a\\x1b[31m");
        assert_eq!(show(b"a\xff\xc3"), "a\\xff\\xc3");
    }

    #[test]
    fn hints_follow_the_reason() {
        let failure = Failure::new("a.img", "no such file.").hint("check the path");
        assert_eq!(failure.text, "a.img: no such file; check the path");
    }
}
