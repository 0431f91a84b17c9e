//! Sections and options of a job file.

use crate::trace::MOST_SIZE;
use crate::trace::path::TracePath;

/// The most jobs of a file, and the most copies and files of a job.
const MOST_JOBS: u64 = 10_000;

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) random: bool,
}

/// A job with all options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) name: String,
    /// The line of its section.
    pub(super) line: usize,
    pub(super) kind: Kind,
    /// Bytes of a call.
    pub(super) block: u64,
    /// Bytes of all files together.
    pub(super) size: Option<u64>,
    /// Bytes of each file.
    pub(super) file_size: Option<u64>,
    /// Bytes of a loop.
    pub(super) io_size: Option<u64>,
    pub(super) loops: u64,
    /// Percent of calls that read, where a job reads and writes.
    pub(super) mix_read: u64,
    pub(super) no_map: bool,
    pub(super) file_names: Vec<String>,
    pub(super) directory: TracePath,
    pub(super) files: u64,
    pub(super) copies: u64,
    /// Writes between two calls of fsync; 0: none.
    pub(super) fsync: u64,
    pub(super) end_fsync: bool,
    /// Nanoseconds between calls.
    pub(super) think: u64,
    pub(super) stonewall: bool,
}

type Parsed<T> = Result<T, String>;

fn default_job() -> Job {
    Job {
        name: String::new(),
        line: 0,
        kind: Kind { reads: true, writes: false, random: false },
        block: 4096,
        size: None,
        file_size: None,
        io_size: None,
        loops: 1,
        mix_read: 50,
        no_map: false,
        file_names: Vec::new(),
        directory: TracePath::root(),
        files: 1,
        copies: 1,
        fsync: 0,
        end_fsync: false,
        think: 0,
        stonewall: false,
    }
}

/// The jobs of a file.
pub(super) fn jobs(text: &str) -> Parsed<Vec<Job>> {
    let (mut global, mut jobs, mut in_global) = (default_job(), Vec::<Job>::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |why: String| format!("line {number}: {why}");
        let line = line.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest
                .split_once(']')
                .filter(|(name, rest)| !name.is_empty() && rest.trim().is_empty());
            let (name, _) = name.ok_or_else(|| wrong("expected '[NAME]'".to_owned()))?;
            in_global = Some(name == "global");
            if name != "global" {
                if jobs.len() as u64 >= MOST_JOBS {
                    return Err(wrong(format!("expected at most {MOST_JOBS} jobs")));
                }
                check_name(name).map_err(wrong)?;
                jobs.push(Job { name: name.to_owned(), line: number, ..global.clone() });
            }
            continue;
        }
        let job = match in_global {
            None => return Err(wrong("expected a section such as [global]".to_owned())),
            Some(true) => Some(&mut global),
            Some(false) => jobs.last_mut(),
        };
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => (line, "1"),
        };
        if let Some(job) = job {
            job.set(name, value).map_err(wrong)?;
        }
    }
    if jobs.is_empty() {
        return Err("has no job; expected a section [NAME] besides [global]".to_owned());
    }
    Ok(jobs)
}

/// A name of a file or job: one name of a path.
fn check_name(name: &str) -> Parsed<()> {
    match TracePath::parse(name.as_bytes()) {
        Ok(path) if path.names().count() == 1 => Ok(()),
        _ => Err(format!("'{}': expected a name without '/'", name.escape_debug())),
    }
}

impl Job {
    fn set(&mut self, name: &str, value: &str) -> Parsed<()> {
        let refuse = |expected: &str| {
            Err(format!("option '{name}={}': expected {expected}", value.escape_debug()))
        };
        match name {
            "rw" | "readwrite" => self.kind = kind(value).ok_or_else(|| wrong_kind(name, value))?,
            "bs" | "blocksize" => self.block = bytes(name, value)?.max(1),
            "size" => self.size = Some(bytes(name, value)?),
            "filesize" => self.file_size = Some(bytes(name, value)?),
            "io_size" => self.io_size = Some(bytes(name, value)?),
            "loops" => self.loops = number(name, value, 1, 1_000_000)?,
            "rwmixread" => self.mix_read = number(name, value, 0, 100)?,
            "rwmixwrite" => self.mix_read = 100 - number(name, value, 0, 100)?,
            "norandommap" => self.no_map = number(name, value, 0, 1)? == 1,
            "filename" => {
                self.file_names = value.split(':').map(str::to_owned).collect();
                self.file_names.iter().try_for_each(|name| check_name(name))?;
            }
            "directory" => {
                let path = value.trim_start_matches('/').trim_end_matches('/');
                self.directory = TracePath::parse(path.as_bytes())?;
            }
            "nrfiles" => self.files = number(name, value, 1, MOST_JOBS)?,
            "numjobs" => self.copies = number(name, value, 1, MOST_JOBS)?,
            "fsync" | "fdatasync" => self.fsync = number(name, value, 0, u64::from(u32::MAX))?,
            "end_fsync" | "fsync_on_close" => self.end_fsync = number(name, value, 0, 1)? == 1,
            "thinktime" => self.think = number(name, value, 0, 1_000_000_000)? * 1000,
            "stonewall" | "wait_for_previous" => self.stonewall = number(name, value, 0, 1)? == 1,
            "ioengine" if matches!(value, "sync" | "psync" | "vsync" | "pvsync" | "pvsync2") => {}
            "ioengine" => return refuse("sync, psync, vsync, pvsync or pvsync2"),
            "direct" if value == "0" => {}
            "direct" => return refuse("0: a replay reads and writes through the cache"),
            "buffered" | "iodepth" if value == "1" => {}
            "buffered" | "iodepth" => return refuse("1"),
            "fallocate" if value == "none" => {}
            "fallocate" => return refuse("none"),
            "name" | "description" | "group_reporting" | "thread" | "invalidate" | "randrepeat" => {
            }
            _ => {
                return Err(format!("option '{}' has no meaning in a replay", name.escape_debug()));
            }
        }
        Ok(())
    }
}

fn kind(value: &str) -> Option<Kind> {
    let of = |reads, writes, random| Some(Kind { reads, writes, random });
    match value {
        "read" => of(true, false, false),
        "write" => of(false, true, false),
        "randread" => of(true, false, true),
        "randwrite" => of(false, true, true),
        "rw" | "readwrite" => of(true, true, false),
        "randrw" => of(true, true, true),
        _ => None,
    }
}

fn wrong_kind(name: &str, value: &str) -> String {
    let expected = "read, write, randread, randwrite, rw or randrw";
    format!("option '{name}={}': expected {expected}", value.escape_debug())
}

fn number(name: &str, value: &str, least: u64, most: u64) -> Parsed<u64> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        let value = value.escape_debug();
        format!("option '{name}={value}': expected a number from {least} to {most}")
    })
}

/// A number of bytes: `4k`, `1g`; units are powers of 1024, as in fio.
fn bytes(name: &str, value: &str) -> Parsed<u64> {
    let lower = value.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match lower.get(digits.len()..).unwrap_or_default() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => 0,
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| (1..=MOST_SIZE).contains(bytes)).ok_or_else(|| {
        let value = value.escape_debug();
        format!("option '{name}={value}': expected bytes such as 4k, at most 1t")
    })
}
