//! Reading the expression of `ffs find`: the words after the paths.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use ffs_core::{FileType, QuotaType, Timespec};
use globset::{GlobBuilder, GlobMatcher};

use super::expression::{Action, Expression, Node, Test, Which};
use crate::current;
use crate::fail::{Failure, show};
use crate::namei::Last;
use crate::owner::id_of;
use crate::parse::find::{DAY, bits, number, size, time};
use crate::session::Session;
use bsdffs::flags;

/// Parentheses and negations in each other at most.
const DEEPEST: usize = 100;

/// Reads the expression. `session` has the files and the owners that it names; ages are relative
/// to `now`.
///
/// # Errors
/// A word is unknown, or its value is wrong.
pub(super) fn parse(
    words: &[OsString],
    session: &Session,
    now: i64,
) -> Result<Expression, Failure> {
    let texts: Vec<String> = words.iter().map(text).collect::<Result<_, _>>()?;
    let mut parser = Parser {
        words: &texts,
        at: 0,
        deep: 0,
        session,
        now,
        expression: Expression {
            root: Node::Test(Test::Always(true)),
            prints: false,
            max_depth: usize::MAX,
            min_depth: 0,
            depth_first: false,
        },
    };
    if !texts.is_empty() {
        parser.expression.root = parser.any()?;
    }
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
    session: &'a Session,
    now: i64,
    expression: Expression,
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

    /// The modification time of the file at `path`.
    fn newer(&self, path: &str) -> Result<Timespec, Failure> {
        let inside = current::inside(OsStr::new(path)).map(|(_, path)| path);
        let path = inside.as_deref().unwrap_or(path.as_bytes());
        let file = self.session.find(path, Last::Keep)?;
        Ok(self.session.ffs.getattr(&file).mtime)
    }

    fn primary(&mut self, word: &str) -> Result<Node, Failure> {
        if let Some(node) = self.without_value(word) {
            return Ok(node);
        }
        if !VALUED.contains(&word) {
            let nearest = ffs_core::nearest(word, VALUED.iter().chain(PLAIN).copied());
            let hint = ffs_core::suggestion(nearest);
            return Err(Failure::usage(format!("{word}: no such test or action{hint}")));
        }
        let value = self.value(word)?;
        let wrong = |expected: &str| {
            Failure::usage(format!("{word} {}: {expected} is expected", show(value.as_bytes())))
        };
        let count = || number(&value).ok_or_else(|| wrong("a number, perhaps with + or -"));
        if word == "-type" {
            return kinds(&value).ok_or_else(|| wrong("one of b, c, d, f, l, p, s, or f,l"));
        }
        let depth = || value.parse().map_err(|_| wrong("a number"));
        Ok(Node::Test(match word {
            "-name" | "-path" | "-wholename" | "-iname" | "-ipath" => {
                let fold = word.starts_with("-i");
                let glob = glob(&value, fold).ok_or_else(|| wrong("a pattern such as '*.c'"))?;
                if word.ends_with("ame") && word != "-wholename" {
                    Test::Name(glob)
                } else {
                    Test::Path(glob)
                }
            }
            "-size" => {
                let size = size(&value).ok_or_else(|| wrong("a size such as 100, +4k or -1G"));
                size.map(|(number, unit)| Test::Size(number, unit))?
            }
            "-links" => Test::Links(count()?),
            "-inum" => Test::Inode(count()?),
            "-uid" => Test::Uid(count()?),
            "-gid" => Test::Gid(count()?),
            "-user" => Test::User(id_of(Some(self.session), QuotaType::User, &value)?),
            "-group" => Test::Group(id_of(Some(self.session), QuotaType::Group, &value)?),
            "-perm" => {
                let (bits, mode) = bits(&value);
                let mode = crate::bsd::mode(mode).map_err(|_| wrong("a mode such as 644 or -4000"));
                Test::Perm(bits, mode?)
            }
            "-flags" => {
                let (bits, names) = bits(&value);
                let flags = flags::from_text(names).ok_or_else(|| wrong("flags such as uchg"));
                Test::Flags(bits, flags?)
            }
            "-newer" => Test::Newer(self.newer(&value)?),
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
        Some(Test::Age(which, number, unit, self.now))
    }

    fn without_value(&mut self, word: &str) -> Option<Node> {
        let action = match word {
            "-print" => Action::Print,
            "-print0" => Action::Print0,
            "-ls" => Action::Ls,
            "-prune" => Action::Prune,
            "-quit" => Action::Quit,
            "-empty" => return Some(Node::Test(Test::Empty)),
            "-true" => return Some(Node::Test(Test::Always(true))),
            "-false" => return Some(Node::Test(Test::Always(false))),
            "-depth" | "-d" => {
                self.expression.depth_first = true;
                return Some(Node::Test(Test::Always(true)));
            }
            _ => return None,
        };
        self.expression.prints |= !matches!(action, Action::Prune | Action::Quit);
        Some(Node::Action(action))
    }
}

const PLAIN: &[&str] =
    &["-print", "-print0", "-ls", "-prune", "-quit", "-empty", "-true", "-false", "-depth"];
const VALUED: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-type",
    "-size",
    "-links",
    "-inum",
    "-uid",
    "-gid",
    "-user",
    "-group",
    "-perm",
    "-flags",
    "-newer",
    "-maxdepth",
    "-mindepth",
    "-mtime",
    "-atime",
    "-ctime",
    "-Btime",
    "-mmin",
    "-amin",
    "-cmin",
    "-Bmin",
];

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

/// A pattern of the shell; none if it is not valid.
fn glob(pattern: &str, fold: bool) -> Option<GlobMatcher> {
    // As fnmatch(3) without flags: `*` matches `/`, and braces have no meaning.
    let plain = pattern.replace('{', "[{]").replace('}', "[}]");
    let mut builder = GlobBuilder::new(&plain);
    builder.case_insensitive(fold).literal_separator(false).backslash_escape(true);
    builder.build().ok().map(|glob| glob.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_the_shell() {
        let is = |pattern: &str, name: &str| glob(pattern, false).unwrap().is_match(name);
        assert!(is("*.c", ".hidden.c") && is("a?[bc]*", "axb") && is("*", "a/b"));
        assert!(is("{a,b}", "{a,b}") && !is("{a,b}", "a"));
        assert!(is(r"\*", "*") && !is(r"\*", "x"));
        assert!(glob("ab", true).unwrap().is_match("aB") && glob("[", false).is_none());
    }
}
