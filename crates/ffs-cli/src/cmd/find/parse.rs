//! Reading the expression of `ffs find`: the words after the paths.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use ffs_core::{Attr, FileType, QuotaType};
use globset::{GlobBuilder, GlobMatcher};
use regex::bytes::{Regex, RegexBuilder};

use super::expression::{Action, Expression, Node, Test, Which};
use crate::current;
use crate::fail::{Failure, show};
use crate::namei::Last;
use crate::owner::{id_of, names};
use crate::parse::find::{DAY, bits, number, size, time};
use crate::parse::mode::ModeChange;
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
            deletes: false,
            prunes: false,
        },
        named_depth: false,
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
    session: &'a Session,
    now: i64,
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
        let file = self.session.find(path, Last::Keep)?;
        Ok(self.session.ffs.getattr(&file))
    }

    fn primary(&mut self, word: &str) -> Result<Node, Failure> {
        if let Some(node) = self.without_value(word)? {
            return Ok(node);
        }
        if ["-exec", "-execdir", "-ok", "-okdir"].contains(&word) {
            let why = "commands of the host cannot reach the files of an image";
            let hint = "pipe the paths: ffs find --prefix ... -print0 | xargs -0 ffs COMMAND";
            return Err(Failure::usage(format!("{word}: {why}")).hint(hint));
        }
        if !takes_value(word) {
            let nearest = ffs_core::nearest(word, VALUED.iter().chain(PLAIN).copied());
            let hint = ffs_core::suggestion(nearest);
            return Err(Failure::usage(format!("{word}: no such test or action{hint}")));
        }
        let value = self.value(word)?;
        let wrong = |expected: &str| {
            Failure::usage(format!("{word} {}: {expected} is expected", show(value.as_bytes())))
        };
        let count = || number(&value).ok_or_else(|| wrong("a number, perhaps with + or -"));
        if let Some(test) = self.of_the_image(word, &value)? {
            return Ok(Node::Test(test));
        }
        if word == "-type" {
            return kinds(&value).ok_or_else(|| wrong("one of b, c, d, f, l, p, s, or f,l"));
        }
        let depth = || value.parse().map_err(|_| wrong("a number"));
        Ok(Node::Test(match word {
            "-name" | "-path" | "-wholename" | "-lname" | "-iname" | "-ipath" | "-ilname" => {
                let fold = word.starts_with("-i");
                let glob = glob(&value, fold).ok_or_else(|| wrong("a pattern such as '*.c'"))?;
                match word.trim_start_matches("-i").trim_start_matches('-') {
                    "name" => Test::Name(glob),
                    "lname" => Test::Link(glob),
                    _ => Test::Path(glob),
                }
            }
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
        let id = |kind| id_of(Some(self.session), kind, value);
        Ok(Some(match word {
            "-samefile" => Test::Same(self.file(value)?.ino),
            "-user" => Test::User(id(QuotaType::User)?),
            "-group" => Test::Group(id(QuotaType::Group)?),
            _ => return Ok(None),
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

    fn without_value(&mut self, word: &str) -> Result<Option<Node>, Failure> {
        let all = |kind| names(Some(self.session), kind);
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
                    "-true" => Test::Always(true),
                    "-false" => Test::Always(false),
                    "-nouser" => Test::NoUser(all(QuotaType::User)?),
                    "-nogroup" => Test::NoGroup(all(QuotaType::Group)?),
                    "-depth" | "-d" => {
                        self.expression.depth_first = true;
                        self.named_depth = true;
                        Test::Always(true)
                    }
                    _ => return Ok(None),
                })));
            }
        };
        self.expression.prints |= !matches!(action, Action::Prune | Action::Quit);
        self.expression.deletes |= action == Action::Delete;
        self.expression.prunes |= action == Action::Prune;
        Ok(Some(Node::Action(action)))
    }
}

/// Whether `words` have the action -delete, so that the image is to be changed.
pub(super) fn deletes(words: &[OsString]) -> bool {
    let mut words = words.iter().map(|word| word.to_str().unwrap_or_default());
    while let Some(word) = words.next() {
        if word == "-delete" {
            return true;
        }
        if takes_value(word) {
            words.next();
        }
    }
    false
}

fn takes_value(word: &str) -> bool {
    VALUED.contains(&word) || newer(word).is_some()
}

/// The times that -newerXY compares: X of the file, and Y of the other one, or none for `t`.
fn newer(word: &str) -> Option<(Which, Option<Which>)> {
    let which = |letter| {
        Some(match letter {
            b'a' => Which::Access,
            b'B' => Which::Birth,
            b'c' => Which::Change,
            b'm' => Which::Modification,
            _ => return None,
        })
    };
    match word {
        "-newer" => Some((Which::Modification, Some(Which::Modification))),
        "-anewer" => Some((Which::Access, Some(Which::Modification))),
        "-cnewer" => Some((Which::Change, Some(Which::Modification))),
        _ => match word.strip_prefix("-newer")?.as_bytes() {
            [x, b't'] => Some((which(*x)?, None)),
            [x, y] => Some((which(*x)?, Some(which(*y)?))),
            _ => None,
        },
    }
}

const PLAIN: &[&str] = &[
    "-print", "-print0", "-ls", "-prune", "-quit", "-delete", "-empty", "-nouser", "-nogroup",
    "-true", "-false", "-depth",
];
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
    "-anewer",
    "-cnewer",
    "-samefile",
    "-regex",
    "-iregex",
    "-lname",
    "-ilname",
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

/// An extended regular expression for a whole path; none if it is not valid.
fn regex(text: &str, fold: bool) -> Option<Regex> {
    // A parenthesis of `text` must not close that around it.
    Regex::new(text).ok()?;
    let mut builder = RegexBuilder::new(&format!("^(?:{text})$"));
    builder.case_insensitive(fold).dot_matches_new_line(true).build().ok()
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
        let delete =
            |words: &[&str]| deletes(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(delete(&["-delete"]) && delete(&["-name", "-name", "-delete"]));
        assert!(!delete(&["-name", "-delete"]) && !delete(&["-newerat", "-delete", "-print"]));
        let is = |text: &str, path: &str| regex(text, false).unwrap().is_match(path.as_bytes());
        assert!(is("/a.*|b", "/a\nb") && is("/(a|ab)", "/ab") && !is("/a", "/ab"));
        assert!(
            regex("a)|(b", false).is_none() && regex("É", true).unwrap().is_match("é".as_bytes())
        );
        assert!(glob("ab", true).unwrap().is_match("aB") && glob("[", false).is_none());
    }
}
