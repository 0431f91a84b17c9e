//! The lines of a script.
//!
//! # Invariants
//! 1. A script on standard input is read byte by byte, so that a command that reads standard input
//!    gets what follows its line. SIGINT ends a read that waits.
//! 2. A line has at most [`LONGEST`] bytes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fail::{Failure, show};
use crate::signals::{self, Stdin};

/// The longest line of a script, bytes.
const LONGEST: usize = 1 << 20;

static ON_STDIN: AtomicBool = AtomicBool::new(false);

/// Whether standard input is the script that runs.
pub(super) fn on_stdin() -> bool {
    ON_STDIN.load(Ordering::Relaxed)
}

/// A script.
pub(super) struct Script {
    name: String,
    number: u64,
    input: Input,
}

enum Input {
    Stdin,
    File(BufReader<signals::StoppableReader>),
    Lines(VecDeque<Vec<u8>>),
}

impl Script {
    /// The script in the file `path`; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Script, Failure> {
        let is_stdin = path == Path::new("-") || path == Path::new("/dev/stdin");
        ON_STDIN.store(is_stdin, Ordering::Relaxed);
        if path == Path::new("-") {
            return Ok(Script { name: "standard input".into(), number: 0, input: Input::Stdin });
        }
        let file = signals::open(path).map_err(|error| Failure::host(path, &error))?;
        let name = show(path.as_os_str().as_bytes());
        Ok(Script { name, number: 0, input: Input::File(BufReader::new(file)) })
    }

    /// The script of these commands, which the command line has.
    pub(super) fn of_commands(commands: &[OsString]) -> Script {
        let lines = commands.iter().flat_map(|text| text.as_bytes().split(|&b| b == b'\n'));
        let lines = lines.map(<[u8]>::to_vec).collect();
        Script { name: "-c".into(), number: 0, input: Input::Lines(lines) }
    }

    /// Where the last line is, for messages.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.name, self.number)
    }

    /// The next line without its newline; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        self.number += 1;
        let line = match &mut self.input {
            Input::Stdin => line_of(&mut Stdin),
            Input::File(file) => line_of(file),
            Input::Lines(lines) => Ok(lines.pop_front()),
        };
        signals::check()?;
        line.map_err(|error| Failure::new(self.place(), error))
    }
}

/// Reads a line, byte by byte.
fn line_of(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        match input.read(&mut byte) {
            Ok(0) => return Ok(Some(line).filter(|line| !line.is_empty())),
            Ok(_) if byte == *b"\n" => return Ok(Some(line)),
            Ok(_) if line.len() == LONGEST => {
                let why = format!("the line is longer than {LONGEST} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn lines_end_at_newlines_and_have_a_limit() {
        let mut input = &b"a\n\nb"[..];
        let mut next = || line_of(&mut input).unwrap();
        assert_eq!(next(), Some(b"a".to_vec()));
        assert_eq!(next(), Some(Vec::new()));
        assert_eq!(next(), Some(b"b".to_vec()));
        assert_eq!(next(), None);
        assert!(line_of(&mut io::repeat(b'x')).is_err());
    }
}
