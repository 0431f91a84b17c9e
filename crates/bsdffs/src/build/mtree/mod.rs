//! Specifications of trees in the format of BSD's mtree(5): owners, modes and flags by path.
//!
//! An install without root (`NO_ROOT`) cannot give files their owners. It writes them to METALOG,
//! a specification, and the image gets them from there.
//!
//! # Invariants
//! 1. A path has one node: the last line of a path counts, as an installation may replace a file.
//! 2. No path leads out of the tree.
//! 3. A path has at most 1024 bytes, as FreeBSD's `PATH_MAX`, so memory is bounded by the text.
//!
//! Reference: FreeBSD mtree(5); NetBSD mtree(8) for `device`; makefs(8).

mod device;
mod names;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use ffs_core::{DeviceNumber, FileFlags, Timespec};

use crate::flags::FlagsChange;
use crate::text::escape;
pub use names::UserNames;
use words::{Lines, decode};

/// Longest line, bytes, with its continuations.
const MAX_LINE: usize = 64 << 10;
/// Longest path, bytes.
const MAX_PATH: usize = 1024;
/// The keywords of mtree(5) that a line may have. Checksums and sizes are not compared with the
/// tree.
const KEYWORDS: [&str; 33] = [
    "cksum",
    "contents",
    "device",
    "flags",
    "gid",
    "gname",
    "ignore",
    "inode",
    "link",
    "md5",
    "md5digest",
    "mode",
    "nlink",
    "nochange",
    "optional",
    "resdevice",
    "ripemd160digest",
    "rmd160",
    "rmd160digest",
    "sha1",
    "sha1digest",
    "sha256",
    "sha256digest",
    "sha384",
    "sha384digest",
    "sha512",
    "sha512digest",
    "size",
    "tags",
    "time",
    "type",
    "uid",
    "uname",
];

/// A line that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MtreeError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

/// The end of the error for a name of a user or group that [`UserNames`] lacks.
const UNKNOWN_NAME: &str = "the number of this name is not known";

impl MtreeError {
    /// Whether [`UserNames`] lacks a name of the line.
    #[must_use]
    pub fn is_unknown_name(&self) -> bool {
        self.why.ends_with(UNKNOWN_NAME)
    }
}

impl fmt::Display for MtreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for MtreeError {}

/// The kind of a file in a specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    Char,
    Block,
}

/// What a specification has of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: Option<NodeKind>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    /// Low 12 bits of the mode.
    pub(crate) perm: Option<u16>,
    pub(crate) flags: Option<FileFlags>,
    pub(crate) mtime: Option<Timespec>,
    /// The target of a symbolic link.
    pub(crate) link: Option<Vec<u8>>,
    /// The number of a device.
    pub(crate) device: Option<DeviceNumber>,
    /// The file of the host that has the content.
    pub(crate) contents: Option<PathBuf>,
    /// The tree may lack the file; then it is not created either.
    pub(crate) is_optional: bool,
    /// The number of its line.
    pub(crate) line: usize,
}

/// A parsed specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MtreeSpec {
    /// By path, without leading slashes and dots.
    nodes: BTreeMap<Vec<u8>, Node>,
    /// The directories on the way to the nodes.
    parents: BTreeSet<Vec<u8>>,
}

impl Node {
    /// The keyword without which the file cannot be created if the tree lacks it.
    pub(crate) fn lacks(&self) -> Option<&'static str> {
        let own = match self.kind {
            _ if self.contents.is_some() => None,
            None => Some("type"),
            Some(NodeKind::File) => Some("contents"),
            Some(NodeKind::Symlink) => return self.link.is_none().then_some("link"),
            Some(NodeKind::Char | NodeKind::Block) if self.device.is_none() => Some("device"),
            Some(_) => None,
        };
        own.or_else(|| self.perm.is_none().then_some("mode"))
    }
}

impl MtreeSpec {
    /// Parses a specification. `users` has the numbers of the names in it.
    ///
    /// # Errors
    /// The first line that cannot be understood.
    pub fn parse(text: &[u8], users: &UserNames) -> Result<MtreeSpec, MtreeError> {
        let mut spec = MtreeSpec::default();
        let mut defaults = BTreeMap::new();
        let mut directory: Vec<Vec<u8>> = Vec::new();
        for (line, words) in Lines::new(text, MAX_LINE) {
            let fail = |why: String| MtreeError { line, why };
            let words = words.map_err(|why| fail(why.to_owned()))?;
            let Some((name, keywords)) = words.split_first() else { continue };
            match *name {
                b"/set" => set(&mut defaults, keywords).map_err(fail)?,
                b"/unset" => unset(&mut defaults, keywords),
                b".." => {
                    directory.pop();
                }
                name => {
                    let mut own = defaults.clone();
                    set(&mut own, keywords).map_err(fail)?;
                    let node = node(&own, users, line).map_err(fail)?;
                    let name = decode(name).map_err(fail)?;
                    let is_full = name.contains(&b'/');
                    let path = if is_full { full(&name) } else { below(&directory, &name) };
                    let path = path.map_err(fail)?;
                    if !is_full && node.kind == Some(NodeKind::Directory) {
                        directory = path.clone();
                    }
                    spec.add(&path, node);
                }
            }
        }
        Ok(spec)
    }

    fn add(&mut self, path: &[Vec<u8>], node: Node) {
        for upto in (0..path.len()).rev() {
            if !self.parents.insert(path[..upto].join(&b'/')) {
                break;
            }
        }
        self.nodes.insert(path.join(&b'/'), node);
    }

    /// The node of a path.
    pub(crate) fn get(&self, path: &[u8]) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Whether the path is a directory on the way to a node.
    pub(crate) fn leads_on(&self, path: &[u8]) -> bool {
        self.parents.contains(path)
    }

    /// The nodes that are not in `found` and not optional, by path: a directory before its entries.
    pub(crate) fn missing<'a>(
        &'a self,
        found: &BTreeSet<Vec<u8>>,
    ) -> impl Iterator<Item = (&'a [u8], &'a Node)> {
        let missing = |(path, node): &(&Vec<u8>, &Node)| {
            !path.is_empty() && !node.is_optional && !found.contains(*path)
        };
        self.nodes.iter().filter(missing).map(|(path, node)| (path.as_slice(), node))
    }
}

type Keywords<'a> = BTreeMap<&'a [u8], &'a [u8]>;

/// Adds keywords to those before them. A name and a number of an owner replace each other.
fn set<'a>(to: &mut Keywords<'a>, words: &[&'a [u8]]) -> Result<(), String> {
    let mut own = Keywords::new();
    for word in words {
        let at = word.iter().position(|&byte| byte == b'=');
        let (key, value) = at.map_or((*word, &b""[..]), |at| (&word[..at], &word[at + 1..]));
        if !KEYWORDS.iter().any(|known| known.as_bytes() == key) {
            return Err(format!("the keyword {} is not known or not supported", escape(key)));
        }
        own.insert(key, value);
    }
    for pair in [[&b"uid"[..], b"uname"], [b"gid", b"gname"]] {
        if pair.iter().any(|key| own.contains_key(key)) {
            to.retain(|key, _| !pair.contains(key));
        }
    }
    to.extend(own);
    Ok(())
}

fn unset(from: &mut Keywords<'_>, words: &[&[u8]]) {
    if words.contains(&&b"all"[..]) {
        from.clear();
    }
    from.retain(|key, _| !words.contains(key));
}

/// The value of a keyword as text.
fn text(keywords: &Keywords<'_>, key: &str) -> Option<String> {
    keywords.get(key.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned())
}

/// The value of a keyword; `None` without the keyword.
fn value<T>(
    keywords: &Keywords<'_>,
    key: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(text) = text(keywords, key) else { return Ok(None) };
    parse(&text).map(Some).ok_or_else(|| format!("{key}={text}: not understood"))
}

/// The owner by number, or else by name.
fn owner(
    keywords: &Keywords<'_>,
    (number, name): (&str, &str),
    find: impl FnOnce(&str) -> Option<u32>,
) -> Result<Option<u32>, String> {
    let id = value(keywords, number, |id| id.parse().ok())?;
    let Some(text) = text(keywords, name).filter(|_| id.is_none()) else { return Ok(id) };
    find(&text).map(Some).ok_or_else(|| format!("{name}={text}: {UNKNOWN_NAME}"))
}

/// The node with these keywords.
fn node(keywords: &Keywords<'_>, users: &UserNames, line: usize) -> Result<Node, String> {
    let kind = value(keywords, "type", kind)?;
    let contents = keywords.get(&b"contents"[..]).map(|file| decode(file)).transpose()?;
    if contents.is_some() && kind.is_some_and(|kind| kind != NodeKind::File) {
        return Err("contents= is for type=file".to_owned());
    }
    // /set may give a device to files of other types.
    let is_device = matches!(kind, Some(NodeKind::Char | NodeKind::Block));
    let device = value(keywords, "device", device::parse)?;
    Ok(Node {
        kind,
        uid: owner(keywords, ("uid", "uname"), |name| users.user(name))?,
        gid: owner(keywords, ("gid", "gname"), |name| users.group(name))?,
        perm: value(keywords, "mode", mode)?,
        flags: value(keywords, "flags", set_flags)?,
        mtime: value(keywords, "time", time)?,
        link: keywords.get(&b"link"[..]).map(|target| decode(target)).transpose()?,
        device: device.filter(|_| is_device),
        contents: contents.map(|file| PathBuf::from(OsString::from_vec(file))),
        is_optional: keywords.contains_key(&b"optional"[..]),
        line,
    })
}

/// The flags that a list sets.
fn set_flags(names: &str) -> Option<FileFlags> {
    if matches!(names, "none" | "") {
        return Some(FileFlags::empty());
    }
    FlagsChange::parse(names).ok().map(|change| change.apply(FileFlags::empty()))
}

fn kind(name: &str) -> Option<NodeKind> {
    Some(match name {
        "file" => NodeKind::File,
        "dir" => NodeKind::Directory,
        "link" => NodeKind::Symlink,
        "fifo" => NodeKind::Fifo,
        "socket" => NodeKind::Socket,
        "char" => NodeKind::Char,
        "block" => NodeKind::Block,
        _ => return None,
    })
}

/// An octal number; type bits are left out.
fn mode(value: &str) -> Option<u16> {
    u16::from_str_radix(value, 8).ok().map(|mode| mode & 0o7777)
}

/// Seconds, a point, and nanoseconds, which are a number of their own: `5.9` is 9 ns after 5 s.
fn time(value: &str) -> Option<Timespec> {
    let (secs, nsec) = value.split_once('.').unwrap_or((value, "0"));
    let nsec = nsec.parse().ok().filter(|nsec| (0..1_000_000_000).contains(nsec))?;
    Some(Timespec { secs: secs.parse().ok()?, nsec })
}

/// The components of a path from the root of the tree.
fn full(path: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    if path.len() > MAX_PATH {
        return Err(format!("a path of more than {MAX_PATH} bytes"));
    }
    let parts = path.split(|&byte| byte == b'/');
    let parts = parts.filter(|part| !part.is_empty() && *part != b".");
    parts
        .map(|part| match part {
            b".." => Err(format!("the path {} contains '..'", escape(path))),
            part => Ok(part.to_vec()),
        })
        .collect()
}

/// The components of the name in a directory.
fn below(directory: &[Vec<u8>], name: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut path = directory.to_vec();
    path.extend(full(name)?);
    let length: usize = path.iter().map(|name| name.len() + 1).sum();
    if length > MAX_PATH {
        return Err(format!("a path of more than {MAX_PATH} bytes"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
