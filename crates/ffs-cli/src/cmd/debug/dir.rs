//! `ffs debug dir`.

use std::io::Write;

use ffs_admin::inspect::{RawRecord, RecordState};
use ffs_core::FileType;
use ffs_ondisk::dir::DT_WHT;
use serde::Serialize;

use super::{Shown, ShownArgs, Stopped};
use crate::fail::Failure;
use crate::output::{self, JsonName, kind_name};

/// Show the records of a directory.
///
/// The columns are the byte of the record in the directory, its state, the inode, the type, the
/// length of the record, and the name. A removed name whose bytes are still there is "removed"; its
/// inode is 0 if that was overwritten.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) shown: ShownArgs,
}

#[derive(Serialize)]
struct JsonRecord {
    directory: u32,
    offset: u32,
    fragment: u64,
    state: &'static str,
    inode: u32,
    #[serde(rename = "type")]
    kind: &'static str,
    reclen: usize,
    #[serde(flatten)]
    name: JsonName,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

pub(super) fn show(args: &Args, at: &Shown<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    let dir = at.inode()?;
    if dir.dinode.file_type() != Some(FileType::Directory) {
        let what = format!("{}:#{}", at.volume.name(), at.ino.0);
        return Err(Failure::new(what, "is not a directory"));
    }
    at.inspector
        .records(&dir, |record| -> Result<(), Stopped> { Ok(print(args, at.ino.0, &record, out)?) })
        .map_err(|why| at.volume.stopped(why))
}

/// The type of a record in words.
pub(crate) fn type_name(dtype: u8) -> &'static str {
    match dtype {
        0 => "-",
        DT_WHT => "whiteout",
        _ => FileType::of_dirent(dtype).map_or("?", kind_name),
    }
}

fn print(args: &Args, dir: u32, record: &RawRecord, out: &mut dyn Write) -> Result<(), Failure> {
    let state = match record.state {
        RecordState::Live => "name",
        RecordState::Free => "free",
        RecordState::Stale => "removed",
        RecordState::Bad => "bad",
    };
    let (off, ino, kind, reclen) =
        (record.off.0, record.ino, type_name(record.dtype), record.reclen);
    if args.shown.json {
        let record = JsonRecord {
            directory: dir,
            offset: off,
            fragment: record.frag.0,
            state,
            inode: ino,
            kind,
            reclen,
            name: JsonName::new(&record.name),
            problem: record.problem.clone(),
        };
        return output::json_line(&mut { out }, &record);
    }
    write!(out, "{off:>8}  {state:<7}  {ino:>10}  {kind:<9}  {reclen:>5}  ")?;
    match &record.problem {
        Some(problem) => write!(out, "{problem}")?,
        None => output::name(&mut { &mut *out }, &record.name)?,
    }
    writeln!(out)?;
    Ok(())
}
