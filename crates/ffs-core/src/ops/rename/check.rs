//! Checks before a rename: permissions, link limits, and that the tree stays a tree.

use super::{Moved, NameInDir, Renaming, Request};
use crate::cred::Cred;
use crate::dir::{self, Dir};
use crate::error::{Error, Result};
use crate::inode::{Inode, InodeData};
use crate::mount::Mount;
use crate::ops::{Held, check_alive, check_directory, check_in_tree, perm};
use crate::ordering::Event;
use crate::types::{Access, DirEntry, RenameMode};
use ffs_ondisk::dinode::LINK_MAX;
use ffs_ondisk::{FileType, Ino, Place, Structure};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whether `file` is the directory that contains the name.
pub(super) fn is_above(file: &Held<'_>, name: &NameInDir<'_>) -> bool {
    Arc::ptr_eq(&file.ip, name.dir)
}

/// Which of the two files of a rename is an ancestor of the other name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopAt {
    Source,
    Target,
}

/// The error if a file is an ancestor of the other name: the source would move below itself, or a
/// directory to be replaced is not empty.
pub(super) fn loop_error(req: &Request<'_>, at: LoopAt) -> Error {
    if at == LoopAt::Source || req.mode == RenameMode::Exchange {
        Error::Invalid("a directory cannot be moved below itself")
    } else {
        Error::NotEmpty
    }
}

pub(super) fn check_parent(dir: Dir<'_>, cred: &Cred) -> Result<()> {
    check_directory(&dir)?;
    perm::may_search(&dir.d, cred)?;
    check_in_tree(dir)
}

impl Renaming<'_> {
    /// Whether a directory changes its parent.
    pub(super) fn needs_rename_lock(&self) -> bool {
        let exchanged = self.req.mode == RenameMode::Exchange;
        // A directory that is moved aside changes its parent to the root.
        let other = exchanged && self.dst.as_ref().is_some_and(Moved::is_dir);
        !self.same_dir() && self.src.is_dir() || other
    }

    /// Rejects a directory moved below itself, and the replacement of an ancestor of the source.
    pub(super) fn check_loops(&mut self) -> Result<()> {
        if self.same_dir() {
            return Ok(());
        }
        if self.src.is_dir() {
            let Some(above) = self.ancestors(self.req.to.dir, self.src.ip)? else {
                return Err(loop_error(&self.req, LoopAt::Source));
            };
            self.above_src = above;
        }
        match &self.dst {
            Some(dst) if self.src.is_dir() && dst.is_dir() || self.swaps_dir(dst) => {
                let Some(above) = self.ancestors(self.req.from.dir, dst.ip)? else {
                    return Err(loop_error(&self.req, LoopAt::Target));
                };
                self.above_dst = above;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Notifies the ordering mode of the new ancestors of each directory that changes its parent,
    /// and of the link counts of parents that may lose a subdirectory.
    pub(super) fn notify_moves(&self) {
        let ordering = &self.mp.ump.ordering;
        if self.src.is_dir() || self.dst.as_ref().is_some_and(Moved::is_dir) {
            self.mp.report_links(&self.d1);
            self.d2.iter().chain(&self.root).for_each(|dir| self.mp.report_links(dir));
        }
        if self.changes_parent(&self.src) {
            ordering.notify(Event::DirectoryMoves { dir: self.src.ip.ino, above: &self.above_src });
        }
        if let Some(dst) = self.dst.as_ref().filter(|dst| self.swaps_dir(dst) && !self.same_dir()) {
            ordering.notify(Event::DirectoryMoves { dir: dst.ip.ino, above: &self.above_dst });
        }
    }

    /// The directory `from` and its ancestors up to the root; `None` if `top` is among them.
    ///
    /// On an unchecked volume `..` of a moved directory may name its new parent after a crash,
    /// while its old name remains. There the names decide whether `top` is an ancestor, and the way
    /// up may end at `top` or in a loop.
    fn ancestors(&self, from: &Arc<Inode>, top: &Arc<Inode>) -> Result<Option<Vec<Ino>>> {
        let unchecked = self.mp.is_unchecked();
        if unchecked && self.is_below(top, from)? {
            return Ok(None);
        }
        let (mut at, mut above) = (Arc::clone(from), Vec::new());
        // Brent's cycle detection: `mark` moves up after 1, 2, 4, ... steps.
        let (mut mark, mut steps, mut limit) = (at.ino, 0u64, 1u64);
        loop {
            if Arc::ptr_eq(&at, top) {
                return Ok(unchecked.then_some(above));
            }
            above.push(at.ino);
            if at.ino == Ino::ROOT {
                return Ok(Some(above));
            }
            let up = self.with_directory(&at, |dir| self.mp.parent_of(dir))?;
            if up == mark && unchecked {
                return Ok(Some(above));
            }
            if up == mark {
                let (s, place) = (Structure::Directory, Place::Inode(up));
                let e = Error::corrupt(s, place, "'..'", "a loop", "a way to the root");
                return Err(self.mp.damaged(e));
            }
            steps += 1;
            if steps == limit {
                (mark, limit) = (up, limit * 2);
            }
            at = self.mp.table.get(up)?;
        }
    }

    /// Whether the names in `top`, and in the directories below it, lead to `wanted`. Another
    /// thread may remove some of them meanwhile.
    fn is_below(&self, top: &Arc<Inode>, wanted: &Arc<Inode>) -> Result<bool> {
        let mut seen = BTreeSet::from([top.ino]);
        let mut todo = vec![Arc::clone(top)];
        while let Some(dir) = todo.pop() {
            if Arc::ptr_eq(&dir, wanted) {
                return Ok(true);
            }
            let below = match self.with_directory(&dir, |dir| subdirectories(self.mp, dir)) {
                Err(Error::Stale | Error::NotFound | Error::NotDirectory) => continue,
                below => below?,
            };
            for ino in below.into_iter().filter(|ino| seen.insert(*ino)) {
                match self.mp.table.get(ino) {
                    Err(Error::Stale | Error::NotFound) => {}
                    ip => todo.push(ip?),
                }
            }
        }
        Ok(false)
    }

    /// Calls `read` with the directory `ip`, which this rename may have locked.
    fn with_directory<T>(
        &self,
        ip: &Arc<Inode>,
        read: impl FnOnce(Dir<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with_inode(ip, |dir| {
            check_directory(&dir)?;
            check_in_tree(dir)?;
            read(dir)
        })
    }

    fn with_inode<T>(&self, ip: &Arc<Inode>, read: impl FnOnce(Dir<'_>) -> Result<T>) -> Result<T> {
        let dst = self.dst.as_ref().map(|dst| &dst.file);
        let ours =
            [self.root.as_ref(), Some(&self.d1), self.d2.as_ref(), Some(&self.src.file), dst];
        match ours.into_iter().flatten().find(|have| std::ptr::eq(have.ip, &**ip)) {
            Some(locked) => read(locked.view()),
            None => {
                let data = ip.read();
                read(self.mp.view(ip, &data))
            }
        }
    }

    /// Checks permissions, file kinds and link limits.
    pub(super) fn check(&mut self) -> Result<()> {
        check_alive(&self.src.file)?;
        let (cred, exchange) = (self.req.cred, self.req.mode == RenameMode::Exchange);
        if exchange && self.dst.is_none() {
            return Err(Error::NotFound);
        }
        perm::may_remove(&self.d1.d, &self.src.file.d, cred)?;
        match &self.dst {
            Some(dst) => {
                check_alive(&dst.file)?;
                perm::may_remove(&self.target_view().d, &dst.file.d, cred)?;
            }
            None => perm::may_enter(&self.target_view().d, cred)?,
        }
        if let Some(dst) = self.dst.as_ref().filter(|_| !exchange) {
            match (self.src.is_dir(), dst.is_dir()) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                _ => {}
            }
        }
        // A directory that changes its parent is modified itself: its `..` is.
        let moved = [Some(&self.src), self.dst.as_ref().filter(|_| exchange)];
        for m in moved.into_iter().flatten() {
            if m.is_dir() && self.d2.is_some() {
                perm::check(&m.file.d, cred, Access::WRITE)?;
            }
            if m.file.d.nlink >= LINK_MAX {
                return Err(Error::TooManyLinks);
            }
        }
        self.check_links()?;
        self.check_replaced()
    }

    /// Checks that the link counts of both parents can include the `..` of directories that move to
    /// them.
    fn check_links(&self) -> Result<()> {
        let Some(d2) = &self.d2 else { return Ok(()) };
        let dst_dir = self.dst.as_ref().is_some_and(Moved::is_dir);
        let full = |d: &InodeData| d.d.nlink >= LINK_MAX;
        // In an exchange the new parent counts a directory before the old parent stops counting it.
        let exchange = self.req.mode == RenameMode::Exchange;
        let comes_to_2 = self.src.is_dir() && (!dst_dir || exchange);
        let comes_to_1 = exchange && dst_dir;
        if comes_to_2 && full(d2) || comes_to_1 && full(&self.d1) {
            return Err(Error::TooManyLinks);
        }
        Ok(())
    }

    /// Checks that a directory to be replaced can be removed.
    fn check_replaced(&mut self) -> Result<()> {
        if self.req.mode == RenameMode::Exchange {
            return Ok(());
        }
        match self.dst.take() {
            Some(dst) if dst.is_dir() => {
                let mp = self.mp;
                let ok = mp.check_removable(self.target_view(), dst.file.view());
                self.dst = Some(dst);
                ok
            }
            other => {
                self.dst = other;
                Ok(())
            }
        }
    }
}

/// The files that `dir` names and that may be directories, besides itself and its parent: old
/// directories of UFS1 have no types.
fn subdirectories(mp: &Mount, dir: Dir<'_>) -> Result<Vec<Ino>> {
    let (mut found, mut at, mut bad) = (Vec::new(), 0, None);
    while let Some(chunk) = dir::read_chunk(dir, at, &mut bad)? {
        let mut each = |entry: DirEntry<'_>| {
            let named = entry.name != b"." && entry.name != b"..";
            if named && entry.kind.is_none_or(|kind| kind == FileType::Directory) {
                found.push(entry.ino);
            }
            true
        };
        chunk.show(mp.ump.g(), &mut each, &mut bad);
        at = chunk.end();
    }
    match bad {
        Some(e) => Err(mp.damaged(e)),
        None => Ok(found),
    }
}
