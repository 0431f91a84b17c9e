//! Snapshots as volumes: a device that shows the content of a snapshot, and the snapshots of a
//! volume with their names.
//!
//! # Invariants
//! 1. [`SnapshotDevice`] is as long as the image in the snapshot, by the geometry of the volume.
//!    The block list behind the image is not part of it.
//! 2. The device is never written. Every pointer passes the checks of the block map of
//!    [`ffs_core`], so a damaged snapshot causes an error of a read and nothing else.
//! 3. A snapshot is opened only if it can be right: its inode has the flag, it is complete, and the
//!    superblock lists it, so that blocks were copied before they changed.
//! 4. The search for names visits each directory once.
//!
//! Reference: `spec/snapshots.md` §1 to §3; `spec/on-disk-format.md` §11.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;

use ffs_admin::{AdminError, Volume};
use ffs_core::{Attr, Cred, Error, Ffs, FileFlags, FileType, Ino, Vnode};
use ffs_device::{BlockDevice, DeviceError, Durability, Operation};
use ffs_ondisk::geometry::DEV_BSIZE;
use ffs_ondisk::snapshot::{SNAP_DIR, active, image_bytes, list_bytes};

use crate::namei::join;

/// Longest path that the search for names follows, bytes.
const MAX_PATH: usize = 16 << 10;
/// Names of one snapshot that are searched. With `MAX_PATH` it bounds the memory of the result.
const MAX_NAMES: u32 = 64;

/// Why a file cannot be opened as a volume.
#[derive(Debug)]
pub enum SnapshotError {
    /// It is no regular file with the flag of snapshots.
    NoSnapshot,
    /// The superblock does not list it.
    NotListed,
    /// It has no block list: its creation was interrupted, or its format is old.
    Unfinished,
    /// The snapshot is damaged.
    Damaged(ffs_ondisk::Error),
    /// The superblock of the volume cannot be read.
    Volume(AdminError),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::NoSnapshot => f.write_str("not a snapshot"),
            SnapshotError::NotListed => f.write_str(
                "the superblock does not list this snapshot, so blocks may have changed since it \
                 was made",
            ),
            SnapshotError::Unfinished => f.write_str(
                "an unfinished snapshot: its creation was interrupted, or its format is old",
            ),
            SnapshotError::Damaged(error) => error.fmt(f),
            SnapshotError::Volume(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SnapshotError::Damaged(error) => Some(error),
            SnapshotError::Volume(error) => Some(error),
            SnapshotError::NoSnapshot | SnapshotError::NotListed | SnapshotError::Unfinished => {
                None
            }
        }
    }
}

/// Whether a file with these attributes is a snapshot, usable or not. An older snapshot in the
/// image of a newer one is an empty file, which is none.
#[must_use]
pub fn is_snapshot(attr: &Attr) -> bool {
    let flag = attr.flags.contains(FileFlags::SF_SNAPSHOT);
    attr.kind == FileType::Regular && flag && attr.size > 0
}

/// The volume that a snapshot shows, as a device.
///
/// It holds the mounted volume with the snapshot, and so the lock of that volume's image.
pub struct SnapshotDevice {
    name: Arc<str>,
    fs: Ffs,
    file: Vnode,
    len: u64,
    sector: u32,
}

impl SnapshotDevice {
    /// The snapshot `file` of the volume `fs` on `volume`. Errors of the device call it `name`.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn open(
        volume: &dyn BlockDevice,
        fs: &Ffs,
        file: &Vnode,
        name: &str,
    ) -> Result<SnapshotDevice, SnapshotError> {
        let attr = fs.getattr(file);
        if !is_snapshot(&attr) {
            return Err(SnapshotError::NoSnapshot);
        }
        if !listed(volume)?.contains(&attr.ino) {
            return Err(SnapshotError::NotListed);
        }
        let g = fs.geometry();
        if list_bytes(g, attr.ino, attr.size).map_err(SnapshotError::Damaged)? == 0 {
            return Err(SnapshotError::Unfinished);
        }
        let (fs, file, len) = (fs.clone(), file.clone(), image_bytes(g));
        Ok(SnapshotDevice { name: name.into(), fs, file, len, sector: volume.sector_size() })
    }

    /// The snapshot `file` of a check of the volume `fs`, which has no name. Errors of the device
    /// call it `name`.
    pub(crate) fn of_check(fs: &Ffs, file: &Vnode, name: &str) -> SnapshotDevice {
        let len = image_bytes(fs.geometry());
        let sector = ffs_ondisk::geometry::DEV_BSIZE as u32;
        SnapshotDevice { name: name.into(), fs: fs.clone(), file: file.clone(), len, sector }
    }

    fn refuse(&self, operation: Operation, offset: u64, len: u64) -> DeviceError {
        let why = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "a snapshot never changes");
        DeviceError::at(&self.name, operation, offset, len, why)
    }
}

impl BlockDevice for SnapshotDevice {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn sector_size(&self) -> u32 {
        self.sector
    }

    fn durability(&self) -> Durability {
        Durability::OnCompletion
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let want = buf.len();
        let fail =
            |why: io::Error| DeviceError::at(&self.name, Operation::Read, offset, want as u64, why);
        let end = offset.checked_add(want as u64);
        if end.is_none_or(|end| end > self.len) {
            let why = format!("the range passes the end of the image ({} bytes)", self.len);
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let got = self.fs.read(&self.file, offset, buf).map_err(|error| fail(error.into()))?;
        if got < want {
            return Err(fail(io::Error::new(io::ErrorKind::UnexpectedEof, "the snapshot ends")));
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        Err(self.refuse(Operation::Write, offset, buf.len() as u64))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        Err(self.refuse(Operation::Discard, offset, len))
    }
}

/// A snapshot that the superblock lists.
#[derive(Debug)]
pub struct Listed {
    /// Inode number.
    pub ino: Ino,
    /// Paths from the root of the volume, as far as directories can be read.
    pub paths: Vec<Vec<u8>>,
    /// What the file has, or why it is not a usable snapshot.
    pub state: Result<Active, String>,
}

/// The properties of a usable snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// When it was made: the last write of the superblock in it, seconds.
    pub made: i64,
    /// Bytes that only the snapshot holds, with its indirect blocks and its block list.
    pub held: u64,
    /// Bytes of the image.
    pub image: u64,
}

/// The snapshots that the superblock of the volume `fs` on `volume` lists, oldest first. A number
/// that appears twice is listed once.
///
/// # Errors
/// The superblock or the root directory cannot be read.
pub fn list(volume: &dyn BlockDevice, fs: &Ffs, cred: &Cred) -> io::Result<Vec<Listed>> {
    let failed = |error: SnapshotError| io::Error::new(io::ErrorKind::InvalidData, error);
    let (mut links, mut all) = (BTreeMap::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for ino in listed(volume).map_err(failed)?.into_iter().filter(|&ino| seen.insert(ino)) {
        let file = fs.vget(ino, None);
        if let Ok(file) = &file {
            links.insert(ino, fs.getattr(file).nlink.min(MAX_NAMES));
        }
        let state = file
            .map_err(|error| match error {
                Error::Stale => "no file has this inode".to_owned(),
                error => error.to_string(),
            })
            .and_then(|file| examine(volume, fs, &file));
        all.push(Listed { ino, paths: Vec::new(), state });
    }
    let mut paths = names(fs, cred, links)?;
    for snapshot in &mut all {
        snapshot.paths = paths.remove(&snapshot.ino).unwrap_or_default();
    }
    Ok(all)
}

fn examine(volume: &dyn BlockDevice, fs: &Ffs, file: &Vnode) -> Result<Active, String> {
    let attr = fs.getattr(file);
    let device = SnapshotDevice::open(volume, fs, file, &format!("inode {}", attr.ino));
    let device = device.map_err(|error| error.to_string())?;
    let inside = Volume::open(&device).map_err(|error| error.to_string())?;
    let held = attr.blocks.saturating_mul(DEV_BSIZE);
    Ok(Active { made: inside.sb.f.time, held, image: device.len_bytes() })
}

/// The inodes that the superblock lists as snapshots.
fn listed(volume: &dyn BlockDevice) -> Result<Vec<Ino>, SnapshotError> {
    Ok(active(&Volume::open(volume).map_err(SnapshotError::Volume)?.sb))
}

/// A directory that the search for names has found.
struct Dir {
    ino: Ino,
    name: Vec<u8>,
    /// Its parent, by its place in the list; the first is its own.
    parent: usize,
    /// Bytes of its path.
    len: usize,
}

/// The paths of the inodes in `links`, which maps each to its number of names. `/.snap` comes
/// first, because the search ends with the last name.
fn names(
    fs: &Ffs,
    cred: &Cred,
    mut links: BTreeMap<Ino, u32>,
) -> io::Result<BTreeMap<Ino, Vec<Vec<u8>>>> {
    let mut found: BTreeMap<Ino, Vec<Vec<u8>>> = BTreeMap::new();
    links.retain(|_, links| *links > 0);
    let root = fs.root()?;
    let mut dirs = vec![Dir { ino: root.ino(), name: Vec::new(), parent: 0, len: 0 }];
    let mut todo = VecDeque::from([0]);
    let mut seen = BTreeSet::from([root.ino()]);
    if let Ok(dir) = fs.lookup(cred, &root, SNAP_DIR.as_bytes())
        && seen.insert(dir.ino())
    {
        dirs.push(Dir { ino: dir.ino(), name: SNAP_DIR.into(), parent: 0, len: 6 });
        todo.push_front(1);
    }
    while let Some(at) = todo.pop_front().filter(|_| !links.is_empty()) {
        let (ino, len) = (dirs[at].ino, dirs[at].len);
        let Ok(dir) = fs.vget(ino, None) else { continue };
        // The listing ends at damage, which the check of the volume reports.
        let _ = fs.readdir(&dir, 0, &mut |entry| {
            if entry.name == b"." || entry.name == b".." {
                return true;
            }
            if let Some(left) = links.get_mut(&entry.ino) {
                found.entry(entry.ino).or_default().push(path(&dirs, at, entry.name));
                *left -= 1;
                if *left == 0 {
                    links.remove(&entry.ino);
                }
            }
            let (name, len) = (entry.name.to_vec(), len + 1 + entry.name.len());
            let directory = entry.kind.is_none_or(|kind| kind == FileType::Directory);
            if directory && len <= MAX_PATH && seen.insert(entry.ino) {
                dirs.push(Dir { ino: entry.ino, name, parent: at, len });
                todo.push_back(dirs.len() - 1);
            }
            true
        });
    }
    Ok(found)
}

/// The path of `name` in the directory at `dirs[at]`.
fn path(dirs: &[Dir], mut at: usize, name: &[u8]) -> Vec<u8> {
    let mut parts = vec![name];
    while at > 0 {
        parts.push(&dirs[at].name);
        at = dirs[at].parent;
    }
    parts.iter().rev().fold(b"/".to_vec(), |path, part| join(&path, part))
}
