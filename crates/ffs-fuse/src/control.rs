//! The client of a running mount: switches and counters, read and set from another process.

use crate::channel::{MESSAGE, exchange};
use crate::error::MountError;
use crate::mountinfo::{self, Mount};
use ffs_core::{GID_OPERATOR, Ino, SnapshotInfo, SnapshotStats};
use ffs_device::host_words;
use rustix::fd::OwnedFd;
use rustix::fs::{Gid, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A switch.
    Switch,
    /// Counts since the mount.
    Counter,
    /// A current amount.
    Gauge,
}

/// A switch, counter or gauge of a running mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// BSD's name.
    pub name: String,
    /// Its value: a number or a word.
    pub value: String,
    /// Its kind.
    pub kind: EntryKind,
    /// A description of the values that it accepts; empty if it cannot be set.
    pub takes: String,
    /// One sentence about it.
    pub meaning: String,
}

/// A change of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// BSD's name.
    pub name: String,
    /// Its value before.
    pub before: String,
    /// Its value now.
    pub now: String,
}

/// A running mount.
#[derive(Debug)]
pub struct Control {
    mount_point: PathBuf,
}

impl Control {
    /// The mount on `path`.
    ///
    /// # Errors
    /// No ffs file system is mounted there.
    pub fn open(path: &Path) -> Result<Control, MountError> {
        Ok(Control { mount_point: find_mount(path)?.mount_point })
    }

    /// Every switch, counter and gauge, sorted by name.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn list(&self) -> Result<Vec<Entry>, MountError> {
        let entry = |line: &str| {
            let [name, value, kind, takes, meaning] = words(line)?;
            let kind = match kind.as_str() {
                "rw" => EntryKind::Switch,
                "counter" => EntryKind::Counter,
                "gauge" => EntryKind::Gauge,
                _ => return None,
            };
            Some(Entry { name, value, kind, takes, meaning })
        };
        self.pages("list", entry)
    }

    /// Names and values only, in the same order. It costs less than [`Control::list`].
    ///
    /// # Errors
    /// The server does not answer.
    pub fn values(&self) -> Result<Vec<(String, String)>, MountError> {
        self.pages("values", |line| words(line).map(|[name, value]| (name, value)))
    }

    /// Sets a switch.
    ///
    /// # Errors
    /// [`MountError::Server`] gives the reason for a refusal. [`MountError::NotAllowed`]: the
    /// caller is neither root nor the user who mounted.
    pub fn set(&self, name: &str, value: &str) -> Result<Changed, MountError> {
        let answer = command(&self.mount_point, &format!("set {name}={value}"))?;
        let [name, before, now] = words(&answer).ok_or_else(version_mismatch)?;
        Ok(Changed { name, before, now })
    }

    /// Sends a message, and returns the text after `ok`.
    pub(crate) fn command(&self, message: &str) -> Result<String, MountError> {
        command(&self.mount_point, message)
    }

    fn pages<T>(&self, verb: &str, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, MountError> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let page = command(&self.mount_point, &format!("{verb} {from}"))?;
            let (next, lines) = page.split_once('\n').ok_or_else(version_mismatch)?;
            for line in lines.lines() {
                all.push(read(line).ok_or_else(version_mismatch)?);
            }
            match next.parse() {
                Ok(0) => return Ok(all),
                Ok(next) if next > from => from = next,
                _ => return Err(version_mismatch()),
            }
        }
    }
}

fn words<const N: usize>(line: &str) -> Option<[String; N]> {
    let words: Vec<String> = line.split('\t').map(str::to_owned).collect();
    words.try_into().ok()
}

pub(crate) fn version_mismatch() -> MountError {
    MountError::Server(
        "the mount's server is another version of ffs: its reply cannot be read".to_owned(),
    )
}

/// The ffs mount on `path`.
pub(crate) fn find_mount(path: &Path) -> Result<Mount, MountError> {
    let not_mounted = |found| MountError::NotMounted { path: path.to_owned(), found };
    let real = real_path(path).map_err(|e| not_mounted(host_words(e)))?;
    let found = mountinfo::find(&real).map_err(|e| MountError::kernel("mountinfo", e))?;
    match found {
        None => Err(not_mounted(describe_unmounted(&real)?)),
        Some(m) if !m.is_ours() => Err(not_mounted(format!(
            "the file system mounted there is {}, not one of ffs",
            m.fs_type
        ))),
        Some(m) => Ok(m),
    }
}

/// The image that is mounted on `path`, by the mount table.
///
/// # Errors
/// No ffs file system is mounted there.
pub fn mount_source(path: &Path) -> Result<PathBuf, MountError> {
    Ok(find_mount(path)?.source)
}

/// The real path of `path`. A mount on it may refuse access (a dead server, a private mount), so
/// the function falls back to the real path of the parent.
fn real_path(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize().or_else(|error| {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Err(error) };
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        Ok(dir.canonicalize().map_err(|_| error)?.join(name))
    })
}

/// A description of `path`, on which nothing is mounted.
fn describe_unmounted(path: &Path) -> Result<String, MountError> {
    match path.metadata() {
        Err(e) => return Ok(host_words(e)),
        Ok(m) if !m.is_dir() => {
            return Ok("not a directory that an image is mounted on".to_owned());
        }
        Ok(_) => {}
    }
    for above in path.ancestors().skip(1) {
        let found = mountinfo::find(above).map_err(|e| MountError::kernel("mountinfo", e))?;
        if found.is_some_and(|m| m.is_ours()) {
            return Ok(format!("nothing is mounted there; the mount is on {}", above.display()));
        }
    }
    Ok("nothing is mounted there".to_owned())
}

/// The error for a failed access to the server of `mount_point`.
fn access_error(mount_point: &Path, error: Errno, what: &'static str) -> MountError {
    let path = mount_point.to_owned();
    let owner = || Some(mountinfo::find(mount_point).ok()??.owner()?.to_owned());
    match (error, owner()) {
        (Errno::ACCESS, Some(owner)) => MountError::Private { path, owner },
        (Errno::PERM, Some(owner)) => MountError::NotAllowed { path, owner },
        _ => MountError::kernel(what, error),
    }
}

/// Sends a message on the control channel, and returns the text after `ok`.
pub(crate) fn command(mount_point: &Path, message: &str) -> Result<String, MountError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(mount_point, flags, Mode::empty())
        .map_err(|e| access_error(mount_point, e, "the mount's server does not answer"))?;
    command_on(&dir, mount_point, message)
}

/// Makes a snapshot of the ffs mount with `file`, as the new file `file`.
///
/// # Errors
/// `file` exists, or is on no ffs mount; [`MountError::Server`] gives the reason for a refusal.
/// [`MountError::NotAllowed`]: the caller is neither root nor the user who mounted. No new file
/// remains.
pub fn make_snapshot(file: &Path) -> Result<SnapshotStats, MountError> {
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = rustix::fs::open(file, flags, Mode::RUSR)
        .map_err(|e| access_error(file, e, "cannot be created"))?;
    let made = command_on(&fd, file, "snapshot").and_then(|answer| {
        let [nanos, groups, groups_again]: [String; 3] =
            words(&answer).ok_or_else(version_mismatch)?;
        let stats = || {
            Some(SnapshotStats {
                suspended: std::time::Duration::from_nanos(nanos.parse().ok()?),
                groups: groups.parse().ok()?,
                groups_again: groups_again.parse().ok()?,
            })
        };
        stats().ok_or_else(version_mismatch)
    });
    if made.is_ok() {
        // As mksnap_ffs does; only root may. The snapshot is made in any case.
        let _ = rustix::fs::fchown(&fd, None, Some(Gid::from_raw(GID_OPERATOR)));
        let _ = rustix::fs::fchmod(&fd, Mode::RUSR | Mode::RGRP);
    }
    if made.is_err() {
        // The error of the snapshot is the one that matters.
        let _ = std::fs::remove_file(file);
    }
    made
}

/// The snapshots of the volume that is mounted on `mount_point`, oldest first.
///
/// # Errors
/// No ffs file system is mounted there; [`MountError::NotAllowed`].
pub fn snapshots(mount_point: &Path) -> Result<Vec<SnapshotInfo>, MountError> {
    find_mount(mount_point)?;
    let answer = command(mount_point, "snapshots")?;
    let line = |line: &str| {
        let [ino, made, held, image]: [String; 4] = words(line)?;
        Some(SnapshotInfo {
            ino: Ino(ino.parse().ok()?),
            made: made.parse().ok()?,
            held: held.parse().ok()?,
            image: image.parse().ok()?,
        })
    };
    let lines = answer.lines().filter(|text| !text.is_empty());
    lines.map(|text| line(text).ok_or_else(version_mismatch)).collect()
}

/// Whether `file` is a snapshot on an ffs mount. Symbolic links are not followed.
///
/// # Errors
/// `file` cannot be opened, or is on no ffs mount.
pub fn is_snapshot(file: &Path) -> Result<bool, MountError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let fd = rustix::fs::open(file, flags, Mode::empty())
        .map_err(|e| access_error(file, e, "cannot be opened"))?;
    Ok(command_on(&fd, file, "is-snapshot")? == "1")
}

/// Removes `file`, a snapshot on an ffs mount.
///
/// # Errors
/// `file` is no snapshot, or on no ffs mount; it cannot be removed.
pub fn delete_snapshot(file: &Path) -> Result<(), MountError> {
    if !is_snapshot(file)? {
        return Err(MountError::Server("not a snapshot".to_owned()));
    }
    rustix::fs::unlink(file).map_err(|e| access_error(file, e, "cannot be removed"))
}

fn command_on(file: &OwnedFd, path: &Path, message: &str) -> Result<String, MountError> {
    let mut text = [0; MESSAGE];
    if message.len() >= MESSAGE || message.contains('\0') {
        return Err(MountError::Server("the name or the value is too long".to_owned()));
    }
    text[..message.len()].copy_from_slice(message.as_bytes());
    exchange(file, &mut text).map_err(|e| match e {
        Errno::NOTTY => {
            let found = "it is on another file system".to_owned();
            MountError::NotMounted { path: path.to_owned(), found }
        }
        e => access_error(path, e, "the mount's server refused"),
    })?;
    let end = text.iter().position(|b| *b == 0).unwrap_or(MESSAGE);
    let answer = String::from_utf8_lossy(&text[..end]);
    match answer.strip_prefix("ok") {
        Some(rest) => Ok(rest.trim_start().to_owned()),
        None => Err(MountError::Server(answer.trim_start_matches("error ").to_owned())),
    }
}
