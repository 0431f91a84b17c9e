//! `ffs setfacl`.

use std::ffi::OsString;

use std::path::Path;

use ffs_core::acl::{Acl, Entry, Who};
use ffs_core::{Error, FileType, Vnode};

use super::change::Which as Files;
use super::{Doc, EXIT};
use crate::acl::{Word, words};
use crate::fail::{Failure, Outcome};
use crate::session::Session;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs setfacl -m u:joe:rw disk.img:/home/shared/file", "another user reads and writes"),
        ("ffs setfacl -x u:joe disk.img:/home/shared/file", "no longer"),
        ("ffs setfacl -d -m u::rwx,g::rx,o::,g:staff:rwx disk.img:/srv", "a default list"),
        ("ffs setfacl -R -b disk.img:/home/shared", "modes alone, in a whole tree"),
    ],
    exit: EXIT,
    see_also: &["ffs-getfacl(1)", "ffs-chmod(1)", "ffs-tunefs(8)"],
    section: "1",
    usage_code: 64,
};

/// Change access lists of files in an image.
///
/// An entry is TAG:[NAME]:PERMISSIONS: u or user, g or group, with a name or a number or, for the
/// owner and the group of the file, without; m or mask; o or other. Options apply in the order -b,
/// -k, -x, -X, -m, -M. The mask becomes the union of what users and groups may do, unless an entry
/// sets it or -n is given. The volume must have access lists enabled (ffs tunefs -a enable).
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Remove all entries but those of the mode
    #[arg(short = 'b')]
    bare: bool,
    /// Remove the default list of a directory
    #[arg(short = 'k')]
    no_default: bool,
    /// Change the default list of a directory
    #[arg(short)]
    default: bool,
    /// Add entries, or change those that are there
    #[arg(short, value_name = "ENTRIES", value_parser = entries_of, allow_hyphen_values = true)]
    modify: Option<Entries>,
    /// The same, with entries from a file; - is standard input
    #[arg(short = 'M', value_name = "FILE")]
    modify_file: Option<OsString>,
    /// Remove entries
    #[arg(short = 'x', value_name = "ENTRIES", value_parser = entries_of)]
    remove: Option<Entries>,
    /// The same, with entries from a file; - is standard input
    #[arg(short = 'X', value_name = "FILE")]
    remove_file: Option<OsString>,
    /// Keep the mask
    #[arg(short = 'n')]
    keep_mask: bool,
    #[command(flatten)]
    files: Files,
}

#[derive(Debug, Clone)]
struct Entries(Vec<Word>);

fn entries_of(text: &str) -> Result<Entries, String> {
    words(text).map(Entries)
}

/// Which list of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Access,
    Default,
}

/// The entries of a list; those of the mode if the file has no access list.
///
/// # Errors
/// The list cannot be read; a file that is no directory has no default list.
pub(super) fn entries(
    session: &Session,
    path: &[u8],
    file: &Vnode,
    which: Which,
) -> Result<Vec<Entry>, Failure> {
    list(session, file, which).map_err(|error| session.failed(path, error))
}

fn list(session: &Session, file: &Vnode, which: Which) -> Result<Vec<Entry>, Error> {
    let a = session.ffs.getattr(file);
    let stored = match which {
        Which::Access => session.ffs.access_acl(file)?,
        Which::Default if a.kind != FileType::Directory => return Err(Error::NotDirectory),
        Which::Default => session.ffs.default_acl(file)?,
    };
    Ok(match (stored, which) {
        (Some(acl), _) => acl.entries().to_vec(),
        (None, Which::Default) => Vec::new(),
        (None, Which::Access) => {
            let entry = |who, shift: u16| Entry { who, perm: (a.perm >> shift & 7) as u8 };
            vec![entry(Who::UserObj, 6), entry(Who::GroupObj, 3), entry(Who::Other, 0)]
        }
    })
}

pub(crate) fn run(args: Args) -> Outcome {
    let read = |file: &Option<OsString>| file.as_ref().map(read_entries).transpose();
    let more = |own: &Option<Entries>, file: Option<Vec<Word>>| {
        let own = own.iter().flat_map(|entries| entries.0.clone());
        own.chain(file.into_iter().flatten()).collect::<Vec<Word>>()
    };
    let removed = more(&args.remove, read(&args.remove_file)?);
    let modified = more(&args.modify, read(&args.modify_file)?);
    if !args.bare && !args.no_default && removed.is_empty() && modified.is_empty() {
        return Err(Failure::usage("nothing to change: one of -b, -k, -m, -M, -x, -X is needed"));
    }
    args.files.run_on_lists(|session| {
        let who = |word: &Word| word.who(session);
        let removed: Vec<Who> = removed.iter().map(who).collect::<Result<_, _>>()?;
        let modified: Vec<Entry> = modified
            .iter()
            .map(|word| Ok(Entry { who: word.who(session)?, perm: word.perm()? }))
            .collect::<Result<_, Failure>>()?;
        let which = if args.default { Which::Default } else { Which::Access };
        let edit = Edit { bare: args.bare, keep_mask: args.keep_mask, removed, modified };
        let (no_default, changes) = (args.no_default, edit.changes());
        Ok(Box::new(move |session, file, attr| {
            let is_dir = attr.kind == FileType::Directory;
            if no_default && is_dir {
                session.ffs.set_default_acl(&session.cred, file, None)?;
            }
            // In a tree, default lists are those of its directories.
            if !changes || (which == Which::Default && !is_dir) {
                return Ok(None);
            }
            let old = list(session, file, which)?;
            let new = edit.apply(old.clone());
            if new == old {
                return Ok(None);
            }
            set(session, file, which, &new)?;
            let text = |entries: &[Entry]| {
                let shown = entries.iter().map(|e| crate::acl::show(e, |_, id| id.to_string()));
                shown.collect::<Vec<_>>().join(",")
            };
            Ok(Some((text(&old), text(&new))))
        }))
    })
}

fn set(session: &Session, file: &Vnode, which: Which, new: &[Entry]) -> Result<(), Error> {
    let acl = (!new.is_empty()).then(|| Acl::new(new.to_vec())).transpose()?;
    match which {
        Which::Access => session.ffs.set_access_acl(&session.cred, file, acl.as_ref(), false),
        Which::Default => session.ffs.set_default_acl(&session.cred, file, acl.as_ref()),
    }
}

/// The entries in a file: one or more on a line, comments behind `#`.
fn read_entries(file: &OsString) -> Result<Vec<Word>, Failure> {
    let text = crate::stdin::read_text(Path::new(file))?;
    let text = String::from_utf8(text).map_err(|e| Failure::new(file.display(), e.utf8_error()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let all = words(&lines.collect::<Vec<_>>().join(","));
    all.map_err(|e| Failure::new(file.display(), e))
}

/// The change of one list.
struct Edit {
    bare: bool,
    keep_mask: bool,
    removed: Vec<Who>,
    modified: Vec<Entry>,
}

impl Edit {
    fn changes(&self) -> bool {
        self.bare || !self.removed.is_empty() || !self.modified.is_empty()
    }

    fn apply(&self, mut list: Vec<Entry>) -> Vec<Entry> {
        let of_mode = |who: Who| matches!(who, Who::UserObj | Who::GroupObj | Who::Other);
        if self.bare {
            // Without the mask the group may do no more than with it.
            let mask = list.iter().find(|entry| entry.who == Who::Mask).map_or(7, |e| e.perm);
            let group = list.iter_mut().filter(|entry| entry.who == Who::GroupObj);
            group.for_each(|entry| entry.perm &= mask);
            list.retain(|entry| of_mode(entry.who));
        }
        list.retain(|entry| !self.removed.contains(&entry.who));
        for entry in &self.modified {
            match list.iter_mut().find(|old| old.who == entry.who) {
                Some(old) => old.perm = entry.perm,
                None => list.push(*entry),
            }
        }
        let named = list.iter().any(|e| matches!(e.who, Who::User(_) | Who::Group(_)));
        let given = self.modified.iter().any(|e| e.who == Who::Mask);
        let has_mask = list.iter().any(|e| e.who == Who::Mask);
        if !given && (!self.keep_mask || (named && !has_mask)) {
            list.retain(|entry| entry.who != Who::Mask);
            let class = |who| matches!(who, Who::User(_) | Who::GroupObj | Who::Group(_));
            let union = list.iter().filter(|e| class(e.who)).fold(0, |all, e| all | e.perm);
            list.extend(named.then_some(Entry { who: Who::Mask, perm: union }));
        }
        list.sort_by_key(|entry| entry.who);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(Who, u8)]) -> Vec<Entry> {
        entries.iter().map(|&(who, perm)| Entry { who, perm }).collect()
    }

    #[test]
    fn the_mask_follows_the_entries_unless_it_is_given_or_kept() {
        let mode = [(Who::UserObj, 6), (Who::GroupObj, 4), (Who::Other, 0)];
        let edit = |keep_mask, modified: &[(Who, u8)]| Edit {
            bare: false,
            keep_mask,
            removed: Vec::new(),
            modified: list(modified),
        };
        let with = |new: &[(Who, u8)], keep| edit(keep, new).apply(list(&mode));
        let mask = |list: &[Entry]| list.iter().find(|e| e.who == Who::Mask).map(|e| e.perm);
        let joe = with(&[(Who::User(7), 3)], false);
        assert_eq!(mask(&joe), Some(7));
        assert_eq!(mask(&with(&[(Who::User(7), 3), (Who::Mask, 1)], false)), Some(1));
        assert_eq!(mask(&with(&[(Who::User(7), 3)], true)), Some(7), "a list needs one");
        assert_eq!(
            mask(&edit(true, &[(Who::User(8), 1)]).apply(with(&[(Who::User(7), 2)], false))),
            Some(6),
            "it is kept"
        );
        let removed = Edit { removed: vec![Who::User(7)], ..edit(false, &[]) }.apply(joe.clone());
        assert_eq!(removed, list(&mode), "the mask goes with the last entry");
        let bare = Edit { bare: true, ..edit(false, &[]) };
        assert_eq!(bare.apply(joe), list(&mode));
        let masked = with(&[(Who::User(7), 7), (Who::Mask, 0)], false);
        let narrow = [(Who::UserObj, 6), (Who::GroupObj, 0), (Who::Other, 0)];
        assert_eq!(bare.apply(masked), list(&narrow), "the group may do no more than before");
    }
}
