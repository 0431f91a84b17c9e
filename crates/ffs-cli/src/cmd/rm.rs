//! `ffs rm`.

use std::ffi::OsString;

use bsdffs::sorted_entries;
use ffs_core::{Attr, Error, FileType, Vnode};

use super::{Doc, EXIT};
use crate::changes::Changes;
use crate::fail::{Failure, Outcome, show};
use crate::namei::{join, names_in_one_image, parent};
use crate::output;
use crate::session::Session;
use crate::signals;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs rm disk.img:/var/log/old", "a file"),
        ("ffs rm -r disk.img:/usr/obj", "a tree"),
        ("ffs rm -d disk.img:/empty", "an empty directory"),
    ],
    exit: EXIT,
    see_also: &["ffs-mkdir(1)", "ffs-mv(1)"],
    section: "1",
    usage_code: 64,
};

/// Remove files from an image.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N]:/path, all in one image
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Remove directories and all files below them
    #[arg(short, visible_short_alias = 'R')]
    recursive: bool,
    /// Remove empty directories, too
    #[arg(short)]
    directories: bool,
    /// Ignore files that do not exist
    #[arg(short)]
    force: bool,
    /// Print the name of each removed file
    #[arg(short, long)]
    verbose: bool,
    /// Print JSON, one object a line: each removed file as it was
    #[arg(long)]
    json: bool,
}

/// A removal in progress.
struct Remove<'a> {
    session: &'a Session,
    args: &'a Args,
    changes: Changes,
}

pub(crate) fn run(args: Args) -> Outcome {
    let (image, paths) = names_in_one_image(&args.paths)?;
    let session = Session::write(&image)?;
    let mut remove =
        Remove { session: &session, args: &args, changes: Changes::new(args.json, args.verbose) };
    let done = paths.iter().try_for_each(|path| match remove.path(path) {
        Err(failure) if signals::interrupted() => Err(failure),
        result => output::report(result),
    });
    let done = done.and_then(|()| remove.changes.flush());
    session.finish_with(done)?;
    Ok(u8::from(output::errors() > 0))
}

impl Remove<'_> {
    fn path(&mut self, path: &[u8]) -> Result<(), Failure> {
        let (session, args) = (self.session, self.args);
        let (dir, name) = match parent(&session.ffs, &session.cred, path) {
            Ok(found) => found,
            Err(error) if args.force && error.is_not_found() => return Ok(()),
            Err(error) => return Err(session.failed(path, error)),
        };
        let file = match session.ffs.lookup(&session.cred, &dir, &name) {
            Ok(file) => file,
            Err(Error::NotFound) if args.force => return Ok(()),
            Err(error) => return Err(session.failed(path, error)),
        };
        let attr = session.ffs.getattr(&file);
        if attr.kind != FileType::Directory {
            drop(file);
            return self.entry(&dir, &name, path, &attr);
        }
        if !args.recursive && !args.directories {
            let failure = session.failed(path, Error::IsDirectory);
            return Err(failure.hint("-r removes it and all in it"));
        }
        if args.recursive {
            self.empty(file, path)?;
        } else {
            drop(file);
        }
        self.entry(&dir, &name, path, &attr)
    }

    /// Removes the file or the empty directory `name` of `dir`, which has these attributes.
    fn entry(&mut self, dir: &Vnode, name: &[u8], path: &[u8], attr: &Attr) -> Result<(), Failure> {
        let (ffs, cred) = (&self.session.ffs, &self.session.cred);
        let removed = match attr.kind {
            FileType::Directory => ffs.rmdir(cred, dir, name),
            _ => ffs.unlink(cred, dir, name),
        };
        removed.map_err(|error| self.session.failed(path, error))?;
        self.changes.line(|| show(path))?;
        self.changes.file(path, Some(attr), None)
    }

    /// Removes everything in a directory. An entry that cannot be removed is reported; its
    /// directory and those above it then stay.
    fn empty(&mut self, dir: Vnode, path: &[u8]) -> Result<(), Failure> {
        let session = self.session;
        let errors = output::errors();
        let mut stack = vec![frame(session, dir, path.to_vec(), Vec::new())];
        while let Some(top) = stack.last_mut() {
            signals::check()?;
            let Some(name) = top.todo.pop() else {
                let Some(Frame { dir, path, name, attr, .. }) = stack.pop() else { break };
                if let Some(above) = stack.last() {
                    drop(dir);
                    output::report(self.entry(&above.dir, &name, &path, &attr))?;
                }
                continue;
            };
            let path = join(&top.path, &name);
            let file = match session.ffs.lookup(&session.cred, &top.dir, &name) {
                Ok(file) => file,
                Err(error) => {
                    output::error(session.failed(&path, error).text);
                    continue;
                }
            };
            let attr = session.ffs.getattr(&file);
            if attr.kind == FileType::Directory {
                stack.push(frame(session, file, path, name));
                continue;
            }
            drop(file);
            output::report(self.entry(&top.dir, &name, &path, &attr))?;
        }
        if output::errors() > errors {
            return Err(session.failed(path, Error::NotEmpty));
        }
        Ok(())
    }
}

/// A directory being emptied.
struct Frame {
    dir: Vnode,
    /// As it was before.
    attr: Attr,
    path: Vec<u8>,
    /// Name in the directory above; empty for the first.
    name: Vec<u8>,
    /// Names to remove, the next one last.
    todo: Vec<Vec<u8>>,
}

fn frame(session: &Session, dir: Vnode, path: Vec<u8>, name: Vec<u8>) -> Frame {
    let attr = session.ffs.getattr(&dir);
    let (names, error) = sorted_entries(&session.ffs, &dir);
    if let Some(error) = error {
        output::error(session.failed(&path, error).text);
    }
    let todo = names.into_iter().map(|(name, _)| name).rev().collect();
    Frame { dir, attr, path, name, todo }
}
