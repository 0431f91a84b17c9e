//! Patterns of the shell for `ffs find`, as fnmatch(3) without flags matches them in UTF-8.
//!
//! A pattern becomes a regular expression for a whole name.
//!
//! | part | matches |
//! | --- | --- |
//! | `*` | any bytes, also `/` and a leading period |
//! | `?` | a character, or a byte that is part of none |
//! | `[...]`, `[!...]`, `[^...]` | a character of a set, or another; with ranges and `[:alpha:]` |
//! | `\` and a character | that character; at the end a backslash |
//!
//! **Invariants.**
//! 1. Every text is a pattern. A bracket that nothing closes is itself.
//! 2. The time of a match is linear in the name.

use regex::{Regex, RegexBuilder};
use std::iter::Peekable;
use std::str::Chars;

/// Any character, or a byte that is part of none.
pub(super) const ANY: &str = "(?s:.)";
/// Nothing: a character behind the end.
const NONE: &str = r"(?:\z(?s:.))";

/// A pattern for names, which may have any bytes.
pub(super) struct Pattern(Regex);

impl Pattern {
    /// The expression `text` of the crate `regex`, for a whole name. `None`: it is too large.
    pub(super) fn new(text: &str, fold: bool) -> Option<Pattern> {
        let whole = format!(r"\A(?:{text})\z");
        RegexBuilder::new(&whole).case_insensitive(fold).build().ok().map(Pattern)
    }

    pub(super) fn is_match(&self, name: &[u8]) -> bool {
        match str::from_utf8(name) {
            Ok(name) => self.0.is_match(name),
            Err(_) => self.0.is_match(&characters(name)),
        }
    }
}

/// The name with a private character for each byte that is part of none. A pattern is UTF-8, so
/// that it cannot have such a byte.
fn characters(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(
            chunk.invalid().iter().filter_map(|byte| char::from_u32(0x10_ff00 + u32::from(*byte))),
        );
    }
    text
}

/// How a set in brackets is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brackets {
    /// As for the shell: `!` also negates, and a backslash escapes. A class or a range that does
    /// not exist is empty.
    Shell,
    /// As in a regular expression, where these are errors.
    Regex { classes: bool },
}

impl Brackets {
    fn escapes(self) -> bool {
        self == Brackets::Shell
    }

    /// Whether a class or a character with a name begins with `[` and `kind`.
    fn names(self, kind: char) -> bool {
        match kind {
            ':' => !matches!(self, Brackets::Regex { classes: false }),
            kind => matches!(kind, '.' | '='),
        }
    }
}

/// The expression for a pattern. `None`: it is too large.
pub(super) fn compile(pattern: &str, fold: bool) -> Option<Pattern> {
    let mut text = String::new();
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '*' => text.push_str("(?s:.*)"),
            '?' => text.push_str(ANY),
            '[' => {
                let mut inside = rest.clone();
                match set(&mut inside, Brackets::Shell) {
                    Some(set) => {
                        text.push_str(&set);
                        rest = inside;
                    }
                    None => text.push_str(r"\["),
                }
            }
            '\\' => literal(rest.next().unwrap_or('\\'), &mut text),
            c => literal(c, &mut text),
        }
    }
    Pattern::new(&text, fold)
}

pub(super) fn literal(c: char, text: &mut String) {
    text.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
}

/// The set behind `[`, up to its end. `None`: nothing closes it, or it is an error.
pub(super) fn set(rest: &mut Peekable<Chars<'_>>, brackets: Brackets) -> Option<String> {
    let negates = |c: &char| *c == '^' || *c == '!' && brackets == Brackets::Shell;
    let negated = rest.next_if(negates).is_some();
    let mut parts = String::new();
    let mut first = true;
    loop {
        let c = rest.next()?;
        if c == ']' && !first {
            break;
        }
        first = false;
        if c == '['
            && let Some(kind) = rest.next_if(|c| brackets.names(*c))
        {
            named(kind, rest, &mut parts, brackets)?;
            continue;
        }
        let from = if c == '\\' && brackets.escapes() { rest.next()? } else { c };
        let mut ahead = rest.clone();
        let mut to = from;
        if ahead.next() == Some('-') && ahead.peek().is_some_and(|c| *c != ']') {
            to = match ahead.next()? {
                '\\' if brackets.escapes() => ahead.next()?,
                c => c,
            };
            *rest = ahead;
        }
        if from <= to {
            parts.push_str(&format!(r"\x{{{:x}}}-\x{{{:x}}}", u32::from(from), u32::from(to)));
        } else if brackets != Brackets::Shell {
            return None;
        }
    }
    Some(match (negated, parts.is_empty()) {
        (false, true) => NONE.to_owned(),
        (false, false) => format!("[{parts}]"),
        (true, true) => ANY.to_owned(),
        (true, false) => format!("[^{parts}]"),
    })
}

/// A class such as `[:alpha:]`, or a character such as `[.-.]`, behind its first two characters.
fn named(
    kind: char,
    rest: &mut Peekable<Chars<'_>>,
    parts: &mut String,
    brackets: Brackets,
) -> Option<()> {
    let mut name = String::new();
    loop {
        let c = rest.next()?;
        if c == kind && rest.next_if_eq(&']').is_some() {
            break;
        }
        name.push(c);
    }
    match (kind, name.as_str()) {
        (
            ':',
            "alnum" | "alpha" | "blank" | "cntrl" | "digit" | "graph" | "lower" | "print" | "punct"
            | "space" | "upper" | "xdigit",
        ) => parts.push_str(&format!("[:{name}:]")),
        (':', _) if brackets != Brackets::Shell => return None,
        (':', _) => {}
        _ => {
            let mut chars = name.chars();
            match (chars.next(), chars.next()) {
                (Some(c), None) => parts.push_str(&format!(r"\x{{{:x}}}", u32::from(c))),
                _ if brackets != Brackets::Shell => return None,
                _ => {}
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(pattern: &str, name: &[u8]) -> bool {
        compile(pattern, false).unwrap_or_else(|| panic!("{pattern:?}")).is_match(name)
    }

    #[test]
    fn patterns_are_those_of_the_shell() {
        for (pattern, names, others) in [
            ("*.c", &[".hidden.c", "a/b.c", "\n.c", ".c"][..], &["a.h", "a.cc"][..]),
            ("a?[bc]*", &["axb", "aéc/d"], &["ab", "axd"]),
            ("{a,b}", &["{a,b}"], &["a"]),
            (r"\*\?\[\\", &[r"*?[\"], &["x?[\\"]),
            ("[{]*", &["{a"], &["a{", "[{]"]),
            ("[c", &["[c"], &["c"]),
            ("[]c]", &["]", "c"], &["[", "]c"]),
            ("[!]c]", &["[", "é", "/"], &["]", "c", ""]),
            ("[a-c-]", &["b", "-"], &["d"]),
            ("[c-a]", &[], &["a", "b", "c"]),
            (r"[\]a]", &["]", "a"], &[r"\"]),
            ("[[:digit:]x]", &["5", "x"], &["[", ":", "d"]),
            ("[[.-.]a]", &["-", "a"], &["."]),
            ("[[:none:]a]", &["a"], &["n", ":"]),
            ("[é-ü]", &["ö"], &["a"]),
            ("*/a/**/keep", &["x/a//keep", "/a/b/keep"], &["/tmp/a/keep"]),
            ("a\\", &["a\\"], &["a"]),
            ("", &[], &["a"]),
            ("[a&&b]", &["&", "a", "b"], &["c"]),
        ] {
            for name in names {
                assert!(is(pattern, name.as_bytes()), "{pattern:?} {name:?}");
            }
            for name in others {
                assert!(!is(pattern, name.as_bytes()), "{pattern:?} {name:?}");
            }
        }
        assert!(is("a?", b"a\xff") && is("*", b"\xff\n") && is("[!a]", b"\xff"));
        assert!(!is("??", "é".as_bytes()) && is("??", b"\xc3\xff") && is("?b", b"\xc3b"));
        assert!(compile("É[a-c]", true).unwrap().is_match("éB".as_bytes()));
    }

    /// The C library of Linux is the judge, in the locale C, with names of ASCII.
    #[cfg(target_os = "linux")]
    #[test]
    fn random_patterns_match_as_by_fnmatch() {
        use std::process::Command;
        let mut random = 7u64;
        let mut next = |n: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            (random >> 33) as usize % n
        };
        let mut word = |letters: &[u8], longest: usize| -> String {
            let len = next(longest + 1);
            (0..len).map(|_| char::from(letters[next(letters.len())])).collect()
        };
        let cases: Vec<(String, String)> =
            (0..4000).map(|_| (word(br"ab*?[]!^-\/.", 8), word(br"ab*[]!-\/.", 5))).collect();
        // A backslash at the end matches nothing there, and itself on BSD.
        let cases = cases.into_iter().filter(|(pattern, _)| !pattern.contains('\\'));
        let cases: Vec<_> = cases.collect();
        let script = "import ctypes, sys\nlibc = ctypes.CDLL(None)\nlines = sys.stdin.buffer.read()\
                      .split(b'\\0')\nfor p, n in zip(lines[::2], lines[1::2]): print(int(libc\
                      .fnmatch(p, n, 0) == 0))";
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cases");
        let text: String = cases.iter().map(|(p, n)| format!("{p}\0{n}\0")).collect();
        std::fs::write(&file, text).unwrap();
        let mut judge = Command::new("python3");
        judge.args(["-c", script]).stdin(std::fs::File::open(&file).unwrap());
        let Ok(output) = judge.output() else {
            return println!("skipped: there is no python3");
        };
        let answers = String::from_utf8(output.stdout).unwrap();
        assert_eq!(answers.lines().count(), cases.len());
        for ((pattern, name), answer) in cases.iter().zip(answers.lines()) {
            assert_eq!(is(pattern, name.as_bytes()), answer == "1", "{pattern:?} {name:?}");
        }
    }
}
