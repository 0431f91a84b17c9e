//! `lost+found`: names for unreferenced inodes (FreeBSD's `linkup`).
//!
//! **Invariants.**
//! 1. The links that a reconnection adds are counted at once, so that phase 4 does not report them.
//! 2. The name is `#` and the inode number, zero-padded to the digits of the highest inode number.
//!
//! References: spec/fsck-and-crash.md §3.4, §4.

use ffs_ondisk::Ino;

use super::checker::Checker;
use super::dirblk::Entry;
use super::dupnames::name_hash;
use super::inoinfo::State;
use super::report::Id;
use super::resolve::{Draft, Res};

const NAME: &[u8] = b"lost+found";

impl Checker<'_> {
    /// Gives inode `ino` a name in `lost+found`; `false` if there is no space.
    pub(super) fn reconnect(&mut self, ino: Ino) -> Res<bool> {
        let Some(home) = self.lost_found()? else { return Ok(false) };
        let digits = self.g.inodes().saturating_sub(1).to_string().len();
        let mut name = format!("#{:0digits$}", ino.0).into_bytes();
        while !self.lostfound_names.insert(name_hash(&name)) {
            name.push(b'_');
        }
        let rec = self.inodes.get(ino);
        if !self.add_entry(home, &Entry { ino: ino.0, dtype: rec.dtype, name })? {
            let draft = Draft::fatal(Id::LfFull, "no space in lost+found").ino(ino);
            self.report_unfixed(draft)?;
            return Ok(false);
        }
        self.inodes.count(ino, -1);
        if rec.is_dir() {
            self.uncount_dotdot(ino);
            self.add_link(home)?;
            self.set_dotdot(ino, home)?;
            self.inodes.count(home, -1);
            self.dirs.update(ino, |d| {
                d.parent = home;
                d.dotdot_counted = true;
            });
        }
        Ok(true)
    }

    /// Increments the link count of `ino` on disk and in the table, up to the limit.
    fn add_link(&mut self, ino: Ino) -> Res<()> {
        let mut node = self.read_inode(ino)?;
        node.d.nlink = node.d.nlink.saturating_add(1);
        self.write_inode(&mut node)?;
        let nlink = node.d.nlink;
        self.inodes.update(ino, |r| r.set_nlink(nlink));
        Ok(())
    }

    /// The `lost+found` directory of the root, created if necessary; `None` if there is no space.
    fn lost_found(&mut self) -> Res<Option<Ino>> {
        if let Some(known) = self.lostfound {
            return Ok(known);
        }
        let found = self.find_lost_found()?;
        self.lostfound = Some(found);
        if let Some(home) = found {
            let names = self.entries(home, usize::MAX)?;
            self.lostfound_names = names.iter().map(|e| name_hash(&e.name)).collect();
        }
        Ok(found)
    }

    fn find_lost_found(&mut self) -> Res<Option<Ino>> {
        let Some(entry) = self.lookup(Ino::ROOT, NAME)? else {
            let draft = Draft::benign(Id::LfCreate, "no lost+found directory: make one");
            return if self.should_fix(draft)? { self.make_lost_found() } else { Ok(None) };
        };
        let rec = self.inodes.get(Ino(entry.ino));
        if entry.ino >= 2 && rec.is_dir() && rec.state == State::Found {
            return Ok(Some(Ino(entry.ino)));
        }
        let draft = Draft::fatal(Id::LfType, "lost+found is not a directory: make another");
        if !self.should_fix(draft.ino(Ino(entry.ino)))? {
            return Ok(None);
        }
        // The inode of that name keeps its content and is reconnected under another name.
        if self.remove_entry(Ino::ROOT, |e| e.name == NAME)? {
            self.inodes.count(Ino(entry.ino), 1);
        }
        self.rerun_after_phase4();
        self.make_lost_found()
    }

    fn make_lost_found(&mut self) -> Res<Option<Ino>> {
        let full = |ck: &mut Self| -> Res<Option<Ino>> {
            ck.resolver.repair_failed();
            Ok(None)
        };
        let Some(ino) = self.alloc_inode()? else { return full(self) };
        if !self.make_directory(ino, Ino::ROOT, self.lostfound_mode)? {
            return full(self);
        }
        let entry = Entry { ino: ino.0, dtype: 4, name: NAME.to_vec() };
        if !self.add_entry(Ino::ROOT, &entry)? {
            let mut node = self.read_inode(ino)?;
            self.release(&mut node)?;
            self.clear_inode(ino)?;
            self.inodes.set(ino, super::inoinfo::InoStat::default());
            self.dirs.remove(ino);
            return full(self);
        }
        self.add_link(Ino::ROOT)?;
        self.inodes.count(Ino::ROOT, -1);
        Ok(Some(ino))
    }
}
