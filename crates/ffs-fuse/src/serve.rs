//! A mount from the request to its end: opens the volume, mounts it, serves it, closes it.

use crate::error::{MountError, NoIoUring};
use crate::kernel::{self, MountParams};
use crate::options::UseIoUring;
use crate::params::{MountRequest, Mounted};
use crate::server::{Server, ServerOptions};
use crate::session::{Rings, Session};
use crate::signals::Caught;
use crate::syncer::Syncer;
use crate::wire::{Device, Features};
use ffs_core::{CheckNeed, Env, Ffs};
use ffs_device::lock::LockWait;
use ffs_image::OpenOptions;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for the lock of the image: `umount` of an ordinary FUSE mount returns before
/// the server has released it.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// Mounts, and serves until the file system is unmounted or a signal arrives. Calls `ready` when it
/// is mounted.
///
/// If the mount is still in use five seconds after a signal, the function writes everything and
/// returns all the same. The threads end with the process.
///
/// # Errors
/// The mount failed, or the last writes failed.
pub fn mount_foreground(
    request: &MountRequest,
    ready: impl FnOnce(&Mounted),
) -> Result<(), MountError> {
    let mount_point = kernel::mount_point(&request.mount_point)?;
    let signals = Caught::new().map_err(|e| MountError::kernel("signals", e))?;
    let (fs, source, mut notes) = open_volume(request, &mount_point)?;
    if let Some(reason) = fs.read_only_reason() {
        notes.push(format!("mounted read-only: {reason}"));
    } else if let Some(found) = fs.unchecked() {
        notes.push(unchecked_note(request, &fs, found));
    }
    let failed =
        |source| MountError::FileSystem { image: kernel::display(&source_of(request)), source };
    let server = || Server::new(fs.clone(), server_options(request, &fs)).map_err(failed);
    let params = mount_params(request, &source, &mount_point, fs.is_read_only());
    let session = match connect(request, &params, server) {
        Ok(connected) => {
            notes.extend(connected.note());
            connected.session
        }
        Err(e) => {
            // Only the clean flag has changed. The first error is the one to report.
            let _ = fs.unmount();
            return Err(e);
        }
    };
    let watch = signals.watch(session.clone()).map_err(|e| MountError::kernel("thread", e))?;
    let syncer = Syncer::start(fs.clone(), {
        let session = session.clone();
        move || session.idle()
    })
    .map_err(|e| MountError::kernel("thread", e))?;
    kernel::widen_readahead(&mount_point);
    ready(&Mounted { mount_point, read_only: fs.is_read_only(), notes });
    if request.options.bgfsck {
        session.check_in_background();
    }
    let ended = session.wait(&fs);
    drop((syncer, watch));
    if let Some(recorder) = &request.recorder {
        recorder.end();
    }
    ended
}

/// The remark on a volume that is mounted read-write although it was not unmounted cleanly.
fn unchecked_note(request: &MountRequest, fs: &Ffs, found: &str) -> String {
    let checks = request.options.bgfsck && request.check.is_some();
    if checks && fs.check_need() == CheckNeed::Wanted {
        return "it was not unmounted cleanly: checking it in the background".to_owned();
    }
    format!("mounted without a check: {found}")
}

fn source_of(request: &MountRequest) -> PathBuf {
    PathBuf::from(&request.image)
}

/// Opens the image and mounts the file system in it.
fn open_volume(
    request: &MountRequest,
    mount_point: &Path,
) -> Result<(Ffs, PathBuf, Vec<String>), MountError> {
    let how = OpenOptions {
        write: !request.options.core.read_only,
        lock_wait: LockWait::UpTo(LOCK_WAIT),
        kernel_may_use: true,
        ..OpenOptions::default()
    };
    let opened = match &request.volume {
        Some(volume) => volume.clone(),
        None => (request.open)(&request.image, &how)?,
    };
    let mut options = request.options.core.clone();
    options.mounted_on = kernel::display(mount_point);
    let fs = Ffs::mount(opened.device, &options, Env::system()).map_err(|source| {
        MountError::FileSystem { image: request.image.to_string_lossy().into_owned(), source }
    })?;
    let mut notes = opened.notes;
    notes.extend(fs.stale().map(String::from));
    Ok((fs, opened.path, notes))
}

fn server_options(request: &MountRequest, fs: &Ffs) -> ServerOptions {
    let o = &request.options;
    let writeback = o.writeback && fs.may_write();
    ServerOptions {
        timeouts: o.timeouts(writeback),
        default_permissions: o.kernel_checks(),
        writeback,
        splice: o.splice,
        xattr: o.xattr,
        no_open: o.opens_alone(),
        atime: o.core.atime,
        owner: rustix::process::geteuid().as_raw(),
        fakeroot: o.fakeroot,
        owners: o.owners.clone(),
        bgfsck: o.bgfsck,
        recorded: request.recorder.is_some(),
    }
}

fn mount_params(
    request: &MountRequest,
    source: &Path,
    mount_point: &Path,
    read_only: bool,
) -> MountParams {
    let o = &request.options;
    let file = source.canonicalize().unwrap_or_else(|_| source.to_owned());
    let block_device = kernel::is_block_device(&file);
    let shown = o.fsname.as_ref().filter(|_| !block_device).map(PathBuf::from);
    // The kernel opens a block device by its source.
    let named =
        || if block_device { file.clone() } else { with_rest(&file, source, &request.image) };
    MountParams {
        source: shown.unwrap_or_else(named),
        mount_point: mount_point.to_owned(),
        block_device,
        read_only,
        allow_other: o.admits_others(),
        default_permissions: o.kernel_checks(),
        suid: o.suid.unwrap_or(request.like_mount && !o.owners.differ()),
        dev: o.dev.unwrap_or(request.like_mount && !o.owners.differ()),
        exec: o.exec,
    }
}

/// The name of a mount of `file` in the mount table. A partition or a snapshot that `image` names
/// behind `source` is a part of it, so that mount(8) recognises the line of fstab. mount(8)
/// resolves the links in the name of a file, but not those in `IMAGE@N`.
fn with_rest(file: &Path, source: &Path, image: &OsStr) -> PathBuf {
    let rest = image.as_bytes().strip_prefix(source.as_os_str().as_bytes());
    match rest.filter(|rest| matches!(rest.first(), Some(b'@' | b':'))) {
        Some(_) if source.is_absolute() => PathBuf::from(image),
        Some(rest) => {
            let mut name = file.as_os_str().to_owned();
            name.push(OsStr::from_bytes(rest));
            name.into()
        }
        None => file.to_owned(),
    }
}

/// A session that serves a mount.
struct Connected {
    session: Arc<Session>,
    /// Whether requests pass over io_uring. If they do not although the kernel offers it, the
    /// reason.
    io_uring: Result<(), Option<NoIoUring>>,
}

impl Connected {
    /// The remark for the user.
    fn note(&self) -> Option<String> {
        match &self.io_uring {
            Ok(()) => Some("requests pass over io_uring".to_owned()),
            Err(reason) => {
                reason.as_ref().map(|why| format!("requests pass over /dev/fuse: {why}"))
            }
        }
    }
}

/// Mounts and starts a session, over io_uring if the options and the kernel permit it. Leaves
/// nothing mounted if that fails. `server` makes a server.
fn connect(
    request: &MountRequest,
    params: &MountParams,
    server: impl Fn() -> Result<Server, MountError>,
) -> Result<Connected, MountError> {
    let mut io_uring = request.options.io_uring;
    let mut refused = None;
    loop {
        let server = server()?;
        let device = Arc::new(Device::new(kernel::mount(params)?));
        let error = match start_session(device, server, &params.mount_point, request, io_uring) {
            Ok(connected) if refused.is_some() => {
                return Ok(Connected { io_uring: Err(refused), ..connected });
            }
            Ok(connected) => return Ok(connected),
            Err(e) => e,
        };
        // The mount is dead: no thread serves it, or not all do that the kernel expects. With force
        // the kernel waits for no reply.
        let dead = kernel::Force { lazy: true, force: true };
        let _ = kernel::unmount(&params.mount_point, dead);
        match error {
            // The kernel expects the rings, so this mount cannot be used.
            MountError::NoIoUring(why) if io_uring == UseIoUring::Auto => {
                (refused, io_uring) = (Some(why), UseIoUring::Off);
            }
            e => return Err(e),
        }
    }
}

/// Makes rings if the option permits it, given the features that the kernel has. There is no
/// reason for the user if no rings were expected.
fn make_rings(io_uring: UseIoUring, offered: Features) -> Result<Rings, Option<NoIoUring>> {
    match io_uring {
        UseIoUring::Off => Err(None),
        _ if offered.has(Features::OVER_IO_URING) => {
            Rings::new().map_err(|e| Some(NoIoUring::Forbidden(e)))
        }
        UseIoUring::Auto => Err(None),
        UseIoUring::On => Err(Some(NoIoUring::NotOffered)),
    }
}

/// Performs the handshake and starts the threads that serve.
fn start_session(
    device: Arc<Device>,
    mut server: Server,
    mount_point: &Path,
    request: &MountRequest,
    io_uring: UseIoUring,
) -> Result<Connected, MountError> {
    let mut rings = Err(None);
    let features = device.handshake(|offered| {
        rings = make_rings(io_uring, offered);
        let wanted = server.features();
        if rings.is_ok() { wanted.with(Features::OVER_IO_URING) } else { wanted }
    });
    let features = features.map_err(MountError::Session)?;
    let rings = match rings {
        Err(Some(why)) if io_uring == UseIoUring::On => return Err(why.into()),
        rings => rings,
    };
    server.set_features(features);
    if let Ok(rings) = &rings {
        rings.register(&device).map_err(NoIoUring::Refused)?;
    }
    let (check, recorder) = (request.check, request.recorder.clone());
    let start = || {
        let sched_idle = request.options.sched_idle;
        let session =
            Session::new(device, server, mount_point.to_owned(), check, recorder, sched_idle)?;
        let io_uring = match rings {
            Ok(rings) => Ok(session.start_rings(rings, request.options.threads)?),
            Err(why) => {
                session.start(request.options.threads)?;
                Err(why)
            }
        };
        Ok(Connected { session, io_uring })
    };
    start().map_err(MountError::Session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_table_names_the_partition() {
        let named = |file: &str, source: &str, image: &str| {
            with_rest(Path::new(file), Path::new(source), OsStr::new(image))
        };
        for (file, source, image, expected) in [
            ("/srv/a.img", "a.img", "a.img", "/srv/a.img"),
            ("/srv/a.img", "a.img", "a.img@2", "/srv/a.img@2"),
            ("/srv/a.img", "/link/a.img", "/link/a.img", "/srv/a.img"),
            ("/srv/a.img", "/link/a.img", "/link/a.img@p2", "/link/a.img@p2"),
            ("/srv/a.img", "a.img", "a.img@2:/.snap/day", "/srv/a.img@2:/.snap/day"),
            ("/srv/a.img", "a.img", "a.img:/.snap/day", "/srv/a.img:/.snap/day"),
            ("nbd://h/x", "nbd://h/x", "nbd://h/x@2", "nbd://h/x@2"),
            ("/srv/a", "a", "ab", "/srv/a"),
        ] {
            assert_eq!(named(file, source, image), Path::new(expected), "{image}");
        }
    }
}
