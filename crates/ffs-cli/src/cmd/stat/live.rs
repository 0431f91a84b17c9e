//! A running mount: counters with their rates, and gauges, again and again.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ffs_fuse::{Control, Entry, EntryKind};
use serde::Serialize;

use super::Args;
use crate::fail::{Failure, Outcome};
use crate::{output, signals};

/// Headings, and the beginnings of the names below them; the first that fits has a name.
const GROUPS: &[(&str, &[&str])] = &[
    ("soft updates", &["debug.softdep."]),
    ("names", &["vfs.cache.", "vfs.ffs.namecache"]),
    ("inodes", &["vfs.numvnodes", "vfs.freevnodes", "vfs.ffs.vnode", "vfs.ffs.inodes_"]),
    ("directory hashes", &["vfs.ufs.dirhash", "vfs.ffs.dirhash"]),
    ("directories", &["vfs.ffs.dir_", "vfs.ffs.lookup_", "vfs.ffs.dirsresident"]),
    ("buffers", &["vfs.ffs.buf", "vfs.buf", "vfs.numbufs", "vfs.ffs.page", "vfs.ffs.dirtyspace"]),
    (
        "device",
        &[
            "vfs.ffs.reads",
            "vfs.ffs.bytes_",
            "vfs.ffs.writes_",
            "vfs.ffs.flushes",
            "vfs.ffs.blocks_copied",
        ],
    ),
    ("requests of the kernel", &["vfs.fusefs.requests."]),
    ("allocation and others", &[""]),
];

/// A value with what the last look had.
struct Row<'e> {
    entry: &'e Entry,
    value: u64,
    /// Per second; counters only.
    rate: Option<f64>,
}

#[derive(Serialize)]
struct Look<'a> {
    /// Seconds since 1970.
    time: f64,
    /// Seconds since the last look; absent in the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    counters: BTreeMap<&'a str, u64>,
    gauges: BTreeMap<&'a str, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    rates: BTreeMap<&'a str, f64>,
}

/// Reads `-w`.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let wanted = || "a number of seconds of at least 0.1 is wanted".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wanted())?;
    if seconds < 0.1 {
        return Err(wanted());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wanted())
}

/// Reads `-c`.
pub(super) fn looks(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| "a number of at least 1 is wanted".to_owned())
}

pub(super) fn run(mount: &Path, args: &Args) -> Outcome {
    let control = Control::open(mount)
        .map_err(|e| Failure::plain(e).hint("for a file in an image write IMAGE:/PATH"))?;
    let mut entries = control.list().map_err(Failure::plain)?;
    entries.retain(|e| matches!(e.kind, EntryKind::Counter | EntryKind::Gauge));
    let in_place = output::to_terminal() && !args.json && args.count != Some(1);
    let repeat = args.wait.is_some() || in_place;
    let looks = args.count.unwrap_or(if repeat { u64::MAX } else { 1 });
    let wait = args.wait.unwrap_or(Duration::from_secs(1));
    signals::listen();
    let mut screen = Screen { in_place, lines: 0 };
    let mut last: Option<(Instant, Vec<u64>)> = None;
    for look in 0..looks {
        if look > 0 && !pause(wait) {
            break;
        }
        let values = sample(&control, &entries)?;
        let now = Instant::now();
        let since = last.as_ref().map(|(then, _)| now.duration_since(*then).as_secs_f64());
        let rows = rows(&entries, &values, last.as_ref().map(|(_, v)| v.as_slice()), since);
        if args.json {
            print_json(&rows, since)?;
        } else {
            let busy = if in_place && since.is_some() { Show::Busy } else { Show::Counted };
            let which = if args.all { Show::All } else { busy };
            screen.show(&format!("{}{}", hits(&rows), table(&rows, which, since)))?;
        }
        last = Some((now, values));
    }
    Ok(0)
}

/// The values of `entries`; 0 for one that the mount no longer has.
fn sample(control: &Control, entries: &[Entry]) -> Result<Vec<u64>, Failure> {
    let values: BTreeMap<String, String> =
        control.values().map_err(Failure::plain)?.into_iter().collect();
    let number = |e: &Entry| values.get(&e.name).and_then(|v| v.parse().ok()).unwrap_or(0);
    Ok(entries.iter().map(number).collect())
}

fn rows<'e>(
    entries: &'e [Entry],
    values: &[u64],
    before: Option<&[u64]>,
    since: Option<f64>,
) -> Vec<Row<'e>> {
    let rate = |i: usize, value: u64| {
        let passed = value.saturating_sub(before?.get(i).copied()?);
        since.filter(|s| *s > 0.0).map(|s| passed as f64 / s)
    };
    let row = |(i, (entry, value)): (usize, (&'e Entry, &u64))| Row {
        entry,
        value: *value,
        rate: rate(i, *value).filter(|_| entry.kind == EntryKind::Counter),
    };
    entries.iter().zip(values).enumerate().map(row).collect()
}

fn print_json(rows: &[Row<'_>], since: Option<f64>) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let of = |kind| {
        let chosen = rows.iter().filter(move |r| r.entry.kind == kind);
        chosen.map(|r| (r.entry.name.as_str(), r.value)).collect()
    };
    let look = Look {
        time: now.as_secs_f64(),
        seconds: since,
        counters: of(EntryKind::Counter),
        gauges: of(EntryKind::Gauge),
        rates: rows.iter().filter_map(|r| Some((r.entry.name.as_str(), r.rate?))).collect(),
    };
    let mut out = output::stdout();
    output::json_line(&mut out, &look)?;
    out.flush()?;
    Ok(())
}

fn group(name: &str) -> usize {
    let fits = |(_, beginnings): &(&str, &[&str])| beginnings.iter().any(|b| name.starts_with(b));
    GROUPS.iter().position(fits).unwrap_or(GROUPS.len() - 1)
}

/// Which rows a table has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    All,
    /// What is not 0.
    Counted,
    /// What changes, and gauges that are not 0.
    Busy,
}

impl Show {
    fn has(self, r: &Row<'_>) -> bool {
        let idle = r.rate.is_some_and(|rate| rate == 0.0);
        self == Show::All || (r.value > 0 && !(self == Show::Busy && idle))
    }
}

/// The share of lookups that memory answered, by what was looked up; empty if nothing was.
fn hits(rows: &[Row<'_>]) -> String {
    let sum = |names: &[&str]| -> f64 {
        let chosen = rows.iter().filter(|r| names.iter().any(|n| r.entry.name == *n));
        chosen.map(|r| r.rate.unwrap_or(r.value as f64)).sum()
    };
    let mut shares = Vec::new();
    let (found, missed) = (
        sum(&["vfs.cache.numposhits", "vfs.cache.numneghits"]),
        sum(&["vfs.cache.nummiss", "vfs.cache.nummisszap"]),
    );
    let mut add = |what: &str, found: f64, missed: f64| {
        if found + missed > 0.0 {
            shares.push(format!("{what} {:.1} %", 100.0 * found / (found + missed)));
        }
    };
    add("names", found, missed);
    for (class, what) in
        [("dir", "directory blocks"), ("data", "file blocks"), ("inode", "inode blocks")]
    {
        let name = |what: &str| format!("vfs.ffs.buf.{class}.{what}");
        let found = sum(&[&name("tier1_hits"), &name("tier2_hits")]);
        add(what, found, sum(&[&name("misses")]));
    }
    if shares.is_empty() {
        String::new()
    } else {
        format!("found in memory: {}\n\n", shares.join(", "))
    }
}

fn table(rows: &[Row<'_>], which: Show, since: Option<f64>) -> String {
    let head = if since.is_some() { "per second" } else { "" };
    let mut lines = Vec::new();
    for (g, (heading, _)) in GROUPS.iter().enumerate() {
        let inside = |r: &&Row<'_>| which.has(r) && group(&r.entry.name) == g;
        let mut members = rows.iter().filter(inside).peekable();
        if members.peek().is_some() {
            lines.push(vec![String::new(); 4]);
            let heading = heading.to_uppercase();
            lines.push(vec![heading, head.to_owned(), "now".to_owned(), String::new()]);
        }
        lines.extend(members.map(|r| {
            let rate = match r.rate {
                Some(rate) if rate > 0.0 && rate < 9.95 => format!("{rate:.1}"),
                Some(rate) => format!("{rate:.0}"),
                None => String::new(),
            };
            vec![r.entry.name.clone(), rate, r.value.to_string(), r.entry.meaning.clone()]
        }));
    }
    if lines.is_empty() {
        return "nothing was counted yet\n".to_owned();
    }
    lines.remove(0);
    output::table(lines, &[1, 2])
}

/// Waits; `false` if the user wants to stop.
fn pause(wait: Duration) -> bool {
    let end = Instant::now() + wait;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if signals::interrupted() {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        // Short sleeps: a signal does not end a sleep.
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Where looks are shown: one below the other, or each in the place of the last.
struct Screen {
    in_place: bool,
    lines: usize,
}

impl Screen {
    fn show(&mut self, text: &str) -> io::Result<()> {
        let mut out = output::stdout();
        if !self.in_place {
            if self.lines > 0 {
                writeln!(out)?;
            }
            self.lines += 1;
            write!(out, "{text}")?;
            return out.flush();
        }
        let (width, height) = terminal();
        if self.lines > 0 {
            write!(out, "\x1b[{}A\x1b[J", self.lines)?;
        }
        let rows = height.saturating_sub(2).max(1);
        let count = text.lines().count();
        let shown = if count > rows { rows - 1 } else { count };
        for line in text.lines().take(shown) {
            writeln!(out, "{}", line.chars().take(width).collect::<String>())?;
        }
        self.lines = shown;
        if count > shown {
            writeln!(out, "... {} lines more: ffs stat -c 1 shows them", count - shown)?;
            self.lines += 1;
        }
        out.flush()
    }
}

/// Columns and rows of the terminal.
fn terminal() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    let size = size.ok().filter(|s| s.ws_col > 0 && s.ws_row > 0);
    size.map_or((80, 24), |s| (s.ws_col.into(), s.ws_row.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: EntryKind) -> Entry {
        let meaning = "Something.".to_owned();
        Entry { name: name.to_owned(), value: String::new(), kind, takes: String::new(), meaning }
    }

    #[test]
    fn rates_are_of_counters_only_and_zeros_are_left_out() {
        let entries = [
            entry("vfs.cache.numposhits", EntryKind::Counter),
            entry("vfs.cache.numcache", EntryKind::Gauge),
            entry("vfs.ffs.reads", EntryKind::Counter),
            entry("vfs.ffs.frag_moves", EntryKind::Counter),
        ];
        let rows = rows(&entries, &[300, 7, 5, 0], Some(&[100, 9, 5, 0]), Some(2.0));
        let rates: Vec<Option<f64>> = rows.iter().map(|r| r.rate).collect();
        assert_eq!(rates, [Some(100.0), None, Some(0.0), Some(0.0)]);
        let text = table(&rows, Show::Counted, Some(2.0));
        assert!(
            text.contains("NAMES") && text.contains("DEVICE") && !text.contains("ALLOCATION"),
            "{text}"
        );
        assert!(table(&rows, Show::All, None).contains("vfs.ffs.frag_moves"));
        assert!(!table(&rows, Show::Busy, None).contains("vfs.ffs.reads"));
        assert_eq!(hits(&rows), "found in memory: names 100.0 %\n\n");
        assert_eq!(table(&[], Show::All, None), "nothing was counted yet\n");
    }

    #[test]
    fn intervals_are_checked() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "inf", "x", "1e30", "0.01"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
