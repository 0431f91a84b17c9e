//! Open files.
//!
//! # Invariants
//! 1. A file stays readable while it is open, also after its last name is removed.
//! 2. The position of a [`File`] belongs to it alone; positioned reads and writes leave it.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

use ffs_core::{Access, Error, Fallocate, FileType, NodeKind, SetAttr, SetTime, Vnode, WriteMode};

use crate::metadata::{Metadata, Permissions, timespec};
use crate::namei::{self, Last};
use crate::volume::{Volume, bytes};

/// An open file of a [`Volume`].
///
/// Dropping it does not make its content durable: call [`File::sync_all`], [`Volume::sync`] or
/// [`Volume::close`].
#[derive(Debug)]
pub struct File {
    volume: Volume,
    vnode: Vnode,
    /// Bytes.
    position: u64,
    mode: OpenOptions,
}

/// How to open a file, as [`std::fs::OpenOptions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u16,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}

impl OpenOptions {
    /// Everything off; new files get mode 0644.
    #[must_use]
    pub fn new() -> OpenOptions {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o644,
        }
    }

    /// Opens for reading.
    pub fn read(&mut self, on: bool) -> &mut OpenOptions {
        self.read = on;
        self
    }

    /// Opens for writing.
    pub fn write(&mut self, on: bool) -> &mut OpenOptions {
        self.write = on;
        self
    }

    /// Opens for writing; each write goes to the end of the file.
    pub fn append(&mut self, on: bool) -> &mut OpenOptions {
        self.append = on;
        self
    }

    /// Truncates an existing file to 0 bytes; needs [`OpenOptions::write`].
    pub fn truncate(&mut self, on: bool) -> &mut OpenOptions {
        self.truncate = on;
        self
    }

    /// Creates the file if it does not exist.
    pub fn create(&mut self, on: bool) -> &mut OpenOptions {
        self.create = on;
        self
    }

    /// Creates the file; fails if it exists.
    pub fn create_new(&mut self, on: bool) -> &mut OpenOptions {
        self.create_new = on;
        self
    }

    /// Permission bits of a file that is created; no umask applies.
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.mode = (mode & 0o7777) as u16;
        self
    }

    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for options that exclude each other; otherwise as
    /// [`std::fs::OpenOptions::open`].
    pub fn open(&self, volume: &Volume, path: impl AsRef<Path>) -> io::Result<File> {
        self.check()?;
        let vnode = self.find_or_create(volume, bytes(path.as_ref()))?;
        let attr = volume.fs().getattr(&vnode);
        if attr.kind == FileType::Directory && self.writes() {
            return Err(Error::IsDirectory.into());
        }
        let wanted = [(self.read, Access::READ), (self.writes(), Access::WRITE)];
        for (_, access) in wanted.into_iter().filter(|(wanted, _)| *wanted) {
            volume.fs().access(volume.cred(), &vnode, access)?;
        }
        let file = File { volume: volume.clone(), vnode, position: 0, mode: self.clone() };
        if self.truncate {
            file.set_len(0)?;
        }
        Ok(file)
    }

    fn writes(&self) -> bool {
        self.write || self.append
    }

    fn check(&self) -> io::Result<()> {
        let creates = self.create || self.create_new;
        let why = if !self.read && !self.writes() {
            "neither read, write nor append"
        } else if creates && !self.writes() {
            "creating a file needs write or append"
        } else if self.truncate && (!self.write || self.append) {
            "truncating a file needs write and excludes append"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    fn find_or_create(&self, volume: &Volume, path: &[u8]) -> io::Result<Vnode> {
        let (fs, cred) = (volume.fs(), volume.cred());
        if !self.create_new {
            match namei::namei(fs, cred, path, Last::Follow) {
                Err(error) if self.create && error.is_not_found() => {}
                found => return Ok(found?),
            }
        }
        if path.ends_with(b"/") {
            return Err(Error::IsDirectory.into());
        }
        let place = if self.create_new { namei::parent } else { namei::target };
        let (dir, name) = place(fs, cred, path)?;
        Ok(fs.create(cred, &dir, &name, NodeKind::Regular, self.mode)?)
    }
}

impl File {
    /// Reads at `offset`, bytes; returns how many. 0 is the end of the file.
    ///
    /// # Errors
    /// The device's; [`io::ErrorKind::PermissionDenied`] if the file is not open for reading.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if !self.mode.read {
            return Err(self.wrong_mode("reading"));
        }
        Ok(self.volume.fs().read(&self.vnode, offset, buf)?)
    }

    /// Writes at `offset`, bytes, or at the end if the file is open to append; returns how many.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`]; the device's; [`io::ErrorKind::PermissionDenied`] if the
    /// file is not open for writing.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.may_write()?;
        let mode = WriteMode { append: self.mode.append, ..WriteMode::default() };
        let (fs, cred) = (self.volume.fs(), self.volume.cred());
        Ok(fs.write(cred, &self.vnode, offset, buf, mode)?)
    }

    /// Attributes.
    ///
    /// # Errors
    /// None today; [`io::Result`] as in [`std::fs::File::metadata`].
    pub fn metadata(&self) -> io::Result<Metadata> {
        Ok(Metadata(self.volume.fs().getattr(&self.vnode)))
    }

    /// Truncates or extends the file to `size` bytes.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.may_write()?;
        self.set(&SetAttr { size: Some(size), ..SetAttr::default() })
    }

    /// Sets the permission bits.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`]; the device's.
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        let perm = Some((permissions.mode() & 0o7777) as u16);
        self.set(&SetAttr { perm, ..SetAttr::default() })
    }

    /// Sets the modification time.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`]; the device's.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        let mtime = Some(SetTime::To(timespec(time)?));
        self.set(&SetAttr { mtime, ..SetAttr::default() })
    }

    /// Allocates space for `len` bytes at `offset`; grows the file.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.fallocate(offset, len, Fallocate::Allocate)
    }

    /// Makes a hole of `len` bytes at `offset`: the range reads as zeros and occupies no whole
    /// block.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.fallocate(offset, len, Fallocate::PunchHole)
    }

    /// Makes content, attributes and names of the file durable.
    ///
    /// # Errors
    /// The device's.
    pub fn sync_all(&self) -> io::Result<()> {
        Ok(self.volume.fs().fsync(&self.vnode)?)
    }

    /// Makes the content durable, and of the attributes what is needed to read it.
    ///
    /// # Errors
    /// The device's.
    pub fn sync_data(&self) -> io::Result<()> {
        Ok(self.volume.fs().fdatasync(&self.vnode)?)
    }

    fn fallocate(&self, offset: u64, len: u64, how: Fallocate) -> io::Result<()> {
        self.may_write()?;
        let (fs, cred) = (self.volume.fs(), self.volume.cred());
        Ok(fs.fallocate(cred, &self.vnode, offset, len, how)?)
    }

    fn set(&self, set: &SetAttr) -> io::Result<()> {
        self.volume.fs().setattr(self.volume.cred(), &self.vnode, set)?;
        Ok(())
    }

    fn may_write(&self) -> io::Result<()> {
        if self.mode.writes() { Ok(()) } else { Err(self.wrong_mode("writing")) }
    }

    fn wrong_mode(&self, what: &str) -> io::Error {
        let ino = self.vnode.ino();
        let why = format!("{ino} is not open for {what}");
        io::Error::new(io::ErrorKind::PermissionDenied, why)
    }

    fn advance(&mut self, by: usize) -> usize {
        self.position = self.position.saturating_add(by as u64);
        by
    }
}

impl Volume {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`std::fs::File::open`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Creates a file, or truncates it, and opens it for writing.
    ///
    /// # Errors
    /// As [`std::fs::File::create`].
    pub fn create_file(&self, path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(self, path)
    }

    /// The content of a file.
    ///
    /// # Errors
    /// As [`std::fs::read`].
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut file = self.open_file(path)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        Ok(content)
    }

    /// The content of a file as text.
    ///
    /// # Errors
    /// As [`std::fs::read_to_string`].
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let mut text = String::new();
        self.open_file(path)?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Replaces the content of a file, which is created if it does not exist.
    ///
    /// # Errors
    /// As [`std::fs::write`].
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
        self.create_file(path)?.write_all(content.as_ref())
    }

    /// Copies the content and the permission bits of a regular file; returns the bytes copied.
    ///
    /// # Errors
    /// As [`std::fs::copy`]; [`io::ErrorKind::InvalidInput`] also if both paths lead to one file.
    pub fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
        let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let (mut from, to) = (self.open_file(from)?, to.as_ref());
        let source = from.metadata()?;
        if !source.is_file() {
            return invalid("the source is not a regular file");
        }
        if self.metadata(to).is_ok_and(|target| target.ino() == source.ino()) {
            return invalid("source and target are the same file");
        }
        let mut to = self.create_file(to)?;
        let copied = io::copy(&mut from, &mut to)?;
        to.set_permissions(source.permissions())?;
        Ok(copied)
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let done = self.read_at(buf, self.position)?;
        Ok(self.advance(done))
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let done = self.write_at(buf, self.position)?;
        if self.mode.append {
            self.position = self.volume.fs().getattr(&self.vnode).size;
            return Ok(done);
        }
        Ok(self.advance(done))
    }

    /// Does nothing: a [`File`] has no buffer of its own. See [`File::sync_all`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let size = || self.volume.fs().getattr(&self.vnode).size;
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => size().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = to.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the position is out of range")
        })?;
        Ok(self.position)
    }
}
