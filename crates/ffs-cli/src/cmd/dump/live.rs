//! `ffs dump -L`: the dump of a mounted file system, from a snapshot that is made for it.
//!
//! The snapshot loses its name as soon as it is open, so that it is freed when the dump ends, also
//! by a signal. A dump that is killed before leaves the snapshot with its name; the next dump
//! removes it, as BSD's does.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ffs_device::host_words;
use ffs_fuse::MountError;
use ffs_image::Opened;
use ffs_ondisk::snapshot::SNAP_DIR;
use rustix::fs::StatVfsMountFlags;

use crate::fail::{Failure, shell_word, show};
use crate::{output, session};

/// The name of the snapshot while it is made.
const SNAPSHOT: &str = "dump_snapshot";
/// A mount that began read-write holds its image although it is read-only now.
const IN_USE: &str = "if it is in use, unmount it first";

/// Makes a snapshot of what is mounted on `dir`, and opens it. Returns also the image that is
/// mounted there.
pub(super) fn open(dir: &OsStr) -> Result<(Opened, OsString), Failure> {
    let source = ffs_fuse::mount_source(Path::new(dir)).map_err(Failure::plain)?;
    let snaps = Path::new(dir).join(SNAP_DIR);
    check_directory(dir, &source, &snaps)?;
    let file = snaps.join(SNAPSHOT);
    remove_stale(&file)?;
    ffs_fuse::make_snapshot(&file).map_err(|error| failed(&file, error))?;
    let opened = session::open(file.as_os_str(), false);
    // It stays until it is closed.
    let removed = fs::remove_file(&file);
    let opened = opened?;
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::new(shown(&file), host_words(&error)))
        }
        // Another dump, which began meanwhile, may have removed the name.
        _ => Ok((opened, source.into_os_string())),
    }
}

/// Why the directory `dir` is not dumped without `-L`, if an image is mounted there.
pub(super) fn refuse_mount(dir: &OsStr) -> Option<Failure> {
    let path = Path::new(dir);
    let source = path.is_dir().then(|| ffs_fuse::mount_source(path).ok())??;
    let source = shown(&source);
    let failure = Failure::new(show(dir.as_bytes()), format!("{source} is mounted there"));
    Some(match is_read_only(path) {
        true => failure.hint(format!("name the image: ffs dump {}; {IN_USE}", shell_word(&source))),
        false => failure.hint("add -L to dump it from a snapshot"),
    })
}

fn is_read_only(dir: &Path) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY))
}

fn shown(path: &Path) -> String {
    show(path.as_os_str().as_bytes())
}

/// Fails unless a snapshot can be made in `snaps`, the directory for them on the mount of `source`
/// on `dir`. It must exist, as for BSD's dump.
fn check_directory(dir: &OsStr, source: &Path, snaps: &Path) -> Result<(), Failure> {
    let name = show(dir.as_bytes());
    if is_read_only(Path::new(dir)) {
        let failure = Failure::new(&name, "mounted read-only, so -L can make no snapshot");
        let source = shown(source);
        return Err(failure.hint(format!("dump the image without -L: {source}; {IN_USE}")));
    }
    let path = shown(snaps);
    match fs::symlink_metadata(snaps) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => {
            let why = "-L makes a snapshot in this directory, but it is not a directory";
            let remedy = format!("mv {path} {path}.old && mkdir -m 770 {path}");
            Err(Failure::new(&path, why).hint(format!("rename it, and create it: {remedy}")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let failure = Failure::new(&name, "-L makes a snapshot in the directory .snap");
            Err(failure.hint(format!("create it: mkdir -m 770 {path}")))
        }
        Err(error) => {
            let why = format!("-L makes a snapshot in this directory: {}", host_words(&error));
            let failure = Failure::new(&path, why);
            Err(match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    failure.hint("run it as root or as the user who mounted")
                }
                _ => failure.hint(format!(
                    "if it is damaged, unmount and run ffs fsck {}",
                    shell_word(&shown(source))
                )),
            })
        }
    }
}

/// Removes the snapshot of a dump that was killed.
fn remove_stale(file: &Path) -> Result<(), Failure> {
    let found = match fs::symlink_metadata(file) {
        Ok(found) => found,
        // What else is wrong the creation reports.
        Err(_) => return Ok(()),
    };
    let path = shown(file);
    if !found.is_file() || !ffs_fuse::is_snapshot(file).map_err(|error| failed(file, error))? {
        let failure = Failure::new(&path, "-L makes a snapshot with this name, which is in use");
        let remedy = format!("remove or rename it: mv {path} {path}.old");
        return Err(failure.hint(remedy));
    }
    fs::remove_file(file).map_err(|error| {
        let failure = Failure::new(&path, format!("cannot be removed: {}", host_words(&error)));
        failure.hint("a dump that was killed left it; remove it as root")
    })?;
    output::note(format!("{path}: removed; a dump that was killed left it"));
    Ok(())
}

fn failed(file: &Path, error: MountError) -> Failure {
    Failure::new(shown(file), error)
}
