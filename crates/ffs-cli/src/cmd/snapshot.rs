//! `ffs snapshot`.

mod change;
mod mounted;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bsdffs::snapshot::{Active, Listed, list};
use ffs_core::Timespec;
use serde::Serialize;

use super::{Doc, EXIT, mount};
use crate::current;
use crate::fail::{Failure, Outcome, shell_word, show};
use crate::output::{self, JsonName, JsonTime, human};
use crate::session::Session;
use crate::session::snapshot::{AtEnd, inside};
use crate::spec::{Place, image_path, is_not_new, place};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs snapshot create disk.img:/.snap/monday", "make a snapshot of an image"),
        ("ffs snapshot create /mnt/.snap/monday", "make one of a mounted volume, while it is used"),
        ("ffs snapshot list disk.img", "the snapshots of a volume, oldest first"),
        ("ffs snapshot list /mnt", "those of a mounted volume"),
        ("ffs snapshot mount disk.img:/.snap/monday /mnt", "mount one, read-only"),
        ("ffs ls -l disk.img:/.snap/monday", "list its root directory, without a mount"),
        ("ffs cp disk.img:/.snap/monday:/etc/rc.conf .", "copy a file out of it"),
        ("ffs fsck -n disk.img:/.snap/monday", "check the volume that it shows"),
    ],
    exit: EXIT,
    see_also: &["ffs-mount(8)", "ffs-dumpfs(8)", "ffs-fsck(8)", "ffs-cp(1)"],
    section: "8",
    usage_code: 64,
};

/// Make, list, delete and mount snapshots.
///
/// A snapshot is a file that shows the whole volume as it was at one moment. It is usually in the
/// directory .snap. Every command that reads an image accepts IMAGE:/.snap/NAME as an image, and
/// IMAGE:/.snap/NAME:/path for a file in it. A snapshot never changes.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Create(CreateArgs),
    Delete(DeleteArgs),
    List(ListArgs),
    Mount(MountArgs),
}

/// Make a snapshot of a volume.
///
/// SNAPSHOT is the new file: IMAGE:/.snap/NAME in an image, or a path in a directory on which ffs
/// has mounted one. Operations on a mounted volume wait for a short time, which is printed. A
/// volume has at most 20 snapshots. Each needs space for what changes after it was made.
#[derive(clap::Args)]
struct CreateArgs {
    /// The new snapshot
    #[arg(value_name = "SNAPSHOT")]
    snapshot: OsString,
    /// A name after the image: refused with a hint
    #[arg(hide = true)]
    name: Option<OsString>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Delete snapshots, and free their space.
///
/// The same as `ffs rm`, and rm(1) on a mount, but for snapshots only.
#[derive(clap::Args)]
struct DeleteArgs {
    /// Snapshots: IMAGE:/.snap/NAME, or paths on a mount
    #[arg(value_name = "SNAPSHOT", required = true)]
    snapshots: Vec<OsString>,
}

/// List the snapshots of a volume, oldest first.
///
/// Prints the paths, the inode, when the snapshot was made, the space that it holds and the size of
/// the volume that it shows. The space is freed when the last name is removed.
#[derive(clap::Args)]
struct ListArgs {
    /// IMAGE[@N], or the directory on which ffs has mounted the volume
    #[arg(value_name = "IMAGE|MOUNT")]
    image: OsString,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Mount a snapshot read-only by FUSE.
///
/// While it is mounted, the image with the snapshot is locked and cannot be changed. `ffs umount
/// DIR` ends the mount.
#[derive(clap::Args)]
struct MountArgs {
    /// The snapshot, such as disk.img:/.snap/monday
    #[arg(value_name = "IMAGE:/SNAPSHOT")]
    snapshot: OsString,
    /// The directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Mount options, separated by commas; `ffs mount -o help` lists them
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Stay in the foreground
    #[arg(short = 'f')]
    foreground: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Create(args) => {
            let CreateArgs { snapshot, name, json } = args;
            check_target(&snapshot, name.as_deref())?;
            change::create(&snapshot, json)
        }
        Command::Delete(args) => change::delete(&args.snapshots),
        Command::List(args) => list_snapshots(&args),
        Command::Mount(args) => mount_snapshot(args),
    }
}

#[derive(Serialize)]
struct Line {
    paths: Vec<JsonName>,
    inode: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<JsonTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Line {
    fn new(snapshot: Listed) -> Line {
        let paths = snapshot.paths.iter().map(|path| JsonName::new(path)).collect();
        let line = Line {
            paths,
            inode: snapshot.ino.0,
            made: None,
            held: None,
            size: None,
            problem: None,
        };
        match snapshot.state {
            Ok(Active { made, held, image }) => {
                Line { made: Some(at(made).into()), held: Some(held), size: Some(image), ..line }
            }
            Err(problem) => Line { problem: Some(problem), ..line },
        }
    }

    fn name(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(JsonName::shown).collect();
        if paths.is_empty() { "(no name)".to_owned() } else { paths.join(" ") }
    }
}

/// Refuses `create IMAGE` and `create IMAGE NAME`: the snapshot is one argument.
fn check_target(target: &OsStr, name: Option<&OsStr>) -> Result<(), Failure> {
    let image = match place(target) {
        Place::Host(path) if !path.is_dir() && is_not_new(target) && !is_on_mount(&path) => path,
        _ if name.is_none() => return Ok(()),
        Place::Host(path) => path,
        Place::Image(inside) => PathBuf::from(inside.image),
    };
    let name = name.map_or("NAME".into(), |name| show(name.as_bytes()));
    let path = match name.trim_start_matches('/') {
        name if name.contains('/') => format!("/{name}"),
        name => format!("/.snap/{name}"),
    };
    let image = show(image.as_os_str().as_bytes());
    let form = match (current::in_shell(), Path::new(&image).is_dir()) {
        (true, _) => path,
        (_, true) => shell_word(&format!("{image}{path}")).into_owned(),
        _ => shell_word(&format!("{image}:{path}")).into_owned(),
    };
    let failure = Failure::usage("a snapshot is one argument, the path of its file");
    Err(failure.hint(format!("write: ffs snapshot create {form}")))
}

/// Whether ffs has mounted a volume above `path`.
fn is_on_mount(path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_default();
    path.ancestors().skip(1).any(|above| ffs_fuse::Control::open(above).is_ok())
}

/// A time with whole seconds.
fn at(secs: i64) -> Timespec {
    Timespec { secs, ..Timespec::default() }
}

fn list_snapshots(args: &ListArgs) -> Outcome {
    let dir = Path::new(&args.image);
    if !current::in_shell() && dir.is_dir() {
        let name = show(args.image.as_bytes());
        return print_list(&name, mounted::list(dir)?, args.json);
    }
    let (session, _) = Session::read_at(&image_path(&args.image)?, AtEnd::Root)?;
    // A shell may have changes in memory.
    session.ffs.sync().map_err(|error| Failure::new(session.image(), error))?;
    let found = list(&*session.device, &session.ffs, &session.cred);
    let found = found.map_err(|error| Failure::new(session.image(), error))?;
    let printed = print_list(session.image(), found, args.json);
    session.finish()?;
    printed
}

/// Prints the snapshots of the volume `name`.
fn print_list(name: &str, found: Vec<Listed>, json: bool) -> Outcome {
    let lines: Vec<Line> = found.into_iter().map(Line::new).collect();
    for line in &lines {
        if let Some(problem) = &line.problem {
            let check = format!("check the volume: ffs fsck -n {}", shell_word(name));
            let what = format!("{name}:{}, inode {}", line.name(), line.inode);
            output::error(Failure::new(what, problem).hint(check).text);
        }
    }
    let mut out = output::stdout();
    if json {
        lines.iter().try_for_each(|line| output::json_line(&mut out, line))?;
    } else if lines.is_empty() {
        output::note(format!("{name}: no snapshots"));
    } else {
        write!(out, "{}", table(&lines))?;
    }
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

fn table(lines: &[Line]) -> String {
    let mut rows = vec![["made", "held", "size", "inode", "name"].map(str::to_owned).to_vec()];
    for line in lines {
        let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), human);
        let made = line.made.as_ref().map(|made| at(made.seconds()));
        rows.push(vec![
            made.map_or("-".to_owned(), |made| output::time(made, false)),
            bytes(line.held),
            bytes(line.size),
            line.inode.to_string(),
            line.name(),
        ]);
    }
    output::table(rows, &[1, 2, 3])
}

fn mount_snapshot(args: MountArgs) -> Outcome {
    if current::in_shell() {
        let why = "a shell holds the image; mount the snapshot outside";
        return Err(Failure::usage(why));
    }
    if inside(&args.snapshot).is_none() {
        let text = format!("{} names no file in an image", args.snapshot.display());
        let form = "write IMAGE:/.snap/NAME; ffs snapshot list IMAGE prints the names";
        return Err(Failure::usage(text).hint(form));
    }
    mount::run(mount::Args::of_snapshot(args.snapshot, args.dir, args.options, args.foreground))
}
