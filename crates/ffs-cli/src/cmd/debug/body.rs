//! `ffs debug body`: a body file of The Sleuth Kit, for mactime(1).
//!
//! A line has eleven fields: MD5 (always 0), name, inode, type and mode, uid, gid, size, and the
//! times of access, change of the content, change of the inode, and birth, in seconds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;

use ffs_admin::inspect::{InodeState, Inspector, RawInode, RemovedName};
use ffs_core::{FileType, Ino};
use ffs_ondisk::Dinode;

use super::{Inspected, Stopped, warn_of_problems};
use crate::fail::{Failure, Outcome};
use crate::namei::{Last, join};
use crate::output::{self, mode_string};
use crate::walk::{Next, Step, walk};

/// Print a line for each file and removed name, for mactime(1).
///
/// The format is that of The Sleuth Kit 3 and later. Removed names are marked "(deleted)"; if their
/// inode was cleared, as BSD does, mode, size and times are 0. "(deleted-realloc)" marks those
/// whose inode has a file now.
#[derive(clap::Args)]
pub(super) struct Args {
    /// IMAGE[@N]
    #[arg(value_name = "IMAGE")]
    image: OsString,
    /// Put this before each name, as `mactime` shows it
    #[arg(short = 'm', value_name = "PREFIX", default_value = "")]
    prefix: String,
}

pub(super) fn run(args: &Args) -> Outcome {
    let volume = Inspected::open(&args.image)?;
    let failed = |error| volume.failed(&error);
    let inspector = Inspector::open(volume.device()).map_err(failed)?;
    let mut out = output::stdout();
    let dirs = live(args, &volume, &inspector, &mut out)?;
    inspector
        .removed_names(|removed| -> Result<(), Stopped> {
            Ok(print_removed(args, &inspector, &dirs, &removed, &mut out)?)
        })
        .map_err(|why| volume.stopped(why))?;
    warn_of_problems(&volume, &inspector);
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

/// Prints the files that have names. Returns the paths of the directories.
fn live(
    args: &Args,
    volume: &Inspected,
    inspector: &Inspector<'_>,
    out: &mut impl Write,
) -> Result<BTreeMap<Ino, Vec<u8>>, Failure> {
    let session = volume.session()?;
    let mut dirs = BTreeMap::new();
    let result = session.find(b"/", Last::Keep).and_then(|root| {
        walk(&session, b"/", root, &mut |step| {
            if let Step::Before(visit) = step {
                if visit.attr.kind == FileType::Directory {
                    dirs.insert(visit.attr.ino, visit.path.to_vec());
                }
                let inode = inspector.inode(visit.attr.ino).map_err(|e| volume.failed(&e))?;
                let target = match visit.attr.kind {
                    FileType::Symlink => session.ffs.readlink(visit.file).ok(),
                    _ => None,
                };
                line(args, visit.path, target.as_deref(), &inode, ("", None), out)?;
            }
            Ok(Next::Enter)
        })
    });
    session.finish_with(result)?;
    Ok(dirs)
}

fn print_removed(
    args: &Args,
    inspector: &Inspector<'_>,
    dirs: &BTreeMap<Ino, Vec<u8>>,
    removed: &RemovedName,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let ino = Ino(removed.record.ino);
    let mark = match removed.state {
        InodeState::InUse => " (deleted-realloc)",
        _ => " (deleted)",
    };
    let cleared = RawInode {
        ino,
        frag: removed.record.frag,
        byte: 0,
        in_use: false,
        dinode: Dinode::default(),
        problem: None,
    };
    let inode = match removed.state {
        InodeState::Unknown => cleared,
        _ => inspector.inode(ino).unwrap_or(cleared),
    };
    let unknown = format!("#{}", removed.dir.0).into_bytes();
    let path = join(dirs.get(&removed.dir).unwrap_or(&unknown), &removed.record.name);
    line(args, &path, None, &inode, (mark, Some(removed.record.dtype)), out)
}

/// Prints a line. `target`: that of a symbolic link. `mark`: what follows the name. `dtype`: the
/// type in the directory, if it is not that of the inode.
fn line(
    args: &Args,
    path: &[u8],
    target: Option<&[u8]>,
    inode: &RawInode,
    (mark, dtype): (&str, Option<u8>),
    out: &mut impl Write,
) -> Result<(), Failure> {
    let d = &inode.dinode;
    let kind = d.file_type();
    let in_name = match dtype {
        Some(dtype) => FileType::of_dirent(dtype).map_or('-', letter),
        None => kind.map_or('-', letter),
    };
    let mode = match kind {
        Some(kind) => {
            let text = mode_string(kind, d.mode & 0o7777);
            format!("{}{}", letter(kind), text.get(1..).unwrap_or_default())
        }
        None => "----------".to_owned(),
    };
    // A separator or an end of line in a name would be read as the next field or line.
    let name: Vec<u8> = path.iter().flat_map(|&byte| escaped(byte)).collect();
    write!(out, "0|{}", args.prefix)?;
    out.write_all(&name)?;
    if let Some(target) = target {
        out.write_all(b" -> ")?;
        let text: Vec<u8> = target.iter().flat_map(|&byte| escaped(byte)).collect();
        out.write_all(&text)?;
    }
    let times = [d.atime, d.mtime, d.ctime, d.birthtime].map(|at| at.secs.to_string()).join("|");
    writeln!(
        out,
        "{mark}|{}|{in_name}/{mode}|{}|{}|{}|{times}",
        inode.ino.0, d.uid, d.gid, d.size
    )?;
    Ok(())
}

/// The Sleuth Kit's letter of a type.
fn letter(kind: FileType) -> char {
    match kind {
        FileType::Fifo => 'p',
        FileType::Char => 'c',
        FileType::Directory => 'd',
        FileType::Block => 'b',
        FileType::Regular => 'r',
        FileType::Symlink => 'l',
        FileType::Socket => 'h',
    }
}

fn escaped(byte: u8) -> Vec<u8> {
    match byte {
        b'|' | b'\\' | 0..=31 | 127 => format!("\\x{byte:02x}").into_bytes(),
        _ => vec![byte],
    }
}
