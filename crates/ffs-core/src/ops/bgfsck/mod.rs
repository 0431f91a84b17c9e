//! The check of a snapshot of the mounted volume: its snapshot, and the calls by which its
//! corrections are made (FreeBSD: the sysctls `vfs.ffs.adjrefcnt`, `vfs.ffs.freeblks` and others).
//!
//! | module | calls |
//! | --- | --- |
//! | `links` | `adjrefcnt` |
//! | `names` | `unlink`, `setdotdot` |
//! | `sizes` | `adjblkcnt`, `setsize` |
//! | `space` | `freefiles`, `freedirs`, `freeblks`, `adjndir` |
//!
//! # Invariants
//! 1. A correction comes from a snapshot, and the volume has changed since. Each call looks at the
//!    volume as it is now, under the locks of the operation that it is. What does not fit any more
//!    is unneeded or refused, and changes nothing.
//! 2. A change is reported to the ordering mode as the operation that it resembles, so a crash
//!    leaves only states that the contract allows.
//! 3. A block or inode that no file has can be freed only by this check: no other operation has its
//!    address. The calls that free take ascending addresses, so that none is freed twice.
//! 4. The snapshot loses its name as soon as it is made, so that a crash leaves a file without
//!    links and not a snapshot.
//!
//! Reference: `spec/fsck-and-crash.md` §7.

mod links;
mod names;
mod sizes;
mod space;

pub use names::SecondName;

use super::Vnode;
use crate::counters::bump;
use crate::cred::Cred;
use crate::dir::{self, Dir};
use crate::error::{Error, Result};
use crate::mount::{Ffs, Mount};
use crate::ordering::rules::{Rule, holds};
use crate::sync::Mutex;
use crate::types::SetAttr;
use ffs_ondisk::snapshot::SNAP_DIR;
use ffs_ondisk::{FileFlags, FileType, FragNo, GID_OPERATOR, Ino};

/// The name of the snapshot while it is made.
const SNAPSHOT: &[u8] = b"fsck_snapshot";

/// The result of a call that makes a correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjusted {
    /// It was made.
    Done,
    /// Nothing is wrong any more: the file was removed, or has changed so that it is right.
    Unneeded,
    /// The volume has changed so that the correction does not fit, for this reason. Nothing was
    /// changed.
    Refused(&'static str),
}

/// A name or a file that a correction changed. The kernel may have it in its caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed<'a> {
    /// Attributes of a file.
    Attributes(Ino),
    /// Attributes and content of a file.
    Content(Ino),
    /// A name in a directory.
    Name(Ino, &'a [u8]),
}

/// The lowest addresses that may still be freed.
#[derive(Debug)]
struct NotFreed {
    frag: FragNo,
    ino: Ino,
}

/// A running check of a snapshot.
pub struct BackgroundCheck {
    fs: Ffs,
    image: Option<Vnode>,
    not_freed: Mutex<NotFreed>,
}

impl Ffs {
    /// Begins a check: makes a snapshot without a name. [`Ffs::check_need`] returns whether one
    /// is needed.
    ///
    /// # Errors
    /// [`Error::NotSupported`] if the mount permits no check; [`Error::Busy`] if another one runs;
    /// as [`Ffs::snapshot`].
    pub fn begin_check(&self) -> Result<BackgroundCheck> {
        self.0.begin_check()?;
        let not_freed = Mutex::new(NotFreed { frag: FragNo(0), ino: Ino(0) });
        // From here on, dropping this value ends the check.
        let mut check = BackgroundCheck { fs: self.clone(), image: None, not_freed };
        let cred = Cred::root();
        let dir = self.snapshot_directory(&cred)?;
        self.remove_stale_snapshot(&cred, &dir)?;
        let (image, _) = self.snapshot(&cred, &dir, SNAPSHOT)?;
        check.image = Some(image);
        self.unlink(&cred, &dir, SNAPSHOT)?;
        Ok(check)
    }

    fn snapshot_directory(&self, cred: &Cred) -> Result<Vnode> {
        let root = self.root()?;
        match self.lookup(cred, &root, SNAP_DIR.as_bytes()) {
            Err(Error::NotFound) => {}
            Ok(found) if self.getattr(&found).kind != FileType::Directory => {
                return Err(Error::InTheWay { path: "/.snap", wanted: "a directory" });
            }
            found => return found,
        }
        let dir = self.mkdir(cred, &root, SNAP_DIR.as_bytes(), 0o770)?;
        let group = SetAttr { gid: Some(GID_OPERATOR), perm: Some(0o770), ..SetAttr::default() };
        self.setattr(cred, &dir, &group)?;
        Ok(dir)
    }

    /// Removes the snapshot of a check that was interrupted between making it and removing its
    /// name. It is an empty file if the snapshot was not complete.
    fn remove_stale_snapshot(&self, cred: &Cred, dir: &Vnode) -> Result<()> {
        let attr = match self.lookup(cred, dir, SNAPSHOT) {
            Err(Error::NotFound) => return Ok(()),
            found => self.getattr(&found?),
        };
        let stale = attr.flags.contains(FileFlags::SF_SNAPSHOT) || attr.size == 0;
        if attr.kind != FileType::Regular || !stale {
            return Err(Error::InTheWay { path: "/.snap/fsck_snapshot", wanted: "a snapshot" });
        }
        self.unlink(cred, dir, SNAPSHOT)
    }
}

impl BackgroundCheck {
    /// The mount that is checked.
    #[must_use]
    pub fn fs(&self) -> &Ffs {
        &self.fs
    }

    /// The snapshot; `None` after [`BackgroundCheck::release_image`].
    #[must_use]
    pub fn image(&self) -> Option<&Vnode> {
        self.image.as_ref()
    }

    /// Frees the snapshot. Corrections need it no more, and would make it grow.
    pub fn release_image(&mut self) {
        self.image = None;
    }

    /// Notes how far the check is, for [`Ffs::check_progress`].
    pub fn note_progress(&self, phase: u64, done: u64, total: u64) {
        self.fs.0.note_check_progress(phase, done, total);
    }

    /// Ends the check, all corrections of which were made: the volume is not unclean any more, and
    /// unmounting marks it clean. Returns false if another check is needed, because something could
    /// not be freed meanwhile: a full volume has no space for copies.
    ///
    /// # Errors
    /// The device's; [`Error::Busy`] if damage was found meanwhile. The volume stays unclean.
    pub fn complete(mut self) -> Result<bool> {
        self.release_image();
        if holds(Rule::CorrectionsBeforeChecked) {
            self.fs.sync()?;
        }
        self.fs.0.check_completed()
    }

    /// Ends the check, which found what only a check of the unmounted volume can repair: sets
    /// `FS_NEEDSFSCK`.
    ///
    /// # Errors
    /// The device's.
    pub fn require_fsck(self) -> Result<()> {
        self.fs.0.require_fsck()
    }

    /// Runs a call that makes a correction, as an operation, and counts it.
    fn adjust(&self, call: impl FnOnce(&Mount) -> Result<Adjusted>) -> Result<Adjusted> {
        let _op = self.fs.begin()?;
        let result = call(&self.fs.0);
        let counters = self.fs.0.ump.counters();
        match &result {
            Ok(Adjusted::Done) => bump(&counters.bgfsck_corrections),
            Ok(Adjusted::Refused(_)) => bump(&counters.bgfsck_refusals),
            Ok(Adjusted::Unneeded) | Err(_) => {}
        }
        result
    }
}

impl Drop for BackgroundCheck {
    fn drop(&mut self) {
        self.image = None;
        self.fs.0.end_check();
    }
}

/// What the entries of a directory name.
#[derive(Debug, Default)]
struct Entries {
    /// Names of directories, without `.` and `..`.
    subdirectories: u32,
    /// Names of the inode that is looked for.
    names: u32,
}

impl Mount {
    /// Counts the entries of `d` that name directories, and those that name `wanted`. `None` if a
    /// part of the directory cannot be read.
    fn count_entries(&self, d: Dir<'_>, wanted: Option<Ino>) -> Result<Option<Entries>> {
        let (mut found, mut bad, mut at) = (Entries::default(), None, 0);
        let mut unknown = Vec::new();
        while let Some(chunk) = dir::read_chunk(d, at, &mut bad)? {
            let each = &mut |entry: crate::types::DirEntry<'_>| {
                if super::is_dots(entry.name) {
                    return true;
                }
                found.names += u32::from(Some(entry.ino) == wanted);
                match entry.kind {
                    Some(FileType::Directory) => found.subdirectories += 1,
                    // Directories of 4.2BSD have no types.
                    None => unknown.push(entry.ino),
                    Some(_) => {}
                }
                true
            };
            chunk.show(self.ump.g(), each, &mut bad);
            at = chunk.end();
        }
        for ino in unknown {
            let is_dir = self.table.stored(ino)?.is_dir();
            found.subdirectories += u32::from(is_dir);
        }
        Ok(if bad.is_none() { Some(found) } else { None })
    }
}
