//! Operations on space: ranges of a file, and filling a volume.

use ffs_core::{Error, Fallocate};

use super::super::history::Action;
use super::super::op::{Path, Space};
use super::{ActionResult, Executor};

/// Most writes that filling a volume takes.
const MOST_WRITES: u32 = 10_000;

impl Executor {
    pub(super) fn space(&mut self, how: Space, path: &Path, offset: u64, len: u64) -> ActionResult {
        let (file, obj) = (self.file(path)?, self.obj(path)?);
        let size = self.fs.getattr(&file).size;
        let mode = match how {
            Space::Allocate => Fallocate::Allocate,
            Space::Punch => Fallocate::PunchHole,
            Space::Zero => Fallocate::ZeroRange,
        };
        self.tree.moved(obj);
        let done = self.fs.fallocate(&self.cred, &file, offset, len, mode);
        let end = offset.saturating_add(len);
        let zeroed = |end: u64| Action::Zeroed { obj, bytes: offset..end.max(offset) };
        match (how, done) {
            (Space::Allocate, done) => {
                done?;
                let grown = Action::Resized { obj, size: end };
                Ok(if end > size { vec![grown] } else { Vec::new() })
            }
            (Space::Punch, done) => done.map(|()| vec![zeroed(end.min(size))]),
            (Space::Zero, Ok(())) => Ok(vec![zeroed(end)]),
            // The part inside the old size may have been zeroed, block by block from the front.
            (Space::Zero, Err(Error::NoSpace)) => {
                let inside = end.min(size).saturating_sub(offset);
                let mut bytes = vec![0; usize::try_from(inside).unwrap_or(0)];
                let read = self.fs.read(&file, offset, &mut bytes)?;
                let zeros = bytes.iter().take(read).take_while(|&&byte| byte == 0).count();
                Ok(vec![zeroed(offset + zeros as u64)])
            }
            (Space::Zero, Err(error)) => Err(error),
        }
    }

    /// Appends to a file until at most `left` bytes are free for the current user: first blocks,
    /// then fragments.
    pub(super) fn fill(&mut self, path: &Path, left: u64) -> ActionResult {
        let mut all = Vec::new();
        for _ in 0..MOST_WRITES {
            let stat = self.fs.statfs();
            let frags = if self.cred.is_root {
                i64::try_from(stat.frags_free).unwrap_or(i64::MAX)
            } else {
                stat.frags_avail
            };
            let (block, frag) = (u64::from(stat.bsize), u64::from(stat.fsize));
            let free = u64::try_from(frags).unwrap_or(0) * frag;
            let Some(more) = free.checked_sub(left).filter(|more| *more >= frag) else { break };
            let size = self.fs.getattr(&self.file(path)?).size;
            // Write to the end of a block, so that fragments remain only at the end.
            let step = (block - size % block).min(more / frag * frag);
            match self.write(path, None, step, false) {
                Ok(done) => all.extend(done),
                Err(Error::NoSpace) if step > frag => match self.write(path, None, frag, false) {
                    Ok(done) => all.extend(done),
                    Err(Error::NoSpace) => break,
                    Err(error) => return Err(error),
                },
                Err(Error::NoSpace) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}
