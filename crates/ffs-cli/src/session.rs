//! A session: an image that is opened, locked and mounted for one command, or the image that a
//! shell holds open for all of its commands.
//!
//! # Invariants
//! 1. Commands that read mount read-only and hold the shared lock. They accept images that are
//!    dirty, have a journal or have snapshots, and change nothing.
//! 2. Commands that write hold the exclusive lock. They unmount cleanly, also after an error or
//!    SIGINT.
//! 3. On a volume with the flag of soft updates, commands that write order their writes. If such a
//!    command is killed, the image is in a state that a power failure may leave. On other volumes
//!    the writes have no order, and the image needs a check after a kill.
//! 4. In `ffs shell` the functions that open an image share what `held` has, if it is that
//!    image. Such a session does not unmount.

pub(crate) mod held;
pub(crate) mod snapshot;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::SystemTime;

use bsdffs::copy::ImageRef;
pub(crate) use bsdffs::holds_ufs;
use ffs_admin::fsck::{JournalUse, recover_by_journal};
use ffs_core::{Atime, Cred, Env, Ffs, MountOptions, OrderingPolicy, TunableValues};
use ffs_device::{BlockDevice, Timestamp};
use ffs_fuse::MountError;
use ffs_image::{OpenError, OpenOptions, Opened};
use rustix::io::Errno;

use crate::fail::{Failure, shell_word, show};
use crate::spec::{Place, outside};
use crate::{expand, signals, stdin};

/// A mounted image.
pub(crate) struct Session {
    /// The file system.
    pub ffs: Ffs,
    /// The credentials of the command: offline commands act as root.
    pub cred: Cred,
    image: String,
    /// The device of the mounted volume.
    pub device: Arc<dyn BlockDevice>,
    /// The open image, if the session opened it.
    opened: Option<Opened>,
    /// The session unmounts.
    mounted: bool,
}

/// How another image is related to the one of a session.
pub(crate) enum Beside {
    /// It is the same file system, perhaps under another name.
    Same,
    /// It is another partition of the same disk, mounted to be read under the lock of the session.
    Partition(Box<Session>),
    /// It is on another disk.
    No,
}

impl Session {
    /// Mounts `image` to read it.
    pub(crate) fn read(image: &OsStr) -> Result<Session, Failure> {
        Session::read_with(image, &MountOptions { read_only: true, ..offline() })
    }

    /// Mounts `image` to read it, with `options` for a read-only mount.
    pub(crate) fn read_with(image: &OsStr, options: &MountOptions) -> Result<Session, Failure> {
        if let Some(session) = held::session(image, false) {
            return session;
        }
        let opened = open(image, false)?;
        let device = Arc::clone(&opened.device);
        let mut session = Session::mount(show(image.as_bytes()), device, options, Env::system())?;
        session.opened = Some(opened);
        Ok(session)
    }

    /// Mounts the volume on `device`, which is called `image`, to read it.
    pub(crate) fn on(image: &OsStr, device: Arc<dyn BlockDevice>) -> Result<Session, Failure> {
        let options = MountOptions { read_only: true, ..offline() };
        Session::mount(show(image.as_bytes()), device, &options, Env::system())
    }

    /// How `image` is related to the image of this session. The lock of this session refuses a
    /// second open of the disk, so another partition of it shares the device and the lock.
    ///
    /// # Errors
    /// `image` names a partition that is missing, cannot be mounted, or overlaps the one of this
    /// session.
    pub(crate) fn beside(&self, image: &OsStr) -> Result<Beside, Failure> {
        let Some(own) = &self.opened else { return Ok(Beside::No) };
        let options = OpenOptions { probe: Some(holds_ufs), ..OpenOptions::default() };
        let Some(other) = own.beside(image, &options).map_err(Failure::plain)? else {
            return Ok(Beside::No);
        };
        let (a, b) = (own.range(), other.range());
        if a == b {
            return Ok(Beside::Same);
        }
        if a.start < b.end && b.start < a.end {
            let (name, image) = (show(image.as_bytes()), &self.image);
            return Err(Failure::new(name, format!("overlaps {image}, which is being changed"))
                .hint("copy to a directory of the host first, then into the image"));
        }
        warn_of_notes(&show(image.as_bytes()), &other.notes);
        let session = Session::on(image, other.device)?;
        Ok(Beside::Partition(Box::new(session)))
    }

    /// Mounts `image` to change it.
    pub(crate) fn write(image: &OsStr) -> Result<Session, Failure> {
        Session::write_with(image, &offline())
    }

    /// Mounts `image` to change it, with `options`.
    pub(crate) fn write_with(image: &OsStr, options: &MountOptions) -> Result<Session, Failure> {
        signals::listen();
        if let Some(session) = held::session(image, true) {
            return session;
        }
        let opened = open(image, true)?;
        let name = show(image.as_bytes());
        let device = Arc::clone(&opened.device);
        if let Some(note) = recover(&device) {
            crate::output::note(format!("{name}: {note}"));
        }
        let mut session = Session::mount(name, device, options, Env::system())?;
        session.opened = Some(opened);
        if session.ffs.is_read_only() {
            let why = session.ffs.read_only_reason().unwrap_or("it is read-only");
            let why = why.replace("ffs fsck", &format!("ffs fsck {}", session.word()));
            return Err(Failure::new(&session.image, format!("cannot be changed: {why}")));
        }
        if let Some(found) = session.ffs.unchecked() {
            let found = found.replace("ffs fsck", &format!("ffs fsck {}", session.word()));
            crate::output::note(format!("{}: changed without a check: {found}", session.image));
        }
        Ok(session)
    }

    /// Mounts a device.
    pub(crate) fn mount(
        image: String,
        device: Arc<dyn BlockDevice>,
        options: &MountOptions,
        env: Env,
    ) -> Result<Session, Failure> {
        let ffs = Ffs::mount(Arc::clone(&device), options, env).map_err(|error| {
            let failure = Failure::new(&image, &error);
            match &error {
                ffs_core::Error::Format(error) => failure.advised(error, &image),
                ffs_core::Error::NoQuotaFile(_) | ffs_core::Error::UnsafeQuotaFile { .. } => {
                    failure
                }
                _ => {
                    let word = shell_word(&image);
                    failure.hint(format!("`ffs fsck -n {word}` may show the cause"))
                }
            }
        })?;
        if let Some(why) = ffs.stale() {
            crate::output::warn(format!("{image}: {why}"));
        }
        Ok(Session { ffs, cred: Cred::root(), image, device, opened: None, mounted: true })
    }

    /// The mounted image, for copies.
    pub(crate) fn image_ref(&self) -> ImageRef<'_> {
        ImageRef { ffs: &self.ffs, cred: &self.cred, name: &self.image }
    }

    /// The device of an image that the session opened.
    pub(crate) fn device(&self) -> Option<&dyn BlockDevice> {
        self.opened.as_ref().map(|opened| &*opened.device)
    }

    /// The image as its user named it.
    pub(crate) fn image(&self) -> &str {
        &self.image
    }

    /// The image as one word of a shell.
    pub(crate) fn word(&self) -> Cow<'_, str> {
        shell_word(&self.image)
    }

    /// Unmounts. When this returns, everything is on the image.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let image = self.image.clone();
        self.close().map_err(|error| unwritten(&image, &error))
    }

    /// Unmounts.
    pub(crate) fn close(mut self) -> ffs_core::Result<()> {
        match std::mem::replace(&mut self.mounted, false) {
            true => self.ffs.unmount(),
            false => Ok(()),
        }
    }

    /// Unmounts. An error in `result` has precedence over an error of the unmount, unless it is
    /// that of a full volume: if the unmount fails then, what was done before is not on the image
    /// either. In a shell, which keeps the image mounted, all is written instead.
    pub(crate) fn finish_with<T>(self, result: Result<T, Failure>) -> Result<T, Failure> {
        let is_full = matches!(&result, Err(failure) if failure.full);
        let written = match is_full && !self.mounted {
            true => self.ffs.sync().map_err(|error| unwritten(&self.image, &error)),
            false => Ok(()),
        };
        match (result, written.and_then(|()| self.finish())) {
            (Err(failure), Err(unwritten)) if failure.full => Err(unwritten),
            (Err(failure), _) | (Ok(_), Err(failure)) => Err(failure),
            (Ok(value), Ok(())) => Ok(value),
        }
    }
}

/// The failure of an image that was not written wholly.
fn unwritten(image: &str, error: &ffs_core::Error) -> Failure {
    let first = match Errno::from_raw_os_error(error.errno()) {
        Errno::NOSPC => "free space on the file system of the image, and ",
        _ => "",
    };
    Failure::new(image, format!("not everything could be written: {error}"))
        .hint(format!("{first}check it with: ffs fsck {}", shell_word(image)))
}

/// Recovers a volume that was not unmounted by its soft-updates journal, if that can be used.
/// Returns a message about it.
pub(crate) fn recover(device: &Arc<dyn BlockDevice>) -> Option<String> {
    let now = Timestamp::from(SystemTime::now()).secs;
    match recover_by_journal(device, now)? {
        JournalUse::Recovered(done) => Some(format!("recovered by the journal: {done}")),
        JournalUse::Unusable(why) => Some(format!("the journal cannot be used: {why}")),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.mounted {
            // The caller already returns an error. If this fails, the image stays marked dirty.
            let _ = self.ffs.unmount();
        }
    }
}

/// Inodes in memory. A command walks a tree once, so more would not help.
const OFFLINE_VNODES: u64 = 8192;

/// How offline commands mount.
pub(crate) fn offline() -> MountOptions {
    MountOptions {
        ordering: OrderingPolicy::Async,
        atime: Atime::Never,
        bsdgroups: true,
        tunables: TunableValues { maxvnodes: OFFLINE_VNODES, ..TunableValues::default() },
        ..MountOptions::default()
    }
}

/// Opens and locks `image`, which may be a snapshot in an image.
pub(crate) fn open(image: &OsStr, write: bool) -> Result<Opened, Failure> {
    try_open(image, write, "")
}

/// Opens and locks `image`. If that fails only because it is to be changed, `read_only` is added to
/// the message: what to do to read it.
pub(crate) fn try_open(image: &OsStr, write: bool, read_only: &str) -> Result<Opened, Failure> {
    let advised = |failure: Failure, readable: bool| match readable && !read_only.is_empty() {
        true => failure.hint(read_only),
        false => failure,
    };
    if let Some(opened) = held::opened(image, write) {
        return opened;
    }
    match snapshot::inside(image) {
        Some(inside) if write => Err(advised(snapshot::refusal(&inside), true)),
        Some(inside) => {
            let outer = noted(&inside.image, &options(false)).map_err(|error| unopened(&error))?;
            snapshot::open(outer, inside)
        }
        None => noted(image, &options(write))
            .map_err(|error| advised(unopened(&error), error.may_be_readable())),
    }
}

/// Opens and locks `image` with `options`. Prints a warning for each defect of the partition table.
pub(crate) fn open_with(image: &OsStr, options: &OpenOptions) -> Result<Opened, Failure> {
    match snapshot::inside(image) {
        Some(inside) => Err(snapshot::refusal(&inside)),
        None => noted(image, options).map_err(|error| unopened(&error)),
    }
}

/// The message for an image that could not be opened.
fn unopened(error: &OpenError) -> Failure {
    // A spooled or expanded image takes time.
    if signals::interrupted() { Failure::interrupted() } else { Failure::plain(error) }
}

/// Opens and locks `image`, which may be a snapshot in an image, for a mount.
pub(crate) fn open_to_mount(image: &OsStr, how: &OpenOptions) -> Result<Opened, MountError> {
    let how = OpenOptions { probe: Some(holds_ufs), ..*how };
    let Some(inside) = snapshot::inside(image) else {
        let mut opened = match open_outside(image, &how) {
            // mount(8) mounts such a device read-only, too.
            Err(error) if error.is_write_protected() => {
                return Ok(open_outside(image, &OpenOptions { write: false, ..how })?);
            }
            other => other?,
        };
        if how.write {
            opened.notes.extend(recover(&opened.device));
        }
        return Ok(opened);
    };
    let how = OpenOptions { write: false, ..how };
    let opened = open_outside(&inside.image, &how)?;
    snapshot::open(opened, inside).map_err(|failure| MountError::Inside(failure.text))
}

/// Opens an image that is no snapshot: also standard input, and with `--write` a compressed image.
fn open_outside(image: &OsStr, how: &OpenOptions) -> Result<Opened, OpenError> {
    let image = stdin::resolved(bare(image), how.write)?;
    expand::open(&image, how)
}

/// The image that `IMAGE:/` names.
fn bare(image: &OsStr) -> OsString {
    match outside(image) {
        Place::Image(inside) => inside.image,
        Place::Host(_) => image.to_owned(),
    }
}

fn options(write: bool) -> OpenOptions {
    OpenOptions { write, probe: Some(holds_ufs), ..OpenOptions::default() }
}

fn noted(image: &OsStr, options: &OpenOptions) -> Result<Opened, OpenError> {
    let opened = open_outside(image, options)?;
    warn_of_notes(&show(image.as_bytes()), &opened.notes);
    Ok(opened)
}

/// Prints the problems of the partition table of `image`.
pub(crate) fn warn_of_notes(image: &str, notes: &[String]) {
    for note in notes {
        crate::output::warn(format!("{image}: {note}"));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use ffs_core::{NodeKind, WriteMode};
    use ffs_device::MemDevice;
    use ffs_ondisk::{Endian, Format};
    use std::path::PathBuf;

    /// Two images as a kill leaves them: of a command in progress, and of the next command.
    fn killed_twice(soft_updates: bool, dir: &std::path::Path) -> [PathBuf; 2] {
        let fresh = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, 16 << 20);
        let fresh = fresh.unwrap();
        let options = ffs_admin::tunefs::TunefsOptions {
            soft_updates: Some(soft_updates),
            ..Default::default()
        };
        ffs_admin::tunefs::tunefs(&fresh, &options).unwrap();
        let names = ["fresh", "first", "second"].map(|name| dir.join(name));
        std::fs::write(&names[0], fresh.to_vec()).unwrap();
        for n in 0..2 {
            let Ok(session) = Session::write(names[n].as_os_str()) else { break };
            let (fs, cred) = (&session.ffs, &session.cred);
            let name = format!("file {n}");
            let root = fs.root().unwrap();
            let v = fs.create(cred, &root, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
            fs.write(cred, &v, 0, &[7; 100_000], WriteMode::default()).unwrap();
            fs.sync().unwrap();
            fs.unlink(cred, &root, name.as_bytes()).unwrap();
            std::fs::copy(&names[n], &names[n + 1]).unwrap();
        }
        let [_, first, second] = names;
        // A process that another test starts has the files that are open, and their locks, until it
        // executes its program. So the file that was open is not opened again.
        let copy = dir.join("copy");
        std::fs::copy(&first, &copy).unwrap();
        [copy, second]
    }

    #[test]
    fn a_killed_command_keeps_what_the_superblock_promises() {
        let dir = tempfile::tempdir().unwrap();
        for image in killed_twice(true, dir.path()) {
            let session = Session::write(image.as_os_str()).map_err(|_| "refused").unwrap();
            assert!(session.ffs.unchecked().is_some());
            session.finish().map_err(|_| "not finished").unwrap();
            let image = MemDevice::from_bytes(&std::fs::read(&image).unwrap());
            let preen = ffs_admin::fsck::FsckOptions::preen();
            let report = ffs_admin::fsck::Fsck::new(Arc::new(image), preen).run();
            assert!(report.clean, "{report:#?}");
        }
    }

    #[test]
    fn a_killed_command_without_soft_updates_leaves_an_image_to_check() {
        let dir = tempfile::tempdir().unwrap();
        let [image, _] = killed_twice(false, dir.path());
        assert!(Session::write(image.as_os_str()).is_err());
    }
}
