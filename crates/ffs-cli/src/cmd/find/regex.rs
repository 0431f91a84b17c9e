//! The regular expressions of `ffs find`, as GNU's find reads them with `-regextype`.
//!
//! An expression becomes one of the crate `regex`, for a whole path.
//!
//! | part | extended | basic | emacs |
//! | --- | --- | --- | --- |
//! | group | `(...)` | `\(...\)` | `\(...\)` |
//! | alternatives | `\|` | `\\|` | `\\|` |
//! | repetition | `*` `+` `?` `{n,m}` | `*` `\+` `\?` `\{n,m\}` | `*` `+` `?` |
//! | set | `[...]` | `[...]` | `[...]`, without classes |
//! | any character | `.` | `.` | `.` |
//!
//! `\w`, `\W`, `\s`, `\S`, `\b`, `\<`, `\>`, `` \` `` and `\'` are those of GNU.
//!
//! **Invariants.**
//! 1. What the crate `regex` reads in another way never reaches it as it is.
//! 2. The time of a match is linear in the path. So there are no references to groups.

use std::iter::Peekable;
use std::str::Chars;

use super::fnmatch::{ANY, Brackets, Pattern, literal, set};

/// The most that a repetition may count.
const LONGEST: u32 = 32767;

/// How an expression is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Syntax {
    name: &'static str,
    /// Groups, alternatives and counted repetitions have a backslash.
    escaped_groups: bool,
    /// So have `+` and `?`.
    escaped_plus: bool,
    /// A repetition of nothing is an error, `^` and `$` are anchors everywhere.
    strict: bool,
    /// There are counted repetitions.
    counts: bool,
    /// There are classes in sets.
    classes: bool,
}

const EXTENDED: Syntax = Syntax {
    name: "posix-extended",
    escaped_groups: false,
    escaped_plus: false,
    strict: true,
    counts: true,
    classes: true,
};
const BASIC: Syntax = Syntax {
    name: "posix-basic",
    escaped_groups: true,
    escaped_plus: true,
    strict: false,
    ..EXTENDED
};
const EMACS: Syntax =
    Syntax { name: "emacs", escaped_plus: false, counts: false, classes: false, ..BASIC };

impl Default for Syntax {
    fn default() -> Syntax {
        EXTENDED
    }
}

impl Syntax {
    /// The syntax that a value of -regextype names.
    pub(super) fn named(name: &str) -> Option<Syntax> {
        Some(match name {
            "posix-extended" | "posix-egrep" | "egrep" => EXTENDED,
            "posix-basic" | "ed" | "sed" | "grep" => BASIC,
            "emacs" | "findutils-default" => EMACS,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        self.name
    }

    /// The expression `text` for a whole path.
    ///
    /// # Errors
    /// It is not valid; the reason.
    pub(super) fn compile(self, text: &str, fold: bool) -> Result<Pattern, String> {
        let mut reader = Reader {
            syntax: self,
            rest: text.chars().peekable(),
            out: String::new(),
            groups: Vec::new(),
            atom: None,
            begins: true,
        };
        while let Some(c) = reader.rest.next() {
            reader.part(c)?;
        }
        if !reader.groups.is_empty() {
            return Err(format!("{} is missing", self.written(")")));
        }
        Pattern::new(&reader.out, fold)
            .ok_or_else(|| "it is too large, or nested too deeply".to_owned())
    }

    /// A parenthesis or brace as this syntax writes it.
    fn written(self, sign: &str) -> String {
        format!("{}{sign}", if self.escaped_groups { "\\" } else { "" })
    }
}

/// An expression that is being read.
struct Reader<'a> {
    syntax: Syntax,
    rest: Peekable<Chars<'a>>,
    /// The expression for the crate `regex`.
    out: String,
    /// Where the open groups begin in `out`.
    groups: Vec<usize>,
    /// Where the part begins in `out` that a repetition is for; none if there is no such part.
    atom: Option<usize>,
    /// An expression, a group or an alternative begins here.
    begins: bool,
}

impl Reader<'_> {
    /// Reads the part that begins with `c`.
    fn part(&mut self, c: char) -> Result<(), String> {
        let Syntax { escaped_groups, escaped_plus, strict, counts, .. } = self.syntax;
        let began = std::mem::replace(&mut self.begins, false);
        match c {
            '\\' => return self.escape(),
            '*' => return self.repeat(c),
            '+' | '?' if !escaped_plus => return self.repeat(c),
            '(' | ')' | '|' if !escaped_groups => return self.group(c),
            '{' if !escaped_groups && counts => return self.count(),
            '^' if strict || began => self.anchor(r"\A"),
            '$' if strict || self.ends() => self.anchor(r"\z"),
            '.' => self.atom(ANY),
            '[' => {
                let brackets = Brackets::Regex { classes: self.syntax.classes };
                let set = set(&mut self.rest, brackets).ok_or("a set [...] is not valid")?;
                self.atom(&set);
            }
            c => self.literal(c),
        }
        Ok(())
    }

    /// Whether `$` is at the end of an expression, a group or an alternative.
    fn ends(&self) -> bool {
        let mut ahead = self.rest.clone();
        match (ahead.next(), ahead.next()) {
            (None, _) => true,
            (Some('\\'), Some(c)) => matches!(c, ')' | '|'),
            _ => false,
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self) -> Result<(), String> {
        let c = self.rest.next().ok_or("a backslash is at its end")?;
        match c {
            '(' | ')' | '|' if self.syntax.escaped_groups => self.group(c)?,
            '{' if self.syntax.escaped_groups && self.syntax.counts => self.count()?,
            '+' | '?' if self.syntax.escaped_plus => self.repeat(c)?,
            '1'..='9' => return Err(format!("\\{c}: there are no references to groups")),
            'w' => self.atom("[[:alnum:]_]"),
            'W' => self.atom("[^[:alnum:]_]"),
            's' => self.atom("[[:space:]]"),
            'S' => self.atom("[^[:space:]]"),
            'b' => self.anchor(r"(?-u:\b)"),
            '<' => self.anchor(r"(?-u:\b{start})"),
            '>' => self.anchor(r"(?-u:\b{end})"),
            'B' => return Err("\\B: the inside of a word cannot be tested".to_owned()),
            '`' => self.anchor(r"\A"),
            '\'' => self.anchor(r"\z"),
            c => self.literal(c),
        }
        Ok(())
    }

    fn atom(&mut self, text: &str) {
        self.atom = Some(self.out.len());
        self.out.push_str(text);
    }

    fn literal(&mut self, c: char) {
        self.atom = Some(self.out.len());
        literal(c, &mut self.out);
    }

    /// An anchor, which nothing repeats.
    fn anchor(&mut self, text: &str) {
        self.atom = None;
        self.out.push_str(text);
    }

    /// Reads a parenthesis or a bar.
    fn group(&mut self, c: char) -> Result<(), String> {
        match c {
            '(' => {
                self.groups.push(self.out.len());
                self.out.push_str("(?:");
                (self.atom, self.begins) = (None, true);
            }
            ')' => match self.groups.pop() {
                Some(start) => {
                    self.out.push(')');
                    self.atom = Some(start);
                }
                // As in POSIX, it is itself in an extended expression.
                None if self.syntax.strict => self.literal(c),
                None => return Err(format!("{} is missing", self.syntax.written("("))),
            },
            _ => {
                self.out.push('|');
                (self.atom, self.begins) = (None, true);
            }
        }
        Ok(())
    }

    /// Reads `n}`, `n,}`, `,m}` or `n,m}`.
    fn count(&mut self) -> Result<(), String> {
        if self.atom.is_none() {
            let brace = self.syntax.written("{");
            return Err(format!("{brace}: nothing is before it that it could repeat"));
        }
        let wrong = || {
            let [open, close] = ["{", "}"].map(|sign| self.syntax.written(sign));
            format!("a repetition such as {open}2,5{close} is not valid")
        };
        let mut text = String::new();
        let mut rest = self.rest.clone();
        loop {
            match rest.next().ok_or_else(wrong)? {
                '\\' if self.syntax.escaped_groups && rest.peek() == Some(&'}') => {}
                '}' => break,
                c => text.push(c),
            }
        }
        let number = |text: &str| text.parse().ok().filter(|n| *n <= LONGEST);
        let least = |text: &str| if text.is_empty() { Some(0) } else { number(text) };
        let count = match text.split_once(',') {
            None => number(&text).map(|n| format!("{{{n}}}")),
            Some((from, "")) => least(from).map(|n| format!("{{{n},}}")),
            Some((from, to)) => {
                let both = least(from).zip(number(to)).filter(|(from, to)| from <= to);
                both.map(|(from, to)| format!("{{{from},{to}}}"))
            }
        };
        let count = count.ok_or_else(wrong)?;
        self.rest = rest;
        self.repeat_by(&count);
        Ok(())
    }

    fn repeat(&mut self, c: char) -> Result<(), String> {
        match (self.atom, self.syntax.strict) {
            (Some(_), _) => self.repeat_by(c.encode_utf8(&mut [0; 4])),
            (None, true) => {
                return Err(format!("{c}: nothing is before it that it could repeat"));
            }
            // In a basic expression it is itself.
            (None, false) => self.literal(c),
        }
        Ok(())
    }

    /// Repeats the last part. It gets a group of its own, because `a+?` is not `(?:a+)?` there.
    fn repeat_by(&mut self, times: &str) {
        if let Some(start) = self.atom {
            self.out.insert_str(start, "(?:");
            self.out.push(')');
            self.out.push_str(times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn is(syntax: &str, text: &str, path: &str) -> bool {
        let pattern = Syntax::named(syntax).unwrap().compile(text, false);
        pattern.unwrap_or_else(|why| panic!("{text}: {why}")).is_match(path.as_bytes())
    }

    #[test]
    fn expressions_are_for_whole_paths() {
        for (syntax, text, paths, others) in [
            ("posix-extended", "/a.*|b", &["/a\nb", "b"][..], &["/", "ab"][..]),
            ("posix-extended", "/(a|ab)", &["/ab"], &["/abb"]),
            ("posix-extended", r"[\d]+", &["d\\"], &["5"]),
            ("posix-extended", "[a&&b]{2}", &["a&"], &["a"]),
            ("posix-extended", "a+?", &["", "aa"], &["b"]),
            ("posix-extended", "a)", &["a)"], &["a"]),
            ("egrep", r"[\]]", &["\\]"], &["]"]),
            ("emacs", r"[[:digit:]]a\{2\}", &["d]a{2}"], &["1aa"]),
            ("posix-basic", r"\(a\|b+\)\{2\}x\?", &["ab+", "aax"], &["ab", "abb"]),
            ("posix-basic", "*a(b){1}|^c$d", &["*a(b){1}|^c$d"], &["ab"]),
            ("emacs", r"\(a\|b\)+c?", &["ab", "bac"], &["c", "a+"]),
            ("posix-extended", r"\w+\>.\<b", &["ab b"], &["abb"]),
        ] {
            for path in paths {
                assert!(is(syntax, text, path), "{syntax} {text} {path:?}");
            }
            for path in others {
                assert!(!is(syntax, text, path), "{syntax} {text} {path:?}");
            }
        }
        let e = EXTENDED.compile("É.", true).unwrap();
        assert!(e.is_match("éx".as_bytes()) && e.is_match(b"\xc3\x89\xff"));
        assert!(!EXTENDED.compile("..", false).unwrap().is_match("é".as_bytes()));
        for (syntax, text, why) in [
            (EXTENDED, "(a", ") is missing"),
            (BASIC, r"\(a", r"\) is missing"),
            (BASIC, r"a\)", r"\( is missing"),
            (EXTENDED, "a|*", "*: nothing is before it"),
            (EXTENDED, "{2}", "{: nothing is before it"),
            (EXTENDED, "a{2", "a repetition such as {2,5}"),
            (EXTENDED, "a{5,2}", "a repetition such as {2,5}"),
            (BASIC, r"\(a\)\1", r"\1: there are no references"),
            (EXTENDED, "[a", "a set [...] is not valid"),
            (EXTENDED, "[[:none:]]", "a set [...] is not valid"),
            (EXTENDED, "a\\", "a backslash is at its end"),
            (EXTENDED, "((a{9999}){9999}){9999}", "it is too large, or nested too deeply"),
        ] {
            let error = syntax.compile(text, false).err();
            assert!(error.as_ref().is_some_and(|error| error.contains(why)), "{text}: {error:?}");
        }
    }

    /// GNU's find is the judge.
    #[test]
    fn random_expressions_match_as_by_find_of_gnu() {
        let version = Command::new("find").arg("--version").output();
        let version = version.map(|output| output.stdout).unwrap_or_default();
        if !String::from_utf8_lossy(&version).contains("GNU") {
            return println!("skipped: there is no find(1) of GNU");
        }
        let mut random = 7u64;
        let mut next = |n: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize % n
        };
        let dir = tempfile::tempdir().unwrap();
        let letters = "ab*+?(){}|^$[]-,1\\";
        let names: std::collections::BTreeSet<String> = (0..200)
            .map(|_| (0..=next(3)).map(|_| char::from(letters.as_bytes()[next(18)])).collect())
            .collect();
        // What could be an option or an operator of find(1) is none with a letter in front.
        let names: Vec<String> = names.into_iter().map(|name| format!("a{name}")).collect();
        for name in &names {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let parts = r"a b a . * + ? ( ) | {1} {1,2} {,1} \( \) \| \{1\} \{0,2\} \+ \? [ab] [^a] []a]
            [a-b-] [\] ^ $ [[:digit:]] \w \. \* -";
        let parts: Vec<&str> = parts.split_whitespace().collect();
        let mut compared = 0;
        for syntax in [EXTENDED, BASIC, EMACS] {
            let name = syntax.name();
            for _ in 0..200 {
                let text: String = (0..=next(5)).map(|_| parts[next(parts.len())]).collect();
                let text = ["", "a", "a.*", ".*"][next(4)].to_owned() + &text;
                let mut find = Command::new("find");
                find.args(&names).args(["-maxdepth", "0", "-regextype", name, "-regex", &text]);
                let output = find.env("LC_ALL", "C").current_dir(dir.path()).output().unwrap();
                // GNU refuses some repetitions of repetitions.
                if !output.status.success() {
                    continue;
                }
                let pattern = syntax.compile(&text, false);
                let pattern = pattern.unwrap_or_else(|why| panic!("{name} {text}: {why}"));
                let expected = String::from_utf8(output.stdout).unwrap();
                let expected: Vec<&str> = expected.lines().collect();
                let found: Vec<&String> =
                    names.iter().filter(|name| pattern.is_match(name.as_bytes())).collect();
                assert_eq!(found, expected, "{name} {text}");
                compared += usize::from(!found.is_empty());
            }
        }
        assert!(compared > 100, "{compared}");
    }
}
