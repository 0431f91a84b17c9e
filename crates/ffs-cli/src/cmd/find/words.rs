//! The words of an expression of `ffs find` as such: which of them take a value.

use std::ffi::OsString;

use crate::parse::find::Which;

pub(super) const PLAIN: &[&str] = &[
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-quit",
    "-delete",
    "-empty",
    "-nouser",
    "-nogroup",
    "-true",
    "-false",
    "-depth",
    "-xdev",
    "-mount",
    "-warn",
    "-nowarn",
    "-daystart",
    "-noleaf",
    "-ignore_readdir_race",
    "-noignore_readdir_race",
];
pub(super) const VALUED: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-type",
    "-xtype",
    "-size",
    "-links",
    "-inum",
    "-uid",
    "-gid",
    "-user",
    "-group",
    "-perm",
    "-flags",
    "-newer",
    "-anewer",
    "-cnewer",
    "-mnewer",
    "-Bnewer",
    "-samefile",
    "-regex",
    "-iregex",
    "-regextype",
    "-lname",
    "-ilname",
    "-maxdepth",
    "-mindepth",
    "-mtime",
    "-atime",
    "-ctime",
    "-Btime",
    "-mmin",
    "-amin",
    "-cmin",
    "-Bmin",
    "-printf",
];
/// Words that are neither tests nor actions. They hold for the whole search, wherever they are.
const OPTIONS: &[&str] = &[
    "-depth",
    "-d",
    "-maxdepth",
    "-mindepth",
    "-xdev",
    "-mount",
    "-warn",
    "-nowarn",
    "-regextype",
    "-daystart",
    "-noleaf",
    "-ignore_readdir_race",
    "-noignore_readdir_race",
];
const OPERATORS: &[&str] = &["(", ")", "!", "-not", "-a", "-and", "-o", "-or", ","];
const ACTIONS: &[&str] = &["-print", "-print0", "-printf", "-ls", "-prune", "-quit", "-delete"];
/// Words that are true for each file, so that they limit nothing behind them.
const ALWAYS: &[&str] = &["-true", "-print", "-print0", "-printf", "-ls", "-prune"];

pub(super) fn takes_value(word: &str) -> bool {
    VALUED.contains(&word) || newer(word).is_some()
}

/// The times that -newerXY compares: X of the file, and Y of the other one, or none for `t`.
pub(super) fn newer(word: &str) -> Option<(Which, Option<Which>)> {
    let which = |letter| {
        Some(match letter {
            b'a' => Which::Access,
            b'B' => Which::Birth,
            b'c' => Which::Change,
            b'm' => Which::Modification,
            _ => return None,
        })
    };
    match word {
        "-newer" | "-mnewer" => Some((Which::Modification, Some(Which::Modification))),
        "-anewer" => Some((Which::Access, Some(Which::Modification))),
        "-cnewer" => Some((Which::Change, Some(Which::Modification))),
        "-Bnewer" => Some((Which::Birth, Some(Which::Modification))),
        _ => match word.strip_prefix("-newer")?.as_bytes() {
            [x, b't'] => Some((which(*x)?, None)),
            [x, y] => Some((which(*x)?, Some(which(*y)?))),
            _ => None,
        },
    }
}

/// The words that are not values.
fn names(words: &[OsString]) -> impl Iterator<Item = &str> {
    let mut words = words.iter().map(|word| word.to_str().unwrap_or_default());
    std::iter::from_fn(move || {
        let word = words.next()?;
        if takes_value(word) {
            words.next();
        }
        Some(word)
    })
}

/// Whether `name` is in the expression, and not as a value.
pub(super) fn has(words: &[OsString], name: &str) -> bool {
    names(words).any(|word| word == name)
}

/// Whether no test is before -delete and one behind it, which then limits nothing; -nowarn turns
/// the warning off.
pub(super) fn deletes_before_tests(words: &[OsString]) -> bool {
    let of = |lists: &[&[&str]], word: &str| lists.iter().any(|list| list.contains(&word));
    let mut primaries = names(words).filter(|word| !of(&[OPTIONS, OPERATORS, ALWAYS], word));
    let first = primaries.next() == Some("-delete");
    let tests = primaries.any(|word| word.starts_with('-') && !of(&[ACTIONS], word));
    first && tests && !has(words, "-nowarn")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Vec<OsString> {
        words.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_value_is_no_action() {
        let deletes = |words| has(&of(words), "-delete");
        assert!(deletes("-delete") && deletes("-name -name -delete"));
        assert!(!deletes("-name -delete") && !deletes("-newerat -delete -print"));
        assert!(!deletes("-printf -delete"));
    }

    #[test]
    fn a_delete_before_its_tests_is_noticed() {
        for words in [
            "-delete -name x",
            "-depth -maxdepth 3 ( -delete -o -type f )",
            "! -delete -print -empty",
            "-true -delete -name x",
            "-print -true , -delete , -size +1",
        ] {
            assert!(deletes_before_tests(&of(words)), "{words}");
        }
        for words in [
            "-delete",
            "-delete -print",
            "-delete -maxdepth 2",
            "-delete -true",
            "-print -daystart -mtime 0 -delete -type f",
            "-depth 2 -delete",
            "-name x -delete -type f",
            "-nowarn -delete -name x",
            "-name -delete -type f",
        ] {
            assert!(!deletes_before_tests(&of(words)), "{words}");
        }
    }
}
