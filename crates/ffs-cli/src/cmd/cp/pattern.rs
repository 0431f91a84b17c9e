//! Patterns of `--exclude`, as rsync(1) has them.
//!
//! # Rules
//! 1. `/` in front ties the pattern to the top of the source; `/` at the end is for directories.
//! 2. A pattern with another `/`, or with `**`, is matched against the end of the path, from the
//!    beginning of a name on; any other one against the name alone.
//! 3. `*`, `?` and `[...]` do not match `/`. `**` as a whole name matches any number of names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// A pattern of names to leave out.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    glob: GlobMatcher,
    name_only: bool,
    at_top: bool,
    directories: bool,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn parse(text: &str) -> Result<Pattern, String> {
        let wrong = || format!("{text:?} is not a pattern such as '*.o', '/build' or 'obj/'");
        // `dir/***` is the directory and everything in it, which a directory is anyway.
        let (rest, directories) = match text.strip_suffix("/***").or(text.strip_suffix('/')) {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (rest, at_top) = match rest.strip_prefix('/') {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        if rest.is_empty() || rest.starts_with('/') {
            return Err(wrong());
        }
        let name_only = !at_top && !rest.contains('/') && !rest.contains("**");
        // As fnmatch(3), braces have no meaning.
        let mut plain = rest.replace('{', "[{]").replace('}', "[}]");
        if !at_top && !name_only && !plain.starts_with("**/") {
            plain.insert_str(0, "**/");
        }
        let mut builder = GlobBuilder::new(&plain);
        builder.literal_separator(true).backslash_escape(true);
        let glob = builder.build().map_err(|_| wrong())?.compile_matcher();
        Ok(Pattern { glob, name_only, at_top, directories })
    }

    /// Whether the pattern matches `path`, relative to the top of the source.
    fn matches(&self, path: &Path) -> bool {
        match self.name_only {
            true => path.file_name().is_some_and(|name| self.glob.is_match(name)),
            false => self.glob.is_match(path),
        }
    }
}

/// Whether a pattern for files of all types matches `path`.
pub(super) fn excludes(patterns: &[Pattern], path: &[u8]) -> bool {
    any(patterns, path, |pattern| !pattern.directories)
}

/// Whether a pattern for directories matches `path`, which is one.
pub(super) fn excludes_directory(patterns: &[Pattern], path: &[u8]) -> bool {
    any(patterns, path, |pattern| pattern.directories)
}

/// Whether the top of a source is left out by its `name`. A pattern with `/` in front is for what
/// is below.
pub(super) fn excludes_top(patterns: &[Pattern], name: &[u8], directory: bool) -> bool {
    any(patterns, name, |pattern| !pattern.at_top && (directory || !pattern.directories))
}

fn any(patterns: &[Pattern], path: &[u8], wanted: impl Fn(&Pattern) -> bool) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    patterns.iter().any(|pattern| wanted(pattern) && pattern.matches(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_rsync() {
        for (pattern, matched, others) in [
            ("*.o", &["a.o", "d/a.o"][..], &["a.o/b", "a.c"][..]),
            ("/a", &["a"], &["d/a", "a/b"]),
            ("/a/*.c", &["a/x.c"], &["a/b/x.c", "d/a/x.c"]),
            ("a/b", &["a/b", "d/a/b"], &["xa/b", "a/b/c"]),
            ("/**/b", &["b", "a/b", "a/c/b"], &["a/bc"]),
            ("a/**", &["a/b", "a/b/c", "d/a/b"], &["a", "xa/b"]),
            ("a{b}", &["a{b}"], &["ab"]),
            ("a?c", &["abc"], &["a/c"]),
            ("[ab]c", &["ac", "d/bc"], &["cc"]),
        ] {
            let patterns = [Pattern::parse(pattern).unwrap()];
            for path in matched {
                assert!(excludes(&patterns, path.as_bytes()), "{pattern} matches {path}");
            }
            for path in others {
                assert!(!excludes(&patterns, path.as_bytes()), "{pattern} does not match {path}");
            }
        }
    }

    #[test]
    fn a_slash_at_the_end_is_for_directories() {
        for pattern in ["obj/", "obj/***"] {
            let patterns = [Pattern::parse(pattern).unwrap()];
            assert!(!excludes(&patterns, b"a/obj") && excludes_directory(&patterns, b"a/obj"));
            assert!(
                excludes_top(&patterns, b"obj", true) && !excludes_top(&patterns, b"obj", false)
            );
        }
        let at_top = [Pattern::parse("/obj").unwrap()];
        assert!(!excludes_top(&at_top, b"obj", true) && excludes(&at_top, b"obj"));
        for wrong in ["", "/", "//", "//a", "a["] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
