//! Volumes: opening an image, and the operations on paths.
//!
//! # Invariants
//! 1. A volume holds the lock of its image: shared for reading, exclusive for writing.
//! 2. A volume is unmounted once: by [`Volume::close`], or when its last handle is dropped.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_core::{
    Atime, Cred, Env, Error, Ffs, FileType, MountOptions, OrderingPolicy, RenameMode, SetAttr,
    StatFs, Vnode,
};
use ffs_device::{BlockDevice, LockWait, SplitMix64, SystemClock};
use ffs_ondisk::sbsearch::{self, SBLOCKSEARCH};

use crate::dir::{ReadDir, Walk};
use crate::file::{File, OpenOptions};
use crate::metadata::{Metadata, Permissions};
use crate::namei::{self, Last};

/// An open file system. Clones share it.
///
/// Paths begin at the root of the volume, with or without a slash. Symbolic links are followed as in
/// [`std::fs`]; an absolute one leads to the root of the volume, never out of it. The caller acts as
/// the user given to [`VolumeOptions::cred`], by default root.
#[derive(Clone)]
pub struct Volume(Arc<Mounted>);

struct Mounted {
    fs: Ffs,
    cred: Cred,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // There is nobody to report an error to: the volume stays marked unclean. Close reports it.
        let _ = self.fs.unmount();
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("read_only", &self.0.fs.is_read_only()).finish()
    }
}

/// How to open a volume.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    write: bool,
    lock_wait: LockWait,
    cred: Cred,
    mount: MountOptions,
}

impl Default for VolumeOptions {
    fn default() -> VolumeOptions {
        let mount = MountOptions {
            ordering: OrderingPolicy::Async,
            atime: Atime::Never,
            bsdgroups: true,
            ..MountOptions::default()
        };
        VolumeOptions { write: false, lock_wait: LockWait::default(), cred: Cred::root(), mount }
    }
}

impl VolumeOptions {
    /// Opens for writing too.
    #[must_use]
    pub fn write(mut self, on: bool) -> VolumeOptions {
        self.write = on;
        self
    }

    /// How long to wait for a lock that another program holds.
    #[must_use]
    pub fn lock_wait(mut self, wait: LockWait) -> VolumeOptions {
        self.lock_wait = wait;
        self
    }

    /// The user whose permissions count.
    #[must_use]
    pub fn cred(mut self, cred: Cred) -> VolumeOptions {
        self.cred = cred;
        self
    }

    /// All mount options. By default access times stay, new files get the group of their directory,
    /// and writes are ordered by soft updates where the volume has them; elsewhere they are not
    /// ordered, and a program that is killed leaves a volume that needs a full check.
    #[must_use]
    pub fn mount_options(mut self, mount: MountOptions) -> VolumeOptions {
        self.mount = mount;
        self
    }

    /// Opens the file system in `image`: a file or block device, or `IMAGE@N` for partition N.
    ///
    /// # Errors
    /// The image cannot be opened, is locked by another program, holds no UFS file system, or is to
    /// be written and needs a check first.
    pub fn open(self, image: impl AsRef<Path>) -> io::Result<Volume> {
        let options = ffs_device::OpenOptions {
            write: self.write,
            lock_wait: self.lock_wait,
            probe: Some(holds_ufs),
            ..ffs_device::OpenOptions::default()
        };
        let opened = ffs_device::open::open(image.as_ref(), &options)?;
        self.mount(opened.device)
    }

    /// Opens the file system on a device, for example one in memory.
    ///
    /// # Errors
    /// As [`VolumeOptions::open`].
    pub fn mount(self, device: Arc<dyn BlockDevice>) -> io::Result<Volume> {
        let options = MountOptions { read_only: !self.write, ..self.mount };
        let fs = Ffs::mount(device, &options, Env::system())?;
        if self.write
            && let Some(why) = fs.read_only_reason().filter(|_| fs.is_read_only())
        {
            let why = format!("the volume cannot be written: {why}");
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, why));
        }
        Ok(Volume(Arc::new(Mounted { fs, cred: self.cred })))
    }
}

impl Volume {
    /// Opens the file system in `image` for reading: see [`VolumeOptions::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(image: impl AsRef<Path>) -> io::Result<Volume> {
        Volume::options().open(image)
    }

    /// Options for opening a volume otherwise than for reading.
    #[must_use]
    pub fn options() -> VolumeOptions {
        VolumeOptions::default()
    }

    /// Writes everything, marks the volume clean and closes it. Other handles of it can only read
    /// afterwards.
    ///
    /// # Errors
    /// The device's: nothing is lost; the volume stays open in other handles.
    pub fn close(self) -> io::Result<()> {
        Ok(self.0.fs.unmount()?)
    }

    /// Makes all changes durable.
    ///
    /// # Errors
    /// The device's.
    pub fn sync(&self) -> io::Result<()> {
        Ok(self.0.fs.sync()?)
    }

    /// Space and inodes of the volume.
    #[must_use]
    pub fn statfs(&self) -> StatFs {
        self.0.fs.statfs()
    }

    /// The mounted file system of the core, for what this crate does not offer.
    #[must_use]
    pub fn fs(&self) -> &Ffs {
        &self.0.fs
    }

    /// The user whose permissions count.
    #[must_use]
    pub fn cred(&self) -> &Cred {
        &self.0.cred
    }

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

    /// Attributes of the file that `path` leads to.
    ///
    /// # Errors
    /// As [`std::fs::metadata`].
    pub fn metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        Ok(Metadata(self.fs().getattr(&self.find(path.as_ref(), Last::Follow)?)))
    }

    /// Attributes of the file that `path` names; of a symbolic link its own.
    ///
    /// # Errors
    /// As [`std::fs::symlink_metadata`].
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        Ok(Metadata(self.fs().getattr(&self.find(path.as_ref(), Last::Keep)?)))
    }

    /// Whether `path` leads to a file.
    ///
    /// # Errors
    /// As [`std::fs::exists`].
    pub fn exists(&self, path: impl AsRef<Path>) -> io::Result<bool> {
        match namei::namei(self.fs(), self.cred(), bytes(path.as_ref()), Last::Follow) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

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

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// As [`std::fs::read_link`].
    pub fn read_link(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let target = self.fs().readlink(&self.find(path.as_ref(), Last::Keep)?)?;
        Ok(PathBuf::from(OsString::from_vec(target)))
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

    /// Removes a file that is not a directory.
    ///
    /// # Errors
    /// As [`std::fs::remove_file`].
    pub fn remove_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (dir, name) = self.parent(path.as_ref())?;
        Ok(self.fs().unlink(self.cred(), &dir, &name)?)
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

    /// Renames a file, replacing what has the new name.
    ///
    /// # Errors
    /// As [`std::fs::rename`].
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from_dir, from) = self.parent(from.as_ref())?;
        let (to_dir, to) = self.parent(to.as_ref())?;
        let (from, to) = ((&from_dir, from.as_slice()), (&to_dir, to.as_slice()));
        Ok(self.fs().rename(self.cred(), from, to, RenameMode::Replace)?)
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// As [`std::fs::hard_link`].
    pub fn hard_link(&self, file: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
        let file = self.find(file.as_ref(), Last::Keep)?;
        let (dir, name) = self.parent(link.as_ref())?;
        Ok(self.fs().link(self.cred(), &file, &dir, &name)?)
    }

    /// Creates the symbolic link `link` to `target`, which need not exist.
    ///
    /// # Errors
    /// As [`std::os::unix::fs::symlink`].
    pub fn symlink(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
        let (dir, name) = self.parent(link.as_ref())?;
        self.fs().symlink(self.cred(), &dir, &name, bytes(target.as_ref()))?;
        Ok(())
    }

    /// Sets the permission bits of a file.
    ///
    /// # Errors
    /// As [`std::fs::set_permissions`].
    pub fn set_permissions(
        &self,
        path: impl AsRef<Path>,
        permissions: Permissions,
    ) -> io::Result<()> {
        let perm = Some((permissions.mode() & 0o7777) as u16);
        self.set(path.as_ref(), Last::Follow, &SetAttr { perm, ..SetAttr::default() })
    }

    /// Sets owner and group of a file; `None` leaves one alone.
    ///
    /// # Errors
    /// As [`std::os::unix::fs::chown`].
    pub fn chown(
        &self,
        path: impl AsRef<Path>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> io::Result<()> {
        self.set(path.as_ref(), Last::Follow, &SetAttr { uid, gid, ..SetAttr::default() })
    }

    fn set(&self, path: &Path, last: Last, set: &SetAttr) -> io::Result<()> {
        let file = self.find(path, last)?;
        self.fs().setattr(self.cred(), &file, set)?;
        Ok(())
    }

    fn find(&self, path: &Path, last: Last) -> io::Result<Vnode> {
        Ok(namei::namei(self.fs(), self.cred(), bytes(path), last)?)
    }

    fn parent(&self, path: &Path) -> io::Result<(Vnode, Vec<u8>)> {
        Ok(namei::parent(self.fs(), self.cred(), bytes(path))?)
    }
}

/// Makes an empty UFS2 file system of `size` bytes in the file `image`, which must not exist, with
/// soft updates and the defaults of `ffs newfs`. For other formats see [`ffs_admin::newfs`].
///
/// # Errors
/// The file exists or cannot be written; the size is too small. No file is left then.
pub fn format(image: impl AsRef<Path>, size: u64) -> io::Result<()> {
    let image = image.as_ref();
    std::fs::File::options().write(true).create_new(true).open(image)?.set_len(size)?;
    let made = fill(image, size);
    if made.is_err() {
        // The error that is on its way matters more.
        let _ = std::fs::remove_file(image);
    }
    made
}

fn fill(image: &Path, size: u64) -> io::Result<()> {
    let open = ffs_device::OpenOptions {
        write: true,
        whole_disk: true,
        ..ffs_device::OpenOptions::default()
    };
    let device = ffs_device::open::open(image, &open)?.device;
    let options = NewfsOptions { size: Some(size), soft_updates: true, ..NewfsOptions::default() };
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    newfs(&*device, &options, &SystemClock, &SplitMix64::from_system(), &mut |_, _| {})
        .map_err(invalid)?;
    Ok(device.flush()?)
}

/// Whether a device holds a UFS superblock at one of the places where they are looked for.
#[must_use]
pub fn holds_ufs(device: &dyn BlockDevice) -> bool {
    SBLOCKSEARCH.iter().any(|&at| {
        let read = |at: u64, len: usize| -> Result<Vec<u8>, ffs_device::DeviceError> {
            let left = device.len_bytes().saturating_sub(at);
            let mut bytes = vec![0; len.min(usize::try_from(left).unwrap_or(len))];
            device.read_at(at, &mut bytes)?;
            Ok(bytes)
        };
        sbsearch::at(read, at, None).is_ok()
    })
}

pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
