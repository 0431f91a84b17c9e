//! `ffs debug blocks`.

use std::io::Write;

use ffs_admin::inspect::{Block, BlockKind};
use serde::Serialize;

use super::{Shown, ShownArgs, Stopped};
use crate::fail::Failure;
use crate::output;

/// Show where the blocks of a file are.
///
/// A line is a run of fragments: what it holds, the numbers of its blocks in the file, and its
/// fragments on the volume. Neighbours of one kind are joined. The blocks that an indirect block
/// maps follow it.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) shown: ShownArgs,
}

/// Blocks that follow one another in the file and on the volume.
struct Run {
    first: Block,
    last: u64,
    frags: u64,
}

#[derive(Serialize)]
struct JsonRun {
    inode: u32,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<usize>,
    first_block: u64,
    last_block: u64,
    fragment: u64,
    fragments: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'static str>,
}

pub(super) fn show(args: &Args, at: &Shown<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    let inode = at.inode()?;
    let frag = at.inspector.geometry().frag;
    let mut run: Option<Run> = None;
    at.inspector
        .blocks(&inode.dinode, |block| -> Result<bool, Stopped> {
            if let Some(run) = run.as_mut().filter(|run| continues(run, &block, frag)) {
                run.last = block.lbn.0;
                run.frags += u64::from(block.frags);
                return Ok(true);
            }
            let next = Run { first: block, last: block.lbn.0, frags: block.frags.into() };
            if let Some(run) = run.replace(next) {
                print(args, at.ino.0, &run, out)?;
            }
            Ok(true)
        })
        .map_err(|why| at.volume.stopped(why))?;
    match run {
        Some(run) => print(args, at.ino.0, &run, out),
        None if args.shown.json => Ok(()),
        None => Ok(writeln!(out, "inode {} has no blocks", at.ino.0)?),
    }
}

/// Whether `block` comes behind a run of whole blocks in the file and on the volume.
fn continues(run: &Run, block: &Block, frag: u32) -> bool {
    let is_data = run.first.kind == BlockKind::Data && block.kind == BlockKind::Data;
    let is_sound = run.first.problem.is_none() && block.problem.is_none();
    let is_next = || block.lbn.0 == run.last + 1 && block.at.0 == run.first.at.0 + run.frags;
    is_data && is_sound && is_next() && run.frags.is_multiple_of(frag.into())
}

fn print(args: &Args, ino: u32, run: &Run, out: &mut dyn Write) -> Result<(), Failure> {
    let Run { first, last, frags } = run;
    let (kind, level) = match first.kind {
        BlockKind::Data => ("data", None),
        BlockKind::Indirect(level) => ("indirect", Some(level)),
        BlockKind::ExtAttr => ("extattr", None),
    };
    if args.shown.json {
        let run = JsonRun {
            inode: ino,
            kind,
            level,
            first_block: first.lbn.0,
            last_block: *last,
            fragment: first.at.0,
            fragments: *frags,
            problem: first.problem,
        };
        return output::json_line(&mut { out }, &run);
    }
    let kind = level.map_or_else(|| kind.to_owned(), |level| format!("indirect, level {level}"));
    let blocks =
        if *last == first.lbn.0 { last.to_string() } else { format!("{}-{last}", first.lbn.0) };
    let end = first.at.0.saturating_add(*frags).saturating_sub(1);
    write!(out, "{kind:<17} block {blocks:<17} fragments {}-{end}", first.at.0)?;
    match first.problem {
        Some(problem) => writeln!(out, "  ({problem})")?,
        None => writeln!(out)?,
    }
    Ok(())
}
