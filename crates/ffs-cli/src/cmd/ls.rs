//! `ffs ls`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;

use bsdffs::{flags, sorted_entries};
use ffs_core::{Attr, FileType, Ino, Timespec, Vnode};
use ffs_ondisk::geometry::DEV_BSIZE;

use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome, show};
use crate::namei::{join, last};
use crate::output::{self, JsonFile};
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::signals;
use crate::spec::image_path;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs ls disk.img", "the root directory"),
        ("ffs ls -l disk.img@2:/etc", "a directory in partition 2, with modes, owners and times"),
        ("ffs ls -R --json disk.img", "everything, for programs"),
        ("ffs ls -lod disk.img:/kernel", "one file, with its BSD flags"),
    ],
    exit: EXIT,
    see_also: &["ffs-tree(1)", "ffs-stat(1)", "ffs-cat(1)", "ffs-cp(1)"],
    section: "1",
    usage_code: 64,
};

/// List files in an image.
///
/// Owners are numbers: the names are in the image's own passwd file. Times are UTC. Works on dirty,
/// journaled and snapshot-bearing images; nothing is changed.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// IMAGE[@N][:/path]
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// One line a file with type, mode, links, owner, group, size and time
    #[arg(short)]
    long: bool,
    /// Names that begin with a dot too, also . and ..
    #[arg(short)]
    all: bool,
    /// As -a but without . and ..
    #[arg(short = 'A')]
    almost_all: bool,
    /// List directories recursively
    #[arg(short = 'R')]
    recursive: bool,
    /// List a directory itself, not its entries
    #[arg(short)]
    directory: bool,
    /// Inode numbers
    #[arg(short)]
    inode: bool,
    /// Allocated space, in blocks of 512 bytes
    #[arg(short = 's')]
    blocks: bool,
    /// Allocated space in KiB, with -s
    #[arg(short = 'k', overrides_with = "human")]
    kib: bool,
    /// BSD file flags, with -l
    #[arg(short = 'o')]
    flags: bool,
    /// Sizes in units, with -l and -s
    #[arg(short = 'h', overrides_with = "kib")]
    human: bool,
    /// Times with seconds and nanoseconds, with -l
    #[arg(short = 'T')]
    full_time: bool,
    /// A sign for the type behind each name: / @ * | =
    #[arg(short = 'F')]
    classify: bool,
    /// Newest first
    #[arg(short = 't')]
    by_time: bool,
    /// The time of the last access instead of the modification, for -l and -t
    #[arg(short = 'u', overrides_with_all = ["changed", "born"])]
    accessed: bool,
    /// The time of the last change of the inode, for -l and -t
    #[arg(short = 'c', overrides_with_all = ["accessed", "born"])]
    changed: bool,
    /// The time of creation, for -l and -t
    #[arg(short = 'U', overrides_with_all = ["accessed", "changed"])]
    born: bool,
    /// Largest first
    #[arg(short = 'S')]
    by_size: bool,
    /// Reverse the order
    #[arg(short)]
    reverse: bool,
    /// One name a line (always so)
    #[arg(short = '1', hide = true)]
    one: bool,
    /// Numbers for owners (always so)
    #[arg(short = 'n', hide = true)]
    numeric: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// A line of the listing.
struct Line {
    name: Vec<u8>,
    attr: Attr,
    target: Option<Vec<u8>>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut out = output::stdout();
    let paths = args.paths.iter().map(|arg| image_path(arg)).collect::<Result<Vec<_>, _>>()?;
    let several = paths.iter().any(|path| path.image != paths[0].image);
    let mut before = Before::Nothing;
    let end = if args.directory { AtEnd::File } else { AtEnd::Root };
    Session::read_each(&args.paths, end, |session, place| {
        let mut list = List { args: &args, session, several, before, out: &mut out };
        let result = list.argument(&place.path);
        before = list.before;
        result
    })?;
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

/// What was printed before.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    File,
    Directory,
}

struct List<'a> {
    args: &'a Args,
    session: &'a Session,
    /// Whether the arguments are in several images.
    several: bool,
    before: Before,
    out: &'a mut dyn Write,
}

impl List<'_> {
    fn argument(&mut self, path: &[u8]) -> Result<(), Failure> {
        // As in BSD, a link named on the command line is followed unless it would be described.
        let describe = self.args.long || self.args.directory || self.args.classify;
        let file = self.session.find(path, last(describe))?;
        let attr = self.session.ffs.getattr(&file);
        if attr.kind != FileType::Directory || self.args.directory {
            self.separate(Before::File)?;
            let mut line = self.line(path.to_vec(), &file)?;
            if !self.args.json {
                line.name = self.label(path);
            }
            return self.print(&[line], b"");
        }
        let headings = self.args.recursive || self.args.paths.len() > 1;
        self.directories(file, path, headings)
    }

    /// The path of an argument as it is shown.
    fn label(&self, path: &[u8]) -> Vec<u8> {
        match self.several {
            true => [self.session.image().as_bytes(), b":", path].concat(),
            false => path.to_vec(),
        }
    }

    /// Prints an empty line before and after each directory that has a heading.
    fn separate(&mut self, next: Before) -> Result<(), Failure> {
        let files = (self.before, next) == (Before::File, Before::File);
        if !self.args.json && !files && self.before != Before::Nothing {
            writeln!(self.out)?;
        }
        self.before = next;
        Ok(())
    }

    fn directories(&mut self, root: Vnode, path: &[u8], headings: bool) -> Result<(), Failure> {
        let mut walked: BTreeSet<Ino> = BTreeSet::new();
        let mut todo = vec![(path.to_vec(), root)];
        while let Some((path, dir)) = todo.pop() {
            signals::check()?;
            if !walked.insert(self.session.ffs.getattr(&dir).ino) {
                let image = self.session.image();
                let path = show(&path);
                output::error(format!("{image}:{path}: a second name of a directory, not listed"));
                continue;
            }
            if headings && !self.args.json {
                self.separate(Before::Directory)?;
                writeln!(self.out, "{}:", show(self.label(&path)))?;
            }
            let mut below = Vec::new();
            let lines = self.directory(&dir, &path, &mut below);
            self.print(&lines, &path)?;
            if self.args.recursive {
                todo.extend(below.into_iter().rev());
            }
        }
        Ok(())
    }

    /// The lines of one directory; what cannot be read is reported.
    fn directory(
        &mut self,
        dir: &Vnode,
        path: &[u8],
        below: &mut Vec<(Vec<u8>, Vnode)>,
    ) -> Vec<Line> {
        let ffs = &self.session.ffs;
        let (mut names, error) = sorted_entries(ffs, dir);
        if let Some(error) = error {
            output::error(self.session.failed(path, error).text);
        }
        if self.args.all {
            names.insert(0, (b".".to_vec(), ffs.getattr(dir).ino));
            match ffs.lookup(&self.session.cred, dir, b"..") {
                Ok(parent) => names.insert(1, (b"..".to_vec(), ffs.getattr(&parent).ino)),
                Err(error) => output::error(self.session.failed(&join(path, b".."), error).text),
            }
        }
        let hidden = !self.args.all && !self.args.almost_all;
        names.retain(|(name, _)| !(hidden && name.starts_with(b".")));
        let mut lines = Vec::with_capacity(names.len());
        for (name, ino) in names {
            let full = join(path, &name);
            let file = match ffs.vget(ino, None) {
                Ok(file) => file,
                Err(error) => {
                    output::error(self.session.failed(&full, error).text);
                    continue;
                }
            };
            match self.line(name, &file) {
                Ok(line) => {
                    let real = line.name != b"." && line.name != b"..";
                    if line.attr.kind == FileType::Directory && real {
                        below.push((full, file));
                    }
                    lines.push(line);
                }
                Err(failure) => output::error(failure.text),
            }
        }
        self.sort(&mut lines);
        lines
    }

    fn line(&self, name: Vec<u8>, file: &Vnode) -> Result<Line, Failure> {
        let attr = self.session.ffs.getattr(file);
        let target = match attr.kind {
            FileType::Symlink if self.args.long || self.args.json => {
                let text = self.session.ffs.readlink(file);
                Some(text.map_err(|error| self.session.failed(&name, error))?)
            }
            _ => None,
        };
        Ok(Line { name, attr, target })
    }

    fn sort(&self, lines: &mut [Line]) {
        if self.args.by_size {
            lines.sort_by_key(|line| std::cmp::Reverse(line.attr.size));
        } else if self.args.by_time {
            lines.sort_by_key(|line| std::cmp::Reverse(self.time(&line.attr)));
        }
        if self.args.reverse {
            lines.reverse();
        }
    }

    fn print(&mut self, lines: &[Line], dir: &[u8]) -> Result<(), Failure> {
        if self.args.json {
            for line in lines {
                let path = join(dir, &line.name);
                let file = JsonFile::new(&path, &line.attr, line.target.as_deref());
                output::json_line(&mut self.out, &file)?;
            }
            return Ok(());
        }
        let columns: Vec<Vec<Column>> = lines.iter().map(|line| self.columns(line)).collect();
        let count = columns.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..count)
            .map(|column| columns.iter().map(|row| row[column].text.len()).max().unwrap_or(0))
            .collect();
        for (line, row) in lines.iter().zip(&columns) {
            for (Column { text, word }, &width) in row.iter().zip(&widths) {
                if *word {
                    write!(self.out, "{text:<width$} ")?;
                } else {
                    write!(self.out, "{text:>width$} ")?;
                }
            }
            output::name(&mut self.out, &line.name)?;
            if self.args.classify {
                write!(self.out, "{}", sign(&line.attr))?;
            }
            if let Some(target) = &line.target {
                write!(self.out, " -> ")?;
                output::name(&mut self.out, target)?;
            }
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn columns(&self, line: &Line) -> Vec<Column> {
        let a = &line.attr;
        let number = |text: String| Column { text, word: false };
        let word = |text: String| Column { text, word: true };
        let mut row = Vec::new();
        if self.args.inode {
            row.push(number(a.ino.to_string()));
        }
        if self.args.blocks {
            row.push(number(self.space(a)));
        }
        if !self.args.long {
            return row;
        }
        row.push(word(output::mode_string(a.kind, a.perm)));
        row.extend([a.nlink, a.uid, a.gid].map(|n| number(n.to_string())));
        if self.args.flags {
            row.push(word(flags::to_text(a.flags)));
        }
        row.push(number(if a.kind.is_device() {
            output::device(a)
        } else if self.args.human {
            output::short_size(a.size)
        } else {
            a.size.to_string()
        }));
        row.push(word(output::time(self.time(a), self.args.full_time)));
        row
    }

    /// The time that is shown.
    fn time(&self, attr: &Attr) -> Timespec {
        match self.args {
            Args { accessed: true, .. } => attr.atime,
            Args { changed: true, .. } => attr.ctime,
            Args { born: true, .. } => attr.birthtime,
            _ => attr.mtime,
        }
    }

    /// The allocated space that is shown.
    fn space(&self, attr: &Attr) -> String {
        match self.args {
            Args { human: true, .. } => output::short_size(attr.blocks.saturating_mul(DEV_BSIZE)),
            Args { kib: true, .. } => attr.blocks.div_ceil(2).to_string(),
            _ => attr.blocks.to_string(),
        }
    }
}

/// A cell of the listing: words are aligned to the left, numbers to the right.
struct Column {
    text: String,
    word: bool,
}

fn sign(attr: &Attr) -> &'static str {
    match attr.kind {
        FileType::Directory => "/",
        FileType::Symlink => "@",
        FileType::Fifo => "|",
        FileType::Socket => "=",
        FileType::Regular if attr.perm & 0o111 != 0 => "*",
        _ => "",
    }
}
