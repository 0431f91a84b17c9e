//! A FUSE server for UFS volumes: mounts an image or a disk as a directory of Linux.
//!
//! | module, top down | holds |
//! | --- | --- |
//! | `helper` | the command as a helper of mount(8) and umount(8) |
//! | `daemon` | background mounts |
//! | `control` | the client of a running mount: switches and counters |
//! | `quota` | the same client: quotas |
//! | `umount` | unmounting, which waits until everything is durable; remounting |
//! | `disk` | a block device of this process as a file |
//! | `serve` | a mount from the [`MountRequest`] to its end |
//! | `log`, `trace` | the log of a server; the trace of its requests |
//! | `recorder`, `served` | the requests of a mount for a caller that keeps a trace |
//! | `session` | the threads that serve a mount: `/dev/fuse`, or rings of io_uring |
//! | `signals`, `syncer` | the threads beside the workers: signals, periodic writes |
//! | `notifier` | replies that wait until the kernel has dropped cached pages |
//! | `server` | the FUSE operations, implemented with operations of [`ffs_core`] |
//! | `kernel`, `mountinfo` | mount(2), `fuseblk`, `fusermount3`; the mount table |
//! | `wire` | the FUSE protocol |
//! | `pressure` | detection of memory shortage |
//! | `channel` | the ioctl between clients and server |
//! | `params`, `options` | parameters of a mount and their results; mount options |
//! | `elsewhere` | in place of a server on systems other than Linux |
//!
//! The crate uses neither on-disk structures nor buffers: one operation of the core serves one
//! request.
//!
//! # Example
//!
//! ```no_run
//! use ffs_fuse::{MountRequest, UnmountRequest, mount_daemon, unmount_and_wait};
//!
//! let mounted = mount_daemon(&MountRequest::new("disk.img", "/mnt"))?;
//! println!("mounted on {}", mounted.mount_point.display());
//! unmount_and_wait(&UnmountRequest { mount_point: "/mnt".into(), ..Default::default() })?;
//! # Ok::<(), ffs_fuse::MountError>(())
//! ```
//!
//! References: `spec/known-failures.md` §1. `docs/dependencies.md` explains why this crate
//! implements the protocol itself.
//!
//! On systems other than Linux the crate has the same interface, and mounts nothing.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only a server uses it"))]

mod bgfsck;
mod channel;
#[cfg(target_os = "linux")]
mod checker;
mod control;
#[cfg(target_os = "linux")]
mod daemon;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod error;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod kernel;
mod log;
mod mountinfo;
#[cfg(target_os = "linux")]
mod notifier;
mod options;
mod owners;
mod params;
mod pressure;
mod quota;
mod recorder;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod served;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod session;
#[cfg(target_os = "linux")]
mod signals;
mod syncer;
#[cfg(target_os = "linux")]
mod trace;
#[cfg(target_os = "linux")]
mod umount;
#[cfg(target_os = "linux")]
mod wire;

pub use bgfsck::background_check;
pub use control::{
    Changed, Control, Entry, EntryKind, delete_snapshot, is_snapshot, make_snapshot, mount_source,
    snapshots,
};
#[cfg(target_os = "linux")]
pub use daemon::mount_daemon;
#[cfg(target_os = "linux")]
pub use disk::Disk;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{
    Disk, mount_daemon, mount_foreground, remount, run_as_helper, unmount_and_wait,
};
pub use error::{MountError, NoIoUring};
#[cfg(target_os = "linux")]
pub use helper::run_as_helper;
pub use log::LogWriter;
pub use mountinfo::mounts_of_user;
pub use options::{OptionError, Options, UseIoUring, describe_options, parse_options};
pub use owners::Owners;
pub use params::{CheckFn, CheckResult, CheckRun, MountRequest, Mounted, Opener, UnmountRequest};
pub use recorder::{CallArgs, CallRecorder, ServedCall};
#[cfg(target_os = "linux")]
pub use serve::mount_foreground;
pub use syncer::Syncer;
#[cfg(target_os = "linux")]
pub use umount::{remount, unmount_and_wait};
