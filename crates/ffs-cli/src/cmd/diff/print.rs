//! Printing the differences of two trees, as lines or as JSON.

use std::io::{BufWriter, StdoutLock, Write};

use bsdffs::copy::EntryKind;
use bsdffs::diff::{DiffObserver, Difference, Side, kind_name};
use serde::Serialize;

use crate::fail::{Failure, show};
use crate::output::{self, JsonName};
use crate::parse::pattern::{self, Pattern};
use crate::progress::Progress;
use crate::signals;

/// Prints each difference as it is found.
pub(super) struct Print<'a> {
    pub json: bool,
    pub brief: bool,
    pub exclude: &'a [Pattern],
    /// The names of the tops.
    pub names: [String; 2],
    pub out: BufWriter<StdoutLock<'static>>,
    pub progress: Progress,
    /// Why nothing more can be printed.
    pub error: Option<Failure>,
}

#[derive(Serialize)]
struct JsonFile<'a> {
    path: JsonName,
    #[serde(skip_serializing_if = "Option::is_none")]
    only_in: Option<&'static str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<JsonDifference<'a>>,
}

#[derive(Serialize)]
struct JsonDifference<'a> {
    attribute: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<&'a str>,
}

impl Print<'_> {
    /// Writes what is still in memory.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        match self.error {
            Some(failure) => Err(failure),
            None => Ok(self.out.flush()?),
        }
    }

    fn keep<E: Into<Failure>>(&mut self, result: Result<(), E>) {
        if let Err(error) = result {
            self.error.get_or_insert(error.into());
        }
    }

    fn json(&mut self, file: &JsonFile<'_>) {
        let done = output::json_line(&mut self.out, file);
        self.keep(done);
    }

    fn line(&mut self, text: &str) {
        let done = writeln!(self.out, "{text}");
        self.keep(done);
    }
}

/// A path in messages; `.` is the top.
fn shown(path: &[u8]) -> String {
    if path.is_empty() { ".".to_owned() } else { show(path) }
}

impl DiffObserver for Print<'_> {
    fn is_excluded(&mut self, path: &[u8], kind: &EntryKind) -> bool {
        if self.exclude.is_empty() {
            return false;
        }
        let is_directory = matches!(kind, EntryKind::Directory);
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let above = ends.map(|at| (&path[..at], true));
        above.chain([(path, is_directory)]).any(|(path, is_directory)| {
            pattern::excludes(self.exclude, path)
                || (is_directory && pattern::excludes_directory(self.exclude, path))
        })
    }

    fn only(&mut self, side: Side, path: &[u8], kind: &EntryKind) {
        let (only_in, name) = match side {
            Side::Old => ("old", &self.names[0]),
            Side::New => ("new", &self.names[1]),
        };
        if self.json {
            let (path, kind) = (JsonName::new(path), Some(kind_name(kind)));
            let only_in = Some(only_in);
            return self.json(&JsonFile { path, only_in, kind, differences: Vec::new() });
        }
        let at = path.iter().rposition(|&byte| byte == b'/');
        let (dir, last) = at.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        let slash = if dir.is_empty() || name.ends_with('/') { "" } else { "/" };
        let text = format!("Only in {name}{slash}{}: {}", show(dir), shown(last));
        self.line(&text);
    }

    fn differs(&mut self, path: &[u8], differences: &[Difference]) {
        if self.json {
            let value = |found: &Difference, value| Some(value).filter(|_| found.offset.is_none());
            let all = differences.iter().map(|found| JsonDifference {
                attribute: found.attribute.name(),
                part: found.part.as_deref(),
                offset: found.offset,
                old: value(found, found.old.as_str()),
                new: value(found, found.new.as_str()),
            });
            let differences = if self.brief { Vec::new() } else { all.collect() };
            let path = JsonName::new(path);
            return self.json(&JsonFile { path, only_in: None, kind: None, differences });
        }
        let path = shown(path);
        if self.brief {
            return self.line(&format!("{path} differs"));
        }
        for found in differences {
            let attribute = found.attribute.name();
            let part = found.part.as_ref().map(|part| format!(" {part}")).unwrap_or_default();
            let text = match found.offset {
                Some(at) => format!("{path}: {attribute} differs at byte {at}"),
                None => format!("{path}: {attribute}{part} {} -> {}", found.old, found.new),
            };
            self.line(&text);
        }
    }

    fn failed(&mut self, name: &str, why: &str) {
        output::error(format!("{name}: {why}"));
    }

    fn progress(&mut self, bytes: u64) {
        self.progress.add(bytes);
    }

    fn is_cancelled(&self) -> bool {
        signals::interrupted() || self.error.is_some()
    }
}
