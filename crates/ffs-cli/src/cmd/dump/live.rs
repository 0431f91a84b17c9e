//! `ffs dump -L`: the dump of a mounted file system, from a snapshot that is made for it.
//!
//! The snapshot loses its name as soon as it is open, so that it is freed when the dump ends, also
//! by a signal.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ffs_device::{Opened, host_words};
use ffs_fuse::MountError;
use ffs_ondisk::snapshot::SNAP_DIR;

use crate::fail::{Failure, show};
use crate::session;

/// The name of the snapshot while it is made.
const SNAPSHOT: &str = "dump_snapshot";

/// Makes a snapshot of what is mounted on `dir`, and opens it. Returns also the image that is
/// mounted there.
pub(super) fn open(dir: &OsStr) -> Result<(Opened, OsString), Failure> {
    let name = show(dir.as_bytes());
    let source = ffs_fuse::mount_source(Path::new(dir)).map_err(Failure::plain)?;
    // It must exist, as for BSD's dump.
    let snaps = Path::new(dir).join(SNAP_DIR);
    if !snaps.is_dir() {
        let shown = show(snaps.as_os_str().as_bytes());
        let failure = Failure::new(&name, "-L makes a snapshot in the directory .snap");
        return Err(failure.hint(format!("create it: mkdir -m 770 {shown}")));
    }
    let file = snaps.join(SNAPSHOT);
    ffs_fuse::make_snapshot(&file).map_err(|error| failed(&file, error))?;
    let opened = session::open(file.as_os_str(), false);
    // It stays until it is closed.
    let removed = fs::remove_file(&file);
    let opened = opened?;
    removed.map_err(|error| Failure::new(show(file.as_os_str().as_bytes()), host_words(&error)))?;
    Ok((opened, source.into_os_string()))
}

fn failed(file: &Path, error: MountError) -> Failure {
    let shown = show(file.as_os_str().as_bytes());
    let failure = Failure::new(&shown, error);
    if file.exists() {
        let remains = "another dump begins, or one was killed when it began; if so";
        return failure.hint(format!("{remains}: ffs snapshot delete {shown}"));
    }
    failure
}
