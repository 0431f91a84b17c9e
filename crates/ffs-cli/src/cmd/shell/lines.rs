//! The lines of a script, and the words of a line.
//!
//! # Invariants
//! 1. A script on standard input is read byte by byte, so that a command that reads standard input
//!    gets what follows its line. SIGINT ends a read that waits.
//! 2. A line has at most [`LONGEST`] bytes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::fail::{Failure, show};
use crate::signals::{self, Stdin};

/// The longest line of a script, bytes.
const LONGEST: usize = 1 << 20;

/// A script.
pub(super) struct Script {
    name: String,
    number: u64,
    input: Input,
}

enum Input {
    Stdin,
    File(BufReader<File>),
    Lines(VecDeque<Vec<u8>>),
}

impl Script {
    /// The script in the file `path`; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Script, Failure> {
        if path == Path::new("-") {
            return Ok(Script { name: "standard input".into(), number: 0, input: Input::Stdin });
        }
        let file = File::open(path).map_err(|error| Failure::host(path, &error))?;
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

/// A line of the shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// Nothing, or a comment.
    Empty,
    /// `!COMMAND`: a command of the host's shell.
    Host(OsString),
    /// The words of a command; the first one is its name.
    Words(Vec<OsString>),
}

/// Parses a line. The second value is true if a failure of the command does not end a script.
pub(super) fn parse(line: &[u8]) -> Result<(Parsed, bool), Failure> {
    // A space at the end may belong to a name, behind a backslash.
    let line = line.trim_ascii_start();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (ignored, line) = match line.strip_prefix(b"-") {
        Some(rest) => (true, rest.trim_ascii_start()),
        None => (false, line),
    };
    if let Some(command) = line.strip_prefix(b"!") {
        return Ok((Parsed::Host(OsString::from_vec(command.to_vec())), ignored));
    }
    let Some(words) = shlex::bytes::split(line) else {
        let why = "a quote is not closed, or the line ends in a backslash";
        return Err(Failure::usage(why));
    };
    if words.iter().any(|word| word.contains(&0)) {
        return Err(Failure::usage("the line has a NUL"));
    }
    // A variable without a value must not be the current directory. A value may be empty.
    let takes_values = words.first().is_some_and(|name| name == b"xattr");
    if !takes_values && words.iter().any(Vec::is_empty) {
        return Err(Failure::usage("an empty argument; the current directory is ."));
    }
    let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
    Ok((if words.is_empty() { Parsed::Empty } else { Parsed::Words(words) }, ignored))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn lines_are_split_as_in_a_shell() {
        let words = |line: &str| match parse(line.as_bytes()).unwrap() {
            (Parsed::Words(words), ignored) => {
                let words = words.into_iter().map(|word| word.into_string().unwrap());
                (words.collect::<Vec<_>>().join("|"), ignored)
            }
            (other, ignored) => (format!("{other:?}"), ignored),
        };
        for (line, expected) in [
            ("ls -l  /etc", ("ls|-l|/etc", false)),
            ("  -rm 'a b' \"c d\" e\\ f # end", ("rm|a b|c d|e f", true)),
            ("- rm x", ("rm|x", true)),
            ("stat '#12' a#b", ("stat|#12|a#b", false)),
            ("# only a comment", ("Empty", false)),
            ("", ("Empty", false)),
            ("!ls 'x", ("Host(\"ls 'x\")", false)),
            ("-!false", ("Host(\"false\")", true)),
            ("xattr x ''", ("xattr|x|", false)),
            ("rm a\\ ", ("rm|a ", false)),
            ("ls /etc\r", ("ls|/etc", false)),
        ] {
            assert_eq!(words(line), (expected.0.to_owned(), expected.1), "{line}");
        }
        for bad in [&b"ls 'x"[..], b"ls \"x", b"ls x\\", b"ls x\0y", b"rm ''"] {
            assert!(parse(bad).is_err(), "{}", bad.escape_ascii());
        }
    }

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
