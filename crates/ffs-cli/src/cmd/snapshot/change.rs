//! Making and deleting snapshots, in images and on mounts.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ffs_core::{FileFlags, GID_OPERATOR, SetAttr, SnapshotStats};
use ffs_fuse::MountError;
use serde::Serialize;

use crate::fail::{Failure, Outcome, show};
use crate::output::{self, JsonName};
use crate::session::Session;
use crate::spec::{ImagePath, Place, place};

#[derive(Serialize)]
struct Made {
    path: JsonName,
    /// Seconds for which operations on the volume waited.
    suspended: f64,
    groups: u32,
    groups_again: u32,
}

/// Makes the snapshot `target`, and prints how long operations waited.
pub(super) fn create(target: &OsStr, json: bool) -> Outcome {
    let (stats, mounted) = match place(target) {
        Place::Image(inside) => (create_in_image(&inside)?, false),
        Place::Host(path) => (create_on_mount(&path)?, true),
    };
    if json {
        let path = JsonName::new(target.as_bytes());
        let suspended = stats.suspended.as_secs_f64();
        let SnapshotStats { groups, groups_again, .. } = stats;
        output::json(&Made { path, suspended, groups, groups_again })?;
    } else if mounted {
        let mut out = output::stdout();
        let wait = stats.suspended.as_secs_f64() * 1000.0;
        let SnapshotStats { groups, groups_again, .. } = stats;
        writeln!(
            out,
            "{}: operations waited {wait:.1} ms; {groups_again} of {groups} cylinder groups \
             copied meanwhile",
            show(target.as_bytes())
        )?;
        out.flush()?;
    }
    Ok(0)
}

fn create_in_image(inside: &ImagePath) -> Result<SnapshotStats, Failure> {
    let session = Session::write(&inside.image)?;
    let made = session.find_parent_of_new(&inside.path).and_then(|(dir, name)| {
        let made = session.ffs.snapshot(&session.cred, &dir, &name).and_then(|(file, stats)| {
            let set = SetAttr { gid: Some(GID_OPERATOR), perm: Some(0o440), ..SetAttr::default() };
            session.ffs.setattr(&session.cred, &file, &set).map(|_| stats)
        });
        made.map_err(|error| session.failed(&inside.path, error))
    });
    session.finish_with(made)
}

fn create_on_mount(path: &Path) -> Result<SnapshotStats, Failure> {
    let name = show(path.as_os_str().as_bytes());
    ffs_fuse::make_snapshot(path).map_err(|error| {
        // A server that refuses gives the reason, such as a full volume.
        let refused = matches!(error, MountError::Server(_));
        let failure = Failure::new(name, error);
        match refused {
            true => failure,
            false => {
                failure.hint("name a new file on an ffs mount, or in an image: IMAGE:/.snap/NAME")
            }
        }
    })
}

/// Deletes snapshots.
pub(super) fn delete(targets: &[OsString]) -> Outcome {
    for target in targets {
        let deleted = match place(target) {
            Place::Image(inside) => delete_in_image(&inside),
            Place::Host(path) => delete_on_mount(&path),
        };
        if let Err(failure) = deleted {
            output::error(failure.text);
        }
    }
    Ok(u8::from(output::errors() > 0))
}

fn not_a_snapshot(name: String) -> Failure {
    Failure::new(name, "not a snapshot").hint("ffs snapshot list IMAGE prints the snapshots")
}

fn delete_in_image(inside: &ImagePath) -> Result<(), Failure> {
    let session = Session::write(&inside.image)?;
    let deleted = unlink(&session, inside);
    session.finish_with(deleted)
}

fn unlink(session: &Session, inside: &ImagePath) -> Result<(), Failure> {
    let failed = |error| session.failed(&inside.path, error);
    let (dir, name) = session.find_parent(&inside.path)?;
    let file = session.ffs.lookup(&session.cred, &dir, &name).map_err(failed)?;
    if !session.ffs.getattr(&file).flags.contains(FileFlags::SF_SNAPSHOT) {
        return Err(not_a_snapshot(format!("{}:{}", session.image(), show(&inside.path))));
    }
    drop(file);
    session.ffs.unlink(&session.cred, &dir, &name).map_err(failed)
}

fn delete_on_mount(path: &Path) -> Result<(), Failure> {
    let name = show(path.as_os_str().as_bytes());
    ffs_fuse::delete_snapshot(path).map_err(|error| match error {
        MountError::NotMounted { .. } => Failure::new(name, "not on a mount of ffs")
            .hint("name a snapshot on a mount, or in an image: IMAGE:/.snap/NAME"),
        error => Failure::new(name, error),
    })
}
