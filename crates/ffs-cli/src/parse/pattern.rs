//! Patterns of `--exclude`, as rsync(1) has them.
//!
//! # Rules
//! 1. `/` in front ties the pattern to the top of the source; `/` at the end is for directories.
//! 2. A pattern with another `/`, or with `**`, is matched against the end of the path, from the
//!    beginning of a name on; any other one against the name alone.
//! 3. `*`, `?` and `[...]` do not match `/`, `**` does. `**/` in front also matches nothing, and
//!    `/***` at the end also the directory itself.
//! 4. A backslash escapes only in a pattern with `*`, `?` or `[`.
//!
//! What rsync accepts and what matches no file is an error: `/`, `//a`, `[` without its end.
//!
//! # Invariants
//! A match takes time in proportion to the product of the two lengths: no name makes it slow.

/// A pattern of names to leave out.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    tokens: Vec<Token>,
    name_only: bool,
    at_top: bool,
    directories: bool,
    /// `**` is in front: a `/` before the path may be matched.
    deep_in_front: bool,
    /// `***` is at the end: a `/` behind the path of a directory may be matched.
    deep_at_end: bool,
}

#[derive(Clone, Debug)]
enum Token {
    /// This byte.
    Byte(u8),
    /// `?`: a byte other than `/`.
    AnyByte,
    /// `[...]`: a byte other than `/` that is in a range, or in none.
    Class { ranges: Vec<(u8, u8)>, negated: bool },
    /// `*`: any bytes other than `/`.
    Star,
    /// `**`: any bytes.
    Deep,
    /// Any number of whole names, in front of the others.
    Names,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn parse(text: &str) -> Result<Pattern, String> {
        let wrong = || format!("{text:?} is not a pattern such as '*.o', '/build' or 'obj/'");
        let (rest, directories) = match text.strip_suffix('/') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (rest, at_top) = match rest.strip_prefix('/') {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        if rest.is_empty() || rest.starts_with('/') {
            return Err(wrong());
        }
        let deep_in_front = !at_top && rest.starts_with("**");
        let name_only = !at_top && !rest.contains('/') && !rest.contains("**");
        let mut tokens = match rest.contains(['*', '?', '[']) {
            true => tokens(rest.as_bytes()).ok_or_else(wrong)?,
            false => rest.bytes().map(Token::Byte).collect(),
        };
        if !at_top && !name_only && !deep_in_front {
            tokens.insert(0, Token::Names);
        }
        let deep_at_end = rest.ends_with("***");
        Ok(Pattern { tokens, name_only, at_top, directories, deep_in_front, deep_at_end })
    }

    /// Whether the pattern matches `path`, relative to the top of the source, which has none.
    fn matches(&self, path: &[u8], directory: bool) -> bool {
        if path.is_empty() {
            return false;
        }
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let slash = |is: bool| if is { &b"/"[..] } else { b"" };
        let whole;
        let text = match (self.deep_in_front, self.deep_at_end && directory) {
            _ if self.name_only => name,
            (false, false) => path,
            (front, end) => {
                whole = [slash(front), path, slash(end)].concat();
                &whole
            }
        };
        // Whether the tokens so far match the first bytes of the text, by their number.
        let mut reached = vec![false; text.len() + 1];
        reached[0] = true;
        for token in &self.tokens {
            token.step(text, &mut reached);
        }
        reached.last() == Some(&true)
    }
}

impl Token {
    /// Moves on from each prefix of `text` that is `reached` by what the token matches after it.
    fn step(&self, text: &[u8], reached: &mut [bool]) {
        let mut before = reached[0];
        let mut any = before;
        reached[0] &= matches!(self, Token::Star | Token::Deep | Token::Names);
        let mut last = reached[0];
        for (place, &byte) in reached[1..].iter_mut().zip(text) {
            let here = *place;
            *place = match self {
                Token::Byte(own) => before && byte == *own,
                Token::AnyByte => before && byte != b'/',
                Token::Class { ranges, negated } => {
                    let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&byte));
                    before && byte != b'/' && inside != *negated
                }
                Token::Star => here || (last && byte != b'/'),
                Token::Deep => here || last,
                Token::Names => here || (any && byte == b'/'),
            };
            (before, last, any) = (here, *place, any || here);
        }
    }
}

/// The tokens of a pattern; `None` if it ends within brackets or after a backslash.
fn tokens(mut rest: &[u8]) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        tokens.push(match byte {
            b'?' => Token::AnyByte,
            b'[' => {
                let (class, after) = class(rest)?;
                rest = after;
                class
            }
            b'\\' => {
                let (&escaped, after) = rest.split_first()?;
                rest = after;
                Token::Byte(escaped)
            }
            b'*' => {
                let stars = rest.iter().take_while(|&&byte| byte == b'*').count();
                rest = &rest[stars..];
                if stars == 0 { Token::Star } else { Token::Deep }
            }
            byte => Token::Byte(byte),
        });
    }
    Some(tokens)
}

/// The class that begins after `[`, and the rest after it. `]` in front is a member.
fn class(mut rest: &[u8]) -> Option<(Token, &[u8])> {
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    rest = &rest[usize::from(negated)..];
    let mut ranges = Vec::new();
    loop {
        let (low, after) = member(rest)?;
        if low == Member::End && !ranges.is_empty() {
            return Some((Token::Class { ranges, negated }, after));
        }
        rest = after;
        if let (Member::Byte(b'['), Some(b':')) = (low, rest.first()) {
            let end = rest.windows(2).position(|two| two == b":]");
            let named = end.filter(|&end| end > 0).map(|end| &rest[1..end]);
            if let Some(name) = named.filter(|name| name.iter().all(u8::is_ascii_alphabetic)) {
                ranges.extend(class_of(name)?);
                rest = &rest[name.len() + 3..];
                continue;
            }
        }
        let high = match rest {
            [b'-', end, ..] if *end != b']' => {
                let (high, after) = member(&rest[1..])?;
                rest = after;
                high
            }
            _ => low,
        };
        ranges.push((low.byte(), high.byte()));
    }
}

/// The ranges of a class of ASCII such as `alpha`; `None` if there is no such class.
fn class_of(name: &[u8]) -> Option<Vec<(u8, u8)>> {
    let is: fn(&u8) -> bool = match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| (b' '..=b'~').contains(byte),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | 9..=13),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    };
    Some((0..128).filter(is).map(|byte| (byte, byte)).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    End,
    Byte(u8),
}

impl Member {
    fn byte(self) -> u8 {
        match self {
            Member::End => b']',
            Member::Byte(byte) => byte,
        }
    }
}

/// The first member of a class, and the rest after it.
fn member(rest: &[u8]) -> Option<(Member, &[u8])> {
    match rest {
        [b'\\', byte, rest @ ..] => Some((Member::Byte(*byte), rest)),
        [b'\\'] | [] => None,
        [b']', rest @ ..] => Some((Member::End, rest)),
        [byte, rest @ ..] => Some((Member::Byte(*byte), rest)),
    }
}

/// Whether a pattern for files of all types matches `path`.
pub(crate) fn excludes(patterns: &[Pattern], path: &[u8]) -> bool {
    patterns.iter().any(|pattern| !pattern.directories && pattern.matches(path, false))
}

/// Whether a pattern for directories matches `path`, which is one.
pub(crate) fn excludes_directory(patterns: &[Pattern], path: &[u8]) -> bool {
    let wanted = |pattern: &Pattern| pattern.directories || pattern.deep_at_end;
    patterns.iter().any(|pattern| wanted(pattern) && pattern.matches(path, true))
}

/// Whether the top of a source is left out by its `name`. A pattern with `/` in front is for what
/// is below.
pub(crate) fn excludes_top(patterns: &[Pattern], name: &[u8], directory: bool) -> bool {
    let wanted = |pattern: &Pattern| !pattern.at_top && (directory || !pattern.directories);
    patterns.iter().any(|pattern| wanted(pattern) && pattern.matches(name, directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_rsync() {
        for (pattern, matched, others) in [
            ("*.o", &["a.o", "d/a.o"][..], &["a.o/b", "a.c"][..]),
            ("/a", &["a"], &["d/a", "a/b"]),
            ("/a/*.c", &["a/x.c"], &["a/b/x.c", "d/a/x.c"]),
            ("a/b", &["a/b", "d/a/b"], &["xa/b", "a/b/c"]),
            ("/**/b", &["a/b", "a/c/b"], &["b", "a/bc"]),
            ("a/**", &["a/b", "a/b/c", "d/a/b"], &["a", "xa/b"]),
            ("a{b}", &["a{b}"], &["ab"]),
            ("a?c", &["abc"], &["a/c"]),
            ("[ab]c", &["ac", "d/bc"], &["cc"]),
            ("[!a-c]x", &["dx", "d/-x"], &["bx", "/x"]),
            ("[]-]x", &["]x", "-x"], &["ax"]),
            (r"[\]]\*", &["]*"], &["]x", r"\*"]),
            ("a**b", &["ab", "a/b", "ax/y/zb", "d/a/b"], &["xa/b", "a/bc"]),
            ("/a**b", &["ab", "a/x/b"], &["d/ab"]),
            ("a/x**.o", &["a/x.o", "a/x/y.o", "d/a/xy/z.o"], &["a/y/x.o"]),
            ("**/b", &["b", "a/b", "a/c/b"], &["ab", "a/cb"]),
            ("a/**/b", &["a/c/d/b", "d/a/c/b"], &["a/b", "a/cb", "ab"]),
            ("**", &["a", "a/b"], &[""]),
            ("***/b", &["b", "a/b"], &["ab"]),
            ("/***", &["a", "a/b"], &[""]),
            ("a**/***", &["a/b", "xa/a/b"], &["a", "b/a"]),
            (r"a\b", &[r"a\b"], &["ab"]),
            (r"a\*", &["a*"], &[r"a\b"]),
            ("a\\", &["a\\"], &["a"]),
            ("[[:alpha:]_]x", &["ax", "_x"], &["1x", ":x", "[x"]),
            ("[[:x]", &[":", "[", "x"], &["[:x]"]),
            ("[^[:digit:]-]", &["a", "]"], &["5", "-"]),
        ] {
            let patterns = [Pattern::parse(pattern).unwrap()];
            for path in matched {
                assert!(excludes(&patterns, path.as_bytes()), "{pattern} matches {path}");
            }
            for path in others {
                assert!(!excludes(&patterns, path.as_bytes()), "{pattern} does not match {path}");
            }
        }
    }

    /// A matcher that tries all possibilities would need 2^60 steps.
    #[test]
    fn no_name_makes_a_match_slow() {
        let patterns = [Pattern::parse(&"*a".repeat(60)).unwrap()];
        let start = std::time::Instant::now();
        let mut name = vec![b'a'; 1000];
        name.push(b'b');
        for _ in 0..100 {
            assert!(!excludes(&patterns, &name));
        }
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }

    #[test]
    fn a_slash_at_the_end_is_for_directories() {
        for pattern in ["obj/", "obj/***"] {
            let patterns = [Pattern::parse(pattern).unwrap()];
            assert!(!excludes(&patterns, b"a/obj") && excludes_directory(&patterns, b"a/obj"));
            assert!(
                excludes_top(&patterns, b"obj", true) && !excludes_top(&patterns, b"obj", false)
            );
        }
        let inside = [Pattern::parse("obj/***").unwrap(), Pattern::parse("lib*/***").unwrap()];
        assert!(excludes(&inside, b"obj/a") && excludes_directory(&inside, b"x/lib64"));
        let at_top = [Pattern::parse("/obj").unwrap()];
        assert!(!excludes_top(&at_top, b"obj", true) && excludes(&at_top, b"obj"));
        for wrong in ["", "/", "//", "//a", "a[", "a[]", "*\\", "[a-", "[[:no:]]"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
