//! `ffs truncate`.

use std::ffi::OsString;

use ffs_core::{Attr, Error, FileType, SetAttr, Vnode};

use super::{Doc, EXIT};
use crate::bsd;
use crate::changes::Changes;
use crate::fail::{Failure, Outcome};
use crate::namei::{Last, one_image};
use crate::output;
use crate::session::Session;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs truncate -s 0 disk.img:/var/log/messages", "empty a file"),
        ("ffs truncate -s +1m disk.img:/swapfile", "one mebibyte more, without blocks"),
        ("ffs truncate -c -r disk.img:/a disk.img:/b", "the size of another file, if b exists"),
    ],
    exit: EXIT,
    see_also: &["ffs-touch(1)", "ffs-stat(1)", "ffs-cp(1)"],
    section: "1",
    usage_code: 64,
};

/// Change the sizes of files in an image.
///
/// What is added reads as zeros and uses no blocks. A file that does not exist is created, unless
/// it cannot have the size.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N]:/path, all in one image
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// The size in bytes, or with one of k, m, g, t. With + or - before it, the difference; with %
    /// or /, the size is rounded up or down to a multiple
    #[arg(short, value_name = "[+|-|%|/]SIZE", value_parser = NewSize::parse,
        allow_hyphen_values = true, required_unless_present = "reference")]
    size: Option<NewSize>,
    /// The size of this file, which is in the same image
    #[arg(short, value_name = "IMAGE:/PATH", conflicts_with = "size")]
    reference: Option<OsString>,
    /// Do not create files
    #[arg(short = 'c')]
    no_create: bool,
    /// Print JSON, one object a line: each file before and after
    #[arg(long)]
    json: bool,
}

/// A size, perhaps relative to the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewSize {
    To(u64),
    More(u64),
    Less(u64),
    RoundedUp(u64),
    RoundedDown(u64),
}

impl NewSize {
    fn parse(text: &str) -> Result<NewSize, String> {
        let rest = |at: usize| bsd::number(&text[at..]);
        let unit = || rest(1).and_then(|n| if n > 0 { Ok(n) } else { Err("0 as a unit".into()) });
        Ok(match text.as_bytes().first() {
            Some(b'+') => NewSize::More(rest(1)?),
            Some(b'-') => NewSize::Less(rest(1)?),
            Some(b'%') => NewSize::RoundedUp(unit()?),
            Some(b'/') => NewSize::RoundedDown(unit()?),
            _ => NewSize::To(rest(0)?),
        })
    }

    /// The new size; `None` if it does not fit 64 bits.
    fn from(self, old: u64) -> Option<u64> {
        match self {
            NewSize::To(size) => Some(size),
            NewSize::More(n) => old.checked_add(n),
            NewSize::Less(n) => Some(old.saturating_sub(n)),
            NewSize::RoundedUp(unit) => old.checked_next_multiple_of(unit),
            NewSize::RoundedDown(unit) => Some(old - old % unit),
        }
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let all: Vec<&OsString> = args.paths.iter().chain(&args.reference).collect();
    let (image, mut paths) = one_image(&all)?;
    let reference = args.reference.as_ref().and_then(|_| paths.pop());
    let session = Session::write(&image)?;
    let result = size_of(&session, reference.as_deref(), args.size).and_then(|size| {
        let mut changes = Changes::new(args.json, false);
        for path in &paths {
            output::report(change(&session, path, size, args.no_create, &mut changes))?;
        }
        changes.flush()
    });
    session.finish_with(result)?;
    Ok(u8::from(output::errors() > 0))
}

fn size_of(
    session: &Session,
    reference: Option<&[u8]>,
    size: Option<NewSize>,
) -> Result<NewSize, Failure> {
    let Some(path) = reference else { return Ok(size.unwrap_or(NewSize::More(0))) };
    Ok(NewSize::To(session.ffs.getattr(&session.find(path, Last::Follow)?).size))
}

fn change(
    session: &Session,
    path: &[u8],
    size: NewSize,
    no_create: bool,
    changes: &mut Changes,
) -> Result<(), Failure> {
    let (ffs, cred) = (&session.ffs, &session.cred);
    let (after, before) = match session.find_opt(path, Last::Follow)? {
        Some(file) => {
            let before = ffs.getattr(&file);
            (resize(session, path, &file, size)?, Some(before))
        }
        None if no_create => return Ok(()),
        None => {
            let (file, dir, name) = session.create(path)?;
            let after = resize(session, path, &file, size).inspect_err(|_| {
                drop(file);
                // The first error is the one to report.
                let _ = ffs.unlink(cred, &dir, &name);
            })?;
            (after, None)
        }
    };
    changes.file(path, before.as_ref(), Some(&after))
}

/// Gives the file at `path` its new size. Returns the attributes that it has then.
fn resize(session: &Session, path: &[u8], file: &Vnode, size: NewSize) -> Result<Attr, Failure> {
    let a = session.ffs.getattr(file);
    let failed = |error| session.failed(path, error);
    match a.kind {
        FileType::Regular => {}
        FileType::Directory => return Err(failed(Error::IsDirectory)),
        _ => return Err(failed(Error::Invalid("not a regular file"))),
    }
    let size = size.from(a.size).ok_or_else(|| failed(Error::TooBig))?;
    let set = SetAttr { size: Some(size), ..SetAttr::default() };
    session.ffs.setattr(&session.cred, file, &set).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_absolute_relative_or_rounded() {
        for (text, old, new) in [
            ("5k", 7, Some(5120)),
            ("+3", 7, Some(10)),
            ("-3", 7, Some(4)),
            ("-30", 7, Some(0)),
            ("%4", 7, Some(8)),
            ("%4", 8, Some(8)),
            ("/4", 7, Some(4)),
            ("+1", u64::MAX, None),
            ("%10", u64::MAX, None),
        ] {
            assert_eq!(NewSize::parse(text).unwrap().from(old), new, "{text} of {old}");
        }
        for text in ["", "x", "%0", "/0", "+", "--1", "99999999999g"] {
            assert!(NewSize::parse(text).is_err(), "{text}");
        }
    }
}
