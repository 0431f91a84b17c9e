//! The action `-printf` of `ffs find`.

use std::collections::BTreeMap;
use std::io::Write;

use ffs_core::{Error, FileType, QuotaType, Timespec};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use crate::fail::{Failure, show};
use crate::namei::{Last, PathError, basename, namei};
use crate::output;
use crate::owner::{file_inside, names_of};
use crate::parse::printf::{Form, Piece, What, parse};
use crate::session::Session;
use crate::walk::Visit;

/// A format, and the names that it prints.
#[derive(Debug)]
pub(super) struct Format {
    pieces: Vec<Piece>,
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
}

impl Format {
    /// The format `text`, with the names of the image.
    ///
    /// # Errors
    /// A directive is unknown, or the image's file of users or groups cannot be read.
    pub(super) fn new(text: &str, session: &Session) -> Result<Format, Failure> {
        let pieces = parse(text);
        let pieces = pieces.map_err(|why| {
            Failure::usage(format!("-printf {}: {why}", show(text)))
                .hint("`ffs find --help` lists the directives")
        })?;
        let prints =
            |what| pieces.iter().any(|piece| matches!(piece, Piece::Field(w, _) if *w == what));
        // An owner without a name in the image is a number, as for a file of GNU's find.
        let names = |what, kind| -> Result<BTreeMap<u32, String>, Failure> {
            let text = if prints(what) { file_inside(session, kind)? } else { None };
            Ok(names_of(&text.unwrap_or_default()))
        };
        let users = names(What::User, QuotaType::User)?;
        let groups = names(What::Group, QuotaType::Group)?;
        Ok(Format { pieces, users, groups })
    }

    /// Prints a file. The search began at `start`; paths follow `prefix`.
    pub(super) fn print(
        &self,
        out: &mut impl Write,
        session: &Session,
        visit: &Visit<'_>,
        (start, prefix): (&[u8], &[u8]),
    ) -> Result<(), Failure> {
        let (path, a) = (visit.path, visit.attr);
        let mut line = Vec::new();
        for piece in &self.pieces {
            let (what, pad) = match piece {
                Piece::Text(text) => {
                    line.extend_from_slice(text);
                    continue;
                }
                Piece::End => break,
                Piece::Field(what, pad) => (what, pad),
            };
            let text = match what {
                What::Depth => {
                    pad.number(&mut line, visit.depth);
                    continue;
                }
                What::Mode => {
                    pad.octal(&mut line, a.perm);
                    continue;
                }
                What::Path => name(&[prefix, path].concat()),
                What::Start => name(&[prefix, start].concat()),
                What::Below => name(below(path, visit.depth)),
                What::Name => name(last(path)),
                What::Directory => name(directory(path)),
                What::Target => name(&link_text(session, visit).unwrap_or_default()),
                What::User => name(named(&self.users, a.uid).as_bytes()),
                What::Group => name(named(&self.groups, a.gid).as_bytes()),
                What::Size => a.size.to_string().into(),
                What::Blocks => a.blocks.to_string().into(),
                What::Kibibytes => a.blocks.div_ceil(2).to_string().into(),
                What::Permissions => output::mode_string(a.kind, a.perm).into(),
                What::Uid => a.uid.to_string().into(),
                What::Gid => a.gid.to_string().into(),
                What::Inode => a.ino.0.to_string().into(),
                What::Links => a.nlink.to_string().into(),
                What::Type => letter(a.kind).into(),
                What::OtherType => other_letter(session, visit).into(),
                What::Time(which, form) => time(which.of(a), *form).into(),
            };
            pad.text(&mut line, &text);
        }
        out.write_all(&line)?;
        Ok(())
    }
}

/// The text of a symbolic link; `None` for another file. An error is reported.
pub(super) fn link_text(session: &Session, visit: &Visit<'_>) -> Option<Vec<u8>> {
    if visit.attr.kind != FileType::Symlink {
        return None;
    }
    let text = session.ffs.readlink(visit.file);
    text.map_err(|error| output::error(session.failed(visit.path, error).text)).ok()
}

/// A name as it is, unless it could upset a terminal.
fn name(name: &[u8]) -> Vec<u8> {
    if output::to_terminal() { show(name).into_bytes() } else { name.to_vec() }
}

fn named(names: &BTreeMap<u32, String>, id: u32) -> String {
    names.get(&id).cloned().unwrap_or_else(|| id.to_string())
}

/// The last `depth` names of the path.
fn below(path: &[u8], depth: usize) -> &[u8] {
    let mut slashes = (0..path.len()).rev().filter(|&at| path[at] == b'/');
    match depth.checked_sub(1).and_then(|before| slashes.nth(before)) {
        Some(at) => &path[at + 1..],
        None if depth == 0 => b"",
        None => path,
    }
}

/// The last name, which for the root is its slash.
fn last(path: &[u8]) -> &[u8] {
    basename(path).unwrap_or(path)
}

/// The path before the last name, without a slash at its end.
fn directory(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    match path[..end].iter().rposition(|&byte| byte == b'/') {
        Some(at) => &path[..at],
        None if path.starts_with(b"/") => b"",
        None => b".",
    }
}

/// The type of the file, or of what it leads to if it is a symbolic link; `None` for nothing.
pub(super) fn kind_behind(
    session: &Session,
    visit: &Visit<'_>,
) -> Result<Option<FileType>, PathError> {
    if visit.attr.kind != FileType::Symlink {
        return Ok(Some(visit.attr.kind));
    }
    match namei(&session.ffs, &session.cred, visit.path, Last::Follow) {
        Ok(file) => Ok(Some(session.ffs.getattr(&file).kind)),
        Err(PathError::Fs(Error::NotFound | Error::NotDirectory)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The letter of what a symbolic link leads to: `N` for nothing, `L` for a loop.
fn other_letter(session: &Session, visit: &Visit<'_>) -> &'static str {
    match kind_behind(session, visit) {
        Ok(Some(kind)) => letter(kind),
        Ok(None) => "N",
        Err(PathError::Loop) => "L",
        Err(error) => {
            output::error(session.failed(visit.path, error).text);
            "?"
        }
    }
}

fn letter(kind: FileType) -> &'static str {
    match kind {
        FileType::Regular => "f",
        FileType::Directory => "d",
        FileType::Symlink => "l",
        FileType::Fifo => "p",
        FileType::Socket => "s",
        FileType::Char => "c",
        FileType::Block => "b",
    }
}

/// A time in UTC. One that is outside the calendar is `@SECONDS`, in every form.
fn time(at: Timespec, form: Form) -> String {
    let fraction = format!(".{:09}0", at.nsec);
    let zoned = match form {
        Form::Seconds => return since_1970(at),
        Form::Strftime(b's') => return at.secs.to_string(),
        _ => jiff::Timestamp::new(at.secs, 0).ok().map(|utc| utc.to_zoned(TimeZone::UTC)),
    };
    let Some(zoned) = zoned else { return format!("@{}", since_1970(at)) };
    let year = |year: i16| format!("{:02}", year.rem_euclid(100));
    // A directive that has no value for this time must not be a panic.
    let text = |format: &str| {
        strtime::format(format, &zoned).unwrap_or_else(|_| format!("@{}", since_1970(at)))
    };
    match form {
        Form::Seconds => since_1970(at),
        Form::Ctime => text("%a %b %e %H:%M:%S") + &fraction + &text(" %Y"),
        Form::Plus => text("%Y-%m-%d+%H:%M:%S") + &fraction,
        Form::Clock => text("%H:%M:%S") + &fraction,
        Form::Second => text("%S") + &fraction,
        Form::Strftime(letter) => match letter {
            b'c' => text("%a %b %e %H:%M:%S %Y"),
            b'D' | b'x' => text("%m/%d/") + &year(zoned.year()),
            b'g' => year(zoned.date().iso_week_date().year()),
            b'r' => text("%I:%M:%S %p"),
            b'y' => year(zoned.year()),
            b'C' => format!("{:02}", zoned.year().div_euclid(100)),
            b'z' => "+0000".into(),
            b'Z' => "UTC".into(),
            letter => text(&format!("%{}", char::from(letter))),
        },
    }
}

/// Seconds since 1970, and the fraction.
fn since_1970(at: Timespec) -> String {
    let nanoseconds = i128::from(at.secs) * 1_000_000_000 + i128::from(at.nsec);
    let (sign, size) = (if nanoseconds < 0 { "-" } else { "" }, nanoseconds.unsigned_abs());
    format!("{sign}{}.{:09}0", size / 1_000_000_000, size % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_divided() {
        for (path, dir, name) in
            [("/", "", "/"), ("/a", "", "a"), ("/a/b", "/a", "b"), ("#12", ".", "#12")]
        {
            assert_eq!(directory(path.as_bytes()), dir.as_bytes(), "{path}");
            assert_eq!(last(path.as_bytes()), name.as_bytes(), "{path}");
        }
        assert_eq!((below(b"/", 0), below(b"/a", 1)), (&b""[..], &b"a"[..]));
        assert_eq!((below(b"/a/b/c", 2), below(b"/a/b", 0)), (&b"b/c"[..], &b""[..]));
    }

    #[test]
    fn times_never_fail() {
        let at = |secs, nsec| Timespec { secs, nsec };
        assert_eq!(time(at(0, 5), Form::Ctime), "Thu Jan  1 00:00:00.0000000050 1970");
        assert_eq!(since_1970(at(-2, 500_000_000)), "-1.5000000000");
        assert_eq!(time(at(-62_135_596_801, 0), Form::Strftime(b'y')), "00");
        for secs in [i64::MIN, i64::MAX, -200_000_000_000, 200_000_000_000] {
            for letter in b'A'..=b'z' {
                let _ = time(at(secs, 999_999_999), Form::Strftime(letter));
            }
        }
        assert_eq!(time(at(i64::MAX, 0), Form::Plus), format!("@{}.0000000000", i64::MAX));
    }
}
