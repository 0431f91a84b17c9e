//! Sequences of calls that programs make on files and trees.

use std::time::Duration;

use super::progress::ProgressMeter;
use crate::error::Result;
use crate::systems::{DirId, FileId, Kind, Open, Target};

/// Processor time of starting a program.
pub(super) const EXEC: Duration = Duration::from_millis(3);

/// How a program opens a file and in what pieces it writes.
#[derive(Clone, Copy)]
pub(super) struct WriteMode {
    pub(super) open: Open,
    /// Bytes of one call.
    pub(super) piece: u64,
}

/// Writes `size` bytes at offset `from`, in pieces.
pub(super) fn write_pieces(
    t: &mut dyn Target,
    file: FileId,
    from: u64,
    size: u64,
    piece: u64,
) -> Result<()> {
    let mut done = 0;
    while done < size {
        let len = piece.min(size - done);
        t.write(file, from + done, len as usize)?;
        done += len;
    }
    Ok(())
}

/// Opens a file, writes `size` bytes and closes it.
pub(super) fn write_file(
    t: &mut dyn Target,
    at: DirId,
    name: &[u8],
    size: u64,
    mode: WriteMode,
) -> Result<()> {
    let file = t.open(at, name, mode.open)?;
    write_pieces(t, file, 0, size, mode.piece)?;
    t.close(file)
}

/// Reads up to `size` bytes from the start, in pieces; returns the bytes read.
pub(super) fn read_pieces(t: &mut dyn Target, file: FileId, size: u64, piece: u64) -> Result<u64> {
    let mut done = 0;
    while done < size {
        let read = t.read(file, done, piece.min(size - done) as usize)? as u64;
        if read == 0 {
            break;
        }
        done += read;
    }
    Ok(done)
}

/// Opens a file, reads up to `size` bytes and closes it; returns the bytes read.
pub(super) fn read_file(
    t: &mut dyn Target,
    at: DirId,
    name: &[u8],
    size: u64,
    piece: u64,
) -> Result<u64> {
    let file = t.open(at, name, Open::Read)?;
    let read = read_pieces(t, file, size, piece)?;
    t.close(file)?;
    Ok(read)
}

/// The entries of a directory, in the order of the directory.
pub(super) fn entries(t: &mut dyn Target, at: DirId) -> Result<Vec<(Vec<u8>, Kind)>> {
    let mut found = Vec::new();
    t.list_kinds(at, &mut |name, kind| found.push((name.to_owned(), kind)))?;
    Ok(found)
}

/// Removes a directory and everything below it, as `rm -rf` does: lists each directory, calls
/// `stat` for its entries, then removes them in the order of the directory. Returns the number of
/// names removed.
pub(super) fn remove_tree(
    t: &mut dyn Target,
    at: DirId,
    name: &[u8],
    meter: &mut ProgressMeter<'_>,
) -> Result<u64> {
    let dir = t.open_dir(at, name)?;
    let found = entries(t, dir)?;
    for (name, _) in &found {
        t.stat(dir, name)?;
    }
    let mut removed = 1;
    for (name, kind) in &found {
        if *kind == Kind::Directory {
            removed += remove_tree(t, dir, name, meter)?;
        } else {
            t.unlink(dir, name)?;
            removed += 1;
            meter.tick()?;
        }
    }
    t.close_dir(dir)?;
    t.rmdir(at, name)?;
    meter.tick()?;
    Ok(removed)
}

/// The callback of [`walk`]: the target, the open directory, the entry's name and kind.
type Visit<'a> = dyn FnMut(&mut dyn Target, DirId, &[u8], Kind) -> Result<()> + 'a;

/// Visits everything below a directory, as `find` does: a directory before its contents.
pub(super) fn walk(t: &mut dyn Target, at: DirId, name: &[u8], each: &mut Visit<'_>) -> Result<()> {
    let dir = t.open_dir(at, name)?;
    for (name, kind) in entries(t, dir)? {
        each(t, dir, &name, kind)?;
        if kind == Kind::Directory {
            walk(t, dir, &name, each)?;
        }
    }
    t.close_dir(dir)
}
