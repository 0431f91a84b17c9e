//! The parameters of mounts, unmounts and checks, and their results.

use crate::error::MountError;
use crate::options::Options;
use crate::recorder::CallRecorder;
use ffs_core::{Changed, Ffs};
use ffs_image::{OpenOptions, Opened};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Opens the image of a mount. The result may be a volume inside the image, such as a snapshot.
pub type Opener = fn(&OsStr, &OpenOptions) -> Result<Opened, MountError>;

/// The parameters of a mount.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// The image: `IMAGE` or `IMAGE@N`, or another name that `open` understands.
    pub image: OsString,
    /// The directory.
    pub mount_point: PathBuf,
    /// The mount options.
    pub options: Options,
    /// Opens the image.
    pub open: Opener,
    /// The volume, if it is open already: several mounts of one image share its lock.
    pub volume: Option<Opened>,
    /// Checks a volume in the background that was not unmounted cleanly.
    pub check: Option<CheckFn>,
    /// Set-id bits and devices have effect unless the options forbid it: the default of mount(8).
    pub like_mount: bool,
    /// Receives each request that was served.
    pub recorder: Option<Arc<dyn CallRecorder>>,
}

impl MountRequest {
    /// A request to mount `image` on `mount_point` with default options.
    pub fn new(image: impl Into<OsString>, mount_point: impl Into<PathBuf>) -> MountRequest {
        MountRequest {
            image: image.into(),
            mount_point: mount_point.into(),
            options: Options::default(),
            open: |image, how| Ok(ffs_image::open(image, how)?),
            volume: None,
            check: None,
            like_mount: false,
            recorder: None,
        }
    }
}

/// An established mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The real path of the directory.
    pub mount_point: PathBuf,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Remarks for the user: why the mount is read-only, anomalies of the partition table.
    pub notes: Vec<String>,
}

/// The parameters of an unmount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnmountRequest {
    /// The directory.
    pub mount_point: PathBuf,
    /// Detach the mount now. Its current users may continue, and the call waits for them.
    pub lazy: bool,
    /// Unmount even if the server does not answer, and do not wait.
    pub force: bool,
}

/// A check in the background, as its function gets it.
pub struct CheckRun<'a> {
    /// The mounted volume.
    pub fs: &'a Ffs,
    /// Check although nothing is known to be wrong.
    pub force: bool,
    /// Set to end the check.
    pub interrupt: Arc<AtomicBool>,
    /// To be called with everything that the check changes.
    pub changed: &'a (dyn Fn(Changed<'_>) + Sync),
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// The exit code of `ffs fsck -B`.
    pub code: u8,
    /// The result in words, one line.
    pub text: String,
}

/// Checks a mounted volume.
pub type CheckFn = fn(&CheckRun<'_>) -> CheckResult;
