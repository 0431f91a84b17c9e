//! Compares the link counts with the names found.
//!
//! References: `spec/soft-updates.md` §1.2 A3 to A6, A13, §1.3 F5, F15.

use super::Checker;
use super::tree::DIRECTORY;
use super::tree::NO_SLOT;
use super::volume::ROOT;

impl Checker {
    /// Checks all link counts.
    pub(super) fn check_links(&mut self) {
        self.count_subdirectories();
        for i in 0..self.found.tree.inodes.len() {
            let Some(&inode) = self.found.tree.inodes.get(i) else { break };
            if !inode.reached {
                self.found.seen.saw(if inode.nlink == 0 { 13 } else { 3 });
                continue;
            }
            let (now, corrected) = self.subdirectories.get(i).copied().unwrap_or_default();
            let (names, repaired) = match inode.mode >> 12 {
                DIRECTORY if inode.ino == ROOT => (2 + now, 2 + corrected),
                DIRECTORY => (inode.names + 1 + now, 2 + corrected),
                _ => (inode.names, inode.names),
            };
            let (ino, nlink) = (inode.ino, u32::from(inode.nlink));
            if nlink < names {
                self.wrong("F5", || {
                    format!("inode {ino} has {names} names, but a link count of {nlink}")
                });
            } else if nlink < repaired {
                self.wrong("F15", || {
                    format!("directory {ino} has link count {nlink}, its repair needs {repaired}")
                });
            } else if nlink > names {
                self.found.seen.saw(4);
            }
            if inode.mode >> 12 == DIRECTORY && inode.dotdot != inode.parent {
                self.found.seen.saw(6);
            }
        }
    }

    /// For each directory, the number of `..` that name it now, and the number after a repair in
    /// which each `..` follows the directory's name.
    fn count_subdirectories(&mut self) {
        self.subdirectories.clear();
        self.subdirectories.resize(self.found.tree.inodes.len(), (0, 0));
        for i in 0..self.found.tree.inodes.len() {
            let Some(&inode) = self.found.tree.inodes.get(i) else { break };
            if !inode.reached || inode.mode >> 12 != DIRECTORY || inode.ino == ROOT {
                continue;
            }
            let also = |dir| self.second_names.contains(&(inode.ino, dir));
            let stays = if also(inode.dotdot) { inode.dotdot } else { inode.parent };
            // With two names and a `..` that matches neither, either name may stay.
            let open = inode.names > 1 && inode.dotdot != stays;
            let (now, then) = (self.found.tree.slot(inode.dotdot), self.found.tree.slot(stays));
            if let Some(count) = self.subdirectories.get_mut(now as usize) {
                count.0 += 1;
            }
            debug_assert_ne!(then, NO_SLOT, "a parent is in use");
            if let (false, Some(count)) = (open, self.subdirectories.get_mut(then as usize)) {
                count.1 += 1;
            }
        }
    }
}
