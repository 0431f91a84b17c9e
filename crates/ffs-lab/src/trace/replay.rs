//! Replays a program on a target.
//!
//! # Invariants
//! 1. The calls of all processes are made one after another, in the order of the trace.
//! 2. At most [`MOST_DIRS`] directories are in use at a time. One that is needed again is opened
//!    again.
//! 3. At the end no file and no directory is in use.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::FixedState;

use super::How;
use super::path::MOST_DEPTH;
use super::resolve::{Given, NodeId, Place, Program, ROOT, Step, StepOp};
use crate::error::{LabError, Result};
use crate::systems::{DirId, FileId, Open, Target};

/// The most directories in use.
const MOST_DIRS: usize = 2 * MOST_DEPTH;
/// The most bytes of one call of the target.
const PIECE: u64 = 1 << 20;

/// Replays one program on one target.
pub(crate) struct Replay {
    root: DirId,
    /// Directories in use, with the time of the last use.
    dirs: HashMap<NodeId, (DirId, u64), FixedState>,
    /// The directory and name of each directory that is there.
    places: HashMap<NodeId, Place, FixedState>,
    files: Vec<Option<FileId>>,
    clock: u64,
    /// Nanoseconds of processor time for each nanosecond between two calls.
    think: f64,
}

impl Replay {
    /// A replay in the directory `root`.
    pub(crate) fn new(root: DirId, program: &Program, think: f64) -> Replay {
        Replay {
            root,
            dirs: HashMap::default(),
            places: HashMap::default(),
            files: vec![None; program.slots],
            clock: 0,
            think,
        }
    }

    /// Makes what existed before the first call. Calls `each` after every file.
    pub(crate) fn prepare(
        &mut self,
        t: &mut dyn Target,
        program: &Program,
        each: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        for given in &program.given {
            match given {
                Given::Dir(node, at) => self.mkdir(t, at, *node)?,
                Given::File(at, size) => {
                    let dir = self.dir(t, at.dir)?;
                    let file = t.open(dir, &at.name, Open::CreateNew)?;
                    let written = self.write(t, file, 0, *size);
                    t.close(file)?;
                    written?;
                }
                Given::Link(at, text) => {
                    let dir = self.dir(t, at.dir)?;
                    t.symlink(dir, &at.name, text)?;
                }
            }
            each()?;
        }
        Ok(())
    }

    /// Makes the calls. Calls `each` after every call. Closes what is open at the end, also after
    /// an error.
    pub(crate) fn run(
        &mut self,
        t: &mut dyn Target,
        program: &Program,
        each: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let done = program.steps.iter().try_for_each(|step| {
            self.step(t, step)?;
            each()
        });
        done.and(self.close_all(t))
    }

    fn close_all(&mut self, t: &mut dyn Target) -> Result<()> {
        let files = self.files.iter_mut().filter_map(Option::take).collect::<Vec<_>>();
        let mut closed = Ok(());
        for file in files {
            closed = closed.and(t.close(file));
        }
        let dirs: Vec<NodeId> = self.dirs.keys().copied().collect();
        for node in dirs {
            closed = closed.and(self.close_dir(t, node));
        }
        closed
    }

    fn step(&mut self, t: &mut dyn Target, step: &Step) -> Result<()> {
        if self.think > 0.0 && step.gap > 0 {
            t.compute(Duration::from_nanos((step.gap as f64 * self.think) as u64));
        }
        match &step.op {
            StepOp::Stat(at) => {
                let dir = self.dir(t, at.dir)?;
                t.stat(dir, &at.name).map(drop)
            }
            StepOp::Open { at, slot, how } => {
                let dir = self.dir(t, at.dir)?;
                self.files[*slot] = Some(t.open(dir, &at.name, open(*how))?);
                Ok(())
            }
            StepOp::Close(slot) => match self.files[*slot].take() {
                Some(file) => t.close(file),
                None => Ok(()),
            },
            StepOp::Read { slot, offset, len } => {
                let file = self.file(*slot)?;
                self.read(t, file, *offset, *len)
            }
            StepOp::Write { slot, offset, len } => {
                let file = self.file(*slot)?;
                self.write(t, file, *offset, *len)
            }
            StepOp::Fsync(slot) => {
                let file = self.file(*slot)?;
                t.fsync(file)
            }
            StepOp::Ftruncate { slot, size } => {
                let file = self.file(*slot)?;
                t.truncate(file, *size)
            }
            StepOp::Truncate { at, size } => {
                let dir = self.dir(t, at.dir)?;
                let file = t.open(dir, &at.name, Open::Write)?;
                let done = t.truncate(file, *size);
                done.and(t.close(file))
            }
            StepOp::List(node) => {
                let dir = self.dir(t, *node)?;
                t.list(dir, &mut |_| {})
            }
            StepOp::Sync => t.sync(),
            names => self.names(t, names),
        }
    }

    /// The steps that change or read names.
    fn names(&mut self, t: &mut dyn Target, op: &StepOp) -> Result<()> {
        match op {
            StepOp::Mkdir { at, node } => self.mkdir(t, at, *node),
            StepOp::Rmdir { at, node } => {
                self.close_dir(t, *node)?;
                self.places.remove(node);
                let dir = self.dir(t, at.dir)?;
                t.rmdir(dir, &at.name)
            }
            StepOp::Unlink(at) => {
                let dir = self.dir(t, at.dir)?;
                t.unlink(dir, &at.name)
            }
            StepOp::Rename { from, to, moved, replaced } => {
                if let Some(node) = replaced {
                    self.close_dir(t, *node)?;
                    self.places.remove(node);
                }
                let (one, two) = (self.dir(t, from.dir)?, self.dir(t, to.dir)?);
                if from.dir == to.dir {
                    t.rename(one, &from.name, &to.name)?;
                } else {
                    t.rename_to((one, &from.name), (two, &to.name))?;
                }
                if let Some(place) = self.places.get_mut(moved) {
                    *place = to.clone();
                }
                Ok(())
            }
            StepOp::Link { from, to } => {
                let (one, two) = (self.dir(t, from.dir)?, self.dir(t, to.dir)?);
                t.link((one, &from.name), (two, &to.name))
            }
            StepOp::Symlink { at, text } => {
                let dir = self.dir(t, at.dir)?;
                t.symlink(dir, &at.name, text)
            }
            StepOp::Readlink(at) => {
                let dir = self.dir(t, at.dir)?;
                t.readlink(dir, &at.name).map(drop)
            }
            StepOp::Chmod { at, mode } => {
                let dir = self.dir(t, at.dir)?;
                t.chmod(dir, &at.name, *mode)
            }
            StepOp::Times { at, seconds } => {
                let dir = self.dir(t, at.dir)?;
                t.set_times(dir, &at.name, *seconds)
            }
            _ => Ok(()),
        }
    }

    fn file(&self, slot: usize) -> Result<FileId> {
        let file = self.files.get(slot).copied().flatten();
        file.ok_or_else(|| LabError::Plan("a step on a file that is not open".to_owned()))
    }

    fn read(&mut self, t: &mut dyn Target, file: FileId, offset: u64, len: u64) -> Result<()> {
        let mut done = 0;
        while done < len {
            let piece = PIECE.min(len - done);
            let read = t.read(file, offset + done, piece as usize)? as u64;
            if read < piece {
                break;
            }
            done += read;
        }
        Ok(())
    }

    fn write(&mut self, t: &mut dyn Target, file: FileId, offset: u64, len: u64) -> Result<()> {
        let mut done = 0;
        while done < len {
            let piece = PIECE.min(len - done);
            t.write(file, offset + done, piece as usize)?;
            done += piece;
        }
        Ok(())
    }

    fn mkdir(&mut self, t: &mut dyn Target, at: &Place, node: NodeId) -> Result<()> {
        let dir = self.dir(t, at.dir)?;
        let made = t.mkdir(dir, &at.name)?;
        self.places.insert(node, at.clone());
        self.keep(t, node, made)
    }

    /// The directory `node`, opened if it is not in use.
    fn dir(&mut self, t: &mut dyn Target, node: NodeId) -> Result<DirId> {
        // From `node` up to a directory in use, then down again.
        let mut missing = Vec::new();
        let (mut at, mut dir) = (node, self.root);
        while at != ROOT {
            if let Some((open, used)) = self.dirs.get_mut(&at) {
                self.clock += 1;
                (dir, *used) = (*open, self.clock);
                break;
            }
            let place = self.places.get(&at).cloned();
            let place =
                place.ok_or_else(|| LabError::Plan("a step in a missing directory".to_owned()))?;
            let above = place.dir;
            missing.push((at, place.name));
            at = above;
        }
        for (node, name) in missing.into_iter().rev() {
            dir = t.open_dir(dir, &name)?;
            self.keep(t, node, dir)?;
        }
        Ok(dir)
    }

    /// Keeps a directory in use, and closes the one unused longest if there are too many.
    fn keep(&mut self, t: &mut dyn Target, node: NodeId, dir: DirId) -> Result<()> {
        self.clock += 1;
        self.dirs.insert(node, (dir, self.clock));
        if self.dirs.len() <= MOST_DIRS {
            return Ok(());
        }
        let oldest = self.dirs.iter().min_by_key(|(_, (_, used))| *used).map(|(node, _)| *node);
        oldest.map_or(Ok(()), |node| self.close_dir(t, node))
    }

    fn close_dir(&mut self, t: &mut dyn Target, node: NodeId) -> Result<()> {
        match self.dirs.remove(&node) {
            Some((dir, _)) => t.close_dir(dir),
            None => Ok(()),
        }
    }
}

fn open(how: How) -> Open {
    match how {
        How::Read => Open::Read,
        How::Write => Open::Write,
        How::Create => Open::Create,
        How::CreateNew => Open::CreateNew,
        How::Truncate => Open::Truncate,
    }
}
