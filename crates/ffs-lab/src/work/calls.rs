//! What programs do with files, out of a target's calls.

use std::time::Duration;

use super::{PhaseResult, Recorder};
use crate::error::{LabError, Result};
use crate::target::{DirId, FileId, Kind, Open, Target};
use crate::watch::Watch;

/// Tells an onlooker about progress, not at every call.
pub(super) struct Pace<'a> {
    watch: &'a mut dyn Watch,
    waiting: u64,
}

/// Steps between two looks.
const STRIDE: u64 = 256;

impl<'a> Pace<'a> {
    pub(super) fn new(watch: &'a mut dyn Watch) -> Pace<'a> {
        Pace { watch, waiting: 0 }
    }

    /// What is being done now.
    pub(super) fn step(&mut self, what: &str) {
        self.watch.step(what);
    }

    /// Measures `work` as the phase `id`, and tells the onlooker so.
    pub(super) fn phase<'r>(
        &mut self,
        recorder: &'r mut Recorder,
        target: &mut dyn Target,
        id: &str,
        work: impl FnOnce(&mut dyn Target, &mut Pace<'a>) -> Result<f64>,
    ) -> Result<&'r PhaseResult> {
        self.step(id);
        recorder.phase(target, id, |target| work(target, self))
    }

    /// One more done.
    pub(super) fn tick(&mut self) -> Result<()> {
        self.waiting += 1;
        if self.waiting < STRIDE { Ok(()) } else { self.tell() }
    }

    fn tell(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if self.watch.done(waiting) { Ok(()) } else { Err(LabError::Interrupted) }
    }
}

/// How a program makes a file.
#[derive(Clone, Copy)]
pub(super) struct Write {
    pub(super) how: Open,
    /// Bytes of one call.
    pub(super) piece: u64,
}

/// Writes `size` bytes from `from` on in pieces.
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

/// Opens, writes `size` bytes, closes.
pub(super) fn write_file(
    t: &mut dyn Target,
    at: DirId,
    name: &[u8],
    size: u64,
    write: Write,
) -> Result<()> {
    let file = t.open(at, name, write.how)?;
    write_pieces(t, file, 0, size, write.piece)?;
    t.close(file)
}

/// Reads `size` bytes from the start in pieces.
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

/// Opens, reads up to `size` bytes, closes; how many there were.
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

/// The entries of a directory, in its order.
pub(super) fn entries(t: &mut dyn Target, at: DirId) -> Result<Vec<(Vec<u8>, Kind)>> {
    let mut found = Vec::new();
    t.list_kinds(at, &mut |name, kind| found.push((name.to_owned(), kind)))?;
    Ok(found)
}

/// Removes a directory with everything below it, as `rm -rf`: each directory is listed, its entries
/// looked at, then removed in the directory's order. Answers how many names went.
pub(super) fn remove_tree(
    t: &mut dyn Target,
    at: DirId,
    name: &[u8],
    pace: &mut Pace<'_>,
) -> Result<u64> {
    let dir = t.open_dir(at, name)?;
    let found = entries(t, dir)?;
    for (name, _) in &found {
        t.stat(dir, name)?;
    }
    let mut removed = 1;
    for (name, kind) in &found {
        if *kind == Kind::Directory {
            removed += remove_tree(t, dir, name, pace)?;
        } else {
            t.unlink(dir, name)?;
            removed += 1;
            pace.tick()?;
        }
    }
    t.close_dir(dir)?;
    t.rmdir(at, name)?;
    pace.tick()?;
    Ok(removed)
}

/// What [`walk`] does with an entry: the target, the directory in use, the entry's name and kind.
type Visit<'a> = dyn FnMut(&mut dyn Target, DirId, &[u8], Kind) -> Result<()> + 'a;

/// Visits a directory and everything below it, as `find`: `each` gets a directory in use and one of its
/// entries. Directories are looked at before they are entered.
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

/// Directories in use from a top down to where the work is.
pub(super) struct Chain {
    /// The top, which is not closed here.
    top: DirId,
    path: Vec<(Vec<u8>, DirId)>,
}

impl Chain {
    pub(super) fn new(top: DirId) -> Chain {
        Chain { top, path: Vec::new() }
    }

    /// The directory `depth` below the top; what is deeper is closed.
    pub(super) fn up_to(&mut self, t: &mut dyn Target, depth: usize) -> Result<DirId> {
        while self.path.len() > depth {
            if let Some((_, dir)) = self.path.pop() {
                t.close_dir(dir)?;
            }
        }
        Ok(self.here())
    }

    /// How many directories below the top.
    pub(super) fn depth(&self) -> usize {
        self.path.len()
    }

    /// The deepest directory.
    pub(super) fn here(&self) -> DirId {
        self.path.last().map_or(self.top, |(_, dir)| *dir)
    }

    /// Makes a directory below the deepest and goes there.
    pub(super) fn make(&mut self, t: &mut dyn Target, name: &[u8]) -> Result<DirId> {
        let dir = t.mkdir(self.here(), name)?;
        self.path.push((name.to_owned(), dir));
        Ok(dir)
    }

    /// Goes to a directory below the deepest.
    pub(super) fn enter(&mut self, t: &mut dyn Target, name: &[u8]) -> Result<DirId> {
        let dir = t.open_dir(self.here(), name)?;
        self.path.push((name.to_owned(), dir));
        Ok(dir)
    }

    /// Goes to a directory by its path from the top; what the way has in common with the present one
    /// is not looked up again.
    pub(super) fn go<'n>(
        &mut self,
        t: &mut dyn Target,
        path: impl Iterator<Item = &'n [u8]>,
    ) -> Result<DirId> {
        let mut depth = 0;
        for name in path {
            if self.path.get(depth).is_none_or(|(here, _)| here != name) {
                self.up_to(t, depth)?;
                self.enter(t, name)?;
            }
            depth += 1;
        }
        self.up_to(t, depth)
    }

    /// Closes all but the top.
    pub(super) fn close(mut self, t: &mut dyn Target) -> Result<()> {
        self.up_to(t, 0).map(drop)
    }
}

/// Processor time of starting a program.
pub(super) const EXEC: Duration = Duration::from_millis(3);
