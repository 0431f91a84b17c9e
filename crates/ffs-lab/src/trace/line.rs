//! The members of a line of our own format.
//!
//! # Invariants
//! A line has exactly the members of its call: a line that is read and written again is the same
//! object, or it is refused.

use serde::{Deserialize, Serialize};

use super::path::{TracePath, from_text, to_text};
use super::tree::TreeSum;
use super::{Call, HOW, Have, MOST_IO, MOST_SIZE, Op};

/// A line. Which members it has depends on its first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Line {
    #[serde(rename = "ffs-trace", skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) complete: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) have: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<TreeSum>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) t: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) d: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) how: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) len: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seconds: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

type Parsed<T> = Result<T, String>;

fn path_text(path: &TracePath) -> Option<String> {
    Some(to_text(path.bytes()))
}

impl Line {
    /// The line of a given file or directory.
    pub(super) fn of_have(have: &Have) -> Line {
        let (kind, path) = match have {
            Have::Dir(path) => ("dir", path),
            Have::File(path, _) => ("file", path),
            Have::Link(path, _) => ("link", path),
        };
        let mut line = Line { have: Some(kind.to_owned()), ..Line::default() };
        line.path = path_text(path);
        match have {
            Have::Dir(_) => {}
            Have::File(_, size) => line.size = Some(*size),
            Have::Link(_, text) => line.text = Some(to_text(text)),
        }
        line
    }

    /// The line of a call.
    pub(super) fn of_call(call: &Call) -> Line {
        let mut line = Line { t: Some(call.at), pid: Some(call.pid), ..Line::default() };
        line.d = (call.took > 0).then_some(call.took);
        line.error.clone_from(&call.error);
        line.call = Some(word(&call.op).to_owned());
        match &call.op {
            Op::Stat(path)
            | Op::Mkdir(path)
            | Op::Rmdir(path)
            | Op::Unlink(path)
            | Op::Readlink(path)
            | Op::List(path) => line.path = path_text(path),
            Op::Open { path, file, how } => {
                (line.path, line.file) = (path_text(path), Some(*file));
                let word = HOW.iter().find(|(_, known)| known == how);
                line.how = word.map(|(word, _)| (*word).to_owned());
            }
            Op::Close(file) | Op::Fsync(file) => line.file = Some(*file),
            Op::Read { file, offset, len } | Op::Write { file, offset, len } => {
                (line.file, line.offset, line.len) = (Some(*file), Some(*offset), Some(*len));
            }
            Op::Ftruncate { file, size } => (line.file, line.size) = (Some(*file), Some(*size)),
            Op::Truncate { path, size } => (line.path, line.size) = (path_text(path), Some(*size)),
            Op::Rename { path, to } | Op::Link { path, to } => {
                (line.path, line.to) = (path_text(path), path_text(to));
            }
            Op::Symlink { path, text } => {
                (line.path, line.text) = (path_text(path), Some(to_text(text)));
            }
            Op::Chmod { path, mode } => (line.path, line.mode) = (path_text(path), Some(*mode)),
            Op::Times { path, seconds } => {
                (line.path, line.seconds) = (path_text(path), Some(*seconds));
            }
            Op::Sync => {}
            Op::Other(name) => line.name = Some(name.clone()),
        }
        line
    }

    /// The given file or directory of the line.
    pub(super) fn to_have(&self) -> Parsed<Have> {
        let path = self.path("path")?;
        let have = match self.have.as_deref() {
            Some("dir") => Have::Dir(path),
            Some("file") => Have::File(path, self.size()?),
            Some("link") => Have::Link(path, from_text(self.text("text", &self.text)?)?),
            other => {
                let found = other.unwrap_or_default();
                return Err(format!("have '{found}': expected dir, file or link"));
            }
        };
        self.is_all(&Line::of_have(&have))?;
        Ok(have)
    }

    /// The call of the line, which is line `number` of its file.
    pub(super) fn to_call(&self, number: usize) -> Parsed<Call> {
        let op = self.op()?;
        let at = self.t.ok_or("the member t is missing; expected nanoseconds")?;
        let pid = self.pid.ok_or("the member pid is missing; expected a process")?;
        let (took, error) = (self.d.unwrap_or(0), self.error.clone());
        let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
        if error.as_ref().is_some_and(|name| !name.starts_with('E') || !name.chars().all(is_name)) {
            return Err(format!(
                "error '{}': expected a name such as ENOENT",
                error.unwrap_or_default()
            ));
        }
        let call = Call { line: number, at, took, pid, op, error };
        self.is_all(&Line::of_call(&call))?;
        Ok(call)
    }

    fn op(&self) -> Parsed<Op> {
        Ok(match self.call.as_deref().unwrap_or_default() {
            "stat" => Op::Stat(self.path("path")?),
            "open" => {
                let word = self.text("how", &self.how)?;
                let how = HOW.iter().find(|(known, _)| *known == word).map(|(_, how)| *how);
                let words = HOW.map(|(word, _)| word).join(", ");
                let how = how.ok_or_else(|| format!("how '{word}': expected one of {words}"))?;
                Op::Open { path: self.path("path")?, file: self.file()?, how }
            }
            "close" => Op::Close(self.file()?),
            "read" => Op::Read { file: self.file()?, offset: self.offset()?, len: self.len()? },
            "write" => Op::Write { file: self.file()?, offset: self.offset()?, len: self.len()? },
            "fsync" => Op::Fsync(self.file()?),
            "ftruncate" => Op::Ftruncate { file: self.file()?, size: self.size()? },
            "truncate" => Op::Truncate { path: self.path("path")?, size: self.size()? },
            "mkdir" => Op::Mkdir(self.path("path")?),
            "rmdir" => Op::Rmdir(self.path("path")?),
            "unlink" => Op::Unlink(self.path("path")?),
            "rename" => Op::Rename { path: self.path("path")?, to: self.path("to")? },
            "link" => Op::Link { path: self.path("path")?, to: self.path("to")? },
            "symlink" => {
                let text = from_text(self.text("text", &self.text)?)?;
                Op::Symlink { path: self.path("path")?, text }
            }
            "readlink" => Op::Readlink(self.path("path")?),
            "list" => Op::List(self.path("path")?),
            "chmod" => {
                let mode = self.mode.filter(|mode| *mode <= 0o7777);
                let mode = mode.ok_or("mode: expected a number from 0 to 4095")?;
                Op::Chmod { path: self.path("path")?, mode }
            }
            "times" => {
                let seconds = self.seconds.ok_or("the member seconds is missing")?;
                Op::Times { path: self.path("path")?, seconds }
            }
            "sync" => Op::Sync,
            "other" => Op::Other(self.text("name", &self.name)?.to_owned()),
            other => {
                let words = WORDS.join(", ");
                return Err(format!("unknown call '{other}'; expected one of {words}"));
            }
        })
    }

    fn text<'a>(&self, name: &str, member: &'a Option<String>) -> Parsed<&'a str> {
        member.as_deref().ok_or_else(|| format!("the member {name} is missing"))
    }

    fn path(&self, name: &str) -> Parsed<TracePath> {
        let member = if name == "to" { &self.to } else { &self.path };
        TracePath::parse(&from_text(self.text(name, member)?)?)
    }

    fn file(&self) -> Parsed<u64> {
        self.file.ok_or_else(|| "the member file is missing; expected a number".to_owned())
    }

    fn offset(&self) -> Parsed<u64> {
        number("offset", self.offset, MOST_SIZE)
    }

    fn len(&self) -> Parsed<u64> {
        number("len", self.len, MOST_IO)
    }

    fn size(&self) -> Parsed<u64> {
        number("size", self.size, MOST_SIZE)
    }

    /// Refuses members that the line `whole` does not have.
    fn is_all(&self, whole: &Line) -> Parsed<()> {
        // A duration of 0 is not written.
        let mut mine = self.clone();
        mine.d = mine.d.filter(|took| *took > 0);
        if mine == *whole {
            return Ok(());
        }
        let show = |line: &Line| serde_json::to_string(line).unwrap_or_default();
        Err(format!("has a member that does not belong to it; expected {}", show(whole)))
    }
}

fn number(name: &str, value: Option<u64>, most: u64) -> Parsed<u64> {
    match value {
        None => Err(format!("the member {name} is missing; expected bytes")),
        Some(value) if value > most => {
            Err(format!("{name} {value}: expected at most {most} bytes"))
        }
        Some(value) => Ok(value),
    }
}

/// The words of calls.
const WORDS: [&str; 20] = [
    "stat",
    "open",
    "close",
    "read",
    "write",
    "fsync",
    "ftruncate",
    "truncate",
    "mkdir",
    "rmdir",
    "unlink",
    "rename",
    "link",
    "symlink",
    "readlink",
    "list",
    "chmod",
    "times",
    "sync",
    "other",
];

/// The word of a call.
pub(super) fn word(op: &Op) -> &'static str {
    match op {
        Op::Stat(_) => "stat",
        Op::Open { .. } => "open",
        Op::Close(_) => "close",
        Op::Read { .. } => "read",
        Op::Write { .. } => "write",
        Op::Fsync(_) => "fsync",
        Op::Ftruncate { .. } => "ftruncate",
        Op::Truncate { .. } => "truncate",
        Op::Mkdir(_) => "mkdir",
        Op::Rmdir(_) => "rmdir",
        Op::Unlink(_) => "unlink",
        Op::Rename { .. } => "rename",
        Op::Link { .. } => "link",
        Op::Symlink { .. } => "symlink",
        Op::Readlink(_) => "readlink",
        Op::List(_) => "list",
        Op::Chmod { .. } => "chmod",
        Op::Times { .. } => "times",
        Op::Sync => "sync",
        Op::Other(_) => "other",
    }
}
