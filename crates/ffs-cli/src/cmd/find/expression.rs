//! The expression of `ffs find`: tests and actions, and their values for a file.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::fnmatch::Pattern;
use super::printf::{Format, kind_behind, link_text};
use crate::fail::{Failure, show};
use crate::namei::{Last, basename};
use crate::output;
pub(super) use crate::parse::find::{Bits, Number, Which};
use crate::session::Session;
use crate::walk::Visit;
use ffs_core::{Attr, Error, FileFlags, FileType, Ino, Timespec};

/// The arguments of a search.
pub(super) struct Expression {
    pub(super) root: Node,
    /// The expression has an action that prints.
    pub(super) prints: bool,
    pub(super) max_depth: usize,
    pub(super) min_depth: usize,
    /// A directory follows its entries.
    pub(super) depth_first: bool,
    /// The actions -delete and -prune are in the expression.
    pub(super) deletes: bool,
    pub(super) prunes: bool,
}

/// A part of the expression.
pub(super) enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    /// Each part is evaluated; the value is that of the last one.
    List(Vec<Node>),
    Not(Box<Node>),
    Test(Test),
    Action(Action),
}

/// What is done with a file.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Print,
    Print0,
    Printf(Rc<Format>),
    Ls,
    /// The directory is not entered.
    Prune,
    /// The search ends.
    Quit,
    /// The file is removed. The value is whether that succeeded.
    Delete,
    /// It was removed, and had these attributes.
    Removed(Attr),
}

impl Which {
    pub(super) fn of(self, attr: &Attr) -> Timespec {
        match self {
            Which::Access => attr.atime,
            Which::Modification => attr.mtime,
            Which::Change => attr.ctime,
            Which::Birth => attr.birthtime,
        }
    }
}

/// A property of a file.
pub(super) enum Test {
    Always(bool),
    Name(Pattern),
    Path(Pattern),
    Type(FileType),
    /// The type of what a symbolic link leads to; of a followed one, that of the link.
    OtherType(FileType),
    /// The size in units of so many bytes, rounded up.
    Size(Number, u64),
    /// The age at `now` in units of so many seconds, rounded up.
    Age(Which, Number, i64, i64),
    /// One of the times is later.
    Newer(Which, Timespec),
    User(u32),
    Group(u32),
    Uid(Number),
    Gid(Number),
    Perm(Bits, u16),
    Flags(Bits, FileFlags),
    Links(Number),
    /// The directories between the beginning of the search and the file.
    Depth(Number),
    Inode(Number),
    /// The same inode.
    Same(Ino),
    /// The text of a symbolic link.
    Link(Pattern),
    /// The whole path.
    Regex(Pattern),
    /// The owner is none of these.
    NoUser(BTreeMap<u32, String>),
    /// The group is none of these.
    NoGroup(BTreeMap<u32, String>),
    Empty,
}

/// A file, and the actions that the expression has for it.
pub(super) struct Found<'a> {
    pub(super) session: &'a Session,
    pub(super) visit: &'a Visit<'a>,
    pub(super) actions: Vec<Action>,
    /// A symbolic link was followed to this file, if there was one.
    pub(super) followed: bool,
    /// The search has ended: nothing more is evaluated.
    pub(super) quit: bool,
}

impl Node {
    /// The value for a file. As in find(1), a part is evaluated only if its value matters.
    pub(super) fn holds(&self, found: &mut Found<'_>) -> Result<bool, Failure> {
        match self {
            Node::All(parts) => {
                for part in parts {
                    if !part.holds(found)? || found.quit {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Node::Any(parts) => {
                for part in parts {
                    if part.holds(found)? || found.quit {
                        return Ok(!found.quit);
                    }
                }
                Ok(false)
            }
            Node::List(parts) => {
                let mut holds = false;
                for part in parts {
                    holds = part.holds(found)?;
                    if found.quit {
                        return Ok(false);
                    }
                }
                Ok(holds)
            }
            Node::Not(part) => Ok(!part.holds(found)? && !found.quit),
            Node::Test(test) => test.holds(found),
            Node::Action(Action::Delete) => found.delete(),
            Node::Action(Action::Quit) => {
                found.quit = true;
                Ok(false)
            }
            Node::Action(action) => {
                found.actions.push(action.clone());
                Ok(true)
            }
        }
    }
}

impl Found<'_> {
    /// Removes the file. A failure is reported, and the search continues.
    fn delete(&mut self) -> Result<bool, Failure> {
        let (session, path) = (self.session, self.visit.path);
        // As in find(1), the root stays, and that is no error.
        if self.visit.attr.ino == Ino::ROOT {
            return Ok(true);
        }
        let removed = session.find_parent(path).and_then(|(dir, name)| {
            let (ffs, cred) = (&session.ffs, &session.cred);
            let failed = |error| session.failed(path, error);
            let found = ffs.lookup(cred, &dir, &name).map_err(failed)?;
            if found.ino() != self.visit.attr.ino {
                // Only a damaged directory has two files of one name.
                let place = format!("{}:{}", session.image(), show(path));
                return Err(Failure::new(place, "another file has this name, too")
                    .hint("check the volume with ffs fsck"));
            }
            let removed = match self.visit.attr.kind {
                FileType::Directory => ffs.rmdir(cred, &dir, &name),
                _ => ffs.unlink(cred, &dir, &name),
            };
            removed.map(|()| *self.visit.attr).map_err(failed)
        });
        let is_removed = removed.is_ok();
        output::report(removed.map(|before| self.actions.push(Action::Removed(before))))?;
        Ok(is_removed)
    }
}

/// `value` in units, rounded up.
fn rounded_up(value: i128, unit: i128) -> i128 {
    value.div_euclid(unit) + i128::from(value.rem_euclid(unit) != 0)
}

impl Test {
    fn holds(&self, found: &Found<'_>) -> Result<bool, Failure> {
        let (visit, a) = (found.visit, found.visit.attr);
        Ok(match self {
            Test::Always(value) => *value,
            Test::Name(glob) => glob.is_match(basename(visit.path).unwrap_or(visit.path)),
            Test::Path(glob) => glob.is_match(visit.path),
            Test::Type(kind) => a.kind == *kind,
            Test::OtherType(kind) => other_kind(found)? == Some(*kind),
            Test::Size(number, unit) => {
                number.holds(rounded_up(i128::from(a.size), i128::from(*unit)))
            }
            Test::Age(which, number, unit, now) => {
                let age = i128::from(*now) - i128::from(which.of(a).secs);
                number.holds(rounded_up(age, i128::from(*unit)))
            }
            Test::Newer(which, time) => which.of(a) > *time,
            Test::User(uid) => a.uid == *uid,
            Test::Group(gid) => a.gid == *gid,
            Test::Uid(number) => number.holds(a.uid.into()),
            Test::Gid(number) => number.holds(a.gid.into()),
            Test::Perm(bits, wanted) => bits.holds((*wanted).into(), a.perm.into()),
            Test::Flags(bits, wanted) => bits.holds(wanted.bits(), a.flags.bits()),
            Test::Links(number) => number.holds(a.nlink.into()),
            Test::Depth(number) => number.holds(visit.depth as i128),
            Test::Inode(number) => number.holds(a.ino.0.into()),
            Test::Same(ino) => a.ino == *ino,
            Test::Link(glob) => {
                link_text(found.session, visit).is_some_and(|text| glob.is_match(&text))
            }
            Test::Regex(regex) => regex.is_match(visit.path),
            Test::NoUser(names) => !names.contains_key(&a.uid),
            Test::NoGroup(names) => !names.contains_key(&a.gid),
            Test::Empty => match a.kind {
                FileType::Regular => a.size == 0,
                FileType::Directory => is_empty(found)?,
                _ => false,
            },
        })
    }
}

/// The type that -type does not test. A failure is reported, and there is none then.
fn other_kind(found: &Found<'_>) -> Result<Option<FileType>, Failure> {
    let (session, visit) = (found.session, found.visit);
    if found.followed {
        return Ok(session.attr_of(visit.path, Last::Keep).map(|attr| attr.kind));
    }
    match kind_behind(session, visit) {
        // A link that leads to nothing is the file itself.
        Ok(kind) => Ok(kind.or(Some(FileType::Symlink))),
        Err(error) => {
            output::report(Err(session.failed(visit.path, error)))?;
            Ok(None)
        }
    }
}

fn is_empty(found: &Found<'_>) -> Result<bool, Failure> {
    let mut empty = true;
    let listed = found.session.ffs.readdir(found.visit.file, 0, &mut |entry| {
        empty &= entry.name == b"." || entry.name == b"..";
        empty
    });
    match listed {
        Ok(_) => Ok(empty),
        Err(error @ Error::Io(_)) => {
            output::error(found.session.failed(found.visit.path, error).text);
            Ok(false)
        }
        // The walk reports a damaged directory.
        Err(_) => Ok(false),
    }
}
