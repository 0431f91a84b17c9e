//! `ffs cat`.

use std::ffi::OsString;
use std::io::Write;

use ffs_core::FileType;

use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome};
use crate::namei::Last;
use crate::output;
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::signals;
use bsdffs::copy::READ_SIZE;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs cat disk.img:/etc/fstab", "a file"),
        ("ffs cat disk.img:/var/log/messages | tail", "the end of a file"),
    ],
    exit: EXIT,
    see_also: &["ffs-cp(1)", "ffs-ls(1)"],
    section: "1",
    usage_code: 64,
};

/// Write files of an image to standard output.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N]:/path
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut out = output::data()?;
    Session::read_each(&args.paths, AtEnd::File, |session, place| {
        write(session, &place.path, &mut out)
    })?;
    Ok(u8::from(output::errors() > 0))
}

fn write(session: &Session, path: &[u8], out: &mut dyn Write) -> Result<(), Failure> {
    let file = session.find(path, Last::Follow)?;
    match session.ffs.getattr(&file).kind {
        FileType::Regular => {}
        FileType::Directory => {
            let failure = session.failed(path, ffs_core::Error::IsDirectory);
            return Err(session.propose(failure, "list it", "ls", path));
        }
        kind => {
            let what = format!("{}:{}", session.image(), crate::fail::show(path));
            let why = format!("is a {}, which has no data", output::kind_name(kind));
            return Err(Failure::new(what, why));
        }
    }
    let mut buf = vec![0; READ_SIZE];
    let mut at = 0;
    loop {
        signals::check()?;
        let read = session.ffs.read(&file, at, &mut buf);
        let len = read.map_err(|error| session.failed(path, error))?;
        if len == 0 {
            return Ok(());
        }
        out.write_all(&buf[..len])?;
        at += len as u64;
    }
}
