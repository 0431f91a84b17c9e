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

use regex::bytes::{Regex, RegexBuilder};
use std::iter::Peekable;
use std::str::Chars;

/// Any character, or a byte that is part of none.
const ANY: &str = r"(?:(?s:.)|(?-u:[\x80-\xff]))";
/// Nothing: a byte behind the end.
const NONE: &str = r"(?:\z(?s-u:.))";

/// The expression for a pattern. `None`: it is too large.
pub(crate) fn compile(pattern: &str, fold: bool) -> Option<Regex> {
    let mut text = String::from("^(?:");
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '*' => text.push_str(r"(?s-u:.*)"),
            '?' => text.push_str(ANY),
            '[' => {
                let mut inside = rest.clone();
                match set(&mut inside) {
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
    text.push_str(")$");
    RegexBuilder::new(&text).case_insensitive(fold).build().ok()
}

fn literal(c: char, text: &mut String) {
    text.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
}

/// The set behind `[`, up to its end. `None`: nothing closes it.
fn set(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let negated = rest.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut parts = String::new();
    let mut first = true;
    loop {
        let c = rest.next()?;
        if c == ']' && !first {
            break;
        }
        first = false;
        if c == '['
            && let Some(kind) = rest.next_if(|c| matches!(c, ':' | '.' | '='))
        {
            named(kind, rest, &mut parts)?;
            continue;
        }
        let from = if c == '\\' { rest.next()? } else { c };
        let mut ahead = rest.clone();
        let mut to = from;
        if ahead.next() == Some('-') && ahead.peek().is_some_and(|c| *c != ']') {
            to = match ahead.next()? {
                '\\' => ahead.next()?,
                c => c,
            };
            *rest = ahead;
        }
        // A range in the wrong order is empty.
        if from <= to {
            parts.push_str(&format!(r"\x{{{:x}}}-\x{{{:x}}}", u32::from(from), u32::from(to)));
        }
    }
    Some(match (negated, parts.is_empty()) {
        (false, true) => NONE.to_owned(),
        (false, false) => format!("[{parts}]"),
        (true, true) => ANY.to_owned(),
        (true, false) => format!(r"(?:[^{parts}]|(?-u:[\x80-\xff]))"),
    })
}

/// A class such as `[:alpha:]`, or a character such as `[.-.]`, behind its first two characters.
/// What is none matches nothing.
fn named(kind: char, rest: &mut Peekable<Chars<'_>>, parts: &mut String) -> Option<()> {
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
        (':', _) => {}
        _ => {
            let mut chars = name.chars();
            if let (Some(c), None) = (chars.next(), chars.next()) {
                parts.push_str(&format!(r"\x{{{:x}}}", u32::from(c)));
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
