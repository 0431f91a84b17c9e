//! The snapshots of a mounted volume.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bsdffs::snapshot::{Active, Listed};
use ffs_core::SnapshotInfo;
use ffs_fuse::MountError;
use ffs_ondisk::snapshot::SNAP_DIR;

use crate::fail::{Failure, show};

/// The snapshots of the volume that is mounted on `dir`, oldest first. Each has one of its paths.
pub(super) fn list(dir: &Path) -> Result<Vec<Listed>, Failure> {
    let failed = |error| match error {
        // Their texts name the directory.
        MountError::NotMounted { .. }
        | MountError::Private { .. }
        | MountError::NotAllowed { .. } => Failure::plain(error),
        error => Failure::new(show(dir.as_os_str().as_bytes()), error),
    };
    let found = ffs_fuse::snapshots(dir).map_err(failed)?;
    let mut paths = names(dir, found.iter().map(|one| one.ino.0.into()).collect());
    let listed = |one: SnapshotInfo| {
        let state = Ok(Active { made: one.made, held: one.held, image: one.image });
        let paths = paths.remove(&one.ino.0.into()).into_iter().collect();
        Listed { ino: one.ino, paths, state }
    };
    Ok(found.into_iter().map(listed).collect())
}

/// Paths of these inodes on the mount. `.snap` is searched first. Directories that cannot be read
/// are left out.
fn names(mount: &Path, mut wanted: Vec<u64>) -> BTreeMap<u64, Vec<u8>> {
    let mut found = BTreeMap::new();
    let Ok(device) = mount.metadata().map(|root| root.dev()) else { return found };
    let mut todo = VecDeque::from([mount.join(SNAP_DIR), mount.to_owned()]);
    while let Some(dir) = todo.pop_front().filter(|_| !wanted.is_empty()) {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let Ok(file) = path.symlink_metadata() else { continue };
            if file.is_dir() && file.dev() == device && path != mount.join(SNAP_DIR) {
                todo.push_back(path);
            } else if wanted.contains(&file.ino()) {
                wanted.retain(|ino| *ino != file.ino());
                found.insert(file.ino(), inside(mount, &path));
            }
        }
    }
    found
}

/// The path on the volume.
fn inside(mount: &Path, path: &Path) -> Vec<u8> {
    let below = path.strip_prefix(mount).unwrap_or(path);
    PathBuf::from("/").join(below).as_os_str().as_bytes().to_owned()
}
