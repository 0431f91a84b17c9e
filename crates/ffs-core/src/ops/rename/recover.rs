//! Recovery of exchanges that a crash interrupted, when the volume is mounted.
//!
//! Reference: [`ffs_ondisk::exchange`].

use super::{Moved, NameInDir, Renaming, Request, redirect_dotdot};
use crate::cred::Cred;
use crate::dir::{self, Entry};
use crate::error::{Error, Result};
use crate::mount::Ffs;
use crate::ops::locks::{Locks, Stop, retry};
use crate::ops::{Held, Vnode};
use crate::ordering::InodeChange;
use crate::types::RenameMode;
use ffs_ondisk::exchange::{ExchangeRecord, ExchangedName, PREFIX, hash};
use ffs_ondisk::{FileType, Ino};

/// A record found in the root directory, and the present state of its names.
struct Found {
    record: ExchangeRecord,
    name: Vec<u8>,
    /// The file that the record names.
    file: Ino,
    /// The first name and the inode it names, if it exists.
    first: Option<(Vec<u8>, Ino)>,
    second: Option<Ino>,
}

impl Found {
    /// The directory in which the file has one of the two names.
    fn home(&self) -> Option<Ino> {
        let first = self.first.as_ref().map(|(_, ino)| *ino);
        let each = [(self.second, self.record.second.dir), (first, self.record.first.dir)];
        each.into_iter().find(|(ino, _)| *ino == Some(self.file)).map(|(_, dir)| dir)
    }
}

impl Ffs {
    /// Completes or reverses the exchanges whose records are in the root directory. Records whose
    /// names cannot be read are left to `fsck`. Returns the number of records.
    ///
    /// # Errors
    /// The device's. [`Error::NoSpace`] does not occur.
    pub(crate) fn recover_exchanges(&self) -> Result<usize> {
        let root = self.root()?;
        let mut records = Vec::new();
        self.readdir(&root, 0, &mut |e| {
            if e.name.starts_with(PREFIX)
                && let Some(record) = ExchangeRecord::parse(e.name)
            {
                records.push((record, e.name.to_vec(), e.ino));
            }
            true
        })?;
        for (record, name, file) in &records {
            let first = self.name_with(record.first)?;
            let second = self.name_with(record.second)?.map(|(_, ino)| ino);
            let (record, name, file) = (*record, name.clone(), *file);
            self.recover(&root, &Found { record, name, file, first, second })?;
        }
        Ok(records.len())
    }

    /// The name that a record refers to and its inode, if the directory exists and has the name.
    fn name_with(&self, wanted: ExchangedName) -> Result<Option<(Vec<u8>, Ino)>> {
        let dir = match self.vget(wanted.dir, None) {
            Ok(dir) if self.getattr(&dir).kind == FileType::Directory => dir,
            Ok(_) | Err(Error::Stale | Error::Format(_)) => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut found = None;
        let listed = self.readdir(&dir, 0, &mut |e| {
            let is_it = hash(e.name) == wanted.hash && e.name != b"." && e.name != b"..";
            if is_it {
                found = Some((e.name.to_vec(), e.ino));
            }
            !is_it
        });
        match listed {
            Ok(()) | Err(Error::Format(_)) => Ok(found),
            Err(e) => Err(e),
        }
    }

    fn recover(&self, root: &Vnode, found: &Found) -> Result<()> {
        // Each of these inodes is locked, so no two may be the same.
        if !found.record.is_possible(found.file) {
            return Ok(());
        }
        let first = found.first.as_ref().map(|(_, ino)| *ino);
        let half_done = found.record.is_half_done(found.file, first, found.second);
        let done = match &found.first {
            Some((name, _)) if half_done => self.complete_exchange(root, found, name),
            _ => self.remove_record(root, found),
        };
        match done {
            // `fsck` handles the damage.
            Err(Error::Format(_) | Error::NotFound | Error::Stale) => Ok(()),
            other => other,
        }
    }

    /// Gives the file the first name, which names the other file, and removes the record.
    fn complete_exchange(&self, root: &Vnode, found: &Found, name: &[u8]) -> Result<()> {
        let cred = Cred::root();
        let p1 = self.vget(found.record.first.dir, None)?;
        let p2 = self.vget(found.record.second.dir, None)?;
        let other = self.vget(found.record.other, None)?;
        let file = self.vget(found.file, None)?;
        let mp = &self.0;
        let _op = self.begin()?;
        let req = Request {
            cred: &cred,
            from: NameInDir { dir: &p1.ip, name },
            // The recovery does not use this name.
            to: NameInDir { dir: &p2.ip, name: &[] },
            mode: RenameMode::Exchange,
        };
        retry(|again| -> std::result::Result<(), Stop> {
            let mut locks = Locks::starting_with(&mp.ump, again);
            let d1 = locks.lock(&p1.ip)?;
            let same_dir = p1.ip.ino == p2.ip.ino;
            let d2 = if same_dir { None } else { Some(locks.lock(&p2.ip)?) };
            let elsewhere = p1.ip.ino != Ino::ROOT && p2.ip.ino != Ino::ROOT;
            let root = match elsewhere {
                true => Some(locks.lock(&root.ip)?),
                false => None,
            };
            let e1 = dir::find(d1.view(), name)?.ok_or(Error::NotFound)?;
            let moved = |ip, file, entry: Entry| Moved { ip, file, entry };
            let src = moved(&other.ip, locks.lock(&other.ip)?, e1);
            let mut dst = moved(&file.ip, locks.lock(&file.ip)?, e1);
            let (above_src, above_dst) = (Vec::new(), Vec::new());
            let mut r = Renaming {
                mp,
                req,
                d1,
                d2,
                src,
                dst: None,
                slot: None,
                above_src,
                above_dst,
                whiteout: None,
                root,
            };
            r.name_second(&mut dst, &e1, &found.name)?;
            Ok(r.finish_recovery(&mut dst)?)
        })
    }

    /// Removes the record, an additional name of its file.
    fn remove_record(&self, root: &Vnode, found: &Found) -> Result<()> {
        let file = self.vget(found.file, None)?;
        if self.getattr(&file).kind != FileType::Directory {
            return self.unlink(&Cred::root(), root, &found.name);
        }
        let _op = self.begin()?;
        let mp = &self.0;
        let held = Held::new(mp, std::sync::Arc::clone(&file.ip));
        retry(|again| -> std::result::Result<(), Stop> {
            let mut locks = Locks::starting_with(&mp.ump, again);
            let mut d = locks.lock(&root.ip)?;
            let inode = locks.lock(&held.ip)?;
            let up = mp.parent_of(inode.view())?;
            let e = dir::find(d.view(), &found.name)?.ok_or(Error::NotFound)?;
            let mut moved = Moved { ip: &held.ip, file: inode, entry: e };
            if up == Ino::ROOT {
                // The directory is in the root. If it has no other name, the record stays its name.
                let Some(home) = found.home() else { return Ok(()) };
                redirect_dotdot(mp, &mut moved.file, home)?;
            }
            dir::remove(&mut d, &e, moved.taken_back_from(None))?;
            d.note_modified();
            Ok(moved.file.drop_link()?)
        })
    }
}

impl Renaming<'_> {
    /// Updates the inodes after an exchange was completed at mount. Their link counts on the device
    /// include the links that the steps before the crash added, and may still include links that
    /// are removed. They stay too high rather than too low, and `fsck` lowers them.
    fn finish_recovery(&mut self, dst: &mut Moved<'_>) -> Result<()> {
        self.source().note_modified();
        if self.root.is_some() {
            self.root_dir().note_modified();
        }
        let counted = InodeChange::NlinkInc;
        let updated = self.src.file.update(counted);
        updated.and(dst.file.update(counted))
    }
}
