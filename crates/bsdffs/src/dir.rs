//! Listing: one directory, or a tree.
//!
//! # Invariants
//! 1. A listing reads a bounded number of entries at a time.
//! 2. A walk ends, also in a damaged image whose directories form a circle.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ffs_core::{Access, Error, Ffs, FileType, Ino, Vnode};
use ffs_ondisk::journal;

use crate::metadata::Metadata;
use crate::namei::{self, Last};
use crate::volume::{Volume, bytes};

/// Entries that one call reads.
const BATCH: usize = 256;
/// Longest path into which a walk descends, bytes: bounds the memory that a hostile image can take.
const MAX_PATH: usize = 16 << 10;

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct DirEntry {
    volume: Volume,
    dir: Vnode,
    path: PathBuf,
    name: OsString,
    ino: Ino,
    kind: Option<FileType>,
}

impl DirEntry {
    /// The name.
    #[must_use]
    pub fn file_name(&self) -> &OsStr {
        &self.name
    }

    /// The path that was listed, and the name.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.path.join(&self.name)
    }

    /// Inode number.
    #[must_use]
    pub fn ino(&self) -> u64 {
        self.ino.0.into()
    }

    /// The type: from the directory, or from the inode where the directory has none.
    ///
    /// # Errors
    /// As [`DirEntry::metadata`].
    pub fn file_type(&self) -> io::Result<FileType> {
        match self.kind {
            Some(kind) => Ok(kind),
            None => self.metadata().map(|metadata| metadata.file_type()),
        }
    }

    /// Attributes; of a symbolic link its own.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the entry was removed since; the device's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        let (fs, cred) = (self.volume.fs(), self.volume.cred());
        Ok(Metadata(fs.lookup_attr(cred, &self.dir, self.name.as_bytes())?))
    }
}

/// The entries of a directory, without `.` and `..`, in the order of the directory.
///
/// If something in the directory is malformed, the sound entries come first, then the error.
#[derive(Debug)]
pub struct ReadDir {
    volume: Volume,
    dir: Vnode,
    path: PathBuf,
    batch: VecDeque<DirEntry>,
    /// Comes after the batch.
    error: Option<io::Error>,
    /// Where the next batch begins; none after the last.
    next: Option<u64>,
}

impl ReadDir {
    pub(crate) fn new(volume: &Volume, dir: Vnode, path: &Path) -> io::Result<ReadDir> {
        if volume.fs().getattr(&dir).kind != FileType::Directory {
            return Err(Error::NotDirectory.into());
        }
        // The core checks no permission to list: it has no credential of the caller there.
        volume.fs().access(volume.cred(), &dir, Access::READ)?;
        let (volume, path) = (volume.clone(), path.to_owned());
        Ok(ReadDir { volume, dir, path, batch: VecDeque::new(), error: None, next: Some(0) })
    }

    /// Reads the batch that begins at `at`.
    fn fill(&mut self, at: u64) {
        let (batch, mut next) = (&mut self.batch, None);
        let (volume, dir, path) = (&self.volume, &self.dir, &self.path);
        let read = volume.fs().readdir(dir, at, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                batch.push_back(DirEntry {
                    volume: volume.clone(),
                    dir: dir.clone(),
                    path: path.clone(),
                    name: OsStr::from_bytes(entry.name).to_owned(),
                    ino: entry.ino,
                    kind: entry.kind,
                });
            }
            let more = batch.len() < BATCH;
            if !more {
                next = Some(entry.next);
            }
            more
        });
        self.next = next;
        self.error = read.err().map(io::Error::from);
    }
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        loop {
            if let Some(entry) = self.batch.pop_front() {
                return Some(Ok(entry));
            }
            if let Some(error) = self.error.take() {
                return Some(Err(error));
            }
            let at = self.next.take()?;
            self.fill(at);
        }
    }
}

impl Volume {
    /// The entries of a directory.
    ///
    /// # Errors
    /// As [`std::fs::read_dir`].
    pub fn read_dir(&self, path: impl AsRef<Path>) -> io::Result<ReadDir> {
        let path = path.as_ref();
        ReadDir::new(self, self.find(path, Last::Follow)?, path)
    }

    /// All files below a directory.
    ///
    /// # Errors
    /// As [`Volume::read_dir`].
    pub fn walk(&self, path: impl AsRef<Path>) -> io::Result<Walk> {
        self.read_dir(path).map(Walk::new)
    }

    /// Creates a directory of mode 0755.
    ///
    /// # Errors
    /// As [`std::fs::create_dir`].
    pub fn create_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (dir, name) = self.parent(path.as_ref())?;
        self.fs().mkdir(self.cred(), &dir, &name, 0o755)?;
        Ok(())
    }

    /// Creates a directory and those above it that do not exist.
    ///
    /// # Errors
    /// As [`std::fs::create_dir_all`].
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let names: Vec<&[u8]> = namei::components(bytes(path.as_ref())).collect();
        // The longest part of the path that exists or whose parent does, then what follows it.
        let mut there = names.len();
        while there > 0 {
            match self.create_missing(&names[..there]) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => there -= 1,
                made => {
                    made?;
                    break;
                }
            }
        }
        (there + 1..=names.len()).try_for_each(|len| self.create_missing(&names[..len]))
    }

    /// Creates a directory, unless one is there.
    fn create_missing(&self, names: &[&[u8]]) -> io::Result<()> {
        let path = PathBuf::from(OsString::from_vec(names.join(&b'/')));
        self.create_dir(&path).or_else(|error| match self.metadata(&path) {
            Ok(found) if found.is_dir() => Ok(()),
            _ => Err(error),
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`std::fs::remove_dir`].
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (dir, name) = self.parent(path.as_ref())?;
        Ok(self.fs().rmdir(self.cred(), &dir, &name)?)
    }

    /// Removes a directory and all that it contains. Symbolic links are removed, not followed.
    ///
    /// # Errors
    /// As [`std::fs::remove_dir_all`]; what was removed before an error stays removed.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let top = self.symlink_metadata(path)?;
        if top.is_symlink() {
            return self.remove_file(path);
        }
        if !top.is_dir() {
            return Err(Error::NotDirectory.into());
        }
        let mut directories = Vec::new();
        for entry in self.walk(path)? {
            let entry = entry?;
            match entry.file_type()? {
                FileType::Directory => directories.push(entry.path()),
                _ => self.remove_file(entry.path())?,
            }
        }
        directories.iter().rev().try_for_each(|dir| self.remove_dir(dir))?;
        self.remove_dir(path)
    }
}

/// A file found by a [`Walk`].
#[derive(Clone, Debug)]
pub struct WalkEntry {
    entry: DirEntry,
    depth: usize,
}

impl WalkEntry {
    /// How many directories lie between the top of the walk and this entry.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }
}

impl std::ops::Deref for WalkEntry {
    type Target = DirEntry;

    fn deref(&self) -> &DirEntry {
        &self.entry
    }
}

/// All files below a directory: each directory before what it contains, symbolic links not
/// followed.
///
/// An error concerns one directory or entry; the walk goes on after it.
#[derive(Debug)]
pub struct Walk {
    /// The directories from the top down to the current one.
    open: Vec<ReadDir>,
}

impl Walk {
    pub(crate) fn new(top: ReadDir) -> Walk {
        Walk { open: vec![top] }
    }

    /// Opens a directory that was found.
    fn descend(&mut self, entry: &DirEntry) -> io::Result<()> {
        let path = entry.path();
        let refuse = |why: &str| {
            let why = format!("{}: {why}", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        };
        if self.open.iter().any(|above| above.dir.ino() == entry.ino) {
            return refuse("the directory contains itself; check the image with fsck");
        }
        if path.as_os_str().len() > MAX_PATH {
            return refuse("the tree is too deep");
        }
        let (fs, cred) = (entry.volume.fs(), entry.volume.cred());
        let dir = fs.lookup(cred, &entry.dir, entry.name.as_bytes())?;
        let dir = ReadDir::new(&entry.volume, dir, &path)?;
        self.open.push(dir);
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = io::Result<WalkEntry>;

    fn next(&mut self) -> Option<io::Result<WalkEntry>> {
        loop {
            let depth = self.open.len().checked_sub(1)?;
            let entry = match self.open.last_mut()?.next() {
                None => {
                    self.open.pop();
                    continue;
                }
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(entry)) => entry,
            };
            let found = entry.file_type().and_then(|kind| match kind {
                FileType::Directory => self.descend(&entry),
                _ => Ok(()),
            });
            return Some(found.map(|()| WalkEntry { entry, depth }));
        }
    }
}

/// Whether `file`, the entry `name` of directory `dir`, is the journal of its volume. Copies and
/// backups of a tree leave it out.
pub(crate) fn is_journal(ffs: &Ffs, dir: Ino, name: &[u8], file: &Vnode) -> bool {
    if dir != Ino::ROOT || name != journal::NAME {
        return false;
    }
    let attr = ffs.getattr(file);
    attr.kind == FileType::Regular && attr.flags.contains(journal::FLAGS)
}

/// Names and inode numbers in a directory, sorted by name, without `.` and `..`; and the error that
/// ended the listing, if there was one.
pub fn sorted_entries(ffs: &Ffs, dir: &Vnode) -> (Vec<(Vec<u8>, Ino)>, Option<Error>) {
    let mut names = Vec::new();
    let result = ffs.readdir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            names.push((entry.name.to_vec(), entry.ino));
        }
        true
    });
    names.sort_unstable();
    (names, result.err())
}
