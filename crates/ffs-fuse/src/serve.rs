//! From a request to mount to a served mount, and to its end.

use crate::error::MountError;
use crate::kernel::{self, Plan};
use crate::options::Options;
use crate::server::{Rules, Server};
use crate::session::Session;
use crate::signals::Caught;
use crate::syncer::Syncer;
use crate::wire::Device;
use ffs_core::{Env, Ffs};
use ffs_device::lock::LockWait;
use ffs_device::open::{self, OpenOptions};
use ffs_device::partition::Probe;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server that is just ending gets this long to let the image go: `umount` of an ordinary FUSE
/// mount does not wait for it.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// What to mount, where and how.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// The image: `IMAGE` or `IMAGE@N`.
    pub image: OsString,
    /// The directory.
    pub mount_point: PathBuf,
    /// The words behind `-o`.
    pub options: Options,
    /// Recognises the file system on partitions.
    pub probe: Option<Probe>,
    /// Set-id bits and devices work unless the options say no: as mount(8) does it.
    pub like_mount: bool,
}

impl MountRequest {
    /// Mounts `image` on `mount_point`.
    pub fn new(image: impl Into<OsString>, mount_point: impl Into<PathBuf>) -> MountRequest {
        MountRequest {
            image: image.into(),
            mount_point: mount_point.into(),
            options: Options::default(),
            probe: None,
            like_mount: false,
        }
    }
}

/// A mount that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The directory, by its real name.
    pub mount_point: PathBuf,
    /// Whether it is read-only.
    pub read_only: bool,
    /// What the user should know: why it is read-only, what was odd about the partition table.
    pub notes: Vec<String>,
}

/// Mounts and serves until the file system is unmounted or a signal asks for the end. Calls `ready`
/// when it is mounted.
///
/// A mount that is still in use some seconds after a signal is cut off: its threads end with the
/// process.
///
/// # Errors
/// It cannot be mounted, or the last writes failed.
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
        notes.push(format!("mounted without a check: {found}"));
    }
    let failed =
        |source| MountError::FileSystem { image: kernel::display(&source_of(request)), source };
    let rules = rules(&request.options);
    let served = Server::new(fs.clone(), rules).map_err(failed).and_then(|server| {
        let device = mount(request, &source, &mount_point, fs.is_read_only())?;
        let session = begin(device, server, &mount_point, request.options.threads)?;
        Ok(session)
    });
    let session = match served {
        Ok(session) => session,
        Err(e) => {
            // Nothing was changed but the mark of the mount; the first error is the one to tell.
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
    let ended = session.wait(&fs);
    drop((syncer, watch));
    ended
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
        probe: request.probe,
        whole_disk: false,
        kernel_may_claim: true,
    };
    let opened = open::open(&request.image, &how)?;
    let mut options = request.options.core.clone();
    options.mounted_on = kernel::display(mount_point);
    let fs = Ffs::mount(opened.device, &options, Env::system()).map_err(|source| {
        MountError::FileSystem { image: request.image.to_string_lossy().into_owned(), source }
    })?;
    Ok((fs, opened.path, opened.notes))
}

fn rules(o: &Options) -> Rules {
    Rules {
        timeouts: o.timeouts(),
        default_permissions: o.default_permissions,
        writeback: o.writeback,
        atime: o.core.atime,
        owner: rustix::process::geteuid().as_raw(),
    }
}

fn mount(
    request: &MountRequest,
    source: &Path,
    mount_point: &Path,
    read_only: bool,
) -> Result<Device, MountError> {
    let o = &request.options;
    let root = rustix::process::geteuid().is_root();
    let source = source.canonicalize().unwrap_or_else(|_| source.to_owned());
    let block_device = kernel::is_block_device(&source);
    let shown = o.fsname.as_ref().filter(|_| !block_device).map(PathBuf::from);
    let plan = Plan {
        source: shown.unwrap_or(source),
        mount_point: mount_point.to_owned(),
        block_device,
        read_only,
        allow_other: o.allow_other.unwrap_or(root),
        default_permissions: o.default_permissions,
        suid: o.suid.unwrap_or(request.like_mount),
        dev: o.dev.unwrap_or(request.like_mount),
        exec: o.exec,
    };
    Ok(Device::new(kernel::mount(&plan)?))
}

/// The handshake, and the workers; takes the mount away again if that fails.
fn begin(
    device: Device,
    mut server: Server,
    mount_point: &Path,
    threads: usize,
) -> Result<std::sync::Arc<Session>, MountError> {
    let begun = device.handshake(server.features()).and_then(|features| {
        server.agreed(features);
        let session = Session::new(device, server, mount_point.to_owned())?;
        session.start(threads)?;
        Ok(session)
    });
    begun.map_err(|e| {
        let lazy = kernel::Force { lazy: true, force: false };
        // The device is closed: the mount is dead, and whoever sees it should not have to clean up.
        let _ = kernel::unmount(mount_point, lazy);
        MountError::Session(e)
    })
}
