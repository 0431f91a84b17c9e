//! A line of `ffs shell`: its words, and the word that completion replaces.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use bsdffs::text::changes_the_line;

/// A line of the shell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Nothing, or a comment.
    Empty,
    /// `!COMMAND`: a command of the host's shell.
    Host(OsString),
    /// The words of a command; the first one is its name.
    Words(Vec<OsString>),
}

/// Parses a line. The second value is true if a failure of the command does not end a script.
pub(crate) fn parse(line: &[u8]) -> Result<(Parsed, bool), &'static str> {
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
        return Err("a quote is not closed, or the line ends in a backslash");
    };
    if words.iter().any(|word| word.contains(&0)) {
        return Err("the line has a NUL");
    }
    // A variable without a value must not be the current directory. A value may be empty.
    let takes_values = words.first().is_some_and(|name| name == b"xattr");
    if !takes_values && words.iter().any(Vec::is_empty) {
        return Err("an empty argument; the current directory is .");
    }
    let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
    Ok((if words.is_empty() { Parsed::Empty } else { Parsed::Words(words) }, ignored))
}

/// Where the last word of `text` begins; the end, if a space precedes it.
pub(crate) fn last_word(text: &str) -> usize {
    let (mut start, mut quote, mut escaped) = (None, None, false);
    for (at, &byte) in text.as_bytes().iter().enumerate() {
        let space = matches!(byte, b' ' | b'\t') && !escaped && quote.is_none();
        start = if space { None } else { start.or(Some(at)) };
        match (byte, quote) {
            _ if escaped => escaped = false,
            (b'\\', None | Some(b'"')) => escaped = true,
            (b'\'' | b'"', None) => quote = Some(byte),
            (_, Some(open)) if byte == open => quote = None,
            _ => {}
        }
    }
    start.unwrap_or(text.len())
}

/// The word that `text` begins: the end of a quote may be missing.
pub(crate) fn unquoted(text: &str) -> Option<Vec<u8>> {
    let mut closed = ["", "'", "\""].into_iter().map(|end| format!("{text}{end}"));
    let mut words = closed.find_map(|text| shlex::bytes::split(text.as_bytes()))?;
    Some(words.pop().unwrap_or_default())
}

/// `word` with backslashes; `None` if a line cannot hold it.
pub(crate) fn quoted(word: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(word).ok()?;
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        let plain = letter.is_alphanumeric() || "/._-+,:@%=~^".contains(letter);
        match letter {
            _ if letter.is_control() || changes_the_line(letter) => return None,
            _ if !plain => out.extend(['\\', letter]),
            _ => out.push(letter),
        }
    }
    Some(out)
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
    fn the_last_word_is_found_and_unquoted() {
        for (text, start, word) in [
            ("", 0, ""),
            ("ls", 0, "ls"),
            ("ls ", 3, ""),
            ("ls a\\ b", 3, "a b"),
            ("ls 'a b", 3, "a b"),
            ("ls \"a b\" 'c'd", 9, "cd"),
            ("ls \"a\\\" b", 3, "a\" b"),
        ] {
            assert_eq!(last_word(text), start, "{text}");
            assert_eq!(unquoted(&text[start..]).unwrap(), word.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_quoted_word_reads_back() {
        for word in ["plain", "a b", "it's", "\"x\"", "back\\slash", "#1", "star*", "é ü", "$x;|&"]
        {
            let text = quoted(word.as_bytes()).unwrap();
            assert_eq!(shlex::bytes::split(text.as_bytes()).unwrap(), [word.as_bytes()], "{text}");
        }
        assert_eq!(quoted(b"new\nline"), None);
        assert_eq!(quoted(b"\xff"), None);
    }
}
