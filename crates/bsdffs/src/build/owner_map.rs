//! Maps of owners, in the form of GNU tar's `--owner-map` and `--group-map`.

use std::collections::BTreeMap;
use std::fmt;

/// Other ids for those of a tree, one by one. Ids without an entry stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap(BTreeMap<u32, u32>);

/// A line of a map that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    why: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for BadLine {}

impl IdMap {
    /// Reads a map. Each line is `OLD NEW`; OLD is a name or `+ID`, NEW is a name, `NAME:ID` or
    /// `+ID`. Empty lines and lines that begin with `#` have no meaning. `id_of` returns the id of
    /// a name.
    ///
    /// # Errors
    /// A line has another form, has a name that `id_of` does not find, or maps an id a second time.
    pub fn parse(text: &str, id_of: impl Fn(&str) -> Option<u32>) -> Result<IdMap, BadLine> {
        let mut map = BTreeMap::new();
        for (line, text) in (1..).zip(text.lines()) {
            let bad = |why: String| BadLine { line, why };
            let mut words = text.split_whitespace();
            let (old, new) = match (words.next(), words.next(), words.next()) {
                (None, ..) => continue,
                (Some(word), ..) if word.starts_with('#') => continue,
                (Some(old), Some(new), None) => (old, new),
                _ => return Err(bad(format!("{text:?} is not of the form OLD NEW"))),
            };
            let id = |word: &str| match word.strip_prefix('+') {
                Some(digits) => {
                    digits.parse().map_err(|_| bad(format!("{word} is not + and an id")))
                }
                None => id_of(word)
                    .ok_or_else(|| bad(format!("{word} is not known here; write +ID, or NAME:ID"))),
            };
            let number = |digits: &str| {
                digits.parse().map_err(|_| bad(format!("{new} does not end in an id")))
            };
            let to = new.split_once(':').map_or_else(|| id(new), |(_, digits)| number(digits))?;
            if map.insert(id(old)?, to).is_some() {
                return Err(bad(format!("{old} has a line before this one")));
            }
        }
        Ok(IdMap(map))
    }

    /// The new id for `id`.
    pub(super) fn get(&self, id: u32) -> u32 {
        self.0.get(&id).copied().unwrap_or(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<IdMap, BadLine> {
        IdMap::parse(text, |name| (name == "root").then_some(0))
    }

    #[test]
    fn lines_are_those_of_gnu_tar() {
        let text = "# builders\n\n  +1000 root\nroot\tadmin:7\n+1001 +12\n+1002 www:80 \n";
        let map = parse(text).expect("a valid map");
        let ids = [1000, 0, 1001, 1002, 5].map(|id| map.get(id));
        assert_eq!(ids, [0, 7, 12, 80, 5]);
    }

    #[test]
    fn other_lines_are_named() {
        for (text, line, why) in [
            ("+1 +2\n+3", 2, "OLD NEW"),
            ("+1 +2 +3", 1, "OLD NEW"),
            ("+1 no-such-user", 1, "no-such-user is not known"),
            ("+x +1", 1, "+x is not + and an id"),
            ("+1 root:x", 1, "does not end in an id"),
            ("+1 +4294967296", 1, "not + and an id"),
            ("+1 +2\n+1 +3", 2, "a line before this one"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.line == line && error.to_string().contains(why), "{error}");
        }
    }
}
