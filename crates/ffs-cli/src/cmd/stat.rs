//! `ffs stat`: of files in an image, and of a running mount ([`live`]).

mod live;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use ffs_admin::counted;
use ffs_core::{DeviceNumber, FileType};
use serde::Serialize;

use super::{Doc, EXIT};
use crate::current;
use crate::fail::{Failure, Outcome, show};
use crate::namei::last;
use crate::output::{self, JsonFile, JsonName, mode_string, time};
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use bsdffs::flags;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs stat disk.img:/etc/rc", "all fields of an inode"),
        ("ffs stat --json disk.img:/etc/rc disk.img:/bin/sh", "for programs"),
        ("ffs stat /mnt", "counters of a mount, every second; ^C ends it"),
        ("ffs stat -c 1 /mnt", "counters since the image was mounted"),
        ("ffs stat --json -w 10 -c 6 /mnt", "a line of JSON every ten seconds, six times"),
    ],
    exit: EXIT,
    see_also: &["ffs-ls(1)", "ffs-df(1)", "ffs-sysctl(8)"],
    section: "1",
    usage_code: 64,
};

/// Show the inodes of files in an image, or the counters of a mount.
///
/// IMAGE:/PATH: all fields of the inode. A symbolic link is shown itself, unless -L is given. Times
/// are UTC.
///
/// MOUNT, a directory that an image is mounted on: counters with their rates per second, and
/// gauges. The first sample counts from the mount, each later one from the sample before. On a
/// terminal a new sample is shown every second until ^C, otherwise one sample; -w and -c change
/// that. Values of 0 are omitted, unless -a is given.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N]:/path, or the directory of a mount
    #[arg(required = true, value_name = "IMAGE:/PATH|MOUNT")]
    paths: Vec<OsString>,
    /// Follow a symbolic link
    #[arg(short = 'L')]
    follow: bool,
    /// Print JSON, one object a line; for a mount, one for each sample
    #[arg(long)]
    json: bool,
    /// MOUNT: seconds between samples
    #[arg(short = 'w', value_name = "SECONDS", value_parser = live::seconds)]
    wait: Option<Duration>,
    /// MOUNT: number of samples
    #[arg(short = 'c', value_name = "COUNT", value_parser = live::looks)]
    count: Option<u64>,
    /// MOUNT: show values of 0, too
    #[arg(short = 'a')]
    all: bool,
}

#[derive(Serialize)]
struct JsonStat {
    #[serde(flatten)]
    file: JsonFile,
    xattrs: Vec<JsonXattr>,
}

#[derive(Serialize)]
struct JsonXattr {
    namespace: &'static str,
    #[serde(flatten)]
    name: JsonName,
    size: usize,
}

pub(crate) fn run(args: Args) -> Outcome {
    if let [one] = &args.paths[..]
        && is_mount(Path::new(one))
    {
        return live::run(Path::new(one), &args);
    }
    if args.wait.is_some() || args.count.is_some() || args.all {
        return Err(Failure::usage("-w, -c and -a are for one mount: ffs stat MOUNT"));
    }
    if args.paths.iter().any(|path| is_mount(Path::new(path))) {
        let text = "a mount must be the only argument: ffs stat MOUNT";
        return Err(Failure::usage(text));
    }
    let mut out = output::stdout();
    Session::read_each(&args.paths, AtEnd::File, |session, place| {
        let stat = look(session, &place.path, &args, &mut out)?;
        if args.json { output::json_line(&mut out, &stat) } else { Ok(()) }
    })?;
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

/// Whether `path` is a mount. Only its owner can read the type of a private mount's directory, so
/// the control file is tried, too.
fn is_mount(path: &Path) -> bool {
    !current::in_shell() && (path.is_dir() || ffs_fuse::Control::open(path).is_ok())
}

fn look(
    session: &Session,
    path: &[u8],
    args: &Args,
    out: &mut dyn Write,
) -> Result<JsonStat, Failure> {
    let file = session.find(path, last(!args.follow))?;
    let a = session.ffs.getattr(&file);
    let failed = |error| session.failed(path, error);
    let target = match a.kind {
        FileType::Symlink => Some(session.ffs.readlink(&file).map_err(failed)?),
        _ => None,
    };
    let names = match session.ffs.listxattr(&session.cred, &file) {
        Ok(names) => names,
        Err(ffs_core::Error::NotSupported(_)) => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    let mut xattrs = Vec::new();
    for (namespace, name) in names {
        let value = session.ffs.getxattr(&session.cred, &file, namespace, &name);
        let size = value.map_err(failed)?.len();
        let namespace = output::namespace_name(namespace);
        xattrs.push(JsonXattr { namespace, name: JsonName::new(&name), size });
    }
    let stat = JsonStat { file: JsonFile::new(path, &a, target.as_deref()), xattrs };
    if !args.json {
        print(session, path, &a, &stat, out)?;
    }
    Ok(stat)
}

fn print(
    session: &Session,
    path: &[u8],
    a: &ffs_core::Attr,
    stat: &JsonStat,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let arrow = stat.file.target().map(|t| format!(" -> {}", t.shown())).unwrap_or_default();
    writeln!(out, "  path  {}:{}{arrow}", session.image(), show(path))?;
    let (kind, size) = (output::kind_name(a.kind), counted(a.size, "byte"));
    let blocks = counted(a.blocks, "block");
    writeln!(out, "  type  {kind}, {size}, {blocks} of 512 bytes")?;
    if a.kind.is_device() {
        let DeviceNumber { major, minor } = DeviceNumber::from_disk(a.rdev);
        writeln!(out, "device  major {major}, minor {minor}")?;
    }
    let links = counted(a.nlink.into(), "link");
    writeln!(out, " inode  {}, generation {}, {links}", a.ino, a.generation)?;
    let (mode, perm) = (mode_string(a.kind, a.perm), a.perm);
    writeln!(out, "  mode  {mode} ({perm:04o}), uid {}, gid {}", a.uid, a.gid)?;
    writeln!(out, " flags  {}", flags::to_text(a.flags))?;
    writeln!(out, "access  {}", time(a.atime, true))?;
    writeln!(out, "modify  {}", time(a.mtime, true))?;
    writeln!(out, "change  {}", time(a.ctime, true))?;
    writeln!(out, " birth  {}", time(a.birthtime, true))?;
    for JsonXattr { namespace, name, size } in &stat.xattrs {
        let size = counted(*size as u64, "byte");
        writeln!(out, " xattr  {namespace}.{}, {size}", name.shown())?;
    }
    Ok(())
}
