//! Recording corrections in the check of a snapshot.
//!
//! **Invariants.**
//! 1. An inode that will be freed stays in use in the tables, with its blocks: the mount frees them
//!    with the inode. So no block is in two corrections.
//!
//! References: spec/fsck-and-crash.md §7.

use ffs_ondisk::{Cg, CgNo, Ino};

use super::checker::Checker;
use super::corrections::{Correction, FileId};
use super::resolve::Res;

impl Checker<'_> {
    /// Whether this is the check of a snapshot, whose repairs are corrections.
    pub(super) fn in_background(&self) -> bool {
        self.corrections.is_some()
    }

    /// Records a correction, if this is the check of a snapshot.
    pub(super) fn correct(&mut self, correction: Correction) {
        if let Some(all) = &mut self.corrections {
            all.add(correction);
        }
    }

    /// The identity of file `ino`.
    pub(super) fn file_id(&mut self, ino: Ino) -> Res<FileId> {
        Ok(FileId { ino, generation: self.read_inode(ino)?.d.generation })
    }

    /// Records that inode `ino`, which has `links` links and no name, is to be freed.
    pub(super) fn correct_nameless(&mut self, ino: Ino, links: u16) -> Res<()> {
        let file = self.file_id(ino)?;
        let correction = if self.inodes.get(ino).is_dir() {
            Correction::FreeDirectory { dir: file, links, depth: self.nameless_above(ino) }
        } else {
            Correction::AdjRefCnt { file, less: links }
        };
        self.correct(correction);
        Ok(())
    }

    /// Records that a name of directory `child` is to be removed, the other one of which is in
    /// `kept_in`. The mount removes the link that counts it, too.
    pub(super) fn correct_second_name(
        &mut self,
        child: Ino,
        (dir, name): (Ino, Vec<u8>),
        kept_in: Ino,
    ) -> Res<()> {
        if self.in_background() {
            let target = self.file_id(child)?;
            self.correct(Correction::Unlink { dir, name, target, kept_in });
            self.inodes.update(child, |r| {
                r.nlink = r.nlink.saturating_sub(1);
                r.unaccounted -= 1;
            });
        }
        Ok(())
    }

    /// The number of directories above `ino`, up to the top of its tree, which has no name.
    fn nameless_above(&self, ino: Ino) -> u32 {
        let (mut at, mut depth) = (ino, 0);
        // A chain of parents is not longer than there are directories.
        for _ in 0..self.dirs.all().len() {
            match self.dirs.get(at).map_or(Ino(0), |d| d.parent) {
                Ino(0) => break,
                parent => at = parent,
            }
            depth += 1;
        }
        depth
    }

    /// Records what is wrong with group `c`, whose block is `old` and should be `new`: inodes and
    /// fragments that nothing has, the number of directories, or only the counts of the maps.
    pub(super) fn correct_group(&mut self, c: CgNo, old: &[u8], new: &[u8]) {
        let g = self.g;
        let (was, is) = (Cg::new(&g, old), Cg::new(&g, new));
        let first = Ino(c.0 * g.ipg);
        let extra = was.cs().ndir - is.cs().ndir;
        let mut dirs = u32::try_from(extra).unwrap_or(0);
        let inodes = runs(g.ipg, |i| was.inode_used(i) && !is.inode_used(i));
        let frags = runs(g.cg_frags(c), |f| !was.frag_free(f) && is.frag_free(f));
        if inodes.is_empty() && frags.is_empty() && extra == 0 {
            self.correct(Correction::WriteGroup { group: c });
        }
        for run in inodes {
            // Which of them were to become directories is not known; only their number counts.
            let some = dirs.min(run.end - run.start);
            dirs -= some;
            let at = Ino(first.0 + run.start);
            if some > 0 {
                self.correct(Correction::FreeDirs { first: at, count: some });
            }
            if run.start + some < run.end {
                let count = run.end - run.start - some;
                self.correct(Correction::FreeFiles { first: Ino(at.0 + some), count });
            }
        }
        if dirs > 0 {
            self.correct(Correction::AdjNDir { group: c, delta: -i64::from(dirs) });
        }
        for run in frags {
            let first = g.cgbase(c).plus(run.start.into());
            self.correct(Correction::FreeBlks { first, count: (run.end - run.start).into() });
        }
    }
}

/// The runs of numbers below `end` for which `is` is true, in ascending order.
fn runs(end: u32, is: impl Fn(u32) -> bool) -> Vec<std::ops::Range<u32>> {
    let (mut all, mut start) = (Vec::new(), None);
    for i in 0..end {
        match (is(i), start) {
            (true, None) => start = Some(i),
            (false, Some(from)) => {
                all.push(from..i);
                start = None;
            }
            _ => {}
        }
    }
    all.extend(start.map(|from| from..end));
    all
}
