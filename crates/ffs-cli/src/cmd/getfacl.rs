//! `ffs getfacl`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;

use ffs_core::QuotaType;
use ffs_core::acl::Entry;
use serde::Serialize;

use super::setfacl::{self, Which};
use super::{Doc, EXIT};
use crate::acl;
use crate::fail::{Failure, Outcome, show};
use crate::namei::last;
use crate::output::{self, JsonName};
use crate::owner;
use crate::session::Session;
use crate::session::snapshot::AtEnd;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs getfacl disk.img:/home/joe", "the access list of a file"),
        ("ffs getfacl -d disk.img:/srv", "the default list of a directory"),
        ("ffs getfacl -q disk.img:/a | ffs setfacl -b -M - disk.img:/b", "copy a list"),
    ],
    exit: EXIT,
    see_also: &["ffs-setfacl(1)", "ffs-chmod(1)", "ffs-tunefs(8)"],
    section: "1",
    usage_code: 64,
};

/// Show access lists of files in an image.
///
/// The output is that of getfacl(1) of FreeBSD. A file without a list has the three entries of its
/// mode. Names are those of the image's own passwd and group files, if it has them, and otherwise
/// those of this system.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// IMAGE[@N]:/path
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// The default list of a directory
    #[arg(short)]
    default: bool,
    /// A symbolic link itself
    #[arg(short = 'h')]
    no_follow: bool,
    /// Numbers for users and groups
    #[arg(short)]
    numeric: bool,
    /// No lines with the name and the owner
    #[arg(short)]
    quiet: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Serialize)]
struct JsonLine {
    path: JsonName,
    default: bool,
    entries: Vec<String>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut out = output::stdout();
    let mut first = true;
    Session::read_each(&args.paths, AtEnd::Root, |session, place| {
        let mut lines = Vec::new();
        print(session, &place.path, &args, &mut lines)?;
        if !std::mem::take(&mut first) && !args.json {
            writeln!(out)?;
        }
        Ok(out.write_all(&lines)?)
    })?;
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

fn print(session: &Session, path: &[u8], args: &Args, out: &mut impl Write) -> Result<(), Failure> {
    let file = session.find(path, last(args.no_follow))?;
    let which = if args.default { Which::Default } else { Which::Access };
    let entries = setfacl::entries(session, path, &file, which)?;
    let mut names = Names { session, numeric: args.numeric, known: BTreeMap::new() };
    let text = |names: &Names<'_>, e: &Entry| acl::show(e, |kind, id| names.name(kind, id));
    for kind in [QuotaType::User, QuotaType::Group] {
        names.read(kind)?;
    }
    if args.json {
        let entries = entries.iter().map(|entry| text(&names, entry)).collect();
        let line = JsonLine { path: JsonName::new(path), default: args.default, entries };
        return output::json_line(out, &line);
    }
    let a = session.ffs.getattr(&file);
    if !args.quiet {
        writeln!(out, "# file: {}", show(path))?;
        writeln!(out, "# owner: {}", names.name(QuotaType::User, a.uid))?;
        writeln!(out, "# group: {}", names.name(QuotaType::Group, a.gid))?;
    }
    for entry in &entries {
        writeln!(out, "{}", text(&names, entry))?;
    }
    Ok(())
}

/// The names of users and groups in the image.
struct Names<'a> {
    session: &'a Session,
    numeric: bool,
    known: BTreeMap<(bool, u32), String>,
}

impl Names<'_> {
    fn read(&mut self, kind: QuotaType) -> Result<(), Failure> {
        if !self.numeric {
            let all = owner::names(Some(self.session), kind)?;
            let group = kind == QuotaType::Group;
            self.known.extend(all.into_iter().map(|(id, name)| ((group, id), name)));
        }
        Ok(())
    }

    fn name(&self, kind: QuotaType, id: u32) -> String {
        let known = self.known.get(&(kind == QuotaType::Group, id));
        known.map_or_else(|| id.to_string(), |name| show(name.as_bytes()))
    }
}
