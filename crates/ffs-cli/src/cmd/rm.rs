//! `ffs rm`.

use std::ffi::OsString;

use bsdffs::sorted_entries;
use ffs_core::{Error, FileType, Vnode};

use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome};
use crate::namei::{join, one_image, parent};
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
    #[arg(short)]
    verbose: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let (image, paths) = one_image(&args.paths)?;
    let session = Session::write(&image)?;
    for path in &paths {
        match remove(&session, path, &args) {
            Err(failure) if signals::interrupted() => return session.finish_with(Err(failure)),
            Err(failure) => output::error(failure.text),
            Ok(()) => {}
        }
    }
    session.finish()?;
    Ok(u8::from(output::errors() > 0))
}

fn remove(session: &Session, path: &[u8], args: &Args) -> Result<(), Failure> {
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
    if session.ffs.getattr(&file).kind != FileType::Directory {
        drop(file);
        return unlink(session, &dir, &name, path, args);
    }
    if !args.recursive && !args.directories {
        return Err(session.failed(path, Error::IsDirectory).hint("-r removes it and all in it"));
    }
    if args.recursive {
        empty(session, file, path, args)?;
    } else {
        drop(file);
    }
    rmdir(session, &dir, &name, path, args)
}

fn unlink(
    session: &Session,
    dir: &Vnode,
    name: &[u8],
    path: &[u8],
    args: &Args,
) -> Result<(), Failure> {
    let removed = session.ffs.unlink(&session.cred, dir, name);
    removed.map_err(|error| session.failed(path, error))?;
    print_removed(path, args);
    Ok(())
}

fn rmdir(
    session: &Session,
    dir: &Vnode,
    name: &[u8],
    path: &[u8],
    args: &Args,
) -> Result<(), Failure> {
    let removed = session.ffs.rmdir(&session.cred, dir, name);
    removed.map_err(|error| session.failed(path, error))?;
    print_removed(path, args);
    Ok(())
}

fn print_removed(path: &[u8], args: &Args) {
    if args.verbose {
        output::note(format!("removed {}", crate::fail::show(path)));
    }
}

/// A directory being emptied.
struct Frame {
    dir: Vnode,
    path: Vec<u8>,
    /// Name in the directory above; empty for the first.
    name: Vec<u8>,
    /// Names to remove, the next one last.
    todo: Vec<Vec<u8>>,
}

/// Removes everything in a directory. An entry that cannot be removed is reported; its directory
/// and those above it then stay.
fn empty(session: &Session, dir: Vnode, path: &[u8], args: &Args) -> Result<(), Failure> {
    let errors = output::errors();
    let mut stack = vec![frame(session, dir, path.to_vec(), Vec::new())];
    while let Some(top) = stack.last_mut() {
        signals::check()?;
        let Some(name) = top.todo.pop() else {
            let Some(done) = stack.pop() else { break };
            if let Some(above) = stack.last() {
                drop(done.dir);
                if let Err(failure) = rmdir(session, &above.dir, &done.name, &done.path, args) {
                    output::error(failure.text);
                }
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
        if session.ffs.getattr(&file).kind == FileType::Directory {
            stack.push(frame(session, file, path, name));
            continue;
        }
        drop(file);
        if let Err(failure) = unlink(session, &top.dir, &name, &path, args) {
            output::error(failure.text);
        }
    }
    if output::errors() > errors {
        return Err(session.failed(path, Error::NotEmpty));
    }
    Ok(())
}

fn frame(session: &Session, dir: Vnode, path: Vec<u8>, name: Vec<u8>) -> Frame {
    let (names, error) = sorted_entries(&session.ffs, &dir);
    if let Some(error) = error {
        output::error(session.failed(&path, error).text);
    }
    let todo = names.into_iter().map(|(name, _)| name).rev().collect();
    Frame { dir, path, name, todo }
}
