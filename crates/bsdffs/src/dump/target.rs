//! The tree that an incremental restore changes: on the host or in an image.
//!
//! **Invariant.** No symbolic link is followed: a path is resolved name by name from the root of
//! the target.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ffs_core::{
    Error, FileFlags, FileType, NodeKind, RenameMode, SetAttr, Vnode, WriteMode, XattrNamespace,
};
use ffs_ondisk::acl;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::copy::{ImageRef, remove_xattr, split_last, xattr_names};
use crate::namei::components;
use crate::text::escape;

/// A tree in which names are changed. Paths are relative to its root.
pub trait Target {
    /// Creates a directory, unless one exists.
    ///
    /// # Errors
    /// The reason.
    fn mkdir(&mut self, path: &[u8]) -> Result<(), String>;
    /// Renames a file, which replaces an existing file.
    ///
    /// # Errors
    /// The reason.
    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), String>;
    /// Gives a file another name.
    ///
    /// # Errors
    /// The reason.
    fn link(&mut self, file: &[u8], new: &[u8]) -> Result<(), String>;
    /// Removes a file that is not a directory.
    ///
    /// # Errors
    /// The reason.
    fn unlink(&mut self, path: &[u8]) -> Result<(), String>;
    /// Removes an empty directory.
    ///
    /// # Errors
    /// The reason.
    fn rmdir(&mut self, path: &[u8]) -> Result<(), String>;
    /// Clears the file flags that forbid changes.
    ///
    /// # Errors
    /// The reason.
    fn unprotect(&mut self, path: &[u8]) -> Result<(), String>;
    /// Removes the extended attributes of a directory, except ACLs.
    ///
    /// # Errors
    /// The reason.
    fn clear_xattrs(&mut self, path: &[u8]) -> Result<(), String>;
    /// The content of the regular file `name` in the root; `None` if it does not exist.
    ///
    /// # Errors
    /// The reason, such as a length above 1 GiB.
    fn read(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, String>;
    /// Replaces the file `name` in the root.
    ///
    /// # Errors
    /// The reason.
    fn write(&mut self, name: &[u8], bytes: &[u8]) -> Result<(), String>;
}

/// Most bytes that [`Target::read`] reads: a `restoresymtable` of twenty million names.
const MAX_TABLE: u64 = 1 << 30;

/// Fails for what an earlier dump may have put in the place of the table.
fn check_table(name: &[u8], regular: bool, size: u64) -> Result<(), String> {
    match (regular, size > MAX_TABLE) {
        (false, _) => Err(at(name, "not a regular file")),
        (_, true) => Err(at(name, format!("longer than {MAX_TABLE} bytes"))),
        _ => Ok(()),
    }
}

fn at(path: &[u8], error: impl std::fmt::Display) -> String {
    format!("{}: {error}", escape(path))
}

/// A directory of the host.
pub struct HostTarget {
    root: OwnedFd,
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl HostTarget {
    /// The directory `root`, which must exist.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(root: &Path) -> Result<HostTarget, String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, root, flags, Mode::empty());
        let root = opened.map_err(|error| at(root.as_os_str().as_bytes(), error))?;
        Ok(HostTarget { root })
    }

    /// Calls `act` with the directory of `path` and its last name.
    fn with<T>(
        &self,
        path: &[u8],
        act: impl FnOnce(BorrowedFd<'_>, &[u8]) -> rustix::io::Result<T>,
    ) -> Result<T, String> {
        let (dir, name) = split_last(path);
        let opened = self.directory(dir).map_err(|error| at(dir, error))?;
        let fd = opened.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
        act(fd, name).map_err(|error| at(path, error))
    }

    /// The directory at `path`; `None` for the root.
    fn directory(&self, path: &[u8]) -> rustix::io::Result<Option<OwnedFd>> {
        let mut dir: Option<OwnedFd> = None;
        for name in components(path) {
            let from = dir.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
            dir = Some(rustix::fs::openat(from, name, DIRECTORY, Mode::empty())?);
        }
        Ok(dir)
    }
}

impl Target for HostTarget {
    fn mkdir(&mut self, path: &[u8]) -> Result<(), String> {
        self.with(path, |dir, name| match rustix::fs::mkdirat(dir, name, Mode::from(0o755)) {
            Err(Errno::EXIST) => {
                rustix::fs::openat(dir, name, DIRECTORY, Mode::empty()).map(|_| ())
            }
            other => other,
        })
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), String> {
        let (to_dir, to_name) = split_last(to);
        let opened = self.directory(to_dir).map_err(|error| at(to_dir, error))?;
        let to_dir = opened.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
        self.with(from, |dir, name| rustix::fs::renameat(dir, name, to_dir, to_name))
    }

    fn link(&mut self, file: &[u8], new: &[u8]) -> Result<(), String> {
        let (to_dir, to_name) = split_last(new);
        let opened = self.directory(to_dir).map_err(|error| at(to_dir, error))?;
        let to_dir = opened.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
        let flags = AtFlags::empty();
        self.with(file, |dir, name| rustix::fs::linkat(dir, name, to_dir, to_name, flags))
    }

    fn unlink(&mut self, path: &[u8]) -> Result<(), String> {
        self.with(path, |dir, name| rustix::fs::unlinkat(dir, name, AtFlags::empty()))
    }

    fn rmdir(&mut self, path: &[u8]) -> Result<(), String> {
        self.with(path, |dir, name| rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR))
    }

    fn unprotect(&mut self, _: &[u8]) -> Result<(), String> {
        // File flags are an extended attribute here, which forbids nothing.
        Ok(())
    }

    fn clear_xattrs(&mut self, path: &[u8]) -> Result<(), String> {
        let opened = self.directory(path).map_err(|error| at(path, error))?;
        let fd = opened.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
        let names = xattr_names(fd).map_err(|error| at(path, error))?;
        // Labels and other names outside `user` belong to the host.
        for name in names.iter().filter(|name| name.starts_with(b"user.")) {
            remove_xattr(fd, name).map_err(|error| at(path, error))?;
        }
        Ok(())
    }

    fn read(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.root, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(at(name, error)),
        };
        let (file, mut bytes) = (File::from(fd), Vec::new());
        let found = file.metadata().map_err(|error| at(name, error))?;
        check_table(name, found.is_file(), found.len())?;
        file.take(MAX_TABLE).read_to_end(&mut bytes).map_err(|error| at(name, error))?;
        Ok(Some(bytes))
    }

    fn write(&mut self, name: &[u8], bytes: &[u8]) -> Result<(), String> {
        let new = [name, b".new"].concat();
        let _ = rustix::fs::unlinkat(&self.root, &new[..], AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.root, &new[..], flags, Mode::from(0o600));
        let mut file = File::from(fd.map_err(|error| at(&new, error))?);
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|error| at(&new, error))?;
        self.rename(&new, name)
    }
}

/// A directory of an image.
pub struct ImageTarget<'a> {
    image: ImageRef<'a>,
    root: Vnode,
}

impl<'a> ImageTarget<'a> {
    /// The directory `root` of `image`.
    #[must_use]
    pub fn new(image: ImageRef<'a>, root: Vnode) -> ImageTarget<'a> {
        ImageTarget { image, root }
    }

    fn find(&self, path: &[u8]) -> Result<Vnode, Error> {
        let (ffs, cred) = (self.image.ffs, self.image.cred);
        components(path).try_fold(self.root.clone(), |dir, name| ffs.lookup(cred, &dir, name))
    }

    /// The directory of `path` and its last name.
    fn parent<'p>(&self, path: &'p [u8]) -> Result<(Vnode, &'p [u8]), String> {
        let (dir, name) = split_last(path);
        Ok((self.find(dir).map_err(|error| at(dir, error))?, name))
    }
}

impl Target for ImageTarget<'_> {
    fn mkdir(&mut self, path: &[u8]) -> Result<(), String> {
        let (ffs, cred) = (self.image.ffs, self.image.cred);
        let (dir, name) = self.parent(path)?;
        match ffs.mkdir(cred, &dir, name, 0o755) {
            Err(Error::Exists) => {
                let found = ffs.lookup(cred, &dir, name).map_err(|error| at(path, error))?;
                match ffs.getattr(&found).kind {
                    FileType::Directory => Ok(()),
                    _ => Err(at(path, Error::NotDirectory)),
                }
            }
            made => made.map(|_| ()).map_err(|error| at(path, error)),
        }
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), String> {
        let (dir, name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        let (ffs, cred) = (self.image.ffs, self.image.cred);
        let renamed = ffs.rename(cred, (&dir, name), (&to_dir, to_name), RenameMode::Replace);
        renamed.map_err(|error| at(from, error))
    }

    fn link(&mut self, file: &[u8], new: &[u8]) -> Result<(), String> {
        let found = self.find(file).map_err(|error| at(file, error))?;
        let (dir, name) = self.parent(new)?;
        let linked = self.image.ffs.link(self.image.cred, &found, &dir, name);
        linked.map_err(|error| at(new, error))
    }

    fn unlink(&mut self, path: &[u8]) -> Result<(), String> {
        let (dir, name) = self.parent(path)?;
        let removed = self.image.ffs.unlink(self.image.cred, &dir, name);
        removed.map_err(|error| at(path, error))
    }

    fn rmdir(&mut self, path: &[u8]) -> Result<(), String> {
        let (dir, name) = self.parent(path)?;
        let removed = self.image.ffs.rmdir(self.image.cred, &dir, name);
        removed.map_err(|error| at(path, error))
    }

    fn unprotect(&mut self, path: &[u8]) -> Result<(), String> {
        let file = match self.find(path) {
            Ok(file) => file,
            Err(Error::NotFound) => return Ok(()),
            Err(error) => return Err(at(path, error)),
        };
        let forbidding = FileFlags::SF_IMMUTABLE
            | FileFlags::SF_APPEND
            | FileFlags::SF_NOUNLINK
            | FileFlags::UF_IMMUTABLE
            | FileFlags::UF_APPEND
            | FileFlags::UF_NOUNLINK;
        let flags = self.image.ffs.getattr(&file).flags;
        if !flags.intersects(forbidding) {
            return Ok(());
        }
        let set = SetAttr { flags: Some(flags.difference(forbidding)), ..SetAttr::default() };
        let changed = self.image.ffs.setattr(self.image.cred, &file, &set);
        changed.map(|_| ()).map_err(|error| at(path, error))
    }

    fn clear_xattrs(&mut self, path: &[u8]) -> Result<(), String> {
        let (ffs, cred) = (self.image.ffs, self.image.cred);
        let dir = self.find(path).map_err(|error| at(path, error))?;
        let names = match ffs.listxattr(cred, &dir) {
            Ok(names) => names,
            Err(Error::NotSupported(_)) => return Ok(()),
            Err(error) => return Err(at(path, error)),
        };
        for (namespace, name) in names {
            let is_acl = [acl::ACCESS_NAME, acl::DEFAULT_NAME, acl::NFS4_NAME].contains(&&name[..]);
            if namespace == XattrNamespace::User || !is_acl {
                let removed = ffs.removexattr(cred, &dir, namespace, &name);
                removed.map_err(|error| at(path, error))?;
            }
        }
        Ok(())
    }

    fn read(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let ffs = self.image.ffs;
        let file = match self.find(name) {
            Ok(file) => file,
            Err(Error::NotFound) => return Ok(None),
            Err(error) => return Err(at(name, error)),
        };
        let found = ffs.getattr(&file);
        check_table(name, found.kind == FileType::Regular, found.size)?;
        let mut bytes = Vec::new();
        let mut piece = vec![0; 1 << 16];
        loop {
            match ffs.read(&file, bytes.len() as u64, &mut piece) {
                Ok(0) => return Ok(Some(bytes)),
                Ok(len) => bytes.extend_from_slice(&piece[..len]),
                Err(error) => return Err(at(name, error)),
            }
        }
    }

    fn write(&mut self, name: &[u8], bytes: &[u8]) -> Result<(), String> {
        let new = [name, b".new"].concat();
        let (ffs, cred) = (self.image.ffs, self.image.cred);
        let fail = |error: Error| at(&new, error);
        let _ = ffs.unlink(cred, &self.root, &new);
        let file = ffs.create(cred, &self.root, &new, NodeKind::Regular, 0o600).map_err(fail)?;
        let mut done = 0;
        while done < bytes.len() {
            let mode = WriteMode::default();
            match ffs.write(cred, &file, done as u64, &bytes[done..], mode).map_err(fail)? {
                0 => return Err(fail(Error::NoSpace)),
                len => done += len,
            }
        }
        self.rename(&new, name)
    }
}
