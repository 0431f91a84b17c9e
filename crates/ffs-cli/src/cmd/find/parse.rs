//! Reading the expression of `ffs find`: the words after the paths.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use ffs_core::{Attr, FileType, QuotaType};
use regex::bytes::{Regex, RegexBuilder};

use super::expression::{Action, Expression, Node, Test, Which};
use super::fnmatch;
use super::printf::Format;
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

/// The values of -regextype with which GNU's find reads the syntax that `ffs find` reads.
const EXTENDED: &[&str] =
    &["posix-extended", "posix-egrep", "egrep", "posix-awk", "awk", "gnu-awk"];

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
    };
    if !texts.is_empty() {
        parser.expression.root = parser.any()?;
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
            let ends = matches!(self.peek(), None | Some("-o" | "-or" | ")"));
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
            let inside = self.any()?;
            if !self.skip(&[")"]) {
                return Err(Failure::usage("a closing parenthesis is missing"));
            }
            inside
        } else {
            let word = self.peek().map(str::to_owned);
            let word = word.ok_or_else(|| Failure::usage("the expression ends too early"))?;
            if matches!(&*word, ")" | "-o" | "-or" | "-a" | "-and") {
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

    /// The attributes of the file at `path`.
    fn file(&self, path: &str) -> Result<Attr, Failure> {
        let inside = current::inside(OsStr::new(path)).map(|(_, path)| path);
        let path = inside.as_deref().unwrap_or(path.as_bytes());
        let session = self.context.session;
        let behind = if self.context.follow { session.find_opt(path, Last::Follow)? } else { None };
        let file = match behind {
            Some(file) => file,
            // A link that leads to nothing is the file itself.
            None => session.find(path, Last::Keep)?,
        };
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
        if word == "-type" {
            return kinds(&value).ok_or_else(|| wrong("one of b, c, d, f, l, p, s, or f,l"));
        }
        let depth = || value.parse().map_err(|_| wrong("a number"));
        Ok(Node::Test(match word {
            "-name" | "-path" | "-wholename" | "-lname" | "-iname" | "-ipath" | "-ilname" => {
                let fold = word.starts_with("-i");
                let glob = fnmatch::compile(&value, fold)
                    .ok_or_else(|| wrong("a pattern such as '*.c'"))?;
                match word.trim_start_matches("-i").trim_start_matches('-') {
                    "name" => Test::Name(glob),
                    "lname" => Test::Link(glob),
                    _ => Test::Path(glob),
                }
            }
            "-regextype" if EXTENDED.contains(&&*value) => Test::Always(true),
            "-regextype" => return Err(wrong("posix-extended, which is the default,")),
            "-regex" | "-iregex" => {
                let regex = regex(&value, word == "-iregex");
                Test::Regex(regex.ok_or_else(|| wrong("an extended regular expression"))?)
            }
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
            "-maxdepth" => {
                self.expression.max_depth = depth()?;
                Test::Always(true)
            }
            "-mindepth" => {
                self.expression.min_depth = depth()?;
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
        let unit = if word.ends_with("min") { 60 } else { DAY };
        let (number, unit) = time(value, unit)?;
        Some(Test::Age(which, number, unit, self.context.now))
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
                    "-true" | "-xdev" | "-mount" | "-warn" | "-nowarn" => Test::Always(true),
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
fn kinds(text: &str) -> Option<Node> {
    let tests = text.split(',').map(|one| kind(one).map(|kind| Node::Test(Test::Type(kind))));
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

/// An extended regular expression for a whole path; none if it is not valid.
fn regex(text: &str, fold: bool) -> Option<Regex> {
    // A parenthesis of `text` must not close that around it.
    Regex::new(text).ok()?;
    let mut builder = RegexBuilder::new(&format!("^(?:{text})$"));
    builder.case_insensitive(fold).dot_matches_new_line(true).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_expressions_are_for_whole_paths() {
        let is = |text: &str, path: &str| regex(text, false).unwrap().is_match(path.as_bytes());
        assert!(is("/a.*|b", "/a\nb") && is("/(a|ab)", "/ab") && !is("/a", "/ab"));
        assert!(
            regex("a)|(b", false).is_none() && regex("É", true).unwrap().is_match("é".as_bytes())
        );
    }
}
