//! What goes to standard output and standard error: messages, tables, JSON.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub(crate) use bsdffs::text::{human_size as human, short_size};
use clap::error::{ContextKind, ErrorKind};
use ffs_core::{Attr, DeviceNumber, FileType, Timespec, XattrNamespace};
use jiff::tz::TimeZone;
use serde::Serialize;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Padding, Style};

use crate::fail::Failure;
use crate::progress;

static COMMAND: Mutex<String> = Mutex::new(String::new());
static ERRORS: AtomicU64 = AtomicU64::new(0);

/// Begins a command: its messages begin with `name`, and no error was printed yet.
pub(crate) fn set_command(name: &str) {
    name.clone_into(&mut COMMAND.lock().unwrap_or_else(PoisonError::into_inner));
    ERRORS.store(0, Ordering::Relaxed);
}

fn prefix() -> String {
    let name = COMMAND.lock().unwrap_or_else(PoisonError::into_inner);
    if name.is_empty() { "ffs".to_owned() } else { name.clone() }
}

/// Prints `ffs COMMAND: text` on standard error.
pub(crate) fn error(text: impl AsRef<str>) {
    ERRORS.fetch_add(1, Ordering::Relaxed);
    message(text.as_ref());
}

/// How many errors the command has printed.
pub(crate) fn errors() -> u64 {
    ERRORS.load(Ordering::Relaxed)
}

/// Prints the error of one of several arguments, and lets the command go on.
///
/// # Errors
/// The failure ends the command: the command line is wrong, a signal came, or standard output
/// cannot be written.
pub(crate) fn report(result: Result<(), Failure>) -> Result<(), Failure> {
    match result {
        Err(failure) if failure.code != 1 || failure.output => return Err(failure),
        Err(failure) => error(failure.text),
        Ok(()) => {}
    }
    Ok(())
}

/// Prints a warning. The exit code does not change.
pub(crate) fn warn(text: impl AsRef<str>) {
    message(&format!("warning: {}", text.as_ref()));
}

/// Prints a note of progress, as text.
pub(crate) fn note(text: impl AsRef<str>) {
    message(text.as_ref());
}

fn message(text: &str) {
    let text = ffs_device::host_words(text);
    progress::suspend(|| {
        // Without standard error there is no place to report this error.
        let _ = writeln!(io::stderr(), "{}: {text}", prefix());
    });
}

/// Prints the help or the error of clap; returns the exit code, which is `code` for an
/// error.
pub(crate) fn usage(mut error: clap::Error, code: u8) -> u8 {
    if error.kind() == ErrorKind::UnknownArgument {
        // clap suggests how to pass an unknown option as a value, which is rarely the intention.
        error.remove(ContextKind::Suggested);
    }
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A closed pipe is no error here.
            let _ = error.print();
            0
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            code
        }
        _ => {
            let text = error.render().to_string();
            self::error(text.trim_start_matches("error: ").trim_end());
            code
        }
    }
}

/// Standard output, buffered. Flush it before the command ends.
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// Standard output for data, without a buffer. Rust's own searches all data for the ends of lines.
///
/// # Errors
/// It cannot be duplicated.
pub(crate) fn data() -> io::Result<File> {
    let fd = rustix::io::dup(io::stdout())?;
    enlarge_pipe(&fd);
    Ok(File::from(fd))
}

/// Enlarges the buffer of a pipe, by default 64 KiB, so that its two sides wait for each other less
/// often. What is no pipe stays as it is.
#[cfg(target_os = "linux")]
pub(crate) fn enlarge_pipe(fd: &impl AsFd) {
    // The commands together gain most with this size: docs/performance.md.
    const SIZE: usize = 256 << 10;
    if rustix::pipe::fcntl_getpipe_size(fd).is_ok_and(|size| size < SIZE) {
        // It fails for a user with many such pipes.
        let _ = rustix::pipe::fcntl_setpipe_size(fd, SIZE);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn enlarge_pipe(_: &impl AsFd) {}

/// Whether standard output is a terminal.
pub(crate) fn to_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Prints `value` as JSON, one document with a newline.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let mut out = stdout();
    json_to(&mut out, value)?;
    out.flush()?;
    Ok(())
}

/// Writes `value` as JSON, one document with a newline.
pub(crate) fn json_to(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Writes `value` as one line of JSON.
pub(crate) fn json_line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

/// A table without lines; columns in `right` are aligned to the right.
pub(crate) fn table(rows: Vec<Vec<String>>, right: &[usize]) -> String {
    let mut builder = Builder::default();
    for row in rows {
        builder.push_record(row);
    }
    let mut table = builder.build();
    table.with(Style::empty()).with(Padding::new(0, 2, 0, 0));
    for &column in right {
        table.modify(Columns::one(column), Alignment::right());
    }
    let text = table.to_string();
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Writes a name as it is, unless it could upset a terminal.
pub(crate) fn name(out: &mut impl Write, name: &[u8]) -> io::Result<()> {
    if to_terminal() { write!(out, "{}", crate::fail::show(name)) } else { out.write_all(name) }
}

/// The first column of `ls -l`, such as `-rw-r--r--`.
pub(crate) fn mode_string(kind: FileType, perm: u16) -> String {
    let mut out = String::with_capacity(10);
    out.push(match kind {
        FileType::Fifo => 'p',
        FileType::Char => 'c',
        FileType::Directory => 'd',
        FileType::Block => 'b',
        FileType::Regular => '-',
        FileType::Symlink => 'l',
        FileType::Socket => 's',
    });
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    for (triple, (bit, with, without)) in special.into_iter().enumerate() {
        let bits = perm >> (6 - 3 * triple);
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (bits & 1 != 0, perm & bit != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => with,
            (false, true) => without,
        });
    }
    out
}

/// The name of a file type, as `--json` has it.
pub(crate) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "fifo",
        FileType::Char => "char",
        FileType::Directory => "directory",
        FileType::Block => "block",
        FileType::Regular => "file",
        FileType::Symlink => "symlink",
        FileType::Socket => "socket",
    }
}

/// The numbers of a device, `MAJOR,MINOR`, as `ls -l` prints them.
pub(crate) fn device(attr: &Attr) -> String {
    let DeviceNumber { major, minor } = DeviceNumber::from_disk(attr.rdev);
    format!("{major},{minor}")
}

/// The name of a name space of extended attributes.
pub(crate) fn namespace_name(namespace: XattrNamespace) -> &'static str {
    match namespace {
        XattrNamespace::User => "user",
        XattrNamespace::System => "system",
    }
}

/// A time in UTC; `full` adds seconds and nanoseconds. A time that is outside the calendar is
/// `@SECONDS`.
pub(crate) fn time(at: Timespec, full: bool) -> String {
    let utc = jiff::Timestamp::new(at.secs, 0).ok();
    let Some(zoned) = utc.map(|utc| utc.to_zoned(TimeZone::UTC)) else {
        return format!("@{}.{:09}", at.secs, at.nsec);
    };
    if full {
        return format!("{}.{:09}Z", zoned.strftime("%Y-%m-%d %H:%M:%S"), at.nsec);
    }
    zoned.strftime("%Y-%m-%d %H:%M").to_string()
}

/// A time in JSON: as text and as numbers.
#[derive(Serialize)]
pub(crate) struct JsonTime {
    text: String,
    seconds: i64,
    nanoseconds: i32,
}

impl JsonTime {
    /// Seconds since 1970.
    pub(crate) fn seconds(&self) -> i64 {
        self.seconds
    }
}

impl From<Timespec> for JsonTime {
    fn from(at: Timespec) -> JsonTime {
        JsonTime { text: time(at, true), seconds: at.secs, nanoseconds: at.nsec }
    }
}

/// A name in JSON: as text, and in hexadecimal if the bytes are not valid UTF-8.
#[derive(Serialize)]
pub(crate) struct JsonName {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
}

impl JsonName {
    /// Of these bytes.
    pub(crate) fn new(name: &[u8]) -> JsonName {
        let hex = || name.iter().map(|byte| format!("{byte:02x}")).collect();
        let name_hex = std::str::from_utf8(name).is_err().then(hex);
        JsonName { name: String::from_utf8_lossy(name).into_owned(), name_hex }
    }

    /// The text, safe to print.
    pub(crate) fn shown(&self) -> String {
        crate::fail::show(&self.name)
    }
}

/// A file's attributes in JSON.
#[derive(Serialize)]
pub(crate) struct JsonAttr {
    inode: u32,
    generation: u32,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    nlink: u32,
    uid: u32,
    gid: u32,
    size: u64,
    blocks512: u64,
    flags: String,
    flags_hex: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<[u32; 2]>,
    atime: JsonTime,
    mtime: JsonTime,
    ctime: JsonTime,
    birthtime: JsonTime,
}

impl From<&Attr> for JsonAttr {
    fn from(a: &Attr) -> JsonAttr {
        let device = DeviceNumber::from_disk(a.rdev);
        JsonAttr {
            inode: a.ino.0,
            generation: a.generation,
            kind: kind_name(a.kind),
            mode: format!("{:04o}", a.perm),
            nlink: a.nlink,
            uid: a.uid,
            gid: a.gid,
            size: a.size,
            blocks512: a.blocks,
            flags: bsdffs::flags::to_text(a.flags),
            flags_hex: format!("{:x}", a.flags.bits()),
            device: a.kind.is_device().then_some([device.major, device.minor]),
            atime: a.atime.into(),
            mtime: a.mtime.into(),
            ctime: a.ctime.into(),
            birthtime: a.birthtime.into(),
        }
    }
}

/// A file in JSON: its path and its attributes, and the text of a symbolic link.
#[derive(Serialize)]
pub(crate) struct JsonFile {
    path: JsonName,
    #[serde(flatten)]
    attr: JsonAttr,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<JsonName>,
}

impl JsonFile {
    /// The file at `path`.
    pub(crate) fn new(path: &[u8], attr: &Attr, target: Option<&[u8]>) -> JsonFile {
        JsonFile { path: JsonName::new(path), attr: attr.into(), target: target.map(JsonName::new) }
    }

    /// The text of a symbolic link.
    pub(crate) fn target(&self) -> Option<&JsonName> {
        self.target.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_ls_prints_them() {
        assert_eq!(mode_string(FileType::Regular, 0o644), "-rw-r--r--");
        assert_eq!(mode_string(FileType::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(mode_string(FileType::Regular, 0o6754), "-rwsr-sr--");
        assert_eq!(mode_string(FileType::Regular, 0o7000), "---S--S--T");
    }

    #[test]
    fn times_are_utc_and_never_fail() {
        let at = |secs, nsec| Timespec { secs, nsec };
        assert_eq!(time(at(1_000_000_000, 5), false), "2001-09-09 01:46");
        assert_eq!(time(at(1_000_000_000, 5), true), "2001-09-09 01:46:40.000000005Z");
        assert_eq!(time(at(i64::MAX, 0), false), "@9223372036854775807.000000000");
        assert!(time(at(-1, 0), false).starts_with("1969-12-31"));
    }

    #[test]
    fn tables_align() {
        let rows = vec![vec!["a".into(), "1".into()], vec!["bcd".into(), "22".into()]];
        assert_eq!(table(rows, &[1]), "a     1\nbcd  22\n");
    }
}
