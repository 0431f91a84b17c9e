//! Crash workloads as text: one operation a line, as `docs/lab/crash.md` explains.
//!
//! # Invariants
//! 1. What [`print()`] writes, [`parse`] reads as the same workload.

use super::op::{List, Op, Path, Space, Workload};
use std::fmt;
use std::fmt::Write as _;

/// Most bytes a file of a workload may have.
pub const MOST_BYTES: u64 = 1 << 44;
/// Most operations of a workload file.
pub const MOST_OPS: usize = 100_000;
/// Most bytes of an extended attribute.
const MOST_XATTR: u32 = 65_536;
/// Most seconds of one wait.
const MOST_WAIT: u32 = 3600;

/// A line that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {why}")]
pub struct TextError {
    /// Counted from 1.
    pub line: usize,
    /// Character of the line, counted from 1.
    pub column: usize,
    /// The mistake, and the expected text.
    pub why: String,
}

/// The words operations begin with, and what follows them.
const VERBS: &[(&str, &str)] = &[
    ("create", "PATH"),
    ("mkfifo", "PATH"),
    ("mkdir", "PATH"),
    ("symlink", "PATH TARGET"),
    ("link", "OLD NEW"),
    ("unlink", "PATH"),
    ("rmdir", "PATH"),
    ("rename", "OLD NEW"),
    ("whiteout", "OLD NEW"),
    ("tmpfile", "PATH LENGTH"),
    ("exchange", "ONE OTHER"),
    ("write", "PATH OFFSET LENGTH [sync]"),
    ("append", "PATH LENGTH"),
    ("truncate", "PATH SIZE"),
    ("allocate", "PATH OFFSET LENGTH"),
    ("punch", "PATH OFFSET LENGTH"),
    ("zero", "PATH OFFSET LENGTH"),
    ("chmod", "PATH MODE"),
    ("chown", "PATH UID GID"),
    ("utimes", "PATH SECONDS"),
    ("setxattr", "PATH NAME LENGTH"),
    ("removexattr", "PATH NAME"),
    ("acl", "PATH access|default USER PERMISSIONS"),
    ("noacl", "PATH access|default"),
    ("fill", "PATH BYTES"),
    ("user", "USER"),
    ("remount", "ro|rw"),
    ("fault", "write|flush NUMBER [torn]"),
    ("fsync", "PATH"),
    ("fdatasync", "PATH"),
    ("sync", ""),
    ("wait", "SECONDS"),
    ("open", "PATH"),
    ("close", ""),
    ("snapshot", "PATH"),
    ("compare", "PATH"),
    ("standard-tree", ""),
    ("write-through", ""),
    ("tight-memory", ""),
    ("cut-on-removal", ""),
    ("stable", ""),
    ("fsync-file", ""),
    ("no-replace-order", ""),
    ("unflagged", ""),
    ("write-in-place", ""),
    ("journal", "BYTES"),
    ("begin", ""),
];

/// The words of one line, with their columns.
struct Line<'a> {
    number: usize,
    verb: &'static str,
    takes: &'static str,
    words: Vec<(usize, &'a str)>,
    next: usize,
    end: usize,
}

/// Words and the columns, counted from 1, at which they begin.
fn words(line: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut begin: Option<(usize, usize)> = None;
    for (column, (at, c)) in line.char_indices().enumerate() {
        match (begin, c.is_whitespace()) {
            (None, false) => begin = Some((column + 1, at)),
            (Some((column, from)), true) => {
                found.push((column, &line[from..at]));
                begin = None;
            }
            _ => {}
        }
    }
    found.extend(begin.map(|(column, from)| (column, &line[from..])));
    found
}

impl<'a> Line<'a> {
    /// The line's verb; `None` for a line without words.
    fn begin(number: usize, text: &'a str) -> Result<Option<Line<'a>>, TextError> {
        let code = text.split_once('#').map_or(text, |(code, _)| code);
        let words = words(code);
        let Some(&(column, word)) = words.first() else { return Ok(None) };
        let Some(&(verb, takes)) = VERBS.iter().find(|(verb, _)| *verb == word) else {
            let near = ffs_core::nearest(word, VERBS.iter().map(|(verb, _)| *verb));
            let why = format!("unknown operation '{word}'{}", ffs_core::suggestion(near));
            return Err(TextError { line: number, column, why });
        };
        let end = code.trim_end().chars().count() + 1;
        Ok(Some(Line { number, verb, takes, words, next: 1, end }))
    }

    fn wrong(&self, column: usize, why: impl fmt::Display) -> TextError {
        let verb = self.verb;
        let takes = if self.takes.is_empty() { "nothing" } else { self.takes };
        TextError { line: self.number, column, why: format!("{why}; '{verb}' takes {takes}") }
    }

    fn word(&mut self, what: &str) -> Result<(usize, &'a str), TextError> {
        let word = self.words.get(self.next).copied();
        self.next += 1;
        word.ok_or_else(|| self.wrong(self.end, format_args!("{what} is missing")))
    }

    fn path(&mut self) -> Result<Path, TextError> {
        let (column, word) = self.word("a path")?;
        Path::parse(word).ok_or_else(|| {
            let why = format!(
                "'{word}' is no path of a workload: names of 1 to 255 bytes between single '/'"
            );
            self.wrong(column, why)
        })
    }

    /// The path of something that can be made, moved or removed.
    fn entry(&mut self) -> Result<Path, TextError> {
        let column = self.words.get(self.next).map_or(self.end, |(column, _)| *column);
        let path = self.path()?;
        match path.split() {
            Some(_) => Ok(path),
            None => Err(self.wrong(column, "the root cannot be made, moved or removed")),
        }
    }

    fn number<T: TryFrom<u64>>(&mut self, what: &str, most: u64) -> Result<T, TextError> {
        let (column, word) = self.word(what)?;
        let value: Option<u64> = word.parse().ok().filter(|&n| n <= most);
        value.and_then(|n| T::try_from(n).ok()).ok_or_else(|| {
            self.wrong(column, format_args!("'{word}' is no {what} (a number up to {most})"))
        })
    }

    fn name(&mut self, what: &str, most: usize) -> Result<String, TextError> {
        let (column, word) = self.word(what)?;
        if word.len() > most {
            return Err(self.wrong(column, format_args!("{what} is longer than {most} bytes")));
        }
        Ok(word.to_owned())
    }

    fn mode(&mut self) -> Result<u16, TextError> {
        let (column, word) = self.word("a mode")?;
        let mode = u16::from_str_radix(word, 8).ok().filter(|&mode| mode <= 0o7777);
        mode.ok_or_else(|| {
            self.wrong(column, format_args!("'{word}' is no mode (octal, up to 7777)"))
        })
    }

    fn flag(&mut self, flag: &str) -> Result<bool, TextError> {
        let Some(&(column, word)) = self.words.get(self.next) else { return Ok(false) };
        self.next += 1;
        if word != flag {
            return Err(self.wrong(column, format_args!("unexpected '{word}'")));
        }
        Ok(true)
    }

    /// One of two words; whether it is the second.
    fn either(&mut self, words: [&str; 2]) -> Result<bool, TextError> {
        let [first, second] = words;
        let (column, word) = self.word(first)?;
        match words.iter().position(|known| *known == word) {
            Some(place) => Ok(place == 1),
            None => {
                let why = format!("'{word}' is neither '{first}' nor '{second}'");
                Err(self.wrong(column, why))
            }
        }
    }

    fn list(&mut self) -> Result<List, TextError> {
        let is_default = self.either(["access", "default"])?;
        Ok(if is_default { List::Default } else { List::Access })
    }

    fn finished(&self) -> Result<(), TextError> {
        match self.words.get(self.next) {
            Some((column, word)) => Err(self.wrong(*column, format_args!("unexpected '{word}'"))),
            None => Ok(()),
        }
    }

    fn space(&mut self, how: Space) -> Result<Op, TextError> {
        let (at, offset) = (self.entry()?, self.number("offset", MOST_BYTES)?);
        Ok(Op::Space(how, at, offset, self.number("length", MOST_BYTES)?))
    }

    fn op(&mut self) -> Result<Option<Op>, TextError> {
        let id = u64::from(u32::MAX);
        Ok(Some(match self.verb {
            "create" => Op::Create(self.entry()?),
            "mkfifo" => Op::Mkfifo(self.entry()?),
            "mkdir" => Op::Mkdir(self.entry()?),
            "symlink" => Op::Symlink(self.entry()?, self.name("a target", 1023)?),
            "link" => Op::Link(self.entry()?, self.entry()?),
            "unlink" => Op::Unlink(self.entry()?),
            "rmdir" => Op::Rmdir(self.entry()?),
            "rename" => Op::Rename(self.entry()?, self.entry()?),
            "whiteout" => Op::Whiteout(self.entry()?, self.entry()?),
            "tmpfile" => Op::Tmpfile(self.entry()?, self.number("length", MOST_BYTES)?),
            "exchange" => Op::Exchange(self.entry()?, self.entry()?),
            "write" => {
                let (at, offset) = (self.entry()?, self.number("offset", MOST_BYTES)?);
                let len = self.number("length", MOST_BYTES)?;
                Op::Write { at, offset, len, sync: self.flag("sync")? }
            }
            "append" => Op::Append(self.entry()?, self.number("length", MOST_BYTES)?),
            "truncate" => Op::Truncate(self.entry()?, self.number("size", MOST_BYTES)?),
            "allocate" => self.space(Space::Allocate)?,
            "punch" => self.space(Space::Punch)?,
            "zero" => self.space(Space::Zero)?,
            "chmod" => Op::Chmod(self.path()?, self.mode()?),
            "chown" => Op::Chown(self.path()?, self.number("user", id)?, self.number("group", id)?),
            "utimes" => Op::Utimes(self.path()?, self.number("time", u64::from(u32::MAX / 2))?),
            "setxattr" => Op::SetXattr(
                self.path()?,
                self.name("an attribute's name", 255)?,
                self.number("length", u64::from(MOST_XATTR))?,
            ),
            "removexattr" => Op::RemoveXattr(self.path()?, self.name("an attribute's name", 255)?),
            "acl" => Op::SetAcl(
                self.path()?,
                self.list()?,
                self.number("user", id)?,
                self.number("set of permissions", 7)?,
            ),
            "noacl" => Op::RemoveAcl(self.path()?, self.list()?),
            "fill" => Op::Fill(self.entry()?, self.number("number of bytes", MOST_BYTES)?),
            "user" => Op::User(self.number("user", id)?),
            "remount" => Op::Remount { read_only: !self.either(["ro", "rw"])? },
            "fault" => Op::Fault {
                flush: self.either(["write", "flush"])?,
                nth: self.number("number", u64::from(u32::MAX))?,
                torn: self.flag("torn")?,
            },
            "fsync" => Op::Fsync(self.path()?),
            "fdatasync" => Op::Fdatasync(self.path()?),
            "sync" => Op::Sync,
            "wait" => Op::Wait(self.number("number of seconds", u64::from(MOST_WAIT))?),
            "open" => Op::Open(self.entry()?),
            "close" => Op::Close,
            "snapshot" => Op::Snapshot(self.entry()?),
            "compare" => Op::Compare(self.entry()?),
            _ => return Ok(None),
        }))
    }
}

/// The condition of that name.
fn condition<'a>(workload: &'a mut Workload, name: &str) -> Option<&'a mut bool> {
    match name {
        "standard-tree" => Some(&mut workload.standard_tree),
        "write-through" => Some(&mut workload.write_through),
        "tight-memory" => Some(&mut workload.tight_memory),
        "cut-on-removal" => Some(&mut workload.truncate_on_removal),
        "stable" => Some(&mut workload.stable),
        "fsync-file" => Some(&mut workload.fsync_file),
        "no-replace-order" => Some(&mut workload.no_replace_order),
        "unflagged" => Some(&mut workload.unflagged),
        "write-in-place" => Some(&mut workload.write_in_place),
        _ => None,
    }
}

/// The workload that `text` describes.
///
/// # Errors
/// The first line that cannot be parsed.
pub fn parse(text: &str) -> Result<Workload, TextError> {
    let mut workload = Workload::default();
    let mut begun = false;
    for (at, text) in text.lines().enumerate() {
        let Some(mut line) = Line::begin(at + 1, text)? else { continue };
        match line.op()? {
            Some(op) => workload.ops.push(op),
            None if line.verb == "begin" => {
                if std::mem::replace(&mut begun, true) {
                    return Err(line.wrong(1, "the recording has begun already"));
                }
                workload.setup = std::mem::take(&mut workload.ops);
            }
            None => {
                let fresh = workload.ops.is_empty() && !begun;
                let again = if line.verb == "journal" {
                    let bytes = line.number("number of bytes", MOST_BYTES)?;
                    workload.journal_bytes.replace(bytes).is_some()
                } else {
                    let condition = condition(&mut workload, line.verb);
                    condition.is_none_or(|set| std::mem::replace(set, true))
                };
                if !fresh || again {
                    return Err(line.wrong(1, "it is allowed once, before all operations"));
                }
            }
        }
        line.finished()?;
        if workload.ops.len() > MOST_OPS {
            return Err(line.wrong(1, format_args!("more than {MOST_OPS} operations")));
        }
    }
    Ok(workload)
}

/// The workload as text.
#[must_use]
pub fn print(workload: &Workload) -> String {
    let mut out = String::new();
    let conditions = [
        (workload.standard_tree, "standard-tree"),
        (workload.write_through, "write-through"),
        (workload.tight_memory, "tight-memory"),
        (workload.truncate_on_removal, "cut-on-removal"),
        (workload.stable, "stable"),
        (workload.fsync_file, "fsync-file"),
        (workload.no_replace_order, "no-replace-order"),
        (workload.unflagged, "unflagged"),
        (workload.write_in_place, "write-in-place"),
    ];
    for (_, name) in conditions.iter().filter(|(holds, _)| *holds) {
        let _ = writeln!(out, "{name}");
    }
    if let Some(bytes) = workload.journal_bytes {
        let _ = writeln!(out, "journal {bytes}");
    }
    for op in &workload.setup {
        let _ = writeln!(out, "{op}");
    }
    if !workload.setup.is_empty() {
        out.push_str("begin\n");
    }
    for op in &workload.ops {
        let _ = writeln!(out, "{op}");
    }
    out
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            List::Access => "access",
            List::Default => "default",
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create(p) => write!(f, "create {p}"),
            Op::Mkfifo(p) => write!(f, "mkfifo {p}"),
            Op::Mkdir(p) => write!(f, "mkdir {p}"),
            Op::Symlink(p, target) => write!(f, "symlink {p} {target}"),
            Op::Link(old, new) => write!(f, "link {old} {new}"),
            Op::Unlink(p) => write!(f, "unlink {p}"),
            Op::Rmdir(p) => write!(f, "rmdir {p}"),
            Op::Rename(old, new) => write!(f, "rename {old} {new}"),
            Op::Whiteout(old, new) => write!(f, "whiteout {old} {new}"),
            Op::Tmpfile(p, len) => write!(f, "tmpfile {p} {len}"),
            Op::Exchange(one, other) => write!(f, "exchange {one} {other}"),
            Op::Write { at, offset, len, sync } => {
                write!(f, "write {at} {offset} {len}{}", if *sync { " sync" } else { "" })
            }
            Op::Append(p, len) => write!(f, "append {p} {len}"),
            Op::Truncate(p, size) => write!(f, "truncate {p} {size}"),
            Op::Space(how, p, offset, len) => {
                let verb = match how {
                    Space::Allocate => "allocate",
                    Space::Punch => "punch",
                    Space::Zero => "zero",
                };
                write!(f, "{verb} {p} {offset} {len}")
            }
            Op::Chmod(p, mode) => write!(f, "chmod {p} {mode:o}"),
            Op::Chown(p, uid, gid) => write!(f, "chown {p} {uid} {gid}"),
            Op::Utimes(p, secs) => write!(f, "utimes {p} {secs}"),
            Op::SetXattr(p, name, len) => write!(f, "setxattr {p} {name} {len}"),
            Op::RemoveXattr(p, name) => write!(f, "removexattr {p} {name}"),
            Op::SetAcl(p, list, user, perm) => write!(f, "acl {p} {list} {user} {perm}"),
            Op::RemoveAcl(p, list) => write!(f, "noacl {p} {list}"),
            Op::Fault { flush, nth, torn } => {
                let what = if *flush { "flush" } else { "write" };
                write!(f, "fault {what} {nth}{}", if *torn { " torn" } else { "" })
            }
            Op::Fill(p, left) => write!(f, "fill {p} {left}"),
            Op::User(user) => write!(f, "user {user}"),
            Op::Remount { read_only } => {
                write!(f, "remount {}", if *read_only { "ro" } else { "rw" })
            }
            Op::Fsync(p) => write!(f, "fsync {p}"),
            Op::Fdatasync(p) => write!(f, "fdatasync {p}"),
            Op::Sync => f.write_str("sync"),
            Op::Wait(secs) => write!(f, "wait {secs}"),
            Op::Open(p) => write!(f, "open {p}"),
            Op::Close => f.write_str("close"),
            Op::Snapshot(p) => write!(f, "snapshot {p}"),
            Op::Compare(p) => write!(f, "compare {p}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_survives_printing() {
        let text = "standard-tree\nwrite-through\ntight-memory\ncut-on-removal\nstable\n\
                    fsync-file\n\
            no-replace-order\nunflagged\njournal 8192\n\
            mkdir /d\ncreate /d/f\nbegin\nmkfifo /p\nsymlink /s ../a/b\nlink /d/f /g\n\
            unlink /g\nrmdir /d\nrename /d/f /e\nexchange /e /g\n\
            whiteout /e /w\ntmpfile /t 9\nwrite /e 5 700\nwrite /e 0 512 sync\nappend /e 1\n\
            truncate /e 3\nallocate /e 0 9\npunch /e 1 2\nzero /e 3 4\nchmod /e 4755\n\
            chown / 7 8\nutimes /e 99\nsetxattr /e k 100\nsetxattr /e system:k 9\n\
            removexattr /e k\n\
            acl /d default 7 5\nacl /e access 7 0\nnoacl /d default\nfill /e 512\nuser 7\n\
            remount ro\nremount rw\n\
            fault write 3 torn\nfault flush 1\n\
            fsync /e\nfdatasync /e\nsync\nwait 31\nopen /e\nclose\n\
            snapshot /s\ncompare /s\n";
        let workload = parse(text).unwrap();
        assert_eq!(print(&workload), text);
        assert_eq!((workload.setup.len(), workload.ops.len()), (2, 39));
        let again = parse("  create   d/f # the slash may be missing\n\n# nothing\n").unwrap();
        assert_eq!(print(&again), "create /d/f\n");
    }

    #[test]
    fn mistakes_are_placed() {
        let place = |text: &str| {
            let error = parse(text).unwrap_err();
            (error.line, error.column, error.why)
        };
        let (line, column, why) = place("sync\n  creat /f\n");
        assert_eq!((line, column), (2, 3));
        assert!(why.contains("did you mean 'create'?"), "{why}");
        let (line, column, why) = place("write /\u{e4} 0");
        assert_eq!((line, column), (1, 11), "{why}");
        assert!(why.contains("PATH OFFSET LENGTH [sync]"), "{why}");
        assert_eq!(place("append /a 12x").1, 11);
        assert_eq!(place("sync now").1, 6);
        assert_eq!(place("unlink /").1, 8);
        assert_eq!(place("chmod /a 8").1, 10);
        assert_eq!(place("create a/../b").1, 8);
        assert_eq!(place("remount rx").1, 9);
        assert_eq!(place("acl /d inherited 7 5").1, 8);
        assert_eq!(place("journal x").1, 9);
        assert_eq!(place("journal 1\njournal 2").0, 2);
        assert_eq!(place("begin\nbegin").0, 2);
        assert_eq!(place("sync\nstandard-tree").0, 2);
        assert_eq!(place("tight-memory\ntight-memory").0, 2);
    }
}
