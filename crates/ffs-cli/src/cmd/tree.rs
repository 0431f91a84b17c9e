//! `ffs tree`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;

use bsdffs::sorted_entries;
use ffs_admin::counted;
use ffs_core::{Attr, FileType, Ino, Vnode};
use serde::Serialize;

use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome, show};
use crate::namei::{Last, join};
use crate::output::{self, JsonName, kind_name};
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::signals;
use crate::spec::image_path;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs tree -L 2 disk.img", "two levels"),
        ("ffs tree -d disk.img:/usr", "directories only"),
    ],
    exit: EXIT,
    see_also: &["ffs-ls(1)"],
    section: "1",
    usage_code: 64,
};

/// Draw a tree of an image.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N][:/path]
    #[arg(value_name = "IMAGE:/PATH")]
    path: OsString,
    /// Levels shown
    #[arg(short = 'L', value_name = "LEVELS")]
    level: Option<usize>,
    /// Directories only
    #[arg(short)]
    directories: bool,
    /// Sizes of files
    #[arg(short)]
    sizes: bool,
    /// Print JSON, one object a line, with depths
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    depth: usize,
    path: JsonName,
    #[serde(rename = "type")]
    kind: &'static str,
    size: u64,
}

pub(crate) fn run(args: Args) -> Outcome {
    let (session, spec) = Session::read_at(&image_path(&args.path)?, AtEnd::Root)?;
    let mut out = output::stdout();
    let root = session.find(&spec.path, Last::Follow)?;
    if session.ffs.getattr(&root).kind != FileType::Directory {
        let failure = session.failed(&spec.path, ffs_core::Error::NotDirectory);
        return Err(failure.hint("see it with ffs stat"));
    }
    if !args.json {
        writeln!(out, "{}:{}", session.image(), show(&spec.path))?;
    }
    let walked = BTreeSet::from([session.ffs.getattr(&root).ino]);
    let (directories, files) = (0, 0);
    let mut draw = Draw { session: &session, args: &args, walked, directories, files };
    draw.walk(&root, &spec.path, &mut out)?;
    let Draw { directories, files, .. } = draw;
    if !args.json {
        writeln!(out, "\n{}, {}", counted(directories, "directory"), counted(files, "file"))?;
    }
    out.flush()?;
    session.finish()?;
    Ok(u8::from(output::errors() > 0))
}

/// A directory being drawn.
struct Frame {
    path: Vec<u8>,
    /// Names to go, the next one last.
    todo: Vec<(Vec<u8>, Ino)>,
    /// The prefix of the lines of this directory.
    indent: String,
}

struct Draw<'a> {
    session: &'a Session,
    args: &'a Args,
    walked: BTreeSet<Ino>,
    directories: u64,
    files: u64,
}

impl Draw<'_> {
    fn walk(&mut self, root: &Vnode, path: &[u8], mut out: &mut dyn Write) -> Result<(), Failure> {
        let mut stack = vec![self.frame(root, path.to_vec(), String::new())];
        while let Some(top) = stack.last_mut() {
            signals::check()?;
            let Some((name, ino)) = top.todo.pop() else {
                stack.pop();
                continue;
            };
            let path = join(&top.path, &name);
            let (last, indent) = (top.todo.is_empty(), top.indent.clone());
            let file = match self.session.ffs.vget(ino, None) {
                Ok(file) => file,
                Err(error) => {
                    output::error(self.session.failed(&path, error).text);
                    continue;
                }
            };
            let attr = self.session.ffs.getattr(&file);
            let directory = attr.kind == FileType::Directory;
            *(if directory { &mut self.directories } else { &mut self.files }) += 1;
            if self.args.directories && !directory {
                continue;
            }
            let depth = stack.len();
            if self.args.json {
                let (kind, size) = (kind_name(attr.kind), attr.size);
                let line = Line { depth, path: JsonName::new(&path), kind, size };
                output::json_line(&mut out, &line)?;
            } else {
                let branch = if last { "`-- " } else { "|-- " };
                writeln!(out, "{indent}{branch}{}", self.text(&name, &attr))?;
            }
            if !directory || self.args.level.is_some_and(|level| depth >= level) {
                continue;
            }
            if !self.walked.insert(ino) {
                let why = "a second name of a directory, not entered";
                output::error(format!("{}:{}: {why}", self.session.image(), show(&path)));
                continue;
            }
            let indent = indent + if last { "    " } else { "|   " };
            stack.push(self.frame(&file, path, indent));
        }
        Ok(())
    }

    fn text(&self, name: &[u8], attr: &Attr) -> String {
        let sign = if attr.kind == FileType::Directory { "/" } else { "" };
        let size = if self.args.sizes { format!(" [{}]", attr.size) } else { String::new() };
        format!("{}{sign}{size}", show(name))
    }

    fn frame(&self, dir: &Vnode, path: Vec<u8>, indent: String) -> Frame {
        let (mut todo, error) = sorted_entries(&self.session.ffs, dir);
        if let Some(error) = error {
            output::error(self.session.failed(&path, error).text);
        }
        todo.reverse();
        Frame { path, todo, indent }
    }
}
