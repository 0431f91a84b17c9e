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
//! | `recorder` | the requests of a mount for a caller that keeps a trace |
//! | `session` | the threads that serve a mount: `/dev/fuse`, or rings of io_uring |
//! | `signals`, `syncer` | the threads beside the workers: signals, periodic writes |
//! | `notifier` | replies that wait until the kernel has dropped cached pages |
//! | `server` | the FUSE operations, implemented with operations of [`ffs_core`] |
//! | `kernel`, `mountinfo` | mount(2), `fuseblk`, `fusermount3`; the mount table |
//! | `wire` | the FUSE protocol |
//! | `pressure` | detection of memory shortage |
//! | `options` | mount options |
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
#![cfg(target_os = "linux")]

mod bgfsck;
mod checker;
mod control;
mod daemon;
mod disk;
mod error;
mod helper;
mod kernel;
mod log;
mod mountinfo;
mod notifier;
mod options;
mod owners;
mod pressure;
mod quota;
mod recorder;
mod serve;
mod server;
mod session;
mod signals;
mod syncer;
mod trace;
mod umount;
mod wire;

pub use bgfsck::background_check;
pub use checker::{CheckFn, CheckResult, CheckRun};
pub use control::{
    Changed, Control, Entry, EntryKind, delete_snapshot, is_snapshot, make_snapshot, mount_source,
    snapshots,
};
pub use daemon::mount_daemon;
pub use disk::Disk;
pub use error::{MountError, NoIoUring};
pub use helper::run_as_helper;
pub use log::LogWriter;
pub use options::{OptionError, Options, UseIoUring, describe_options, parse_options};
pub use owners::Owners;
pub use recorder::{CallArgs, CallRecorder, ServedCall};
pub use serve::{MountRequest, Mounted, Opener, mount_foreground};
pub use syncer::Syncer;
pub use umount::{UnmountRequest, remount, unmount_and_wait};
