//! Volumes: opening an image, and the operations on paths.
//!
//! # Invariants
//! 1. A volume holds the lock of its image: shared for reading, exclusive for writing.
//! 2. A volume is unmounted once: by [`Volume::close`], or when its last handle is dropped.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ffs_core::{
    Atime, Cred, Env, Error, Ffs, FileType, MountOptions, OrderingPolicy, RenameMode, SetAttr,
    StatFs, Vnode,
};
use ffs_device::{BlockDevice, LockWait};

use crate::format::holds_ufs;
use crate::metadata::{Metadata, Permissions};
use crate::namei::{self, Last};
use crate::snapshot::SnapshotDevice;

/// An open file system. Clones share it.
///
/// Paths begin at the root of the volume, with or without a slash. Symbolic links are followed as
/// in [`std::fs`]; an absolute one leads to the root of the volume, never out of it. The caller
/// acts as the user given to [`VolumeOptions::cred`], by default root.
#[derive(Clone)]
pub struct Volume(Arc<Mounted>);

struct Mounted {
    fs: Ffs,
    cred: Cred,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // After an error the volume stays marked unclean. Volume::close returns the error.
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
        let device = self.device(image.as_ref())?;
        self.mount(device)
    }

    /// Opens what the snapshot at `path` in `image` shows: the whole volume as it was when the
    /// snapshot was made.
    ///
    /// ```no_run
    /// let monday = bsdffs::Volume::options().open_snapshot("disk.img", "/.snap/monday")?;
    /// println!("{}", monday.read_to_string("/etc/motd")?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`VolumeOptions::open`]; the file is no usable snapshot; the options are those for
    /// writing, and a snapshot never changes.
    pub fn open_snapshot(
        self,
        image: impl AsRef<Path>,
        path: impl AsRef<Path>,
    ) -> io::Result<Volume> {
        if self.write {
            let why = "a snapshot never changes; open it for reading";
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, why));
        }
        let device = self.device(image.as_ref())?;
        let volume = self.clone().mount(Arc::clone(&device))?;
        let file = volume.lookup(path.as_ref(), Last::Follow)?;
        let name = format!("{}:{}", image.as_ref().display(), path.as_ref().display());
        let snapshot = SnapshotDevice::open(&*device, volume.fs(), &file, &name);
        let snapshot = snapshot.map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{name}: {error}"))
        })?;
        self.mount(Arc::new(snapshot))
    }

    /// Opens and locks the image, and finds the partition.
    fn device(&self, image: &Path) -> io::Result<Arc<dyn BlockDevice>> {
        let options = ffs_image::OpenOptions {
            write: self.write,
            lock_wait: self.lock_wait,
            probe: Some(holds_ufs),
            ..ffs_image::OpenOptions::default()
        };
        Ok(ffs_image::open(image, &options)?.device)
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
        Ok(Volume::from_mounted(fs, self.cred))
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

    pub(crate) fn from_mounted(fs: Ffs, cred: Cred) -> Volume {
        Volume(Arc::new(Mounted { fs, cred }))
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

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// As [`std::fs::read_link`].
    pub fn read_link(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let target = self.fs().readlink(&self.find(path.as_ref(), Last::Keep)?)?;
        Ok(PathBuf::from(OsString::from_vec(target)))
    }

    /// Removes a file that is not a directory.
    ///
    /// # Errors
    /// As [`std::fs::remove_file`].
    pub fn remove_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (dir, name) = self.parent(path.as_ref())?;
        Ok(self.fs().unlink(self.cred(), &dir, &name)?)
    }

    /// Renames a file, replacing what has the new name.
    ///
    /// # Errors
    /// As [`std::fs::rename`].
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from_dir, from) = self.parent(from.as_ref())?;
        let path = to.as_ref();
        let (to_dir, to) = self.parent(path)?;
        if bytes(path).ends_with(b"/") {
            let file = self.fs().lookup(self.cred(), &from_dir, &from)?;
            if self.fs().getattr(&file).kind != FileType::Directory {
                return Err(Error::NotDirectory.into());
            }
        }
        let (from, to) = ((&from_dir, from.as_slice()), (&to_dir, to.as_slice()));
        Ok(self.fs().rename(self.cred(), from, to, RenameMode::Replace)?)
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// As [`std::fs::hard_link`].
    pub fn hard_link(&self, file: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
        let file = self.find(file.as_ref(), Last::Keep)?;
        let (dir, name) = self.parent_of_file(link.as_ref())?;
        Ok(self.fs().link(self.cred(), &file, &dir, &name)?)
    }

    /// Creates the symbolic link `link` to `target`, which need not exist.
    ///
    /// # Errors
    /// As [`std::os::unix::fs::symlink`].
    pub fn symlink(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
        let (dir, name) = self.parent_of_file(link.as_ref())?;
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

    /// Sets several attributes of a file in one step: times, owner, flags, size and permissions.
    ///
    /// # Errors
    /// As [`ffs_core::Ffs::setattr`].
    pub fn set_attributes(
        &self,
        path: impl AsRef<Path>,
        last: Last,
        set: &SetAttr,
    ) -> io::Result<()> {
        self.set(path.as_ref(), last, set)
    }

    /// The file that `path` leads to, for operations of [`Volume::fs`].
    ///
    /// # Errors
    /// As [`std::fs::metadata`].
    pub fn lookup(&self, path: impl AsRef<Path>, last: Last) -> io::Result<Vnode> {
        self.find(path.as_ref(), last)
    }

    fn set(&self, path: &Path, last: Last, set: &SetAttr) -> io::Result<()> {
        let file = self.find(path, last)?;
        self.fs().setattr(self.cred(), &file, set)?;
        Ok(())
    }

    pub(crate) fn find(&self, path: &Path, last: Last) -> io::Result<Vnode> {
        Ok(namei::namei(self.fs(), self.cred(), bytes(path), last)?)
    }

    pub(crate) fn parent(&self, path: &Path) -> io::Result<(Vnode, Vec<u8>)> {
        Ok(namei::parent(self.fs(), self.cred(), bytes(path))?)
    }

    /// As [`Volume::parent`], for the name of a file that is no directory: no slash follows it.
    fn parent_of_file(&self, path: &Path) -> io::Result<(Vnode, Vec<u8>)> {
        let place = self.parent(path)?;
        if bytes(path).ends_with(b"/") { Err(Error::NotDirectory.into()) } else { Ok(place) }
    }
}

pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
