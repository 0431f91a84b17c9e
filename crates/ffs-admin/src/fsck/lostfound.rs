//! `lost+found`: names for what has none.
//!
//! **Invariants.**
//! 1. Links that a reconnection adds are in the counts at once, so that phase 4 does not report them.
//! 2. The name is `#` and the inode number, zero-padded to the digits of the highest one.
//!
//! References: spec/fsck-and-crash.md §3.4, §4.

use ffs_ondisk::Ino;

use super::Checker;
use super::dirio::Entry;
use super::dupnames::name_hash;
use super::judge::{Draft, Res};
use super::report::Id;
use super::tables::State;

const NAME: &[u8] = b"lost+found";

impl Checker<'_> {
    /// Gives inode `ino` a name in `lost+found`; `false` if there is no room.
    pub(super) fn reconnect(&mut self, ino: Ino) -> Res<bool> {
        let Some(home) = self.lost_found()? else { return Ok(false) };
        let digits = self.g.inodes().saturating_sub(1).to_string().len();
        let mut name = format!("#{:0digits$}", ino.0).into_bytes();
        while !self.lostfound_names.insert(name_hash(&name)) {
            name.push(b'_');
        }
        let rec = self.inodes.get(ino);
        if !self.add_entry(home, &Entry { ino: ino.0, dtype: rec.dtype, name })? {
            let draft = Draft::fatal(Id::LfFull, "no room in lost+found").ino(ino);
            self.note(draft)?;
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
                d.counted = true;
            });
        }
        Ok(true)
    }

    /// Raises the link count of `ino` on disk and in the table, but for a count that is as high as can be.
    fn add_link(&mut self, ino: Ino) -> Res<()> {
        let mut node = self.node(ino)?;
        node.d.nlink = node.d.nlink.saturating_add(1);
        self.save(&mut node)?;
        let nlink = node.d.nlink;
        self.inodes.update(ino, |r| r.restate_links(nlink));
        Ok(())
    }

    /// The directory `lost+found` of the root, made if need be; `None` if there is no room for it.
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
            return if self.ask(draft)? { self.make_lost_found() } else { Ok(None) };
        };
        let rec = self.inodes.get(Ino(entry.ino));
        if entry.ino >= 2 && rec.is_dir() && rec.state == State::Found {
            return Ok(Some(Ino(entry.ino)));
        }
        let draft = Draft::fatal(Id::LfType, "lost+found is not a directory: make another");
        if !self.ask(draft.ino(Ino(entry.ino)))? {
            return Ok(None);
        }
        // What had the name keeps its content and is reconnected like all else.
        if self.remove_entry(Ino::ROOT, |e| e.name == NAME)? {
            self.inodes.count(Ino(entry.ino), 1);
        }
        self.again();
        self.make_lost_found()
    }

    fn make_lost_found(&mut self) -> Res<Option<Ino>> {
        let full = |ck: &mut Self| -> Res<Option<Ino>> {
            ck.judge.repair_failed();
            Ok(None)
        };
        let Some(ino) = self.alloc_inode()? else { return full(self) };
        if !self.make_directory(ino, Ino::ROOT, self.lostfound_mode)? {
            return full(self);
        }
        let entry = Entry { ino: ino.0, dtype: 4, name: NAME.to_vec() };
        if !self.add_entry(Ino::ROOT, &entry)? {
            let mut node = self.node(ino)?;
            self.release(&mut node)?;
            self.zero_inode(ino)?;
            self.inodes.set(ino, super::tables::Rec::default());
            self.dirs.remove(ino);
            return full(self);
        }
        self.add_link(Ino::ROOT)?;
        self.inodes.count(Ino::ROOT, -1);
        Ok(Some(ino))
    }
}
