//! Retired words and names: `docs/retired-words.txt` against code, documents, help and messages.
//!
//! A text is read as a list of lower-case words. `SoftUpdates`, `soft_updates` and "soft updates"
//! are the same two words.

use std::collections::{BTreeMap, BTreeSet};

use ffs_testkit::repository;
use proc_macro2::{TokenStream, TokenTree};

use crate::files::{self, Source};
use crate::findings::{self, Findings};

const LIST: &str = "docs/retired-words.txt";

/// The sections of the list.
#[derive(Default)]
struct Retired {
    /// Words that occur nowhere.
    words: BTreeSet<String>,
    /// Words that are no part of an identifier of the code. Prose may have them.
    names: BTreeSet<String>,
    /// Phrases in which a word is not retired, by their first word.
    phrases: BTreeMap<String, Vec<Vec<String>>>,
    /// Paths that may have a word (`*`: every word).
    paths: Vec<(String, String)>,
}

impl Retired {
    fn parse(text: &str) -> Retired {
        let mut retired = Retired::default();
        let mut section = "";
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if line.starts_with('[') {
                section = line;
                continue;
            }
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            let parts = if section == "[paths]" { 3 } else { 2 };
            assert!(fields.len() == parts && !fields[parts - 1].is_empty(), "{LIST}: {line}");
            let listed = || fields[0].split(", ").map(str::to_owned);
            match section {
                "[words]" => retired.words.extend(listed()),
                "[names]" => retired.names.extend(listed()),
                "[phrases]" => {
                    for phrase in listed() {
                        let phrase: Vec<String> = words(&phrase).map(|word| word.text).collect();
                        retired.phrases.entry(phrase[0].clone()).or_default().push(phrase);
                    }
                }
                "[paths]" => {
                    let words = fields[1].split(", ");
                    let paths = words.map(|word| (fields[0].to_owned(), word.to_owned()));
                    retired.paths.extend(paths);
                }
                _ => panic!("{LIST}: no section {section}"),
            }
        }
        retired
    }

    fn is_allowed_at(&self, path: &str, word: &str) -> bool {
        let mut here = self.paths.iter().filter(|(prefix, _)| path.starts_with(prefix.as_str()));
        here.any(|(_, allowed)| allowed == "*" || allowed == word)
    }

    /// The retired words of a text outside of allowed phrases, with their lines.
    fn words_in(&self, text: &str) -> Vec<(usize, String)> {
        let all: Vec<Word> = words(text).collect();
        let mut found = Vec::new();
        // The end of the allowed phrase that covers the current word.
        let mut covered = 0;
        for (at, word) in all.iter().enumerate() {
            for phrase in self.phrases.get(&word.text).into_iter().flatten() {
                let here = all[at..].iter().map(|word| &word.text);
                if all.len() - at >= phrase.len() && here.zip(phrase).all(|(a, b)| a == b) {
                    covered = covered.max(at + phrase.len());
                }
            }
            if at >= covered && self.words.contains(&word.text) {
                found.push((word.line, word.text.clone()));
            }
        }
        found
    }

    /// The retired names in the identifiers of a Rust file, with their lines.
    fn names_in(&self, tokens: TokenStream, found: &mut Vec<(usize, String)>) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.names_in(group.stream(), found),
                TokenTree::Ident(ident) => {
                    let name = ident.to_string();
                    let retired = words(&name).filter(|word| self.names.contains(&word.text));
                    let line = ident.span().start().line;
                    found.extend(retired.map(|word| (line, word.text)));
                }
                _ => {}
            }
        }
    }

    fn found_in(&self, file: &Source) -> Vec<(usize, String)> {
        let mut found = self.words_in(&file.text);
        if file.is_rust() {
            let tokens = file.text.parse().unwrap_or_else(|why| panic!("{}: {why}", file.path));
            self.names_in(tokens, &mut found);
        }
        found.retain(|(_, word)| !self.is_allowed_at(&file.path, word));
        found
    }
}

#[derive(Debug)]
struct Word {
    line: usize,
    text: String,
}

/// The words of a text in lower case. A capital behind a small letter begins a word, and so does
/// the last of several capitals before a small letter.
fn words(text: &str) -> impl Iterator<Item = Word> {
    let mut all = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        // An escape in a string is no letter of a word.
        let text = text.replace("\\n", "  ").replace("\\t", "  ");
        let chars: Vec<char> = text.chars().collect();
        let mut word = String::new();
        for (at, &c) in chars.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| chars[at]);
            let small = chars.get(at + 1).is_some_and(|c| c.is_lowercase());
            let starts = c.is_uppercase()
                && before.is_some_and(|b| b.is_lowercase() || b.is_uppercase() && small);
            if (starts || !c.is_alphabetic()) && !word.is_empty() {
                all.push(Word { line, text: std::mem::take(&mut word) });
            }
            if c.is_alphabetic() {
                word.extend(c.to_lowercase());
            }
        }
        if !word.is_empty() {
            all.push(Word { line, text: word });
        }
    }
    all.into_iter()
}

#[test]
fn no_retired_word_is_used() {
    let retired = Retired::parse(&repository::read(LIST));
    assert!(retired.words.len() > 20 && !retired.names.is_empty());
    let mut findings = Findings::new();
    for file in files::all() {
        for (line, word) in retired.found_in(&file) {
            let area = findings.entry(file.area().to_owned()).or_default();
            area.push(format!("{}:{line}: {word}", file.path));
        }
    }
    findings::check(&[("words", &findings)]);
}

#[test]
fn words_names_phrases_and_paths_are_read_right() {
    let list = "# comment\n[words]\nroom, rooms | crate\ncut | truncate\n[names]\nmet | satisfied\n\
        [phrases]\npower cut | usual\n[paths]\nguide/ | room | quoted\n";
    let retired = Retired::parse(list);
    let found = |path: &str, text: &str| {
        let file = Source { path: path.to_owned(), text: text.to_owned() };
        let found = retired.found_in(&file);
        found.iter().map(|(line, word)| format!("{line} {word}")).collect::<Vec<_>>()
    };
    assert_eq!(found("a.md", "a Room\nPowerCut, cut_off met"), ["1 room", "2 cut"]);
    assert_eq!(found("guide/page", "room rooms"), ["1 rooms"]);
    let code = "// room met\nfn is_met() { print(\"\\nroom met\"); }\n";
    assert_eq!(found("a.rs", code), ["1 room", "2 room", "2 met"]);
    let texts = |text: &str| words(text).map(|word| word.text).collect::<Vec<_>>().join(" ");
    assert_eq!(
        texts("SoftUpdates soft_updates IOError FFS2x room's"),
        "soft updates soft updates io error ffs x room s"
    );
}
