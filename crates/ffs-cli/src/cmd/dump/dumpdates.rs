//! The file `dumpdates`: the date of the latest dump of each file system at each level.
//!
//! A line has a name, a level, and a date in the form of ctime(3), in local time, as BSD writes it.
//! Linux's dump adds the offset from UTC, which is read too.
//!
//! **Invariant.** Lines that are not understood stay in the file as they are.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::fail::{Failure, show};
use crate::output;

/// Width of the name in a line, as BSD writes it.
const NAME_WIDTH: usize = 53;
/// The form of ctime(3).
const CTIME: &str = "%a %b %e %H:%M:%S %Y";

/// A date in the form of ctime(3), in local time.
pub(crate) fn ctime(seconds: i64) -> String {
    match Timestamp::from_second(seconds) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime(CTIME).to_string(),
        Err(_) => format!("@{seconds}"),
    }
}

/// Parses a date: the form of ctime(3), or seconds since 1970.
pub(super) fn date(text: &str) -> Result<i64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    parse_ctime(text)
        .ok_or_else(|| format!("{text:?} is not a date such as \"{}\"", ctime(1_000_000_000)))
}

fn parse_ctime(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(time) = Timestamp::strptime("%a %b %e %H:%M:%S %Y %z", text) {
        return Some(time.as_second());
    }
    let local = DateTime::strptime(CTIME, text).ok()?;
    Some(local.to_zoned(TimeZone::system()).ok()?.timestamp().as_second())
}

/// The name of an image in the file: its absolute path, without spaces. A snapshot has the name of
/// the image that it is in, so that dumps of several snapshots are levels of one volume.
pub(super) fn key(image: &OsStr) -> Result<Vec<u8>, Failure> {
    let inside = crate::session::snapshot::inside(image);
    let image = inside.as_ref().map_or(image, |inside| &inside.image);
    let bytes = image.as_bytes();
    let suffix = if crate::spec::names_partition(image) {
        bytes.iter().rposition(|&byte| byte == b'@').unwrap_or(bytes.len())
    } else {
        bytes.len()
    };
    let file = Path::new(OsStr::from_bytes(&bytes[..suffix]));
    let path = match ffs_image::is_uri(image) || crate::stdin::names(image) {
        true => file.to_owned(),
        false => fs::canonicalize(file).map_err(|error| Failure::new(file.display(), error))?,
    };
    let mut key = Vec::new();
    for &byte in path.as_os_str().as_bytes().iter().chain(&bytes[suffix..]) {
        if byte.is_ascii_whitespace() {
            key.extend_from_slice(format!("\\{byte:03o}").as_bytes());
        } else {
            key.push(byte);
        }
    }
    Ok(key)
}

/// The lines of the file.
#[derive(Debug, Default)]
pub(super) struct DumpDates(Vec<Vec<u8>>);

/// A line that is understood.
struct Line<'l> {
    name: &'l [u8],
    level: u8,
    date: i64,
}

fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    let end = line.iter().position(u8::is_ascii_whitespace)?;
    let rest = std::str::from_utf8(&line[end..]).ok()?.trim_start();
    let (level, date) = rest.split_once(char::is_whitespace)?;
    let level = level.parse().ok().filter(|level| *level <= 9)?;
    Some(Line { name: &line[..end], level, date: parse_ctime(date)? })
}

impl DumpDates {
    /// Reads the file; one that does not exist is empty, with a warning if it is `wanted`.
    pub(super) fn read(path: &Path, wanted: bool) -> Result<DumpDates, Failure> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if wanted {
                    output::warn(format!("{}: no such file yet", path.display()));
                }
                return Ok(DumpDates::default());
            }
            Err(error) if !wanted => {
                output::warn(format!("{}: {error}", path.display()));
                return Ok(DumpDates::default());
            }
            Err(error) => return Err(Failure::new(path.display(), error)),
        };
        let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let dates = DumpDates(lines.map(<[u8]>::to_vec).collect());
        for (number, line) in
            dates.0.iter().enumerate().filter(|(_, line)| parse_line(line).is_none())
        {
            let line = show(line);
            output::warn(format!("{}: line {} is unknown: {line}", path.display(), number + 1));
        }
        Ok(dates)
    }

    /// Date and level of the latest dump of `name` at a level below `level`.
    pub(super) fn base(&self, name: &[u8], level: u8) -> Option<(i64, u8)> {
        let lines = self.0.iter().filter_map(|line| parse_line(line));
        let lower = lines.filter(|line| line.name == name && line.level < level);
        lower.map(|line| (line.date, line.level)).max()
    }

    /// Sets the date of `name` at `level` in the file.
    pub(super) fn update(path: &Path, name: &[u8], level: u8, date: i64) -> Result<(), Failure> {
        let fail = |error: io::Error| Failure::new(path.display(), error).code(3);
        let file =
            fs::File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(fail)?;
        file.lock().map_err(fail)?;
        let mut dates = DumpDates::read(path, false)?;
        dates.set(name, level, date);
        let bytes = dates.to_bytes();
        file.set_len(0).and_then(|()| (&file).write_all(&bytes)).map_err(fail)?;
        file.sync_all().map_err(fail)
    }

    fn set(&mut self, name: &[u8], level: u8, date: i64) {
        let mut new = name.to_vec();
        new.resize(new.len().max(NAME_WIDTH), b' ');
        new.extend_from_slice(format!(" {level} {}", ctime(date)).as_bytes());
        let same = |line: &&mut Vec<u8>| {
            parse_line(line).is_some_and(|line| line.name == name && line.level == level)
        };
        match self.0.iter_mut().find(same) {
            Some(line) => *line = new,
            None => self.0.push(new),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let lines = self.0.iter().flat_map(|line| [&line[..], b"\n"]);
        lines.collect::<Vec<_>>().concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_come_back_as_they_were() {
        for seconds in [0, 1_000_000_000, 1_750_000_000] {
            assert_eq!(date(&ctime(seconds)), Ok(seconds), "{}", ctime(seconds));
        }
        assert_eq!(date("1234"), Ok(1234));
        assert_eq!(date("Sun Sep  9 01:46:40 2001 +0000"), Ok(1_000_000_000));
        assert_eq!(date("Sun Sep  9 03:46:40 2001 +0200"), Ok(1_000_000_000));
        assert!(date("yesterday").is_err());
    }

    #[test]
    fn the_base_is_the_latest_dump_of_a_lower_level() {
        let mut dates = DumpDates(vec![b"# not a line".to_vec()]);
        for (level, date) in [(0, 1000), (3, 4000), (2, 3000), (5, 2000)] {
            dates.set(b"/a", level, date);
            dates.set(b"/b", level, date + 100_000);
        }
        dates.set(b"/a", 3, 3500);
        let base = |level| dates.base(b"/a", level);
        assert_eq!(base(0), None);
        assert_eq!(base(1), Some((1000, 0)));
        assert_eq!(base(3), Some((3000, 2)));
        assert_eq!(base(9), Some((3500, 3)));
        assert_eq!(dates.base(b"/c", 9), None);
        let text = String::from_utf8(dates.to_bytes()).unwrap_or_default();
        assert_eq!(text.lines().count(), 9);
        assert!(text.starts_with("# not a line\n/a   "));
    }
}
