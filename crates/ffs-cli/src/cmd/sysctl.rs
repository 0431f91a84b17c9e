//! `ffs sysctl`.

use std::io::Write;
use std::path::PathBuf;

use ffs_fuse::{Control, Entry, EntryKind};
use serde::Serialize;

use super::Doc;
use crate::fail::{Failure, Outcome};
use crate::output;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs sysctl /mnt", "every switch, counter and gauge"),
        ("ffs sysctl -d /mnt vfs.ufs", "those of directories, with their descriptions"),
        ("ffs sysctl /mnt vfs.vmiodirenable=0", "set a switch"),
        ("ffs sysctl -n /mnt vfs.ufs.dirhash_mem", "only the value, for scripts"),
    ],
    exit: &[
        ("0", "everything was shown and set"),
        ("N", "as many names failed; each has a line on standard error"),
        ("1", "the directory is not an ffs mount"),
    ],
    see_also: &["ffs-stat(1)", "ffs-mount(8)"],
    section: "8",
    usage_code: 64,
};

/// Show and set the switches of a mount, by their BSD names.
///
/// A prefix such as vfs.cache shows every name below it. Only root and the user who mounted the
/// image may set a switch. A value lasts until the unmount. `ffs mount -o help` lists the switches
/// that can be set when an image is mounted.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory an image is mounted on
    #[arg(value_name = "MOUNT")]
    mount: PathBuf,
    /// Names to show, or to set if a value follows [default: all]
    #[arg(value_name = "NAME[=VALUE]")]
    names: Vec<String>,
    /// Show all names
    #[arg(short)]
    all: bool,
    /// Print only values
    #[arg(short = 'n', conflicts_with = "json")]
    values: bool,
    /// Print only names
    #[arg(short = 'N', conflicts_with_all = ["json", "values"])]
    names_only: bool,
    /// Print descriptions, too
    #[arg(short, conflicts_with_all = ["values", "names_only"])]
    describe: bool,
    /// Print NAME=VALUE, the form that sets a switch
    #[arg(short = 'e')]
    equals: bool,
    /// Ignore unknown names
    #[arg(short)]
    ignore: bool,
    /// Print JSON, one object a line; for a switch that is set, its new value
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    value: serde_json::Value,
    kind: &'static str,
    writable: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    takes: &'a str,
    meaning: &'a str,
}

pub(crate) fn run(args: Args) -> Outcome {
    let control = Control::open(&args.mount).map_err(Failure::plain)?;
    let mut out = output::stdout();
    let mut requested: Vec<String> = Vec::new();
    for word in &args.names {
        let Some((name, value)) = word.split_once('=') else {
            requested.push(word.clone());
            continue;
        };
        match control.set(name.trim(), value.trim()) {
            Ok(c) if args.json => requested.push(c.name),
            Ok(c) if args.values => writeln!(out, "{} -> {}", c.before, c.now)?,
            Ok(c) => writeln!(out, "{}: {} -> {}", c.name, c.before, c.now)?,
            Err(error) => output::error(error.to_string()),
        }
    }
    // The list is read after all switches are set, so it has the new values.
    let entries = control.list().map_err(Failure::plain)?;
    let mut shown: Vec<&Entry> = Vec::new();
    if args.names.is_empty() || args.all {
        shown.extend(&entries);
    }
    for word in &requested {
        let found = below(&entries, word);
        if found.is_empty() && !args.ignore {
            output::error(unknown(&entries, word));
        }
        shown.extend(found);
    }
    print(&args, &shown, &mut out)?;
    out.flush()?;
    Ok(u8::try_from(output::errors()).unwrap_or(u8::MAX).min(125))
}

/// The entry of that name, or all that begin with it and a dot.
fn below<'e>(entries: &'e [Entry], name: &str) -> Vec<&'e Entry> {
    let inside = |e: &&Entry| {
        e.name == name || e.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
    };
    entries.iter().filter(inside).collect()
}

fn unknown(entries: &[Entry], name: &str) -> String {
    let nearest = ffs_core::nearest(name, entries.iter().map(|e| e.name.as_str()));
    format!("unknown name '{name}'{}; ffs sysctl MOUNT lists them", ffs_core::suggestion(nearest))
}

fn print(args: &Args, shown: &[&Entry], out: &mut impl Write) -> Result<(), Failure> {
    if args.json {
        return shown.iter().try_for_each(|e| output::json_line(out, &line(e)));
    }
    if args.describe && !shown.is_empty() {
        let head = ["name", "value", "takes", "meaning"].map(str::to_owned).to_vec();
        let mut rows = vec![head];
        rows.extend(shown.iter().map(|e| {
            let takes = match e.kind {
                EntryKind::Switch => e.takes.clone(),
                EntryKind::Counter | EntryKind::Gauge => "(read-only)".to_owned(),
            };
            vec![e.name.clone(), e.value.clone(), takes, e.meaning.clone()]
        }));
        write!(out, "{}", output::table(rows, &[1]))?;
        return Ok(());
    }
    for e in shown {
        match () {
            () if args.values => writeln!(out, "{}", e.value)?,
            () if args.names_only => writeln!(out, "{}", e.name)?,
            () if args.equals => writeln!(out, "{}={}", e.name, e.value)?,
            () => writeln!(out, "{}: {}", e.name, e.value)?,
        }
    }
    Ok(())
}

fn line(e: &Entry) -> Line<'_> {
    let number = e.value.parse::<u64>().map(serde_json::Value::from);
    Line {
        name: &e.name,
        value: number.unwrap_or_else(|_| e.value.as_str().into()),
        kind: match e.kind {
            EntryKind::Switch => "switch",
            EntryKind::Counter => "counter",
            EntryKind::Gauge => "gauge",
        },
        writable: e.kind == EntryKind::Switch,
        takes: &e.takes,
        meaning: &e.meaning,
    }
}
