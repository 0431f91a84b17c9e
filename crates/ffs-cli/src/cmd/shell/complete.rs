//! Completion of commands, options, paths in the image and paths of the host.
//!
//! # Invariants
//! 1. A completed word is quoted with backslashes where that is possible, so that the common part
//!    of two words is the beginning of both.
//! 2. Names with control characters, or not in UTF-8, are offered as `$'...'`.
//! 3. Errors offer nothing: the command itself reports them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use bsdffs::sorted_entries;
use clap::Command;
use ffs_core::FileType;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::fail::show;
use crate::namei::{Last, join};
use crate::parse::line::{last_word, quoted, split as split_line, unquoted};
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::spec::image_path;

/// How many names are offered at most.
const MOST: usize = 1000;

/// Completes the lines of a shell.
pub(super) struct Completion {
    definition: Command,
}

/// A word that is offered.
#[derive(Debug, PartialEq, Eq)]
struct Offer {
    /// The part of the word in front of the last name.
    before: Vec<u8>,
    name: Vec<u8>,
    /// More words or names may follow in the same word.
    open: bool,
}

impl Completion {
    /// With the commands of `definition`.
    pub(super) fn new(mut definition: Command) -> Completion {
        definition.build();
        Completion { definition }
    }

    /// The words that may take the place of `word` after `done`.
    fn offers(&self, done: &[OsString], word: &[u8]) -> Vec<Offer> {
        let mut command = &self.definition;
        let mut operands = 0;
        for word in done {
            match command.find_subcommand(word) {
                Some(found) => command = found,
                None if word.as_bytes().starts_with(b"-") => {}
                None => operands += 1,
            }
        }
        if word.starts_with(b"-") {
            return options(command, word);
        }
        if command.has_subcommands() && operands == 0 {
            return commands(command, word);
        }
        let (image, host) = match done.first().and_then(|word| word.to_str()) {
            Some("help") => return commands(&self.definition, word),
            Some("lcd") => return host_names(word, true),
            Some("get" | "dump" | "copy-out") => (true, operands > 0),
            Some("put" | "write" | "copy-in") => (operands > 0, true),
            _ => (true, false),
        };
        let mut all = if image { image_names(word) } else { Vec::new() };
        if host {
            all.append(&mut host_names(word, false));
        }
        all
    }
}

/// The subcommands of `command` that begin with `word`.
fn commands(command: &Command, word: &[u8]) -> Vec<Offer> {
    let names = command.get_subcommands().flat_map(|sub| {
        std::iter::once(sub.get_name()).chain(sub.get_visible_aliases()).map(str::to_owned)
    });
    let mut names: Vec<String> = names.filter(|name| name.as_bytes().starts_with(word)).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| whole(name.into_bytes())).collect()
}

/// The options of `command` that begin with `word`.
fn options(command: &Command, word: &[u8]) -> Vec<Offer> {
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let names = visible.flat_map(|arg| {
        let long = arg.get_long().map(|name| format!("--{name}"));
        long.into_iter().chain(arg.get_short().map(|letter| format!("-{letter}")))
    });
    let begins = |name: &String| name.as_bytes().starts_with(word);
    names.filter(begins).map(|name| whole(name.into_bytes())).collect()
}

fn whole(name: Vec<u8>) -> Offer {
    Offer { before: Vec::new(), name, open: false }
}

/// The directory and the beginning of the name in `word`.
fn split(word: &[u8]) -> (&[u8], &[u8]) {
    word.split_at(word.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}

/// Whether a name is offered after `start`: hidden ones only if the dot is there.
fn fits(name: &[u8], start: &[u8]) -> bool {
    let hidden = name.starts_with(b".") && !start.starts_with(b".");
    name.starts_with(start) && !hidden
}

/// Names in the image.
fn image_names(word: &[u8]) -> Vec<Offer> {
    let (before, start) = split(word);
    let Ok(place) = image_path(OsStr::from_bytes(before)) else { return Vec::new() };
    let Ok((session, place)) = Session::read_at(&place, AtEnd::Root) else { return Vec::new() };
    let Ok(dir) = session.find(&place.path, Last::Follow) else { return Vec::new() };
    let (entries, _) = sorted_entries(&session.ffs, &dir);
    let offered = entries.into_iter().filter(|(name, _)| fits(name, start)).take(MOST);
    let is_dir = |name: &[u8]| {
        let file = session.find(&join(&place.path, name), Last::Follow);
        file.is_ok_and(|file| session.ffs.getattr(&file).kind == FileType::Directory)
    };
    offered.map(|(name, _)| offer(before, is_dir(&name), name)).collect()
}

/// Names on the host; of directories only, if that is all that fits.
fn host_names(word: &[u8], only_directories: bool) -> Vec<Offer> {
    let (before, start) = split(word);
    let dir = if before.is_empty() { b"." } else { before };
    let dir = Path::new(OsStr::from_bytes(dir));
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name().into_vec());
    let mut names: Vec<_> = names.filter(|name| fits(name, start)).take(MOST).collect();
    names.sort_unstable();
    let offers = names.into_iter().map(|name| {
        let is_dir = dir.join(OsStr::from_bytes(&name)).is_dir();
        offer(before, is_dir, name)
    });
    offers.filter(|offer| offer.open || !only_directories).collect()
}

fn offer(before: &[u8], is_dir: bool, mut name: Vec<u8>) -> Offer {
    if is_dir {
        name.push(b'/');
    }
    Offer { before: before.to_vec(), name, open: is_dir }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let text = line.get(..pos).unwrap_or(line);
        let start = last_word(text);
        let (done, last) = text.split_at(start);
        let host = done.trim_start().trim_start_matches('-').trim_start().starts_with('!');
        // A minus in front of a command is not part of its name.
        let minus = done.trim().is_empty() && last.starts_with('-');
        let (start, last) = if minus { (start + 1, &last[1..]) } else { (start, last) };
        let done = done.trim_start().trim_start_matches('-');
        let words = split_line(done.as_bytes());
        let (Some(words), Some(word)) = (words, unquoted(last)) else {
            return Ok((pos, Vec::new()));
        };
        let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
        let offers = if host { host_names(&word, false) } else { self.offers(&words, &word) };
        let single = offers.len() == 1;
        let pair = |offer: Offer| {
            let display = show(&offer.name);
            let mut replacement = quoted(&[offer.before, offer.name].concat());
            if single && !offer.open {
                replacement.push(' ');
            }
            Pair { display, replacement }
        };
        Ok((start, offers.into_iter().map(pair).collect()))
    }
}

impl Hinter for Completion {
    type Hint = String;
}
impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn commands_and_options_are_offered() {
        let completion = Completion::new(super::super::commands::definition());
        let names = |done: &[&str], word: &str| {
            let done: Vec<OsString> = done.iter().map(Into::into).collect();
            let offers = completion.offers(&done, word.as_bytes());
            offers
                .into_iter()
                .map(|offer| String::from_utf8(offer.name).unwrap())
                .collect::<Vec<_>>()
        };
        let no: Vec<String> = Vec::new();
        assert_eq!(names(&[], "chf"), ["chflags".to_owned()]);
        assert_eq!(names(&["help"], "chf"), ["chflags".to_owned()]);
        assert_eq!(names(&["debug"], "ino"), ["inode".to_owned()]);
        assert_eq!(names(&["ls"], "--js"), ["--json".to_owned()]);
        assert_eq!(names(&["ls"], "x"), no);
        assert!(names(&[], "").contains(&"exit".to_owned()));
    }
}
