//! `ffs xattr`.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use ffs_core::{Error, Vnode, XattrNamespace, XattrSet};
use ffs_ondisk::extattr::MAX_NAME;
use serde::Serialize;

use super::{Doc, EXIT};
use crate::changes::{Changes, Detail};
use crate::fail::{Failure, Outcome};
use crate::namei::{Last, last, one_image};
use crate::output::{self, JsonName};
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::spec::image_path;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs xattr ls disk.img:/etc/rc", "the names and sizes of all attributes"),
        ("ffs xattr get user.comment disk.img:/etc/rc", "a value, as it is"),
        ("ffs xattr set user.comment 'from 4.4BSD' disk.img:/etc/rc", "set it"),
        ("ffs xattr set -i value.bin user.blob disk.img:/f", "a value from a file"),
        ("ffs xattr rm user.comment disk.img:/etc/rc", "remove it"),
    ],
    exit: EXIT,
    see_also: &["ffs-stat(1)", "ffs-getfacl(1)", "ffs-cp(1)"],
    section: "1",
    usage_code: 64,
};

/// List, show, set and remove extended attributes in an image.
///
/// NAME is user.NAME or system.NAME, the two name spaces of UFS2. lsextattr(8), getextattr(8) and
/// setextattr(8) of FreeBSD take the two parts as separate words.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the attributes of files: name and bytes of each
    Ls {
        /// IMAGE[@N]:/path
        #[arg(required = true, value_name = "IMAGE:/PATH")]
        paths: Vec<OsString>,
        /// A symbolic link itself
        #[arg(short = 'P')]
        no_follow: bool,
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
    /// Write the value of an attribute to standard output
    Get {
        /// user.NAME or system.NAME
        #[arg(value_parser = parse_name)]
        name: Name,
        /// IMAGE[@N]:/path
        #[arg(value_name = "IMAGE:/PATH")]
        path: OsString,
        /// In hexadecimal
        #[arg(short = 'x')]
        hex: bool,
        /// A symbolic link itself
        #[arg(short = 'P')]
        no_follow: bool,
    },
    /// Set an attribute of files
    Set {
        /// user.NAME or system.NAME; then the value, unless -i is given; then the files
        #[arg(value_parser = parse_name)]
        name: Name,
        /// [VALUE] IMAGE[@N]:/path, all in one image
        #[arg(required = true, value_name = "[VALUE] IMAGE:/PATH", allow_hyphen_values = true)]
        words: Vec<OsString>,
        /// The value is the content of a file; - is standard input
        #[arg(short, value_name = "FILE")]
        input: Option<PathBuf>,
        /// Symbolic links themselves
        #[arg(short = 'P')]
        no_follow: bool,
        /// Print JSON, one object a line: each file before and after
        #[arg(long)]
        json: bool,
    },
    /// Remove an attribute of files
    Rm {
        /// user.NAME or system.NAME
        #[arg(value_parser = parse_name)]
        name: Name,
        /// IMAGE[@N]:/path, all in one image
        #[arg(required = true, value_name = "IMAGE:/PATH")]
        paths: Vec<OsString>,
        /// Ignore files without the attribute
        #[arg(short)]
        force: bool,
        /// Symbolic links themselves
        #[arg(short = 'P')]
        no_follow: bool,
        /// Print JSON, one object a line: each file before and after
        #[arg(long)]
        json: bool,
    },
}

/// The name of an attribute.
#[derive(Debug, Clone)]
struct Name {
    space: XattrNamespace,
    name: Vec<u8>,
}

fn parse_name(text: &str) -> Result<Name, String> {
    let bad = || format!("{text:?} is not a name such as user.comment or system.NAME");
    let (space, name) = text.split_once('.').ok_or_else(bad)?;
    let space = match space {
        "user" => XattrNamespace::User,
        "system" => XattrNamespace::System,
        _ => return Err(bad()),
    };
    if name.is_empty() {
        return Err(bad());
    }
    Ok(Name { space, name: name.as_bytes().to_vec() })
}

#[derive(Serialize)]
struct JsonLine {
    path: JsonName,
    namespace: &'static str,
    attribute: JsonName,
    bytes: usize,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Ls { paths, no_follow, json } => list(&paths, last(no_follow), json),
        Command::Get { name, path, hex, no_follow } => get(&name, &path, hex, last(no_follow)),
        Command::Set { name, words, input, no_follow, json } => {
            let (value, paths) = match input {
                Some(file) => (read_value(&file)?, &words[..]),
                None if words.len() < 2 => {
                    return Err(Failure::usage("a value and a file are needed after the name"));
                }
                None => (words[0].as_bytes().to_vec(), &words[1..]),
            };
            change(paths, last(no_follow), (&name, json), &|session, file| {
                let (ffs, cred) = (&session.ffs, &session.cred);
                ffs.setxattr(cred, file, name.space, &name.name, &value, XattrSet::Any)
            })
        }
        Command::Rm { name, paths, force, no_follow, json } => {
            change(&paths, last(no_follow), (&name, json), &|session, file| {
                let (ffs, cred) = (&session.ffs, &session.cred);
                match ffs.removexattr(cred, file, name.space, &name.name) {
                    Err(Error::NoAttr) if force => Ok(()),
                    done => done,
                }
            })
        }
    }
}

fn list(paths: &[OsString], last: Last, json: bool) -> Outcome {
    let mut out = output::stdout();
    Session::read_each(paths, AtEnd::File, |session, place| {
        let found = attributes(session, &place.path, last)?;
        if !json && paths.len() > 1 {
            output::name(&mut out, &place.path)?;
            writeln!(out, ":")?;
        }
        for (space, name, bytes) in found {
            let namespace = output::namespace_name(space);
            if json {
                let (path, attribute) = (JsonName::new(&place.path), JsonName::new(&name));
                let line = JsonLine { path, namespace, attribute, bytes };
                output::json_line(&mut out, &line)?;
            } else {
                write!(out, "{bytes:>8}  {namespace}.")?;
                output::name(&mut out, &name)?;
                writeln!(out)?;
            }
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

/// The name space, name and bytes of each attribute.
fn attributes(
    session: &Session,
    path: &[u8],
    last: Last,
) -> Result<Vec<(XattrNamespace, Vec<u8>, usize)>, Failure> {
    let file = session.find(path, last)?;
    let failed = |error| session.failed(path, error);
    let names = session.ffs.listxattr(&session.cred, &file).map_err(failed)?;
    let sized = names.into_iter().map(|(space, name)| {
        let value = session.ffs.getxattr(&session.cred, &file, space, &name).map_err(failed)?;
        Ok((space, name, value.len()))
    });
    sized.collect()
}

fn get(name: &Name, arg: &OsStr, hex: bool, last: Last) -> Outcome {
    let (session, spec) = Session::read_at(&image_path(arg)?, AtEnd::File)?;
    let result = session.find(&spec.path, last).and_then(|file| {
        let value = session.ffs.getxattr(&session.cred, &file, name.space, &name.name);
        value.map_err(|error| session.failed(&spec.path, error))
    });
    let value = session.finish_with(result)?;
    let mut out = output::stdout();
    if hex {
        writeln!(out, "{}", hex_text(&value))?;
    } else {
        out.write_all(&value)?;
    }
    out.flush()?;
    Ok(0)
}

/// The longest value that is read from a file; a volume holds less.
const LONGEST: u64 = 1 << 20;

fn read_value(file: &Path) -> Result<Vec<u8>, Failure> {
    let value = crate::stdin::read_file(file, LONGEST + 1)?;
    if value.len() as u64 > LONGEST {
        return Err(Failure::new(file.display(), "larger than any attribute can be"));
    }
    Ok(value)
}

fn change(
    paths: &[OsString],
    last: Last,
    (name, json): (&Name, bool),
    change: &dyn Fn(&Session, &Vnode) -> Result<(), Error>,
) -> Outcome {
    let (image, paths) = one_image(paths)?;
    let session = Session::write(&image)?;
    let mut changes = Changes::new(json, false);
    let done = paths.iter().try_for_each(|path| {
        output::report(session.find(path, last).and_then(|file| {
            let value = || hex_of(&session, &file, name).filter(|_| json);
            let (before, before_hex) = (session.ffs.getattr(&file), value());
            change(&session, &file).map_err(|error| failed(&session, path, name, error))?;
            let detail = Detail::Attribute {
                namespace: output::namespace_name(name.space),
                name: JsonName::new(&name.name),
                before_hex,
                after_hex: value(),
            };
            let after = session.ffs.getattr(&file);
            changes.detailed(path, Some(&before), Some(&after), Some(detail))
        }))
    });
    session.finish_with(done.and_then(|()| changes.flush()))?;
    Ok(u8::from(output::errors() > 0))
}

/// The value of an attribute in hexadecimal; none if the file does not have it.
fn hex_of(session: &Session, file: &Vnode, name: &Name) -> Option<String> {
    let value = session.ffs.getxattr(&session.cred, file, name.space, &name.name).ok()?;
    Some(hex_text(&value))
}

fn hex_text(value: &[u8]) -> String {
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The failure of a change of an attribute.
fn failed(session: &Session, path: &[u8], name: &Name, error: Error) -> Failure {
    let long = name.name.len() > MAX_NAME;
    let failure = session.failed(path, error);
    match long {
        true => failure.hint(format!(
            "the name of the attribute has {} bytes, and at most {MAX_NAME} are possible",
            name.name.len()
        )),
        false => failure,
    }
}
