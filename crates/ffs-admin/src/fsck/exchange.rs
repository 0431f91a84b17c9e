//! Completes or reverts exchanges of two names that a crash interrupted. This happens before phase
//! 0, like the replay of a journal.
//!
//! **Invariants.**
//! 1. Each step is durable before the next begins, so that after a crash in between the next check
//!    can complete the exchange.
//! 2. A record that is no longer needed is removed; it is merely another name of its file. A name
//!    with the prefix that no exchange can have left is an ordinary name and remains.
//!
//! Reference: [`ffs_ondisk::exchange`].

use ffs_ondisk::dir;
use ffs_ondisk::exchange::{ExchangeRecord, ExchangedName, PREFIX, hash};
use ffs_ondisk::{FileType, Ino};

use super::checker::Checker;
use super::dirblk::Entry;
use super::directory::Flow;
use super::report::Id;
use super::resolve::{Draft, Res};

/// Limit on the records considered: an exchange holds several locks, so more cannot be in progress.
const MOST: usize = 1024;

impl Checker<'_> {
    /// Finds the records in the root directory and finishes their exchanges.
    pub(super) fn finish_exchanges(&mut self) -> Res<()> {
        if !self.is_directory(Ino::ROOT)? {
            return Ok(());
        }
        let mut records = Vec::new();
        let fmt = self.dir_format();
        self.for_each_dirblk(Ino::ROOT, |dirblk| {
            let live = dir::records(fmt, dirblk).filter_map(Result::ok).filter(dir::Record::live);
            let named = live.filter(|rec| rec.name.starts_with(PREFIX));
            records.extend(named.map(|rec| Entry::of(&rec)));
            Flow { changed: false, done: records.len() >= MOST }
        })?;
        for entry in records.into_iter().take(MOST) {
            let record = ExchangeRecord::parse(&entry.name);
            if let Some(record) = record.filter(|record| record.is_possible(Ino(entry.ino))) {
                self.finish_exchange(record, &entry)?;
            }
        }
        Ok(())
    }

    fn finish_exchange(&mut self, record: ExchangeRecord, entry: &Entry) -> Res<()> {
        let file = Ino(entry.ino);
        let first = self.find_exchanged(record.first)?;
        let second = self.find_exchanged(record.second)?.map(|e| Ino(e.ino));
        let half_done = record.is_half_done(file, first.as_ref().map(|e| Ino(e.ino)), second);
        let what = if half_done { "completed" } else { "over" };
        let message = format!("the exchange of two names that a crash interrupted is {what}");
        let draft = Draft::benign(Id::EntExchange, message);
        if !self.resolver.should_fix(draft.ino(file).entry(&entry.name, Some(file)))? {
            return Ok(());
        }
        if !self.resolver.can_write() {
            return Ok(());
        }
        if half_done && let Some(name) = first {
            self.complete_exchange(record.first.dir, &name, entry)?;
        }
        let record_of = |e: &Entry| e.ino == entry.ino && e.name == entry.name;
        self.remove_entry(Ino::ROOT, record_of)?;
        self.disk.commit()
    }

    /// Points `name` to the file of the record.
    fn complete_exchange(&mut self, dir: Ino, name: &Entry, record: &Entry) -> Res<()> {
        let (file, fmt) = (Ino(record.ino), self.dir_format());
        if self.is_directory(file)? {
            // Its `..` will count as a link of `dir`. If it did already, the link count is now too
            // high and phase 4 lowers it.
            let mut parent = self.read_inode(dir)?;
            parent.d.nlink = parent.d.nlink.saturating_add(1);
            self.write_inode(&mut parent)?;
            self.disk.commit()?;
            self.set_dotdot(file, dir)?;
            self.disk.commit()?;
        }
        self.for_each_dirblk(dir, |dirblk| {
            let mut live =
                dir::records(fmt, dirblk).filter_map(Result::ok).filter(dir::Record::live);
            let found = live.find(|rec| rec.ino == name.ino && rec.name == name.name);
            let at = found.map(|rec| rec.off);
            if let Some(at) = at {
                dir::set_ino(fmt, dirblk, at, record.ino);
                dir::set_type(fmt, dirblk, at, record.dtype);
            }
            Flow { changed: at.is_some(), done: at.is_some() }
        })?;
        self.disk.commit()
    }

    /// The entry that a record refers to, if its directory exists and has it.
    fn find_exchanged(&mut self, wanted: ExchangedName) -> Res<Option<Entry>> {
        if !self.is_directory(wanted.dir)? {
            return Ok(None);
        }
        let (fmt, mut found) = (self.dir_format(), None);
        self.for_each_dirblk(wanted.dir, |dirblk| {
            let mut live =
                dir::records(fmt, dirblk).filter_map(Result::ok).filter(dir::Record::live);
            found = live.find(|rec| hash(rec.name) == wanted.hash).map(|rec| Entry::of(&rec));
            Flow { changed: false, done: found.is_some() }
        })?;
        Ok(found)
    }

    /// Whether `ino`, an arbitrary number, is the inode of a directory.
    fn is_directory(&mut self, ino: Ino) -> Res<bool> {
        if ino < Ino::ROOT || ino.0 >= self.g.inodes() {
            return Ok(false);
        }
        Ok(self.read_inode(ino)?.d.file_type() == Some(FileType::Directory))
    }
}
