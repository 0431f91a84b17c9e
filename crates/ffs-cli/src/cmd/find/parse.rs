//! Reading the expression of `ffs find`: the words after the paths.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use ffs_core::{Attr, FileType, QuotaType};

use super::expression::{Action, Expression, Node, Test, Which};
use super::fnmatch::{self, Pattern};
use super::printf::Format;
use super::regex::Syntax;
use super::words::{PLAIN, VALUED, newer, takes_value};
use crate::current;
use crate::fail::{Failure, shell_word, show};
use crate::namei::Last;
use crate::owner::{self, names_of};
use crate::parse::accounts::look_up;
use crate::parse::find::{DAY, bits, number, size, time};
use crate::parse::mode::ModeChange;
use crate::session::Session;
use bsdffs::flags;

/// Parentheses and negations in each other at most.
const DEEPEST: usize = 100;

/// The operators that have a part before them.
const BINARY: &[&str] = &["-o", "-or", "-a", "-and", ","];

/// What an expression refers to.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// It has the files and the owners that the expression names.
    pub(super) session: &'a Session,
    /// Ages are relative to this time.
    pub(super) now: i64,
    /// -H or -L: a symbolic link as the value of a test is that to which it leads.
    pub(super) follow: bool,
    /// -d: as -depth in the expression.
    pub(super) depth_first: bool,
}

/// Reads the expression.
///
/// # Errors
/// A word is unknown, or its value is wrong.
pub(super) fn parse(words: &[OsString], context: Context<'_>) -> Result<Expression, Failure> {
    let texts: Vec<String> = words.iter().map(text).collect::<Result<_, _>>()?;
    let mut parser = Parser {
        words: &texts,
        at: 0,
        deep: 0,
        context,
        expression: Expression {
            root: Node::Test(Test::Always(true)),
            prints: false,
            max_depth: usize::MAX,
            min_depth: 0,
            depth_first: context.depth_first,
            deletes: false,
            prunes: false,
        },
        named_depth: context.depth_first,
        day_start: false,
        syntax: Syntax::default(),
    };
    if !texts.is_empty() {
        parser.expression.root = parser.list()?;
    }
    let Expression { deletes, prunes, depth_first, .. } = parser.expression;
    if deletes && prunes && !parser.named_depth {
        let why = "-delete implies -depth, with which -prune has no effect";
        return Err(Failure::usage(why).hint("give -depth to delete what -prune would leave out"));
    }
    parser.expression.depth_first = depth_first || deletes;
    match texts.get(parser.at) {
        Some(word) => Err(Failure::usage(format!("{word}: it is not expected here"))),
        None => Ok(parser.expression),
    }
}

fn text(word: &OsString) -> Result<String, Failure> {
    let bad = || Failure::usage(format!("{}: not UTF-8", show(word.as_bytes())));
    word.to_str().map(str::to_owned).ok_or_else(bad)
}

struct Parser<'a> {
    words: &'a [String],
    at: usize,
    deep: usize,
    context: Context<'a>,
    expression: Expression,
    /// -depth is in the expression.
    named_depth: bool,
    /// -daystart is before this word.
    day_start: bool,
    /// The last -regextype before this word.
    syntax: Syntax,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(String::as_str)
    }

    /// Whether the next word is one of `words`, which is then read.
    fn skip(&mut self, words: &[&str]) -> bool {
        let found = self.peek().is_some_and(|word| words.contains(&word));
        self.at += usize::from(found);
        found
    }

    /// Parts with commas between them.
    fn list(&mut self) -> Result<Node, Failure> {
        let mut parts = vec![self.any()?];
        while self.skip(&[","]) {
            parts.push(self.any()?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Node::List(parts) })
    }

    /// Parts with -o between them.
    fn any(&mut self) -> Result<Node, Failure> {
        let mut parts = vec![self.all()?];
        while self.skip(&["-o", "-or"]) {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Node::Any(parts) })
    }

    /// Parts with -a or nothing between them.
    fn all(&mut self) -> Result<Node, Failure> {
        let mut parts = vec![self.part()?];
        loop {
            let joined = self.skip(&["-a", "-and"]);
            let ends = matches!(self.peek(), None | Some("-o" | "-or" | "," | ")"));
            if ends && !joined {
                return Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Node::All(parts) });
            }
            parts.push(self.part()?);
        }
    }

    fn part(&mut self) -> Result<Node, Failure> {
        self.deep += 1;
        if self.deep > DEEPEST {
            return Err(Failure::usage("too many parentheses or negations in each other"));
        }
        let node = if self.skip(&["!", "-not"]) {
            Node::Not(Box::new(self.part()?))
        } else if self.skip(&["("]) {
            let inside = self.list()?;
            if !self.skip(&[")"]) {
                return Err(Failure::usage("a closing parenthesis is missing"));
            }
            inside
        } else {
            let word = self.peek().map(str::to_owned);
            let word = word.ok_or_else(|| Failure::usage("the expression ends too early"))?;
            if word == ")" || BINARY.contains(&&*word) {
                return Err(Failure::usage(format!(
                    "{word}: a test or an action is missing before it"
                )));
            }
            self.at += 1;
            self.primary(&word)?
        };
        self.deep -= 1;
        Ok(node)
    }

    /// The value of the test `word`.
    fn value(&mut self, word: &str) -> Result<String, Failure> {
        let value = self.peek().map(str::to_owned);
        self.at += 1;
        value.ok_or_else(|| Failure::usage(format!("{word}: its value is missing")))
    }

    /// The attributes of the file that a value names: a path in the image.
    fn file(&self, name: &str) -> Result<Attr, Failure> {
        let inside = current::inside(OsStr::new(name)).map(|(_, path)| path);
        let path = inside.as_deref().unwrap_or(name.as_bytes());
        let session = self.context.session;
        let behind = if self.context.follow { session.find_opt(path, Last::Follow)? } else { None };
        let file = match behind {
            Some(file) => Ok(file),
            // A link that leads to nothing is the file itself.
            None => session.find(path, Last::Keep),
        };
        let file = file.map_err(|failure| match name.split_once(":/") {
            Some((_, inside)) if !current::in_shell() => {
                failure.hint(format!("a file in an expression is a path of the image: /{inside}"))
            }
            _ => failure,
        })?;
        Ok(session.ffs.getattr(&file))
    }

    fn primary(&mut self, word: &str) -> Result<Node, Failure> {
        if let Some(node) = self.without_value(word)? {
            return Ok(node);
        }
        check_word(word)?;
        let value = self.value(word)?;
        let wrong = |expected: &str| {
            Failure::usage(format!("{word} {}: {expected} is expected", show(value.as_bytes())))
        };
        let count = || number(&value).ok_or_else(|| wrong("a number, perhaps with + or -"));
        if let Some(test) = self.of_the_image(word, &value)? {
            return Ok(Node::Test(test));
        }
        if word == "-printf" {
            self.expression.prints = true;
            let format = Format::new(&value, self.context.session)?;
            return Ok(Node::Action(Action::Printf(Rc::new(format))));
        }
        if word == "-type" || word == "-xtype" {
            let test = if word == "-type" { Test::Type } else { Test::OtherType };
            return kinds(&value, test).ok_or_else(|| wrong("one of b, c, d, f, l, p, s, or f,l"));
        }
        Ok(Node::Test(match word {
            "-name" | "-path" | "-wholename" | "-lname" | "-iname" | "-ipath" | "-iwholename"
            | "-ilname" => {
                let fold = word.starts_with("-i");
                let glob = fnmatch::compile(&value, fold)
                    .ok_or_else(|| wrong("a pattern such as '*.c'"))?;
                match word.trim_start_matches("-i").trim_start_matches('-') {
                    "name" => Test::Name(glob),
                    "lname" => Test::Link(glob),
                    _ => Test::Path(glob),
                }
            }
            "-regextype" => {
                let expected = "posix-extended (the default), posix-basic or emacs";
                self.syntax = Syntax::named(&value).ok_or_else(|| wrong(expected))?;
                Test::Always(true)
            }
            "-regex" | "-iregex" => Test::Regex(self.regex(word, &value)?),
            "-size" => {
                let size = size(&value).ok_or_else(|| wrong("a size such as 100, +4k or -1G"));
                size.map(|(number, unit)| Test::Size(number, unit))?
            }
            "-links" => Test::Links(count()?),
            "-inum" => Test::Inode(count()?),
            "-uid" => Test::Uid(count()?),
            "-gid" => Test::Gid(count()?),
            "-perm" => {
                let (bits, mode) = bits(&value);
                // A change of the mode 0 names the bits.
                let named = ModeChange::parse(mode).map(|change| change.apply(0, false, 0));
                Test::Perm(bits, named.map_err(|_| wrong("a mode such as 644, -4000 or /u+s,g+s"))?)
            }
            "-flags" => {
                let (bits, names) = bits(&value);
                let flags = flags::from_text(names).ok_or_else(|| wrong("flags such as uchg"));
                Test::Flags(bits, flags?)
            }
            "-maxdepth" | "-mindepth" => {
                let depth = value.parse().map_err(|_| wrong("a number"))?;
                match word {
                    "-maxdepth" => self.expression.max_depth = depth,
                    _ => self.expression.min_depth = depth,
                }
                Test::Always(true)
            }
            age => self.age(age, &value).ok_or_else(|| wrong("a number such as 7, +30 or -2h"))?,
        }))
    }

    /// A test whose value is a file, an owner or a group of the image; none if `word` is another.
    fn of_the_image(&self, word: &str, value: &str) -> Result<Option<Test>, Failure> {
        if let Some((which, other)) = newer(word) {
            let time = match other {
                Some(other) => other.of(&self.file(value)?),
                None => crate::cmd::touch::iso(value)
                    .map_err(|why| Failure::usage(format!("{word}: {why}")))?,
            };
            return Ok(Some(Test::Newer(which, time)));
        }
        Ok(Some(match word {
            "-samefile" => Test::Same(self.file(value)?.ino),
            "-user" => Test::User(self.owner(word, QuotaType::User, value)?),
            "-group" => Test::Group(self.owner(word, QuotaType::Group, value)?),
            _ => return Ok(None),
        }))
    }

    fn regex(&self, word: &str, value: &str) -> Result<Pattern, Failure> {
        self.syntax.compile(value, word == "-iregex").map_err(|why| {
            let (value, name) = (show(value.as_bytes()), self.syntax.name());
            Failure::usage(format!("{word} {value}: {why}"))
                .hint(format!("the expression is read as {name}; -regextype chooses another"))
        })
    }

    /// The number of the owner `value`. Names of the host do not count: they are those of another
    /// system, and a search may be the beginning of a removal.
    fn owner(&self, word: &str, kind: QuotaType, value: &str) -> Result<u32, Failure> {
        let session = self.context.session;
        let text = owner::file_inside(session, kind)?;
        if let Some(named) = look_up(text.as_deref().unwrap_or_default(), value) {
            return Ok(named.id);
        }
        let (file, what) = owner::place(kind);
        let (word, image) = (format!("{word} {}", show(value.as_bytes())), session.image());
        if text.is_none() {
            let why = format!("{word}: {image} has no {file} to look the name up in");
            return Err(Failure::usage(why).hint("give a number"));
        }
        let why = format!("{word}: no such {what} in {file} of {image}");
        let print = shell_word(&format!("{image}:{file}")).into_owned();
        let hint = format!("print the names with `ffs cat {print}`, or give a number");
        Err(Failure::usage(why).hint(hint))
    }

    /// The owners that the image has names for, which -nouser and -nogroup leave out.
    fn known(&self, word: &str, kind: QuotaType) -> Result<BTreeMap<u32, String>, Failure> {
        let session = self.context.session;
        let text = owner::file_inside(session, kind)?;
        let names = names_of(text.as_deref().unwrap_or_default());
        if names.is_empty() {
            let (file, what) = owner::place(kind);
            let lacks = match text {
                Some(_) => format!("{file} of {} names no {what}", session.image()),
                None => format!("{} has no {file}", session.image()),
            };
            let test = if kind == QuotaType::User { "-uid" } else { "-gid" };
            let why = format!("{word}: {lacks}, so that every {what} would be unknown");
            return Err(Failure::usage(why).hint(format!("test numbers, as in {test} +1000")));
        }
        Ok(names)
    }

    /// The test `-mtime`, `-amin` and so on.
    fn age(&self, word: &str, value: &str) -> Option<Test> {
        let which = match word.as_bytes().get(1) {
            Some(b'a') => Which::Access,
            Some(b'c') => Which::Change,
            Some(b'B') => Which::Birth,
            _ => Which::Modification,
        };
        let minutes = word.ends_with("min");
        let (number, unit) = time(value, if minutes { 60 } else { DAY })?;
        let now = self.context.now;
        let midnight = now.saturating_sub(now.rem_euclid(DAY));
        // As in GNU's find: minutes before the end of today, and today is the day 0.
        let now = match (self.day_start, minutes) {
            (false, _) => now,
            (true, true) => midnight.saturating_add(DAY),
            (true, false) => midnight,
        };
        Some(Test::Age(which, number, unit, now))
    }

    fn without_value(&mut self, word: &str) -> Result<Option<Node>, Failure> {
        let action = match word {
            "-print" => Action::Print,
            "-print0" => Action::Print0,
            "-ls" => Action::Ls,
            "-prune" => Action::Prune,
            "-quit" => Action::Quit,
            "-delete" => Action::Delete,
            word => {
                return Ok(Some(Node::Test(match word {
                    "-empty" => Test::Empty,
                    "-true"
                    | "-xdev"
                    | "-mount"
                    | "-warn"
                    | "-nowarn"
                    | "-noleaf"
                    | "-ignore_readdir_race"
                    | "-noignore_readdir_race" => Test::Always(true),
                    "-daystart" => {
                        self.day_start = true;
                        Test::Always(true)
                    }
                    "-false" => Test::Always(false),
                    "-nouser" => Test::NoUser(self.known(word, QuotaType::User)?),
                    "-nogroup" => Test::NoGroup(self.known(word, QuotaType::Group)?),
                    "-depth" | "-d" => {
                        // As on BSD, a number makes it a test.
                        if let Some(depth) = self.peek().and_then(number) {
                            self.at += 1;
                            return Ok(Some(Node::Test(Test::Depth(depth))));
                        }
                        self.expression.depth_first = true;
                        self.named_depth = true;
                        Test::Always(true)
                    }
                    _ => return Ok(None),
                })));
            }
        };
        self.expression.prints |= !matches!(action, Action::Prune | Action::Quit);
        self.expression.deletes |= matches!(action, Action::Delete);
        self.expression.prunes |= matches!(action, Action::Prune);
        Ok(Some(Node::Action(action)))
    }
}

/// Fails for a word that is no test or action with a value, and names what to write.
fn check_word(word: &str) -> Result<(), Failure> {
    if ["-exec", "-execdir", "-ok", "-okdir"].contains(&word) {
        let why = "commands of the host cannot reach the files of an image";
        let hint = "pipe the paths: ffs find --prefix ... -print0 | xargs -0 ffs COMMAND";
        return Err(Failure::usage(format!("{word}: {why}")).hint(hint));
    }
    if ["-L", "-H", "-P", "-E", "-s", "-x", "-follow"].contains(&word) {
        let why = format!("{word}: this option belongs before the image");
        let option = if word == "-follow" { "-L" } else { word };
        return Err(Failure::usage(why).hint(format!("write: ffs find {option} IMAGE ...")));
    }
    if !takes_value(word) {
        let nearest = ffs_core::nearest(word, VALUED.iter().chain(PLAIN).copied());
        let hint = ffs_core::suggestion(nearest);
        return Err(Failure::usage(format!("{word}: no such test or action{hint}")));
    }
    Ok(())
}

/// The test for one of the types in a list with commas.
fn kinds(text: &str, test: fn(FileType) -> Test) -> Option<Node> {
    let tests = text.split(',').map(|one| kind(one).map(|kind| Node::Test(test(kind))));
    tests.collect::<Option<Vec<_>>>().map(Node::Any)
}

fn kind(text: &str) -> Option<FileType> {
    Some(match text {
        "b" => FileType::Block,
        "c" => FileType::Char,
        "d" => FileType::Directory,
        "f" => FileType::Regular,
        "l" => FileType::Symlink,
        "p" => FileType::Fifo,
        "s" => FileType::Socket,
        _ => return None,
    })
}
