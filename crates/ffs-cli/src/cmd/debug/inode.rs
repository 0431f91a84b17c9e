//! `ffs debug inode`.

use std::io::Write;

use bsdffs::flags;
use ffs_admin::inspect::RawInode;
use ffs_ondisk::Geometry;
use serde::Serialize;

use super::{Shown, ShownArgs};
use crate::fail::Failure;
use crate::output::{self, JsonTime, kind_name, mode_string, time};

/// Show an inode, field by field.
///
/// Pointers are shown as stored: the first fragment of each block, 0 for a hole.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) shown: ShownArgs,
}

#[derive(Serialize)]
struct JsonInode {
    inode: u32,
    fragment: u64,
    byte: u64,
    in_use: bool,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    mode: String,
    nlink: u16,
    uid: u32,
    gid: u32,
    size: u64,
    blocks512: u64,
    flags: String,
    generation: u32,
    atime: JsonTime,
    mtime: JsonTime,
    ctime: JsonTime,
    birthtime: JsonTime,
    direct: [i64; 12],
    indirect: [i64; 3],
    ext_size: u32,
    ext: [i64; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

pub(super) fn show(args: &Args, at: &Shown<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    let inode = at.inode()?;
    if args.shown.json {
        return output::json_line(&mut { out }, &json(&inode));
    }
    print(at.inspector.geometry(), &inode, out).map_err(Into::into)
}

fn json(inode: &RawInode) -> JsonInode {
    let d = &inode.dinode;
    JsonInode {
        inode: inode.ino.0,
        fragment: inode.frag.0,
        byte: inode.byte,
        in_use: inode.in_use,
        kind: d.file_type().map(kind_name),
        mode: format!("{:07o}", d.mode),
        nlink: d.nlink,
        uid: d.uid,
        gid: d.gid,
        size: d.size,
        blocks512: d.blocks,
        flags: flags::to_text(d.flags),
        generation: d.generation,
        atime: d.atime.into(),
        mtime: d.mtime.into(),
        ctime: d.ctime.into(),
        birthtime: d.birthtime.into(),
        direct: d.db,
        indirect: d.ib,
        ext_size: d.extsize,
        ext: d.extb,
        problem: inode.problem.clone(),
    }
}

fn print(g: &Geometry, inode: &RawInode, out: &mut dyn Write) -> std::io::Result<()> {
    let (d, n) = (&inode.dinode, inode.ino.0);
    let state = match (inode.in_use, inode.is_file()) {
        (true, true) => "in use",
        (true, false) => "in use by the map, without a type: it is being made or was removed",
        (false, true) => "free by the map, not cleared",
        (false, false) => "free",
    };
    writeln!(out, "   inode  {n}, fragment {}, byte {}: {state}", inode.frag.0, inode.byte)?;
    let kind = d.file_type();
    let text = kind.map(|kind| mode_string(kind, d.mode & 0o7777)).unwrap_or_default();
    let name = kind.map_or("no type", kind_name);
    writeln!(out, "    mode  {:07o} {text} ({name})", d.mode)?;
    writeln!(out, "   links  {}, uid {}, gid {}", d.nlink, d.uid, d.gid)?;
    writeln!(out, "    size  {}, blocks of 512 bytes: {}", d.size, d.blocks)?;
    writeln!(out, "   flags  {}, generation {}", flags::to_text(d.flags), d.generation)?;
    for (name, at) in
        [("access", d.atime), ("modify", d.mtime), ("change", d.ctime), ("birth", d.birthtime)]
    {
        writeln!(out, "{name:>8}  {}", time(at, true))?;
    }
    if d.is_short_symlink(g) {
        let text = crate::fail::show(d.short.text(d.size));
        writeln!(out, "  target  {text} (in the inode)")?;
    } else if kind.is_some_and(|kind| kind.is_device()) {
        let number = ffs_core::DeviceNumber::from_disk(d.rdev());
        writeln!(out, "  device  major {}, minor {}", number.major, number.minor)?;
    } else {
        let words = |list: &[i64]| list.iter().map(|p| format!(" {p}")).collect::<String>();
        writeln!(out, "  direct {}", words(&d.db))?;
        writeln!(out, "indirect {}", words(&d.ib))?;
    }
    if d.extsize > 0 || d.extb != [0; 2] {
        writeln!(out, "     ext  {} bytes at {} {}", d.extsize, d.extb[0], d.extb[1])?;
    }
    if let Some(problem) = &inode.problem {
        writeln!(out, " problem  {problem}")?;
    }
    Ok(())
}
