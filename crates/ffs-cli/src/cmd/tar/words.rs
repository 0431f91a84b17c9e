//! The words of `ffs tar` that are no options: the action with letters in the old style of tar(1),
//! the archive if the letters have `f`, and the image.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::fail::{Failure, show};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Write an archive.
    Create,
    /// Extract one.
    Extract,
}

/// The words of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub action: Action,
    pub verbose: bool,
    pub keep: bool,
    /// z, j or J was given.
    pub compressed: bool,
    pub file: Option<PathBuf>,
    pub image: OsString,
    /// Members to extract, or none for all.
    pub members: Vec<OsString>,
}

impl Words {
    /// Parses `words`. With `-c` or `-x` the action is given.
    ///
    /// # Errors
    /// A message about the wrong word.
    pub(super) fn parse(given: Option<Action>, words: &[OsString]) -> Result<Words, Failure> {
        let mut rest = words.iter();
        let (mut verbose, mut keep, mut needs_file, mut compressed) = (false, false, false, false);
        let mut action = given;
        if action.is_none() {
            let word = rest.next().map(|word| word.to_string_lossy()).unwrap_or_default();
            for letter in word.chars() {
                match letter {
                    'c' => action = action.xor(Some(Action::Create)),
                    'x' => action = action.xor(Some(Action::Extract)),
                    'v' => verbose = true,
                    'k' => keep = true,
                    'f' => needs_file = true,
                    'p' => {}
                    'z' | 'j' | 'J' => compressed = true,
                    _ => return Err(unknown(&word)),
                }
            }
            if action.is_none() {
                return Err(unknown(&word));
            }
        }
        let file = if needs_file { rest.next().map(PathBuf::from) } else { None };
        let (Some(action), Some(image)) = (action, rest.next()) else {
            return Err(Failure::usage("no image").hint("write ffs tar c|x [-f FILE] IMAGE:/PATH"));
        };
        let members: Vec<OsString> = rest.cloned().collect();
        if let Some(other) = members.first().filter(|_| action == Action::Create) {
            let other = show(other.as_encoded_bytes());
            return Err(Failure::usage(format!("{other}: only one directory at a time"))
                .hint("the archive is the value of -f"));
        }
        Ok(Words { action, verbose, keep, compressed, file, image: image.clone(), members })
    }
}

fn unknown(word: &str) -> Failure {
    let word = show(word);
    let hint = match word.starts_with('t') {
        true => "tar tf FILE lists any archive",
        false => "write ffs tar c|x [-f FILE] IMAGE:/PATH",
    };
    Failure::usage(format!("{word}: the first word is c (create) or x (extract)")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: Option<Action>, words: &[&str]) -> Result<Words, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Words::parse(given, &words).map_err(|failure| failure.text)
    }

    #[test]
    fn letters_are_those_of_tar() {
        let plain = |action| Words {
            action,
            verbose: false,
            keep: false,
            compressed: false,
            file: None,
            image: "a.img:/".into(),
            members: Vec::new(),
        };
        assert_eq!(parse(None, &["c", "a.img:/"]), Ok(plain(Action::Create)));
        assert_eq!(parse(Some(Action::Extract), &["a.img:/"]), Ok(plain(Action::Extract)));
        let words = parse(None, &["xvpkf", "a.tar", "a.img:/"]).unwrap();
        assert_eq!((words.action, words.verbose, words.keep), (Action::Extract, true, true));
        assert_eq!(words.file, Some(PathBuf::from("a.tar")));
        assert_eq!(words.members, Vec::<OsString>::new());
        assert!(parse(None, &["xzf", "a.tgz", "a.img:/"]).unwrap().compressed);
        let words = parse(None, &["x", "a.img:/", "etc", "bin"]).unwrap();
        assert_eq!(words.members, ["etc", "bin"]);
    }

    #[test]
    fn wrong_words_are_named() {
        for (words, why) in [
            (&["t", "a.tar"][..], "tar tf FILE lists"),
            (&["cx", "a.img"], "the first word"),
            (&["a.img:/"], "the first word"),
            (&["v", "a.img"], "the first word"),
            (&["c"], "no image"),
            (&["cf", "a.tar"], "no image"),
            (&["c", "a.img", "etc"], "etc: only one directory"),
        ] {
            let text = parse(None, words).unwrap_err();
            assert!(text.contains(why), "{words:?}: {text}");
        }
    }
}
