//! Exchanges of two names that a crash left half done: completed or taken back before the phases, as the
//! replay of a journal would be.
//!
//! **Invariants.**
//! 1. Each step is on the device before the next begins: a check that is cut off leaves a state that the next
//!    one completes.
//! 2. A record that is not needed any more is removed: it is only one more name of its file. One that no
//!    exchange can have left is a name like others, and stays.
//!
//! Reference: [`ffs_ondisk::exchange`].

use ffs_ondisk::dir;
use ffs_ondisk::exchange::{ExchangeRecord, ExchangedName, PREFIX, hash};
use ffs_ondisk::{FileType, Ino};

use super::Checker;
use super::dirio::{Entry, Flow};
use super::judge::{Draft, Res};
use super::report::Id;

/// Records that are looked for: more cannot be under way, as each takes several locks.
const MOST: usize = 1024;

impl Checker<'_> {
    /// Looks for records in the root directory, and ends their exchanges.
    pub(super) fn settle_exchanges(&mut self) -> Res<()> {
        if !self.is_directory(Ino::ROOT)? {
            return Ok(());
        }
        let mut records = Vec::new();
        let fmt = self.dir_format();
        self.for_each_chunk(Ino::ROOT, |chunk| {
            let live = dir::records(fmt, chunk).filter_map(Result::ok).filter(dir::Record::live);
            let named = live.filter(|rec| rec.name.starts_with(PREFIX));
            records.extend(named.map(|rec| Entry::of(&rec)));
            Flow { changed: false, done: records.len() >= MOST }
        })?;
        for entry in records.into_iter().take(MOST) {
            let record = ExchangeRecord::parse(&entry.name);
            if let Some(record) = record.filter(|record| record.is_possible(Ino(entry.ino))) {
                self.settle_exchange(record, &entry)?;
            }
        }
        Ok(())
    }

    fn settle_exchange(&mut self, record: ExchangeRecord, entry: &Entry) -> Res<()> {
        let file = Ino(entry.ino);
        let first = self.exchanged(record.first)?;
        let second = self.exchanged(record.second)?.map(|e| Ino(e.ino));
        let half_done = record.is_half_done(file, first.as_ref().map(|e| Ino(e.ino)), second);
        let what = if half_done { "completed" } else { "over" };
        let message = format!("the exchange of two names that a crash interrupted is {what}");
        let draft = Draft::benign(Id::EntExchange, message);
        if !self.judge.ask(draft.ino(file).entry(&entry.name, Some(file)))? {
            return Ok(());
        }
        if !self.judge.may_write() {
            return Ok(());
        }
        if half_done && let Some(name) = first {
            self.complete_exchange(record.first.dir, &name, entry)?;
        }
        let record_of = |e: &Entry| e.ino == entry.ino && e.name == entry.name;
        self.remove_entry(Ino::ROOT, record_of)?;
        self.store.commit()
    }

    /// Lets `name` in `dir` mean the file of the record.
    fn complete_exchange(&mut self, dir: Ino, name: &Entry, record: &Entry) -> Res<()> {
        let (file, fmt) = (Ino(record.ino), self.dir_format());
        if self.is_directory(file)? {
            // Its `..` counts in the directory it comes to. If it did already the count is too high now, which
            // phase 4 lowers.
            let mut parent = self.node(dir)?;
            parent.d.nlink = parent.d.nlink.saturating_add(1);
            self.save(&mut parent)?;
            self.store.commit()?;
            self.set_dotdot(file, dir)?;
            self.store.commit()?;
        }
        self.for_each_chunk(dir, |chunk| {
            let mut live =
                dir::records(fmt, chunk).filter_map(Result::ok).filter(dir::Record::live);
            let found = live.find(|rec| rec.ino == name.ino && rec.name == name.name);
            let at = found.map(|rec| rec.off);
            if let Some(at) = at {
                dir::set_ino(fmt, chunk, at, record.ino);
                dir::set_type(fmt, chunk, at, record.dtype);
            }
            Flow { changed: at.is_some(), done: at.is_some() }
        })?;
        self.store.commit()
    }

    /// The entry that a record means, if its directory is one and has it.
    fn exchanged(&mut self, wanted: ExchangedName) -> Res<Option<Entry>> {
        if !self.is_directory(wanted.dir)? {
            return Ok(None);
        }
        let (fmt, mut found) = (self.dir_format(), None);
        self.for_each_chunk(wanted.dir, |chunk| {
            let mut live =
                dir::records(fmt, chunk).filter_map(Result::ok).filter(dir::Record::live);
            found = live.find(|rec| hash(rec.name) == wanted.hash).map(|rec| Entry::of(&rec));
            Flow { changed: false, done: found.is_some() }
        })?;
        Ok(found)
    }

    /// Whether an inode number, which may be any, is that of a directory.
    fn is_directory(&mut self, ino: Ino) -> Res<bool> {
        if ino < Ino::ROOT || ino.0 >= self.g.inodes() {
            return Ok(false);
        }
        Ok(self.node(ino)?.d.file_type() == Some(FileType::Directory))
    }
}
