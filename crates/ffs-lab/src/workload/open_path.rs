//! The open directories on a path from a top directory down.

use crate::error::Result;
use crate::systems::{DirId, Target};

/// The open directories from a top directory to the current one.
pub(super) struct OpenPath {
    /// The top directory. [`OpenPath`] does not close it.
    top: DirId,
    path: Vec<(Vec<u8>, DirId)>,
}

impl OpenPath {
    pub(super) fn new(top: DirId) -> OpenPath {
        OpenPath { top, path: Vec::new() }
    }

    /// Closes the directories more than `depth` below the top; returns the one at `depth`.
    pub(super) fn up_to(&mut self, t: &mut dyn Target, depth: usize) -> Result<DirId> {
        while self.path.len() > depth {
            if let Some((_, dir)) = self.path.pop() {
                t.close_dir(dir)?;
            }
        }
        Ok(self.current())
    }

    /// Number of directories below the top.
    pub(super) fn depth(&self) -> usize {
        self.path.len()
    }

    /// The deepest open directory.
    pub(super) fn current(&self) -> DirId {
        self.path.last().map_or(self.top, |(_, dir)| *dir)
    }

    /// Makes a directory below the current one and enters it.
    pub(super) fn make(&mut self, t: &mut dyn Target, name: &[u8]) -> Result<DirId> {
        let dir = t.mkdir(self.current(), name)?;
        self.path.push((name.to_owned(), dir));
        Ok(dir)
    }

    /// Enters a directory below the current one.
    pub(super) fn enter(&mut self, t: &mut dyn Target, name: &[u8]) -> Result<DirId> {
        let dir = t.open_dir(self.current(), name)?;
        self.path.push((name.to_owned(), dir));
        Ok(dir)
    }

    /// Goes to a directory by its path from the top. Directories that both paths share stay open
    /// and are not looked up again.
    pub(super) fn go<'n>(
        &mut self,
        t: &mut dyn Target,
        path: impl Iterator<Item = &'n [u8]>,
    ) -> Result<DirId> {
        let mut depth = 0;
        for name in path {
            if self.path.get(depth).is_none_or(|(open, _)| open != name) {
                self.up_to(t, depth)?;
                self.enter(t, name)?;
            }
            depth += 1;
        }
        self.up_to(t, depth)
    }

    /// Closes all directories but the top.
    pub(super) fn close(mut self, t: &mut dyn Target) -> Result<()> {
        self.up_to(t, 0).map(drop)
    }
}
