//! What the commands that change files print of each: a line with `-v`, an object with `--json`.

use std::io::{BufWriter, StdoutLock, Write};

use ffs_core::Attr;
use serde::Serialize;

use crate::fail::Failure;
use crate::output::{self, JsonAttr, JsonName};

/// What a change has beside the attributes.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Detail {
    /// The access list that was changed, as text.
    Acl { before: String, after: String },
    /// The extended attribute that was set or removed; null where it does not exist.
    Attribute {
        namespace: &'static str,
        name: JsonName,
        before_hex: Option<String>,
        after_hex: Option<String>,
    },
    /// The new path of a file that was moved.
    To(JsonName),
}

impl Detail {
    /// The new path of a file that was moved.
    pub(crate) fn to(path: &[u8]) -> Detail {
        Detail::To(JsonName::new(path))
    }

    fn changes(&self) -> bool {
        match self {
            Detail::Acl { before, after } => before != after,
            Detail::Attribute { before_hex, after_hex, .. } => before_hex != after_hex,
            Detail::To(_) => true,
        }
    }
}

/// An object of the output.
#[derive(Serialize)]
struct Line {
    path: JsonName,
    inode: u32,
    changed: bool,
    /// Null for a file that did not exist.
    before: Option<JsonAttr>,
    /// Null for a name that was removed.
    after: Option<JsonAttr>,
    #[serde(flatten)]
    detail: Option<Detail>,
}

/// The printer of the changes. Both `-v` and `--json` print to standard output; with both, only
/// objects are printed.
pub(crate) struct Changes {
    /// Standard output, unless nothing is printed.
    out: Option<BufWriter<StdoutLock<'static>>>,
    json: bool,
}

impl Changes {
    pub(crate) fn new(json: bool, verbose: bool) -> Changes {
        Changes { out: (json || verbose).then(output::stdout), json }
    }

    /// Prints a line about a file, with `-v`.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn line(&mut self, text: impl FnOnce() -> String) -> Result<(), Failure> {
        match &mut self.out {
            Some(out) if !self.json => Ok(writeln!(out, "{}", text())?),
            _ => Ok(()),
        }
    }

    /// Prints what a command did to the file at `path`, with `--json`.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn file(
        &mut self,
        path: &[u8],
        before: Option<&Attr>,
        after: Option<&Attr>,
    ) -> Result<(), Failure> {
        self.detailed(path, before, after, None)
    }

    /// Prints the same with a detail.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn detailed(
        &mut self,
        path: &[u8],
        before: Option<&Attr>,
        after: Option<&Attr>,
        detail: Option<Detail>,
    ) -> Result<(), Failure> {
        match &mut self.out {
            Some(out) if self.json => object(out, path, before, after, detail),
            _ => Ok(()),
        }
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.out {
            Some(out) => Ok(out.flush()?),
            None => Ok(()),
        }
    }
}

/// Writes the line of a file that was removed, as `ffs rm --json` prints it.
///
/// # Errors
/// `out` cannot be written.
pub(crate) fn removed(out: &mut impl Write, path: &[u8], before: &Attr) -> Result<(), Failure> {
    object(out, path, Some(before), None, None)
}

fn object(
    out: &mut impl Write,
    path: &[u8],
    before: Option<&Attr>,
    after: Option<&Attr>,
    detail: Option<Detail>,
) -> Result<(), Failure> {
    let Some(ino) = after.or(before).map(|attr| attr.ino) else { return Ok(()) };
    let line = Line {
        path: JsonName::new(path),
        inode: ino.0,
        changed: before != after || detail.as_ref().is_some_and(Detail::changes),
        before: before.map(JsonAttr::from),
        after: after.map(JsonAttr::from),
        detail,
    };
    output::json_line(out, &line)
}
