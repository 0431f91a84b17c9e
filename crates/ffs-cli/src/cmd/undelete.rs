//! `ffs undelete`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ffs_admin::inspect::{InodeState, Inspector, RawInode, RemovedInode, RemovedName};
use ffs_admin::{AdminError, counted};
use ffs_core::{FileType, Ino};
use serde::Serialize;

use super::debug::{Inspected, Stopped, type_name, warn_of_problems};
use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome, shell_word};
use crate::output::{self, JsonName, JsonTime, kind_name, time};
use crate::signals;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs undelete disk.img", "list removed names, and removed files that are still whole"),
        ("ffs undelete -d found disk.img", "recover the files into the directory ./found"),
        ("ffs undelete -d found disk.img 1234", "recover inode 1234"),
        ("ffs undelete --json disk.img", "the list for programs"),
    ],
    exit: EXIT,
    see_also: &["ffs-debug(8)", "ffs-fsck(8)", "ffs-snapshot(8)"],
    section: "8",
    usage_code: 64,
};

/// List removed files, and recover what is left of them.
///
/// BSD clears the inode of a removed file, and with it the place of its content: mostly only the
/// name is left. A file can be recovered if no directory has a name for its inode ("unlinked"), or
/// if its inode is free and was not cleared ("left"). A file is unlinked if the system stopped
/// while a program had it open, or soon after its removal or creation, or if the directory with its
/// name is damaged. An inode that is "in-use" has a file with a name, a later one or the same under
/// another name. Blocks that other files use since are counted and reported. Nothing on the image
/// is changed. Stop writing to the volume first: unmount it, or work on a copy.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Recover files into this directory of the host, as inode-NUMBER
    #[arg(short = 'd', value_name = "DIR")]
    dir: Option<PathBuf>,
    /// IMAGE[@N]
    #[arg(value_name = "IMAGE")]
    image: OsString,
    /// Inode numbers of the files to recover (without any: all)
    #[arg(value_name = "INODE", requires = "dir")]
    inodes: Vec<u32>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum JsonLine {
    Name {
        directory: u32,
        #[serde(flatten)]
        name: JsonName,
        inode: u32,
        #[serde(rename = "type")]
        kind: &'static str,
        state: &'static str,
    },
    Inode {
        inode: u32,
        #[serde(rename = "type")]
        kind: &'static str,
        size: u64,
        uid: u32,
        mtime: JsonTime,
        state: &'static str,
    },
    Recovered {
        inode: u32,
        path: JsonName,
        size: u64,
        blocks: u64,
        reused: u64,
        bad: u64,
    },
}

pub(crate) fn run(args: Args) -> Outcome {
    signals::listen();
    let volume = Inspected::open(&args.image)?;
    let inspector = Inspector::open(volume.device()).map_err(|error| volume.failed(&error))?;
    let mut out = output::stdout();
    match &args.dir {
        None => list(&args, &volume, &inspector, &mut out)?,
        Some(dir) => recover(&args, &volume, &inspector, dir, &mut out)?,
    }
    warn_of_problems(&volume, &inspector);
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

fn list(
    args: &Args,
    volume: &Inspected,
    inspector: &Inspector<'_>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let stopped = |why| volume.stopped(why);
    let (mut inodes, mut content, mut names) = (0_u64, 0_u64, 0_u64);
    inspector
        .removed_inodes(|removed| -> Result<(), Stopped> {
            signals::check()?;
            inodes += 1;
            content += u64::from(removed.inode.dinode.size > 0);
            Ok(print_inode(args, &removed, inodes == 1, out)?)
        })
        .map_err(stopped)?;
    inspector
        .removed_names(|removed| -> Result<(), Stopped> {
            signals::check()?;
            names += 1;
            Ok(print_name(args, &removed, names == 1, out)?)
        })
        .map_err(stopped)?;
    if !args.json {
        let image = volume.name();
        let (word, names) = (shell_word(image), counted(names, "removed name"));
        match content {
            0 => writeln!(out, "{image}: no removed file can be recovered; {names}")?,
            _ => writeln!(
                out,
                "{image}: {} can be recovered (ffs undelete -d DIR {word}); {names}",
                counted(content, "removed file")
            )?,
        }
    }
    Ok(())
}

fn print_inode(
    args: &Args,
    removed: &RemovedInode,
    is_first: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let (ino, d) = (removed.inode.ino.0, &removed.inode.dinode);
    let kind = d.file_type().map_or("unknown", kind_name);
    let state = state_name(removed.state);
    if args.json {
        let (size, uid, mtime) = (d.size, d.uid, d.mtime.into());
        let line = JsonLine::Inode { inode: ino, kind, size, uid, mtime, state };
        return output::json_line(out, &line);
    }
    if is_first {
        writeln!(
            out,
            "{:>10}  {:<9}  {:>14}  {:>6}  {:<16}  state",
            "inode", "type", "size", "uid", "modified"
        )?;
    }
    let at = time(d.mtime, false);
    writeln!(out, "{ino:>10}  {kind:<9}  {:>14}  {:>6}  {at:<16}  {state}", d.size, d.uid)?;
    Ok(())
}

fn print_name(
    args: &Args,
    removed: &RemovedName,
    is_first: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let RemovedName { dir, record, state } = removed;
    let (kind, state) = (type_name(record.dtype), state_name(*state));
    if args.json {
        let (name, inode) = (JsonName::new(&record.name), record.ino);
        return output::json_line(
            out,
            &JsonLine::Name { directory: dir.0, name, inode, kind, state },
        );
    }
    if is_first {
        writeln!(out, "{:>10}  {:<9}  {:>10}  {:<9}  name", "inode", "type", "directory", "state")?;
    }
    write!(out, "{:>10}  {kind:<9}  {:>10}  {state:<9}  ", record.ino, dir.0)?;
    output::name(out, &record.name)?;
    writeln!(out)?;
    Ok(())
}

fn state_name(state: InodeState) -> &'static str {
    match state {
        InodeState::Unknown => "unknown",
        InodeState::InUse => "in-use",
        InodeState::Unlinked => "unlinked",
        InodeState::Left => "left",
        InodeState::Cleared => "cleared",
    }
}

fn recover(
    args: &Args,
    volume: &Inspected,
    inspector: &Inspector<'_>,
    dir: &Path,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let failed = |error| volume.failed(&error);
    let mut found = Vec::new();
    if args.inodes.is_empty() {
        inspector
            .removed_inodes(|removed| -> Result<(), AdminError> {
                found.push(removed.inode.ino);
                Ok(())
            })
            .map_err(failed)?;
    } else {
        found.extend(args.inodes.iter().copied().map(Ino));
    }
    fs::create_dir_all(dir).map_err(|error| Failure::host(dir, &error))?;
    let mut recovered = 0_u64;
    for ino in found {
        signals::check()?;
        let one = inspector.inode(ino).map_err(failed);
        match one.and_then(|one| recover_one(args, volume, inspector, &one, dir, out)) {
            Ok(true) => recovered += 1,
            Ok(false) => {}
            Err(failure) if signals::interrupted() => return Err(failure),
            Err(failure) => output::error(failure.text),
        }
    }
    if recovered == 0 && output::errors() == 0 && !args.json {
        writeln!(out, "{}: no removed file can be recovered", volume.name())?;
    }
    Ok(())
}

/// Creates the file `path` with what `write` writes. The file has another name until it is
/// complete: a part of a file would look like a whole one. A file of an earlier recovery is kept.
fn write_whole<T>(
    path: &Path,
    write: impl FnOnce(&mut StoppableWriter<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let failed = |error: io::Error| Failure::host(path, &error);
    if fs::symlink_metadata(path).is_ok() {
        return Err(failed(io::Error::from(rustix::io::Errno::EXIST)));
    }
    let mut new = tempfile::Builder::new();
    let new = new.prefix(".ffs-undelete.").permissions(fs::Permissions::from_mode(0o666));
    let mut file = new.tempfile_in(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    let done = write(&mut StoppableWriter(file.as_file_mut()));
    signals::check()?;
    let done = done?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist_noclobber(path).map_err(|error| failed(error.error))?;
    Ok(done)
}

/// A file, which cannot be written after SIGINT or SIGTERM.
struct StoppableWriter<'a>(&'a mut fs::File);

impl Write for StoppableWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if signals::interrupted() { Err(signals::error()) } else { self.0.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Seek for StoppableWriter<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// Recovers one file. Returns whether there was one.
fn recover_one(
    args: &Args,
    volume: &Inspected,
    inspector: &Inspector<'_>,
    inode: &RawInode,
    dir: &Path,
    out: &mut impl Write,
) -> Result<bool, Failure> {
    let what = || format!("{}:#{}", volume.name(), inode.ino.0);
    let d = &inode.dinode;
    // Damage elsewhere, which may hide a name, does not prevent a recovery.
    let state = inspector.state_of(inode);
    if matches!(state, Ok(InodeState::InUse)) && inode.is_file() {
        let (why, what) = ("is not removed: a directory has a name for it", what());
        let file = shell_word(&what);
        return Err(Failure::new(&what, why).hint(format!("`ffs cp {file} .` copies it")));
    }
    match d.file_type() {
        Some(FileType::Regular | FileType::Directory | FileType::Symlink) => {}
        None => {
            return Err(Failure::new(
                what(),
                "the inode is cleared: the place of its content is lost",
            ));
        }
        Some(kind) if args.inodes.is_empty() => {
            output::note(format!("{}: a {} has no content", what(), kind_name(kind)));
            return Ok(false);
        }
        Some(kind) => {
            return Err(Failure::new(what(), format!("a {} has no content", kind_name(kind))));
        }
    }
    if let Some(problem) = &inode.problem {
        return Err(Failure::new(what(), format!("the inode is damaged: {problem}")));
    }
    let path = dir.join(format!("inode-{}", inode.ino.0));
    let done = write_whole(&path, |file| {
        inspector.content(inode, file).map_err(|error| volume.failed(&error))
    })?;
    let (ino, size) = (inode.ino.0, d.size);
    if args.json {
        let path = JsonName::new(path.as_os_str().as_encoded_bytes());
        let (blocks, reused, bad) = (done.blocks, done.reused, done.bad);
        let line = JsonLine::Recovered { inode: ino, path, size, blocks, reused, bad };
        output::json_line(out, &line)?;
    } else {
        writeln!(out, "{}: {size} bytes of inode {ino}", path.display())?;
    }
    if done.reused > 0 {
        let (reused, all) = (done.reused, done.blocks);
        let text = format!("{reused} of its {all} blocks are in use by other files now");
        output::warn(format!("{}: {text}", what()));
    }
    if done.bad > 0 {
        let text = format!("{} of its pointers are damaged; there are zeros instead", done.bad);
        output::warn(format!("{}: {text}", what()));
    }
    Ok(true)
}
