//! `ffs find`.

mod expression;
mod fnmatch;
mod parse;
mod printf;
mod regex;
mod words;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use ffs_core::FileType;

use self::expression::{Action, Expression, Found};
use self::parse::Context;
use self::printf::link_text;
use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome};
use crate::namei::Last;
use crate::output::{self, JsonFile};
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::spec::{ImagePath, image_path};
use crate::walk::{Next, Step, Visit, walk_with};
use crate::{changes, current};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs find disk.img:/etc -name '*.conf'", "files by their names"),
        ("ffs find disk.img -type f -size +100M -ls", "large files, with all attributes"),
        ("ffs find disk.img '(' -perm -4000 -o -perm -2000 ')'", "programs with set-id bits"),
        ("ffs find disk.img:/home -mtime -7 -print0", "changed in the last 7 days, ended by NULs"),
        ("ffs find --json disk.img -flags +schg,uchg", "immutable files, one object a line"),
        (
            "ffs find --prefix disk.img -name '*.o' -print0 | xargs -0 ffs chmod 600",
            "another command of ffs for what was found",
        ),
        ("ffs find disk.img:/tmp -mindepth 1 -mtime +7 -delete", "remove what is old"),
        ("ffs find disk.img -nouser -o -nogroup", "files of no known owner or group"),
        ("ffs find disk.img -type f -printf '%s %p\\n' | sort -n", "files by size"),
        ("ffs find -L disk.img:/etc -type l", "links that lead to nothing"),
        ("ffs find disk.img -path /usr/obj -prune -o -type l -print", "all links but in one tree"),
    ],
    exit: EXIT,
    see_also: &["ffs-ls(1)", "ffs-du(1)", "ffs-stat(1)"],
    section: "1",
    usage_code: 64,
};

/// Find files in an image.
///
/// The expression is that of find(1). Tests: -name, -path and -lname PATTERN, -iname, -ipath and
/// -ilname (-lname is the text of a symbolic link); -regex and -iregex REGEX (for the whole path);
/// -type and -xtype [bcdflps] (several with commas: f,l; -xtype is for what a link leads to); -size
/// N[ckMGTP] (without a unit blocks of 512 bytes, rounded up); -mtime, -atime, -ctime and -Btime
/// N[smhdw] (without a unit days, rounded up); -mmin, -amin, -cmin and -Bmin N; -newer FILE,
/// -newerXY FILE (X and Y are a, B, c or m; with t for Y a time in UTC, such as 2026-01-31 or
/// 2026-01-31T09:00:00); -user, -group, -uid and -gid ID; -nouser and -nogroup; -perm [-|+|/]MODE
/// (octal, or as u+w,g=r); -flags [-|+]FLAGS; -links N; -inum N; -depth N; -samefile FILE; -empty;
/// -true and -false. N is exact, +N more, -N less. FILE is a path in the image.
///
/// Actions: -print, -print0, -printf FORMAT, -ls, -delete, -prune, -quit. Without one of the first
/// five, the files for which the expression is true are printed. Tests are joined by -a (or
/// nothing), -o, ! (or -not), parentheses, and a comma, which evaluates both sides and has the
/// value of the second. -maxdepth N, -mindepth N and -depth apply to the whole walk; -delete
/// implies -depth, is true for a file that it removed, and is refused with -L and -H. An expression
/// is evaluated from left to right: -delete before a test removes every file. There is no -exec:
/// print the paths with --prefix and -print0 for xargs. -xdev and -mount change nothing, because no
/// other file system is mounted in an image. Nor do -noleaf and -ignore_readdir_race.
///
/// REGEX is a POSIX extended regular expression, as with -E on BSD. The default of BSD's find is
/// posix-basic, and that of GNU's emacs: -regextype posix-basic (also ed, sed, grep), emacs (also
/// findutils-default) or posix-extended (also egrep) before a -regex chooses. There are no
/// references to groups, and classes such as [:alpha:] have letters of ASCII only.
///
/// Ages are from now. After -daystart, days are from the beginning of today in UTC, which is the
/// day 0, and minutes from its end, as in GNU's find.
///
/// FORMAT has GNU's directives %p %P %H %f %h (path, the path below the argument, the argument,
/// last name, directory), %d (depth), %s %b %k (size; space in blocks of 512 and of 1024 bytes), %m
/// %M (mode), %u %U %g %G (owner, group; by name or number), %i %n (inode, links), %l (text of a
/// link), %y %Y (type; that of what a link leads to, or N for nothing, L for a loop), %a %c %t
/// (times) and %Ak %Bk %Ck %Tk (k is @, +, or a letter of strftime(3); in UTC), with flags, width
/// and precision, and the escapes \n \t \0 \NNN \c and others.
///
/// Paths are those in the image. Owners are numbers, or names of the image's own /etc/passwd and
/// /etc/group; the names of the host are not used. -nouser and -nogroup need these files.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON, one object a line for each file; for -delete as `ffs rm --json`
    #[arg(long)]
    json: bool,
    /// Print IMAGE:/PATH, the form that the commands of ffs take
    #[arg(long, conflicts_with = "json")]
    prefix: bool,
    /// Do not follow symbolic links (the default)
    #[arg(short = 'P', overrides_with_all = ["follow", "follow_first"])]
    physical: bool,
    /// Follow the symbolic links that are arguments
    #[arg(short = 'H', overrides_with_all = ["follow", "physical"])]
    follow_first: bool,
    /// Follow all symbolic links inside the image: tests are for what they lead to
    #[arg(short = 'L', overrides_with_all = ["follow_first", "physical"])]
    follow: bool,
    /// Extended regular expressions (the default)
    #[arg(short = 'E')]
    extended: bool,
    /// As -depth: directories after what is in them
    #[arg(short = 'd')]
    depth: bool,
    /// The names of a directory in their order (always so)
    #[arg(short = 's')]
    sorted: bool,
    /// Do not enter other file systems (an image has none)
    #[arg(short = 'x')]
    one_file_system: bool,
    /// IMAGE[@N][:/path], and then an expression
    #[arg(
        required = true,
        value_name = "IMAGE:/PATH",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

impl Args {
    /// Whether a symbolic link that is an argument is followed.
    fn follows_first(&self) -> bool {
        self.follow || self.follow_first
    }
}

pub(crate) fn run(mut args: Args) -> Outcome {
    let is_expression = |word: &OsString| {
        let bytes = word.as_bytes();
        // Standard input: `-`, `-@2`, `-:/etc`.
        let stdin = bytes == b"-" || [b"-@", b"-:"].iter().any(|start| bytes.starts_with(*start));
        bytes.starts_with(b"-") && !stdin || matches!(bytes, b"(" | b")" | b"!" | b",")
    };
    let at = args.words.iter().position(is_expression).unwrap_or(args.words.len());
    let words = args.words.split_off(at);
    if args.words.is_empty() && current::in_shell() {
        args.words.push(OsString::new());
    }
    if args.words.is_empty() {
        return Err(Failure::usage("an IMAGE or IMAGE:/PATH is needed before the expression"));
    }
    if args.json && words::has(&words, "-printf") {
        return Err(Failure::usage("-printf: it cannot be used with --json"));
    }
    let deletes = words::has(&words, "-delete");
    if deletes && args.follows_first() {
        // As on FreeBSD: the search would enter other directories, and remove what is in them.
        let why = "-delete: it cannot be used with -L or -H, by which links lead elsewhere";
        return Err(Failure::usage(why).hint("leave the option out to remove the links"));
    }
    if words::deletes_before_tests(&words) {
        output::warn(
            "-delete comes before the tests, so it removes every file; put -delete after the \
             tests (-nowarn hides this message)",
        );
    }
    let mut out = output::stdout();
    for arg in &args.words {
        let place = image_path(arg)?;
        let (session, spec) = match deletes {
            true => (Session::write(&place.image)?, place),
            false => Session::read_at(&place, AtEnd::Root)?,
        };
        let now = ffs_device::Timestamp::from(SystemTime::now());
        let follow = args.follows_first();
        let (now, depth_first) = (now.secs, args.depth);
        let context = Context { session: &session, now, follow, depth_first };
        let result = parse::parse(&words, context).and_then(|expression| {
            let prefix = if args.prefix { prefix(&spec) } else { Vec::new() };
            let (session, out) = (&session, &mut out);
            let mut find = Find { session, args: &args, prefix, out, quit: false };
            find.tree(&spec.path, &expression)?;
            Ok(find.quit)
        });
        match session.finish_with(result) {
            Ok(true) => break,
            Ok(false) => {}
            Err(failure) if failure.code == 1 && !crate::signals::interrupted() => {
                output::error(failure.text);
            }
            Err(failure) => return Err(failure),
        }
    }
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

/// What precedes the paths with `--prefix`. In a shell they are paths of the open image.
fn prefix(place: &ImagePath) -> Vec<u8> {
    if current::in_shell() { Vec::new() } else { [place.image.as_bytes(), b":"].concat() }
}

struct Find<'a, W: Write> {
    session: &'a Session,
    args: &'a Args,
    /// What precedes each path.
    prefix: Vec<u8>,
    out: &'a mut W,
    quit: bool,
}

impl<W: Write> Find<'_, W> {
    fn tree(&mut self, path: &[u8], expression: &Expression) -> Result<(), Failure> {
        let follow = self.args.follows_first();
        let behind = if follow { self.session.find_opt(path, Last::Follow)? } else { None };
        let root = match behind {
            Some(root) => root,
            None => self.session.find(path, Last::Keep)?,
        };
        let start = path;
        walk_with(self.session, path, root, self.args.follow, &mut |step| {
            let (visit, before) = match &step {
                Step::Before(visit) => (visit, true),
                Step::After(visit) => (visit, false),
            };
            let is_dir = visit.attr.kind == FileType::Directory;
            let deeper = visit.depth < expression.max_depth;
            // With -depth a directory follows its entries, if it is entered.
            let now = if expression.depth_first && is_dir && deeper { !before } else { before };
            let mut enter = deeper;
            if now && visit.depth >= expression.min_depth {
                enter &= self.file(visit, expression, start)?;
            }
            Ok(match (self.quit, enter) {
                (true, _) => Next::Stop,
                (false, true) => Next::Enter,
                (false, false) => Next::Skip,
            })
        })
    }

    /// Evaluates the expression for a file. Returns whether a directory may be entered; `-quit`
    /// sets [`Find::quit`].
    fn file(
        &mut self,
        visit: &Visit<'_>,
        expression: &Expression,
        start: &[u8],
    ) -> Result<bool, Failure> {
        let session = self.session;
        let followed = self.args.follow || self.args.follow_first && visit.depth == 0;
        let mut found = Found { session, visit, actions: Vec::new(), followed, quit: false };
        let holds = expression.root.holds(&mut found)?;
        self.quit = found.quit;
        let mut actions = found.actions;
        if holds && !expression.prints {
            actions.push(Action::Print);
        }
        if self.args.json {
            self.print_json(visit, &actions)?;
        }
        let mut enter = true;
        for action in actions {
            match action {
                Action::Prune => enter = expression.depth_first,
                // They are done when the expression is evaluated.
                Action::Quit | Action::Delete | Action::Removed(_) => {}
                _ if self.args.json => {}
                Action::Print => self.print(visit, b"\n")?,
                Action::Printf(format) => {
                    format.print(self.out, session, visit, (start, &self.prefix))?;
                }
                Action::Print0 => {
                    self.out.write_all(&self.prefix)?;
                    self.out.write_all(visit.path)?;
                    self.out.write_all(b"\0")?;
                }
                Action::Ls => self.print_long(visit)?,
            }
        }
        Ok(enter)
    }

    fn print(&mut self, visit: &Visit<'_>, end: &[u8]) -> Result<(), Failure> {
        output::name(self.out, &self.prefix)?;
        output::name(self.out, visit.path)?;
        self.out.write_all(end)?;
        Ok(())
    }

    /// Prints one object for a file, for any number of actions.
    fn print_json(&mut self, visit: &Visit<'_>, actions: &[Action]) -> Result<(), Failure> {
        let removed = actions.iter().find_map(|action| match action {
            Action::Removed(before) => Some(before),
            _ => None,
        });
        if let Some(before) = removed {
            return changes::removed(self.out, visit.path, before);
        }
        if actions.iter().all(|action| matches!(action, Action::Prune)) {
            return Ok(());
        }
        let target = link_text(self.session, visit);
        output::json_line(self.out, &JsonFile::new(visit.path, visit.attr, target.as_deref()))
    }

    /// A line as that of `ls -dils`.
    fn print_long(&mut self, visit: &Visit<'_>) -> Result<(), Failure> {
        let a = visit.attr;
        let size = match a.kind.is_device() {
            true => output::device(a),
            false => a.size.to_string(),
        };
        write!(
            self.out,
            "{:>8} {:>8} {} {:>3} {:>6} {:>6} {size:>12} {} ",
            a.ino.0,
            a.blocks,
            output::mode_string(a.kind, a.perm),
            a.nlink,
            a.uid,
            a.gid,
            output::time(a.mtime, false)
        )?;
        let target = link_text(self.session, visit);
        self.print(visit, b"")?;
        if let Some(target) = target {
            self.out.write_all(b" -> ")?;
            output::name(self.out, &target)?;
        }
        self.out.write_all(b"\n")?;
        Ok(())
    }
}
