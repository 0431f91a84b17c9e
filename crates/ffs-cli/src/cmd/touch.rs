//! `ffs touch`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use ffs_core::{Attr, SetAttr, SetTime, Timespec};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{Doc, EXIT};
use crate::changes::Changes;
use crate::current;
use crate::fail::{Failure, Outcome, shell_word, show};
use crate::namei::{Last, last, one_image};
use crate::output;
use crate::session::Session;
use crate::spec::is_not_new;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs touch disk.img:/fastboot", "create an empty file, or set its times to now"),
        ("ffs touch -d 2002-06-10T09:00:00 disk.img:/etc/motd", "a time of your own, in UTC"),
        ("ffs touch -h -r disk.img:/a disk.img:/link", "the times of another file, on a link"),
    ],
    exit: EXIT,
    see_also: &["ffs-truncate(1)", "ffs-stat(1)", "ffs-chmod(1)"],
    section: "1",
    usage_code: 64,
};

/// Set the times of files in an image.
///
/// A file that does not exist is created, empty. Without -a and -m both times are set, to the time
/// of the call unless -d, -t or -r is given. Times are UTC.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// IMAGE[@N]:/path, all in one image
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// The access time
    #[arg(short)]
    access: bool,
    /// The modification time
    #[arg(short)]
    modification: bool,
    /// Do not create files
    #[arg(short = 'c')]
    no_create: bool,
    /// Set the times of symbolic links, not of the files that they lead to; create no file
    #[arg(short = 'h')]
    no_follow: bool,
    /// The time: YYYY-MM-DDThh:mm:ss[.frac], or @SECONDS since 1970
    #[arg(short = 'd', value_name = "TIME", value_parser = iso, group = "when")]
    date: Option<Timespec>,
    /// The time: [[CC]YY]MMDDhhmm[.SS]
    #[arg(short = 't', value_name = "TIME", value_parser = compact, group = "when")]
    time: Option<Timespec>,
    /// The times of this file, which is in the same image
    #[arg(short, value_name = "IMAGE:/PATH", group = "when")]
    reference: Option<OsString>,
    /// Print JSON, one object a line: each file before and after
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

fn timespec(at: DateTime) -> Option<Timespec> {
    let utc = at.to_zoned(TimeZone::UTC).ok()?.timestamp();
    // Both parts of a time before 1970 are negative; the nanoseconds of an inode are not.
    let (secs, nsec) = (utc.as_second(), utc.subsec_nanosecond());
    Some(match nsec {
        0.. => Timespec { secs, nsec },
        _ => Timespec { secs: secs - 1, nsec: nsec + 1_000_000_000 },
    })
}

/// Reads the value of `-d`.
pub(crate) fn iso(text: &str) -> Result<Timespec, String> {
    let bad = || format!("{text:?} is not a time such as 2002-06-10T09:00:00 or @1023699600");
    if let Some(seconds) = text.strip_prefix('@') {
        return Ok(Timespec { secs: seconds.parse().map_err(|_| bad())?, nsec: 0 });
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    text.parse().ok().and_then(timespec).ok_or_else(bad)
}

/// Reads the value of `-t`.
fn compact(text: &str) -> Result<Timespec, String> {
    let bad = || format!("{text:?} is not a time such as 200206100900 or 06100900.30");
    let (digits, seconds) = text.split_once('.').unwrap_or((text, "00"));
    let number = |part: &str| match part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit()) {
        true => part.parse::<i16>().map_err(|_| bad()),
        false => Err(bad()),
    };
    if !digits.is_ascii() || digits.len() % 2 != 0 {
        return Err(bad());
    }
    let parts: Vec<i16> = (0..digits.len())
        .step_by(2)
        .map(|at| number(&digits[at..at + 2]))
        .collect::<Result<_, _>>()?;
    let this_year = jiff::Timestamp::now().to_zoned(TimeZone::UTC).year();
    let (year, rest) = match parts.len() {
        4 => (this_year, &parts[..]),
        5 => (if parts[0] < 69 { 2000 } else { 1900 } + parts[0], &parts[1..]),
        6 => (parts[0] * 100 + parts[1], &parts[2..]),
        _ => return Err(bad()),
    };
    let of = |at: usize| rest.get(at).and_then(|n| i8::try_from(*n).ok()).ok_or_else(bad);
    let seconds = i8::try_from(number(seconds)?).map_err(|_| bad())?;
    let at = DateTime::new(year, of(0)?, of(1)?, of(2)?, of(3)?, seconds, 0);
    at.ok().and_then(timespec).ok_or_else(bad)
}

pub(crate) fn run(args: Args) -> Outcome {
    let all: Vec<&OsString> = args.paths.iter().chain(&args.reference).collect();
    check_times(&args.paths)?;
    let (image, mut paths) = one_image(&all)?;
    let reference = args.reference.as_ref().and_then(|_| paths.pop());
    let session = Session::write(&image)?;
    let result = times(&session, reference.as_deref(), &args).and_then(|times| {
        let mut changes = Changes::new(args.json, false);
        for path in &paths {
            output::report(touch(&session, path, times, &args, &mut changes))?;
        }
        changes.flush()
    });
    session.finish_with(result)?;
    Ok(u8::from(output::errors() > 0))
}

/// Refuses a time that is not the value of an option.
fn check_times(paths: &[OsString]) -> Result<(), Failure> {
    let option = |path: &OsStr| {
        let text = path.to_str().filter(|_| !current::in_shell() && !is_not_new(path))?;
        match (compact(text), iso(text)) {
            (Ok(_), _) => Some("-t"),
            (_, Ok(_)) => Some("-d"),
            _ => None,
        }
    };
    let found = paths.iter().find_map(|path| Some((path, option(path)?)));
    let Some((time, option_of_time)) = found else { return Ok(()) };
    let file = paths.iter().find(|path| option(path).is_none());
    let file = file.map_or("IMAGE:/PATH".into(), |file| show(file.as_bytes()));
    let time = show(time.as_bytes());
    let failure = Failure::usage(format!("{time}: a time is the value of {option_of_time}"));
    Err(failure.hint(format!("write: ffs touch {option_of_time} {time} {}", shell_word(&file))))
}

/// The access and the modification time to set.
fn times(
    session: &Session,
    reference: Option<&[u8]>,
    args: &Args,
) -> Result<(Timespec, Timespec), Failure> {
    if let Some(path) = reference {
        let file = session.find(path, last(args.no_follow))?;
        let Attr { atime, mtime, .. } = session.ffs.getattr(&file);
        return Ok((atime, mtime));
    }
    let now = || {
        let now = ffs_device::Timestamp::from(SystemTime::now());
        Timespec { secs: now.secs, nsec: now.nanos.cast_signed() }
    };
    let at = args.date.or(args.time).unwrap_or_else(now);
    Ok((at, at))
}

fn touch(
    session: &Session,
    path: &[u8],
    (atime, mtime): (Timespec, Timespec),
    args: &Args,
    changes: &mut Changes,
) -> Result<(), Failure> {
    let before = session.attr_of(path, last(args.no_follow));
    let Some(file) = (match args.no_follow {
        // As BSD's: -h implies -c.
        true => session.find_opt(path, Last::Keep)?,
        false => session.find_or_create(path, !args.no_create)?,
    }) else {
        return Ok(());
    };
    let both = args.access == args.modification;
    let set = SetAttr {
        atime: (both || args.access).then_some(SetTime::To(atime)),
        mtime: (both || args.modification).then_some(SetTime::To(mtime)),
        ..SetAttr::default()
    };
    let done = session.ffs.setattr(&session.cred, &file, &set);
    let after = done.map_err(|error| session.failed(path, error))?;
    changes.file(path, before.as_ref(), Some(&after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_both_forms() {
        let at = |secs, nsec| Ok(Timespec { secs, nsec });
        assert_eq!(iso("2002-06-10T09:00:00"), at(1_023_699_600, 0));
        assert_eq!(iso("2002-06-10 09:00:00.5Z"), at(1_023_699_600, 500_000_000));
        assert_eq!(iso("1969-12-31T23:59:59.25"), at(-1, 250_000_000));
        assert_eq!(iso("@-5"), at(-5, 0));
        assert_eq!(compact("200206100900"), at(1_023_699_600, 0));
        assert_eq!(compact("0206100900.30"), at(1_023_699_630, 0));
        assert_eq!(compact("7001010000"), at(0, 0));
        for bad in ["", "1", "13010000x", "200213010000", "2002061009001", "06100900.3", "\u{e9}1"]
        {
            assert!(compact(bad).is_err(), "{bad}");
            assert!(iso(bad).is_err(), "{bad}");
        }
    }
}
