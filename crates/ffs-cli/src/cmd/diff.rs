//! `ffs diff`.

mod keyword;
mod print;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use bsdffs::diff::{Attribute, DiffOptions, DiffReport, Tree, diff};
use ffs_core::{FileType, Vnode};

use super::Doc;
use crate::fail::{Failure, Outcome, show};
use crate::namei::Last;
use crate::output;
use crate::parse::pattern::Pattern;
use crate::progress::Progress;
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::signals;
use crate::spec::{ImagePath, Place, image_path, place};
use keyword::{Keyword, keyword};
use print::Print;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs diff monday.img tuesday.img", "everything that differs in two images"),
        ("ffs diff disk.img:/.snap/monday disk.img", "what has changed since a snapshot"),
        ("ffs diff root.img rootfs/", "an image and the tree that it was made of"),
        ("ffs diff -q old.img:/etc new.img:/etc", "only the names, below a directory"),
        ("ffs diff --ignore owner,time disk.img:/www www", "all but owners and times"),
        ("ffs diff --only mode,flags a.img b.img", "permissions and flags alone"),
        ("ffs diff -x '*.o' -x .git src.img src", "without some names"),
        ("ffs diff --json a.img b.img", "one JSON object for each file that differs"),
    ],
    exit: &[
        ("0", "no difference"),
        ("1", "differences"),
        ("2", "trouble: something could not be compared"),
        ("130", "interrupted by a signal"),
    ],
    see_also: &["ffs-cp(1)", "ffs-find(1)", "ffs-snapshot(8)", "diff(1)", "mtree(8)"],
    section: "1",
    usage_code: 2,
};

/// Compare two images, or an image with a directory.
///
/// Each side is IMAGE[@N][:/PATH], a snapshot IMAGE:/.snap/NAME, or a directory of the host; at
/// least one is in an image. Beside IMAGE:/PATH of a file, a file of the host is meant as such.
/// Files with the same path are compared in these attributes:
///
/// type, size, content, mode, uid and gid (both: owner), flags, time (of modification), nlink (the
/// number of names, and which names are of one file), link (the target of a symbolic link), device,
/// xattr, acl. atime and btime (of creation) are compared only with --only or --also; btime only
/// between images. The size and the number of links of directories are not compared.
///
/// A line for each difference has the path, the attribute and the two values. A file or directory
/// that only one side has is one line, `Only in`. Snapshots are left out, with a warning, and so is
/// an empty directory .snap in an image if a directory of the host has none. Contents are read up
/// to the first difference. Nothing is changed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The first side: IMAGE[@N][:/PATH], or a directory
    #[arg(value_name = "OLD")]
    old: OsString,
    /// The second side
    #[arg(value_name = "NEW")]
    new: OsString,
    /// Print only the names of files that differ
    #[arg(short = 'q', long)]
    brief: bool,
    /// Do not compare these attributes
    #[arg(long, value_name = "ATTRIBUTES", value_delimiter = ',', value_parser = keyword)]
    ignore: Vec<Keyword>,
    /// Compare only these attributes, and which files exist
    #[arg(long, value_name = "ATTRIBUTES", value_delimiter = ',', value_parser = keyword)]
    only: Vec<Keyword>,
    /// Compare these attributes, too
    #[arg(long, value_name = "ATTRIBUTES", value_delimiter = ',', value_parser = keyword)]
    also: Vec<Keyword>,
    /// Leave out files that match PATTERN, and everything below them; patterns are those of ffs cp
    #[arg(short = 'x', long, value_name = "PATTERN", value_parser = Pattern::parse)]
    exclude: Vec<Pattern>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

impl Args {
    fn options(&self) -> DiffOptions {
        let mut attributes: BTreeSet<Attribute> = match self.only.is_empty() {
            true => Attribute::DEFAULT.into_iter().collect(),
            false => keyword::attributes(&self.only).collect(),
        };
        attributes.extend(keyword::attributes(&self.also));
        for attribute in keyword::attributes(&self.ignore) {
            attributes.remove(&attribute);
        }
        DiffOptions { attributes, brief: self.brief }
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    // diff(1) has 2 for trouble.
    compare(&args).map_err(|failure| if failure.code == 1 { failure.code(2) } else { failure })
}

fn compare(args: &Args) -> Outcome {
    signals::listen();
    let [old, new] = open_both(&args.old, &args.new)?;
    let mut print = Print {
        json: args.json,
        brief: args.brief,
        exclude: &args.exclude,
        names: [old.name(), new.name()],
        out: output::stdout(),
        progress: Progress::bytes("compare", None),
        error: None,
    };
    let report = diff(old.tree(), new.tree(), &args.options(), &mut print);
    let printed = print.finish();
    let result = printed.and_then(|()| outcome(&report));
    let closed = old.close().and(new.close());
    let code = result?;
    closed?;
    Ok(code)
}

/// The exit code after a comparison.
fn outcome(report: &DiffReport) -> Outcome {
    if report.cancelled {
        return Err(Failure::interrupted());
    }
    crate::copying::warn_of_losses(&report.losses);
    Ok(match (report.failed > 0 || output::errors() > 0, report.is_same()) {
        (true, _) => 2,
        (false, same) => u8::from(!same),
    })
}

/// An open side.
enum Opened {
    Image(Box<Session>, ImagePath, Vnode),
    Host(PathBuf),
}

impl Opened {
    fn image(path: &ImagePath) -> Result<Opened, Failure> {
        let (session, place) = Session::read_at(path, AtEnd::Root)?;
        let top = session.find(&place.path, Last::Follow)?;
        Ok(Opened::Image(Box::new(session), place, top))
    }

    fn is_directory(&self) -> bool {
        match self {
            Opened::Image(session, _, top) => session.ffs.getattr(top).kind == FileType::Directory,
            Opened::Host(path) => path.is_dir(),
        }
    }

    fn tree(&self) -> Tree<'_> {
        match self {
            Opened::Image(session, place, top) => Tree::Image {
                image: session.image_ref(),
                top: top.clone(),
                path: place.path.clone(),
            },
            Opened::Host(path) => Tree::Host(path.clone()),
        }
    }

    /// The name of the top in messages.
    fn name(&self) -> String {
        match self {
            Opened::Image(session, place, _) => {
                format!("{}:{}", session.image(), show(&place.path))
            }
            Opened::Host(path) => show(path.as_os_str().as_bytes()),
        }
    }

    fn close(self) -> Result<(), Failure> {
        match self {
            Opened::Image(session, ..) => session.finish(),
            Opened::Host(_) => Ok(()),
        }
    }
}

/// Opens both sides. A file of the host is an image, except beside a file in an image.
fn open_both(old: &OsStr, new: &OsStr) -> Result<[Opened; 2], Failure> {
    let explicit = |arg: &OsStr| match place(arg) {
        Place::Image(path) => Opened::image(&path).map(Some),
        Place::Host(path) if path.is_dir() => Ok(Some(Opened::Host(path))),
        Place::Host(_) => Ok(None),
    };
    let (first, second) = (explicit(old)?, explicit(new)?);
    let beside_file = |other: &Option<Opened>| {
        other
            .as_ref()
            .is_some_and(|other| matches!(other, Opened::Image(..)) && !other.is_directory())
    };
    let other = |arg: &OsStr, beside_file: bool| match beside_file {
        true => Ok(Opened::Host(PathBuf::from(arg))),
        false => Opened::image(&image_path(arg)?),
    };
    let (old_file, new_file) = (beside_file(&second), beside_file(&first));
    let opened = [
        first.map_or_else(|| other(old, old_file), Ok)?,
        second.map_or_else(|| other(new, new_file), Ok)?,
    ];
    if opened.iter().all(|side| matches!(side, Opened::Host(_))) {
        return Err(Failure::usage("neither side is in an image")
            .hint("diff -r compares two directories of the host"));
    }
    Ok(opened)
}
